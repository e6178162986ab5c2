//! Hosts of the realm's list where no discovery shows them: they are dialled at their listed
//! addresses, and one that cannot be reached says why, on both sides.

use crate::network::agent::{Host, are_connected, eventually, first};
use crate::network::{Lan, is_skipped};

/// Nobody is found by multicast, and nobody can reach the discovery.
const HIDDEN: [&str; 4] = ["start", "--no-scouting", "--discovery", "127.0.0.1:7451"];

/// Two hosts of a realm that no discovery shows to each other.
fn hidden(lan: &Lan) -> [Host; 2] {
    let a = first(lan);
    let b = Host::on(lan, 2);
    a.take_in(&b, "b");
    for host in [&a, &b] {
        host.stop();
        host.said(&HIDDEN);
    }
    [a, b]
}

fn says(host: &Host, of: &str, parts: &[&str]) {
    let reason = || {
        let status = host.status_of(of);
        status.map_or_else(String::new, |status| status.reason)
    };
    let mut last = String::new();
    eventually(&format!("{of}: {parts:?}"), || {
        let now = reason();
        if now != last {
            eprintln!("{of}: {now}");
            last.clone_from(&now);
        }
        parts.iter().all(|part| now.contains(part))
    });
}

#[test]
fn undiscovered_hosts_connect_at_listed_addresses() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(31);
    let [a, b] = hidden(&lan);
    eventually("they are connected", || are_connected(&a, &b));
    // Both ways again, whoever comes back.
    for gone in [&b, &a] {
        gone.stop();
        gone.said(&HIDDEN);
        eventually("they are connected again", || are_connected(&a, &b));
    }
    a.said(&["remove", "b"]);
    eventually("it is put out", || !a.is_connected_with("b"));
}

#[test]
fn host_that_cannot_be_reached_says_why() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(32);
    let [a, b] = hidden(&lan);
    eventually("they are connected", || are_connected(&a, &b));
    let (at_a, at_b) = (a.plug.address(), b.plug.address());
    // Nobody listens: said where it is dialled from, and where that is waited for.
    b.stop();
    let refused = ["host b", &at_b, "refused", "`hythe host start`"];
    says(&a, "b", &refused);
    b.said(&HIDDEN);
    eventually("they are connected", || are_connected(&a, &b));
    a.stop();
    says(&b, "a", &["host a", &at_a, "refused", "`hythe host start`"]);
    a.said(&HIDDEN);
    eventually("they are connected", || are_connected(&a, &b));
    // No way leads there.
    let interface = a.plug.interface();
    a.space.run(&format!("ip addr flush dev {interface}"));
    says(
        &a,
        "b",
        &["host b", &at_b, "unreachable", "cables and routes"],
    );
    a.space
        .run(&format!("ip addr add {at_a}/24 dev {interface}"));
    eventually("they are connected", || are_connected(&a, &b));
    // Nobody answers.
    lan.set_passing(b.plug, false);
    says(&a, "b", &["host b", &at_b, "firewall"]);
    lan.set_passing(b.plug, true);
    eventually("they are connected", || are_connected(&a, &b));
    // Somebody of another realm is there.
    b.stop();
    b.somebody_said(&["init", "--name", "b"]);
    b.somebody_said(&HIDDEN);
    says(&a, "b", &["host b", &at_b, "of realm", "`hythe host add`"]);
    b.stop_somebody();
}

/// Its address is that of another host of the realm.
#[test]
fn host_at_whose_address_another_answers_says_so() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(33);
    let [a, b] = hidden(&lan);
    eventually("they are connected", || are_connected(&a, &b));
    // Host c is said to be where b is; and its own agent does not run.
    let c = Host::on(&lan, 3);
    a.take_in_at(&c, "c", &b.plug.address());
    c.stop();
    let another = ["host c", &b.plug.address(), "says that it is b"];
    says(&a, "c", &another);
    // Its place cannot be found.
    let d = Host::on(&lan, 4);
    a.take_in_at(&d, "d", "nowhere.invalid");
    d.stop();
    says(&a, "d", &["host d", "nowhere.invalid", "/etc/hosts"]);
    eventually("the others go on", || are_connected(&a, &b));
}

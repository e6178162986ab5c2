//! What carries flows over a trusted link is chosen by measuring on it: the agent as it is shipped,
//! each host in a network namespace. Figures of a busy machine are compared with nothing but the
//! choice that was made from them.

use std::time::Duration;

use crate::network::agent::{Host, LONG, eventually, pair};
use crate::network::machine::Machine;
use crate::network::served::Served;
use crate::network::{Lan, is_skipped};
use hythe_cluster::{CarriersStatus, MeasuredStatus};
use hythe_testing::let_time_pass;
use hythe_wire::Attachment;

/// Longer than the machine is busy, shorter than a test.
const LEASE: &str = "5";
/// What one measurement sends at most.
const BYTES_MAX: u64 = 4 << 20;
/// Longest packets as they are at first.
const MTU: u32 = 1_500;
/// Longer than a measurement, and the least pause behind it.
const CHANGE: Duration = Duration::from_secs(6);

fn start(host: &Host, more: &[&str]) {
    host.stop();
    let interface = host.plug.interface();
    let words = ["start", "--lease", LEASE, "--trusted", &interface];
    let words: Vec<&str> = words.into_iter().chain(more.iter().copied()).collect();
    eventually("its agent runs", || host.run(&words).status.success());
}

fn carriers(host: &Host, other: &str) -> Option<CarriersStatus> {
    host.status_of(other)?.session?.link.carriers
}

/// When what a host says of the link is so.
fn when(
    (host, other): (&Host, &str),
    what: &str,
    is_so: impl Fn(&CarriersStatus, &MeasuredStatus) -> bool,
) -> (CarriersStatus, MeasuredStatus) {
    let mut last = None;
    eventually(what, || {
        let found = carriers(host, other);
        last = found.and_then(|it| {
            let measured = it.measured.clone()?;
            Some((it, measured))
        });
        last.as_ref()
            .is_some_and(|(it, measured)| is_so(it, measured))
    });
    last.expect("just seen")
}

/// When all that is to be compared was measured, and more. The pause between attempts doubles, but
/// a link that has changed is measured soon: so it changes a little while that is awaited. `None`,
/// said aloud: this machine runs nothing in time that is measured.
fn when_whole(
    lan: &Lan,
    hosts: &[Host; 2],
    bytes: u32,
    is_so: impl Fn(&CarriersStatus) -> bool,
) -> Option<(CarriersStatus, MeasuredStatus)> {
    let machine = Machine::watch();
    let (begin, mut changes) = (machine.now(), 0);
    loop {
        let seen = carriers(&hosts[1], "a").and_then(|it| {
            let measured = it.measured.clone()?;
            Some((it, measured))
        });
        let is_it = |(it, measured): &(_, _)| is_whole(it, measured) && is_so(it);
        if let Some(whole) = seen.clone().filter(is_it) {
            return Some(whole);
        }
        let took = begin.until(machine.now());
        if took.time >= (changes + 1) * CHANGE {
            changes += 1;
            set_mtu(lan, hosts, bytes - changes % 2);
        }
        if took.time >= LONG {
            let is_busy = took.late > took.time / 2 || is_overloaded();
            assert!(is_busy, "not measured within {took:?}: {seen:?}");
            eprintln!("SKIPPED: this machine is too busy to measure a link ({took:?}): {seen:?}");
            return None;
        }
        let_time_pass(
            Duration::from_millis(20),
            "between two polls of the machine's clock",
        );
    }
}

/// On average of the last minute, more than 8 threads wanted to run for each CPU: who sleeps is
/// woken in time then, but who computes gets little.
fn is_overloaded() -> bool {
    let said = std::fs::read_to_string("/proc/loadavg").expect("Linux");
    let load: f64 = said
        .split(' ')
        .next()
        .and_then(|load| load.parse().ok())
        .expect("a number");
    let cpus = std::thread::available_parallelism().expect("as many");
    load > 8.0 * cpus.get() as f64
}

fn set_mtu(lan: &Lan, hosts: &[Host; 2], bytes: u32) {
    for host in hosts {
        lan.set_mtu(&host.space, host.plug, bytes);
    }
}

/// All that is to be compared was measured.
fn is_whole(_: &CarriersStatus, found: &MeasuredStatus) -> bool {
    found
        .udp_round_trip_ns
        .and(found.xdp_round_trip_ns)
        .is_some()
        && found.others_percent.is_some()
}

/// The choice is that of the figures, and says why.
fn assert_follows(it: &CarriersStatus, found: &MeasuredStatus) {
    assert!(!it.is_forced && it.measurements > 0, "{it:?}");
    assert!(
        (1..=it.measurements * BYTES_MAX).contains(&it.measuring_bytes),
        "{it:?}"
    );
    let is_udp = it.short == "udp" && it.long == "udp";
    assert_eq!(
        it.why.is_empty(),
        it.short == "xdp" && it.long == "xdp",
        "{it:?}"
    );
    match found.others_percent {
        // Beyond what is kept; between that and what is chosen both may be.
        Some(141..) => assert!(is_udp && it.why.contains("times as long"), "{it:?}"),
        Some(..=125) => {
            let [udp, xdp] = [found.udp_round_trip_ns, found.xdp_round_trip_ns];
            let is_faster = xdp.zip(udp).is_some_and(|(xdp, udp)| xdp * 100 < udp * 85);
            assert!(!is_faster || it.short == "xdp", "{it:?}");
        }
        _ => {}
    }
}

#[test]
fn agents_choose_carrier_anew_when_link_changes() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(51);
    let hosts = pair(&lan);
    let [a, b] = &hosts;
    // Both have interfaces of one name, and the service is in the network of b.
    let mut served = Served::start(b);
    hosts.iter().for_each(|host| start(host, &[]));
    let Some((it, found)) = when_whole(&lan, &hosts, MTU, |_| true) else {
        return;
    };
    eprintln!("{it:?}");
    assert_follows(&it, &found);
    // It may have measured before the service was there.
    let (it, found) = when((a, "b"), "a has measured what it can", |it, found| {
        found.udp_round_trip_ns.is_some() && it.why.contains("another network")
    });
    assert_eq!((it.short.as_str(), it.long.as_str()), ("udp", "udp"));
    assert_eq!(
        (found.xdp_round_trip_ns, found.others_percent),
        (None, None)
    );
    // Longer packets, and then shorter ones.
    for bytes in [1_400, 9_000] {
        let before = carriers(b, "a").expect("there").measurements;
        set_mtu(&lan, &hosts, bytes);
        let again = when_whole(&lan, &hosts, bytes, |it| it.measurements > before);
        let Some((it, found)) = again else { return };
        assert_follows(&it, &found);
    }
    // What served it is gone, and there again.
    served.end();
    let (it, found) = when((b, "a"), "it is missed", |it, _| {
        it.why.contains("no `hythe host wire` serves lan51")
    });
    assert_eq!((it.short.as_str(), found.xdp_round_trip_ns), ("udp", None));
    let mut served = Served::start(b);
    let Some((it, found)) = when_whole(&lan, &hosts, 9_000, |_| true) else {
        return;
    };
    assert_follows(&it, &found);
    served.end();
}

#[test]
fn choice_weighs_cost_of_driver_program() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(53);
    let hosts = pair(&lan);
    // In the driver of veth every packet gets a new buffer, and TCP loses its segmentation.
    let mut served = Served::start_in(&hosts[1], Attachment::Driver);
    hosts.iter().for_each(|host| start(host, &[]));
    let Some((it, found)) = when_whole(&lan, &hosts, MTU, |_| true) else {
        return;
    };
    eprintln!("{it:?}");
    assert_follows(&it, &found);
    served.end();
}

#[test]
fn carrier_that_is_forced_is_used_whatever_could_be_measured() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(52);
    let hosts = pair(&lan);
    let [a, b] = &hosts;
    start(a, &[]);
    for carrier in ["udp", "xdp"] {
        start(b, &["--carrier", carrier]);
        // The other one measures, and is answered.
        let (it, _) = when((a, "b"), "a has measured", |_, found| {
            found.udp_round_trip_ns.is_some()
        });
        assert!(it.why.contains("no `hythe host wire` serves"), "{it:?}");
        let mut forced = None;
        eventually("b is connected", || {
            forced = carriers(b, "a");
            forced.is_some()
        });
        let forced = forced.expect("just seen");
        assert_eq!(
            (forced.short.as_str(), forced.long.as_str()),
            (carrier, "udp")
        );
        assert!(forced.is_forced && forced.measured.is_none(), "{forced:?}");
        assert_eq!((forced.measurements, forced.measuring_bytes), (0, 0));
    }
}

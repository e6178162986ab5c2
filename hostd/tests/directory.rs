//! The directory of hosts in network namespaces: who is found, how, and when somebody is gone.

mod network;

use network::peer::{IDLE, PORT, Peer};
use network::realm::Realm;
use network::{Lan, Namespace, is_skipped};

const NO_SCOUTING: &str = "--no-scouting";

fn realm(hosts: &[&str]) -> Realm {
    let realm = Realm::new();
    hosts.iter().for_each(|host| realm.add(host));
    realm
}

fn options(list: &[&str]) -> Vec<String> {
    list.iter().map(|option| (*option).to_owned()).collect()
}

#[test]
fn hosts_of_a_lan_find_each_other_by_multicast() {
    if is_skipped() {
        return;
    }
    let realm = realm(&["a", "b", "c"]);
    let lan = Lan::new(1);
    let (a_space, a_plug) = lan.host(1);
    let (b_space, b_plug) = lan.host(2);
    let (c_space, c_plug) = lan.host(3);
    let mut a = Peer::start(&a_space, &realm, "a", &[]);
    let mut b = Peer::start(&b_space, &realm, "b", &[]);
    a.until_seen("b", b_plug);
    b.until_seen("a", a_plug);
    let mut c = Peer::start(&c_space, &realm, "c", &[]);
    a.until_seen("c", c_plug);
    b.until_seen("c", c_plug);
    c.until_seen("a", a_plug);
}

#[test]
fn hosts_are_found_by_a_given_address_and_through_each_other() {
    if is_skipped() {
        return;
    }
    let realm = realm(&["a", "b", "c"]);
    let lan = Lan::new(1);
    let (a_space, a_plug) = lan.host(1);
    let (b_space, b_plug) = lan.host(2);
    let (c_space, c_plug) = lan.host(3);
    // B is started first, with the address of A, which is not there yet.
    let to_a = options(&[NO_SCOUTING, &format!("--peer={}:{PORT}", a_plug.address())]);
    let mut b = Peer::start(&b_space, &realm, "b", &to_a);
    let mut a = Peer::start(&a_space, &realm, "a", &options(&[NO_SCOUTING]));
    a.until_seen("b", b_plug);
    b.until_seen("a", a_plug);
    let mut c = Peer::start(&c_space, &realm, "c", &to_a);
    b.until_seen("c", c_plug);
    c.until_seen("a", a_plug);
}

#[test]
fn a_host_is_gone_when_it_dies_and_there_again_when_it_is_back() {
    if is_skipped() {
        return;
    }
    let realm = realm(&["a", "b"]);
    let lan = Lan::new(1);
    let (a_space, _) = lan.host(1);
    let (b_space, b_plug) = lan.host(2);
    let mut a = Peer::start(&a_space, &realm, "a", &[]);
    for _ in 0..2 {
        let b = Peer::start(&b_space, &realm, "b", &[]);
        a.until_seen("b", b_plug);
        b.kill();
        a.until_gone("b");
    }
}

#[test]
fn a_host_is_gone_when_its_link_is_down_and_there_again_when_it_is_up() {
    if is_skipped() {
        return;
    }
    cut_off(|lan, plug, is_reachable| lan.set_link(plug, is_reachable));
}

#[test]
fn a_host_is_gone_when_nothing_passes_and_there_again_when_it_does() {
    if is_skipped() {
        return;
    }
    cut_off(|lan, plug, is_reachable| lan.set_passing(plug, is_reachable));
}

fn cut_off(set: impl Fn(&Lan, network::Plug, bool)) {
    let realm = realm(&["a", "b"]);
    let lan = Lan::new(1);
    let (a_space, a_plug) = lan.host(1);
    let (b_space, b_plug) = lan.host(2);
    let mut a = Peer::start(&a_space, &realm, "a", &[]);
    let mut b = Peer::start(&b_space, &realm, "b", &[]);
    a.until_seen("b", b_plug);
    b.until_seen("a", a_plug);
    set(&lan, b_plug, false);
    a.until_gone("b");
    b.until_gone("a");
    set(&lan, b_plug, true);
    a.until_seen("b", b_plug);
    b.until_seen("a", a_plug);
}

#[test]
fn a_host_is_seen_at_its_new_address() {
    if is_skipped() {
        return;
    }
    let realm = realm(&["a", "b"]);
    let lan = Lan::new(1);
    let (a_space, a_plug) = lan.host(1);
    let (b_space, b_plug) = lan.host(2);
    let mut a = Peer::start(&a_space, &realm, "a", &[]);
    let mut b = Peer::start(&b_space, &realm, "b", &[]);
    a.until_seen("b", b_plug);
    b.until_seen("a", a_plug);
    let (interface, old) = (b_plug.interface(), b_plug.address());
    b_space.run(&format!("ip addr del {old}/24 dev {interface}"));
    b_space.run(&format!("ip addr add 10.77.1.9/24 dev {interface}"));
    b_space.run(&format!("ip route replace 224.0.0.0/4 dev {interface}"));
    a.until("seen b 10.77.1.9:7410");
}

#[test]
fn a_host_without_a_network_starts_and_is_found_when_it_has_one() {
    if is_skipped() {
        return;
    }
    let realm = realm(&["a", "b"]);
    let lan = Lan::new(1);
    let (a_space, a_plug) = lan.host(1);
    let b_space = Namespace::new();
    let mut a = Peer::start(&a_space, &realm, "a", &[]);
    let mut b = Peer::start(&b_space, &realm, "b", &[]);
    let b_plug = lan.plug(&b_space, 2);
    a.until_seen("b", b_plug);
    b.until_seen("a", a_plug);
}

/// With a router in each LAN, which are linked; no packet is routed from one to the other.
#[test]
fn hosts_of_two_lans_see_each_other_past_routers() {
    if is_skipped() {
        return;
    }
    let realm = realm(&["a", "b", "ra", "rb"]);
    let (lan_a, lan_b, wide) = (Lan::new(1), Lan::new(2), Lan::new(3));
    let (a_space, a_plug) = lan_a.host(1);
    let (b_space, b_plug) = lan_b.host(1);
    let (ra_space, _) = lan_a.host(2);
    let (rb_space, _) = lan_b.host(2);
    let ra_wide = wide.plug(&ra_space, 1);
    let _rb_wide = wide.plug(&rb_space, 2);
    let to_ra = format!("--peer={}:{PORT}", ra_wide.address());
    let rb = Peer::start(&rb_space, &realm, "rb", &options(&["--router", &to_ra]));
    let ra = Peer::start(&ra_space, &realm, "ra", &options(&["--router"]));
    let mut a = Peer::start(&a_space, &realm, "a", &[]);
    let mut b = Peer::start(&b_space, &realm, "b", &[]);
    a.until_seen("b", b_plug);
    b.until_seen("a", a_plug);
    // One of them dies, and is started again.
    ra.kill();
    a.until_gone("b");
    b.until_gone("a");
    let ra = Peer::start(&ra_space, &realm, "ra", &options(&["--router"]));
    a.until_seen("b", b_plug);
    b.until_seen("a", a_plug);
    drop((ra, rb));
}

#[test]
fn a_host_of_another_realm_and_one_that_is_denied_are_not_seen() {
    if is_skipped() {
        return;
    }
    let realm = realm(&["a", "b", "revoked"]);
    let other = Realm::new();
    other.add("stranger");
    let lan = Lan::new(1);
    let (a_space, a_plug) = lan.host(1);
    let (b_space, b_plug) = lan.host(2);
    let (stranger_space, _) = lan.host(3);
    let (revoked_space, _) = lan.host(4);
    let denied = options(&["--deny=revoked"]);
    let mut a = Peer::start(&a_space, &realm, "a", &denied);
    let mut stranger = Peer::start(&stranger_space, &other, "stranger", &[]);
    let mut revoked = Peer::start(&revoked_space, &realm, "revoked", &[]);
    stranger.until(IDLE);
    revoked.until(IDLE);
    let mut b = Peer::start(&b_space, &realm, "b", &denied);
    assert_eq!(
        a.line_of_host(),
        format!("seen b {}:7410", b_plug.address())
    );
    assert_eq!(
        b.line_of_host(),
        format!("seen a {}:7410", a_plug.address())
    );
    // Long after the handshakes, they saw nobody.
    for peer in [&mut stranger, &mut revoked] {
        assert_eq!(peer.line(), IDLE);
    }
}

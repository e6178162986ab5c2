//! The directory of hosts in network namespaces: who is found, how, and when somebody is gone.

use crate::network::peer::{IDLE, PORT, Peer};
use crate::network::realm::Realm;
use crate::network::{Lan, Namespace, Plug, is_skipped};

const NO_SCOUTING: &str = "--no-scouting";

/// A realm, and a LAN with a namespace for each of its hosts.
struct Hosts {
    realm: Realm,
    lan: Lan,
    places: Vec<(&'static str, Namespace, Plug)>,
}

impl Hosts {
    /// `None`, said aloud, without root.
    fn new(names: &[&'static str]) -> Option<Self> {
        if is_skipped() {
            return None;
        }
        let (realm, lan) = (realm(names), Lan::new(1));
        let place = |(name, number): (&&'static str, u8)| {
            let (space, plug) = lan.host(number);
            (*name, space, plug)
        };
        let places = names.iter().zip(1..).map(place).collect();
        Some(Self { realm, lan, places })
    }

    fn place(&self, name: &str) -> &(&'static str, Namespace, Plug) {
        let mut places = self.places.iter();
        places.find(|(known, ..)| *known == name).expect("a host")
    }

    fn plug(&self, name: &str) -> Plug {
        self.place(name).2
    }

    fn start(&self, name: &str, list: &[&str]) -> Peer {
        Peer::start(&self.place(name).1, &self.realm, name, &options(list))
    }

    /// Waits until hosts A and B see each other where they are plugged in.
    fn wait_until_met(&self, a: &mut Peer, b: &mut Peer) {
        a.until_seen("b", self.plug("b"));
        b.until_seen("a", self.plug("a"));
    }

    /// A and B, which see each other.
    fn start_both(&self) -> (Peer, Peer) {
        let (mut a, mut b) = (self.start("a", &[]), self.start("b", &[]));
        self.wait_until_met(&mut a, &mut b);
        (a, b)
    }
}

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
    let Some(hosts) = Hosts::new(&["a", "b", "c"]) else {
        return;
    };
    let (mut a, mut b) = hosts.start_both();
    let mut c = hosts.start("c", &[]);
    a.until_seen("c", hosts.plug("c"));
    b.until_seen("c", hosts.plug("c"));
    c.until_seen("a", hosts.plug("a"));
}

#[test]
fn hosts_are_found_by_a_given_address_and_through_each_other() {
    let Some(hosts) = Hosts::new(&["a", "b", "c"]) else {
        return;
    };
    // B is started first, with the address of A, which is not there yet.
    let to_a = format!("--peer={}:{PORT}", hosts.plug("a").address());
    let mut b = hosts.start("b", &[NO_SCOUTING, &to_a]);
    let mut a = hosts.start("a", &[NO_SCOUTING]);
    hosts.wait_until_met(&mut a, &mut b);
    let mut c = hosts.start("c", &[NO_SCOUTING, &to_a]);
    b.until_seen("c", hosts.plug("c"));
    c.until_seen("a", hosts.plug("a"));
}

#[test]
fn host_is_gone_when_it_dies_and_there_again_when_it_is_back() {
    let Some(hosts) = Hosts::new(&["a", "b"]) else {
        return;
    };
    let mut a = hosts.start("a", &[]);
    for _ in 0..2 {
        let b = hosts.start("b", &[]);
        a.until_seen("b", hosts.plug("b"));
        b.kill();
        a.until_gone("b");
    }
}

#[test]
fn host_leaves_with_its_link_and_returns_with_it() {
    cut_off(Lan::set_link);
}

#[test]
fn host_leaves_silent_link_and_returns() {
    cut_off(Lan::set_passing);
}

fn cut_off(set: impl Fn(&Lan, Plug, bool)) {
    let Some(hosts) = Hosts::new(&["a", "b"]) else {
        return;
    };
    let (mut a, mut b) = hosts.start_both();
    set(&hosts.lan, hosts.plug("b"), false);
    a.until_gone("b");
    b.until_gone("a");
    set(&hosts.lan, hosts.plug("b"), true);
    hosts.wait_until_met(&mut a, &mut b);
}

#[test]
fn host_is_seen_at_its_new_address() {
    let Some(hosts) = Hosts::new(&["a", "b"]) else {
        return;
    };
    let (mut a, _b) = hosts.start_both();
    let (_, space, plug) = hosts.place("b");
    let (interface, old) = (plug.interface(), plug.address());
    space.run(&format!("ip addr del {old}/24 dev {interface}"));
    space.run(&format!("ip addr add 10.77.1.9/24 dev {interface}"));
    space.run(&format!("ip route replace 224.0.0.0/4 dev {interface}"));
    a.until("seen b 10.77.1.9:7410");
}

#[test]
fn host_without_a_network_starts_and_is_found_when_it_has_one() {
    let Some(hosts) = Hosts::new(&["a"]) else {
        return;
    };
    hosts.realm.add("b");
    let b_space = Namespace::new();
    let mut a = hosts.start("a", &[]);
    let mut b = Peer::start(&b_space, &hosts.realm, "b", &[]);
    let b_plug = hosts.lan.plug(&b_space, 2);
    a.until_seen("b", b_plug);
    b.until_seen("a", hosts.plug("a"));
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

/// As many as are kept of one host, and one more, before its own is there.
#[test]
fn false_tokens_of_a_host_keep_it_out_for_a_while_only() {
    let Some(hosts) = Hosts::new(&["a", "b", "liar"]) else {
        return;
    };
    let mut a = hosts.start("a", &[]);
    let _liar = hosts.start("liar", &["--false=b:5"]);
    // All places of its name are taken.
    let false_ones = |line: &str| line.matches("192.0.2.1:").count();
    while false_ones(&a.line_of_host()) < 4 {}
    let _b = hosts.start("b", &[]);
    let address = format!(" {}:7410", hosts.plug("b").address());
    let is_b = |line: &str| line.starts_with("seen b ") && line.contains(&address);
    while !is_b(&a.line_of_host()) {}
}

#[test]
fn host_of_another_realm_is_not_seen() {
    let Some(hosts) = Hosts::new(&["a", "b"]) else {
        return;
    };
    let other = Realm::new();
    other.add("stranger");
    let (stranger_space, _) = hosts.lan.host(4);
    let mut a = hosts.start("a", &[]);
    let mut stranger = Peer::start(&stranger_space, &other, "stranger", &[]);
    stranger.until(IDLE);
    let mut b = hosts.start("b", &[]);
    for (peer, seen) in [(&mut a, "b"), (&mut b, "a")] {
        let address = hosts.plug(seen).address();
        assert_eq!(peer.line_of_host(), format!("seen {seen} {address}:7410"));
    }
    // Long after the handshakes, it saw nobody.
    assert_eq!(stranger.line(), IDLE);
}

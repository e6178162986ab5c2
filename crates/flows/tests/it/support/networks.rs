//! Two networks of the kernel with a link between them.

use std::net::{IpAddr, Ipv4Addr};
use std::process::Command;

use hythe_sys::namespaces::Network;

use super::Pair;

/// Of the interfaces `first` and `second`.
pub(crate) const ADDRESSES: [Ipv4Addr; 2] =
    [Ipv4Addr::new(10, 99, 0, 1), Ipv4Addr::new(10, 99, 0, 2)];

/// The second network. The calling thread is in the first from then on.
pub(crate) struct Networks {
    second: Network,
}

/// Runs `ip` in the network of the calling thread.
pub(crate) fn ip(words: &str) {
    let status = Command::new("ip").args(words.split(' ')).status();
    assert!(status.expect("iproute2").success(), "ip {words}");
}

/// `true`, said aloud, without root.
pub(crate) fn is_skipped() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: networks of one's own need root");
    }
    !is_root
}

impl Networks {
    pub(crate) fn new() -> Self {
        let first = Network::unshare().expect("root");
        // A thread in the other network, by whose number `ip` finds that.
        let (made, networks) = std::sync::mpsc::channel();
        let (stop, stopped) = std::sync::mpsc::channel::<()>();
        let other = std::thread::spawn(move || {
            let network = Network::unshare().expect("root");
            let made = made.send((network, rustix::thread::gettid()));
            made.expect("awaited");
            let _ = stopped.recv();
        });
        let (second, thread) = networks.recv().expect("made");
        let thread = thread.as_raw_nonzero();
        ip(&format!(
            "link add first type veth peer name second netns {thread}"
        ));
        drop(stop);
        other.join().expect("ended");
        let begin = |name: &str, address: Ipv4Addr| {
            ip("link set lo up");
            ip(&format!("link set {name} up"));
            ip(&format!("address add {address}/24 dev {name}"));
        };
        begin("first", ADDRESSES[0]);
        second.enter().expect("root");
        begin("second", ADDRESSES[1]);
        first.enter().expect("root");
        Self { second }
    }

    pub(crate) fn within_second<T>(&self, act: impl FnOnce() -> T) -> T {
        let first = Network::current().expect("it has one");
        self.second.enter().expect("root");
        let done = act();
        first.enter().expect("root");
        done
    }

    /// Has the flows of both sides go by the link.
    pub(crate) fn place(&self, pair: &mut Pair) {
        let [first, second] = ADDRESSES.map(IpAddr::V4);
        (pair.a.address, pair.b.address) = (first, second);
        let network = self.within_second(|| Network::current().expect("it has one"));
        pair.b.network = Some(network);
    }
}

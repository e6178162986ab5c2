//! What the authority and a host change counts at once, also between hosts that are connected.

mod network;

use hythe_node::{PublisherOptions, SubscriberOptions};
use network::agent::{LONG, eventually, pair, three};
use network::{Lan, is_skipped};

/// The third hears of it from the host where the realm was begun, with which it is connected all
/// the time: nobody connects anew.
#[test]
fn a_host_that_is_put_out_loses_its_sessions_with_all_others() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(31);
    let [a, b, c] = three(&lan);
    let (from, to) = (b.join("from"), c.join("to"));
    let options = SubscriberOptions::default();
    let _subscriber = to.subscriber("frames", &options).expect("subscribed");
    let options = PublisherOptions::default();
    let mut publisher = from.publisher("frames", &options).expect("published");
    assert!(publisher.wait_for_subscribers(1, LONG).expect("sound"));
    let said = a.said(&["remove", "b"]);
    assert!(said.contains("know it at once"), "{said}");
    eventually("a has put b out", || !a.is_connected_with("b"));
    eventually("c has put b out", || !c.is_connected_with("b"));
    eventually("it gets nothing of b any more", || {
        publisher.subscribers().expect("sound") == 0
    });
    eventually("b is told why", || {
        let status = b.status_of("c").expect("known");
        status.reason.contains("was revoked in realm")
    });
    eventually("a and c are connected", || {
        a.is_connected_with("c") && c.is_connected_with("a")
    });
}

#[test]
fn what_is_allowed_counts_for_channels_that_are_open() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(32);
    let [a, b] = pair(&lan);
    let (from, to) = (a.join("from"), b.join("to"));
    let options = SubscriberOptions::default();
    let _subscriber = to.subscriber("frames", &options).expect("subscribed");
    let options = PublisherOptions::default();
    let mut publisher = from.publisher("frames", &options).expect("published");
    for (host, denied) in [(&a, "b"), (&b, "a")] {
        assert!(publisher.wait_for_subscribers(1, LONG).expect("sound"));
        host.said(&["allow", denied, "frames", "none"]);
        eventually("nothing crosses", || {
            publisher.subscribers().expect("sound") == 0
        });
        for right in ["read", "write"] {
            host.said(&["allow", denied, "frames", right]);
        }
    }
    assert!(publisher.wait_for_subscribers(1, LONG).expect("sound"));
}

//! Two hosts with the agent as it is shipped, each in a network namespace: taken in over a remote
//! shell, and then a message from one to the other.

mod network;

use std::path::Path;

use hythe_node::{PublisherOptions, SubscriberOptions};
use network::agent::{Host, LONG, eventually, first, pair, programs};
use network::{Lan, is_skipped};

#[test]
fn a_host_is_taken_in_and_a_message_reaches_it() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(1);
    let [a, b] = pair(&lan);
    let (here, there) = (a.join("sender"), b.join("receiver"));
    let mut frames = there
        .subscriber("frames", &SubscriberOptions::default())
        .expect("subscribed");
    let mut publisher = here
        .publisher("frames", &PublisherOptions::default())
        .expect("published");
    let reached = publisher.wait_for_subscribers(1, LONG);
    assert!(reached.expect("sound"), "host b is no subscriber");
    let sent: Vec<u8> = (0..300_000_u32).map(|at| (at / 251) as u8).collect();
    for _ in 0..3 {
        let mut lease = publisher.lease(sent.len()).expect("a slot");
        lease.write(0, &sent);
        publisher.publish(lease, sent.len()).expect("published");
        let frame = frames.take(LONG).expect("sound").expect("it arrives");
        assert_eq!(frame.to_vec(), sent);
    }
    // Put out, it is known on neither side any more.
    a.said(&["remove", "b"]);
    eventually("b is cut off", || !a.is_connected_with("b"));
}

#[test]
fn what_is_wrong_with_a_host_is_named() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(1);
    let a = first(&lan);
    let taken = a.refusal(&["init", "--name", "z"]);
    assert!(taken.contains("this host is a of realm"), "{taken}");
    let twice = a.refusal(&["start"]);
    assert!(twice.contains("runs already"), "{twice}");
    let unknown = a.refusal(&["remove", "nobody"]);
    assert!(unknown.contains("no host nobody; it has: a"), "{unknown}");
    let option = a.refusal(&["add", "--name", "b", "--", "-oProxyCommand=true"]);
    assert!(option.contains("is no host"), "{option}");
    let rule = a.refusal(&["allow", "b", "frames", "look"]);
    assert!(rule.contains("read|write|spawn|none"), "{rule}");
    let b = Host::on(&lan, 2);
    let nobody = a.add(&b, "b", Path::new("/nowhere"));
    let said = String::from_utf8_lossy(&nobody.stderr);
    assert_eq!(nobody.status.code(), Some(1), "{nobody:?}");
    assert!(said.contains("host b: there is no hythe-hostd"), "{said}");
    let same = a.add(&b, "a", &programs());
    let said = String::from_utf8_lossy(&same.stderr);
    assert!(said.contains("the name a is taken"), "{said}");
    let stranger = b.refusal(&["start"]);
    assert!(stranger.contains("belongs to no realm"), "{stranger}");
}

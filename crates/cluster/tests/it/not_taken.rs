//! Messages that the pool of a receiver does not take: counted there, once, and the sender is told.

use crate::support;

use std::io::Write as _;

use crate::support::host::{TestHost, pair};
use crate::support::liar::{LIAR, Liar, message};
use crate::support::{BOUND, eventually};
use hythe_cluster::frame::{Control, EndKind, FrameKind, Header, NotTaken};
use hythe_cluster::{ChannelStatus, Direction, Losses};
use hythe_node::{ChannelType, Lease, Node, PublisherOptions, SubscriberOptions};

fn losses(host: &TestHost, of: &str) -> Losses {
    host.status_of(of).expect("known").losses
}

fn sending(host: &TestHost, to: &str, channel: &str) -> ChannelStatus {
    let session = host.status_of(to).expect("known").session;
    let mut channels = session.expect("connected").channels.into_iter();
    let found = channels.find(|one| one.channel == channel && one.direction == Direction::Sending);
    found.expect("it is sent")
}

/// All slots with room for so much.
fn all_slots(node: &Node, bytes: usize) -> Vec<Lease> {
    std::iter::from_fn(|| node.lease(bytes).ok()).collect()
}

#[test]
fn message_without_slot_is_counted_and_reported_once() {
    const LARGE: usize = 600_000;
    let (a, mut b) = pair();
    let (from, to) = (a.join("from"), b.join("to"));
    let options = PublisherOptions::default();
    let mut publisher = from.publisher("news", &options).expect("opened");
    let subscriber = to.subscriber("news", &SubscriberOptions::default());
    let mut subscriber = subscriber.expect("opened");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    let occupied = all_slots(&to, LARGE);
    let lease = publisher.lease(LARGE).expect("a slot");
    publisher.publish(lease, LARGE).expect("published");
    eventually("the sender knows", || {
        sending(&a, "b", "news").not_taken == 1
    });
    let said = sending(&a, "b", "news");
    assert!(said.reason.contains("no slot was free"), "{}", said.reason);
    let is_confirmed = || {
        let credit = sending(&a, "b", "news").credit;
        credit.expect("sent").used.frames == 0
    };
    eventually("nothing is held for it", is_confirmed);
    let at_b = Losses {
        no_slot: 1,
        ..Losses::default()
    };
    assert_eq!(losses(&b, "a"), at_b);
    drop(occupied);
    let lease = publisher.lease(LARGE).expect("a slot");
    publisher.publish(lease, LARGE).expect("published");
    assert!(subscriber.take(BOUND).expect("sound").is_some());
    assert_eq!(subscriber.statistics().dropped, 1, "the one before it");
    eventually("the one that came is confirmed", is_confirmed);
    // The end of the session leaves nothing open.
    b.agent = None;
    eventually("it is gone", || !a.is_connected_to("b"));
    assert_eq!(losses(&a, "b"), Losses::default());
    drop((publisher, subscriber, from, to));
}

/// The other host sends something else than it was asked for.
#[test]
fn message_of_other_type_is_counted_and_reported_once() {
    let mut host = TestHost::new("b");
    let node = host.join("local");
    let options = SubscriberOptions::default().carries(ChannelType {
        name: "pose".to_owned(),
        bytes: 8,
        align: 8,
        version: 1,
    });
    let subscriber = node.subscriber("news", &options).expect("opened");
    let mut liar = Liar::begin(&host);
    let mut stream = liar.opened(&host, EndKind::Publish, "news");
    for sequence in 1..=3 {
        let header = Header {
            kind: FrameKind::Message,
            length: 0,
            sequence,
            publisher: 0,
            missed: 0,
            number: 0,
        };
        stream.write_all(&header.to_bytes()).expect("sent");
    }
    let (mut told, mut acknowledged) = (0, 0);
    while told < 3 || acknowledged < 3 {
        match message(&mut liar.control) {
            Control::NotTaken { messages, why, .. } => {
                assert_eq!(why, NotTaken::OtherType);
                told += messages;
            }
            Control::Acknowledge { through, .. } => acknowledged = through,
            Control::KeepAlive { number } => liar.say(&Control::KeepAlive { number }),
            _ => {}
        }
    }
    assert_eq!(told, 3);
    let expected = Losses {
        other_type: 3,
        ..Losses::default()
    };
    assert_eq!(losses(&host, LIAR), expected);
    drop((liar, stream, subscriber, node));
    host.agent = None;
    host.assert_settled(0);
}

/// What is said of streams that there never were ends the session; what is said of one that there
/// is costs nothing.
#[test]
fn lies_about_what_was_not_taken_are_bounded() {
    let host = TestHost::new("b");
    let mut liar = Liar::begin(&host);
    for _ in 0..2 {
        liar.say(&Control::NotTaken {
            stream: 9,
            messages: u32::MAX,
            why: NotTaken::NoSlot,
        });
    }
    support::liar::assert_ended(&host, "were sent");
}

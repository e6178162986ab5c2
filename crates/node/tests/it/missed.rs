//! What did not reach a subscriber, here or on the way from another host, is a number that it gets
//! in its place among the messages; and a taken message says which publisher it is from.

use crate::support::{BOUND, Root, eventually};
use hythe_node::hop::{self, HopPool as _, join_host};
use hythe_node::{
    Node, NodeError, Pool, PortKind, PortPolicy, Publisher, PublisherOptions, Subscriber,
    SubscriberOptions,
};

/// The participant that messages of another host come from, and one that takes them.
struct Scene {
    root: Root,
    pool: Pool,
    host: Node,
    local: Node,
}

impl Scene {
    fn new() -> Self {
        let root = Root::new();
        let pool = root.pool();
        Self {
            host: join_host(&pool, "b", &[]).expect("joins"),
            local: Node::join(&pool, "local").expect("joins"),
            pool,
            root,
        }
    }

    fn publisher(&self) -> Publisher {
        self.host
            .publisher("camera", &PublisherOptions::default())
            .expect("opens")
    }

    /// Connected to, with so many places in its queue.
    fn subscriber(&self, publisher: &mut Publisher, depth: u32, policy: PortPolicy) -> Subscriber {
        let options = SubscriberOptions::default().depth(depth).policy(policy);
        let subscriber = self.local.subscriber("camera", &options).expect("opens");
        publisher.subscribers().expect("connects");
        subscriber
    }

    fn send(&self, publisher: &mut Publisher, byte: u8) -> hythe_node::Published {
        let mut lease = self.host.lease(1).expect("free");
        lease.write(0, &[byte]);
        publisher.publish(lease, 1).expect("sent")
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        assert_eq!(self.pool.snapshot().audit.mismatches, []);
        assert!(self.root.path().exists());
    }
}

/// The next message, and how many have been missed by then.
fn next(subscriber: &mut Subscriber) -> Option<(u8, u64)> {
    let sample = subscriber.try_take().expect("sound")?;
    Some((sample.to_vec()[0], subscriber.statistics().dropped))
}

#[test]
fn gap_is_counted_before_the_message_behind_it() {
    for policy in [
        PortPolicy::DropNewest,
        PortPolicy::EvictOldest,
        PortPolicy::Block { timeout_ms: 100 },
    ] {
        let scene = Scene::new();
        let mut publisher = scene.publisher();
        let mut subscriber = scene.subscriber(&mut publisher, 8, policy);
        scene.send(&mut publisher, 1);
        hop::note_missed(&mut publisher, 0).expect("sound");
        hop::note_missed(&mut publisher, 1000).expect("sound");
        scene.send(&mut publisher, 2);
        hop::note_missed(&mut publisher, 7).expect("sound");
        let mut late = scene.subscriber(&mut publisher, 8, policy);
        assert_eq!(next(&mut subscriber), Some((1, 0)), "{policy:?}");
        assert_eq!(next(&mut subscriber), Some((2, 1000)), "{policy:?}");
        assert_eq!(next(&mut subscriber), None);
        let counted = subscriber.statistics();
        assert_eq!((counted.dropped, counted.violations), (1007, 0));
        let port = |port: &hythe_node::PortInfo| port.statistics.dropped == 1007;
        let seen = scene.pool.control().tables().ports().filter(port).count();
        assert_eq!(seen, 1, "others see it in the tables");
        assert_eq!(publisher.statistics().dropped, 0, "none was dropped here");

        scene.send(&mut publisher, 3);
        assert_eq!(next(&mut late), Some((3, 0)), "it was not there");
    }
}

#[test]
fn gap_takes_no_place_in_a_queue() {
    let scene = Scene::new();
    let mut publisher = scene.publisher();
    let mut subscriber = scene.subscriber(&mut publisher, 2, PortPolicy::DropNewest);
    for byte in 1..=2 {
        scene.send(&mut publisher, byte);
    }
    hop::note_missed(&mut publisher, 5).expect("sound");
    assert_eq!(scene.send(&mut publisher, 3).dropped, 1);
    hop::note_missed(&mut publisher, 6).expect("sound");
    assert_eq!(next(&mut subscriber), Some((1, 0)));
    assert_eq!(scene.send(&mut publisher, 4).delivered, 1);
    assert_eq!(next(&mut subscriber), Some((2, 0)));
    // Five and six of another host, and one that was dropped between them.
    assert_eq!(next(&mut subscriber), Some((4, 12)));
}

#[test]
fn gap_outlives_the_evicted_message_behind_it() {
    let scene = Scene::new();
    let mut publisher = scene.publisher();
    let mut subscriber = scene.subscriber(&mut publisher, 2, PortPolicy::EvictOldest);
    hop::note_missed(&mut publisher, 5).expect("sound");
    for byte in 1..=20 {
        assert_eq!(scene.send(&mut publisher, byte).delivered, 1);
    }
    hop::note_missed(&mut publisher, 6).expect("sound");
    scene.send(&mut publisher, 21);
    let mut last = None;
    while let Some(found) = next(&mut subscriber) {
        last = Some(found);
    }
    let evicted = publisher.statistics().dropped;
    assert_eq!(last, Some((21, 11 + evicted)));
    assert_eq!(evicted + subscriber.statistics().messages, 21);
}

#[test]
fn sleeping_subscriber_counts_it_at_once() {
    let scene = Scene::new();
    let mut publisher = scene.publisher();
    let mut subscriber = scene.subscriber(&mut publisher, 2, PortPolicy::DropNewest);
    let sleeper = std::thread::spawn(move || {
        let taken = subscriber.take(BOUND).expect("sound").expect("sent");
        (taken.to_vec(), subscriber.statistics().dropped)
    });
    hop::note_missed(&mut publisher, 9).expect("sound");
    eventually("counted", || {
        let mut ports = scene.pool.control().tables().ports();
        ports.any(|port| port.statistics.dropped == 9)
    });
    scene.send(&mut publisher, 1);
    assert_eq!(sleeper.join().expect("no panic"), (vec![1], 9));
}

#[test]
fn taken_message_says_which_publisher_it_is_from() {
    let scene = Scene::new();
    let mut publishers = [scene.publisher(), scene.publisher()];
    let mut subscriber = scene.subscriber(&mut publishers[0], 8, PortPolicy::DropNewest);
    publishers[1].subscribers().expect("connects");
    let mut origins = Vec::new();
    for round in 0..2 {
        for publisher in &mut publishers {
            scene.send(publisher, round);
            let taken = hop::try_take_from(&mut subscriber).expect("sound");
            let (sample, origin) = taken.expect("sent");
            assert_eq!(sample.to_vec(), [round]);
            assert_eq!(origin.member, scene.host.index());
            origins.push(origin);
        }
    }
    assert_eq!(origins[0], origins[2]);
    assert_eq!(origins[1], origins[3]);
    assert_ne!(origins[0].number, origins[1].number);
    assert_ne!(origins[0].port, origins[1].port);
    assert!(
        hop::try_take_from(&mut subscriber)
            .expect("sound")
            .is_none()
    );
}

const POLICIES: [PortPolicy; 3] = [
    PortPolicy::DropNewest,
    PortPolicy::EvictOldest,
    PortPolicy::Block { timeout_ms: 1 },
];

/// As [`Scene::send`], to subscribers that may keep it waiting in vain.
fn send_anyhow(scene: &Scene, publisher: &mut Publisher, byte: u8) {
    let mut lease = scene.host.lease(1).expect("free");
    lease.write(0, &[byte]);
    match publisher.publish(lease, 1) {
        Ok(_) | Err(NodeError::Blocked { .. }) => {}
        Err(error) => panic!("{error}"),
    }
}

#[test]
fn every_message_says_how_many_are_missing_before_it() {
    for policy in POLICIES {
        let scene = Scene::new();
        let mut publisher = scene.publisher();
        let mut slow = scene.subscriber(&mut publisher, 4, policy);
        let mut whole = scene.subscriber(&mut publisher, 128, policy);
        let mut seed = 36_u32;
        let (mut sent, mut expected, mut missed) = (0_u8, 0_u8, 0_u64);
        let mut check = |sample: hythe_node::Sample| {
            let found = sample.to_vec()[0];
            let before = u64::from(found - expected);
            assert_eq!(u64::from(sample.missed_before()), before, "{policy:?}");
            missed += before;
            expected = found + 1;
            missed
        };
        while sent < 60 {
            seed = seed.wrapping_mul(1_664_525).wrapping_add(1_013_904_223);
            for _ in 0..seed >> 29 {
                send_anyhow(&scene, &mut publisher, sent);
                sent += 1;
            }
            for _ in 0..seed >> 26 & 7 {
                let Some(sample) = slow.try_take().expect("sound") else {
                    break;
                };
                let missed = check(sample);
                assert!(slow.statistics().dropped >= missed);
            }
        }
        while let Some(sample) = slow.try_take().expect("sound") {
            check(sample);
        }
        let counted = slow.statistics();
        assert!(counted.dropped > 0, "{policy:?}");
        assert_eq!(counted.messages + counted.dropped, u64::from(sent));
        assert_eq!(publisher.statistics().dropped, counted.dropped);
        for number in 0..sent {
            let sample = whole.try_take().expect("sound").expect("waits");
            assert_eq!((sample.to_vec()[0], sample.missed_before()), (number, 0));
        }
        assert_eq!(whole.statistics().dropped, 0);
    }
}

/// What the pool shows of its subscribers, from outside.
fn shown(scene: &Scene) -> Vec<u64> {
    let ports = scene.pool.snapshot().ports.into_iter();
    let subscribers = ports.filter(|port| port.kind == PortKind::Subscriber);
    subscribers.map(|port| port.statistics.dropped).collect()
}

#[test]
fn subscriber_that_never_looks_is_seen_to_miss() {
    for policy in POLICIES {
        let scene = Scene::new();
        let mut publisher = scene.publisher();
        let mut slow = scene.subscriber(&mut publisher, 2, policy);
        for byte in 0..10 {
            send_anyhow(&scene, &mut publisher, byte);
        }
        assert_eq!(shown(&scene), [8], "{policy:?}");
        assert_eq!(scene.pool.ports().len(), scene.pool.snapshot().ports.len());
        while slow.try_take().expect("sound").is_some() {}
        assert_eq!(slow.statistics().dropped, 8);
        assert_eq!(shown(&scene), [8], "none is counted twice");
        // Also behind the publisher's end, and of all publishers together.
        let mut other = scene.publisher();
        for byte in 0..10 {
            send_anyhow(&scene, &mut other, byte);
        }
        drop((publisher, other));
        assert_eq!(shown(&scene), [16]);
        while slow.publishers().expect("sound") > 0 {
            slow.try_take().expect("sound");
        }
        assert_eq!((slow.statistics().dropped, shown(&scene)), (16, vec![16]));
    }
}

#[test]
fn message_past_the_quota_is_missed() {
    let scene = Scene::new();
    let mut publisher = scene.publisher();
    let mut greedy = scene.subscriber(&mut publisher, 2, PortPolicy::EvictOldest);
    let (mut held, mut sent) = (Vec::new(), 0);
    while scene.send(&mut publisher, 0).dropped == 0 {
        sent += 1;
        held.extend(greedy.try_take().expect("sound"));
    }
    assert!(held.len() as u64 == sent && greedy.try_take().expect("sound").is_none());
    assert_eq!(greedy.statistics().dropped, 1);
    drop(held);
    assert_eq!(scene.send(&mut publisher, 1).delivered, 1);
    let sample = greedy.try_take().expect("sound").expect("waits");
    assert_eq!(sample.missed_before(), 1);
}

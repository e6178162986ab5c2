//! As many of everything as a default pool promises: 64 participants, 1,024 channels, 4,096
//! connections.

use crate::support::Root;
use hythe_node::{Node, NodeError, Pool, PoolError, PublisherOptions, SubscriberOptions};

const PARTICIPANTS: usize = 64;
const CHANNELS: usize = 1024;

fn join_all(pool: &Pool) -> Vec<Node> {
    (0..PARTICIPANTS)
        .map(|number| Node::join(pool, &format!("node-{number}")).expect("room for 64"))
        .collect()
}

fn is_all_free(pool: &Pool) -> bool {
    let audit = pool.snapshot().audit;
    assert_eq!(audit.mismatches, [], "the ledger does not add up");
    audit.free == audit.slots
}

#[test]
fn sixty_four_publish_to_sixty_four_over_one_channel() {
    let root = Root::new();
    let pool = root.pool();
    let nodes = join_all(&pool);
    let mut subscribers: Vec<_> = nodes
        .iter()
        .map(|node| node.subscriber("all", &SubscriberOptions::default()))
        .collect::<Result<_, _>>()
        .expect("64 subscribers");
    let mut publishers: Vec<_> = nodes
        .iter()
        .map(|node| node.publisher("all", &PublisherOptions::default()))
        .collect::<Result<_, _>>()
        .expect("64 publishers");
    for (number, publisher) in publishers.iter_mut().enumerate() {
        let mut lease = publisher.lease(1).expect("free");
        lease.write(0, &[number as u8]);
        let published = publisher.publish(lease, 1).expect("nobody blocks");
        assert_eq!((published.delivered, published.dropped), (64, 0));
    }
    assert_eq!(pool.snapshot().connections.len(), 4096);
    for subscriber in &mut subscribers {
        let mut from = [false; PARTICIPANTS];
        for _ in 0..PARTICIPANTS {
            let sample = subscriber.try_take().expect("sound").expect("it waits");
            from[usize::from(sample.to_vec()[0])] = true;
        }
        assert!(from.iter().all(|&heard| heard), "not from each of them");
        assert!(subscriber.try_take().expect("sound").is_none());
    }
    // One more is one too many: the others are served, and the publisher can say why that one is
    // not.
    let mut late = nodes[0]
        .subscriber("all", &SubscriberOptions::default())
        .expect("a port");
    let publisher = &mut publishers[0];
    let published = publisher.publish(publisher.lease(1).expect("free"), 1);
    let published = published.expect("nobody blocks");
    assert_eq!((published.delivered, published.dropped), (64, 1));
    let refused = publisher.reaches_all().expect_err("no connection is left");
    let limit = 4096;
    let what = "connection";
    let full = PoolError::TableFull { what, limit };
    assert_eq!(refused.refusal(), Some(&full), "{refused}");
    assert!(refused.to_string().contains("node-"), "{refused}");
    assert!(late.try_take().expect("sound").is_none());
    drop((late, subscribers, publishers, nodes));
    assert!(is_all_free(&pool));
    assert!(pool.snapshot().members.is_empty());
}

#[test]
fn thousand_and_twenty_four_channels_carry_messages() {
    let root = Root::new();
    let pool = root.pool();
    let nodes = join_all(&pool);
    let mut ways = Vec::new();
    for number in 0..CHANNELS {
        let name = format!("channel-{number}");
        let (from, to) = (&nodes[number % 64], &nodes[(number + 1) % 64]);
        let to = to.subscriber(&name, &SubscriberOptions::default());
        let from = from.publisher(&name, &PublisherOptions::default());
        ways.push((from.expect("a channel"), to.expect("the same")));
    }
    assert_eq!(pool.snapshot().channels.len(), CHANNELS);
    let refused = nodes[0].subscriber("one more", &SubscriberOptions::default());
    let refused = refused.expect_err("one too many");
    assert!(matches!(refused, NodeError::Exhausted(_)), "{refused:?}");
    for (number, (from, to)) in ways.iter_mut().enumerate() {
        let mut lease = from.lease(4).expect("free");
        lease.write(0, &(number as u32).to_le_bytes());
        assert_eq!(from.publish(lease, 4).expect("room").delivered, 1);
        let sample = to.try_take().expect("sound").expect("it waits");
        assert_eq!(sample.to_vec(), (number as u32).to_le_bytes());
    }
    drop((ways, nodes));
    assert!(is_all_free(&pool));
    assert!(pool.snapshot().channels.is_empty());
}

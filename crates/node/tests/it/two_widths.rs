//! One pool, shared by a 32-bit and a 64-bit process.
//!
//! The other process is this test program built for another machine, under its emulator. [`OTHER`]
//! holds the command that starts it; `make test-targets` and `make arm` set it, and without it
//! these tests are skipped aloud.

use std::process::Command;
use std::time::{Duration, Instant};

use crate::support::player::{Player, own_role, say, until_told};
use crate::support::{BOUND, Root, eventually};
use hythe_node::{
    Node, Pool, PoolOptions, PortPolicy, Publisher, PublisherOptions, Sample, Subscriber,
    SubscriberOptions,
};

/// The environment variable with the command of the other program; words separated by spaces.
const OTHER: &str = "HYTHE_OTHER_WIDTH";

/// What the other process can be. Each says its width first.
mod roles {
    /// Answers each message on `in` with one of its own on `out`: the same bytes, each
    /// complemented.
    pub(super) const ANSWERER: &str = "answerer";
    /// Forwards from `in` to `out`.
    pub(super) const RELAY: &str = "relay";
    /// Takes two samples from `in`, keeps them and a lease.
    pub(super) const HOLDER: &str = "holder";
    /// Publishes five messages on `in` once somebody listens.
    pub(super) const SOURCE: &str = "source";
}

/// One size within each class of the small pool, and its edges.
const SIZES: [usize; 8] = [1, 767, 768, 769, 3840, 16_000, 65_536, 1 << 20];

/// Not a test of its own: the other process of the tests below.
#[test]
fn plays_its_role() {
    let Some(role) = own_role() else {
        return;
    };
    // Whoever comes first makes the pool.
    let options = PoolOptions::new("test").bytes(16 << 20);
    let pool = Pool::open_or_create(&options).expect("opened or made");
    let node = Node::join(&pool, &role).expect("joins");
    say(&format!("{} bits", usize::BITS));
    match role.as_str() {
        roles::ANSWERER => answer(&node),
        roles::RELAY => relay(&node),
        roles::HOLDER => hold(&node),
        roles::SOURCE => source(&node),
        other => panic!("no role {other}"),
    }
}

fn answer(node: &Node) {
    let (mut questions, mut answers) = (subscriber(node, "in"), publisher(node, "out"));
    assert!(answers.wait_for_subscribers(1, BOUND).expect("sound"));
    say("ready");
    let start = Instant::now();
    while start.elapsed() < BOUND {
        if let Some(question) = questions
            .take(Duration::from_millis(100))
            .expect("sound descriptors")
        {
            let bytes = question.to_vec();
            drop(question);
            let complement: Vec<u8> = bytes.iter().map(|byte| !byte).collect();
            publish(&mut answers, &complement);
        }
    }
}

fn relay(node: &Node) {
    let (mut from, mut to) = (subscriber(node, "in"), publisher(node, "out"));
    assert!(to.wait_for_subscribers(1, BOUND).expect("sound"));
    say("ready");
    let start = Instant::now();
    while start.elapsed() < BOUND {
        if let Some(sample) = from.take(Duration::from_millis(100)).expect("sound") {
            to.forward(sample).expect("room");
        }
    }
}

fn hold(node: &Node) {
    let mut from = subscriber(node, "in");
    say("ready");
    let kept: Vec<Sample> = (0..2)
        .map(|_| from.take(BOUND).expect("sound").expect("published"))
        .collect();
    let _lease = node.lease(100_000).expect("free");
    say(&format!("holds {}", kept.len()));
    until_told();
}

fn source(node: &Node) {
    let mut to = publisher(node, "in");
    say("ready");
    assert!(to.wait_for_subscribers(1, BOUND).expect("sound"));
    for round in 0..5 {
        publish(&mut to, &pattern(round, 1000));
    }
    until_told();
}

fn subscriber(node: &Node, channel: &str) -> Subscriber {
    let policy = PortPolicy::Block { timeout_ms: 20_000 };
    let options = SubscriberOptions::default().policy(policy).depth(8);
    node.subscriber(channel, &options).expect("opens")
}

fn publisher(node: &Node, channel: &str) -> Publisher {
    let options = PublisherOptions::default().send_timeout(BOUND);
    node.publisher(channel, &options).expect("opens")
}

fn publish(publisher: &mut Publisher, bytes: &[u8]) {
    let mut lease = publisher.lease(bytes.len()).expect("free");
    lease.write(0, bytes);
    let published = publisher.publish(lease, bytes.len()).expect("room");
    assert_eq!((published.delivered, published.dropped), (1, 0));
}

/// The other program in a role, once it has shown that it is of the other width; `None`, said
/// aloud, if there is none.
fn other(root: &Root, role: &str) -> Option<Player> {
    let Ok(words) = std::env::var(OTHER) else {
        eprintln!("SKIPPED (no {OTHER}; `make test-targets` builds the other program): {role}");
        return None;
    };
    let mut words = words.split_ascii_whitespace();
    let mut command = Command::new(words.next().expect("a command"));
    command.args(words);
    let peer = Player::start_command(command, root.path(), role);
    let width = if usize::BITS == 64 { 32 } else { 64 };
    assert_eq!(peer.hear(), format!("{width} bits"));
    Some(peer)
}

/// Nothing is held or queued, and the ledger adds up.
fn is_all_free(pool: &Pool) -> bool {
    let audit = pool.snapshot().audit;
    assert_eq!(audit.mismatches, [], "the ledger does not add up");
    audit.free == audit.slots
}

fn pattern(round: usize, bytes: usize) -> Vec<u8> {
    (0..bytes).map(|at| (at * 7 + round) as u8).collect()
}

/// Questions of every class to the other side, which answers out of buffers that it leased itself.
fn converse(pool: &Pool, answerer: &Player) {
    let node = Node::join(pool, "test").expect("joins");
    let (mut questions, mut answers) = (publisher(&node, "in"), subscriber(&node, "out"));
    assert_eq!(answerer.hear(), "ready");
    assert!(questions.wait_for_subscribers(1, BOUND).expect("sound"));
    for round in 0..5 {
        for bytes in SIZES {
            let question = pattern(round, bytes);
            publish(&mut questions, &question);
            let answer = answers.take(BOUND).expect("sound").expect("answered");
            let found = answer.to_vec();
            assert!(
                found.iter().map(|byte| !byte).eq(question),
                "round {round}, {bytes} bytes: {} came back",
                found.len()
            );
        }
        let audit = pool.snapshot().audit;
        assert_eq!(audit.mismatches, [], "the ledger does not add up");
    }
}

#[test]
fn messages_go_both_ways() {
    let root = Root::new();
    let pool = root.pool();
    let Some(answerer) = other(&root, roles::ANSWERER) else {
        return;
    };
    converse(&pool, &answerer);
    drop(answerer);
    // Joining recovers the dead, if the node was gone before it could.
    let _node = Node::join(&pool, "after").expect("joins");
    eventually("all is free", || is_all_free(&pool));
}

#[test]
fn pool_made_by_the_other_width_opens() {
    let root = Root::new();
    let Some(answerer) = other(&root, roles::ANSWERER) else {
        return;
    };
    let pool = Pool::open(&root.options()).expect("the other side has made it");
    converse(&pool, &answerer);
}

#[test]
fn handing_on_through_the_other_width_keeps_the_place() {
    let root = Root::new();
    let pool = root.pool();
    let Some(relay) = other(&root, roles::RELAY) else {
        return;
    };
    let node = Node::join(&pool, "test").expect("joins");
    let (mut direct, mut relayed) = (subscriber(&node, "in"), subscriber(&node, "out"));
    assert_eq!(relay.hear(), "ready");
    let mut publisher = publisher(&node, "in");
    assert!(publisher.wait_for_subscribers(2, BOUND).expect("sound"));
    for round in 0..50 {
        let bytes = pattern(round, SIZES[round % SIZES.len()]);
        let mut lease = publisher.lease(bytes.len()).expect("free");
        lease.write(0, &bytes);
        let published = publisher.publish(lease, bytes.len()).expect("room");
        assert_eq!(published.delivered, 2);
        let first = direct.take(BOUND).expect("sound").expect("published");
        let second = relayed.take(BOUND).expect("sound").expect("forwarded");
        assert_eq!(first.descriptor(), second.descriptor(), "it was copied");
        assert_eq!(second.to_vec(), bytes);
    }
    drop((publisher, direct, relayed, relay));
    eventually("all is free", || is_all_free(&pool));
}

#[test]
fn what_the_other_width_held_when_it_was_killed_comes_back() {
    let root = Root::new();
    let pool = root.pool();
    let Some(mut holder) = other(&root, roles::HOLDER) else {
        return;
    };
    let node = Node::join(&pool, "test").expect("joins");
    let mut publisher = publisher(&node, "in");
    assert_eq!(holder.hear(), "ready");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    for round in 0..5 {
        publish(&mut publisher, &pattern(round, 1000));
    }
    assert_eq!(holder.hear(), "holds 2");
    let audit = pool.snapshot().audit;
    assert_eq!((audit.held, audit.queued), (3, 3));
    holder.kill();
    eventually("its samples, its lease and its queue come back", || {
        is_all_free(&pool)
    });
    eventually("its record is gone", || pool.snapshot().members.len() == 1);
}

/// The other way round: this test takes no part itself, so nobody but the other side can recover.
#[test]
fn other_width_recovers_one_of_ours() {
    let root = Root::new();
    let pool = root.pool();
    let Some(source) = other(&root, roles::SOURCE) else {
        return;
    };
    assert_eq!(source.hear(), "ready");
    let mut ours = Player::start(&root, roles::HOLDER);
    assert_eq!(ours.hear(), format!("{} bits", usize::BITS));
    assert_eq!(ours.hear(), "ready");
    assert_eq!(ours.hear(), "holds 2");
    eventually("all five are published", || {
        pool.snapshot().audit.queued == 3
    });
    assert_eq!(pool.snapshot().audit.held, 3);
    ours.kill();
    eventually("only the other side is left", || {
        let snapshot = pool.snapshot();
        snapshot.members.len() == 1 && snapshot.ports.len() == 1
    });
    eventually("all is free", || is_all_free(&pool));
    drop(source);
}

//! `fork` without `exec` in a participant: the copies in the child act on nothing, whatever becomes of the child.

mod support;

use std::cell::RefCell;
use std::path::Path;

use hythe_node::{
    Lease, Liveness, Node, NodeError, Pool, PoolOptions, Publisher, PublisherOptions, Sample,
    Subscriber, SubscriberOptions,
};
use hythe_sys::fork::run_in_child;
use support::player::{Player, own_role, say, until_told};
use support::{BOUND, Root, eventually};

/// Forks a child that lives on, keeps two leases, and waits.
const PARENT: &str = "parent";

/// Not a test of its own: the other process of the tests below.
#[test]
fn plays_its_role() {
    let Some(role) = own_role() else { return };
    assert_eq!(role, PARENT);
    let pool = Pool::open(&PoolOptions::new("test")).expect("the test has made it");
    let node = Node::join(&pool, &role).expect("joins");
    let _kept = [node.lease(10).expect("free"), node.lease(99).expect("free")];
    std::thread::spawn(|| {
        let child = || {
            say("forked");
            until_told();
            0
        };
        run_in_child(child).expect("forked")
    });
    // The child has copies of everything, the listening socket included.
    std::thread::sleep(BOUND);
}

/// Everything a participant can have.
struct Belongings {
    node: Node,
    publisher: Publisher,
    subscriber: Subscriber,
    lease: Lease,
    sample: Sample,
}

impl Belongings {
    fn collect(pool: &Pool) -> Self {
        let node = Node::join(pool, "original").expect("joins");
        let mut subscriber = node
            .subscriber("data", &SubscriberOptions::default())
            .expect("opens");
        let mut publisher = node
            .publisher("data", &PublisherOptions::default())
            .expect("opens");
        for _ in 0..2 {
            let lease = publisher.lease(100).expect("free");
            publisher.publish(lease, 100).expect("room");
        }
        let sample = subscriber.take(BOUND).expect("sound").expect("published");
        Self {
            lease: node.lease(10).expect("free"),
            node,
            publisher,
            subscriber,
            sample,
        }
    }

    /// How many of the explicit calls are refused as a copy's, of six.
    fn refused(&mut self) -> i32 {
        let Self {
            node,
            publisher,
            subscriber,
            sample,
            ..
        } = self;
        let refused = [
            node.lease(1).map(drop),
            publisher.lease(1).map(drop),
            publisher.subscribers().map(drop),
            subscriber.try_take().map(drop),
            sample.part(0, 1).map(drop),
            node.publisher("other", &PublisherOptions::default())
                .map(drop),
        ];
        let process = std::os::unix::process::parent_id();
        let is_refusal = |result: &Result<(), NodeError>| matches!(result, Err(NodeError::ForkedCopy { process: original }) if *original == process);
        refused.iter().filter(|result| is_refusal(result)).count() as i32
    }
}

/// All that others can see, but the time.
fn seen(pool: &Pool) -> String {
    let snapshot = pool.snapshot();
    format!(
        "{:?} {:?} {:?} {:?} {} {} {:?}",
        snapshot.members,
        snapshot.channels,
        snapshot.ports,
        snapshot.connections,
        snapshot.audit.held,
        snapshot.audit.queued,
        snapshot.audit.mismatches
    )
}

fn sockets(directory: &Path) -> usize {
    std::fs::read_dir(directory.join("members"))
        .expect("there")
        .count()
}

#[test]
fn a_forked_child_that_drops_everything_changes_nothing() {
    let root = Root::new();
    let pool = root.pool();
    let everything = RefCell::new(Some(Belongings::collect(&pool)));
    let before = seen(&pool);
    let child = || {
        let copies = everything.borrow_mut().take();
        drop(copies);
        0
    };
    assert_eq!(run_in_child(child).expect("forked"), 0);
    assert_eq!(seen(&pool), before);
    assert_eq!(sockets(&pool.path()), 1);
    // The parent goes on, with its watcher.
    let mut ours = everything.into_inner().expect("still here");
    let next = ours.subscriber.take(BOUND).expect("sound");
    assert_eq!(next.expect("still in the queue").len(), 100);
    ours.publisher.publish(ours.lease, 3).expect("room");
    let mut other = Player::start(&root, PARENT);
    assert_eq!(other.hear(), "forked");
    other.kill();
    eventually("our watcher recovers", || {
        pool.control().members().count() == 1
    });
}

#[test]
fn a_forked_child_is_refused_what_only_the_participant_may_do() {
    let root = Root::new();
    let pool = root.pool();
    let everything = RefCell::new(Some(Belongings::collect(&pool)));
    let before = seen(&pool);
    let child = || {
        let mut copies = everything.borrow_mut().take().expect("copied");
        let refused = copies.refused();
        // What is given away goes nowhere.
        let published = copies.publisher.publish(copies.lease, 1);
        let handed_on = copies.publisher.hand_on(copies.sample);
        refused + i32::from(published.is_err()) + i32::from(handed_on.is_err())
    };
    assert_eq!(run_in_child(child).expect("forked"), 8, "refusals");
    assert_eq!(seen(&pool), before);
}

#[test]
fn a_forked_child_may_join_by_itself() {
    let root = Root::new();
    let pool = root.pool();
    let everything = RefCell::new(Some(Belongings::collect(&pool)));
    let before = seen(&pool);
    let child = || {
        drop(everything.borrow_mut().take());
        let own = Node::join(&pool, "child").expect("joins");
        let mut publisher = own
            .publisher("data", &PublisherOptions::default())
            .expect("opens");
        let lease = own.lease(7).expect("free");
        let published = publisher.publish(lease, 7).expect("room");
        let both = pool.control().members().count() == 2;
        i32::from(both && published.delivered == 1)
    };
    assert_eq!(run_in_child(child).expect("forked"), 1);
    let mut ours = everything.into_inner().expect("still here");
    let mut lengths = Vec::new();
    while let Some(sample) = ours.subscriber.try_take().expect("sound") {
        lengths.push(sample.len());
    }
    assert!(lengths.contains(&100), "{lengths:?}");
    drop(ours);
    assert!(pool.snapshot().audit.mismatches.is_empty());
    assert_eq!(pool.snapshot().audit.held, 0, "before: {before}");
}

/// The child holds the listening socket open, and so do its connections stay: death is still the parent's.
#[test]
fn a_participant_whose_forked_child_lives_on_is_recovered() {
    let root = Root::new();
    let pool = root.pool();
    let mut parent = Player::start(&root, PARENT);
    assert_eq!(parent.hear(), "forked");
    let mut info = pool.control().members().next().expect("takes part");
    parent.kill();
    assert_eq!(pool.liveness(&info), Liveness::Dead);
    // As seen from another container: by the socket alone, which still listens.
    info.identity.pid_namespace = 1;
    let by_socket = pool.liveness(&info);
    let has_peer_pidfds =
        hythe_sys::peer::peer_pidfd(std::os::unix::net::UnixStream::pair().expect("made").0)
            .is_ok();
    let expected = if has_peer_pidfds {
        Liveness::Dead
    } else {
        eprintln!("SKIPPED (needs Linux 6.5): the socket is held open by the child");
        Liveness::Alive
    };
    assert_eq!(by_socket, expected);
    let _node = Node::join(&pool, "next").expect("joins");
    assert_eq!(pool.snapshot().audit.held, 0);
    assert_eq!(pool.control().members().count(), 1);
}

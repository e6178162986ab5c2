//! Channels between processes, and what remains when one is killed.
//!
//! The other process is this test program again, asked by [`ROLE`] to play one of [`roles`].

mod support;

use std::io::{BufRead, BufReader, Read, Write};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::mpsc::{Receiver, channel};
use std::time::{Duration, Instant};

use hythe_node::{
    Node, NodeError, Pool, PoolOptions, PortKind, PortPolicy, PublisherOptions, Sample, Subscriber,
    SubscriberOptions,
};
use support::{BOUND, Root, eventually};

/// The environment variable that makes [`plays_its_role`] do something.
const ROLE: &str = "HYTHE_TEST_ROLE";

/// What a child can be. Each prints a line when it is where the test wants it, and goes on until its input ends.
mod roles {
    /// Takes two samples and keeps them.
    pub(super) const HOLDER: &str = "holder";
    /// Publishes one message, keeps two leases, and waits.
    pub(super) const SOURCE: &str = "source";
    /// Hands on from `in` to `out`.
    pub(super) const RELAY: &str = "relay";
    /// Subscribes and never takes; publishers block for 60 ms.
    pub(super) const STUCK: &str = "stuck";
}

/// Another process taking part, killed with this value.
struct Peer {
    child: Child,
    /// Its input; closed, it ends.
    input: Option<ChildStdin>,
    lines: Receiver<String>,
}

impl Peer {
    fn start(root: &Root, role: &str) -> Self {
        let mut child = Command::new(std::env::current_exe().expect("known"))
            .args([
                "--exact",
                "plays_its_role",
                "--nocapture",
                "--test-threads=1",
            ])
            .env(ROLE, role)
            .env("HYTHE_ROOT", root.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let output = child.stdout.take().expect("piped");
        let (sender, lines) = channel();
        std::thread::spawn(move || {
            let said = BufReader::new(output).lines().map_while(Result::ok);
            for line in
                said.filter_map(|line| line.split_once("role: ").map(|(_, said)| said.to_owned()))
            {
                let _ = sender.send(line);
            }
        });
        Self {
            input: child.stdin.take(),
            child,
            lines,
        }
    }

    /// The next line it says.
    fn hear(&self) -> String {
        self.lines
            .recv_timeout(BOUND)
            .expect("it says something in time")
    }

    fn stop(&self) {
        let pid = rustix::process::Pid::from_child(&self.child);
        rustix::process::kill_process(pid, rustix::process::Signal::STOP).expect("own child");
    }

    fn kill(&mut self) {
        self.child.kill().expect("own child");
        self.child.wait().expect("own child");
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        drop(self.input.take());
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// Not a test of its own: the other process of the tests below.
#[test]
fn plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let pool = Pool::open(&PoolOptions::new("test")).expect("the test has made it");
    let node = Node::join(&pool, &role).expect("joins");
    match role.as_str() {
        roles::HOLDER => hold(&node),
        roles::SOURCE => source(&node),
        roles::RELAY => relay(&node),
        roles::STUCK => stuck(&node),
        other => panic!("no role {other}"),
    }
}

fn say(line: &str) {
    println!("role: {line}");
    std::io::stdout().flush().expect("the test listens");
}

fn until_input_ends() {
    let _ = std::io::stdin().read(&mut [0]);
}

fn hold(node: &Node) {
    let mut subscriber = subscribe(node, "data", PortPolicy::DropNewest, 8);
    say("ready");
    let kept: Vec<Sample> = (0..2)
        .map(|_| subscriber.take(BOUND).expect("sound").expect("published"))
        .collect();
    say(&format!("holds {}", kept.len()));
    until_input_ends();
}

fn source(node: &Node) {
    let mut publisher = node
        .publisher("data", &PublisherOptions::default())
        .expect("opens");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    let _kept = [
        node.lease(10).expect("free"),
        node.lease(100_000).expect("free"),
    ];
    publisher
        .publish(publisher.lease(5).expect("free"), 5)
        .expect("room");
    say("published");
    until_input_ends();
}

fn relay(node: &Node) {
    let mut from = subscribe(node, "in", PortPolicy::Block { timeout_ms: 5000 }, 4);
    let mut to = node
        .publisher("out", &PublisherOptions::default())
        .expect("opens");
    assert!(to.wait_for_subscribers(1, BOUND).expect("sound"));
    say("ready");
    let start = Instant::now();
    while start.elapsed() < BOUND {
        if let Some(sample) = from.take(Duration::from_millis(100)).expect("sound") {
            to.hand_on(sample).expect("room");
        }
    }
}

fn stuck(node: &Node) {
    let _subscriber = subscribe(node, "data", PortPolicy::Block { timeout_ms: 60 }, 2);
    say("ready");
    until_input_ends();
}

fn subscribe(node: &Node, channel: &str, policy: PortPolicy, depth: u32) -> Subscriber {
    node.subscriber(
        channel,
        &SubscriberOptions::default().policy(policy).depth(depth),
    )
    .expect("opens")
}

/// Nothing is held or queued, and the ledger adds up.
fn is_all_free(pool: &Pool) -> bool {
    let audit = pool.snapshot().audit;
    assert_eq!(audit.mismatches, [], "the ledger does not add up");
    audit.free == audit.slots
}

#[test]
fn what_a_killed_subscriber_held_comes_back() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let mut publisher = node
        .publisher("data", &PublisherOptions::default())
        .expect("opens");
    let mut holder = Peer::start(&root, roles::HOLDER);
    assert_eq!(holder.hear(), "ready");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    for _ in 0..5 {
        let published = publisher
            .publish(publisher.lease(1000).expect("free"), 1000)
            .expect("room");
        assert_eq!((published.delivered, published.dropped), (1, 0));
    }
    assert_eq!(holder.hear(), "holds 2");
    let snapshot = pool.snapshot();
    assert_eq!((snapshot.audit.held, snapshot.audit.queued), (2, 3));
    let held = snapshot.held_buffers();
    let name = format!("holder (pid {})", holder.child.id());
    assert_eq!(
        held.iter()
            .filter(|held| snapshot.holder_name(held.holder) == name)
            .count(),
        2
    );
    holder.kill();
    eventually("its two samples and its queue come back", || {
        is_all_free(&pool)
    });
    eventually("its record, port and connection are gone", || {
        let snapshot = pool.snapshot();
        let _ = publisher.subscribers().expect("sound");
        snapshot.members.len() == 1 && snapshot.ports.len() == 1 && snapshot.connections.is_empty()
    });
    let after = publisher
        .publish(publisher.lease(1).expect("free"), 1)
        .expect("nobody is a fine receiver");
    assert_eq!(after.delivered, 0);
}

#[test]
fn a_publisher_killed_while_a_subscriber_waits_leaves_nothing() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let mut subscriber = subscribe(&node, "data", PortPolicy::DropNewest, 4);
    let mut source = Peer::start(&root, roles::SOURCE);
    assert_eq!(source.hear(), "published");
    let sample = subscriber.take(BOUND).expect("sound").expect("published");
    assert_eq!(sample.len(), 5);
    assert_eq!(pool.snapshot().audit.held, 3);
    let waiting = std::thread::spawn(move || {
        let timeout = Duration::from_millis(700);
        let (start, taken) = (Instant::now(), subscriber.take(timeout));
        (subscriber, start.elapsed() >= timeout, taken)
    });
    std::thread::sleep(Duration::from_millis(100));
    source.kill();
    let (subscriber, waited, taken) = waiting.join().expect("the wait ends");
    assert!(
        taken.expect("sound").is_none(),
        "something came from a dead publisher"
    );
    assert!(waited, "it gave up before its time");
    // What was received from the dead stays with us.
    eventually("only our sample is held", || {
        pool.snapshot().audit.held == 1
    });
    assert_eq!(sample.len(), 5);
    drop((sample, subscriber));
    eventually("all is free", || is_all_free(&pool));
}

#[test]
fn handing_on_keeps_the_place() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let mut direct = subscribe(&node, "in", PortPolicy::DropNewest, 4);
    let mut relayed = subscribe(&node, "out", PortPolicy::DropNewest, 4);
    let relay = Peer::start(&root, roles::RELAY);
    assert_eq!(relay.hear(), "ready");
    let mut publisher = node
        .publisher("in", &PublisherOptions::default())
        .expect("opens");
    assert!(publisher.wait_for_subscribers(2, BOUND).expect("sound"));
    for round in 0..50_u8 {
        let mut lease = publisher.lease(3000).expect("free");
        lease.write(0, &[round; 3000]);
        assert_eq!(publisher.publish(lease, 3000).expect("room").delivered, 2);
        let first = direct.take(BOUND).expect("sound").expect("published");
        let second = relayed.take(BOUND).expect("sound").expect("handed on");
        assert_eq!(first.descriptor(), second.descriptor(), "it was copied");
        assert_eq!(second.to_vec(), [round; 3000]);
    }
    drop((publisher, direct, relayed, relay));
    eventually("all is free", || is_all_free(&pool));
}

#[test]
fn a_blocked_publisher_learns_who_blocks_it() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let mut publisher = node
        .publisher("data", &PublisherOptions::default())
        .expect("opens");
    let mut stuck = Peer::start(&root, roles::STUCK);
    assert_eq!(stuck.hear(), "ready");
    assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    for _ in 0..2 {
        publisher
            .publish(publisher.lease(1).expect("free"), 1)
            .expect("room for two");
    }
    let start = Instant::now();
    let refused = publisher
        .publish(publisher.lease(1).expect("free"), 1)
        .expect_err("no room for a third");
    assert!(
        start.elapsed() >= Duration::from_millis(60),
        "it did not wait"
    );
    let NodeError::Blocked {
        channel,
        waited_ms,
        subscriber,
    } = &refused
    else {
        panic!("{refused:?}")
    };
    assert_eq!((channel.as_str(), *waited_ms), ("data", 60));
    assert_eq!(*subscriber, format!("stuck (pid {})", stuck.child.id()));
    assert_eq!(
        (
            publisher.statistics().messages,
            publisher.statistics().dropped
        ),
        (2, 1)
    );
    let audit = pool.snapshot().audit;
    assert_eq!(
        (audit.held, audit.queued),
        (0, 2),
        "the refused buffer was not released"
    );
    // Killed while a publisher waits for room: that publisher goes on.
    let waiting = std::thread::spawn(move || {
        let published = publisher.publish(publisher.lease(1).expect("free"), 1);
        (publisher, published)
    });
    stuck.kill();
    // In time or out of time: both are fine, hanging is not.
    let (publisher, _) = waiting.join().expect("the wait ends");
    eventually("all is free", || is_all_free(&pool));
    drop(publisher);
}

#[test]
fn drop_newest_counts_what_it_drops() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let mut subscriber = subscribe(&node, "data", PortPolicy::DropNewest, 2);
    let mut publisher = node
        .publisher("data", &PublisherOptions::default())
        .expect("opens");
    let mut delivered = 0;
    for number in 0..5_u8 {
        let mut lease = publisher.lease(1).expect("free");
        lease.write(0, &[number]);
        delivered += publisher.publish(lease, 1).expect("never blocks").delivered;
    }
    assert_eq!((delivered, publisher.statistics().dropped), (2, 3));
    let snapshot = pool.snapshot();
    let port = snapshot
        .ports
        .iter()
        .find(|port| port.kind == PortKind::Publisher)
        .expect("open");
    assert_eq!(
        (port.statistics.messages, port.statistics.dropped),
        (5, 3),
        "the losses are not visible to others"
    );
    let taken: Vec<Vec<u8>> = std::iter::from_fn(|| subscriber.try_take().expect("sound"))
        .map(|sample| sample.to_vec())
        .collect();
    assert_eq!(taken, [[0], [1]], "not the newest were dropped");
}

#[test]
fn the_first_to_come_back_finds_the_pool_in_order() {
    let root = Root::new();
    let pool = root.pool();
    let mut source = Peer::start(&root, roles::SOURCE);
    let mut holder = Peer::start(&root, roles::HOLDER);
    assert_eq!(holder.hear(), "ready");
    assert_eq!(source.hear(), "published");
    eventually("the message is taken", || pool.snapshot().audit.held == 3);
    // Nobody is left to recover anybody: the last to die does not see the first.
    holder.stop();
    source.kill();
    holder.kill();
    assert_eq!(pool.snapshot().audit.held, 3);
    let node = Node::join(&pool, "test").expect("joins");
    assert!(
        is_all_free(&pool),
        "joining recovers the dead before it returns"
    );
    assert_eq!(pool.snapshot().members.len(), 1);
    drop(node);
    let left = pool.snapshot();
    assert_eq!(
        (
            left.members.len(),
            left.channels.len(),
            left.ports.len(),
            left.connections.len()
        ),
        (0, 0, 0, 0)
    );
}

/// Killed at any moment of its work, a relay leaves nothing behind and takes nobody with it.
#[test]
fn a_relay_killed_anywhere_loses_no_slot() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    for round in 0..8 {
        let mut sink = subscribe(&node, "out", PortPolicy::DropNewest, 16);
        let mut relay = Peer::start(&root, roles::RELAY);
        assert_eq!(relay.hear(), "ready");
        let mut publisher = node
            .publisher("in", &PublisherOptions::default())
            .expect("opens");
        assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
        let killer = std::thread::spawn(move || {
            // Different from round to round, and never in step with the messages.
            std::thread::sleep(Duration::from_micros(1_000 + 3_337 * round));
            relay.kill();
        });
        let mut received = 0_u64;
        while !killer.is_finished() {
            publisher
                .publish(publisher.lease(200).expect("free"), 200)
                .expect("its death frees us");
            while let Some(sample) = sink.try_take().expect("sound") {
                assert_eq!(sample.len(), 200);
                received += 1;
            }
        }
        killer.join().expect("killed");
        assert!(
            received > 0 || round == 0,
            "the relay did nothing in round {round}"
        );
        drop((sink, publisher));
        eventually("all is free", || is_all_free(&pool));
    }
}

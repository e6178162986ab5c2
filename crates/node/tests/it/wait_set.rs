//! One wait for many ports and file descriptors: what wakes it, what it reports, and that nothing
//! gets lost.
//!
//! The other process is this test program again, asked by [`ROLE`] to publish.

use crate::support;

use std::collections::HashMap;
use std::os::fd::AsFd;
use std::process::{Child, Stdio};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use crate::support::{BOUND, Root, eventually};
use hythe_node::{
    Interest, Node, NodeError, Pool, PoolOptions, PortPolicy, Publisher, PublisherOptions,
    Subscriber, SubscriberOptions, Token, WaitSet,
};
use hythe_testing::{WatchedThread, await_kill, in_module};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

/// Makes [`plays_its_role`] publish: `CHANNELS/MESSAGES`.
const ROLE: &str = "HYTHE_TEST_WAIT_SET_ROLE";
/// Long enough that a wake-up which comes at once is not the end of it.
const LONG: Duration = Duration::from_secs(120);

fn subscribe(node: &Node, channel: &str) -> Subscriber {
    let policy = PortPolicy::Block { timeout_ms: 20_000 };
    let options = SubscriberOptions::default().policy(policy).depth(8);
    node.subscriber(channel, &options).expect("opens")
}

fn publisher(node: &Node, channel: &str) -> Publisher {
    node.publisher(channel, &PublisherOptions::default().send_timeout(LONG))
        .expect("opens")
}

fn publish(publisher: &mut Publisher, number: u64) {
    let mut lease = publisher.lease(8).expect("free");
    lease.write(0, &number.to_le_bytes());
    let published = publisher.publish(lease, 8).expect("room");
    assert!(published.dropped == 0, "{published:?}");
}

/// Takes all there is: the numbers in the messages.
fn take_all(subscriber: &mut Subscriber) -> Vec<u64> {
    let mut taken = Vec::new();
    while let Some(sample) = subscriber.try_take().expect("sound") {
        let bytes = sample.to_vec().try_into().expect("eight bytes");
        taken.push(u64::from_le_bytes(bytes));
    }
    taken
}

fn tokens(wait_set: &mut WaitSet, timeout: Duration) -> Vec<Token> {
    let events = wait_set.wait(timeout).expect("waits");
    events.iter().map(hythe_node::Event::token).collect()
}

/// A subscriber of a channel, alone in a wait set.
fn waiting_for(channel: &str) -> (Root, Node, Subscriber, WaitSet, Token) {
    let root = Root::new();
    let node = Node::join(&root.pool(), "test").expect("joins");
    let mut subscriber = subscribe(&node, channel);
    let mut wait_set = node.wait_set().expect("made");
    let token = wait_set.attach(&mut subscriber).expect("attached");
    (root, node, subscriber, wait_set, token)
}

/// Another process that publishes, killed with this value.
struct Peer(Child);

impl Peer {
    fn start(root: &Root, channels: usize, messages: u64) -> Self {
        let child = support::again::command()
            .args(["--exact", &in_module("plays_its_role"), "--test-threads=1"])
            .env(ROLE, format!("{channels}/{messages}"))
            .env("HYTHE_ROOT", root.path())
            .stdout(Stdio::null())
            .spawn();
        Self(child.expect("started"))
    }
}

impl Drop for Peer {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// Not a test of its own: publishes numbers to each of its channels in turn, and stays until it is
/// killed.
#[test]
fn plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let (channels, messages) = role.split_once('/').expect("two numbers");
    let (channels, messages): (usize, u64) = (
        channels.parse().expect("a number"),
        messages.parse().expect("a number"),
    );
    let pool = Pool::open(&PoolOptions::new("test")).expect("the test has made it");
    let node = Node::join(&pool, "peer").expect("joins");
    let mut publishers: Vec<Publisher> = (0..channels)
        .map(|channel| publisher(&node, &format!("c{channel}")))
        .collect();
    for publisher in &mut publishers {
        assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
    }
    for number in 0..messages {
        publishers
            .iter_mut()
            .for_each(|publisher| publish(publisher, number));
    }
    await_kill();
}

#[test]
fn message_wakes_and_is_reported_until_it_is_taken() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "test").expect("joins");
    let mut subscribers = [subscribe(&node, "a"), subscribe(&node, "b")];
    let mut wait_set = node.wait_set().expect("made");
    let attached: Vec<Token> = subscribers
        .iter_mut()
        .map(|subscriber| wait_set.attach(subscriber).expect("attached"))
        .collect();
    assert_eq!(tokens(&mut wait_set, Duration::ZERO), []);
    let waiting = WatchedThread::me();
    std::thread::scope(|scope| {
        scope.spawn(|| {
            waiting.until_asleep();
            publish(&mut publisher(&node, "b"), 7);
        });
        assert_eq!(tokens(&mut wait_set, LONG), [attached[1]]);
    });
    assert_eq!(tokens(&mut wait_set, LONG), [attached[1]], "still there");
    assert_eq!(take_all(&mut subscribers[1]), [7]);
    // The publisher has left by now, and was seen to.
    assert_eq!(tokens(&mut wait_set, Duration::ZERO), []);
}

#[test]
fn wait_set_finds_message_older_than_attachment() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "test").expect("joins");
    let mut subscriber = subscribe(&node, "a");
    let mut source = publisher(&node, "a");
    publish(&mut source, 1);
    let mut wait_set = node.wait_set().expect("made");
    let token = wait_set.attach(&mut subscriber).expect("attached");
    assert_eq!(tokens(&mut wait_set, LONG), [token]);
}

#[test]
fn time_is_over_when_nothing_comes() {
    let (_root, _node, _subscriber, mut wait_set, _) = waiting_for("a");
    let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
    for with_file in [false, true] {
        if with_file {
            wait_set
                .attach_fd(&reader, Interest::Readable)
                .expect("attached");
        }
        let start = Instant::now();
        assert_eq!(tokens(&mut wait_set, Duration::from_millis(40)), []);
        assert!(start.elapsed() >= Duration::from_millis(40));
    }
}

#[test]
fn file_descriptors_and_ports_wake_the_same_wait() {
    let (_root, node, mut subscriber, mut wait_set, port) = waiting_for("a");
    let mut source = publisher(&node, "a");
    let (reader, writer) = rustix::pipe::pipe().expect("a pipe");
    let file = wait_set
        .attach_fd(&reader, Interest::Readable)
        .expect("attached");
    let filled = wait_set
        .attach_fd(&writer, Interest::Writable)
        .expect("attached");
    let events = wait_set.wait(LONG).expect("waits");
    assert_eq!(events.len(), 1);
    assert!(events[0].token() == filled && events[0].is_writable() && !events[0].is_readable());
    assert!(wait_set.detach(filled));
    assert!(!wait_set.detach(filled), "it is not there any more");

    let waiting = WatchedThread::me();
    for number in 0..3 {
        std::thread::scope(|scope| {
            scope.spawn(|| {
                waiting.until_asleep();
                publish(&mut source, number);
            });
            assert_eq!(tokens(&mut wait_set, LONG), [port]);
        });
        assert_eq!(take_all(&mut subscriber), [number]);
        std::thread::scope(|scope| {
            scope.spawn(|| {
                waiting.until_asleep();
                rustix::io::write(&writer, b"x").expect("room");
            });
            assert_eq!(tokens(&mut wait_set, LONG), [file]);
        });
        rustix::io::read(&reader, &mut [0; 8]).expect("a byte");
    }
    drop(writer);
    let events = wait_set.wait(LONG).expect("waits");
    assert!(events[0].token() == file && events[0].is_closed());
}

#[test]
fn death_of_a_publisher_wakes() {
    let (root, _node, mut subscriber, mut wait_set, token) = waiting_for("c0");
    let mut peer = Peer::start(&root, 1, 1);
    assert_eq!(tokens(&mut wait_set, BOUND), [token]);
    assert_eq!(take_all(&mut subscriber), [0]);
    assert_eq!(tokens(&mut wait_set, Duration::ZERO), []);
    peer.0.kill().expect("own child");
    assert_eq!(tokens(&mut wait_set, BOUND), [token]);
    assert_eq!(take_all(&mut subscriber), []);
    assert_eq!(subscriber.connected_publishers().expect("sound"), 0);
    assert_eq!(tokens(&mut wait_set, Duration::ZERO), []);
}

#[test]
fn silent_publishers_leave_no_connection() {
    let (root, node, mut subscriber, mut wait_set, token) = waiting_for("a");
    for _ in 0..5 {
        let mut passer_by = publisher(&node, "a");
        assert_eq!(passer_by.subscribers().expect("sound"), 1);
        drop(passer_by);
        assert_eq!(tokens(&mut wait_set, LONG), [token]);
        assert_eq!(take_all(&mut subscriber), []);
    }
    assert_eq!(root.pool().snapshot().connections.len(), 0);
}

#[test]
fn wait_set_finds_one_of_thousand_channels() {
    const CHANNELS: usize = 1024;
    let root = Root::new();
    let node = Node::join(&root.pool(), "test").expect("joins");
    let mut wait_set = node.wait_set().expect("made");
    let mut subscribers = HashMap::new();
    for channel in 0..CHANNELS {
        let mut subscriber = subscribe(&node, &format!("c{channel}"));
        let token = wait_set.attach(&mut subscriber).expect("attached");
        subscribers.insert(token, (channel, subscriber));
    }
    assert_eq!(subscribers.len(), CHANNELS, "each has a token of its own");
    for wanted in [0, 63, 64, 700, CHANNELS - 1] {
        let mut source = publisher(&node, &format!("c{wanted}"));
        for number in 0..3 {
            publish(&mut source, number);
            let found = tokens(&mut wait_set, LONG);
            assert_eq!(found.len(), 1);
            let (channel, subscriber) = subscribers.get_mut(&found[0]).expect("attached");
            assert_eq!(*channel, wanted);
            assert_eq!(take_all(subscriber), [number]);
        }
        drop(source);
        let found = tokens(&mut wait_set, LONG);
        let (_, subscriber) = subscribers.get_mut(&found[0]).expect("attached");
        assert_eq!(take_all(subscriber), [], "only that its publisher left");
        assert_eq!(tokens(&mut wait_set, Duration::ZERO), []);
    }
}

/// Takes `each` numbers, in order, from each port, waiting only when the wait set says so.
fn receive_in_order(
    wait_set: &mut WaitSet,
    ports: &mut HashMap<Token, Subscriber>,
    sources: u64,
    each: u64,
) {
    let mut counts: HashMap<Token, u64> = HashMap::new();
    let wanted = each * sources * ports.len() as u64;
    let mut received = 0;
    while received < wanted {
        let ready = tokens(wait_set, BOUND);
        assert!(
            !ready.is_empty(),
            "{received} of {wanted}, and then silence"
        );
        for token in ready {
            let subscriber = ports.get_mut(&token).expect("an own port");
            // One at a time, so that what waits behind it must be reported again.
            let Some(sample) = subscriber.try_take().expect("sound") else {
                continue;
            };
            let bytes: [u8; 8] = sample.to_vec().try_into().expect("eight bytes");
            let number = u64::from_le_bytes(bytes);
            let count = counts.entry(token).or_default();
            assert!(sources > 1 || number == *count, "out of order");
            *count += 1;
            received += 1;
        }
    }
    assert!(counts.values().all(|&count| count == each * sources));
    // A look at everything may come between a message and its mark, once in a while. If marks got
    // lost, it would find every burst.
    let unmarked = wait_set.unmarked();
    assert!(unmarked <= 3, "{unmarked} ports had lost their marks");
}

/// A wait set with ports on some channels, half of the test.
fn attached(
    node: &Node,
    channels: impl Iterator<Item = usize>,
) -> (WaitSet, HashMap<Token, Subscriber>) {
    let mut wait_set = node.wait_set().expect("made");
    let ports = channels.map(|channel| {
        let mut subscriber = subscribe(node, &format!("c{channel}"));
        (
            wait_set.attach(&mut subscriber).expect("attached"),
            subscriber,
        )
    });
    let ports = ports.collect();
    (wait_set, ports)
}

#[test]
fn no_message_of_several_threads_is_forgotten() {
    const CHANNELS: usize = 6;
    const EACH: u64 = 400;
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let (mut wait_set, mut ports) = attached(&node, 0..CHANNELS);
    std::thread::scope(|scope| {
        for sender in 0..3 {
            let pool = pool.clone();
            scope.spawn(move || {
                let node = Node::join(&pool, &format!("sender {sender}")).expect("joins");
                let mut publishers: Vec<Publisher> = (0..CHANNELS)
                    .map(|channel| publisher(&node, &format!("c{channel}")))
                    .collect();
                for number in 0..EACH {
                    publishers
                        .iter_mut()
                        .for_each(|publisher| publish(publisher, number));
                }
                drop(publishers);
            });
        }
        receive_in_order(&mut wait_set, &mut ports, 3, EACH);
    });
}

#[test]
fn no_message_of_several_processes_is_forgotten() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "test").expect("joins");
    let (mut wait_set, mut ports) = attached(&node, 0..4);
    let _peers = [Peer::start(&root, 4, 500), Peer::start(&root, 4, 500)];
    receive_in_order(&mut wait_set, &mut ports, 2, 500);
}

#[test]
fn two_wait_sets_of_one_node_do_not_take_each_others_marks() {
    const EACH: u64 = 500;
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    // Ports of both in the same cell of marks, and one wait set goes over an eventfd.
    let (mut even, mut even_ports) = attached(&node, [0, 2, 4].into_iter());
    let (mut odd, mut odd_ports) = attached(&node, [1, 3, 5].into_iter());
    let (reader, _writer) = rustix::pipe::pipe().expect("a pipe");
    odd.attach_fd(&reader, Interest::Readable)
        .expect("attached");
    std::thread::scope(|scope| {
        scope.spawn(move || {
            let sender = Node::join(&pool, "sender").expect("joins");
            let mut publishers: Vec<Publisher> = (0..6)
                .map(|channel| publisher(&sender, &format!("c{channel}")))
                .collect();
            for number in 0..EACH {
                publishers
                    .iter_mut()
                    .for_each(|publisher| publish(publisher, number));
            }
            drop(publishers);
        });
        scope.spawn(|| receive_in_order(&mut odd, &mut odd_ports, 1, EACH));
        receive_in_order(&mut even, &mut even_ports, 1, EACH);
    });
}

#[test]
fn detached_port_is_not_reported_and_frees_its_token() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "test").expect("joins");
    let mut wait_set = node.wait_set().expect("made");
    let (mut first, mut second) = (subscribe(&node, "a"), subscribe(&node, "a"));
    let first_token = wait_set.attach(&mut first).expect("attached");
    let second_token = wait_set.attach(&mut second).expect("attached");
    let mut source = publisher(&node, "a");
    publish(&mut source, 1);
    assert!(wait_set.detach(first_token));
    assert_eq!(tokens(&mut wait_set, LONG), [second_token]);
    drop(second);
    assert_eq!(tokens(&mut wait_set, Duration::ZERO), []);
    assert!(!wait_set.detach(second_token));
    // Takes the port number that has just become free, and is nobody's to report.
    let mut third = subscribe(&node, "a");
    publish(&mut source, 2);
    assert_eq!(tokens(&mut wait_set, Duration::ZERO), []);
    // What was detached can be attached again, here or elsewhere.
    let again = wait_set.attach(&mut first).expect("attached");
    assert_eq!(tokens(&mut wait_set, LONG), [again]);
    let mut other = node.wait_set().expect("made");
    let refused = other.attach(&mut first).expect_err("it is attached");
    assert!(matches!(refused, NodeError::Attached { .. }), "{refused}");
    drop(wait_set);
    let moved = other.attach(&mut first).expect("free again");
    assert_eq!(tokens(&mut other, LONG), [moved]);
    assert_eq!(take_all(&mut first), [1, 2]);
    assert_eq!(take_all(&mut third), [2]);
}

#[test]
fn wait_set_refuses_unpollable_file() {
    let root = Root::new();
    let pool = root.pool();
    let (node, other) = (
        Node::join(&pool, "test").expect("joins"),
        Node::join(&pool, "other").expect("joins"),
    );
    let mut wait_set = node.wait_set().expect("made");
    let mut foreign = subscribe(&other, "a");
    let refused = wait_set.attach(&mut foreign).expect_err("another node's");
    assert!(
        matches!(refused, NodeError::ForeignPort { .. }),
        "{refused}"
    );
    let file = std::fs::File::open("/proc/self/exe").expect("own program");
    let refused = wait_set
        .attach_fd(&file, Interest::Readable)
        .expect_err("always ready");
    assert!(matches!(refused, NodeError::WaitSet { .. }), "{refused}");
}

/// Is the wait set's own descriptor readable within the time?
fn is_readable(wait_set: &WaitSet, milliseconds: i64) -> bool {
    let mut asked = [PollFd::from_borrowed_fd(wait_set.as_fd(), PollFlags::IN)];
    let timeout = Timespec {
        tv_sec: milliseconds / 1000,
        tv_nsec: milliseconds % 1000 * 1_000_000,
    };
    poll(&mut asked, Some(&timeout)).expect("polls") > 0
}

#[test]
fn wait_set_itself_is_a_file_descriptor() {
    let (_root, node, mut subscriber, mut wait_set, token) = waiting_for("a");
    let mut source = publisher(&node, "a");
    assert!(is_readable(&wait_set, 0), "before the first look");
    assert_eq!(tokens(&mut wait_set, Duration::ZERO), []);
    // A connection may still be on its way through the bell.
    eventually("it becomes quiet", || {
        tokens(&mut wait_set, Duration::ZERO).is_empty() && !is_readable(&wait_set, 0)
    });
    for number in 0..20 {
        publish(&mut source, number);
        assert!(is_readable(&wait_set, 20_000), "message {number}");
        // Reported; and readable as long as it is not taken.
        eventually("it is reported", || {
            tokens(&mut wait_set, Duration::ZERO) == [token]
        });
        assert!(is_readable(&wait_set, 0));
        assert_eq!(take_all(&mut subscriber), [number]);
        eventually("it becomes quiet", || {
            tokens(&mut wait_set, Duration::ZERO).is_empty() && !is_readable(&wait_set, 0)
        });
    }
}

/// What came behind the last wait has rung nobody who would make the descriptor readable.
#[test]
fn descriptor_wait_begins_with_poll() {
    let (_root, node, mut subscriber, mut wait_set, token) = waiting_for("a");
    let mut source = publisher(&node, "a");
    let (quiet, _writer) = rustix::pipe::pipe().expect("a pipe");
    let file = wait_set.attach_fd(&quiet, Interest::Readable);
    file.expect("attached");
    eventually("it becomes quiet", || {
        tokens(&mut wait_set, Duration::ZERO).is_empty()
    });
    publish(&mut source, 1);
    assert!(is_readable(&wait_set, 20_000));
    eventually("it is reported", || {
        tokens(&mut wait_set, Duration::ZERO) == [token]
    });
    assert_eq!(take_all(&mut subscriber), [1]);
}

#[test]
fn sleeping_threads_do_not_hide_marks_from_wait_set() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "test").expect("joins");
    let (mut wait_set, mut ports) = attached(&node, 0..2);
    let over = Arc::new(AtomicBool::new(false));
    std::thread::scope(|scope| {
        let (own, told) = (node.clone(), Arc::clone(&over));
        scope.spawn(move || {
            let mut plain = subscribe(&own, "c0");
            // It may get no CPU until all is over; its queue is full then.
            let first = plain.take(BOUND).expect("sound");
            first.expect("published when it had subscribed");
            while !told.load(Ordering::Relaxed) {
                plain.take(Duration::from_millis(20)).expect("sound");
            }
        });
        let sender = Node::join(&pool, "sender").expect("joins");
        let mut publishers = [publisher(&sender, "c0"), publisher(&sender, "c1")];
        assert!(publishers[0].wait_for_subscribers(2, BOUND).expect("sound"));
        scope.spawn(move || {
            for number in 0..300 {
                publishers
                    .iter_mut()
                    .for_each(|publisher| publish(publisher, number));
            }
        });
        receive_in_order(&mut wait_set, &mut ports, 1, 300);
        over.store(true, Ordering::Relaxed);
    });
}

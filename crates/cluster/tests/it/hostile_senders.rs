//! Hosts that send messages to a task as tasks which run elsewhere: those are counted, and never
//! received, and others' come as they were sent.

use std::io::{BufRead as _, BufReader, Write as _};
use std::os::unix::net::{UnixListener, UnixStream};
use std::sync::Arc;
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

use crate::support::{BOUND, Root};
use hythe_cluster::tasks::{Message, Task, TaskOptions, Wanted};
use hythe_node::{Node, Pool, PoolOptions, Publisher, PublisherOptions, hop};
use serde_json::{Value, json};

/// The task that receives, of a job of host 2.
const RECEIVER: &str = "2.1.0";
/// Job 1 of host 2, and these tasks of it.
const ON_B: u32 = task(2, 1);
const ON_C: u32 = task(2, 2);

const fn task(host: u32, index: u32) -> u32 {
    host << 18 | 1 << 9 | index
}

/// A pool with one task, whose runner is this test.
struct Fixture {
    receiver: Task,
    /// Questions where a task runs.
    asked: Arc<AtomicU32>,
    pool: Pool,
    _root: Root,
}

impl Fixture {
    fn new() -> Self {
        let root = Root::new();
        let options = PoolOptions::new("test").root(root.path()).bytes(16 << 20);
        let pool = Pool::open_or_create(&options).expect("made");
        let listener = UnixListener::bind(pool.path().join("tasks.2.1")).expect("bound");
        let asked = Arc::new(AtomicU32::new(0));
        let counted = Arc::clone(&asked);
        std::thread::spawn(move || {
            while let Ok((stream, _)) = listener.accept() {
                let counted = Arc::clone(&counted);
                std::thread::spawn(move || answer(stream, &counted));
            }
        });
        let lasts = TaskOptions::default().linger(Duration::ZERO);
        Self {
            receiver: Task::enrol(&options, &lasts).expect("taken in"),
            asked,
            pool,
            _root: root,
        }
    }

    /// What stands for another host here, as the agent has it.
    fn host(&self, name: &str) -> Host {
        let node = hop::join_host(&self.pool, name, &[]).expect("joins");
        let channel = format!("task/{RECEIVER}");
        let publisher = node.publisher(&channel, &PublisherOptions::default());
        let mut publisher = publisher.expect("opened");
        assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
        Host {
            publisher,
            _node: node,
        }
    }

    fn receive(&mut self) -> Message {
        let received = self.receiver.receive(Wanted::any(), BOUND);
        received.expect("sound").expect("something comes")
    }

    fn assert_nothing_comes(&mut self) {
        let received = self.receiver.receive(Wanted::any(), Duration::ZERO);
        assert!(received.expect("sound").is_none());
    }
}

/// As the runner does that has started these tasks.
fn answer(stream: UnixStream, asked: &AtomicU32) {
    let mut to = stream.try_clone().expect("cloned");
    for line in BufReader::new(stream).lines().map_while(Result::ok) {
        let request: Value = serde_json::from_str(&line).expect("a request");
        let reply = match request["request"].as_str().expect("a word") {
            "enrol" => json!({"reply": "enrolled", "task": RECEIVER}),
            "where" => {
                asked.fetch_add(1, Ordering::Relaxed);
                match request["task"].as_str().expect("a task") {
                    "2.1.1" => json!({"reply": "place", "host": "b"}),
                    "2.1.2" => json!({"reply": "place", "host": "c"}),
                    _ => json!({"reply": "no-such-task"}),
                }
            }
            _ => json!({"reply": "done"}),
        };
        if writeln!(to, "{reply}").is_err() {
            break;
        }
    }
}

struct Host {
    publisher: Publisher,
    _node: Node,
}

impl Host {
    /// A whole message.
    fn send(&mut self, source: u32, bytes: &[u8]) {
        self.send_part(source, bytes, bytes.len() as u64, 0);
    }

    fn send_part(&mut self, source: u32, bytes: &[u8], total: u64, offset: u64) {
        let (context, tag) = (0_u32, 7_u32);
        let mut piece = b"HTK1".to_vec();
        for word in [source, context, tag] {
            piece.extend_from_slice(&word.to_le_bytes());
        }
        piece.extend_from_slice(&total.to_le_bytes());
        piece.extend_from_slice(&offset.to_le_bytes());
        piece.extend_from_slice(bytes);
        let mut lease = self.publisher.lease(piece.len()).expect("a slot");
        lease.write(0, &piece);
        let published = self.publisher.publish(lease, piece.len());
        assert_eq!(published.expect("published").delivered, 1);
    }
}

fn assert_is(message: Message, source: u32, host: &str, bytes: &[u8]) {
    assert_eq!(message.source().number(), source);
    assert_eq!(message.host(), Some(host));
    assert_eq!(message.into_vec(), bytes);
}

#[test]
fn host_sends_as_its_own_tasks_and_as_no_others() {
    let mut fixture = Fixture::new();
    let (mut b, mut c) = (fixture.host("b"), fixture.host("c"));
    let strangers = [task(2, 3), task(3, 0), task(0, 1), task(2, 0)];
    for lie in strangers.into_iter().chain([ON_C]) {
        b.send(lie, b"lie");
    }
    b.send(ON_B, b"truth");
    assert_is(fixture.receive(), ON_B, "b", b"truth");
    assert_eq!(fixture.receiver.violations(), 5);
    c.send(ON_C, b"truth");
    assert_is(fixture.receive(), ON_C, "c", b"truth");
    // What is known now helps it no more.
    b.send(ON_C, b"lie");
    c.send(ON_B, b"lie");
    fixture.assert_nothing_comes();
    assert_eq!(fixture.receiver.violations(), 7);
}

#[test]
fn nobody_goes_on_with_a_message_of_another_host() {
    let mut fixture = Fixture::new();
    let (mut b, mut c) = (fixture.host("b"), fixture.host("c"));
    c.send_part(ON_C, b"ab", 4, 0);
    fixture.assert_nothing_comes();
    b.send_part(ON_C, b"XX", 4, 2);
    // Nor does it end it by beginning another.
    b.send_part(ON_C, b"X", 4, 0);
    b.send(ON_B, b"own");
    assert_is(fixture.receive(), ON_B, "b", b"own");
    c.send_part(ON_C, b"cd", 4, 2);
    assert_is(fixture.receive(), ON_C, "c", b"abcd");
    assert_eq!(fixture.receiver.violations(), 2);
}

#[test]
fn who_lies_without_end_costs_a_bounded_number_of_questions() {
    let mut fixture = Fixture::new();
    let (mut b, mut c) = (fixture.host("b"), fixture.host("c"));
    b.send(ON_B, b"first");
    assert_is(fixture.receive(), ON_B, "b", b"first");
    for index in 3..403 {
        b.send(task(2, index), b"lie");
        fixture.assert_nothing_comes();
    }
    assert_eq!(fixture.receiver.violations(), 400);
    assert_eq!(fixture.asked.load(Ordering::Relaxed), 1 + 32);
    // Its task that was known is heard, and so are those of others.
    b.send(ON_B, b"last");
    assert_is(fixture.receive(), ON_B, "b", b"last");
    c.send(ON_C, b"of another");
    assert_is(fixture.receive(), ON_C, "c", b"of another");
}

#[test]
fn late_messages_of_host_are_never_of_another() {
    let mut fixture = Fixture::new();
    let mut c = fixture.host("c");
    c.send(ON_C, b"last words");
    drop(c);
    assert_is(fixture.receive(), ON_C, "c", b"last words");
    // Nobody has looked yet when another host has what stood for this one.
    let mut b = fixture.host("b");
    b.send(ON_C, b"lie");
    drop(b);
    let _c = fixture.host("c");
    fixture.assert_nothing_comes();
    assert_eq!(fixture.receiver.violations(), 1);
}

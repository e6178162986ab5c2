//! Message queues between real processes: priorities, limits, waits, kills in front of every store
//! of a send and a receive, and random operations whose messages are counted one by one.
//!
//! Other processes are this test program again, asked by [`ROLE`].

use crate::support;

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Stdio};
use std::time::Duration;

use crate::support::{BOUND, Root};
use hythe_memory::kill_points;
use hythe_node::object::{Deadline, MessageQueue, MessageQueueOptions, SyncError};
use hythe_node::{ClassPlan, Geometry, Limits, MemberKind, Node, Pool, PoolOptions};
use hythe_testing::{eventually, in_module};

const ROLE: &str = "HYTHE_TEST_ROLE";
const STORE: &str = "HYTHE_TEST_STORE";

/// Small tables: few words between two stores that matter.
fn options(root: &Path) -> PoolOptions {
    let limits = Limits {
        participants: 8,
        channels: 4,
        ports: 4,
        connections: 4,
        queue_segments: 4,
        slots: 4,
    };
    let class = ClassPlan {
        payload_bytes: 3840,
        count: 64,
    };
    let geometry = Geometry::with_classes(limits, &[class]).expect("geometry");
    PoolOptions::new("test").root(root).geometry(geometry)
}

fn start(root: &Root, role: &str, store: u32) -> Child {
    support::again::command()
        .args(["--exact", &in_module("plays_its_role"), "--nocapture"])
        .env(ROLE, role)
        .env(STORE, store.to_string())
        .env("HYTHE_TEST_ROOT", root.path())
        .stdout(Stdio::null())
        .spawn()
        .expect("started")
}

fn joined(root: &Root) -> Node {
    let pool = Pool::open_or_create(&options(root.path())).expect("made");
    Node::join(&pool, "test").expect("joins")
}

fn bounded() -> Deadline {
    Deadline::after(BOUND)
}

fn open(node: &Node, name: &str) -> MessageQueue {
    let made = MessageQueueOptions::default().create(8, 1024);
    MessageQueue::open(node, name, &made).expect("opened")
}

/// All of the ledger adds up, and so many slots are in use.
fn in_use(pool: &Pool) -> u32 {
    let audit = pool.snapshot().audit;
    assert_eq!(audit.mismatches, []);
    audit.slots - audit.free
}

#[test]
fn plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    let root = PathBuf::from(std::env::var_os("HYTHE_TEST_ROOT").expect("a root"));
    let pool = Pool::open(&options(&root)).expect("opened");
    let node = Node::join(&pool, &role).expect("joins");
    let queue = open(&node, "/q");
    let store = std::env::var(STORE).map_or(0, |text| text.parse().expect("a number"));
    match role.as_str() {
        "echoes" => {
            let back = open(&node, "/back");
            for _ in 0..ROUNDS {
                let received = queue.receive(bounded()).expect("a message");
                let bytes = received.sample.to_vec();
                back.send_copy(&bytes, received.priority, bounded())
                    .expect("sent");
            }
        }
        "random" => random_operations(&queue, &root),
        operation => dies_in(&root, &queue, operation, store),
    }
}

const ROUNDS: u32 = 200;

#[test]
fn two_processes_exchange_messages() {
    let root = Root::new();
    let node = joined(&root);
    let (queue, back) = (open(&node, "/q"), open(&node, "/back"));
    let mut other = start(&root, "echoes", 0);
    for round in 0..ROUNDS {
        let bytes = vec![round as u8; round as usize];
        queue
            .send_copy(&bytes, round % 32, bounded())
            .expect("sent");
        let received = back.receive(bounded()).expect("answered");
        assert_eq!(
            (received.sample.to_vec(), received.priority),
            (bytes, round % 32)
        );
    }
    assert!(other.wait().expect("ended").success());
    eventually("all back", || in_use(node.pool()) == 0);
}

#[test]
fn highest_priority_first_and_the_oldest_of_one() {
    let root = Root::new();
    let node = joined(&root);
    let queue = open(&node, "/q");
    for (text, priority) in [("a", 3), ("b", 31), ("c", 3), ("d", 0), ("e", 31), ("f", 3)] {
        queue
            .send_copy(text.as_bytes(), priority, Deadline::Now)
            .expect("sent");
    }
    assert_eq!(queue.queued().expect("whole"), 6);
    let order: Vec<u8> = (0..6)
        .flat_map(|_| queue.receive(Deadline::Now).expect("there").sample.to_vec())
        .collect();
    assert_eq!(order, b"beacfd");
}

#[test]
fn lease_travels_without_a_copy() {
    let root = Root::new();
    let node = joined(&root);
    let queue = open(&node, "/q");
    let mut lease = node.lease(100).expect("free");
    lease.write(0, b"in place");
    let before = in_use(node.pool());
    queue.send(lease, 8, 0, Deadline::Now).expect("sent");
    assert_eq!(in_use(node.pool()), before, "the slot went, no other came");
    let received = queue.receive(Deadline::Now).expect("there");
    assert_eq!(received.sample.to_vec(), b"in place");
    assert_eq!(in_use(node.pool()), before);
    drop(received);
    assert_eq!(in_use(node.pool()), 0);
}

#[test]
fn message_queue_refuses_bad_ranges_full_and_empty() {
    let root = Root::new();
    let node = joined(&root);
    let refused = |messages, bytes| {
        let options = MessageQueueOptions::default().create(messages, bytes);
        MessageQueue::open(&node, "/bad", &options).expect_err("out of range")
    };
    for (messages, bytes) in [(0, 10), (65, 10), (1, 0), (1, 65537)] {
        let error = refused(messages, bytes);
        assert!(matches!(error, SyncError::OutOfRange { .. }), "{error}");
    }
    let queue = open(&node, "/q");
    let long = queue
        .send_copy(&[0; 1025], 0, Deadline::Now)
        .expect_err("long");
    assert!(
        matches!(
            long,
            SyncError::MessageSize {
                bytes: 1025,
                limit: 1024
            }
        ),
        "{long}"
    );
    let high = queue.send_copy(b"", 32, Deadline::Now).expect_err("high");
    assert!(matches!(high, SyncError::OutOfRange { .. }), "{high}");
    let empty = queue.receive(Deadline::Now).expect_err("empty");
    assert!(matches!(empty, SyncError::WouldBlock(_)), "{empty}");
    let soon = || Deadline::after(Duration::from_millis(20));
    assert!(matches!(queue.receive(soon()), Err(SyncError::TimedOut)));
    for _ in 0..8 {
        queue.send_copy(b"x", 0, Deadline::Now).expect("room");
    }
    let full = queue.send_copy(b"x", 0, Deadline::Now).expect_err("full");
    assert!(matches!(full, SyncError::WouldBlock(_)), "{full}");
    assert!(matches!(
        queue.send_copy(b"x", 0, soon()),
        Err(SyncError::TimedOut)
    ));
    assert_eq!(in_use(node.pool()), 8, "what was refused went back");
    let one_way = MessageQueueOptions::default().directions(false, true);
    let sender = MessageQueue::open(&node, "/q", &one_way).expect("opened");
    assert!(matches!(
        sender.receive(Deadline::Now),
        Err(SyncError::NotOpenFor(_))
    ));
}

#[test]
fn messages_outlive_their_senders_and_go_with_the_queue() {
    let root = Root::new();
    let node = joined(&root);
    let pool = node.pool().clone();
    let queue = open(&node, "/q");
    queue.send_copy(b"kept", 1, Deadline::Now).expect("sent");
    drop((queue, node));
    let members = pool.snapshot().members;
    assert!(
        members
            .iter()
            .all(|member| member.kind == MemberKind::MessageStore),
        "{members:?}"
    );
    let node = Node::join(&pool, "later").expect("joins");
    let queue = open(&node, "/q");
    MessageQueue::unlink(&node, "/q").expect("unlinked");
    assert_eq!(
        queue.receive(Deadline::Now).expect("kept").sample.to_vec(),
        b"kept"
    );
    queue
        .send_copy(b"lost with the queue", 1, Deadline::Now)
        .expect("sent");
    drop(queue);
    assert_eq!(in_use(&pool), 0);
    drop(node);
    Pool::remove(&options(root.path())).expect("nobody takes part");
}

fn dies_in(root: &Path, queue: &MessageQueue, operation: &str, store: u32) {
    kill_points::arm(store);
    match operation {
        "send" => queue.send_copy(b"new", 5, Deadline::Now).expect("sent"),
        "receive" => {
            let received = queue.receive(Deadline::Now).expect("there");
            // The caller has it from here on.
            let stores = kill_points::disarm();
            std::fs::write(root.join("stores"), stores.to_string()).expect("written");
            drop(received);
        }
        other => panic!("no role {other}"),
    }
    if operation == "send" {
        std::fs::write(root.join("stores"), kill_points::disarm().to_string()).expect("written");
    }
    let _ = rustix::process::kill_process(rustix::process::getpid(), rustix::process::Signal::KILL);
}

/// A process dies in front of each store of an operation. Before: three messages; after: those
/// three, and perhaps the new one, or two of them where the one who received it died with it.
fn sweep(operation: &str) {
    let root = Root::new();
    let node = joined(&root);
    let queue = open(&node, "/q");
    let mut store = 1;
    loop {
        for text in ["a", "b", "c"] {
            queue
                .send_copy(text.as_bytes(), 3, Deadline::Now)
                .expect("sent");
        }
        let mut victim = start(&root, operation, store);
        assert_eq!(
            victim.wait().expect("ended").signal(),
            Some(9),
            "{operation} {store}"
        );
        let processes = || {
            let members = node.pool().snapshot().members.into_iter();
            members
                .filter(|member| member.kind == MemberKind::Process)
                .count()
        };
        eventually("recovered", || processes() == 1);
        let ended = root.path().join("stores");
        let stores = std::fs::read_to_string(&ended).ok();
        let mut left = Vec::new();
        while let Ok(received) = queue.receive(Deadline::Now) {
            left.push(String::from_utf8(received.sample.to_vec()).expect("text"));
        }
        let left: Vec<&str> = left.iter().map(String::as_str).collect();
        let context = format!("{operation} {store}: {left:?}");
        let whole = ["a", "b", "c"];
        match (operation, &stores) {
            ("send", None) => assert!(left == whole || left[1..] == whole, "{context}"),
            ("send", _) => assert_eq!(left, ["new", "a", "b", "c"], "accepted"),
            // It has had it, as its call has returned or was about to.
            (_, Some(_)) => assert_eq!(left, whole[1..], "received"),
            _ => assert!(left == whole || left == whole[1..], "{context}"),
        }
        eventually(&context, || in_use(node.pool()) == 0);
        if let Some(stores) = stores {
            let stores: u32 = stores.parse().expect("a number");
            assert!(store > stores, "{context} lived on");
            println!("{operation}: died in front of each of {stores} stores");
            break;
        }
        store += 1;
    }
}

#[test]
fn death_at_any_store_of_a_send() {
    sweep("send");
}

#[test]
fn death_at_any_store_of_a_receive() {
    sweep("receive");
}

/// Sends numbered messages, and notes which it sent and received.
fn random_operations(queue: &MessageQueue, root: &Path) {
    let mut state = u64::from(std::process::id()) * 0x9E37_79B9 + 1;
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for round in 0..1500_u32 {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        if state.is_multiple_of(2) {
            let number = u64::from(std::process::id()) << 32 | u64::from(round);
            let priority = (state >> 8) as u32 % 32;
            if queue
                .send_copy(&number.to_le_bytes(), priority, Deadline::Now)
                .is_ok()
            {
                sent.push(number);
            }
        } else if let Ok(message) = queue.receive(Deadline::Now) {
            let bytes = message.sample.to_vec().try_into().expect("eight bytes");
            received.push(u64::from_le_bytes(bytes));
        }
    }
    let list = |numbers: &[u64]| numbers.iter().map(|n| format!("{n}\n")).collect::<String>();
    let name = |kind| root.join(format!("{kind}-{}", std::process::id()));
    std::fs::write(name("sent"), list(&sent)).expect("written");
    std::fs::write(name("received"), list(&received)).expect("written");
}

#[test]
fn every_message_of_several_processes_is_received_once() {
    let root = Root::new();
    let node = joined(&root);
    let queue = open(&node, "/q");
    let children: Vec<Child> = (0..3).map(|_| start(&root, "random", 0)).collect();
    let (mut sent, mut received) = (Vec::new(), Vec::new());
    for mut child in children {
        let id = child.id();
        assert!(child.wait().expect("ended").success());
        let read = |kind: &str| -> Vec<u64> {
            let text = std::fs::read_to_string(root.path().join(format!("{kind}-{id}")));
            let text = text.expect("a list");
            text.lines()
                .map(|line| line.parse().expect("a number"))
                .collect()
        };
        sent.extend(read("sent"));
        received.extend(read("received"));
    }
    while let Ok(message) = queue.receive(Deadline::Now) {
        let bytes = message.sample.to_vec().try_into().expect("eight bytes");
        received.push(u64::from_le_bytes(bytes));
    }
    sent.sort_unstable();
    received.sort_unstable();
    assert!(sent.len() > 100, "something happened");
    assert_eq!(sent, received);
    assert_eq!(in_use(node.pool()), 0);
}

//! What tells of semaphores and message queues beside a wait: file descriptors in `poll` and in a
//! wait set, notifications; and that no operation allocates.

use std::os::fd::BorrowedFd;
use std::sync::mpsc;
use std::time::Duration;

use crate::support::{BOUND, Root};
use hythe_node::object::{
    Deadline, MessageQueue, MessageQueueOptions, Semaphore, SemaphoreOptions, SyncError,
};
use hythe_node::{Interest, Node};
use rustix::event::{PollFd, PollFlags, Timespec, poll};

fn semaphore(node: &Node) -> Semaphore {
    Semaphore::open(node, "/s", &SemaphoreOptions::default().create(0)).expect("opened")
}

fn queue(node: &Node) -> MessageQueue {
    let made = MessageQueueOptions::default().create(4, 4096);
    MessageQueue::open(node, "/q", &made).expect("opened")
}

fn is_readable(file: BorrowedFd<'_>, timeout: Duration) -> bool {
    let timeout = Timespec {
        tv_sec: timeout.as_secs() as _,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    let mut files = [PollFd::new(&file, PollFlags::IN)];
    poll(&mut files, Some(&timeout)).expect("polled") == 1
}

const NOW: Duration = Duration::ZERO;

#[test]
fn descriptors_are_readable_while_there_is_something() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "one").expect("joins");
    let other = Node::join(&pool, "other").expect("joins");
    let (mine, theirs) = (semaphore(&node), semaphore(&other));
    let file = mine.descriptor().expect("a descriptor");
    assert!(!is_readable(file, NOW));
    theirs.post().expect("posted");
    theirs.post().expect("posted");
    assert!(is_readable(file, BOUND));
    mine.try_wait().expect("there");
    assert!(is_readable(file, NOW), "one is left");
    mine.try_wait().expect("there");
    assert!(
        !is_readable(file, NOW),
        "unreadable when the call has returned"
    );

    let (mine, theirs) = (queue(&node), queue(&other));
    let file = mine.descriptor().expect("a descriptor");
    assert!(!is_readable(file, NOW));
    theirs.send_copy(b"x", 0, Deadline::Now).expect("sent");
    assert!(is_readable(file, BOUND));
    drop(mine.receive(Deadline::Now).expect("there"));
    assert!(!is_readable(file, NOW));
}

#[test]
fn wait_set_waits_for_one() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "one").expect("joins");
    let semaphore = semaphore(&node);
    let mut set = node.wait_set().expect("a wait set");
    let file = semaphore.descriptor().expect("a descriptor");
    let token = set.attach_fd(file, Interest::Readable).expect("attached");
    assert_eq!(set.wait(NOW).expect("waits").len(), 0);
    semaphore.post().expect("posted");
    let events = set.wait(BOUND).expect("waits");
    assert_eq!(events.len(), 1);
    assert_eq!(events[0].token(), token);
}

#[test]
fn message_in_an_empty_queue_notifies_once() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "one").expect("joins");
    let other = Node::join(&pool, "other").expect("joins");
    let (mine, theirs) = (queue(&node), queue(&other));
    let (tell, told) = mpsc::channel();
    let telling = move || {
        let tell = tell.clone();
        Box::new(move || tell.send(()).expect("still waits"))
    };
    mine.notify(telling()).expect("registered");
    let taken = theirs.notify(telling()).expect_err("one only");
    assert!(
        matches!(taken, SyncError::AlreadyNotified { .. }),
        "{taken}"
    );
    theirs.send_copy(b"one", 0, Deadline::Now).expect("sent");
    told.recv_timeout(BOUND).expect("notified");
    theirs.send_copy(b"two", 0, Deadline::Now).expect("sent");
    // Registered while messages wait: none comes into an empty queue.
    theirs.notify(telling()).expect("free again");
    theirs.send_copy(b"three", 0, Deadline::Now).expect("sent");
    assert!(told.recv_timeout(Duration::from_millis(300)).is_err());
    theirs.forget_notification().expect("deregistered");
    mine.notify(telling()).expect("free again");
}

#[test]
fn no_operation_allocates() {
    let root = Root::new();
    let node = Node::join(&root.pool(), "one").expect("joins");
    let (semaphore, queue) = (semaphore(&node), queue(&node));
    let bytes = [7; 4096];
    let round = || {
        semaphore.post().expect("posted");
        semaphore.wait(Deadline::after(BOUND)).expect("there");
        let soon = Deadline::after(Duration::from_millis(1));
        assert!(semaphore.wait(soon).is_err());
        queue.send_copy(&bytes, 3, Deadline::Now).expect("sent");
        drop(queue.receive(Deadline::Now).expect("there"));
    };
    // Regions are mapped with the first.
    round();
    let counted = allocation_counter::measure(|| (0..10).for_each(|_| round()));
    assert_eq!(counted.count_total, 0);
}

//! Calls about semaphores and queues as they come over `core/services`, one by one: what is kept
//! waiting, what is refused, and what comes back when a task has ended. They are sent by a process
//! in place of the core, which the agent serves alike.

use crate::support;

use std::fs::File;
use std::os::unix::fs::FileExt as _;

use crate::support::control::{P1, p1_boards};
use crate::support::object_core::{
    EAGAIN, EBADF, EMSGSIZE, ENOBUFS, EOWNERDEAD, ETIMEDOUT, O_RDWR,
};
use crate::support::segment_core::EINVAL;
use crate::support::{LONG, eventually};
use hythe_abi::core_services::{O_CREATE, TYPE_NAME, TYPE_VERSION, WAITS_MAX, method};
use hythe_abi::objects::{HEADER_BYTES, OBJECT_BYTES, object};
use hythe_abi::services::{BYTES, CallHeader, ReplyHeader};
use hythe_node::hop::HopNode as _;
use hythe_node::object::{
    Deadline, MessageQueue, MessageQueueOptions, Semaphore, SemaphoreOptions, SyncError,
};
use hythe_node::{ChannelType, Client, ClientOptions, PendingReply, Pool};

const ENOSYS: i32 = -38;
const LONG_MS: u32 = 120_000;

/// A process that calls as a core does.
struct Caller {
    client: Client,
    p1: P1,
}

/// A call's header; the rest is 0.
fn call(method: u32, task: u32, arguments: [u32; 3]) -> CallHeader {
    CallHeader {
        method,
        task,
        arguments,
        ..CallHeader::default()
    }
}

fn waiting(call: CallHeader) -> CallHeader {
    CallHeader {
        timeout_ms: LONG_MS,
        ..call
    }
}

impl Caller {
    fn start() -> Option<Self> {
        let board = p1_boards()
            .into_iter()
            .find(|board| board.name() == "hosted")?;
        let p1 = P1::start(&board);
        let carries = ChannelType {
            name: TYPE_NAME.to_owned(),
            bytes: BYTES as u32,
            align: 1,
            version: TYPE_VERSION,
        };
        let options = ClientOptions::default().carries(carries).outstanding(64);
        let client = p1.node.client("core/services", &options).expect("a client");
        Some(Self { client, p1 })
    }

    fn send(&mut self, header: CallHeader, payload: &[u8]) -> PendingReply {
        let header = CallHeader {
            bytes: payload.len() as u32,
            ..header
        };
        let bytes = BYTES + payload.len();
        let mut lease = self.client.lease(bytes).expect("a slot");
        lease.write(0, &header.to_bytes());
        lease.write(BYTES, payload);
        self.client.request(lease, bytes).expect("asked")
    }

    /// What the agent does not answer.
    fn tell(&mut self, header: CallHeader) {
        let told = self.send(header, b"");
        self.client.abandon(told);
    }

    fn answer(&mut self, asked: PendingReply) -> Option<(ReplyHeader, Vec<u8>)> {
        let reply = self.client.wait(asked, LONG).ok()?.expect("in time");
        let bytes = reply.to_vec();
        let (header, payload) = bytes.split_first_chunk().expect("a header");
        Some((ReplyHeader::from_bytes(*header), payload.to_vec()))
    }

    /// Result, values and payload.
    fn ask(&mut self, header: CallHeader, payload: &[u8]) -> (i32, [u32; 5], Vec<u8>) {
        let asked = self.send(header, payload);
        let (header, payload) = self.answer(asked).expect("answered");
        (header.result, header.values, payload)
    }

    fn result(&mut self, method: u32, task: u32, arguments: [u32; 3]) -> i32 {
        self.ask(call(method, task, arguments), b"").0
    }

    fn open(&mut self, method: u32, task: u32, name: &str) -> u32 {
        let header = CallHeader {
            flags: O_CREATE | if method == method::MQ_OPEN { O_RDWR } else { 0 },
            ..call(method, task, [0o600, 0, 0])
        };
        let (result, values, _) = self.ask(header, name.as_bytes());
        assert_eq!(result, 0, "{name}");
        values[0]
    }

    fn semaphore(&self, name: &str) -> Semaphore {
        Semaphore::open(&self.p1.node, name, &SemaphoreOptions::default()).expect("there")
    }

    fn queue(&self, name: &str) -> MessageQueue {
        MessageQueue::open(&self.p1.node, name, &MessageQueueOptions::default()).expect("there")
    }

    fn finish(self) {
        drop(self.client);
        self.p1.finish();
    }
}

#[test]
fn posts_do_not_starve_behind_waits_and_one_too_many_is_refused() {
    let Some(mut caller) = Caller::start() else {
        return;
    };
    let sem = caller.open(method::SEM_OPEN, 1, "s");
    let wait = waiting(call(method::SEM_WAIT, 1, [sem, 0, 0]));
    let asked: Vec<_> = (0..WAITS_MAX).map(|_| caller.send(wait, b"")).collect();
    assert_eq!(caller.ask(wait, b"").0, ENOBUFS);
    // What does not wait is answered as ever.
    assert_eq!(caller.result(method::SEM_WAIT, 1, [sem, 0, 0]), EAGAIN);
    assert_eq!(
        caller.ask(call(method::SEM_VALUE, 1, [sem, 0, 0]), b"").1[0],
        0
    );
    for asked in asked {
        assert_eq!(caller.result(method::SEM_POST, 2, [sem, 0, 0]), 0);
        // The oldest goes on first.
        assert_eq!(caller.answer(asked).expect("answered").0.result, 0);
    }
    let short = CallHeader {
        timeout_ms: 20,
        ..call(method::SEM_WAIT, 1, [sem, 0, 0])
    };
    assert_eq!(caller.ask(short, b"").0, ETIMEDOUT);
    Semaphore::unlink(&caller.p1.node, "s").expect("unlinked");
    caller.finish();
}

/// Writes an owner into the lock of an object, or takes it away.
fn lock(pool: &Pool, name: &str, owner: u64) {
    let path = pool.path().join("objects");
    let bytes = std::fs::read(&path).expect("the pool's objects");
    let objects = bytes[HEADER_BYTES..].chunks_exact(OBJECT_BYTES);
    let is_its = |found: &[u8]| found[object::NAME..].starts_with(name.as_bytes());
    let place = objects.clone().position(is_its).expect("there");
    let file = File::options().write(true).open(path).expect("own");
    let at = HEADER_BYTES + place * OBJECT_BYTES + object::LOCK;
    file.write_all_at(&owner.to_le_bytes(), at as u64)
        .expect("written");
}

/// This process, which lives, says that it works on one object, and does not.
#[test]
fn blocked_object_delays_no_wait_for_another() {
    let Some(mut caller) = Caller::start() else {
        return;
    };
    let (stuck, free) = (
        caller.open(method::SEM_OPEN, 1, "stuck"),
        caller.open(method::SEM_OPEN, 1, "free"),
    );
    let owner = u64::from(caller.p1.node.participant().index().0) + 1;
    let session = u64::from(caller.p1.node.session());
    lock(&caller.p1.world.pool, "stuck", session << 32 | owner);
    let wait = |handle| waiting(call(method::SEM_WAIT, 1, [handle, 0, 0]));
    let kept: Vec<_> = (0..WAITS_MAX - 1)
        .map(|_| caller.send(wait(stuck), b""))
        .collect();
    assert_eq!(caller.result(method::SEM_WAIT, 1, [stuck, 0, 0]), EAGAIN);
    let granted = caller.send(wait(free), b"");
    assert_eq!(caller.result(method::SEM_POST, 2, [free, 0, 0]), 0);
    assert_eq!(caller.answer(granted).expect("answered").0.result, 0);
    // What cannot wait is told after a bound.
    assert_eq!(caller.result(method::SEM_POST, 2, [stuck, 0, 0]), ETIMEDOUT);
    lock(&caller.p1.world.pool, "stuck", 0);
    for asked in kept {
        assert_eq!(caller.result(method::SEM_POST, 2, [stuck, 0, 0]), 0);
        assert_eq!(caller.answer(asked).expect("answered").0.result, 0);
    }
    for name in ["stuck", "free"] {
        Semaphore::unlink(&caller.p1.node, name).expect("unlinked");
    }
    caller.finish();
}

#[test]
fn what_a_task_had_comes_back_when_it_ends() {
    let Some(mut caller) = Caller::start() else {
        return;
    };
    let (shared, own) = (
        caller.open(method::SEM_OPEN, 0, "held"),
        caller.open(method::SEM_OPEN, 5, "held"),
    );
    let queue = caller.open(method::MQ_OPEN, 5, "q");
    let (semaphore, messages) = (caller.semaphore("held"), caller.queue("q"));
    for _ in 0..3 {
        semaphore.post().expect("posted");
    }
    for task in [5, 5, 6] {
        assert_eq!(caller.result(method::SEM_WAIT, task, [shared, 0, 0]), 0);
    }
    messages
        .send_copy(b"first", 3, Deadline::Now)
        .expect("sent");
    messages
        .send_copy(b"second", 3, Deadline::Now)
        .expect("sent");
    let receive = call(method::MQ_RECEIVE, 5, [queue, 8192, 0]);
    assert_eq!(caller.ask(receive, b"").2, b"first");
    let waits = caller.send(waiting(call(method::SEM_WAIT, 5, [own, 0, 0])), b"");
    let others = caller.send(waiting(call(method::SEM_WAIT, 7, [shared, 0, 0])), b"");
    caller.tell(call(method::TASK_ENDED, 0, [5, 0, 0]));
    // Its wait has ended without an answer; the other's is told of the dead holder.
    assert!(caller.answer(waits).is_none());
    assert_eq!(
        caller.answer(others).expect("answered").0.result,
        EOWNERDEAD
    );
    assert_eq!(caller.result(method::SEM_POST, 5, [own, 0, 0]), EBADF);
    assert_eq!(
        caller.result(method::MQ_ATTRIBUTES, 5, [queue, 0, 0]),
        EBADF
    );
    let info = semaphore.info().expect("whole");
    assert_eq!((info.value, info.abandoned), (0, 2));
    assert_eq!(info.holders.len(), 1, "task 6's: {info:?}");
    assert_eq!(
        caller
            .ask(call(method::SEM_RECOVER, 7, [shared, 0, 0]), b"")
            .1[0],
        2
    );
    assert_eq!(semaphore.value().expect("whole"), 2);
    // The message that it had not confirmed is the first again.
    for expected in [&b"first"[..], b"second"] {
        let received = messages.receive(Deadline::Now).expect("one");
        assert_eq!(received.sample.to_vec(), expected);
    }
    // Nothing happens for a task without number.
    caller.tell(call(method::TASK_ENDED, 0, [0, 0, 0]));
    assert_eq!(
        caller
            .ask(call(method::SEM_VALUE, 7, [shared, 0, 0]), b"")
            .1[0],
        2
    );
    Semaphore::unlink(&caller.p1.node, "held").expect("unlinked");
    MessageQueue::unlink(&caller.p1.node, "q").expect("unlinked");
    drop((semaphore, messages));
    caller.finish();
}

#[test]
fn message_leaves_its_queue_when_it_is_confirmed() {
    let Some(mut caller) = Caller::start() else {
        return;
    };
    let queue = caller.open(method::MQ_OPEN, 0, "q");
    let messages = caller.queue("q");
    for message in [b"a", b"b", b"c"] {
        messages.send_copy(message, 0, Deadline::Now).expect("sent");
    }
    let receive = |task| call(method::MQ_RECEIVE, task, [queue, 8192, 0]);
    let taken = |ticket| call(method::MQ_TAKEN, 0, [queue, ticket, 0]);
    let (result, values, message) = caller.ask(receive(1), b"");
    assert_eq!((result, message), (0, b"a".to_vec()));
    assert_eq!(values[2], queue);
    assert_eq!(messages.queued().expect("whole"), 3, "it is there still");
    // The answer has not reached the task: it gets the same again.
    let (_, values, message) = caller.ask(receive(1), b"");
    assert_eq!(message, b"a");
    // Tasks without a number are several.
    assert_eq!(caller.ask(receive(0), b"").2, b"b");
    assert_eq!(caller.ask(receive(0), b"").2, b"c");
    assert_eq!(caller.ask(receive(0), b"").0, EAGAIN);
    assert!(matches!(
        messages.receive(Deadline::Now),
        Err(SyncError::WouldBlock(_))
    ));
    caller.tell(taken(values[3] + 1000));
    caller.tell(taken(values[3]));
    caller.tell(taken(values[3]));
    eventually("one is confirmed", || {
        messages.queued().expect("whole") == 2
    });
    // With the handle, what was not confirmed goes back.
    assert_eq!(caller.result(method::MQ_CLOSE, 0, [queue, 0, 0]), 0);
    for expected in [b"b", b"c"] {
        let received = messages.receive(Deadline::Now).expect("one");
        assert_eq!(received.sample.to_vec(), expected);
    }
    MessageQueue::unlink(&caller.p1.node, "q").expect("unlinked");
    drop(messages);
    caller.finish();
}

#[test]
fn nobody_is_notified_while_a_receiver_of_the_core_waits() {
    let Some(mut caller) = Caller::start() else {
        return;
    };
    let queue = caller.open(method::MQ_OPEN, 1, "n");
    let messages = caller.queue("n");
    assert_eq!(caller.result(method::MQ_NOTIFY, 1, [queue, 1, 0]), 0);
    let receive = waiting(call(method::MQ_RECEIVE, 2, [queue, 8192, 0]));
    let asked = caller.send(receive, b"");
    // Served behind that one.
    let attributes = call(method::MQ_ATTRIBUTES, 1, [queue, 0, 0]);
    assert_eq!(caller.ask(attributes, b"").1[4], 0);
    messages.send_copy(b"x", 0, Deadline::Now).expect("sent");
    assert_eq!(caller.answer(asked).expect("answered").1, b"x");
    assert_eq!(caller.ask(attributes, b"").1[4], 0, "not notified");
    caller.tell(call(method::TASK_ENDED, 0, [2, 0, 0]));
    assert_eq!(caller.result(method::MQ_NOTICE, 1, [queue, 0, 0]), EAGAIN);
    messages.receive(Deadline::Now).expect("one");
    messages.send_copy(b"y", 0, Deadline::Now).expect("sent");
    let notice = waiting(call(method::MQ_NOTICE, 1, [queue, 0, 0]));
    assert_eq!(caller.ask(notice, b"").1[4], 1);
    // With the task that registered, the registration ends.
    messages.receive(Deadline::Now).expect("one");
    assert_eq!(caller.result(method::MQ_NOTIFY, 1, [queue, 1, 0]), 0);
    caller.tell(call(method::TASK_ENDED, 0, [1, 0, 0]));
    eventually("another may register", || {
        messages.notify(Box::new(|| {})).is_ok()
    });
    MessageQueue::unlink(&caller.p1.node, "n").expect("unlinked");
    drop(messages);
    caller.finish();
}

#[test]
fn what_makes_no_sense_is_refused() {
    let Some(mut caller) = Caller::start() else {
        return;
    };
    let (sem, queue) = (
        caller.open(method::SEM_OPEN, 1, "x"),
        caller.open(method::MQ_OPEN, 1, "x"),
    );
    for method in method::SEM_OPEN..=method::MQ_SEND + 16 {
        let is_known =
            method <= method::SEM_RECOVER || (method::MQ_OPEN..=method::MQ_SEND).contains(&method);
        let told = [method::MQ_TAKEN, method::TASK_ENDED, method::TASK_EVENT];
        if told.contains(&method) {
            continue;
        }
        // Handles that nobody has, and names that are none.
        for handle in [0, 77, u32::MAX] {
            let refused = caller.result(method, 1, [handle, 0, 0]);
            let expected = match method {
                _ if !is_known => vec![ENOSYS],
                method::SEM_OPEN | method::SEM_UNLINK | method::MQ_OPEN | method::MQ_UNLINK => {
                    vec![EINVAL, support::segment_core::ENOENT]
                }
                _ => vec![EBADF],
            };
            assert!(expected.contains(&refused), "{method:#x}: {refused}");
        }
    }
    // One kind's handle is none of the other's.
    assert_eq!(caller.result(method::SEM_POST, 1, [queue, 0, 0]), EBADF);
    assert_eq!(caller.result(method::MQ_SEND, 1, [sem, 0, 0]), EBADF);
    assert_eq!(caller.result(method::MQ_SEND, 1, [queue, 32, 0]), EINVAL);
    assert_eq!(
        caller
            .ask(call(method::MQ_SEND, 1, [queue, 0, 0]), &[0; 8193])
            .0,
        EMSGSIZE
    );
    assert_eq!(
        caller.result(method::MQ_RECEIVE, 1, [queue, 8191, 0]),
        EMSGSIZE
    );
    assert_eq!(caller.result(method::MQ_NOTICE, 1, [queue, 0, 0]), EINVAL);
    for bit in 0..32 {
        let flags = 1_u32 << bit;
        let open = CallHeader {
            flags,
            ..call(method::SEM_OPEN, 1, [0, 0, 0])
        };
        let known = flags & (O_CREATE | 0o200 | 0x1_0000) != 0;
        let result = caller.ask(open, b"x").0;
        assert_eq!(result == 0, known, "{flags:#x}");
        let open = CallHeader {
            flags: flags | O_RDWR,
            ..call(method::MQ_OPEN, 1, [0, 0, 0])
        };
        let known = flags & (O_CREATE | 0o200 | 2) != 0;
        let result = caller.ask(open, b"x").0;
        assert_eq!(result == 0, known, "{flags:#x}");
    }
    assert_eq!(
        caller
            .ask(call(method::SEM_OPEN, 1, [0, 0, 0]), b"\xFF\xFE")
            .0,
        EINVAL
    );
    Semaphore::unlink(&caller.p1.node, "x").expect("unlinked");
    MessageQueue::unlink(&caller.p1.node, "x").expect("unlinked");
    caller.finish();
}

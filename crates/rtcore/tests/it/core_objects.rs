//! Semaphores and message queues with one end on a core: the cases of the POSIX conformance
//! programs in short form.

use std::time::Duration;

use crate::support::control::{P1, p1_boards};
use crate::support::eventually;
use crate::support::object_core::{
    EAGAIN, EBADF, EBUSY, EMFILE, EMSGSIZE, ENAMETOOLONG, EOVERFLOW, ETIMEDOUT, Mq, O_CREAT,
    O_EXCL, O_NONBLOCK, O_RDONLY, O_RDWR, O_WRONLY, ObjectCore, hash, message,
};
use crate::support::segment_core::{EEXIST, EINVAL, ENOENT};
use hythe_node::object::{
    Deadline, MessageQueue, MessageQueueOptions, Semaphore, SemaphoreOptions, SyncError,
};
use hythe_testing::watched;

/// No wait of a test is meant to last so long.
const LONG_MS: u32 = 120_000;

fn long() -> Deadline {
    Deadline::after(Duration::from_millis(LONG_MS.into()))
}

struct Fixture {
    core: ObjectCore,
    p1: P1,
}

impl Fixture {
    fn start(board: &hythe_rtcore::Board) -> Self {
        let p1 = P1::start(board);
        let core = ObjectCore::open(&p1.node);
        Self { core, p1 }
    }

    fn finish(self) {
        drop(self.core);
        self.p1.finish();
    }

    fn semaphore(&self, name: &str) -> Semaphore {
        Semaphore::open(&self.p1.node, name, &SemaphoreOptions::default()).expect("there")
    }

    fn queue(&self, name: &str) -> MessageQueue {
        MessageQueue::open(&self.p1.node, name, &MessageQueueOptions::default()).expect("there")
    }
}

#[test]
fn semaphore_is_the_same_on_both_sides() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let core = &mut fixture.core;
        assert_eq!(core.sem_open("/s", 0, 0), Err(ENOENT));
        let sem = core.sem_open("/s", O_CREAT | O_EXCL, 2).expect("made");
        assert_eq!(core.sem_open("/s", O_CREAT | O_EXCL, 0), Err(EEXIST));
        // One that is there keeps its value.
        let again = core.sem_open("/s", O_CREAT, 9).expect("there");
        assert_eq!(core.sem_value(again), Ok(2));
        let here = fixture.semaphore("/s");
        let core = &mut fixture.core;
        assert_eq!(here.value().expect("whole"), 2);
        assert_eq!(core.sem_wait(sem, 0), Ok(()));
        here.try_wait().expect("one is left");
        assert_eq!(core.sem_wait(sem, 0), Err(EAGAIN));
        assert_eq!(core.sem_wait(sem, 20), Err(ETIMEDOUT));
        assert!(matches!(here.try_wait(), Err(SyncError::WouldBlock(_))));
        assert_eq!(core.sem_post(again), Ok(()));
        here.try_wait().expect("posted there");
        here.post().expect("posted here");
        assert_eq!(core.sem_wait(sem, 0), Ok(()));
        // What is unlinked is used on by those who have it.
        assert_eq!(core.unlink(false, "/s"), Ok(()));
        assert_eq!(core.unlink(false, "/s"), Err(ENOENT));
        assert_eq!(core.sem_open("/s", 0, 0), Err(ENOENT));
        assert_eq!(core.sem_post(sem), Ok(()));
        assert_eq!(core.sem_close(sem), Ok(()));
        assert_eq!(core.sem_close(sem), Err(EBADF));
        assert_eq!(core.sem_post(again), Ok(()));
        assert_eq!(core.sem_close(again), Ok(()));
        drop(here);
        fixture.finish();
    }
}

#[test]
fn wait_on_either_side_ends_with_a_post_on_the_other() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let sem = fixture.core.sem_open("w", O_CREAT, 0).expect("made");
        let here = fixture.semaphore("w");
        for _ in 0..5 {
            std::thread::scope(|scope| {
                let core = &mut fixture.core;
                let (thread, wait) = watched(move || core.sem_wait(sem, LONG_MS));
                let there = scope.spawn(wait);
                thread.until_asleep();
                here.post().expect("posted");
                assert_eq!(there.join().expect("a result"), Ok(()));
            });
            std::thread::scope(|scope| {
                let (thread, wait) = watched(|| here.wait(long()));
                let waiting = scope.spawn(wait);
                thread.until_asleep();
                assert_eq!(fixture.core.sem_post(sem), Ok(()));
                waiting.join().expect("a result").expect("posted");
            });
        }
        let info = here.info().expect("whole");
        assert_eq!(info.value, 0);
        let own = fixture.p1.node.index().0;
        assert_eq!(info.holders, [(own, 0, 1)], "a post ends the own hold");
        Semaphore::unlink(&fixture.p1.node, "w").expect("unlinked");
        drop(here);
        fixture.finish();
    }
}

#[test]
fn core_refuses_what_is_no_semaphore() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let core = &mut fixture.core;
        assert_eq!(core.sem_open("/a/b", O_CREAT, 0), Err(EINVAL));
        assert_eq!(core.sem_open("", O_CREAT, 0), Err(EINVAL));
        let long = "n".repeat(64);
        assert_eq!(core.sem_open(&long, O_CREAT, 0), Err(ENAMETOOLONG));
        assert_eq!(core.sem_open("v", O_CREAT, 32768), Err(EINVAL));
        let sem = core.sem_open("v", O_CREAT, 32767).expect("the largest");
        assert_eq!(core.sem_post(sem), Err(EOVERFLOW));
        assert_eq!(core.sem_recover(sem), Ok(0));
        let queue = core.mq_open("v", O_CREAT | O_RDWR, [1, 1]);
        assert_eq!(queue.expect("names are by kind").1, [1, 1]);
        assert_eq!(core.unlink(true, "v"), Ok(()));
        assert_eq!(core.unlink(false, "v"), Ok(()));
        // 128 are open at most, of both kinds.
        let mut opened = 2;
        let full = loop {
            match core.sem_open("v", O_CREAT, 0) {
                Ok(_) => opened += 1,
                Err(error) => break error,
            }
        };
        assert_eq!((full, opened), (EMFILE, 128));
        assert_eq!(core.sem_close(0), Ok(()));
        assert!(core.sem_open("v", 0, 0).is_ok());
        assert_eq!(core.unlink(false, "v"), Ok(()));
        fixture.finish();
    }
}

#[test]
fn messages_go_by_priority_and_age_both_ways() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let (queue, limits) = fixture
            .core
            .mq_open("/q", O_CREAT | O_RDWR, [64, 600])
            .expect("made");
        assert_eq!(limits, [64, 600]);
        let here = fixture.queue("/q");
        // 32 priorities, two of each, in an order of its own.
        let sent: Vec<(u32, u32)> = (0..64).map(|i| (i * 11 % 32, i)).collect();
        let mut expected = sent.clone();
        expected.sort_by_key(|(priority, _)| std::cmp::Reverse(*priority));
        for from_core in [true, false] {
            for &(priority, seed) in &sent {
                let bytes = 3 + seed as usize * 9;
                if from_core {
                    let sent = fixture.core.mq_send(queue, (bytes, seed), priority, 0);
                    assert_eq!(sent, Ok(()), "{seed}");
                } else {
                    let sent = here.send_copy(&message(bytes, seed), priority, Deadline::Now);
                    sent.expect("a place");
                }
            }
            let full = fixture.core.mq_send(queue, (1, 0), 0, 0);
            assert_eq!(full, Err(EAGAIN));
            let attributes = fixture.core.mq(queue, Mq::Attributes).expect("open");
            assert_eq!((attributes.queued, attributes.limits), (64, [64, 600]));
            for &(priority, seed) in &expected {
                let wanted = message(3 + seed as usize * 9, seed);
                if from_core {
                    let received = here.receive(Deadline::Now).expect("one");
                    assert_eq!(received.priority, priority);
                    assert_eq!(received.sample.to_vec(), wanted);
                } else {
                    let received = fixture.core.mq_receive(queue, 600, 0);
                    assert_eq!(received, Ok((wanted.len(), priority, hash(&wanted))));
                }
            }
            assert_eq!(fixture.core.mq_receive(queue, 600, 0), Err(EAGAIN));
            eventually("the core's confirmation has come", || {
                here.queued().expect("whole") == 0
            });
        }
        MessageQueue::unlink(&fixture.p1.node, "/q").expect("unlinked");
        drop(here);
        fixture.finish();
    }
}

#[test]
fn messages_have_up_to_64_kib() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let (queue, _) = fixture
            .core
            .mq_open("big", O_CREAT | O_RDWR, [3, 65536])
            .expect("made");
        let here = fixture.queue("big");
        for (seed, bytes) in (1..).zip([0, 1, 991, 992, 993, 3808, 3809, 20_000, 65_535, 65_536]) {
            let wanted = message(bytes, seed);
            let sent = fixture.core.mq_send(queue, (bytes, seed), 5, LONG_MS);
            assert_eq!(sent, Ok(()), "{bytes}");
            let received = here.receive(Deadline::Now).expect("one");
            assert!(received.sample.to_vec() == wanted, "{bytes} from the core");
            drop(received);
            here.send_copy(&wanted, 7, Deadline::Now).expect("sent");
            let received = fixture.core.mq_receive(queue, 65_536, LONG_MS);
            assert_eq!(
                received,
                Ok((bytes, 7, hash(&wanted))),
                "{bytes} to the core"
            );
        }
        let core = &mut fixture.core;
        assert_eq!(core.mq_send(queue, (65_537, 0), 0, 0), Err(EMSGSIZE));
        assert_eq!(core.mq_receive(queue, 65_535, 0), Err(EMSGSIZE));
        MessageQueue::unlink(&fixture.p1.node, "big").expect("unlinked");
        drop(here);
        fixture.finish();
    }
}

#[test]
fn message_queue_refuses_wrong_use() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let core = &mut fixture.core;
        assert_eq!(core.mq_open("m", O_RDWR, [0, 0]), Err(ENOENT));
        assert_eq!(core.mq_open("m", O_CREAT, [65, 1]), Err(EINVAL));
        assert_eq!(core.mq_open("m", O_CREAT, [1, 65_537]), Err(EINVAL));
        assert_eq!(core.mq_open("m", O_CREAT, [1, 0]), Err(EINVAL));
        assert_eq!(core.mq_open("m", O_CREAT | 3, [1, 1]), Err(EINVAL));
        let made = core.mq_open("m", O_CREAT | O_EXCL | O_RDONLY, [0, 0]);
        let (reads, limits) = made.expect("made");
        assert_eq!(limits, [10, 8192], "as Linux has them");
        let again = core.mq_open("m", O_CREAT | O_EXCL | O_RDWR, [1, 1]);
        assert_eq!(again, Err(EEXIST));
        let (writes, _) = core.mq_open("m", O_WRONLY, [0, 0]).expect("there");
        assert_eq!(core.mq_send(reads, (1, 0), 0, 0), Err(EBADF));
        assert_eq!(core.mq_receive(writes, 8192, 0), Err(EBADF));
        assert_eq!(core.mq_send(writes, (1, 0), 32, 0), Err(EINVAL));
        assert_eq!(core.mq_send(writes, (8193, 0), 0, 0), Err(EMSGSIZE));
        assert_eq!(core.mq_receive(reads, 8191, 0), Err(EMSGSIZE));
        assert_eq!(core.mq_receive(reads, 8192, 20), Err(ETIMEDOUT));
        // O_NONBLOCK: as opened, and as set.
        let (now, _) = core
            .mq_open("m", O_RDWR | O_NONBLOCK, [0, 0])
            .expect("there");
        assert_eq!(core.mq_receive(now, 8192, LONG_MS), Err(EAGAIN));
        assert_eq!(
            core.mq(now, Mq::Attributes).expect("open").flags,
            O_NONBLOCK
        );
        core.mq(now, Mq::Flags(0)).expect("set");
        assert_eq!(core.mq_receive(now, 8192, 20), Err(ETIMEDOUT));
        core.mq(now, Mq::Flags(O_NONBLOCK)).expect("set");
        for _ in 0..10 {
            assert_eq!(core.mq_send(now, (1, 0), 0, LONG_MS), Ok(()));
        }
        assert_eq!(core.mq_send(now, (1, 0), 0, LONG_MS), Err(EAGAIN));
        assert_eq!(core.mq_send(writes, (1, 0), 0, 20), Err(ETIMEDOUT));
        for queue in [reads, writes, now] {
            core.mq(queue, Mq::Close).expect("closed");
            assert_eq!(core.mq(queue, Mq::Close), Err(EBADF));
        }
        // Its messages stay for whoever opens it next.
        assert_eq!(fixture.queue("m").queued().expect("whole"), 10);
        assert_eq!(fixture.core.unlink(true, "m"), Ok(()));
        fixture.finish();
    }
}

#[test]
fn waiting_receiver_and_a_waiting_sender_go_on() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let (queue, _) = fixture
            .core
            .mq_open("x", O_CREAT | O_RDWR, [1, 100])
            .expect("made");
        let here = fixture.queue("x");
        for seed in 0..5 {
            let wanted = message(100, seed);
            std::thread::scope(|scope| {
                let core = &mut fixture.core;
                let (thread, receive) = watched(move || core.mq_receive(queue, 100, LONG_MS));
                let there = scope.spawn(receive);
                thread.until_asleep();
                here.send_copy(&wanted, 1, Deadline::Now).expect("sent");
                let received = there.join().expect("a result");
                assert_eq!(received, Ok((100, 1, hash(&wanted))));
            });
            here.send_copy(&wanted, 2, long()).expect("a place");
            std::thread::scope(|scope| {
                let core = &mut fixture.core;
                let (thread, send) = watched(move || core.mq_send(queue, (50, seed), 3, LONG_MS));
                let there = scope.spawn(send);
                thread.until_asleep();
                assert_eq!(here.receive(Deadline::Now).expect("one").priority, 2);
                assert_eq!(there.join().expect("a result"), Ok(()));
            });
            assert_eq!(here.receive(Deadline::Now).expect("one").priority, 3);
        }
        MessageQueue::unlink(&fixture.p1.node, "x").expect("unlinked");
        drop(here);
        fixture.finish();
    }
}

#[test]
fn notification_is_a_callback_of_the_next_call() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let (queue, _) = fixture
            .core
            .mq_open("n", O_CREAT | O_RDWR, [4, 100])
            .expect("made");
        let here = fixture.queue("n");
        let core = &mut fixture.core;
        let refused = core.mq(queue, Mq::Dispatch(0));
        assert_eq!(refused, Err(EINVAL), "nothing is registered");
        core.mq(queue, Mq::Notify(true)).expect("registered");
        assert_eq!(core.mq(queue, Mq::Notify(true)), Err(EBUSY));
        let taken = here.notify(Box::new(|| {}));
        assert!(matches!(taken, Err(SyncError::AlreadyNotified { .. })));
        assert_eq!(core.mq(queue, Mq::Dispatch(0)), Err(EAGAIN));
        assert_eq!(core.mq(queue, Mq::Dispatch(20)), Err(ETIMEDOUT));
        let notified =
            |core: &mut ObjectCore| core.mq(queue, Mq::Attributes).expect("open").notified;
        assert_eq!(notified(core), 0);
        here.send_copy(b"a", 0, Deadline::Now).expect("sent");
        assert_eq!(notified(core), 1, "by any call");
        // Once, and only for a message in the empty queue.
        core.mq(queue, Mq::Notify(true)).expect("registered anew");
        here.send_copy(b"b", 0, Deadline::Now).expect("sent");
        assert_eq!(core.mq(queue, Mq::Dispatch(20)), Err(ETIMEDOUT));
        here.receive(Deadline::Now).expect("one");
        here.receive(Deadline::Now).expect("one");
        std::thread::scope(|scope| {
            let (thread, dispatch) = watched(|| fixture.core.mq(queue, Mq::Dispatch(LONG_MS)));
            let there = scope.spawn(dispatch);
            thread.until_asleep();
            here.send_copy(b"c", 0, Deadline::Now).expect("sent");
            let said = there.join().expect("a result").expect("notified");
            assert_eq!(said.notified, 2);
        });
        // One that was taken back does not come.
        let core = &mut fixture.core;
        here.receive(Deadline::Now).expect("one");
        core.mq(queue, Mq::Notify(true)).expect("registered");
        core.mq(queue, Mq::Notify(false)).expect("taken back");
        here.send_copy(b"d", 0, Deadline::Now).expect("sent");
        assert_eq!(notified(core), 2);
        MessageQueue::unlink(&fixture.p1.node, "n").expect("unlinked");
        drop(here);
        fixture.finish();
    }
}

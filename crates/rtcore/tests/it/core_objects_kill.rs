//! Tasks, the core and its agent are killed while they wait for semaphores and messages, while they
//! hold, and between what they were granted and its delivery: no count and no message is lost.

use std::sync::atomic::{AtomicBool, Ordering};
use std::time::Duration;

use crate::support::control::P1;
use crate::support::object_core::ObjectCore;
use crate::support::segment_core::{Fixture, SegmentCore, be_agent, p1_boards};
use crate::support::{LONG, eventually, signal};
use hythe_node::Node;
use hythe_node::object::{
    Deadline, MessageQueue, MessageQueueOptions, Semaphore, SemaphoreOptions, SyncError,
};
use hythe_rtcore::Board;
use hythe_rtcore::tasks::Tasks;
use hythe_testing::{Dice, let_time_pass};
use rustix::process::Signal;

const KILLS: u32 = 60;

/// Not a test of its own: the agent of the tests below.
#[test]
fn agent() {
    be_agent();
}

fn semaphore(node: &Node, name: &str, value: u32, recover: bool) -> Semaphore {
    let options = SemaphoreOptions::default().create(value).recover(recover);
    Semaphore::open(node, name, &options).expect("made")
}

fn queue(node: &Node, name: &str) -> MessageQueue {
    let options = MessageQueueOptions::default().create(8, 256);
    MessageQueue::open(node, name, &options).expect("made")
}

/// The counts that there are: free, held, and left by the dead.
fn counts(semaphore: &Semaphore) -> u32 {
    let info = semaphore.info().expect("whole");
    let held: u32 = info.holders.iter().map(|(.., count)| count).sum();
    info.value + held + info.abandoned
}

/// Starts the worker of that number anew, which has ended.
fn start_worker(tasks: &mut Tasks, number: u32, argument: &str) {
    let started = tasks.start(&number.to_string(), argument);
    started.expect("started");
}

#[test]
fn tasks_killed_at_any_moment_lose_no_count() {
    for board in p1_boards() {
        let mut p1 = P1::start(&board);
        let node = hythe_rtcore::join(&p1.world.pool, "linux").expect("joins");
        let mutex = semaphore(&node, "mutex", 1, true);
        let workers: Vec<u32> = p1.named("worker").iter().map(|task| task.number).collect();
        let victims = &workers[..2];
        for &worker in &workers[..3] {
            start_worker(&mut p1.tasks, worker, "churn mutex");
        }
        let (mut dice, ends) = (Dice::new(41), AtomicBool::new(false));
        std::thread::scope(|scope| {
            scope.spawn(|| {
                while !ends.load(Ordering::Relaxed) {
                    mutex.wait(Deadline::after(LONG)).expect("it comes back");
                    mutex.post().expect("posted");
                }
            });
            let _ends = Ends(&ends);
            for round in 0..KILLS {
                let moment = Duration::from_micros(dice.below(8000) as u64);
                let_time_pass(moment, "a random moment of the work");
                let victim = victims[round as usize % 2];
                p1.tasks.kill(&victim.to_string()).expect("killed");
                assert_eq!(counts(&mutex), 1, "round {round}");
                start_worker(&mut p1.tasks, victim, "churn mutex");
            }
        });
        for &worker in &workers[..3] {
            p1.tasks.stop(&worker.to_string()).expect("stopped");
        }
        eventually("all that was held has come back", || {
            mutex.value().expect("whole") == 1
        });
        Semaphore::unlink(&node, "mutex").expect("unlinked");
        drop((mutex, node));
        p1.assert_answers();
        p1.finish();
    }
}

#[test]
fn tasks_killed_at_any_moment_lose_no_message_but_what_they_had() {
    for board in p1_boards() {
        let mut p1 = P1::start(&board);
        let node = hythe_rtcore::join(&p1.world.pool, "linux").expect("joins");
        let (from, to) = (queue(&node, "from"), queue(&node, "to"));
        let workers: Vec<u32> = p1.named("worker").iter().map(|task| task.number).collect();
        for &worker in &workers[..3] {
            start_worker(&mut p1.tasks, worker, "pump from to");
        }
        let (mut dice, ends) = (Dice::new(43), AtomicBool::new(false));
        let (sent, came) = std::thread::scope(|scope| {
            let sender = scope.spawn(|| {
                let mut number = 0_u32;
                while !ends.load(Ordering::Relaxed) {
                    let bytes = [number.to_le_bytes(); 20].concat();
                    let sent = from.send_copy(&bytes, number % 3, Deadline::after(LONG));
                    sent.expect("a place");
                    number += 1;
                }
                number
            });
            let receiver = scope.spawn(|| {
                let mut came = Vec::new();
                loop {
                    match to.receive(Deadline::after(Duration::from_millis(500))) {
                        Ok(received) => {
                            let bytes = received.sample.to_vec();
                            let (first, rest) = bytes.split_first_chunk().expect("a number");
                            assert_eq!(rest, first.repeat(19));
                            came.push(u32::from_le_bytes(*first));
                        }
                        Err(SyncError::TimedOut) if is_drained(&ends, &from) => return came,
                        Err(SyncError::TimedOut) => {}
                        Err(error) => panic!("{error}"),
                    }
                }
            });
            let ends_guard = Ends(&ends);
            for round in 0..KILLS {
                let moment = Duration::from_micros(dice.below(8000) as u64);
                let_time_pass(moment, "a random moment of the work");
                let victim = workers[round as usize % 2];
                p1.tasks.kill(&victim.to_string()).expect("killed");
                start_worker(&mut p1.tasks, victim, "pump from to");
            }
            drop(ends_guard);
            (
                sender.join().expect("no panic"),
                receiver.join().expect("no panic"),
            )
        });
        let mut seen = vec![0_u32; sent as usize];
        came.iter().for_each(|&number| seen[number as usize] += 1);
        let lost = seen.iter().filter(|&&times| times == 0).count();
        let twice = seen.iter().filter(|&&times| times > 1).count();
        println!(
            "{}: {sent} messages, {KILLS} kills: {lost} went with a task that had them, {twice} \
             came twice",
            board.name()
        );
        // A task has one at a time.
        assert!(lost as u32 <= KILLS, "{lost}");
        assert!(twice as u32 <= KILLS, "{twice}");
        for name in ["from", "to"] {
            MessageQueue::unlink(&node, name).expect("unlinked");
        }
        drop((from, to, node));
        p1.assert_answers();
        p1.finish();
    }
}

fn is_drained(ends: &AtomicBool, from: &MessageQueue) -> bool {
    ends.load(Ordering::Relaxed) && from.queued().expect("whole") == 0
}

/// Ends the load, however its scope is left.
struct Ends<'a>(&'a AtomicBool);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.store(true, Ordering::Relaxed);
    }
}

/// Who is killed.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Victim {
    Core,
    Agent,
}

/// A core whose agent is another process, and tasks of it.
fn started(board: &Board) -> (Fixture, Tasks) {
    let fixture = Fixture::start(board);
    let tasks = tasks_of(&fixture);
    (fixture, tasks)
}

fn tasks_of(fixture: &Fixture) -> Tasks {
    let tasks = Tasks::open(&fixture.world.pool, fixture.board.name(), "control");
    tasks
        .expect("control")
        .with_bound(LONG)
        .with_stop_bound(LONG)
}

impl Victim {
    fn kill(self, fixture: &mut Fixture, tasks: Tasks) -> Tasks {
        drop(tasks);
        match self {
            Self::Core => fixture.kill_core(),
            Self::Agent => fixture.kill_agent(),
        }
        tasks_of(fixture)
    }
}

/// The core is stopped, so what it is granted is not delivered.
fn stopped_core(fixture: &Fixture) -> u32 {
    let pid = fixture.core_pid();
    signal(pid, Signal::STOP);
    pid
}

#[test]
fn message_on_its_way_to_a_core_that_dies_is_at_its_place() {
    for board in p1_boards() {
        for victim in [Victim::Core, Victim::Agent] {
            let (mut fixture, mut tasks) = started(&board);
            let node = hythe_rtcore::join(&fixture.world.pool, "linux").expect("joins");
            let (from, to) = (queue(&node, "from"), queue(&node, "to"));
            tasks.start("worker", "pump from to").expect("started");
            // Until the core has been stopped in a wait.
            let mut round = 0_u32;
            loop {
                let pid = stopped_core(&fixture);
                from.send_copy(&round.to_le_bytes(), 1, Deadline::Now)
                    .expect("sent");
                if is_claimed(&from) {
                    break;
                }
                let received = from.receive(Deadline::Now);
                signal(pid, Signal::CONT);
                if received.is_err() {
                    to.receive(Deadline::after(LONG)).expect("it came back");
                }
                round += 1;
            }
            from.send_copy(b"later", 1, Deadline::Now).expect("sent");
            let later = from.receive(Deadline::Now).expect("the later one");
            assert_eq!(later.sample.to_vec(), b"later", "{victim:?}");
            drop(later);
            from.send_copy(b"last", 1, Deadline::Now).expect("sent");
            drop(victim.kill(&mut fixture, tasks));
            for expected in [&round.to_le_bytes()[..], b"last"] {
                let received = from.receive(Deadline::after(LONG)).expect("not lost");
                assert_eq!(received.sample.to_vec(), expected, "{victim:?}");
            }
            assert_eq!(to.queued().expect("whole"), 0);
            for name in ["from", "to"] {
                MessageQueue::unlink(&node, name).expect("unlinked");
            }
            drop((from, to, node));
            fixture.finish();
        }
    }
}

/// Is the only message of the queue on its way to the core? Looked for a while.
fn is_claimed(queue: &MessageQueue) -> bool {
    (0..50).any(|_| {
        let_time_pass(
            Duration::from_millis(2),
            "between two polls; both answers are sound",
        );
        let descriptor = queue.descriptor().expect("a descriptor");
        let mut asked = [rustix::event::PollFd::from_borrowed_fd(
            descriptor,
            rustix::event::PollFlags::IN,
        )];
        let ready = hythe_sys::wait::ready(&mut asked, Duration::ZERO)[0];
        !ready && queue.queued().expect("whole") == 1
    })
}

#[test]
fn counts_of_a_core_that_dies_are_a_dead_holder_s() {
    for board in p1_boards() {
        for victim in [Victim::Core, Victim::Agent] {
            let (mut fixture, mut tasks) = started(&board);
            let node = hythe_rtcore::join(&fixture.world.pool, "linux").expect("joins");
            let held = semaphore(&node, "held", 1, false);
            let waited = semaphore(&node, "waited", 0, false);
            tasks.start("worker", "take held").expect("started");
            tasks.start("worker", "take waited").expect("started");
            eventually("the core holds one", || held.value().expect("whole") == 0);
            // Granted, and not delivered, if it waits at this moment; else not granted.
            stopped_core(&fixture);
            waited.post().expect("posted");
            eventually("one of both is so", || counts(&waited) == 1);
            drop(victim.kill(&mut fixture, tasks));
            let found = held.wait(Deadline::after(LONG));
            assert!(matches!(found, Err(SyncError::OwnerDead)), "{found:?}");
            assert_eq!(held.recover().expect("whole"), 1);
            held.try_wait().expect("it is back");
            // Not one count more, nor less.
            match waited.wait(Deadline::after(LONG)) {
                Ok(()) => {}
                Err(SyncError::OwnerDead) => {
                    assert_eq!(waited.recover().expect("whole"), 1);
                    waited.try_wait().expect("it is back");
                }
                Err(error) => panic!("{error}"),
            }
            assert_eq!((counts(&held), counts(&waited)), (1, 1));
            for name in ["held", "waited"] {
                Semaphore::unlink(&node, name).expect("unlinked");
            }
            drop((held, waited, node));
            fixture.finish();
        }
    }
}

#[test]
fn process_killed_amid_calls_loses_nothing() {
    for board in p1_boards() {
        let (mut fixture, mut tasks) = started(&board);
        let node = hythe_rtcore::join(&fixture.world.pool, "linux").expect("joins");
        let mutex = semaphore(&node, "mutex", 1, true);
        let (from, to) = (queue(&node, "from"), queue(&node, "to"));
        let (mut dice, mut number) = (Dice::new(47), 0_u32);
        let mut came = Vec::new();
        let take = |came: &mut Vec<u32>, deadline| {
            let received = to.receive(deadline)?;
            let bytes = received.sample.to_vec();
            came.push(u32::from_le_bytes(bytes.try_into().expect("a number")));
            Ok::<_, SyncError>(())
        };
        for round in 0..8 {
            for argument in ["churn mutex", "churn mutex", "pump from to", "pump from to"] {
                tasks.start("worker", argument).expect("started");
            }
            for _ in 0..10 + dice.below(20) {
                let sent = from.send_copy(&number.to_le_bytes(), 0, Deadline::after(LONG));
                sent.expect("a place");
                number += 1;
                while take(&mut came, Deadline::Now).is_ok() {}
            }
            let moment = Duration::from_micros(dice.below(5000) as u64);
            let_time_pass(moment, "a random moment of the work");
            let victim = match round % 2 {
                0 => Victim::Core,
                _ => Victim::Agent,
            };
            tasks = victim.kill(&mut fixture, tasks);
            eventually("the count is back", || {
                let _ = mutex.try_wait().map(|()| mutex.post().expect("posted"));
                mutex.value().expect("whole") == 1
            });
            assert_eq!(counts(&mutex), 1, "round {round}");
        }
        // The pumps of one more life take all that is left.
        tasks.start("worker", "pump from to").expect("started");
        eventually("all is taken", || {
            while take(&mut came, Deadline::Now).is_ok() {}
            from.queued().expect("whole") + to.queued().expect("whole") == 0
        });
        tasks.stop("worker").expect("stopped");
        while take(&mut came, Deadline::Now).is_ok() {}
        came.sort_unstable();
        let all = came.len();
        came.dedup();
        let lost = number as usize - came.len();
        println!(
            "{}: {number} sent, {lost} lost, {} twice",
            board.name(),
            all - came.len()
        );
        // Each of two pumps had one at most when its core died.
        assert!(lost <= 16, "{lost}");
        Semaphore::unlink(&node, "mutex").expect("unlinked");
        for name in ["from", "to"] {
            MessageQueue::unlink(&node, name).expect("unlinked");
        }
        drop((mutex, from, to, node, tasks));
        // The core answers still.
        let mut core = ObjectCore(SegmentCore::open(&fixture.node));
        assert_eq!(core.sem_open("mutex", 0, 0), Err(-2));
        drop(core);
        fixture.finish();
    }
}

//! Wake-up latency: one thread sleeps until another wakes it, and looks how long that took.
//!
//! The two threads are the same for every way of waking; a way is a [`Sleeper`] and a [`Waker`].
//! The next wake-up is sent when the one before has arrived, so that none hides another.

use std::os::fd::{AsFd, OwnedFd};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::time::Duration;

use rustix::event::{EventfdFlags, PollFd, PollFlags, Timespec, eventfd, poll};
use rustix::io::Errno;
use rustix::thread::futex;

use super::clock::{now_ns, sleep_until};
use super::crew::{Found, Start};
use super::cycle::Cycle;
use super::recorder::Recorder;

/// How long a sleeper sleeps until it looks whether it shall end.
const NAP: Duration = Duration::from_millis(100);
/// How long it waits for the last wake-up, once nobody wakes it any more.
const LAST_NS: u64 = 5_000_000_000;

/// The end that is woken.
pub trait Sleeper: Send {
    /// Sleeps for at most `nap`; the instant that the waker gave with the wake-up, if there was
    /// one.
    ///
    /// # Errors
    /// What the way of waking says: it can no longer be used.
    fn sleep(&mut self, nap: Duration) -> Result<Option<u64>, String>;
}

/// The end that wakes.
pub trait Waker: Send {
    /// Asks `now_ns` for the instant when all is prepared, and wakes the sleeper with it.
    ///
    /// # Errors
    /// What the way of waking says: it can no longer be used.
    fn wake(&mut self, now_ns: fn() -> u64) -> Result<(), String>;
}

/// The two ends of one way of waking.
pub type Ends = (Box<dyn Sleeper>, Box<dyn Waker>);

/// What the two threads know of each other.
#[derive(Debug, Default)]
pub(super) struct Between {
    /// Wake-ups that arrived. Read by the waker before it sends the next.
    taken: AtomicU64,
    /// Wake-ups that were sent, written once the waker has ended.
    sent: AtomicU64,
    /// Cycles in which none was sent; written then, too.
    missed: AtomicU64,
    has_ended: AtomicBool,
}

/// The work of the thread that is woken.
pub(super) fn sleep(
    mut sleeper: Box<dyn Sleeper>,
    between: &Between,
    mut recorder: Recorder,
) -> Found {
    let (mut taken, mut last_look_ns) = (0, None);
    loop {
        match sleeper.sleep(NAP)? {
            Some(sent_ns) => {
                recorder.record(sent_ns, now_ns().saturating_sub(sent_ns));
                taken += 1;
                between.taken.store(taken, Ordering::Release);
            }
            None if between.has_ended.load(Ordering::Acquire) => {
                let sent = between.sent.load(Ordering::Relaxed);
                if taken == sent {
                    recorder.missed = between.missed.load(Ordering::Relaxed);
                    return Ok(Some(recorder));
                }
                let now = now_ns();
                if now > *last_look_ns.get_or_insert(now) + LAST_NS {
                    return Err(format!("{sent} wake-ups were sent and {taken} arrived"));
                }
            }
            None => {}
        }
    }
}

/// The work of the thread that wakes; it tells the other one when it ends, however it does.
pub(super) fn wake(
    mut waker: Box<dyn Waker>,
    between: &Between,
    cycle: Cycle,
    start: &Start,
) -> Found {
    let mut count = Count::default();
    let worked = wake_in_turn(waker.as_mut(), between, cycle, start, &mut count);
    between.sent.store(count.sent, Ordering::Relaxed);
    between.missed.store(count.missed, Ordering::Relaxed);
    // The partner of the load in `sleep`: who sees it sees the counts.
    between.has_ended.store(true, Ordering::Release);
    worked.map(|()| None)
}

/// What became of the cycles.
#[derive(Debug, Default)]
struct Count {
    sent: u64,
    missed: u64,
}

fn wake_in_turn(
    waker: &mut dyn Waker,
    between: &Between,
    cycle: Cycle,
    start: &Start,
    count: &mut Count,
) -> Result<(), String> {
    let mut cycles = cycle.begin(start.at_ns);
    let mut left_out = 0;
    while let Some(at_ns) = cycles.next(start) {
        sleep_until(at_ns);
        // A sleeper that is late by more than an interval has its one long sample, and no second
        // one beside it.
        if between.taken.load(Ordering::Acquire) == count.sent {
            waker.wake(now_ns)?;
            count.sent += 1;
        } else {
            left_out += 1;
        }
        cycles.done(now_ns());
        count.missed = cycles.missed + left_out;
    }
    Ok(())
}

/// Both ends over one futex.
pub(super) fn futex_ends() -> Ends {
    let word = Arc::new(FutexWord::default());
    let sleeper = FutexSleeper {
        word: Arc::clone(&word),
        seen: 0,
    };
    (Box::new(sleeper), Box::new(FutexWaker { word }))
}

/// A word that counts wake-ups, and the instant of the newest.
#[derive(Debug, Default)]
struct FutexWord {
    count: AtomicU32,
    sent_ns: AtomicU64,
}

struct FutexSleeper {
    word: Arc<FutexWord>,
    seen: u32,
}

struct FutexWaker {
    word: Arc<FutexWord>,
}

impl Sleeper for FutexSleeper {
    fn sleep(&mut self, nap: Duration) -> Result<Option<u64>, String> {
        let nap = timespec(nap);
        let slept = futex::wait(
            &self.word.count,
            futex::Flags::PRIVATE,
            self.seen,
            Some(&nap),
        );
        match slept {
            // Woken, or the count had moved before the sleep began.
            Ok(()) | Err(Errno::AGAIN | Errno::INTR | Errno::TIMEDOUT) => {}
            Err(error) => return Err(format!("futex wait: {error}")),
        }
        // The partner of the increment in `wake`: who sees the count sees the instant.
        let count = self.word.count.load(Ordering::Acquire);
        if count == self.seen {
            return Ok(None);
        }
        self.seen = count;
        Ok(Some(self.word.sent_ns.load(Ordering::Relaxed)))
    }
}

impl Waker for FutexWaker {
    fn wake(&mut self, now_ns: fn() -> u64) -> Result<(), String> {
        self.word.sent_ns.store(now_ns(), Ordering::Relaxed);
        self.word.count.fetch_add(1, Ordering::Release);
        futex::wake(&self.word.count, futex::Flags::PRIVATE, 1)
            .map(|_| ())
            .map_err(|error| format!("futex wake: {error}"))
    }
}

/// Both ends over one eventfd.
pub(super) fn eventfd_ends() -> Result<Ends, String> {
    let flags = EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK;
    let descriptor = eventfd(0, flags).map_err(|error| format!("eventfd: {error}"))?;
    let event = Arc::new(Event {
        descriptor,
        sent_ns: AtomicU64::new(0),
    });
    let sleeper = EventSleeper {
        event: Arc::clone(&event),
    };
    Ok((Box::new(sleeper), Box::new(EventWaker { event })))
}

#[derive(Debug)]
struct Event {
    descriptor: OwnedFd,
    sent_ns: AtomicU64,
}

struct EventSleeper {
    event: Arc<Event>,
}

struct EventWaker {
    event: Arc<Event>,
}

impl Sleeper for EventSleeper {
    fn sleep(&mut self, nap: Duration) -> Result<Option<u64>, String> {
        let mut waited = [PollFd::from_borrowed_fd(
            self.event.descriptor.as_fd(),
            PollFlags::IN,
        )];
        match poll(&mut waited, Some(&timespec(nap))) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(format!("poll of an eventfd: {error}")),
        }
        let mut count = [0; 8];
        match rustix::io::read(&self.event.descriptor, &mut count) {
            // The kernel orders the read behind the write, and so behind the store before it.
            Ok(_) => Ok(Some(self.event.sent_ns.load(Ordering::Acquire))),
            Err(Errno::AGAIN | Errno::INTR) => Ok(None),
            Err(error) => Err(format!("read of an eventfd: {error}")),
        }
    }
}

impl Waker for EventWaker {
    fn wake(&mut self, now_ns: fn() -> u64) -> Result<(), String> {
        self.event.sent_ns.store(now_ns(), Ordering::Release);
        rustix::io::write(&self.event.descriptor, &1_u64.to_ne_bytes())
            .map(|_| ())
            .map_err(|error| format!("write to an eventfd: {error}"))
    }
}

fn timespec(time: Duration) -> Timespec {
    Timespec {
        tv_sec: time.as_secs().cast_signed(),
        tv_nsec: time.subsec_nanos().into(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_way_brings_the_instant_of_the_waker_once() {
        for (mut sleeper, mut waker) in [futex_ends(), eventfd_ends().expect("descriptors")] {
            let nap = Duration::from_millis(1);
            assert_eq!(sleeper.sleep(nap), Ok(None));
            for _ in 0..3 {
                waker.wake(|| 77).expect("its own");
                assert_eq!(sleeper.sleep(nap), Ok(Some(77)));
                assert_eq!(sleeper.sleep(nap), Ok(None));
            }
        }
    }

    #[test]
    fn sleeper_that_another_thread_wakes_wakes() {
        for (mut sleeper, mut waker) in [futex_ends(), eventfd_ends().expect("descriptors")] {
            let woken = std::thread::spawn(move || sleeper.sleep(Duration::from_secs(60)));
            waker.wake(|| 5).expect("its own");
            assert_eq!(woken.join().expect("no panic"), Ok(Some(5)));
        }
    }

    #[test]
    fn nothing_is_allocated_while_measuring() {
        use super::super::plan::tests::plan;

        for (sleeper, waker) in [futex_ends(), eventfd_ends().expect("descriptors")] {
            let (recorder, between) = (Recorder::new().expect("small"), Between::default());
            let (cycle, start) = (Cycle::new(&plan(), 0, 1), Start::now());
            let mut found = Ok(None);
            std::thread::scope(|scope| {
                let waking = scope.spawn(|| {
                    let woken = allocation_counter::measure(|| {
                        wake(waker, &between, cycle, &start)
                            .map(drop)
                            .expect("no failure");
                    });
                    woken.count_total
                });
                let slept =
                    allocation_counter::measure(|| found = sleep(sleeper, &between, recorder));
                assert_eq!(
                    (slept.count_total, waking.join().expect("no panic")),
                    (0, 0)
                );
            });
            let recorder = found.expect("no failure").expect("a sleeper records");
            let taken = between.taken.load(Ordering::Relaxed);
            assert_eq!(
                (recorder.histogram.len(), taken),
                (taken, between.sent.load(Ordering::Relaxed))
            );
            assert!(taken > 0);
        }
    }
}

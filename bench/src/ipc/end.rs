//! One end of a way between the two processes, and what the processes do with it. A system under
//! test is an `End`.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use super::case::Case;
use crate::error::BenchError;
use crate::statistics;

/// Before the first sample: caches, predictors and first touches.
const WARM_UP_MAX: u64 = 1000;
const WARM_UP_MIN: u64 = 16;
/// A run whose time is over early still has so many samples.
const SAMPLES_MIN: u64 = 20;
/// Messages per call of a batched rate.
pub(crate) const BATCH: u64 = 32;
/// The reader of a stream keeps each message for 5 quarters of the time that reading takes it.
const STREAM_KEPT: u32 = 5;
const STREAM_READ: u32 = 4;
/// Messages of a burst; every system's queue holds so many.
pub(crate) const BURST: u64 = 16;

/// One end. Numbers count the messages of each direction; they decide the content.
pub(crate) trait End {
    /// Sends message `number`: a filled one, or on what was received last.
    fn send(&mut self, number: u64) -> Result<(), BenchError>;

    /// Receives message `number`, within a bound. False: the other end has finished.
    fn receive(&mut self, number: u64) -> Result<bool, BenchError>;

    /// Sends messages `first` and up, `count` of them, with as few calls as the system allows.
    fn send_batch(&mut self, first: u64, count: u64) -> Result<(), BenchError> {
        (first..first + count).try_for_each(|number| self.send(number))
    }

    /// Receives message `first` and up, at least one and at most `count`, as one call gives them.
    /// Returns how many; 0: the other end has finished.
    fn receive_batch(&mut self, first: u64, count: u64) -> Result<u64, BenchError> {
        debug_assert!(count > 0);
        self.receive(first).map(u64::from)
    }

    /// How many slots a stream was written to in turn, where its messages were counted.
    fn reuse_slots(&self) -> Option<f64> {
        None
    }

    /// Tells the other end that nothing comes any more.
    fn finish(&mut self) -> Result<(), BenchError>;
}

/// How much of it.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Budget {
    pub(crate) count: u64,
    pub(crate) time: Duration,
}

/// The measuring side, there and back.
pub(crate) fn round_trips(
    end: &mut impl End,
    budget: Budget,
) -> Result<Histogram<u64>, BenchError> {
    let mut number = 0;
    let start = Instant::now();
    let warm_up = (budget.count / 10).clamp(WARM_UP_MIN, WARM_UP_MAX);
    while number < warm_up && (number == 0 || start.elapsed() < budget.time) {
        round_trip(end, number)?;
        number += 1;
    }
    let mut histogram = statistics::histogram();
    let samples_min = SAMPLES_MIN.min(budget.count);
    let start = Instant::now();
    loop {
        let sent = Instant::now();
        round_trip(end, number)?;
        let back = Instant::now();
        statistics::record(&mut histogram, back - sent);
        number += 1;
        let samples = histogram.len();
        let is_late = back - start >= budget.time;
        if samples >= budget.count || is_late && samples >= samples_min {
            return Ok(histogram);
        }
    }
}

#[inline]
fn round_trip(end: &mut impl End, number: u64) -> Result<(), BenchError> {
    end.send(number)?;
    expect(end.receive(number)?)
}

/// The measuring side, one way: messages per second, the last of them acknowledged.
pub(crate) fn rate(end: &mut impl End, messages: u64) -> Result<f64, BenchError> {
    let start = Instant::now();
    for number in 0..messages {
        end.send(number)?;
    }
    expect(end.receive(messages)?)?;
    Ok(messages as f64 / start.elapsed().as_secs_f64())
}

/// The other side of [`rate`].
pub(crate) fn swallow(end: &mut impl End, messages: u64) -> Result<(), BenchError> {
    for number in 0..messages {
        expect(end.receive(number)?)?;
    }
    end.send(messages)?;
    echo(end)
}

/// As [`rate`], with batches.
pub(crate) fn batched_rate(end: &mut impl End, messages: u64) -> Result<f64, BenchError> {
    let start = Instant::now();
    let mut sent = 0;
    while sent < messages {
        let count = BATCH.min(messages - sent);
        end.send_batch(sent, count)?;
        sent += count;
    }
    expect(end.receive(messages)?)?;
    Ok(messages as f64 / start.elapsed().as_secs_f64())
}

/// The other side of [`batched_rate`].
pub(crate) fn swallow_batches(end: &mut impl End, messages: u64) -> Result<(), BenchError> {
    let mut received = 0;
    while received < messages {
        let count = end.receive_batch(received, BATCH.min(messages - received))?;
        expect(count > 0)?;
        received += count;
    }
    end.send(messages)?;
    echo(end)
}

/// The measuring side, one way in bursts that fit any queue, each acknowledged when all subscribers
/// have all of it. A sample is the time that publishing a burst took, by the messages in it;
/// waiting for the acknowledgement is no part of it.
pub(crate) fn bursts(end: &mut impl End, budget: Budget) -> Result<Histogram<u64>, BenchError> {
    let mut histogram = statistics::histogram();
    let (samples_min, start) = (SAMPLES_MIN.min(budget.count), Instant::now());
    for burst in 0.. {
        let sent = Instant::now();
        for message in 0..BURST {
            end.send(burst * BURST + message)?;
        }
        let done = Instant::now();
        expect(end.receive(burst)?)?;
        if burst >= WARM_UP_MIN {
            statistics::record(&mut histogram, (done - sent) / BURST as u32);
        }
        let samples = histogram.len();
        let is_late = done - start >= budget.time;
        if samples >= budget.count || is_late && samples >= samples_min {
            break;
        }
    }
    Ok(histogram)
}

/// The other side of [`bursts`].
pub(crate) fn acknowledge(end: &mut impl End) -> Result<(), BenchError> {
    let mut number = 0;
    while end.receive(number)? {
        number += 1;
        if number.is_multiple_of(BURST) {
            end.send(number / BURST - 1)?;
        }
    }
    Ok(())
}

/// The other side of [`round_trips`].
pub(crate) fn echo(end: &mut impl End) -> Result<(), BenchError> {
    let mut number = 0;
    while end.receive(number)? {
        end.send(number)?;
        number += 1;
    }
    Ok(())
}

/// What reads a message; it is kept for longer than that where the reader is to be slower than the
/// writer, which then always finds the queue full.
#[inline]
pub(super) fn read_for<T>(case: Case, read: impl FnOnce() -> T) -> T {
    if case.pattern.stream_depth().is_none() {
        return read();
    }
    let start = Instant::now();
    let outcome = read();
    let until = start.elapsed() * STREAM_KEPT / STREAM_READ;
    while start.elapsed() < until {
        std::hint::spin_loop();
    }
    outcome
}

fn expect(received: bool) -> Result<(), BenchError> {
    if received {
        return Ok(());
    }
    Err(BenchError::PeerLost("it finished too early".to_owned()))
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Answers itself, until it is told to stop.
    #[derive(Default)]
    struct Mirror {
        sent: Vec<u64>,
        answers: u64,
    }

    impl End for Mirror {
        fn send(&mut self, number: u64) -> Result<(), BenchError> {
            self.sent.push(number);
            Ok(())
        }
        fn receive(&mut self, _number: u64) -> Result<bool, BenchError> {
            self.answers = self.answers.saturating_sub(1);
            Ok(self.answers > 0)
        }
        fn finish(&mut self) -> Result<(), BenchError> {
            Ok(())
        }
    }

    fn mirror(answers: u64) -> Mirror {
        Mirror {
            answers,
            ..Mirror::default()
        }
    }

    #[test]
    fn budget_is_of_samples_or_of_time() {
        let wanted = |count, time| {
            let budget = Budget { count, time };
            round_trips(&mut mirror(10_000), budget)
                .expect("answered")
                .len()
        };
        assert_eq!(wanted(300, Duration::from_secs(60)), 300);
        assert_eq!(wanted(300, Duration::ZERO), SAMPLES_MIN);
        assert_eq!(wanted(3, Duration::ZERO), 3);
    }

    #[test]
    fn early_end_is_a_lost_peer() {
        let budget = Budget {
            count: 100,
            time: Duration::from_secs(60),
        };
        let lost = round_trips(&mut mirror(50), budget);
        assert!(matches!(lost, Err(BenchError::PeerLost(_))), "{lost:?}");
        let lost = swallow(&mut mirror(5), 10);
        assert!(matches!(lost, Err(BenchError::PeerLost(_))), "{lost:?}");
    }

    #[test]
    fn batches_carry_each_message_once() {
        let mut end = mirror(1000);
        batched_rate(&mut end, 70).expect("acknowledged");
        assert_eq!(end.sent, (0..70).collect::<Vec<_>>());
        let mut end = mirror(1000);
        swallow_batches(&mut end, 70).expect("all came");
        assert_eq!(end.sent[0], 70);
    }

    #[test]
    fn each_burst_is_acknowledged_once() {
        let mut end = mirror(2 * BURST + 1);
        acknowledge(&mut end).expect("finished");
        assert_eq!(end.sent, [0, 1]);
        let budget = Budget {
            count: 30,
            time: Duration::from_secs(60),
        };
        let found = bursts(&mut mirror(10_000), budget).expect("acknowledged");
        assert_eq!(found.len(), 30);
    }

    #[test]
    fn echo_answers_each_message_once() {
        let mut end = mirror(4);
        echo(&mut end).expect("echoed");
        assert_eq!(end.sent, [0, 1, 2]);
    }
}

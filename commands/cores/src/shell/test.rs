//! `test` of the shell: messages through the echo of a core, each byte compared.
//!
//! One message is under way at a time. What is sent depends on a seed and the number of the
//! message, so one that is late, lost, exchanged or changed is found. Never waits without a bound,
//! and never compares in shared memory: what came is copied first.

use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use hythe::SubscriberOptions;
use hythe::wait::WaitSet;
use hythe::{Node, NodeError, Pool, Publisher, PublisherOptions, Sample, Subscriber};
use hythe_command::error::CliError;
use hythe_command::output;
use hythe_command::stop::{LOOK, Stop};
use hythe_command::units;
use serde::Serialize;

/// How long one message may take. Emulated cores answer within milliseconds.
const ANSWER_BOUND: Duration = Duration::from_secs(10);
/// How long the core may keep a buffer that it has been sent.
const FLUSH_BOUND: Duration = Duration::from_secs(10);
/// A poll looks so often before it asks the clock and whether to stop.
const POLLS: u32 = 256;

/// What to send, and how to wait for it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Exchange {
    pub(super) messages: u64,
    pub(super) size_bytes: usize,
    pub(super) wait: Wait,
}

/// How this side waits for a message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Wait {
    /// It looks again and again.
    Poll,
    /// It sleeps until the core rings.
    Bell,
}

impl Wait {
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Poll => "poll",
            Self::Bell => "bell",
        }
    }
}

/// What came of it. Times are from before a message is published until its echo is taken; filling
/// and comparing count for the rate only.
#[derive(Debug, Serialize)]
pub(super) struct Tested {
    pub(super) messages: u64,
    pub(super) size_bytes: usize,
    pub(super) wait: &'static str,
    pub(super) seed: u32,
    /// Messages that came back in the slots that they were sent in.
    pub(super) in_place: u64,
    pub(super) messages_per_second: f64,
    pub(super) p50_ns: u64,
    pub(super) p99_ns: u64,
    pub(super) max_ns: u64,
}

/// Our ports at the echo of a core.
pub(super) struct Ports {
    // In this order: a port of the set goes before the set.
    pong: Subscriber,
    ping: Publisher,
    bells: WaitSet,
    node: Node,
}

impl Ports {
    /// Opens them in front of a core that is up.
    pub(super) fn open(pool: &Pool, ping: &str, pong: &str) -> Result<Self, CliError> {
        let node = Node::join(pool, "hythe core shell")?;
        // One message is under way, and each empty buffer for the core is one less to send.
        let mut pong = node.subscriber(pong, &SubscriberOptions::default().depth(1))?;
        let ping = node.publisher(ping, &PublisherOptions::default())?;
        let mut bells = node.wait_set()?;
        bells.attach(&mut pong)?;
        Ok(Self {
            pong,
            ping,
            bells,
            node,
        })
    }

    /// Our name in the pool.
    pub(super) fn is_ours(&self, attached: &str) -> bool {
        let ours = self.node.index();
        let snapshot = self.node.pool().snapshot();
        let mut members = snapshot.members.iter();
        let us = members.find(|member| member.index == ours);
        us.is_some_and(|us| attached == format!("{} (pid {})", us.name, us.identity.pid))
    }

    /// Waits until the core has given back what it was sent, and closes the ports.
    pub(super) fn shut(mut self) -> Result<(), CliError> {
        Ok(self.ping.flush(FLUSH_BOUND)?)
    }

    /// Sends the messages one after the other and compares what comes back. `is_up` says whether
    /// the core can still answer.
    pub(super) fn test(
        &mut self,
        exchange: Exchange,
        seed: u32,
        stop: &Stop,
        is_up: &dyn Fn() -> Result<(), String>,
    ) -> Result<Tested, CliError> {
        let mut sent = vec![0; exchange.size_bytes];
        let mut came = vec![0; exchange.size_bytes];
        let (mut times, mut in_place) = (histogram(), 0);
        let bar = output::progress(Some(exchange.messages));
        let begun = Instant::now();
        for number in 0..exchange.messages {
            if stop.asked() {
                return Err(interrupted(number));
            }
            fill(&mut sent, seed, number);
            let mut lease = self.ping.lease(sent.len())?;
            lease.write(0, &sent);
            let message = lease.freeze(sent.len());
            let place = message.descriptor().place;
            let start = Instant::now();
            let published = match self.ping.forward(message) {
                Err(error @ NodeError::CoreSilent { .. }) => {
                    is_up().map_err(|gone| died(number, &gone))?;
                    return Err(error.into());
                }
                published => published?,
            };
            if published.delivered == 0 {
                is_up().map_err(|gone| died(number, &gone))?;
                return Err(failed(number, "reached nobody"));
            }
            let sample = self.take(exchange.wait, number, stop, is_up)?;
            times.saturating_record(u64::try_from(start.elapsed().as_nanos()).unwrap_or(u64::MAX));
            compare(&sample, &sent, &mut came, number, seed)?;
            in_place += u64::from(sample.descriptor().place == place);
            bar.inc(1);
        }
        let seconds = begun.elapsed().as_secs_f64();
        bar.finish_and_clear();
        #[expect(clippy::cast_precision_loss, reason = "a rate is rounded anyway")]
        let messages = exchange.messages as f64;
        Ok(Tested {
            messages: exchange.messages,
            size_bytes: exchange.size_bytes,
            wait: exchange.wait.name(),
            seed,
            in_place,
            messages_per_second: messages / seconds,
            p50_ns: times.value_at_quantile(0.5),
            p99_ns: times.value_at_quantile(0.99),
            max_ns: times.max(),
        })
    }

    fn take(
        &mut self,
        wait: Wait,
        number: u64,
        stop: &Stop,
        is_up: &dyn Fn() -> Result<(), String>,
    ) -> Result<Sample, CliError> {
        let (start, mut looked) = (Instant::now(), Instant::now());
        loop {
            if let Some(sample) = self.look(wait)? {
                return Ok(sample);
            }
            if stop.asked() {
                return Err(failed(
                    number,
                    "was under way when the test was interrupted",
                ));
            }
            if looked.elapsed() >= LOOK {
                is_up().map_err(|gone| died(number, &gone))?;
                looked = Instant::now();
            }
            if start.elapsed() >= ANSWER_BOUND {
                let bound = ANSWER_BOUND.as_secs();
                return Err(failed(number, &format!("did not come back in {bound} s")));
            }
        }
    }

    /// Looks for a message, for not much longer than [`LOOK`].
    fn look(&mut self, wait: Wait) -> Result<Option<Sample>, NodeError> {
        match wait {
            Wait::Poll => {
                for _ in 0..POLLS {
                    if let Some(sample) = self.pong.try_take()? {
                        return Ok(Some(sample));
                    }
                    std::hint::spin_loop();
                }
                Ok(None)
            }
            Wait::Bell => {
                self.bells.wait(LOOK)?;
                self.pong.try_take()
            }
        }
    }
}

fn interrupted(number: u64) -> CliError {
    CliError::Failed(format!("interrupted at message {number}"))
}

fn died(number: u64, gone: &str) -> CliError {
    let messages = units::counted(number, "message");
    CliError::Failed(format!("the core died after {messages}: {gone}"))
}

fn failed(number: u64, what: &str) -> CliError {
    CliError::Failed(format!("message {number} {what}"))
}

/// Up to a minute, to three digits.
fn histogram() -> Histogram<u64> {
    #[expect(clippy::unwrap_used, reason = "constants within the crate's limits")]
    Histogram::new_with_bounds(1, 60_000_000_000, 3).unwrap()
}

/// The bytes of one message: those of `SplitMix64` (Steele, Lea, Flood, 2014), a stream for each
/// message.
fn fill(bytes: &mut [u8], seed: u32, number: u64) {
    let mut state = mix(u64::from(seed) ^ mix(number));
    for piece in bytes.chunks_mut(8) {
        state = state.wrapping_add(0x9E37_79B9_7F4A_7C15);
        piece.copy_from_slice(&mix(state).to_le_bytes()[..piece.len()]);
    }
}

const fn mix(word: u64) -> u64 {
    let word = (word ^ (word >> 30)).wrapping_mul(0xBF58_476D_1CE4_E5B9);
    let word = (word ^ (word >> 27)).wrapping_mul(0x94D0_49BB_1331_11EB);
    word ^ (word >> 31)
}

fn compare(
    sample: &Sample,
    sent: &[u8],
    came: &mut [u8],
    number: u64,
    seed: u32,
) -> Result<(), CliError> {
    if sample.len() != sent.len() {
        let what = format!(
            "came back with {} bytes, not {} (seed {seed}); another program may use this echo",
            sample.len(),
            sent.len()
        );
        return Err(failed(number, &what));
    }
    sample.read(0, came);
    difference(sent, came).map_or(Ok(()), |(at, sent, came)| {
        let what =
            format!("came back changed: byte {at} is 0x{came:02x}, not 0x{sent:02x} (seed {seed})");
        Err(failed(number, &what))
    })
}

/// The first byte that differs: where, what was sent, what came.
fn difference(sent: &[u8], came: &[u8]) -> Option<(usize, u8, u8)> {
    let mut pairs = sent.iter().zip(came).enumerate();
    let (at, (sent, came)) = pairs.find(|(_, (sent, came))| sent != came)?;
    Some((at, *sent, *came))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn message(bytes: usize, seed: u32, number: u64) -> Vec<u8> {
        let mut message = vec![0; bytes];
        fill(&mut message, seed, number);
        message
    }

    #[test]
    fn message_depends_on_seed_and_number_and_nothing_else() {
        let one = message(1000, 1, 1);
        assert_eq!(one, message(1000, 1, 1));
        assert_ne!(one, message(1000, 2, 1));
        assert_ne!(one, message(1000, 1, 2));
        assert_eq!(one[..13], message(13, 1, 1), "a short one is the begin");
        let repeated = one.chunks_exact(8).filter(|piece| *piece == &one[..8]);
        assert_eq!(repeated.count(), 1);
    }

    #[test]
    fn first_byte_that_differs_is_named() {
        let sent = message(100, 7, 0);
        let mut came = sent.clone();
        assert_eq!(difference(&sent, &came), None);
        came[99] ^= 1;
        assert_eq!(difference(&sent, &came), Some((99, sent[99], came[99])));
        came[8] = !came[8];
        assert_eq!(difference(&sent, &came), Some((8, sent[8], came[8])));
    }
}

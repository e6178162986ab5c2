//! A stream and its sockets: what `hythe media recv` runs.
//!
//! One thread: it waits, takes what came, emits what is due, and sends RTCP. Every wait has a
//! bound, and so has the work between two waits. Between calls nothing is pending but what lies in
//! the sockets.

use std::os::fd::BorrowedFd;
use std::time::Duration;

use hythe_rtp::payload::Depacketize;
use hythe_sys::udp_receive::{MESSAGES_MAX, Message};
use rustix::time::{ClockId, clock_gettime};

use super::socket::{Readiness, Sockets};
use super::statistics::Statistics;
use super::stream::Stream;
use crate::MediaError;
use crate::sink::Sink;

/// Receiving calls between two looks at the clock: more are worth nothing, and RTCP has its turn.
const CALLS_MAX: usize = 32;
/// A datagram of RTCP or parity is cut off here, and malformed then: it has to fit a packet of
/// Ethernet.
const DATAGRAM_BYTES: usize = 2048;
/// The longest wait, so that the caller can be asked whether to go on.
const WAIT_MAX: Duration = Duration::from_millis(500);
/// What is waited after a goodbye at least: RTP and RTCP come from two sockets.
const GOODBYE_NS: u64 = 20_000_000;

/// When a session ends by itself.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Until {
    /// At the sender's goodbye, after what may still come.
    pub goodbye: bool,
    /// So long after the last packet, or after the beginning if none came.
    pub idle: Option<Duration>,
}

/// Why a session ended.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum End {
    /// The sender said goodbye.
    Goodbye,
    /// No packet came for as long as was allowed.
    Idle,
    /// It was told to.
    Stopped,
    /// The sender has changed to this payload type, which is not the one that is received.
    OtherPayloadType(u8),
}

/// Receives one stream until it ends.
pub struct Session<D, S> {
    sockets: Sockets,
    stream: Stream<D, S>,
    until: Until,
    began_ns: u64,
    reports_failed: u64,
}

impl<D: Depacketize, S: Sink> Session<D, S> {
    /// Joins sockets and a stream, which was made with the time of [`now_ns`].
    #[must_use]
    pub fn new(sockets: Sockets, stream: Stream<D, S>, until: Until) -> Self {
        Self {
            sockets,
            stream,
            until,
            began_ns: now_ns(),
            reports_failed: 0,
        }
    }

    /// Receives until the stream ends or `stop` is readable or hung up; then completes the sink.
    ///
    /// # Errors
    ///
    /// What the sink says; [`MediaError::Socket`], [`MediaError::System`], [`MediaError::Packet`].
    pub fn run(&mut self, stop: Option<BorrowedFd<'_>>) -> Result<(End, Statistics), MediaError> {
        let end = loop {
            if let Some(end) = self.turn(stop, WAIT_MAX)? {
                break end;
            }
        };
        Ok((end, self.finish()?))
    }

    /// One wait, for `wait` at most, and what comes of it; why the session is to end, if it is.
    ///
    /// # Errors
    ///
    /// As [`Self::run`].
    pub fn turn(
        &mut self,
        stop: Option<BorrowedFd<'_>>,
        wait: Duration,
    ) -> Result<Option<End>, MediaError> {
        let now = now_ns();
        let next_ns = self.stream.next_ns().into_iter().chain(self.ends_ns());
        let next_ns = next_ns.min().map(|next_ns| next_ns.saturating_sub(now));
        let wait = next_ns.map_or(wait, |next_ns| wait.min(Duration::from_nanos(next_ns)));
        let ready = self.sockets.wait(stop, wait)?;
        self.receive(ready)?;
        self.stream.expire(now_ns())?;
        if let Some((report, to)) = self.stream.report(now_ns())? {
            let sent = self.sockets.send_rtcp(report, to);
            self.reports_failed += u64::from(sent.is_err());
        }
        if ready.stop {
            return Ok(Some(End::Stopped));
        }
        if let Some(payload_type) = self.stream.changed_type(now_ns()) {
            return Ok(Some(End::OtherPayloadType(payload_type)));
        }
        let is_over = self.ends_ns().is_some_and(|ends_ns| now_ns() >= ends_ns);
        let left = self.stream.goodbye_ns().is_some() && self.until.goodbye;
        // What came while this turn took place has its turn first.
        let has_more = ready.rtp || ready.rtcp || ready.parity;
        let end = if left { End::Goodbye } else { End::Idle };
        Ok((is_over && !has_more).then_some(end))
    }

    fn receive(&mut self, ready: Readiness) -> Result<(), MediaError> {
        if ready.rtp {
            let mut messages = [Message::NONE; MESSAGES_MAX];
            for _ in 0..CALLS_MAX {
                let storage = self.stream.free_capacity()?;
                let received = self.sockets.receive(storage, &mut messages);
                let count = received.or_else(|error| {
                    // Where the space is in a pool, that may be gone from under it.
                    self.stream.check_memory()?;
                    Err(error)
                })?;
                if count == 0 {
                    break;
                }
                let (messages, part) = (&messages[..count], self.sockets.part());
                self.stream.take_messages(messages, part, now_ns())?;
            }
        }
        let mut buffer = [0; DATAGRAM_BYTES];
        if ready.parity {
            for _ in 0..CALLS_MAX {
                let Some((datagram, source)) = self.sockets.receive_parity(&mut buffer)? else {
                    break;
                };
                self.stream.take_parity(datagram, source, now_ns())?;
            }
        }
        if ready.rtcp {
            for _ in 0..CALLS_MAX {
                let Some((datagram, source)) = self.sockets.receive_rtcp(&mut buffer)? else {
                    break;
                };
                self.stream.take_rtcp(datagram, source, now_ns());
            }
        }
        Ok(())
    }

    /// When the session ends if nothing comes.
    fn ends_ns(&self) -> Option<u64> {
        let idle_ns = self.until.idle.map(|idle| {
            let last_ns = self.stream.last_packet_ns().unwrap_or(self.began_ns);
            last_ns.saturating_add(u64::try_from(idle.as_nanos()).unwrap_or(u64::MAX))
        });
        let goodbye_ns = self.stream.goodbye_ns().filter(|_| self.until.goodbye);
        let lasting_ns = self.stream.settings().delay_ns.max(GOODBYE_NS);
        let left_ns = goodbye_ns.map(|ns| ns.saturating_add(lasting_ns));
        idle_ns.into_iter().chain(left_ns).min()
    }

    /// Ends the session: emits what is held, completes the sink, says goodbye.
    ///
    /// # Errors
    ///
    /// As [`Self::run`].
    pub fn finish(&mut self) -> Result<Statistics, MediaError> {
        if let Some((goodbye, to)) = self.stream.finish(now_ns())? {
            let sent = self.sockets.send_rtcp(goodbye, to);
            self.reports_failed += u64::from(sent.is_err());
        }
        self.statistics()
    }

    /// What was counted so far.
    ///
    /// # Errors
    ///
    /// [`MediaError::Socket`].
    pub fn statistics(&self) -> Result<Statistics, MediaError> {
        Ok(Statistics {
            kernel_drops: self.sockets.drops()?,
            reports_failed: self.reports_failed,
            ..self.stream.statistics()
        })
    }

    /// The sockets, to be asked for their address.
    #[must_use]
    pub fn sockets(&self) -> &Sockets {
        &self.sockets
    }

    /// The stream.
    #[must_use]
    pub fn stream(&self) -> &Stream<D, S> {
        &self.stream
    }

    /// The stream, for its sink.
    pub fn stream_mut(&mut self) -> &mut Stream<D, S> {
        &mut self.stream
    }
}

/// The time that a [`Stream`] is handed here: nanoseconds of the monotonic clock.
#[must_use]
pub fn now_ns() -> u64 {
    let now = clock_gettime(ClockId::Monotonic);
    now.tv_sec as u64 * 1_000_000_000 + now.tv_nsec as u64
}

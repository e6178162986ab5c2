//! The far end of all calls: a pair of sockets each, and the kernel's notes of when packets
//! arrived.
//!
//! It sleeps, looks into a few sockets at a time, and is woken by none: on a veth link a wake-up
//! would be the sender's work, which on a real network it is not. Nor does it read all sockets at
//! once: the two CPUs of a small machine are often the two threads of one core, and thousands of
//! reads in a row would slow the sender down for as long. The instants are the kernel's, so that
//! reading late changes none.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::ops::Range;
use std::os::fd::AsFd;
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;
use hythe_sys::udp_receive::{MESSAGES_MAX, Message, enable_timestamps, receive};
use rustix::event::{PollFd, PollFlags, poll};
use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
use rustix::time::Timespec;

use super::super::packets::{HEADER_BYTES, sequence};
use super::{Arrivals, CallCase, INTERVAL_NS, PACKET_BYTES, port, prompt, said};
use crate::error::BenchError;
use crate::statistics::{encode, histogram, record};

/// Of a message; longer ones are none of ours.
const PART: NonZeroUsize = NonZeroUsize::new(256).expect("not zero");
/// From one look into a few sockets to the next into others.
const GLANCE: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 2_000_000,
};
/// Looks until all sockets were read once: every 0.1 s, five packets of a call.
const GLANCES: usize = 50;
/// After the sender has ended, nothing is on its way for so long; where packets are missing, for
/// longer: a busy machine brings them late.
const SILENCE: Duration = Duration::from_millis(200);
const LATE: Duration = Duration::from_secs(2);
/// Beside those of the calls.
const OTHER_FILES: u64 = 100;

/// Open sockets.
#[derive(Debug)]
pub(in super::super) struct Receiver {
    calls: Vec<UdpSocket>,
    /// Packets, if the sender keeps up.
    expected: u64,
    /// Where reports go, which nobody reads: without them every report would be answered by the
    /// kernel.
    _reports: Vec<UdpSocket>,
    ear: Ear,
}

impl Receiver {
    pub(in super::super) fn open(case: CallCase, address: IpAddr) -> Result<Self, BenchError> {
        allow_files(2 * u64::from(case.calls) + OTHER_FILES)?;
        let (mut calls, mut reports) = (Vec::new(), Vec::new());
        for call in 0..case.calls {
            let socket = UdpSocket::bind(SocketAddr::new(address, port(call)))?;
            enable_timestamps(&socket)?;
            calls.push(socket);
            reports.push(UdpSocket::bind(SocketAddr::new(address, port(call) + 1))?);
        }
        Ok(Self {
            calls,
            expected: case.packets(),
            _reports: reports,
            ear: Ear::new(case.calls),
        })
    }

    /// Until there is an order on `orders`, and nothing comes any more.
    pub(in super::super) fn run(mut self, orders: impl AsFd) -> Result<Arrivals, BenchError> {
        let share = self.calls.len().div_ceil(GLANCES).max(1);
        let mut first = 0;
        let mut waited = [PollFd::new(&orders, PollFlags::IN)];
        while !poll(&mut waited, Some(&GLANCE)).is_ok_and(|ready| ready > 0) {
            let end = (first + share).min(self.calls.len());
            self.look(first..end)?;
            first = if end < self.calls.len() { end } else { 0 };
        }
        let mut last = Instant::now();
        while last.elapsed() < self.longest_silence() {
            std::thread::sleep(SILENCE / 10);
            if self.look(0..self.calls.len())? {
                last = Instant::now();
            }
        }
        Ok(Arrivals {
            delivered: self.ear.delivered,
            wrong: self.ear.wrong,
            spacing: encode(&[self.ear.spacing])?,
        })
    }

    fn longest_silence(&self) -> Duration {
        match self.ear.delivered < self.expected {
            true => LATE,
            false => SILENCE,
        }
    }

    /// Did anything come to these calls?
    fn look(&mut self, calls: Range<usize>) -> Result<bool, BenchError> {
        let mut buffer = [0; PART.get() * MESSAGES_MAX];
        let mut messages = [Message::NONE; MESSAGES_MAX];
        let mut came = false;
        for call in calls {
            let socket = &self.calls[call];
            loop {
                let count = receive(socket, &mut buffer, PART, &mut messages)?;
                let parts = buffer.chunks(PART.get());
                for (message, part) in messages[..count].iter().zip(parts) {
                    self.ear
                        .hear(call, &part[..message.bytes], message.arrived_unix_ns);
                }
                came |= count > 0;
                if count < MESSAGES_MAX {
                    break;
                }
            }
        }
        Ok(came)
    }
}

/// Checks packets, and takes the times between those of a call.
#[derive(Debug)]
struct Ear {
    prompt: Vec<u8>,
    /// Of each call, number and arrival of the last packet.
    last: Vec<Option<(u64, u64)>>,
    delivered: u64,
    wrong: u64,
    spacing: Histogram<u64>,
}

impl Ear {
    fn new(calls: u16) -> Self {
        Self {
            prompt: prompt(),
            last: vec![None; calls.into()],
            delivered: 0,
            wrong: 0,
            spacing: histogram(),
        }
    }

    fn hear(&mut self, call: usize, packet: &[u8], arrived_ns: Option<u64>) {
        match self.check(call, packet).zip(arrived_ns) {
            Some((number, arrived_ns)) => {
                self.delivered += 1;
                let before = self.last[call].replace((number, arrived_ns));
                // Behind one that is missing, nobody knows.
                if let Some((_, before_ns)) = before.filter(|before| before.0 + 1 == number) {
                    let apart_ns = arrived_ns.saturating_sub(before_ns);
                    let error_ns = apart_ns.abs_diff(INTERVAL_NS);
                    record(&mut self.spacing, Duration::from_nanos(error_ns));
                }
            }
            None => self.wrong += 1,
        }
    }

    /// The number of a packet that is as it was sent, and newer than the one before. No call lasts
    /// so long that numbers wrap.
    fn check(&self, call: usize, packet: &[u8]) -> Option<u64> {
        let number = u64::from(sequence(packet)?);
        let is_newer = self.last[call].is_none_or(|(before, _)| before < number);
        let source = packet.get(8..HEADER_BYTES)?;
        let is_right = packet.len() == usize::from(PACKET_BYTES)
            && source == (call as u32).to_be_bytes()
            && &packet[HEADER_BYTES..] == said(&self.prompt, number);
        (is_newer && is_right).then_some(number)
    }
}

/// So many files may be open.
fn allow_files(count: u64) -> Result<(), BenchError> {
    let limit = getrlimit(Resource::Nofile);
    if limit.current.is_none_or(|current| current >= count) {
        return Ok(());
    }
    let maximum = limit.maximum.map(|maximum| maximum.max(count));
    setrlimit(
        Resource::Nofile,
        Rlimit {
            current: Some(count),
            maximum,
        },
    )
    .map_err(|error| BenchError::Unable(format!("{count} sockets are too many here: {error}")))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn packet(call: u32, number: u16) -> Vec<u8> {
        let mut made = vec![0x80, 0];
        made.extend(number.to_be_bytes());
        made.extend([0; 4]);
        made.extend(call.to_be_bytes());
        made.extend(said(&prompt(), number.into()));
        made
    }

    #[test]
    fn distances_are_those_of_neighbours_of_one_call() {
        let mut ear = Ear::new(2);
        ear.hear(0, &packet(0, 0), Some(1_000_000_000));
        ear.hear(1, &packet(1, 0), Some(1_000_000_000));
        ear.hear(0, &packet(0, 1), Some(1_020_000_300));
        ear.hear(1, &packet(1, 2), Some(1_040_000_000)); // one is missing
        ear.hear(1, &packet(1, 3), Some(1_059_000_000));
        assert_eq!((ear.delivered, ear.wrong, ear.spacing.len()), (5, 0, 2));
        assert_eq!(ear.spacing.min(), 300);
        assert!(ear.spacing.max() >= 1_000_000);
    }

    #[test]
    fn what_is_not_as_it_was_sent_is_wrong() {
        let mut ear = Ear::new(2);
        ear.hear(0, &packet(0, 7), Some(1));
        let mut damaged = packet(0, 8);
        damaged[100] ^= 1;
        ear.hear(0, &damaged, Some(2));
        ear.hear(0, &packet(0, 7), Some(3)); // again
        ear.hear(0, &packet(1, 8), Some(4)); // of another
        ear.hear(0, &packet(0, 8)[..171], Some(5));
        ear.hear(0, &[], Some(6));
        ear.hear(0, &packet(0, 8), None);
        assert_eq!((ear.delivered, ear.wrong, ear.spacing.len()), (1, 6, 0));
    }
}

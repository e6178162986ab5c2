//! Transport packets in messages: as [`source::ts`](crate::source::ts) finds them in a stream of
//! bytes, and timed as there.

use std::collections::VecDeque;
use std::ops::Range;

use hythe_rtp::format::StreamFormat;
use hythe_rtp::payload::mpeg_ts::{TS_BYTES, TS_SYNC};
use hythe_rtp::unit::Unit;

use super::message::Message;
use super::{AHEAD_MAX, Cutter};
use crate::MediaError;
use crate::source::InPlace;
use crate::source::pieces::Pieces;
use crate::source::ts::{AHEAD_PACKETS, UNIT_PACKETS, find_packets, stream_format};
use crate::source::ts_clock::{Clock, Reference};

/// Do transport packets, with nothing between them, follow each other in a message that begins so?
/// The first may have begun in a message before.
pub(super) fn begins(bytes: &[u8]) -> bool {
    find_packets(bytes, true).is_some_and(|(_, framing)| framing.stride == TS_BYTES)
}

/// Where the first transport packet begins from which on all have their sync byte.
fn first_packet(bytes: &[u8]) -> Option<usize> {
    let in_sync = |start: &usize| {
        let mut syncs = bytes[*start..].iter().step_by(TS_BYTES);
        syncs.all(|byte| *byte == TS_SYNC)
    };
    (0..TS_BYTES.min(bytes.len())).find(in_sync)
}

/// Whole packets of a message, and the number of the first.
#[derive(Debug)]
struct Run {
    first: u64,
    message: Message,
}

impl Run {
    /// The number behind the last.
    fn end(&self) -> u64 {
        self.first + (self.message.len() / TS_BYTES) as u64
    }
}

/// Finds units of up to seven packets, none of which goes over the end of a message.
pub(super) struct TsCutter {
    input: String,
    format: StreamFormat,
    pieces: Pieces,
    /// Messages of which not all was given, and of which the last unit is.
    runs: VecDeque<Run>,
    /// Number of the packet behind the last one.
    end: u64,
    /// Number of the first packet of the next unit, and its time once that is known.
    next: u64,
    time: Option<u64>,
    /// The next unit, once all is known of it: packets, time and duration.
    ready: Option<(Range<u64>, u64, u32)>,
    /// Up to this packet was looked for clock references.
    searched: u64,
    has_rate: bool,
    clock: Clock,
    damaged: u64,
}

impl TsCutter {
    pub(super) fn new(input: &str, bits_per_second: Option<u32>) -> Self {
        Self {
            input: input.to_owned(),
            format: stream_format(),
            pieces: Pieces::default(),
            runs: VecDeque::new(),
            end: 0,
            next: 0,
            time: None,
            ready: None,
            searched: 0,
            has_rate: bits_per_second.is_some(),
            clock: Clock::new(bits_per_second),
            damaged: 0,
        }
    }

    /// The run that a packet lies in.
    fn run(&self, packet: u64) -> Option<&Run> {
        let behind = self.runs.partition_point(|run| run.first <= packet);
        self.runs.get(behind.checked_sub(1)?)
    }

    /// The next clock reference among the packets that are there.
    fn next_reference(&mut self) -> Option<Reference> {
        while self.searched < self.end {
            let number = self.searched;
            self.searched += 1;
            let behind = self.runs.partition_point(|run| run.first <= number);
            let run = self.runs.get(behind.checked_sub(1)?)?;
            let start = (number - run.first) as usize * TS_BYTES;
            let packet = &run.message.bytes()[start..start + TS_BYTES];
            if let Some(found) = self.clock.look(number, packet) {
                return Some(found);
            }
        }
        None
    }

    /// Is a clock reference not waited for any longer?
    fn is_enough(&self, is_over: bool) -> bool {
        let is_full = self.runs.len() > AHEAD_MAX || self.end - self.next >= AHEAD_PACKETS as u64;
        is_over || is_full
    }

    /// The first rate; `false`: it cannot be told yet.
    fn find_rate(&mut self, is_over: bool) -> Result<bool, MediaError> {
        while !self.has_rate {
            let before = self.clock.last();
            match self.next_reference() {
                Some(found) => self.has_rate = self.clock.begin(before, found),
                None if self.end == 0 || !self.is_enough(is_over) => return Ok(false),
                None => {
                    return Err(MediaError::Input {
                        input: self.input.clone(),
                        position: 0,
                        reason: self.clock.no_rate(self.searched as usize),
                    });
                }
            }
        }
        Ok(true)
    }

    /// Lets the clock know the time of `packet`; `false`: it cannot be told yet.
    fn know(&mut self, packet: u64, is_over: bool) -> bool {
        while self.clock.known_to() <= packet {
            let before = self.clock.last();
            let found = self.next_reference();
            if found.is_none() && !self.is_enough(is_over) {
                return false;
            }
            self.clock.next(before, found, self.searched);
        }
        true
    }
}

impl Cutter for TsCutter {
    fn format(&self) -> &StreamFormat {
        &self.format
    }

    fn whole(&self, bytes: &[u8]) -> usize {
        let start = first_packet(bytes).unwrap_or(bytes.len());
        bytes.len() - (bytes.len() - start) % TS_BYTES
    }

    fn completing(&self, left: &[u8], bytes: &[u8]) -> Option<usize> {
        let missing = TS_BYTES - left.len() % TS_BYTES;
        // A message in between is missing if another packet begins here and none where this one
        // should end.
        let continues = bytes.get(missing).is_none_or(|byte| *byte == TS_SYNC);
        if !continues && first_packet(bytes) == Some(0) {
            return Some(0);
        }
        (missing <= bytes.len()).then_some(missing)
    }

    fn take(&mut self, message: Message) -> Result<(), MediaError> {
        let start = first_packet(message.bytes()).unwrap_or(message.len());
        let packets = (message.len() - start) / TS_BYTES;
        self.damaged += u64::from(start > 0 || packets == 0);
        if packets > 0 {
            self.runs.push_back(Run {
                first: self.end,
                message: message.part(start..start + packets * TS_BYTES),
            });
            self.end += packets as u64;
        }
        Ok(())
    }

    fn is_ready(&mut self, is_over: bool) -> Result<bool, MediaError> {
        let given = self.next;
        while self.runs.pop_front_if(|run| run.end() <= given).is_some() {}
        if self.ready.is_some() {
            return Ok(true);
        }
        if !self.find_rate(is_over)? {
            return Ok(false);
        }
        let begin = self.next;
        let Some(run) = self.run(begin).filter(|_| begin < self.end) else {
            return Ok(false);
        };
        let end = run.end().min(begin + UNIT_PACKETS as u64);
        if self.time.is_none() && self.know(begin, is_over) {
            self.time = Some(self.clock.ticks_at(begin));
        }
        let Some(time) = self.time.filter(|_| self.know(end, is_over)) else {
            return Ok(false);
        };
        let duration = self.clock.ticks_at(end).saturating_sub(time);
        let duration = u32::try_from(duration).unwrap_or(u32::MAX);
        self.ready = Some((begin..end, time, duration));
        Ok(true)
    }

    fn next(&mut self) -> Result<Option<InPlace<'_>>, MediaError> {
        let Some((packets, time, duration)) = self.ready.take() else {
            return Ok(None);
        };
        (self.next, self.time) = (packets.end, None);
        let Some(run) = self.runs.front() else {
            return Ok(None);
        };
        let at = |packet: u64| (packet - run.first) as usize * TS_BYTES;
        let bytes = &run.message.bytes()[at(packets.start)..at(packets.end)];
        Ok(Some(InPlace {
            unit: Unit {
                pieces: self.pieces.list(&[bytes]),
                time,
                due: time,
                duration,
                is_start: true,
            },
            messages: std::slice::from_ref(&run.message),
        }))
    }

    fn damaged(&self) -> u64 {
        self.damaged
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn message_that_begins_within_a_packet_is_one() {
        let mut packet = vec![TS_SYNC];
        packet.resize(TS_BYTES, 0xff);
        let stream = packet.repeat(14);
        for cut in [0, 1, 100, 187] {
            assert!(begins(&stream[cut..cut + 1316]), "from {cut}");
        }
        assert!(!begins(&[0; 1316]));
    }
}

//! The time of packets of a transport stream, told by the clock references (PCR) in them (ISO/IEC
//! 13818-1, 2.4.2).
//!
//! Between two clock references time runs evenly over the packets. Where a reference jumps or the
//! next one is too far, time goes on at the rate it had. Pure: whoever reads the packets shows them
//! here, and says how far was looked.

use hythe_rtp::payload::mpeg_ts::TS_BYTES;

/// The system clock, which clock references count.
const SYSTEM_CLOCK_HZ: u64 = 27_000_000;
/// Where a clock reference begins again: 33 bits at 90 kHz, by 300.
pub(super) const PCR_WRAP: u64 = (1 << 33) * 300;
/// More between two neighbouring references is a jump. The standard allows 0.1 s; muxers are known
/// to exceed it.
const PCR_STEP_MAX: u64 = 5 * SYSTEM_CLOCK_HZ;
/// A tick of RTP, in the system clock.
const TICK: u64 = SYSTEM_CLOCK_HZ / 90_000;

/// Time between two clock references, or beyond the last one.
#[derive(Clone, Copy, Debug)]
struct Interval {
    /// Packet from which on it holds, and the time there, in the system clock since the first
    /// packet.
    packet: u64,
    time: u64,
    /// Packets that follow before the next interval begins.
    packets: u64,
    /// The rate: so much time for so many packets.
    rate: (u64, u64),
}

impl Interval {
    fn time_at(&self, packet: u64) -> u64 {
        let (time, packets) = self.rate;
        let since = u128::from(packet - self.packet) * u128::from(time) / u128::from(packets);
        self.time
            .saturating_add(u64::try_from(since).unwrap_or(u64::MAX))
    }
}

/// A clock reference.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct ClockReference {
    pid: u16,
    value: u64,
    /// The stream says that it does not continue those before.
    is_discontinuous: bool,
}

/// Reads the clock reference of the packet, if it has one (ISO/IEC 13818-1, 2.4.3.4).
fn clock_reference(packet: &[u8]) -> Option<ClockReference> {
    let has_adaptation = packet[3] & 0x20 != 0;
    let (length, flags) = (packet[4], packet[5]);
    let is_damaged = packet[1] & 0x80 != 0;
    if !has_adaptation || is_damaged || length < 7 || flags & 0x10 == 0 {
        return None;
    }
    let base = u32::from_be_bytes([packet[6], packet[7], packet[8], packet[9]]);
    let base = u64::from(base) << 1 | u64::from(packet[10] >> 7);
    let extension = u64::from(packet[10] & 1) << 8 | u64::from(packet[11]);
    Some(ClockReference {
        pid: u16::from_be_bytes([packet[1] & 0x1f, packet[2]]),
        // An extension beyond 299 is a lie, and would lead past the wrap.
        value: (base * 300 + extension) % PCR_WRAP,
        is_discontinuous: flags & 0x80 != 0,
    })
}

/// A clock reference, and the number of the packet that has it.
pub(super) type Reference = (u64, ClockReference);

/// The clock of one stream.
#[derive(Debug)]
pub(super) struct Clock {
    /// The last one found, unless the next one was looked for in vain.
    last: Option<Reference>,
    interval: Interval,
    references: u64,
}

impl Clock {
    /// Packets run at so many bits per second, or as clock references will tell.
    pub(super) fn new(bits_per_second: Option<u32>) -> Self {
        let bits = TS_BYTES as u64 * 8;
        Self {
            last: None,
            interval: Interval {
                packet: 0,
                time: 0,
                packets: u64::MAX,
                rate: (
                    bits * SYSTEM_CLOCK_HZ,
                    u64::from(bits_per_second.unwrap_or(1).max(1)),
                ),
            },
            references: 0,
        }
    }

    pub(super) fn last(&self) -> Option<Reference> {
        self.last
    }

    /// The clock reference of a packet, if it has one of the PID that had the first one.
    pub(super) fn look(&mut self, number: u64, packet: &[u8]) -> Option<Reference> {
        let pid = self.last.map(|(_, reference)| reference.pid);
        let found = clock_reference(packet)?;
        if pid.is_some_and(|pid| pid != found.pid) {
            return None;
        }
        self.references += 1;
        self.last = Some((number, found));
        self.last
    }

    /// The first rate, if `found` continues the reference `before`: what is in front runs at it,
    /// too.
    pub(super) fn begin(&mut self, before: Option<Reference>, found: Reference) -> bool {
        let (packet, reference) = found;
        let continued = before.and_then(|(from, before)| {
            let time = step(before, reference)?;
            Some((time, packet - from))
        });
        if let Some(rate) = continued {
            self.interval = Interval {
                packet: 0,
                time: 0,
                packets: packet,
                rate,
            };
        }
        continued.is_some()
    }

    /// Begins the interval behind the present one, up to the reference `found` behind `before`; if
    /// none was found, as far as packets were `searched`, at the rate that was.
    pub(super) fn next(
        &mut self,
        before: Option<Reference>,
        found: Option<Reference>,
        searched: u64,
    ) {
        let begin = self.interval.packet + self.interval.packets;
        let time = self.interval.time_at(begin);
        let before = before.filter(|(packet, _)| *packet == begin);
        let mut rate = self.interval.rate;
        if let (Some((_, before)), Some((packet, reference))) = (before, found) {
            rate = step(before, reference).map_or(rate, |time| (time, packet - begin));
        }
        let end = found.map_or(searched, |(packet, _)| packet);
        if found.is_none() {
            self.last = None;
        }
        self.interval = Interval {
            packet: begin,
            time,
            packets: end.saturating_sub(begin).max(1),
            rate,
        };
    }

    /// Times of packets before this one are known.
    pub(super) fn known_to(&self) -> u64 {
        self.interval.packet.saturating_add(self.interval.packets)
    }

    /// When a packet from the present interval's first on is due, in ticks of 90 kHz.
    pub(super) fn ticks_at(&self, packet: u64) -> u64 {
        self.interval.time_at(packet) / TICK
    }

    /// Why there is no rate in the first `packets`.
    pub(super) fn no_rate(&self, packets: usize) -> String {
        let found = match self.references {
            0 => "no clock reference (PCR)",
            1 => "only one clock reference (PCR)",
            _ => "no two clock references (PCR) that continue each other",
        };
        format!("the transport stream has {found} within {packets} packets: give its bit rate")
    }
}

/// Time from one clock reference to the next; `None` where it jumps.
fn step(from: ClockReference, to: ClockReference) -> Option<u64> {
    let time = (to.value + PCR_WRAP - from.value) % PCR_WRAP;
    let is_jump = to.is_discontinuous || from.pid != to.pid || time > PCR_STEP_MAX || time == 0;
    (!is_jump).then_some(time)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn reference_beyond_the_wrap_is_one_behind_it() {
        let mut packet = [0xff; TS_BYTES];
        packet[..5].copy_from_slice(&[0x47, 1, 0, 0x20, 183]);
        packet[5] = 0x10;
        let largest = clock_reference(&packet).unwrap();
        assert_eq!(largest.value, 211);
        packet[6..12].fill(0);
        let zero = clock_reference(&packet).unwrap();
        assert_eq!(step(largest, zero), None);
        assert_eq!(step(zero, largest), Some(211));
    }
}

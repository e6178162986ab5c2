//! The instant of each packet.
//!
//! A picture becomes dozens of packets that are all due at one instant; a transport stream becomes
//! packets that are due a fraction of a millisecond apart. The one is spread over the time until
//! the next picture, the other gathered into groups that one send can take. A [`Limit`] decides
//! both; the [`Pacer`](super::Pacer) gathers.

use hythe_rtp::unit::Unit;

const NANOS_PER_SECOND: u128 = 1_000_000_000;

/// How much may leave at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limit {
    /// Packets that leave back to back, at most; at least 1.
    pub burst: usize,
    /// How early a packet may leave to go together with those in front of it, in nanoseconds.
    pub early_ns: u64,
}

impl Limit {
    /// For media that is made as it is sent, and for groups: who watches waits for each packet, and
    /// every receiver of a group would have to have capacity for long bursts.
    pub const LIVE: Self = Self {
        burst: 8,
        early_ns: 2_000_000,
    };
    /// For stored media to hosts: 20 ms of it leave together. Each call then sends all that a
    /// destination gets in that time, which is what sending costs.
    pub const STORED: Self = Self {
        burst: 64,
        early_ns: 20_000_000,
    };
}

/// What decides when a packet is due.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Pace {
    /// The times of the media.
    Media,
    /// This many bits of RTP packets each second, whatever the media says.
    BitsPerSecond(u64),
    /// Nothing: as fast as the network takes them.
    Unpaced,
}

/// Gives the packets of units their instants.
///
/// [`begin`](Self::begin) with each unit, then [`next_ns`](Self::next_ns) for each of its packets.
#[derive(Clone, Debug)]
pub struct Schedule {
    pace: Pace,
    clock_hz: u32,
    burst: u64,
    /// Of the unit at hand, in ticks.
    due: u64,
    duration: u64,
    packets: u64,
    packet: u64,
    /// Of all packets so far.
    bytes: u64,
    last_ns: u64,
}

impl Schedule {
    /// For media with `clock_hz` ticks a second, at least 1.
    #[must_use]
    pub fn new(pace: Pace, clock_hz: u32, limit: Limit) -> Self {
        Self {
            pace,
            clock_hz: clock_hz.max(1),
            burst: limit.burst.max(1) as u64,
            due: 0,
            duration: 0,
            packets: 1,
            packet: 0,
            bytes: 0,
            last_ns: 0,
        }
    }

    /// What follows are the `packets` packets of `unit`. If it does not know how long it lasts, it
    /// lasts as long as the one before was apart from it.
    pub fn begin(&mut self, unit: &Unit<'_>, packets: usize) {
        let apart = unit.due.saturating_sub(self.due);
        self.duration = match unit.duration {
            0 => apart,
            known => known.into(),
        };
        self.due = unit.due;
        self.packets = packets.max(1) as u64;
        self.packet = 0;
    }

    /// When the next packet, of `bytes` bytes with its header, is due. Never before the one in
    /// front of it.
    pub fn next_ns(&mut self, bytes: usize) -> u64 {
        let due_ns = match self.pace {
            Pace::Media => self.media_ns(),
            Pace::BitsPerSecond(rate) => {
                let bits = u128::from(self.bytes) * 8;
                saturate(bits * NANOS_PER_SECOND / u128::from(rate.max(1)))
            }
            Pace::Unpaced => 0,
        };
        self.packet += 1;
        self.bytes += bytes as u64;
        self.last_ns = self.last_ns.max(due_ns);
        self.last_ns
    }

    /// Pieces of `burst` packets, at equal distances over the duration of the unit.
    fn media_ns(&self) -> u64 {
        let pieces = self.packets.div_ceil(self.burst);
        let piece = (self.packet / self.burst).min(pieces);
        // At most 2^65 ticks, in pieces of which there are far fewer than 2^32, times 2^30: no
        // overflow.
        let in_pieces = u128::from(self.due) * u128::from(pieces)
            + u128::from(self.duration) * u128::from(piece);
        saturate(in_pieces * NANOS_PER_SECOND / (u128::from(pieces) * u128::from(self.clock_hz)))
    }
}

fn saturate(value: u128) -> u64 {
    u64::try_from(value).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn limit(burst: usize, early_ns: u64) -> Limit {
        Limit { burst, early_ns }
    }

    fn unit(due: u64, duration: u32) -> Unit<'static> {
        Unit {
            pieces: &[],
            time: due,
            due,
            duration,
            is_start: false,
        }
    }

    /// The instants of units, each with its number of packets of 100 bytes.
    fn instants(schedule: &mut Schedule, units: &[(Unit<'_>, usize)]) -> Vec<u64> {
        let mut found = Vec::new();
        for (unit, packets) in units {
            schedule.begin(unit, *packets);
            found.extend((0..*packets).map(|_| schedule.next_ns(100)));
        }
        found
    }

    #[test]
    fn picture_is_spread_until_the_next() {
        let mut schedule = Schedule::new(Pace::Media, 90_000, limit(4, 0));
        let found = instants(&mut schedule, &[(unit(0, 2700), 10), (unit(2700, 0), 3)]);
        let expected = [[0; 4], [10 * MS; 4]].concat();
        assert_eq!(found[..8], expected);
        assert_eq!(found[8..], [20 * MS, 20 * MS, 30 * MS, 30 * MS, 30 * MS]);
    }

    #[test]
    fn unknown_duration_is_that_of_the_unit_before() {
        let mut schedule = Schedule::new(Pace::Media, 1000, limit(1, 0));
        let found = instants(&mut schedule, &[(unit(0, 0), 2), (unit(40, 0), 2)]);
        assert_eq!(found, [0, 0, 40 * MS, 60 * MS]);
    }

    #[test]
    fn instants_never_go_back_and_rounding_does_not_add_up() {
        let mut schedule = Schedule::new(Pace::Media, 44_100, limit(1, 0));
        let second = (0..4410).map(|index| (unit(index * 10, 10), 3));
        let found = instants(&mut schedule, &second.collect::<Vec<_>>());
        assert!(found.is_sorted());
        assert_eq!(
            instants(&mut schedule, &[(unit(44_100, 0), 1)]),
            [1000 * MS]
        );
        assert_eq!(instants(&mut schedule, &[(unit(0, 0), 1)]), [1000 * MS]);
    }

    #[test]
    fn rate_counts_bytes() {
        let mut schedule = Schedule::new(Pace::BitsPerSecond(800_000), 1, limit(1, 0));
        assert_eq!(instants(&mut schedule, &[(unit(0, 0), 3)]), [0, MS, 2 * MS]);
    }

    #[test]
    fn times_of_a_hostile_file_saturate() {
        let mut schedule = Schedule::new(Pace::Media, 1, limit(1, 0));
        let found = instants(&mut schedule, &[(unit(u64::MAX, u32::MAX), 3)]);
        assert_eq!(found, [u64::MAX; 3]);
    }
}

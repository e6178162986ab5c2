//! Which missing packets are asked for, and when: generic NACK (RFC 4585, section 6.2.1) within
//! limits.
//!
//! [`feedback`](crate::receive::feedback) shows what is missing and sends what is listed here. A
//! number is asked for a few times, spaced by the round trip as it was measured by earlier answers,
//! and not when the answer would come too late.
//!
//! Pure. Memory is a ring as long as the reordering buffer; after it was made nothing is allocated.

use rtcp_types::prelude::*;
use rtcp_types::{FciFeedbackPacketType, RtcpWriteError};

use super::reorder::Missing;

/// Most entries of one packet; each names up to 17 packets.
pub const ENTRIES_MAX: usize = 64;
/// Bytes of an entry.
pub const ENTRY_BYTES: usize = 4;

/// What is waited for an answer before any was seen.
const FIRST_ROUND_TRIP_NS: u64 = 40_000_000;
/// Answers are not expected faster, so that jitter of a quick way does not ask twice.
const LEAST_MARGIN_NS: u64 = 5_000_000;

/// How much is asked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// How often one packet is asked for at most.
    pub times_max: u8,
    /// How long a packet is waited for before the first time, in nanoseconds: it may only have been
    /// overtaken.
    pub after_ns: u64,
    /// Parity is sent along, and may repair it: it has half of the time, as long as two requests
    /// would still be answered then.
    pub after_parity: bool,
}

impl Default for Limits {
    fn default() -> Self {
        Self {
            times_max: 4,
            after_ns: 2_000_000,
            after_parity: false,
        }
    }
}

#[derive(Clone, Copy, Debug, Default)]
struct Asked {
    number: u64,
    times: u8,
    first_ns: u64,
    last_ns: u64,
}

/// What was asked for.
#[derive(Debug)]
pub struct Requests {
    limits: Limits,
    asked: Box<[Asked]>,
    /// Smoothed, and its variation (RFC 6298, section 2).
    round_trip: Option<(u64, u64)>,
}

impl Requests {
    /// Nothing asked yet. `capacity`: of the reordering buffer, at least 1.
    #[must_use]
    pub fn new(limits: Limits, capacity: usize) -> Self {
        Self {
            limits,
            asked: vec![Asked::default(); capacity.max(1)].into(),
            round_trip: None,
        }
    }

    /// Numbers mean other packets from now on.
    pub fn restart(&mut self) {
        self.asked.fill(Asked::default());
    }

    /// When the first of `missing` is to be asked for.
    pub fn next_ns(&self, missing: impl Iterator<Item = Missing>) -> Option<u64> {
        missing.filter_map(|missing| self.when(&missing)).min()
    }

    /// Lists what of `missing`, in ascending order, is to be asked for now, and counts it as asked.
    pub fn take_due(&mut self, missing: impl Iterator<Item = Missing>, now_ns: u64) -> Wanted {
        let mut wanted = Wanted::default();
        for missing in missing {
            if self.when(&missing).is_none_or(|when_ns| now_ns < when_ns) {
                continue;
            }
            if !wanted.add(missing.number) {
                break;
            }
            let asked = self.slot(missing.number);
            if asked.number != missing.number || asked.times == 0 {
                *asked = Asked {
                    number: missing.number,
                    times: 0,
                    first_ns: now_ns,
                    last_ns: now_ns,
                };
            }
            asked.times += 1;
            asked.last_ns = now_ns;
        }
        wanted
    }

    /// A packet that was missing came.
    pub fn came(&mut self, number: u64, now_ns: u64) {
        let asked = *self.slot(number);
        // An answer to one of several questions says little (Karn and Partridge 1987), but more
        // than nothing.
        let is_answer = asked.number == number && asked.times > 0;
        if !is_answer || asked.times > 1 && self.round_trip.is_some() {
            return;
        }
        let sample_ns = now_ns.saturating_sub(asked.first_ns);
        self.round_trip = Some(match self.round_trip {
            None => (sample_ns, sample_ns / 2),
            Some((smoothed, variation)) => (
                smoothed - smoothed / 8 + sample_ns / 8,
                variation - variation / 4 + smoothed.abs_diff(sample_ns) / 4,
            ),
        });
    }

    /// Was a packet asked for?
    #[must_use]
    pub fn was_asked(&self, number: u64) -> bool {
        let asked = &self.asked[self.index(number)];
        asked.number == number && asked.times > 0
    }

    /// The round trip as measured, in nanoseconds.
    #[must_use]
    pub fn round_trip_ns(&self) -> Option<u64> {
        self.round_trip.map(|(smoothed, _)| smoothed)
    }

    /// When to ask (again); `None`: never.
    fn when(&self, missing: &Missing) -> Option<u64> {
        let asked = &self.asked[self.index(missing.number)];
        let when_ns = if asked.number != missing.number || asked.times == 0 {
            let soon_ns = missing.since_ns.saturating_add(self.limits.after_ns);
            if self.limits.after_parity {
                let time_ns = missing.until_ns.saturating_sub(missing.since_ns);
                let two_ns = self.answer_ns().saturating_mul(2);
                let for_parity_ns = time_ns.saturating_sub(two_ns).min(time_ns / 2);
                soon_ns.max(missing.since_ns.saturating_add(for_parity_ns))
            } else {
                soon_ns
            }
        } else if asked.times < self.limits.times_max {
            asked
                .last_ns
                .saturating_add(self.retransmission_timeout_ns(asked, missing))
        } else {
            return None;
        };
        let answer_ns = when_ns.saturating_add(self.round_trip_ns().unwrap_or(0));
        (answer_ns < missing.until_ns).then_some(when_ns)
    }

    /// How long an answer is waited for before the next time: ever longer (RFC 6298, 5.5) as far as
    /// there is time for all that are left, but no less than the round trip.
    fn retransmission_timeout_ns(&self, asked: &Asked, missing: &Missing) -> u64 {
        let least_ns = self.answer_ns();
        let longer_ns = self
            .spacing_ns()
            .saturating_mul(1 << (asked.times - 1).min(8));
        let times_left = u64::from(self.limits.times_max.saturating_sub(asked.times)).max(1);
        let time_left_ns = missing.until_ns.saturating_sub(asked.last_ns);
        let evenly_ns = time_left_ns.saturating_sub(least_ns) / times_left;
        longer_ns.min(evenly_ns).max(least_ns)
    }

    /// How long an answer takes.
    fn answer_ns(&self) -> u64 {
        let known = self.round_trip_ns();
        known.map_or(FIRST_ROUND_TRIP_NS, |trip_ns| {
            trip_ns.saturating_add(LEAST_MARGIN_NS)
        })
    }

    /// How long an answer may take that nobody should miss.
    fn spacing_ns(&self) -> u64 {
        self.round_trip
            .map_or(FIRST_ROUND_TRIP_NS, |(smoothed, variation)| {
                smoothed.saturating_add(LEAST_MARGIN_NS.max(variation.saturating_mul(4)))
            })
    }

    fn index(&self, number: u64) -> usize {
        (number % self.asked.len() as u64) as usize
    }

    fn slot(&mut self, number: u64) -> &mut Asked {
        let index = self.index(number);
        &mut self.asked[index]
    }
}

/// Packets to be asked for, as pairs of a number and a bitmap of the 16 behind it.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Wanted {
    entries: [(u16, u16); ENTRIES_MAX],
    used: usize,
    /// Of the last entry.
    base: u64,
    packets: u64,
}

impl Default for Wanted {
    fn default() -> Self {
        Self {
            entries: [(0, 0); ENTRIES_MAX],
            used: 0,
            base: 0,
            packets: 0,
        }
    }
}

impl Wanted {
    /// Adds a number larger than those before; `false`: there is no free capacity.
    fn add(&mut self, number: u64) -> bool {
        let behind = number.saturating_sub(self.base);
        match self.entries[..self.used].last_mut() {
            Some((_, bitmap)) if (1..=16).contains(&behind) => *bitmap |= 1 << (behind - 1),
            _ if self.used < ENTRIES_MAX => {
                self.entries[self.used] = (number as u16, 0);
                self.used += 1;
                self.base = number;
            }
            _ => return false,
        }
        self.packets += 1;
        true
    }

    /// How many packets it names.
    #[must_use]
    pub fn packets(&self) -> u64 {
        self.packets
    }
}

impl FciBuilder<'_> for Wanted {
    fn format(&self) -> u8 {
        1
    }

    fn supports_feedback_type(&self) -> FciFeedbackPacketType {
        FciFeedbackPacketType::TRANSPORT
    }
}

// The crate's own builder sorts in a tree that it allocates, by number and not by age.
impl RtcpPacketWriter for Wanted {
    fn calculate_size(&self) -> Result<usize, RtcpWriteError> {
        Ok(self.used * ENTRY_BYTES)
    }

    fn write_into_unchecked(&self, buffer: &mut [u8]) -> usize {
        let entries = self.entries[..self.used].iter();
        for ((number, bitmap), into) in entries.zip(buffer.as_chunks_mut::<ENTRY_BYTES>().0) {
            let ([a, b], [c, d]) = (number.to_be_bytes(), bitmap.to_be_bytes());
            *into = [a, b, c, d];
        }
        self.used * ENTRY_BYTES
    }

    fn get_padding(&self) -> Option<u8> {
        None
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    fn missing(number: u64) -> Missing {
        Missing {
            number,
            since_ns: 0,
            until_ns: 200 * MS,
        }
    }

    fn requests() -> Requests {
        Requests::new(Limits::default(), 256)
    }

    /// How many are asked for at each millisecond.
    fn asked_at(requests: &mut Requests, missing: Missing) -> Vec<u64> {
        let at = (0..300).filter(|ms| {
            let wanted = requests.take_due([missing].into_iter(), ms * MS);
            wanted.packets() == 1
        });
        at.collect()
    }

    #[test]
    fn number_is_asked_for_a_few_times_ever_slower_and_not_too_late() {
        let mut requests = requests();
        assert_eq!(requests.next_ns([missing(5)].into_iter()), Some(2 * MS));
        assert_eq!(asked_at(&mut requests, missing(5)), [2, 42, 101, 160]);
        let long = Missing {
            until_ns: u64::MAX,
            ..missing(6)
        };
        assert_eq!(asked_at(&mut requests, long), [2, 42, 122, 282]);
        assert_eq!(requests.next_ns([long].into_iter()), None);
        let short = Missing {
            until_ns: 2 * MS,
            ..missing(7)
        };
        assert_eq!(asked_at(&mut requests, short), [0; 0]);
    }

    #[test]
    fn parity_gets_half_of_time_before_two_requests() {
        let limits = Limits {
            after_parity: true,
            ..Limits::default()
        };
        let mut requests = Requests::new(limits, 256);
        assert_eq!(asked_at(&mut requests, missing(5)), [100, 140, 180]);
        let short = Missing {
            until_ns: 50 * MS,
            ..missing(6)
        };
        assert_eq!(asked_at(&mut requests, short), [2, 42]);
    }

    #[test]
    fn answers_measure_the_round_trip() {
        let mut requests = requests();
        for number in 10..100 {
            let since_ns = number * 100 * MS;
            let missing = Missing {
                number,
                since_ns,
                until_ns: since_ns + 200 * MS,
            };
            let asked_ns = since_ns + 2 * MS;
            requests.take_due([missing].into_iter(), asked_ns);
            requests.came(number, asked_ns + 20 * MS);
            requests.came(number + 1, asked_ns); // was never asked for
        }
        let round_trip = requests.round_trip_ns().unwrap();
        assert!(round_trip.abs_diff(20 * MS) < 1000, "{round_trip}");
        // The round trip and its margin later, then twice that, then as late as an answer would
        // come in time.
        assert_eq!(asked_at(&mut requests, missing(5)), [2, 27, 77, 175]);
        let short = Missing {
            until_ns: 22 * MS,
            ..missing(6)
        };
        assert_eq!(asked_at(&mut requests, short), [0; 0]);
    }

    #[test]
    fn numbers_are_packed_as_rfc_4585_says() {
        let mut requests = requests();
        let numbers = [0x2_1234, 0x2_1235, 0x2_1244, 0x2_1245, 0x2_ffff, 0x3_0000];
        let wanted = requests.take_due(numbers.into_iter().map(missing), 2 * MS);
        let mut bytes = [0; 12];
        assert_eq!(wanted.calculate_size().unwrap(), 12);
        assert_eq!(wanted.write_into_unchecked(&mut bytes), 12);
        let expected = [0x12, 0x34, 0x80, 1, 0x12, 0x45, 0, 0, 0xff, 0xff, 0, 1];
        assert_eq!(bytes, expected);
        assert_eq!(wanted.packets(), 6);
    }

    #[test]
    fn one_packet_asks_for_so_much_and_the_next_for_the_rest() {
        let mut requests = Requests::new(Limits::default(), 4096);
        let every_17th = || (1..100).map(|index| missing(index * 17));
        let first = requests.take_due(every_17th(), 2 * MS);
        let rest = requests.take_due(every_17th(), 2 * MS);
        assert_eq!((first.packets(), rest.packets()), (64, 35));
        requests.restart();
        assert_eq!(requests.take_due(every_17th(), 2 * MS).packets(), 64);
    }
}

//! One synchronisation source as a receiver sees it: is it real, which packet is which, how much is
//! missing.
//!
//! [`sources`](crate::receive::sources) keeps one [`Source`] for each SSRC that it remembers and
//! shows it every packet. Validation, loss and jitter follow RFC 3550, appendices A.1, A.3 and A.8,
//! with one difference: packets that A.1 drops while a source is on probation or may have restarted
//! are called suspect, and count (and can be played) once the next one confirms them.
//!
//! Pure: it is handed headers and times. Nothing here allocates or believes that numbers only grow.

/// Packets in sequence that make a source real (RFC 3550, A.1).
pub const MIN_SEQUENTIAL: u32 = 2;
/// A jump forward of fewer packets is loss (RFC 3550, A.1).
pub const MAX_DROPOUT: u16 = 3000;
/// A jump back of at most that many packets is reordering (RFC 3550, A.1).
pub const MAX_MISORDER: u16 = 100;

/// Sequence numbers start a cycle above zero, so that packets from before the first one have
/// numbers, too.
const FIRST_CYCLE: u64 = 1 << 16;

/// What a packet is to its source.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Verdict {
    /// One of the stream; its extended sequence number.
    Valid(u64),
    /// It may begin the stream, or begin it anew: the next packet will tell. A suspect from before
    /// is none of the stream.
    Suspect,
    /// This packet, of that number, and the suspect directly in front of it begin the stream
    /// (anew): numbers and times from before mean nothing any more.
    Begins(u64),
}

/// What a report block says of a source (RFC 3550, 6.4.1).
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Reception {
    /// Packets lost since the last report, in 1/256 of those expected.
    pub fraction_lost: u8,
    /// Packets lost since the beginning, as 24 bits in two's complement.
    pub cumulative_lost: u32,
    /// Highest sequence number received, and cycles.
    pub highest_sequence: u32,
    /// Interarrival jitter, in ticks.
    pub jitter: u32,
}

/// State of one source.
#[derive(Clone, Copy, Debug)]
pub struct Source {
    ssrc: u32,
    clock_hz: u32,
    /// Extended, of the highest packet.
    highest: u64,
    /// Extended, of the first packet.
    base: u64,
    /// What would confirm that the sender restarted.
    expected_restart: Option<u16>,
    /// Packets in sequence that are still wanted; 0: the source is real.
    probation: u32,
    received: u64,
    expected_prior: u64,
    received_prior: u64,
    /// Difference of arrival and timestamp of the last packet, in ticks modulo 2^32.
    transit: Option<u32>,
    /// Times 16 (A.8).
    jitter: u64,
}

impl Source {
    /// A source whose first packet has `sequence`, which has not been shown to [`Self::packet`]
    /// yet. `clock_hz`: ticks per second. `is_known`: it was announced, in SDP or RTSP, so the
    /// first packet is believed.
    #[must_use]
    pub fn new(ssrc: u32, sequence: u16, clock_hz: u32, is_known: bool) -> Self {
        let mut source = Self {
            ssrc,
            clock_hz,
            highest: 0,
            base: 0,
            expected_restart: None,
            probation: if is_known { 0 } else { MIN_SEQUENTIAL },
            received: 0,
            expected_prior: 0,
            received_prior: 0,
            transit: None,
            jitter: 0,
        };
        source.begin(sequence);
        source.highest -= 1;
        source
    }

    /// Whose state this is.
    #[must_use]
    pub fn ssrc(&self) -> u32 {
        self.ssrc
    }

    /// Did it pass its probation?
    #[must_use]
    pub fn is_real(&self) -> bool {
        self.probation == 0
    }

    /// Ticks per second of its timestamps.
    #[must_use]
    pub fn clock_hz(&self) -> u32 {
        self.clock_hz
    }

    /// Takes the sequence number of a packet (RFC 3550, A.1, `update_seq`).
    pub fn packet(&mut self, sequence: u16) -> Verdict {
        let ahead = sequence.wrapping_sub(self.highest as u16);
        if self.probation > 0 {
            return self.on_probation(sequence, ahead);
        }
        if ahead < MAX_DROPOUT {
            self.highest += u64::from(ahead);
            self.received += 1;
            return Verdict::Valid(self.highest);
        }
        let behind = ahead.wrapping_neg();
        if behind <= MAX_MISORDER {
            self.received += 1;
            let number = self.highest - u64::from(behind);
            // One that the first packet overtook.
            self.base = self.base.min(number);
            return Verdict::Valid(number);
        }
        if self.expected_restart == Some(sequence) {
            return self.confirm(sequence);
        }
        self.expected_restart = Some(sequence.wrapping_add(1));
        Verdict::Suspect
    }

    /// A packet came that was waited for, however far behind.
    pub fn awaited(&mut self) {
        self.received += 1;
    }

    /// A packet of this number, suspect when it came, belongs to the stream that has just begun.
    pub fn began_with(&mut self, number: u64) {
        self.base = self.base.min(number);
        self.highest = self.highest.max(number);
        self.received += 1;
    }

    fn on_probation(&mut self, sequence: u16, ahead: u16) -> Verdict {
        if ahead == 1 {
            self.probation -= 1;
            self.highest += 1;
            if self.probation == 0 {
                return self.confirm(sequence);
            }
        } else {
            self.probation = MIN_SEQUENTIAL - 1;
            self.begin(sequence);
        }
        Verdict::Suspect
    }

    /// The stream begins with the packet in front of `sequence`.
    fn confirm(&mut self, sequence: u16) -> Verdict {
        self.begin(sequence.wrapping_sub(1));
        self.highest += 1;
        self.received = 2;
        Verdict::Begins(self.highest)
    }

    fn begin(&mut self, sequence: u16) {
        self.base = FIRST_CYCLE + u64::from(sequence);
        self.highest = self.base;
        self.expected_restart = None;
        self.received = 0;
        self.expected_prior = 0;
        self.received_prior = 0;
        self.transit = None;
    }

    /// Takes the times of a packet into the jitter (RFC 3550, A.8). `arrived_ns` counts from any
    /// fixed point.
    pub fn arrival(&mut self, timestamp: u32, arrived_ns: u64) {
        let transit = ticks(arrived_ns, self.clock_hz).wrapping_sub(timestamp);
        if let Some(last) = self.transit.replace(transit) {
            let difference = (transit.wrapping_sub(last) as i32).unsigned_abs();
            self.jitter = self.jitter + u64::from(difference) - ((self.jitter + 8) >> 4);
        }
    }

    /// Interarrival jitter in ticks.
    #[must_use]
    pub fn jitter(&self) -> u32 {
        u32::try_from(self.jitter >> 4).unwrap_or(u32::MAX)
    }

    /// What the next report says, and the beginning of the interval of the one after (RFC 3550,
    /// A.3).
    pub fn report(&mut self) -> Reception {
        let expected = self.highest + 1 - self.base;
        // Duplicates count as received, so that less than nothing may be lost.
        let lost = expected as i64 - self.received as i64;
        let expected_interval = expected - self.expected_prior;
        let received_interval = self.received - self.received_prior;
        self.expected_prior = expected;
        self.received_prior = self.received;
        let lost_interval = expected_interval.saturating_sub(received_interval);
        let fraction = (lost_interval << 8)
            .checked_div(expected_interval)
            .unwrap_or(0);
        Reception {
            fraction_lost: u8::try_from(fraction).unwrap_or(u8::MAX),
            cumulative_lost: lost.clamp(-0x80_0000, 0x7f_ffff) as u32 & 0xff_ffff,
            highest_sequence: (self.highest - FIRST_CYCLE) as u32,
            jitter: self.jitter(),
        }
    }
}

/// Nanoseconds as ticks of a clock, modulo 2^32.
pub fn ticks(ns: u64, clock_hz: u32) -> u32 {
    let hz = u64::from(clock_hz);
    let whole = (ns / 1_000_000_000).wrapping_mul(hz);
    whole.wrapping_add(ns % 1_000_000_000 * hz / 1_000_000_000) as u32
}

#[cfg(test)]
mod tests {
    use super::*;

    const HZ: u32 = 8000;

    /// A source that is real, with packet `first` as its first.
    fn real(first: u16) -> Source {
        let mut source = Source::new(7, first, HZ, true);
        let number = FIRST_CYCLE + u64::from(first);
        assert_eq!(source.packet(first), Verdict::Valid(number));
        source
    }

    #[test]
    fn two_in_sequence_make_a_source_real_and_count_both() {
        let mut source = Source::new(7, 65_535, HZ, false);
        assert_eq!(source.packet(65_535), Verdict::Suspect);
        assert!(!source.is_real());
        assert_eq!(source.packet(0), Verdict::Begins(FIRST_CYCLE + 65_536));
        assert!(source.is_real());
        let report = source.report();
        assert_eq!(report.highest_sequence, 65_536);
        assert_eq!((report.cumulative_lost, report.fraction_lost), (0, 0));
    }

    #[test]
    fn packets_out_of_sequence_make_no_source_real() {
        let mut source = Source::new(7, 10, HZ, false);
        for sequence in [10, 12, 14, 13, 11, 11, 40_000] {
            assert_eq!(source.packet(sequence), Verdict::Suspect, "{sequence}");
        }
        assert_eq!(source.packet(40_001), Verdict::Begins(FIRST_CYCLE + 40_001));
    }

    #[test]
    fn cycles_are_counted_and_packets_of_the_cycle_before_are_known() {
        let mut source = real(65_530);
        for ahead in 1..200_000_u64 {
            let number = FIRST_CYCLE + 65_530 + ahead;
            assert_eq!(source.packet(number as u16), Verdict::Valid(number));
            if ahead.is_multiple_of(7) && ahead > 50 {
                let late = number - 50;
                assert_eq!(source.packet(late as u16), Verdict::Valid(late));
            }
        }
        // From before the first one.
        let mut source = real(3);
        assert_eq!(source.packet(65_530), Verdict::Valid(65_530));
        assert_eq!(source.report().highest_sequence, 3);
    }

    #[test]
    fn limits_of_a_jump_are_those_of_the_rfc() {
        // 0 + 2999 is a gap, 0 + 3000 is none; 100 back is late, 101 back is not.
        for (sequence, is_valid) in [(2999, true), (3000, false), (65_436, true), (65_435, false)] {
            let verdict = real(0).packet(sequence);
            assert_eq!(matches!(verdict, Verdict::Valid(_)), is_valid, "{sequence}");
        }
    }

    #[test]
    fn source_restarts_on_two_packets_in_sequence() {
        let mut source = real(100);
        assert_eq!(source.packet(30_000), Verdict::Suspect);
        assert_eq!(source.packet(101), Verdict::Valid(FIRST_CYCLE + 101));
        assert_eq!(source.packet(40_000), Verdict::Suspect);
        assert_eq!(source.packet(40_002), Verdict::Suspect);
        assert_eq!(source.packet(40_003), Verdict::Begins(FIRST_CYCLE + 40_003));
        let report = source.report();
        assert_eq!(
            (report.cumulative_lost, report.highest_sequence),
            (0, 40_003)
        );
    }

    #[test]
    fn loss_is_reported_as_in_appendix_a_3() {
        let mut source = real(0);
        for sequence in 1..100 {
            source.packet(sequence);
        }
        assert_eq!(source.report().fraction_lost, 0);
        // Of the next hundred every fourth is lost: 25 of 100 are 64/256.
        for sequence in (100..200).filter(|sequence| sequence % 4 != 1) {
            source.packet(sequence);
        }
        let report = source.report();
        assert_eq!((report.fraction_lost, report.cumulative_lost), (64, 25));
        // Nothing expected, nothing lost.
        assert_eq!(source.report().fraction_lost, 0);
        // Duplicates make up for losses, and more.
        for _ in 0..30 {
            source.packet(199);
        }
        let report = source.report();
        assert_eq!(
            (report.fraction_lost, report.cumulative_lost),
            (0, 0xff_fffb)
        );
        // All but one of an interval of 2999: the fraction stays within its byte.
        source.packet(199 + 2999);
        assert_eq!(source.report().fraction_lost, 255);
    }

    #[test]
    fn cumulative_loss_stays_within_24_bits() {
        let mut source = real(0);
        let mut sequence = 0_u16;
        for _ in 0..4000 {
            sequence = sequence.wrapping_add(2999);
            assert!(matches!(source.packet(sequence), Verdict::Valid(_)));
        }
        assert_eq!(source.report().cumulative_lost, 0x7f_ffff);
    }

    #[test]
    fn jitter_follows_appendix_a_8() {
        let mut source = real(0);
        // 20 ms apart by the sender's clock, and arriving so: no jitter.
        for index in 0..50_u32 {
            source.arrival(
                index.wrapping_mul(160).wrapping_sub(1000),
                u64::from(index) * 20_000_000,
            );
        }
        assert_eq!(source.jitter(), 0);
        // One is 10 ms (80 ticks) late: J += (80 - J)/16, and again for the one after it, which is
        // in time.
        source.arrival(50 * 160 - 1000, 1_010_000_000);
        assert_eq!(source.jitter, 80);
        source.arrival(51 * 160 - 1000, 1_020_000_000);
        assert_eq!(source.jitter, 80 + 80 - ((80 + 8) >> 4));
        assert_eq!(source.jitter(), 155 >> 4);
        // Always 80 apart, it comes near to 80.
        for index in 52..400_u64 {
            let late = index % 2 * 10_000_000;
            source.arrival(index as u32 * 160 - 1000, index * 20_000_000 + late);
        }
        assert!((78..=80).contains(&source.jitter()), "{}", source.jitter());
    }

    #[test]
    fn jitter_of_lies_overflows_nothing() {
        let mut source = real(0);
        for index in 0..100_000_u64 {
            source.arrival((index as u32 % 2) << 31, index << 50);
        }
        assert!(source.jitter() <= 1 << 31);
    }

    #[test]
    fn ticks_are_exact_and_wrap() {
        assert_eq!(ticks(1_500_000_000, 8000), 12_000);
        assert_eq!(ticks(1_999_999_999, 1), 1);
        let exact = u128::from(u64::MAX) * 90_000 / 1_000_000_000;
        assert_eq!(ticks(u64::MAX, 90_000), exact as u32);
        assert_eq!(ticks(u64::MAX, 0), 0);
        ticks(u64::MAX, u32::MAX);
    }
}

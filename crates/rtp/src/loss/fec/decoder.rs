//! Repairs lost packets from parity, whatever its format.
//!
//! The receiver hands over each media packet and each parity packet in the order in which they
//! arrive. Media packets of the last few matrices are kept as copies: in-order packets leave the
//! receiver's reordering buffer long before the columns come that need them. A parity packet of
//! which nothing is missing is dropped at once; so is one that has served. With one packet missing,
//! that one is computed, and then counts as received: rows and columns help each other until
//! nothing more is found. Parity with more missing waits, in a bounded table, until its packets
//! have left the window.
//!
//! Numbers are extended to 64 bits (as in RFC 3550, appendix A.1), so a number that comes again
//! after 65,536 packets is another packet. A stream that goes on far behind is taken as restarted
//! after [`STALE_MAX`] packets.
//!
//! Memory is set at the start. Work for one packet is bounded by the table: each repair uses up an
//! entry. Never emits a packet longer than the limit, one that no RTP parser takes, or one that had
//! arrived.

use rtp_types::RtpPacket;

use super::PACKETS_MAX;
use super::parity::{Parity, Recovery, xor_into};
use crate::loss::{EmitRepaired, RTP_HEADER_BYTES, Repaired, ahead, be16, be32};

/// Packets in a row that are too old for the window before the stream counts as restarted.
pub const STALE_MAX: u32 = 32;
/// Where extended numbers begin, so that there are numbers in front of the first packet.
const EXTENDED_START: u64 = 1 << 32;
/// The number of no packet.
const NONE: u64 = 0;

/// How much a decoder may keep.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct DecoderLimits {
    /// Media packets; the next power of two, 256 to 16,384.
    pub window_packets: usize,
    /// Parity packets that wait; 1 to 1024.
    pub parities: usize,
    /// Bytes of a media packet, header included; longer ones are not taken and not made. At least
    /// 64.
    pub packet_bytes_max: u16,
}

impl Default for DecoderLimits {
    /// Enough for the largest matrix (its columns arrive while the next goes by, and that again for
    /// delay): under a megabyte.
    fn default() -> Self {
        Self {
            window_packets: 4 * usize::from(PACKETS_MAX),
            parities: 128,
            packet_bytes_max: 1500,
        }
    }
}

/// What went through a decoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct FecCounts {
    /// Media packets taken.
    pub media: u64,
    /// Parity packets taken.
    pub parities: u64,
    /// Packets repaired.
    pub repaired: u64,
    /// Media packets not taken: no RTP, or too long.
    pub bad_media: u64,
    /// Media packets of another source.
    pub foreign: u64,
    /// Media packets that were there already; a repaired one that arrives late is such.
    pub duplicates: u64,
    /// Media packets too old for the window.
    pub stale: u64,
    /// How often the stream was taken as restarted.
    pub restarts: u64,
    /// Parity packets that could not be placed in the window: too old, too far ahead, or longer
    /// than a packet.
    pub unplaced: u64,
    /// Parity packets that left with two or more packets missing.
    pub unsolved: u64,
    /// Parity packets whose result was no packet: they did not belong to what was received.
    pub inconsistent: u64,
}

#[derive(Clone, Copy, Debug)]
struct Slot {
    extended: u64,
    bytes: u16,
}

#[derive(Clone, Copy, Debug)]
struct Waiting {
    base: u64,
    offsets: u128,
    recovery: Recovery,
    bytes: u16,
    is_used: bool,
}

const EMPTY: Slot = Slot {
    extended: NONE,
    bytes: 0,
};
const UNUSED: Waiting = Waiting {
    base: NONE,
    offsets: 0,
    recovery: Recovery(0),
    bytes: 0,
    is_used: false,
};

/// What is missing of a parity packet's packets.
enum Missing {
    Nothing,
    One(u64),
    More,
    /// Some have left the window.
    Past,
}

/// Repairs one stream.
#[derive(Debug)]
pub struct Decoder {
    packet_bytes_max: usize,
    window: Box<[Slot]>,
    media: Box<[u8]>,
    waiting: Box<[Waiting]>,
    /// How many of `waiting` are used: with none, a media packet costs its copy.
    used: usize,
    parity: Box<[u8]>,
    scratch: Box<[u8]>,
    /// Packets that arrived or were repaired, whose effect on `waiting` is still to be seen.
    settled: Vec<u64>,
    ssrc: u32,
    /// Highest number so far; [`NONE`] before the first packet.
    highest: u64,
    stale_run: u32,
    counts: FecCounts,
}

impl Decoder {
    /// A decoder at the start of a stream.
    #[must_use]
    pub fn new(limits: DecoderLimits) -> Self {
        let window = limits
            .window_packets
            .clamp(256, 1 << 14)
            .next_power_of_two();
        let parities = limits.parities.clamp(1, 1024);
        let packet_bytes_max = usize::from(limits.packet_bytes_max.max(64));
        Self {
            packet_bytes_max,
            window: vec![EMPTY; window].into_boxed_slice(),
            media: vec![0; window * packet_bytes_max].into_boxed_slice(),
            waiting: vec![UNUSED; parities].into_boxed_slice(),
            used: 0,
            parity: vec![0; parities * packet_bytes_max].into_boxed_slice(),
            scratch: vec![0; packet_bytes_max].into_boxed_slice(),
            settled: Vec::with_capacity(parities + 1),
            ssrc: 0,
            highest: NONE,
            stale_run: 0,
            counts: FecCounts::default(),
        }
    }

    /// What went through.
    #[must_use]
    pub fn counts(&self) -> FecCounts {
        self.counts
    }

    /// Forgets the stream: another source follows. Counts go on.
    pub fn reset(&mut self) {
        self.window.fill(EMPTY);
        self.waiting.fill(UNUSED);
        self.used = 0;
        self.highest = NONE;
        self.stale_run = 0;
    }

    /// Takes a media packet as it arrived, or as a retransmission restored it. The first decides on
    /// the source.
    pub fn take_media(&mut self, packet: &[u8], emit: &mut EmitRepaired<'_>) {
        let is_rtp = packet.len() >= RTP_HEADER_BYTES && packet[0] >> 6 == 2;
        if !is_rtp || packet.len() > self.packet_bytes_max {
            self.counts.bad_media += 1;
            return;
        }
        let (sequence, ssrc) = (be16(packet, 2), be32(packet, 8));
        if self.highest == NONE {
            self.ssrc = ssrc;
        } else if self.ssrc != ssrc {
            self.counts.foreign += 1;
            return;
        }
        let Some(extended) = self.admit(sequence) else {
            return;
        };
        self.counts.media += 1;
        self.store(extended, packet);
        self.settle(extended, emit);
    }

    /// Takes a parity packet, as [`smpte2022::parse`](super::smpte2022::parse) or
    /// [`ulpfec::parse`](super::ulpfec::parse) read it.
    pub fn take_parity(&mut self, parity: &Parity<'_>, emit: &mut EmitRepaired<'_>) {
        let Some(waiting) = self.place(parity) else {
            self.counts.unplaced += 1;
            return;
        };
        self.counts.parities += 1;
        let is_known = |other: &Waiting| {
            other.is_used && other.base == waiting.base && other.offsets == waiting.offsets
        };
        match self.missing(&waiting) {
            Missing::Nothing | Missing::Past => {}
            Missing::More if self.waiting.iter().any(is_known) => {}
            Missing::One(_) | Missing::More => {
                let index = self.free_entry();
                self.waiting[index] = waiting;
                self.used += 1;
                let at = index * self.packet_bytes_max;
                self.parity[at..at + parity.payload.len()].copy_from_slice(parity.payload);
                if let Some(extended) = self.solve(index, emit) {
                    self.settle(extended, emit);
                }
            }
        }
    }

    /// The extended number of a packet that is to be stored.
    fn admit(&mut self, sequence: u16) -> Option<u64> {
        if self.highest == NONE {
            self.highest = EXTENDED_START | u64::from(sequence);
            return Some(self.highest);
        }
        let extended = self.extend(sequence);
        if extended < self.start() {
            self.counts.stale += 1;
            self.stale_run += 1;
            if self.stale_run > STALE_MAX {
                self.reset();
                self.counts.restarts += 1;
            }
            return None;
        }
        self.stale_run = 0;
        if self.is_present(extended) {
            self.counts.duplicates += 1;
            return None;
        }
        Some(extended)
    }

    /// Where a parity packet belongs; `None`: nowhere.
    fn place(&self, parity: &Parity<'_>) -> Option<Waiting> {
        let base = self.extend(parity.members.base);
        let last = base + u64::from(parity.members.offsets.checked_ilog2()?);
        let body_bytes_max = self.packet_bytes_max - RTP_HEADER_BYTES;
        let is_placed = self.highest != NONE
            && base >= self.start()
            // Its last packets may be lost, and nothing have come since: but not more than half a
            // window.
            && last <= self.highest + self.window.len() as u64 / 2
            && parity.payload.len() <= body_bytes_max;
        is_placed.then_some(Waiting {
            base,
            offsets: parity.members.offsets,
            recovery: parity.recovery,
            bytes: parity.payload.len() as u16,
            is_used: true,
        })
    }

    /// Sees what a packet that is there now does to the parity that waits, and what that repairs in
    /// turn.
    fn settle(&mut self, extended: u64, emit: &mut EmitRepaired<'_>) {
        if self.used == 0 {
            return;
        }
        self.settled.push(extended);
        while let Some(extended) = self.settled.pop() {
            for index in 0..self.waiting.len() {
                let waiting = &self.waiting[index];
                let is_past = waiting.is_used && waiting.base < self.start();
                // Only what covers the packet can have changed.
                if !is_past && !waiting.covers(extended) {
                    continue;
                }
                // Not more often than there are entries: each repair frees one.
                if let Some(repaired) = self.solve(index, emit) {
                    self.settled.push(repaired);
                }
            }
        }
    }

    /// Repairs what an entry can, and frees it when it is of no more use.
    fn solve(&mut self, index: usize, emit: &mut EmitRepaired<'_>) -> Option<u64> {
        let waiting = self.waiting[index];
        let target = match self.missing(&waiting) {
            Missing::More => return None,
            Missing::Nothing => None,
            Missing::Past => {
                self.counts.unsolved += 1;
                None
            }
            Missing::One(target) => Some(target),
        };
        self.waiting[index] = UNUSED;
        self.used -= 1;
        let target = target?;
        let Some(bytes) = self.compute(index, &waiting, target) else {
            self.counts.inconsistent += 1;
            return None;
        };
        self.counts.repaired += 1;
        self.store_scratch(target, bytes);
        emit(Repaired {
            sequence: target as u16,
            bytes: &self.scratch[..bytes],
        });
        Some(target)
    }

    fn missing(&self, waiting: &Waiting) -> Missing {
        if waiting.base < self.start() {
            return Missing::Past;
        }
        let mut missing = Missing::Nothing;
        for extended in waiting.members() {
            missing = match missing {
                _ if self.is_present(extended) => missing,
                Missing::Nothing => Missing::One(extended),
                _ => return Missing::More,
            };
        }
        missing
    }

    /// The packet `target` into the scratch; its length, or `None` where the result is no packet.
    fn compute(&mut self, index: usize, waiting: &Waiting, target: u64) -> Option<usize> {
        let (header, body) = self.scratch.split_first_chunk_mut::<RTP_HEADER_BYTES>()?;
        let at = index * self.packet_bytes_max;
        let body = &mut body[..waiting.bytes.into()];
        body.copy_from_slice(&self.parity[at..at + body.len()]);
        let mut recovery = waiting.recovery;
        for extended in waiting.members().filter(|member| *member != target) {
            let slot = extended as usize & (self.window.len() - 1);
            let at = slot * self.packet_bytes_max;
            let bytes = usize::from(self.window[slot].bytes);
            let (header, other) = self.media[at..at + bytes].split_first_chunk()?;
            recovery.add(Recovery::of(header, other.len() as u16));
            xor_into(body, other);
        }
        let [flags, kind, t0, t1, t2, t3, ..] = recovery.fields();
        let [s0, s1] = (target as u16).to_be_bytes();
        let [i0, i1, i2, i3] = self.ssrc.to_be_bytes();
        *header = [0x80 | flags, kind, s0, s1, t0, t1, t2, t3, i0, i1, i2, i3];
        // Longer than the parity: only its beginning is protected. Bytes behind its end: not the
        // sum of these packets.
        let (_, behind) = body.split_at_checked(recovery.length().into())?;
        let bytes = RTP_HEADER_BYTES + usize::from(recovery.length());
        let is_packet = behind.iter().all(|byte| *byte == 0)
            && RtpPacket::parse(&self.scratch[..bytes]).is_ok();
        is_packet.then_some(bytes)
    }

    fn store(&mut self, extended: u64, packet: &[u8]) {
        self.note(extended, packet.len()).copy_from_slice(packet);
    }

    fn store_scratch(&mut self, extended: u64, bytes: usize) {
        let scratch = std::mem::take(&mut self.scratch);
        self.store(extended, &scratch[..bytes]);
        self.scratch = scratch;
    }

    /// Makes a packet present; where its bytes go.
    fn note(&mut self, extended: u64, bytes: usize) -> &mut [u8] {
        self.highest = self.highest.max(extended);
        let index = extended as usize & (self.window.len() - 1);
        self.window[index] = Slot {
            extended,
            // At most `packet_bytes_max`, which has 16 bits.
            bytes: bytes as u16,
        };
        &mut self.media[index * self.packet_bytes_max..][..bytes]
    }

    fn is_present(&self, extended: u64) -> bool {
        self.window[extended as usize & (self.window.len() - 1)].extended == extended
    }

    /// The first number of the window.
    fn start(&self) -> u64 {
        (self.highest + 1).saturating_sub(self.window.len() as u64)
    }

    /// The number nearest to the highest that ends like this.
    fn extend(&self, sequence: u16) -> u64 {
        let highest = self.highest.max(EXTENDED_START);
        highest.saturating_add_signed(ahead(sequence, highest as u16).into())
    }

    /// A free entry; the oldest parity leaves for it where there is none.
    fn free_entry(&mut self) -> usize {
        let by_age = |(_, waiting): &(usize, &Waiting)| (waiting.is_used, waiting.base);
        let entry = self.waiting.iter().enumerate().min_by_key(by_age);
        let index = entry.map_or(0, |(index, _)| index);
        if self.waiting[index].is_used {
            self.counts.unsolved += 1;
            self.used -= 1;
        }
        index
    }
}

impl Waiting {
    fn covers(&self, extended: u64) -> bool {
        let offset = extended.wrapping_sub(self.base);
        self.is_used && offset < 128 && self.offsets >> offset & 1 == 1
    }

    fn members(&self) -> impl Iterator<Item = u64> + use<> {
        let (base, mut left) = (self.base, self.offsets);
        std::iter::from_fn(move || {
            let offset = left.trailing_zeros();
            // Clears the lowest bit; 0 has none.
            left &= left.checked_sub(1)?;
            Some(base + u64::from(offset))
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::loss::fec::parity::Members;

    const LIMITS: DecoderLimits = DecoderLimits {
        window_packets: 256,
        parities: 4,
        packet_bytes_max: 64,
    };

    fn packet(sequence: u16) -> [u8; 16] {
        let [s0, s1] = sequence.to_be_bytes();
        [0x80, 33, s0, s1, 0, 0, s0, s1, 1, 2, 3, 4, s1, 5, 6, 7]
    }

    /// The parity of `count` packets from `base` on, `step` apart.
    fn parity(base: u16, step: u16, count: u16) -> (Members, Recovery, [u8; 4]) {
        let (mut recovery, mut payload) = (Recovery::default(), [0; 4]);
        for index in 0..count {
            let packet = packet(base.wrapping_add(index * step));
            let (header, body) = packet.split_first_chunk().unwrap();
            recovery.add(Recovery::of(header, 4));
            xor_into(&mut payload, body);
        }
        let members = Members::stride(base, step.into(), count.into());
        (members, recovery, payload)
    }

    struct Harness {
        decoder: Decoder,
        repaired: Vec<u16>,
    }

    impl Harness {
        fn new() -> Self {
            Self {
                decoder: Decoder::new(LIMITS),
                repaired: Vec::new(),
            }
        }

        fn media(&mut self, sequences: impl IntoIterator<Item = u16>) {
            for sequence in sequences {
                let repaired = &mut self.repaired;
                self.decoder
                    .take_media(&packet(sequence), &mut |r| repaired.push(r.sequence));
            }
        }

        fn parity(&mut self, (members, recovery, payload): (Members, Recovery, [u8; 4])) {
            let parity = Parity {
                members,
                recovery,
                payload: &payload,
            };
            let repaired = &mut self.repaired;
            self.decoder.take_parity(&parity, &mut |packet| {
                assert_eq!(packet.bytes, self::packet(packet.sequence));
                repaired.push(packet.sequence);
            });
        }
    }

    #[test]
    fn parity_before_its_packets_waits_for_them() {
        let mut harness = Harness::new();
        harness.media([9]);
        harness.parity(parity(10, 1, 4));
        harness.media([10, 13]);
        assert!(harness.repaired.is_empty());
        harness.media([11]);
        assert_eq!(harness.repaired, [12]);
        // The repaired one arrives after all.
        harness.media([12]);
        let counts = harness.decoder.counts();
        assert_eq!((counts.repaired, counts.duplicates), (1, 1));
        assert_eq!(harness.decoder.used, 0);
    }

    #[test]
    fn number_that_comes_again_after_a_round_is_another_packet() {
        let mut harness = Harness::new();
        for sequence in (0..=u16::MAX).chain(0..5) {
            harness.media([sequence]);
        }
        // 5 and 6 are there from the round before.
        harness.media([7]);
        harness.parity(parity(4, 1, 4));
        assert!(harness.repaired.is_empty());
        harness.media([6]);
        assert_eq!(harness.repaired, [5]);
    }

    #[test]
    fn decoder_repairs_only_lost_packets_in_window() {
        let mut harness = Harness::new();
        harness.media((0..300).filter(|sequence| *sequence != 50));
        // 40 was received and is out of the window; without it, all that is missing in the column
        // seems to be 40.
        harness.parity(parity(40, 10, 5));
        assert_eq!(harness.decoder.counts().unplaced, 1);
        // Waiting parity leaves with its packets.
        harness.media([302]);
        harness.parity(parity(300, 1, 4));
        assert_eq!(harness.decoder.used, 1);
        harness.media(700..702);
        assert_eq!(harness.decoder.used, 0);
        assert_eq!(harness.decoder.counts().unsolved, 1);
        assert!(harness.repaired.is_empty());
    }

    #[test]
    fn full_table_drops_the_oldest_and_knows_repeats() {
        let mut harness = Harness::new();
        harness.media([0]);
        for base in [10, 10, 10, 20, 30, 40, 50] {
            harness.parity(parity(base, 1, 4));
        }
        assert_eq!(harness.decoder.used, 4);
        assert_eq!(harness.decoder.counts().unsolved, 1);
        harness.media([10, 11, 12, 20, 21, 22]);
        assert_eq!(harness.repaired, [23], "10 to 13 left");
    }

    #[test]
    fn restarted_stream_is_followed_and_another_source_is_not() {
        let mut harness = Harness::new();
        harness.media(40_000..40_010);
        harness.media(20_000..20_040);
        let counts = harness.decoder.counts();
        assert_eq!((counts.stale, counts.restarts), (33, 1));
        harness.media([20_041, 20_042]);
        harness.parity(parity(20_039, 1, 4));
        assert_eq!(harness.repaired, [20_040]);
        let mut other = packet(20_043);
        other[8] ^= 1;
        harness.decoder.take_media(&other, &mut |_| {});
        assert_eq!(harness.decoder.counts().foreign, 1);
        harness.decoder.reset();
        harness.decoder.take_media(&other, &mut |_| {});
        assert_eq!(harness.decoder.counts().foreign, 1);
    }

    #[test]
    fn foreign_parity_makes_no_packet() {
        let mut harness = Harness::new();
        harness.media([10, 11, 13]);
        let (members, recovery, payload) = parity(10, 1, 4);
        let mut shorter = Recovery::from_fields([0, 0, 0, 0, 0, 0, 0, 5]);
        shorter.add(recovery);
        // A length of one byte, with bytes behind it; of more than there is; a padding bit without
        // padding; far ahead; too long.
        harness.parity((members, shorter, payload));
        let longer = Recovery::from_fields([0, 0, 0, 0, 0, 0, 0, 0x10]);
        harness.parity((members, Recovery(recovery.0 ^ longer.0), payload));
        let padded = Recovery::from_fields([0x20, 0, 0, 0, 0, 0, 0, 0]);
        harness.parity((members, Recovery(recovery.0 ^ padded.0), payload));
        assert_eq!(harness.decoder.counts().inconsistent, 3);
        harness.parity(parity(500, 1, 4));
        let long = Parity {
            members,
            recovery,
            payload: &[0; 53],
        };
        harness
            .decoder
            .take_parity(&long, &mut |_| panic!("too long"));
        assert_eq!(harness.decoder.counts().unplaced, 2);
        harness.decoder.take_media(&[0x80; 65], &mut |_| {});
        harness.decoder.take_media(&[0x80; 11], &mut |_| {});
        harness.decoder.take_media(&[0x40; 20], &mut |_| {});
        assert_eq!(harness.decoder.counts().bad_media, 3);
        // What does belong still repairs.
        assert!(harness.repaired.is_empty());
        harness.parity((members, recovery, payload));
        assert_eq!(harness.repaired, [12]);
    }

    #[test]
    fn parity_before_any_packet_has_no_place() {
        let mut harness = Harness::new();
        harness.parity(parity(10, 1, 4));
        assert_eq!(harness.decoder.counts().unplaced, 1);
    }
}

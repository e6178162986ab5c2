//! MPEG-2 transport streams: packets of 188 bytes, timed by the clock references (PCR) in them
//! (ISO/IEC 13818-1, 2.4.2).
//!
//! A unit is seven packets, the most that fit the customary payload of 1316 bytes. Between two
//! clock references time runs evenly over the bytes, so packets are read ahead up to the next one,
//! 8,192 at most. Where a reference jumps or the next one is too far, time goes on at the rate it
//! had. Packets of 192 bytes (M2TS, four bytes of its own time in front) lose those four, and
//! packets of 204 bytes (DVB, with sixteen bytes of parity behind) lose those sixteen.
//!
//! A recording or a pipe may begin within a packet: what is in front of the first whole packet is
//! passed over and counted by itself; what is damaged later is passed over and counted, too.

use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::payload::mpeg_ts::{TS_BYTES, TS_SYNC};
use hythe_rtp::unit::Unit;

use super::ts_clock::{Clock, Reference};
use super::{Input, Source, pieces::Pieces};
use crate::MediaError;

/// Packets of a unit: what fits 1316 bytes.
pub const UNIT_PACKETS: usize = 7;
/// How far a clock reference may be: 1.5 MB, a tenth of a second (the longest the standard allows)
/// at 120 Mbit/s.
pub(super) const AHEAD_PACKETS: usize = 8192;
/// So many sync bytes in a row are no accident where a packet is expected.
const SYNC_PACKETS: usize = 4;
/// Where none is expected, all of so many packets that are there have one, and so many are there.
const SYNC_PACKETS_WITHIN: usize = 8;
const SYNC_PACKETS_WITHIN_MIN: usize = 3;
/// How far from the beginning of an input the first packet may be.
const SEARCH_BYTES: usize = 4096;
/// Of RTP.
const CLOCK_HZ: u32 = 90_000;
/// The payload type of RFC 3551, table 5.
const PAYLOAD_TYPE: u8 = 33;

/// What every transport stream is in RTP.
pub(super) fn stream_format() -> StreamFormat {
    StreamFormat {
        encoding: Encoding::MpegTs,
        payload_type: PAYLOAD_TYPE,
        clock_hz: CLOCK_HZ,
        channels: 1,
        parameters: String::new(),
    }
}

/// How packets lie in an input.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Framing {
    /// Bytes from one packet to the next.
    pub(super) stride: usize,
    /// Bytes in front of each packet that are none of its own.
    front: usize,
}

/// Packets as they are, of M2TS, and of DVB with parity (ETSI EN 300 429).
const FRAMINGS: [Framing; 3] = [
    Framing {
        stride: TS_BYTES,
        front: 0,
    },
    Framing {
        stride: TS_BYTES + 4,
        front: 4,
    },
    Framing {
        stride: STRIDE_MAX,
        front: 0,
    },
];
const STRIDE_MAX: usize = TS_BYTES + 16;

/// Where in `window` packets begin, and how they lie there. At the end of a stream fewer packets
/// than usual are enough.
pub(super) fn find_packets(window: &[u8], is_last: bool) -> Option<(usize, Framing)> {
    let here = FRAMINGS
        .into_iter()
        .find(|framing| is_in_sync(window, *framing, is_last));
    let within = || {
        let offsets = (1..window.len()).flat_map(|at| FRAMINGS.map(|framing| (at, framing)));
        let mut offsets = offsets.filter(|(at, framing)| is_continued(&window[*at..], *framing));
        offsets.next()
    };
    here.map(|framing| (0, framing)).or_else(within)
}

/// How much of a window has to be seen for packets that begin there.
const SYNC_BYTES: usize = SYNC_PACKETS * STRIDE_MAX;

fn is_in_sync(window: &[u8], framing: Framing, is_last: bool) -> bool {
    let packets = (window.len() / framing.stride).min(SYNC_PACKETS);
    let enough = if is_last { 1 } else { SYNC_PACKETS };
    packets >= enough && have_sync(window, framing, packets)
}

/// Do packets begin here, though none is expected?
fn is_continued(window: &[u8], framing: Framing) -> bool {
    let packets = (window.len() / framing.stride).min(SYNC_PACKETS_WITHIN);
    packets >= SYNC_PACKETS_WITHIN_MIN && have_sync(window, framing, packets)
}

fn have_sync(window: &[u8], framing: Framing, packets: usize) -> bool {
    (0..packets).all(|count| window[count * framing.stride + framing.front] == TS_SYNC)
}

/// A transport stream.
#[derive(Debug)]
pub struct TsSource {
    /// Its window begins with packet `first`; `whole` packets in a row stand there.
    input: Input,
    first: u64,
    whole: usize,
    /// Packets at the beginning of the window that a unit was made of: the caller has it until it
    /// asks for the next one.
    given: usize,
    framing: Framing,
    format: StreamFormat,
    pieces: Pieces,
    /// A unit without what stands between its packets.
    joined: Vec<u8>,
    /// Up to this packet was looked for clock references.
    searched: u64,
    /// A rate was given: clock references are not looked at.
    is_rate_given: bool,
    clock: Clock,
    damaged: u64,
    /// Bytes in front of the first packet.
    skipped_at_start: u64,
}

impl TsSource {
    /// Reads `input`. With `bits_per_second`, packets are timed by that instead of by clock
    /// references.
    ///
    /// # Errors
    ///
    /// [`MediaError::Input`] if this is no transport stream, or one without clock references and no
    /// rate is given; [`MediaError::File`].
    pub fn new(mut input: Input, bits_per_second: Option<u32>) -> Result<Self, MediaError> {
        input.fill(SEARCH_BYTES)?;
        let (at, framing) = find_packets(input.window(), input.is_ended())
            .ok_or_else(|| input.error("no MPEG transport stream begins here"))?;
        input.consume(at);
        let mut source = Self {
            input,
            first: 0,
            whole: 0,
            given: 0,
            framing,
            format: stream_format(),
            pieces: Pieces::default(),
            joined: Vec::new(),
            searched: 0,
            is_rate_given: bits_per_second.is_some(),
            clock: Clock::new(bits_per_second),
            damaged: 0,
            skipped_at_start: at as u64,
        };
        if !source.is_rate_given {
            source.first_interval()?;
        }
        Ok(source)
    }

    /// Finds two clock references that follow each other; what is in front of them runs at their
    /// rate.
    fn first_interval(&mut self) -> Result<(), MediaError> {
        loop {
            let before = self.clock.last();
            let Some(found) = self.next_reference()? else {
                return Err(self.input.error_at(0, self.clock.no_rate(AHEAD_PACKETS)));
            };
            if self.clock.begin(before, found) {
                return Ok(());
            }
        }
    }

    /// Begins the interval behind the present one: up to the next clock reference, at the rate that
    /// it tells.
    fn next_interval(&mut self) -> Result<(), MediaError> {
        let before = self.clock.last();
        let found = self.next_reference()?;
        self.clock.next(before, found, self.searched);
        Ok(())
    }

    /// Reads ahead to the next clock reference of the PID that had the first one. `None`: there is
    /// none within reach.
    fn next_reference(&mut self) -> Result<Option<Reference>, MediaError> {
        while self.has_packet(self.searched)? {
            let number = self.searched;
            self.searched += 1;
            let at = (number - self.first) as usize * self.framing.stride + self.framing.front;
            let packet = &self.input.window()[at..at + TS_BYTES];
            if let Some(found) = self.clock.look(number, packet) {
                return Ok(Some(found));
            }
        }
        Ok(None)
    }

    /// Number of the packet behind the last one read.
    fn end(&self) -> u64 {
        self.first + self.whole as u64
    }

    /// Reads until `packet` is there; `false` if the stream ends first or it is too far ahead.
    fn has_packet(&mut self, packet: u64) -> Result<bool, MediaError> {
        while self.end() <= packet {
            if self.whole >= AHEAD_PACKETS || !self.read_packet()? {
                return Ok(false);
            }
        }
        Ok(true)
    }

    /// Reads one packet; `false` at the end.
    fn read_packet(&mut self) -> Result<bool, MediaError> {
        let Framing { stride, front } = self.framing;
        let at = self.whole * stride;
        loop {
            let window = self.input.fill(at + stride)?;
            if window.get(at + front) != Some(&TS_SYNC) {
                if !self.synchronise(at)? {
                    return Ok(false);
                }
            } else if window.len() < at + stride {
                self.damaged += 1;
                self.input.cut(at, stride);
                return Ok(false);
            } else {
                self.whole += 1;
                return Ok(true);
            }
        }
    }

    /// Takes out what is damaged `at` bytes into the window; `false` if no packet follows.
    fn synchronise(&mut self, at: usize) -> Result<bool, MediaError> {
        self.damaged += u64::from(self.input.window().len() > at);
        loop {
            let window = &self.input.fill(at + SYNC_BYTES)?[at..];
            let count = window.len();
            let is_last = self.input.is_ended();
            let window = &self.input.window()[at..];
            let found = (0..count)
                .take_while(|start| is_last || count - start >= SYNC_BYTES)
                .find(|start| is_in_sync(&window[*start..], self.framing, is_last));
            if let Some(start) = found {
                self.input.cut(at, start);
                return Ok(true);
            }
            if is_last {
                self.input.cut(at, count);
                return Ok(false);
            }
            self.input.cut(at, count - SYNC_BYTES + 1);
        }
    }

    /// Passes over the packets of the last unit.
    fn pass_over_given(&mut self) {
        self.input.consume(self.given * self.framing.stride);
        self.first += self.given as u64;
        self.whole -= self.given;
        self.given = 0;
    }
}

impl Source for TsSource {
    fn format(&self) -> &StreamFormat {
        &self.format
    }

    fn next(&mut self) -> Result<Option<Unit<'_>>, MediaError> {
        self.pass_over_given();
        let begin = self.first;
        self.has_packet(begin + UNIT_PACKETS as u64 - 1)?;
        let packets = self.whole.min(UNIT_PACKETS);
        if packets == 0 {
            return Ok(None);
        }
        let end = begin + packets as u64;
        while begin >= self.clock.known_to() {
            self.next_interval()?;
        }
        let time = self.clock.ticks_at(begin);
        while end >= self.clock.known_to() {
            self.next_interval()?;
        }
        self.given = packets;
        let duration =
            u32::try_from(self.clock.ticks_at(end).saturating_sub(time)).unwrap_or(u32::MAX);
        let Framing { stride, front } = self.framing;
        let mut bytes = &self.input.window()[..packets * stride];
        if stride > TS_BYTES {
            self.joined.clear();
            let packets = bytes.chunks_exact(stride);
            let packets = packets.map(|packet| &packet[front..front + TS_BYTES]);
            packets.for_each(|packet| self.joined.extend_from_slice(packet));
            bytes = &self.joined;
        }
        Ok(Some(Unit {
            pieces: self.pieces.list(&[bytes]),
            time,
            due: time,
            duration,
            is_start: true,
        }))
    }

    fn damaged(&self) -> u64 {
        self.damaged
    }

    fn skipped_at_start(&self) -> u64 {
        self.skipped_at_start
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::ts_clock::PCR_WRAP;
    use std::io::Cursor;

    const PID: u16 = 0x100;

    /// A packet without a clock reference; `count` makes it recognisable.
    fn plain(count: u8) -> Vec<u8> {
        let mut packet = vec![TS_SYNC, 0x01, 0x00, 0x10];
        packet.resize(TS_BYTES, count);
        packet
    }

    fn timed(pid: u16, system_ticks: u64, is_discontinuous: bool) -> Vec<u8> {
        let (base, extension) = (system_ticks / 300, system_ticks % 300);
        let [high, low] = pid.to_be_bytes();
        let mut packet = vec![TS_SYNC, high, low, 0x20, 183];
        packet.push(0x10 | u8::from(is_discontinuous) << 7);
        packet.extend(((base >> 1) as u32).to_be_bytes());
        packet.push((base as u8 & 1) << 7 | (extension >> 8) as u8);
        packet.push(extension as u8);
        packet.resize(TS_BYTES, 0xff);
        packet
    }

    /// `spans` of 70 packets each, clock references in front, a millisecond a packet.
    fn stream(begins: &[(u64, bool)]) -> Vec<u8> {
        let span = |(milliseconds, jump): &(u64, bool)| {
            let mut span = timed(PID, milliseconds * 27_000 % PCR_WRAP, *jump);
            (1..70).for_each(|count| span.extend(plain(count)));
            span
        };
        begins.iter().flat_map(span).collect()
    }

    fn source(stream: Vec<u8>) -> Result<TsSource, MediaError> {
        TsSource::new(Input::new("test", Cursor::new(stream)), None)
    }

    /// Bytes, milliseconds and milliseconds long, of each unit.
    fn units(source: &mut TsSource) -> (Vec<u8>, Vec<(u64, u32)>) {
        let (mut bytes, mut times) = (Vec::new(), Vec::new());
        while let Some(unit) = source.next().unwrap() {
            bytes.extend(unit.pieces.concat());
            times.push((unit.time / 90, unit.duration / 90));
        }
        (bytes, times)
    }

    #[test]
    fn time_runs_evenly_between_references_and_through_the_wrap() {
        let wrap_ms = PCR_WRAP / 27_000;
        for begin in [0, 5_000_000, wrap_ms - 100] {
            // The wrap is no whole number of milliseconds; keep to it below.
            let begin = begin / 10 * 10;
            let bytes = stream(&[0, 70, 140].map(|ms| (begin + ms, false)));
            let mut source = source(bytes.clone()).unwrap();
            let (joined, times) = units(&mut source);
            assert!(joined == bytes);
            let expected: Vec<_> = (0..30).map(|unit| (unit * 7, 7)).collect();
            assert_eq!(times, expected, "from {begin} ms");
            assert_eq!(source.damaged(), 0);
        }
    }

    #[test]
    fn jumps_do_not_show() {
        for jump in [(50, false), (10_000_000, false), (150, true)] {
            let bytes = stream(&[(0, false), (70, false), jump, (jump.0 + 70, false)]);
            let (joined, times) = units(&mut source(bytes.clone()).unwrap());
            assert!(joined == bytes);
            assert!(
                times
                    .iter()
                    .zip((0..).step_by(7))
                    .all(|(unit, ms)| *unit == (ms, 7))
            );
        }
    }

    #[test]
    fn another_program_is_not_listened_to() {
        let mut bytes = stream(&[(0, false), (70, false), (140, false)]);
        let other = timed(PID + 1, 900_000_000, false);
        for packet in [10, 85, 150] {
            bytes[packet * TS_BYTES..][..TS_BYTES].copy_from_slice(&other);
        }
        let (_, times) = units(&mut source(bytes).unwrap());
        assert!(
            times
                .iter()
                .zip((0..).step_by(7))
                .all(|(unit, ms)| *unit == (ms, 7))
        );
    }

    #[test]
    fn damage_is_passed_over_and_counted() {
        let bytes = stream(&[(0, false), (70, false), (140, false)]);
        let mut damaged = bytes.clone();
        damaged[100 * TS_BYTES] = 0;
        let at = 20 * TS_BYTES;
        damaged.splice(at..at, [0x11; 1000]);
        let mut source = source(damaged).unwrap();
        let (joined, _) = units(&mut source);
        let expected = [&bytes[..100 * TS_BYTES], &bytes[101 * TS_BYTES..]].concat();
        assert!(joined == expected);
        assert_eq!(source.damaged(), 2);
        let mut cut = self::source(bytes[..bytes.len() - 50].to_vec()).unwrap();
        assert_eq!(units(&mut cut).0.len(), bytes.len() - TS_BYTES);
        assert_eq!(cut.damaged(), 1);
    }

    /// `bytes` with something in front of each packet, and behind.
    fn framed(bytes: &[u8], front: usize, behind: usize) -> Vec<u8> {
        let (front, behind) = (vec![1; front], vec![2; behind]);
        let packets = bytes.chunks(TS_BYTES);
        packets
            .flat_map(|packet| [&front, packet, &behind].concat())
            .collect()
    }

    #[test]
    fn longer_packets_lose_what_is_not_their_own() {
        let bytes = stream(&[(0, false), (70, false)]);
        for (front, behind) in [(4, 0), (0, 16)] {
            let (joined, times) = units(&mut source(framed(&bytes, front, behind)).unwrap());
            assert!(joined == bytes);
            assert_eq!(times.len(), 20);
        }
    }

    #[test]
    fn stream_that_begins_within_a_packet_is_found() {
        let bytes = stream(&[(0, false), (70, false), (140, false)]);
        for (front, behind) in [(0, 0), (4, 0), (0, 16)] {
            let framed = framed(&bytes, front, behind);
            let stride = TS_BYTES + front + behind;
            for cut in [1, 4, 5, 100, 187, stride - 1, stride + 7] {
                let mut source = source(framed[cut..].to_vec()).unwrap();
                let (joined, _) = units(&mut source);
                let whole = cut.div_ceil(stride) * TS_BYTES;
                // The parity of a packet that was cut off may be all that is in front of the next.
                assert!(joined == bytes[whole..], "{stride} from {cut}");
                assert_eq!(source.damaged(), 0);
                assert!((1..stride as u64).contains(&source.skipped_at_start()));
            }
        }
        let garbage = [&b"HTTP/1.0 200 OK\r\n\r\n"[..], &bytes].concat();
        let mut source = source(garbage).unwrap();
        assert!(units(&mut source).0 == bytes);
        assert_eq!((source.damaged(), source.skipped_at_start()), (0, 19));
    }

    #[test]
    fn few_bytes_in_step_are_no_stream_within_another() {
        let mut bytes = vec![0; 4000];
        for packet in [0, 1, 3, 4, 5] {
            bytes[1000 + packet * TS_BYTES] = TS_SYNC;
        }
        assert_eq!(find_packets(&bytes, true), None);
    }

    #[test]
    fn without_clock_references_a_rate_is_needed() {
        for (stream, found) in [
            (plain(1).repeat(20), "no clock reference"),
            (stream(&[(0, false)]), "only one"),
            (stream(&[(50, false), (40, false)]), "no two"),
            (plain(1).repeat(20_000), "no clock reference"),
        ] {
            let error = source(stream.clone()).unwrap_err().to_string();
            assert!(
                error.contains(found) && error.contains("bit rate"),
                "{error}"
            );
            // 188 bytes a millisecond.
            let input = Input::new("test", Cursor::new(stream.clone()));
            let mut source = TsSource::new(input, Some(188 * 8 * 1000)).unwrap();
            let (joined, times) = units(&mut source);
            assert!(joined == stream);
            assert_eq!(times[..2], [(0, 7), (7, 7)]);
        }
    }

    #[test]
    fn what_is_no_transport_stream_is_refused() {
        for bytes in [&b""[..], &[0; 4000], &[TS_SYNC; 100]] {
            let error = source(bytes.to_vec()).unwrap_err().to_string();
            assert!(error.contains("no MPEG transport stream"), "{error}");
        }
    }
}

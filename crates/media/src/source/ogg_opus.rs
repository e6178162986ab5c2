//! Opus in Ogg (RFC 7845): the packets as they are, timed by their own durations at 48 kHz.
//!
//! Granule positions count the same samples. They decide where pages are missing: time goes on by
//! what was lost. What a decoder is to cut at the start (pre-skip) and at the end is sent all the
//! same, since RTP cannot say so. Streams chained in one file follow each other without a gap.

use std::collections::VecDeque;

use hythe_rtp::DYNAMIC;
use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::payload::opus::{OPUS_CLOCK_HZ, duration};
use hythe_rtp::unit::Unit;

use super::ogg_pages::{OggPages, Page};
use super::{Input, Source, pieces::Pieces};
use crate::MediaError;

/// What the first packet of a stream begins with, and the second.
pub(crate) const HEAD_MAGIC: &[u8] = b"OpusHead";
pub(crate) const TAGS_MAGIC: &[u8] = b"OpusTags";
/// Of the first packet, without a channel mapping (RFC 7845, section 5.1).
const HEAD_BYTES: usize = 19;
/// What is in it instead is Vorbis mostly.
const NO_OPUS: &str = "no Opus stream with audio is in this Ogg file: other sound is converted by \
     ffmpeg -i FILE -vn -c:a libopus FILE.opus";
/// A longer hole in the granule positions is not believed: an hour.
const GAP_TICKS_MAX: u64 = 3600 * OPUS_CLOCK_HZ as u64;

/// What SDP says of Opus with `channels` channels (RFC 7587, section 6.1): without it a receiver
/// may take the stream as mono.
#[must_use]
pub fn opus_format(channels: u8) -> StreamFormat {
    StreamFormat {
        encoding: Encoding::Opus,
        payload_type: DYNAMIC,
        clock_hz: OPUS_CLOCK_HZ,
        channels,
        parameters: if channels == 2 {
            "sprop-stereo=1".to_owned()
        } else {
            String::new()
        },
    }
}

/// An Ogg file with Opus in it.
#[derive(Debug)]
pub struct OggOpusSource {
    pages: OggPages,
    format: StreamFormat,
    pieces: Pieces,
    /// Packets of the page that was read last, with their durations.
    packets: VecDeque<(Vec<u8>, u32)>,
    current: Vec<u8>,
    /// Ticks since the start at which the first of `packets` begins.
    time: u64,
    /// The granule position there, once a page told it.
    granule: Option<u64>,
    damaged: u64,
}

impl OggOpusSource {
    /// Reads `input`.
    ///
    /// # Errors
    ///
    /// [`MediaError::Input`] if there is no Opus stream in it, or one of more than two channels,
    /// which RFC 7587 does not carry; [`MediaError::File`].
    pub fn new(input: Input) -> Result<Self, MediaError> {
        let mut source = Self {
            pages: OggPages::new(input, HEAD_MAGIC),
            format: opus_format(1),
            pieces: Pieces::default(),
            packets: VecDeque::new(),
            current: Vec::new(),
            time: 0,
            granule: None,
            damaged: 0,
        };
        while source.packets.is_empty() {
            if !source.read_page()? {
                return Err(source.pages.error(NO_OPUS));
            }
        }
        Ok(source)
    }

    /// Reads a page; `false` at the end of the file.
    fn read_page(&mut self) -> Result<bool, MediaError> {
        let Some(mut page) = self.pages.next()? else {
            return Ok(false);
        };
        if page.is_first {
            self.begin(&page)?;
            return Ok(true);
        }
        page.packets
            .retain(|packet| !packet.starts_with(TAGS_MAGIC));
        let packets = page.packets.iter_mut().filter_map(|packet| {
            let duration = duration(packet)?;
            Some((std::mem::take(packet), duration))
        });
        self.packets.extend(packets);
        // Those without a duration are still there.
        self.damaged += page
            .packets
            .iter()
            .filter(|packet| !packet.is_empty())
            .count() as u64;
        self.follow_granule(&page);
        Ok(true)
    }

    /// A stream begins: its head says how many channels it has.
    fn begin(&mut self, page: &Page) -> Result<(), MediaError> {
        let head = page.packets.first().map_or(&[][..], Vec::as_slice);
        if head.len() < HEAD_BYTES || head[8] >> 4 != 0 {
            return Err(self
                .pages
                .error("the Opus stream has a head of an unknown version"));
        }
        let (channels, family) = (head[9], head[18]);
        if family != 0 || !(1..=2).contains(&channels) {
            return Err(self.pages.error(&format!(
                "RTP carries Opus of one or two channels, not {channels} of mapping family {family}: mix them down, ffmpeg -i FILE -ac 2 -c:a libopus FILE.opus"
            )));
        }
        let format = opus_format(channels);
        if self.time == 0 {
            self.format = format;
        } else if self.format != format {
            return Err(self
                .pages
                .error("a stream with another number of channels follows"));
        }
        self.granule = None;
        Ok(())
    }

    /// Lets time go on by what is missing in front of the packets of `page`.
    fn follow_granule(&mut self, page: &Page) {
        let ticks: u64 = self
            .packets
            .iter()
            .map(|(_, ticks)| u64::from(*ticks))
            .sum();
        let begin = page
            .granule
            .filter(|_| !page.is_last)
            .and_then(|end| end.checked_sub(ticks));
        if let (true, Some(expected), Some(begin)) = (page.after_gap, self.granule, begin) {
            let gap = begin.saturating_sub(expected);
            if gap <= GAP_TICKS_MAX {
                self.time += gap;
            }
        }
        // Without a position the page only adds what is on it.
        let counted = self.granule.map(|granule| granule.saturating_add(ticks));
        self.granule = begin.map(|begin| begin + ticks).or(counted);
    }
}

impl Source for OggOpusSource {
    fn format(&self) -> &StreamFormat {
        &self.format
    }

    fn next(&mut self) -> Result<Option<Unit<'_>>, MediaError> {
        while self.packets.is_empty() {
            if !self.read_page()? {
                return Ok(None);
            }
        }
        let Some((packet, duration)) = self.packets.pop_front() else {
            return Ok(None);
        };
        self.current = packet;
        let time = self.time;
        self.time += u64::from(duration);
        Ok(Some(Unit {
            pieces: self.pieces.list(&[&self.current]),
            time,
            due: time,
            duration,
            is_start: true,
        }))
    }

    fn damaged(&self) -> u64 {
        self.damaged + self.pages.damaged()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use ogg::{PacketWriteEndInfo as End, PacketWriter};
    use std::io::Cursor;

    fn head(channels: u8, family: u8) -> Vec<u8> {
        let mut head = HEAD_MAGIC.to_vec();
        head.extend([1, channels, 56, 1, 0x80, 0xbb, 0, 0, 0, 0, family]);
        head
    }

    /// 20 ms each, three to a page; the number of the packet is in it.
    fn stream(serial: u32, packets: u32) -> Vec<u8> {
        let mut writer = PacketWriter::new(Vec::new());
        writer
            .write_packet(head(2, 0), serial, End::EndPage, 0)
            .unwrap();
        let tags = [TAGS_MAGIC, &[0; 8]].concat();
        writer.write_packet(tags, serial, End::EndPage, 0).unwrap();
        for count in 1..=packets {
            let end = match count {
                count if count == packets => End::EndStream,
                count if count.is_multiple_of(3) => End::EndPage,
                _ => End::NormalPacket,
            };
            let packet = [&[0xfc][..], &count.to_be_bytes(), &[7; 100]].concat();
            writer
                .write_packet(packet, serial, end, 5000 + u64::from(count) * 960)
                .unwrap();
        }
        writer.into_inner()
    }

    fn source(file: Vec<u8>) -> Result<OggOpusSource, MediaError> {
        OggOpusSource::new(Input::new("test", Cursor::new(file)))
    }

    /// Number of the packet, and its time in packets.
    fn units(source: &mut OggOpusSource) -> Vec<(u32, u64)> {
        let mut units = Vec::new();
        while let Some(unit) = source.next().unwrap() {
            assert_eq!(unit.duration, 960);
            let count = unit.pieces[0][1..5].first_chunk().unwrap();
            units.push((u32::from_be_bytes(*count), unit.time / 960));
        }
        units
    }

    /// Where the pages begin.
    fn pages(file: &[u8]) -> Vec<usize> {
        (0..file.len())
            .filter(|at| file[*at..].starts_with(b"OggS"))
            .collect()
    }

    #[test]
    fn packets_come_with_their_times() {
        let mut source = source(stream(1, 20)).unwrap();
        let expected: Vec<_> = (1..=20)
            .map(|count| (count, u64::from(count) - 1))
            .collect();
        assert_eq!(units(&mut source), expected);
        assert_eq!(source.damaged(), 0);
        assert_eq!(source.format().parameters, "sprop-stereo=1");
    }

    #[test]
    fn missing_or_damaged_page_leaves_a_gap_in_time() {
        let whole = stream(1, 20);
        let starts = pages(&whole);
        let expected: Vec<_> = (1..=20)
            .filter(|count| !(7..=9).contains(count))
            .map(|count| (count, u64::from(count) - 1))
            .collect();
        let mut missing = whole.clone();
        missing.drain(starts[4]..starts[5]);
        let mut damaged = whole.clone();
        damaged[starts[4] + 50] ^= 1;
        let mut garbage = missing.clone();
        garbage.splice(
            starts[4]..starts[4],
            *b"not an OggS page at all, but longer than a header",
        );
        for file in [missing, damaged, garbage] {
            let mut source = source(file).unwrap();
            assert_eq!(units(&mut source), expected);
            assert!(source.damaged() > 0);
        }
    }

    #[test]
    fn chained_streams_follow_each_other_and_others_are_left_out() {
        let mut file = stream(1, 4);
        file.extend(stream(2, 3));
        let other = [&b"\x80theora"[..], &[0; 30]].concat();
        let mut writer = PacketWriter::new(Vec::new());
        writer.write_packet(other, 9, End::EndPage, 0).unwrap();
        let file = [writer.into_inner(), file].concat();
        let expected = [(1, 0), (2, 1), (3, 2), (4, 3), (1, 4), (2, 5), (3, 6)];
        assert_eq!(units(&mut source(file).unwrap()), expected);
    }

    #[test]
    fn packet_over_many_pages_is_joined() {
        let mut writer = PacketWriter::new(Vec::new());
        writer.write_packet(head(1, 0), 1, End::EndPage, 0).unwrap();
        writer
            .write_packet([TAGS_MAGIC, &[0; 200_000]].concat(), 1, End::EndPage, 0)
            .unwrap();
        let mut packet = vec![0xf8];
        packet.resize(100_000, 1);
        writer.write_packet(packet, 1, End::EndStream, 960).unwrap();
        let mut source = source(writer.into_inner()).unwrap();
        assert_eq!(source.next().unwrap().unwrap().len(), 100_000);
        assert!(source.next().unwrap().is_none());
        assert_eq!(source.damaged(), 0);
    }

    #[test]
    fn what_is_no_opus_is_refused() {
        let with_head = |head: Vec<u8>| {
            let mut writer = PacketWriter::new(Vec::new());
            writer.write_packet(head, 1, End::EndStream, 0).unwrap();
            writer.into_inner()
        };
        for (file, reason) in [
            (Vec::new(), "no Opus stream"),
            (vec![0; 100_000], "no Opus stream"),
            (with_head(b"\x01vorbis".to_vec()), "no Opus stream"),
            (with_head(head(2, 0)), "no Opus stream"),
            (with_head(head(6, 1)), "mapping family 1"),
            (with_head(HEAD_MAGIC.to_vec()), "unknown version"),
        ] {
            let error = source(file).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}

//! Opus in Ogg (RFC 7845), pages and their sums by the crate `ogg`.
//!
//! A page ends with each second, so a crash costs no more. A hole is filled with packets that hold
//! nothing, which tell a decoder to conceal it (RFC 7845, section 4.1); the recording keeps time.
//! What the sender's encoder wants cut at the start is not told in RTP: pre-skip is 0.

use std::path::Path;

use hythe_rtp::format::StreamFormat;
use hythe_rtp::payload::opus::{OPUS_CLOCK_HZ, duration, frame_ticks, is_stereo};
use hythe_rtp::unit::Unit;
use ogg::{PacketWriteEndInfo, PacketWriter};

use super::Sink;
use super::output::Output;
use super::timeline::Timeline;
use crate::MediaError;
use crate::source::ogg_opus::{HEAD_MAGIC, TAGS_MAGIC};

/// One stream to a file; any number will do.
const SERIAL: u32 = 1;
/// A page ends behind so many ticks: a second, as RFC 7845, section 3 advises.
const PAGE_TICKS: u64 = OPUS_CLOCK_HZ as u64;
const VENDOR: &[u8] = b"Hythe";

/// An Ogg file.
pub struct OggOpusSink {
    output: Output,
    /// Pages go through memory, so that errors name the file.
    writer: PacketWriter<'static, Vec<u8>>,
    channels: u8,
    timeline: Timeline,
    /// The latest packet, and where it ends: the last of a stream is marked as such.
    held: Option<(Vec<u8>, u64)>,
    /// Samples in packets so far, and at the start of the page.
    granule: u64,
    page_granule: u64,
}

impl std::fmt::Debug for OggOpusSink {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("OggOpusSink")
            .field("output", &self.output)
            .field("granule", &self.granule)
            .finish_non_exhaustive()
    }
}

impl OggOpusSink {
    /// Writes a stream of Opus to `path`, which is made anew.
    ///
    /// # Errors
    ///
    /// [`MediaError::File`].
    pub fn create(path: &Path, format: &StreamFormat) -> Result<Self, MediaError> {
        Ok(Self {
            output: Output::create(path)?,
            writer: PacketWriter::new(Vec::new()),
            channels: format.channels.clamp(1, 2),
            timeline: Timeline::new(OPUS_CLOCK_HZ),
            held: None,
            granule: 0,
            page_granule: 0,
        })
    }

    /// Head and tags, each on a page of its own.
    fn write_head(&mut self) -> Result<(), MediaError> {
        let mut head = HEAD_MAGIC.to_vec();
        head.extend([1, self.channels, 0, 0]); // version, channels, pre-skip
        head.extend(OPUS_CLOCK_HZ.to_le_bytes());
        head.extend([0, 0, 0]); // gain, mapping family
        let mut tags = TAGS_MAGIC.to_vec();
        tags.extend((VENDOR.len() as u32).to_le_bytes());
        tags.extend(VENDOR);
        tags.extend(0u32.to_le_bytes()); // no comment
        self.write(head, PacketWriteEndInfo::EndPage, 0)?;
        self.write(tags, PacketWriteEndInfo::EndPage, 0)
    }

    fn write(
        &mut self,
        packet: Vec<u8>,
        end: PacketWriteEndInfo,
        granule: u64,
    ) -> Result<(), MediaError> {
        let written = self.writer.write_packet(packet, SERIAL, end, granule);
        written.map_err(|error| self.output.failed(error))?;
        let pages = self.writer.inner_mut();
        if !pages.is_empty() {
            self.output.write(pages)?;
            self.output.flush()?;
            pages.clear();
        }
        Ok(())
    }

    /// Takes a packet that lasts `ticks`, and writes the one before.
    fn hold(&mut self, packet: Vec<u8>, ticks: u64) -> Result<(), MediaError> {
        self.granule += ticks;
        let before = self.held.replace((packet, self.granule));
        if let Some((packet, end)) = before {
            let is_page = end - self.page_granule >= PAGE_TICKS;
            if is_page {
                self.page_granule = end;
            }
            let info = if is_page {
                PacketWriteEndInfo::EndPage
            } else {
                PacketWriteEndInfo::NormalPacket
            };
            self.write(packet, info, end)?;
        }
        Ok(())
    }
}

impl Sink for OggOpusSink {
    fn take(&mut self, unit: &Unit<'_>, _missing: bool) -> Result<(), MediaError> {
        let packet = unit.pieces.concat();
        let Some(ticks) = duration(&packet).map(u64::from) else {
            return Ok(()); // no Opus packet: depacketizers hand out none
        };
        match &self.held {
            None => {
                // The description may not say that there are two channels; the packets do.
                self.channels = self.channels.max(1 + u8::from(is_stereo(packet[0])));
                self.write_head()?;
                self.timeline.missing(unit.time, ticks);
            }
            Some((before, _)) => {
                let toc = before[0] & !3;
                let frame = u64::from(frame_ticks(toc));
                for _ in 0..self.timeline.missing(unit.time, ticks) / frame {
                    self.timeline.filled(frame);
                    self.hold(vec![toc], frame)?;
                }
            }
        }
        self.hold(packet, ticks)
    }

    fn finish(&mut self) -> Result<(), MediaError> {
        if let Some((packet, end)) = self.held.take() {
            self.write(packet, PacketWriteEndInfo::EndStream, end)?;
        }
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::ogg_opus::{OggOpusSource, opus_format};
    use crate::source::{Input, Source};

    fn record(path: &Path, packets: &[(u8, u64)]) -> Vec<(Vec<u8>, u64)> {
        let mut sink = OggOpusSink::create(path, &opus_format(1)).unwrap();
        for (fill, time) in packets {
            let unit = Unit {
                pieces: &[&[0xfc, *fill, 1, 2]],
                time: *time,
                due: *time,
                duration: 960,
                is_start: true,
            };
            sink.take(&unit, false).unwrap();
        }
        sink.finish().unwrap();
        let mut source = OggOpusSource::new(Input::open(path).unwrap()).unwrap();
        let mut units = Vec::new();
        while let Some(unit) = source.next().unwrap() {
            units.push((unit.pieces.concat(), unit.time));
        }
        assert_eq!((source.damaged(), source.format().channels), (0, 2));
        units
    }

    #[test]
    fn packets_come_back_and_holes_are_filled() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sink.opus");
        let packets: Vec<_> = (0..200)
            .map(|count| (count, 700 + u64::from(count) * 960))
            .collect();
        let found = record(&path, &packets);
        assert_eq!(found.len(), 200);
        assert!(
            found
                .iter()
                .zip(&packets)
                .all(|(found, sent)| found.0[1] == sent.0 && found.1 + 700 == sent.1)
        );

        let some: Vec<_> = packets
            .iter()
            .copied()
            .filter(|(count, _)| !(50..53).contains(count))
            .collect();
        let found = record(&path, &some);
        assert_eq!(found.len(), 200);
        let empty: Vec<_> = found
            .iter()
            .filter(|(packet, _)| *packet == [0xfc])
            .map(|(_, time)| time / 960)
            .collect();
        assert_eq!(empty, [50, 51, 52]);
    }

    #[test]
    fn unfinished_recording_is_readable_to_last_second() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("crash.opus");
        let mut sink = OggOpusSink::create(&path, &opus_format(2)).unwrap();
        for count in 0..130 {
            let unit = Unit {
                pieces: &[&[0xfc, 1, 2]],
                time: count * 960,
                due: 0,
                duration: 960,
                is_start: true,
            };
            sink.take(&unit, false).unwrap();
        }
        let mut source = OggOpusSource::new(Input::open(&path).unwrap()).unwrap();
        let mut packets = 0;
        while source.next().unwrap().is_some() {
            packets += 1;
        }
        assert_eq!(packets, 100);
    }
}

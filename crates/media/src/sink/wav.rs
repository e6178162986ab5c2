//! WAV files of 16-bit samples. G.711 is expanded, and what is missing becomes silence, so that the
//! recording keeps time.
//!
//! The header is written again with each second of samples: after a crash at most a second is
//! missing. It is written here, not by `hound`, whose lengths overflow in a recording of more than
//! 4 GiB; here they stay at the most that a WAV file can say.

use std::path::Path;

use hythe_rtp::L16;
use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::unit::Unit;

use super::Sink;
use super::output::Output;
use super::timeline::Timeline;
use crate::MediaError;
use crate::g711::{expand_alaw, expand_ulaw};

/// `RIFF`, the format, and the name and length of the samples.
const HEADER_BYTES: usize = 44;
/// Silence is written in pieces of this.
const SILENCE: [u8; 4096] = [0; 4096];

/// A WAV file.
#[derive(Debug)]
pub struct WavSink {
    output: Output,
    encoding: Encoding,
    samples: L16,
    timeline: Timeline,
    /// Of samples, in the file.
    bytes: u64,
    /// The same, when the header was written last.
    header_says: u64,
    block: Vec<u8>,
}

impl WavSink {
    /// Writes a stream of L16, PCMU or PCMA to `path`, which is made anew.
    ///
    /// # Errors
    ///
    /// [`MediaError::File`]; [`MediaError::Rtp`] for no channels, or more than eight.
    pub fn create(path: &Path, format: &StreamFormat) -> Result<Self, MediaError> {
        let mut sink = Self {
            output: Output::create(path)?,
            encoding: format.encoding,
            samples: L16::new(format.clock_hz, format.channels)?,
            timeline: Timeline::new(format.clock_hz),
            bytes: 0,
            header_says: 0,
            block: Vec::new(),
        };
        sink.output.write(&sink.header())?;
        Ok(sink)
    }

    /// The recording begins at time 0: where the first unit comes later, silence is in front.
    #[must_use]
    pub fn with_silence_in_front(mut self) -> Self {
        self.timeline = self.timeline.with_start();
        self
    }

    fn frame_bytes(&self) -> u64 {
        self.samples.frame_bytes() as u64
    }

    fn header(&self) -> [u8; HEADER_BYTES] {
        let data_bytes = u32::try_from(self.bytes).unwrap_or(u32::MAX);
        let riff_bytes = data_bytes.saturating_add(HEADER_BYTES as u32 - 8);
        let frame_bytes = self.samples.frame_bytes() as u16;
        let rate = self.samples.samples_per_second();
        let parts: [&[u8]; 13] = [
            b"RIFF",
            &riff_bytes.to_le_bytes(),
            b"WAVE",
            b"fmt ",
            &16u32.to_le_bytes(),
            &1u16.to_le_bytes(), // linear PCM
            &u16::from(self.samples.channels()).to_le_bytes(),
            &rate.to_le_bytes(),
            &rate.saturating_mul(u32::from(frame_bytes)).to_le_bytes(),
            &frame_bytes.to_le_bytes(),
            &16u16.to_le_bytes(), // bits
            b"data",
            &data_bytes.to_le_bytes(),
        ];
        let mut header = [0; HEADER_BYTES];
        let mut rest = &mut header[..];
        for part in parts {
            let (front, behind) = rest.split_at_mut(part.len());
            front.copy_from_slice(part);
            rest = behind;
        }
        header
    }

    fn write_silence(&mut self, ticks: u64) -> Result<(), MediaError> {
        let mut left = ticks * self.frame_bytes();
        self.bytes += left;
        while left > 0 {
            let now = left.min(SILENCE.len() as u64);
            self.output.write(&SILENCE[..now as usize])?;
            left -= now;
        }
        Ok(())
    }

    fn write_header(&mut self) -> Result<(), MediaError> {
        self.header_says = self.bytes;
        let header = self.header();
        self.output.overwrite_front(&header)
    }
}

impl Sink for WavSink {
    fn take(&mut self, unit: &Unit<'_>, _missing: bool) -> Result<(), MediaError> {
        self.block.clear();
        for piece in unit.pieces {
            match self.encoding {
                Encoding::Pcmu => {
                    let samples = piece.iter().map(|byte| expand_ulaw(*byte));
                    self.block.extend(samples.flat_map(i16::to_le_bytes));
                }
                Encoding::Pcma => {
                    let samples = piece.iter().map(|byte| expand_alaw(*byte));
                    self.block.extend(samples.flat_map(i16::to_le_bytes));
                }
                _ => {
                    let pairs = piece.chunks_exact(2);
                    self.block.extend(pairs.flat_map(|pair| [pair[1], pair[0]]));
                }
            }
        }
        let frames = self.block.len() as u64 / self.frame_bytes();
        self.block.truncate((frames * self.frame_bytes()) as usize);
        let missing = self.timeline.missing(unit.time, frames);
        self.write_silence(missing)?;
        self.timeline.filled(missing);
        self.output.write(&self.block)?;
        self.bytes += self.block.len() as u64;
        let second = u64::from(self.samples.samples_per_second()) * self.frame_bytes();
        if self.bytes - self.header_says >= second {
            self.write_header()?;
        }
        Ok(())
    }

    fn finish(&mut self) -> Result<(), MediaError> {
        self.write_header()?;
        self.output.flush()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn format(encoding: Encoding, clock_hz: u32, channels: u8) -> StreamFormat {
        StreamFormat {
            encoding,
            payload_type: 97,
            clock_hz,
            channels,
            parameters: String::new(),
        }
    }

    fn unit<'u>(pieces: &'u [&'u [u8]], time: u64) -> Unit<'u> {
        Unit {
            pieces,
            time,
            due: time,
            duration: 0,
            is_start: true,
        }
    }

    #[test]
    fn samples_are_expanded_and_holes_are_silent() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("sink.wav");
        for (encoding, block, value) in [
            (Encoding::L16, [0x12, 0x34].repeat(100), 0x1234),
            (Encoding::Pcmu, vec![0x10; 100], expand_ulaw(0x10)),
            (Encoding::Pcma, vec![0x10; 100], expand_alaw(0x10)),
        ] {
            let mut sink = WavSink::create(&path, &format(encoding, 8000, 1)).unwrap();
            for time in [500, 600, 850] {
                sink.take(&unit(&[&block], time), false).unwrap();
            }
            sink.finish().unwrap();
            let recording = crate::wav::read(&path).unwrap();
            let expected = [vec![value; 200], vec![0; 150], vec![value; 100]].concat();
            assert!(recording.samples == expected, "{encoding:?}");
            assert_eq!(recording.format, L16::new(8000, 1).unwrap());
        }
    }

    #[test]
    fn unfinished_recording_is_readable_to_last_second() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("crash.wav");
        let mut sink = WavSink::create(&path, &format(Encoding::L16, 1000, 2)).unwrap();
        for block in 0..25 {
            sink.take(&unit(&[&[1; 400]], block * 100), false).unwrap();
        }
        // As after a crash: the file has what the kernel was given.
        let recording = crate::wav::read(&path).unwrap();
        assert_eq!(recording.samples, vec![0x0101; 2 * 2000]);
    }

    #[test]
    fn sender_whose_clock_jumps_does_not_fill_the_disk() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("jump.wav");
        let mut sink = WavSink::create(&path, &format(Encoding::Pcmu, 8000, 1)).unwrap();
        for time in [0, 1 << 40, 5, u64::MAX] {
            sink.take(&unit(&[&[1; 160]], time), true).unwrap();
        }
        sink.finish().unwrap();
        assert_eq!(crate::wav::read(&path).unwrap().samples.len(), 4 * 160);
    }
}

//! Samples in blocks: the common part of sources of PCM, and files of nothing but samples.
//!
//! A file of raw L16 is in network byte order; G.711 has one byte per sample. What such a file
//! cannot tell, its rate and channels, the caller does.

use hythe_rtp::L16;
use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::unit::Unit;

use super::{Input, Source, pieces::Pieces};
use crate::MediaError;
use crate::g711::{compress_alaw, compress_ulaw};

/// Telephony: the rate at which G.711 has payload types of its own.
const TELEPHONE_HZ: u32 = 8000;
/// Programs that write a WAV file to a pipe say a length that they do not know: 0x7ffff000 (SoX) or
/// more. Ending before such a one is no damage.
pub(super) const OPEN_BYTES_MIN: u64 = 0x7fff_f000;
/// A block is cut at this, whatever was asked for.
const BLOCK_BYTES_MAX: usize = 1 << 20;

/// What samples are.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PcmFormat {
    /// L16, PCMU or PCMA.
    pub encoding: Encoding,
    /// Samples per second and channel.
    pub samples_per_second: u32,
    /// Channels, interleaved; 1 to 8.
    pub channels: u8,
}

impl PcmFormat {
    /// The same for RTP: payload types of RFC 3551, table 4, where it has one.
    ///
    /// # Errors
    ///
    /// [`MediaError::Rtp`] for no samples, no channels, or more than eight.
    pub fn stream(self) -> Result<StreamFormat, MediaError> {
        let samples = L16::new(self.samples_per_second, self.channels)?;
        let is_telephone = (self.samples_per_second, self.channels) == (TELEPHONE_HZ, 1);
        let format = StreamFormat::from(samples);
        let payload_type = match self.encoding {
            Encoding::Pcmu if is_telephone => 0,
            Encoding::Pcma if is_telephone => 8,
            Encoding::Pcmu | Encoding::Pcma => hythe_rtp::DYNAMIC,
            _ => format.payload_type,
        };
        Ok(StreamFormat {
            encoding: self.encoding,
            payload_type,
            ..format
        })
    }

    fn sample_bytes(self) -> usize {
        if self.encoding == Encoding::L16 { 2 } else { 1 }
    }

    /// Bytes of one sample of each channel; at least 1.
    pub(super) fn frame_bytes(self) -> usize {
        self.sample_bytes() * usize::from(self.channels.max(1))
    }
}

/// How the samples of an input become those of the stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Conversion {
    /// As they are.
    None,
    /// From 16 bits, little endian.
    LittleEndian,
}

/// A file of samples, from its present position to `bytes_left`.
#[derive(Debug)]
pub struct PcmSource {
    input: Input,
    conversion: Conversion,
    stream: StreamFormat,
    /// Of a sample frame: in the input, and in the stream.
    frame_bytes: (usize, usize),
    block_frames: usize,
    block: Vec<u8>,
    pieces: Pieces,
    /// Of the input's samples.
    bytes_left: u64,
    /// The input says how many samples it has, so that fewer are damage.
    has_length: bool,
    frames: u64,
    damaged: u64,
}

impl PcmSource {
    /// Reads `input`, which holds samples of `format` and nothing else, in blocks of `block_ms`
    /// milliseconds.
    ///
    /// # Errors
    ///
    /// [`MediaError::Rtp`], as [`PcmFormat::stream`].
    pub fn new(input: Input, format: PcmFormat, block_ms: u32) -> Result<Self, MediaError> {
        Self::converting(input, format, Conversion::None, block_ms, u64::MAX)
    }

    /// The same for the next `bytes` of the input, to be converted first; [`u64::MAX`] and lengths
    /// that stand for an unknown one ([`OPEN_BYTES_MIN`]) go to its end.
    pub(super) fn converting(
        input: Input,
        format: PcmFormat,
        conversion: Conversion,
        block_ms: u32,
        bytes: u64,
    ) -> Result<Self, MediaError> {
        let channels = usize::from(format.channels);
        let sample_bytes = match conversion {
            Conversion::None => format.sample_bytes(),
            Conversion::LittleEndian => 2,
        };
        let frame_bytes = (sample_bytes * channels, format.sample_bytes() * channels);
        let stream = format.stream()?;
        let frames = u64::from(format.samples_per_second) * u64::from(block_ms) / 1000;
        let most = BLOCK_BYTES_MAX / frame_bytes.0;
        Ok(Self {
            input,
            conversion,
            stream,
            frame_bytes,
            block_frames: (frames.min(most as u64) as usize).max(1),
            block: Vec::new(),
            pieces: Pieces::default(),
            bytes_left: bytes,
            has_length: bytes < OPEN_BYTES_MIN,
            frames: 0,
            damaged: 0,
        })
    }

    /// The same, if there is one sample of each channel at least. The error says `what` the input
    /// is.
    pub(super) fn with_some(mut self, what: &str) -> Result<Self, MediaError> {
        let frame = self.frame_bytes.0 as u64;
        let there = self.input.fill(self.frame_bytes.0)?.len() as u64;
        if there.min(self.bytes_left) < frame {
            return Err(self.input.error(format!("{what} holds no samples")));
        }
        Ok(self)
    }

    /// Reads the next block; returns its frames, 0 at the end.
    fn read_block(&mut self) -> Result<usize, MediaError> {
        let frame_bytes = self.frame_bytes.0;
        let wanted = (self.block_frames * frame_bytes) as u64;
        let wanted = wanted.min(self.bytes_left) as usize;
        let there = self.input.fill(wanted)?.len().min(wanted);
        let frames = there / frame_bytes;
        let samples = &self.input.window()[..frames * frame_bytes];
        self.block.clear();
        match (self.conversion, self.stream.encoding) {
            (Conversion::None, _) => self.block.extend_from_slice(samples),
            (Conversion::LittleEndian, encoding) => {
                let samples = samples
                    .chunks_exact(2)
                    .map(|pair| i16::from_le_bytes([pair[0], pair[1]]));
                match encoding {
                    Encoding::Pcmu => self.block.extend(samples.map(compress_ulaw)),
                    Encoding::Pcma => self.block.extend(samples.map(compress_alaw)),
                    _ => self.block.extend(samples.flat_map(i16::to_be_bytes)),
                }
            }
        }
        let mut used = (frames * frame_bytes) as u64;
        if frames == 0 {
            // The stream ends in the middle of a frame, or before its length.
            let is_cut = there > 0 || self.has_length && self.bytes_left > 0;
            self.damaged += u64::from(is_cut);
            self.input.consume(there);
            used = self.bytes_left;
        } else {
            self.input.consume(frames * frame_bytes);
        }
        self.bytes_left -= used;
        Ok(frames)
    }
}

impl Source for PcmSource {
    fn format(&self) -> &StreamFormat {
        &self.stream
    }

    fn next(&mut self) -> Result<Option<Unit<'_>>, MediaError> {
        let frames = self.read_block()?;
        if frames == 0 {
            return Ok(None);
        }
        let time = self.frames;
        self.frames += frames as u64;
        debug_assert_eq!(self.block.len(), frames * self.frame_bytes.1);
        Ok(Some(Unit {
            pieces: self.pieces.list(&[&self.block]),
            time,
            due: time,
            duration: frames as u32,
            is_start: true,
        }))
    }

    fn damaged(&self) -> u64 {
        self.damaged
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe_rtp::RtpError;
    use std::io::Cursor;

    #[test]
    fn blocks_have_their_length_and_the_rest_is_the_last() {
        let bytes: Vec<u8> = (0..=255).cycle().take(1000 * 4 + 3).collect();
        let format = PcmFormat {
            encoding: Encoding::L16,
            samples_per_second: 16_000,
            channels: 2,
        };
        let input = Input::new("test", Cursor::new(bytes.clone()));
        let mut source = PcmSource::new(input, format, 20).unwrap();
        let mut found = Vec::new();
        let mut times = Vec::new();
        while let Some(unit) = source.next().unwrap() {
            found.extend(unit.pieces.concat());
            times.push((unit.time, unit.duration));
        }
        assert!(found == bytes[..4000]);
        assert_eq!(times, [(0, 320), (320, 320), (640, 320), (960, 40)]);
        assert_eq!(source.damaged(), 1);
    }

    #[test]
    fn formats_have_the_payload_types_of_rfc_3551() {
        for (encoding, samples_per_second, channels, expected) in [
            (Encoding::Pcmu, 8000, 1, 0),
            (Encoding::Pcma, 8000, 1, 8),
            (Encoding::L16, 44_100, 2, 10),
            (Encoding::L16, 44_100, 1, 11),
            (Encoding::L16, 8000, 1, 97),
            (Encoding::Pcmu, 16_000, 1, 97),
            (Encoding::Pcma, 8000, 2, 97),
        ] {
            let format = PcmFormat {
                encoding,
                samples_per_second,
                channels,
            };
            let stream = format.stream().unwrap();
            assert_eq!((stream.encoding, stream.payload_type), (encoding, expected));
            assert_eq!(stream.clock_hz, samples_per_second);
        }
        let format = PcmFormat {
            encoding: Encoding::Pcmu,
            samples_per_second: 8000,
            channels: 9,
        };
        let refused = format.stream();
        assert!(matches!(
            refused,
            Err(MediaError::Rtp(RtpError::Format { .. }))
        ));
    }
}

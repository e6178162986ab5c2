//! Frames of MPEG audio in messages: each message has whole frames and nothing else, as an encoder
//! or a demultiplexer publishes them.
//!
//! A channel whose first message is something else, such as a piece of a file with tags, is read as
//! a stream of bytes.

use std::collections::VecDeque;

use hythe_rtp::format::StreamFormat;
use hythe_rtp::payload::mpeg_audio::{MPEG_AUDIO_CLOCK_HZ, MPEG_AUDIO_HEADER_BYTES};
use hythe_rtp::unit::Unit;

use super::Cutter;
use super::message::Message;
use crate::MediaError;
use crate::mp3::Header;
use crate::source::InPlace;
use crate::source::mpeg_audio::stream_format;
use crate::source::pieces::Pieces;

/// Finds groups of frames that fit into one packet.
pub(super) struct MpegAudioCutter {
    format: StreamFormat,
    group_bytes: usize,
    pieces: Pieces,
    waiting: VecDeque<Message>,
    /// Bytes of the first that were looked at.
    given: usize,
    /// The next unit: its frames, their samples and rate.
    ready: Option<(Message, u64, u32)>,
    lent: Option<Message>,
    /// Time: so many samples at this rate behind `base_ticks`.
    samples: u64,
    samples_per_second: u32,
    base_ticks: u64,
    damaged: u64,
}

/// The header of the frame that `bytes` begin with, and its length, if it is all there.
fn frame(bytes: &[u8]) -> Option<(Header, usize)> {
    let header = Header::parse(bytes)?;
    let length = header.frame_bytes()?;
    (length > 0 && length <= bytes.len()).then_some((header, length))
}

impl MpegAudioCutter {
    /// `None` if a message that begins so has anything but whole frames.
    pub(super) fn new(first: &[u8], payload_limit: usize) -> Option<Self> {
        let mut rest = first;
        while let Some((_, length)) = frame(rest) {
            rest = &rest[length..];
        }
        let (header, _) = frame(first).filter(|_| rest.is_empty())?;
        Some(Self {
            format: stream_format(header.channels()),
            group_bytes: payload_limit.saturating_sub(MPEG_AUDIO_HEADER_BYTES),
            pieces: Pieces::default(),
            waiting: VecDeque::new(),
            given: 0,
            ready: None,
            lent: None,
            samples: 0,
            samples_per_second: header.samples_per_second(),
            base_ticks: 0,
            damaged: 0,
        })
    }

    fn now(&self) -> u64 {
        let clock = u64::from(MPEG_AUDIO_CLOCK_HZ);
        self.base_ticks + self.samples * clock / u64::from(self.samples_per_second.max(1))
    }

    /// The next frames of one rate that fit together: their bytes, and samples of each channel.
    fn group(&self, bytes: &[u8]) -> Option<(usize, u64, u32)> {
        let (first, mut length) = frame(bytes)?;
        let mut samples = u64::from(first.samples());
        while let Some((header, more)) = frame(&bytes[length..]) {
            let is_same = header.samples_per_second() == first.samples_per_second();
            if !is_same || length + more > self.group_bytes {
                break;
            }
            length += more;
            samples += u64::from(header.samples());
        }
        Some((length, samples, first.samples_per_second()))
    }
}

impl Cutter for MpegAudioCutter {
    fn format(&self) -> &StreamFormat {
        &self.format
    }

    fn whole(&self, bytes: &[u8]) -> usize {
        bytes.len()
    }

    fn completing(&self, _left: &[u8], _bytes: &[u8]) -> Option<usize> {
        Some(0)
    }

    fn take(&mut self, message: Message) -> Result<(), MediaError> {
        self.waiting.push_back(message);
        Ok(())
    }

    fn is_ready(&mut self, _is_over: bool) -> Result<bool, MediaError> {
        self.lent = None;
        while self.ready.is_none()
            && let Some(first) = self.waiting.front()
        {
            // Looked at once: what is found now is what is given, whatever is written over it
            // meanwhile.
            let rest = first.part(self.given..first.len());
            if let Some((length, samples, rate)) = self.group(rest.bytes()) {
                self.given += length;
                self.ready = Some((rest.part(0..length), samples, rate));
            } else {
                self.damaged += u64::from(!rest.is_empty());
                self.waiting.pop_front();
                self.given = 0;
            }
        }
        Ok(self.ready.is_some())
    }

    fn next(&mut self) -> Result<Option<InPlace<'_>>, MediaError> {
        let Some((part, samples, rate)) = self.ready.take() else {
            return Ok(None);
        };
        let time = self.now();
        if rate != self.samples_per_second {
            (self.base_ticks, self.samples) = (time, 0);
            self.samples_per_second = rate;
        }
        self.samples += samples;
        let duration = u32::try_from(self.now() - time).unwrap_or(u32::MAX);
        let message = self.lent.insert(part);
        Ok(Some(InPlace {
            unit: Unit {
                pieces: self.pieces.list(&[message.bytes()]),
                time,
                due: time,
                duration,
                is_start: true,
            },
            messages: std::slice::from_ref(message),
        }))
    }

    fn damaged(&self) -> u64 {
        self.damaged
    }
}

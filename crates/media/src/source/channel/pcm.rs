//! Samples in messages, as they are sent: L16 in network byte order, or G.711. Whoever publishes
//! writes them so.

use std::collections::VecDeque;

use hythe_rtp::format::StreamFormat;
use hythe_rtp::unit::Unit;

use super::Cutter;
use super::message::Message;
use crate::MediaError;
use crate::source::InPlace;
use crate::source::pieces::Pieces;
use crate::source::raw::PcmFormat;

/// Cuts messages into blocks of nearly equal length.
pub(super) struct PcmCutter {
    format: StreamFormat,
    frame_bytes: usize,
    /// Frames of a block, at most.
    block_frames: usize,
    pieces: Pieces,
    waiting: VecDeque<Message>,
    /// Bytes of the first that were given.
    given: usize,
    /// The message that the caller has.
    lent: Option<Message>,
    frames: u64,
    damaged: u64,
}

impl PcmCutter {
    pub(super) fn new(format: PcmFormat, block_ms: u32) -> Result<Self, MediaError> {
        let frames = u64::from(format.samples_per_second) * u64::from(block_ms) / 1000;
        Ok(Self {
            format: format.stream()?,
            frame_bytes: format.frame_bytes(),
            block_frames: usize::try_from(frames).unwrap_or(usize::MAX).max(1),
            pieces: Pieces::default(),
            waiting: VecDeque::new(),
            given: 0,
            lent: None,
            frames: 0,
            damaged: 0,
        })
    }
}

impl Cutter for PcmCutter {
    fn format(&self) -> &StreamFormat {
        &self.format
    }

    fn whole(&self, bytes: &[u8]) -> usize {
        bytes.len() - bytes.len() % self.frame_bytes
    }

    fn completing(&self, left: &[u8], bytes: &[u8]) -> Option<usize> {
        let missing = self.frame_bytes - left.len() % self.frame_bytes;
        (missing <= bytes.len()).then_some(missing)
    }

    fn take(&mut self, message: Message) -> Result<(), MediaError> {
        let whole = self.whole(message.bytes());
        // The stream ends in the middle of a frame.
        self.damaged += u64::from(whole < message.len());
        if whole > 0 {
            self.waiting.push_back(message.part(0..whole));
        }
        Ok(())
    }

    fn is_ready(&mut self, _is_over: bool) -> Result<bool, MediaError> {
        self.lent = None;
        Ok(!self.waiting.is_empty())
    }

    fn next(&mut self) -> Result<Option<InPlace<'_>>, MediaError> {
        let Some(first) = self.waiting.front() else {
            return Ok(None);
        };
        let left = (first.len() - self.given) / self.frame_bytes;
        let frames = left.div_ceil(left.div_ceil(self.block_frames).max(1));
        let begin = self.given;
        self.given += frames * self.frame_bytes;
        let message = first.part(begin..self.given);
        if left == frames {
            self.waiting.pop_front();
            self.given = 0;
        }
        let time = self.frames;
        self.frames += frames as u64;
        let message = self.lent.insert(message);
        Ok(Some(InPlace {
            unit: Unit {
                pieces: self.pieces.list(&[message.bytes()]),
                time,
                due: time,
                duration: u32::try_from(frames).unwrap_or(u32::MAX),
                is_start: true,
            },
            messages: std::slice::from_ref(message),
        }))
    }

    fn damaged(&self) -> u64 {
        self.damaged
    }
}

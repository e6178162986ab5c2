//! H.264 and H.265 byte streams (Annex B) in messages: as
//! [`source::annex_b`](crate::source::annex_b) reads them, but NAL units stay where they lie.
//!
//! A message usually is one picture, with the start codes of its NAL units. The last NAL unit waits
//! for the next message, which says whether it goes on: an encoder whose pictures are cut at any
//! byte is understood, too, at the price of a copy of what was cut.

use hythe_rtp::format::StreamFormat;
use hythe_rtp::unit::Unit;
use hythe_rtp::video::units::{NAL_BYTES_MAX, NALS_MAX, UNIT_BYTES_MAX, with_pieces};
use hythe_rtp::video::{Codec, FrameRate, parameters};
use memchr::memmem;

use super::Cutter;
use super::message::Message;
use crate::MediaError;
use crate::source::InPlace;
use crate::source::annex_b::units::{Gatherer, Keep, Next};
use crate::source::annex_b::{ASSUMED, refused};
use crate::source::pieces::Pieces;

/// `start_code_prefix_one_3bytes`; the fourth byte of long ones counts as a zero behind the NAL
/// unit before.
const START_CODE: &[u8] = &[0, 0, 1];

/// The NAL units of one access unit, each a part of a message.
#[derive(Debug, Default)]
struct Nals {
    parts: Vec<Message>,
    bytes: usize,
}

impl Keep for Nals {
    type Place = Message;

    fn keep(&mut self, _nal: &[u8], place: Message) -> Result<(), &'static str> {
        if self.parts.len() == NALS_MAX {
            return Err("an access unit has more than 256 NAL units");
        }
        if place.len() > NAL_BYTES_MAX || self.bytes + place.len() > UNIT_BYTES_MAX {
            return Err("an access unit has more than 16 MiB, or a NAL unit more than 4");
        }
        self.bytes += place.len();
        self.parts.push(place);
        Ok(())
    }

    fn bytes(&self) -> usize {
        self.bytes
    }

    fn forget(&mut self) {
        self.parts.clear();
        self.bytes = 0;
    }
}

/// Finds access units, and their times as in a file.
pub(super) struct NalCutter {
    input: String,
    gatherer: Gatherer<Nals>,
    /// Bytes taken so far, for errors.
    position: u64,
    /// What the stream carries, once it has begun; and by how many frames display lags behind
    /// decoding.
    begun: Option<u64>,
    format: StreamFormat,
    known_rate: Option<FrameRate>,
    frame_rate: Option<FrameRate>,
    /// The stream says it itself.
    says_rate: bool,
    /// The unit that the caller has.
    given: Option<Next<Nals>>,
    pieces: Pieces,
    is_finished: bool,
}

impl NalCutter {
    pub(super) fn new(input: &str, known_rate: Option<FrameRate>) -> Self {
        Self {
            input: input.to_owned(),
            gatherer: Gatherer::new(None),
            position: 0,
            begun: None,
            format: parameters::format(Codec::H264, &[]),
            known_rate,
            frame_rate: None,
            says_rate: false,
            given: None,
            pieces: Pieces::default(),
            is_finished: false,
        }
    }

    fn take_nal(&mut self, message: &Message, begin: usize, end: usize) -> Result<(), MediaError> {
        // Without `trailing_zero_8bits` and the first byte of a long start code; a NAL unit never
        // ends in a zero (7.4.1).
        let stretch = message.part(begin..end);
        let last = stretch.bytes().iter().rposition(|byte| *byte != 0);
        let Some(last) = last else {
            return Ok(());
        };
        let nal = stretch.part(0..last + 1);
        let taken = self.gatherer.take(nal.bytes(), nal.clone());
        taken.map_err(|reason| refused(&self.input, self.position, reason))
    }

    /// Says what the stream carries, at its first picture.
    fn begin(&mut self) {
        let (Some(codec), Some(first)) = (self.gatherer.codec(), self.gatherer.first()) else {
            return;
        };
        self.begun = Some(first.picture.reordered_max as u64);
        self.format = parameters::format(codec, self.gatherer.sets());
        let said = self.gatherer.frame_rate();
        self.says_rate = said.is_some();
        let known = said.or(self.known_rate);
        self.frame_rate = known.or_else(|| FrameRate::new(ASSUMED.0, ASSUMED.1));
    }
}

impl Cutter for NalCutter {
    fn format(&self) -> &StreamFormat {
        &self.format
    }

    /// All in front of the last start code: what is behind it may go on.
    fn whole(&self, bytes: &[u8]) -> usize {
        memmem::rfind(bytes, START_CODE).unwrap_or(0)
    }

    fn completing(&self, left: &[u8], bytes: &[u8]) -> Option<usize> {
        let is_across =
            |front: &[u8], behind: &[u8]| left.ends_with(front) && bytes.starts_with(behind);
        if is_across(&[0, 0], &[1]) {
            return Some(1);
        }
        if is_across(&[0], &[0, 1]) {
            return Some(2);
        }
        let next = memmem::find(bytes, START_CODE);
        let ends_here = next.is_some_and(|next| bytes[..next].iter().all(|byte| *byte == 0));
        // What is too long already is not made longer.
        if ends_here || left.len() > NAL_BYTES_MAX {
            return Some(0);
        }
        next
    }

    fn take(&mut self, message: Message) -> Result<(), MediaError> {
        let mut begin = 0;
        while let Some(offset) = memmem::find(&message.bytes()[begin..], START_CODE) {
            self.take_nal(&message, begin, begin + offset)?;
            begin += offset + START_CODE.len();
        }
        self.take_nal(&message, begin, message.len())?;
        self.position += message.len() as u64;
        Ok(())
    }

    fn is_ready(&mut self, is_over: bool) -> Result<bool, MediaError> {
        if let Some(given) = self.given.take() {
            self.gatherer.release(given.nals);
        }
        if is_over && !self.is_finished {
            self.is_finished = true;
            let finished = self.gatherer.finish();
            finished.map_err(|reason| refused(&self.input, self.position, reason))?;
        }
        if self.begun.is_none() {
            self.begin();
        }
        Ok(self.gatherer.is_ready())
    }

    fn next(&mut self) -> Result<Option<InPlace<'_>>, MediaError> {
        self.given = self.gatherer.next();
        let known = (self.gatherer.codec(), self.frame_rate, self.begun);
        let ((Some(codec), Some(rate), Some(delay)), Some(given)) = (known, &self.given) else {
            return Ok(None);
        };
        let time = rate.ticks(given.display_index + delay);
        let end = rate.ticks(given.display_index + delay + 1);
        let nals = given.nals.parts.iter().map(Message::bytes);
        Ok(Some(InPlace {
            unit: Unit {
                pieces: with_pieces(codec, &[], nals, |nals| self.pieces.list(nals)),
                time,
                due: rate.ticks(given.decoding_index),
                duration: u32::try_from(end - time).unwrap_or(u32::MAX),
                is_start: given.is_start,
            },
            messages: &given.nals.parts,
        }))
    }

    fn says_frame_rate(&self) -> bool {
        self.says_rate
    }

    fn damaged(&self) -> u64 {
        self.gatherer.damaged()
    }
}

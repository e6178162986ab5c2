//! H.264 and H.265 as a byte stream (Annex B), from anything that can be read: a file, standard
//! input.
//!
//! NAL units are found by their start codes and gathered to access units (H.264, section 7.4.1.2.3;
//! H.265, section 7.4.2.4.4). A byte stream has no times. Pictures are taken to follow each other
//! at the frame rate of its parameter sets; the order in which they are shown is told from their
//! order counts, for which a few of them wait, at most [`WAITING_MAX`]. Streams whose order cannot
//! be told so are refused: single fields, order counts of type 1.
//!
//! Between calls the next unit and those that wait for their place are kept, at most
//! [`WAITING_BYTES_MAX`] in all.

mod start_codes;
pub(super) mod units;

use std::io::Read;

use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::unit::Unit;
use hythe_rtp::video::units::{NalUnits, with_pieces};
use hythe_rtp::video::{Codec, parameters};

use self::start_codes::NalReader;
use self::units::{Gatherer, Next};
use super::Source;
use super::pieces::Pieces;
use crate::MediaError;
pub use hythe_rtp::video::FrameRate;

/// Most pictures that wait for one that is shown before them: twice the longest run of B frames
/// that x264 and x265 make.
pub const WAITING_MAX: usize = 32;
/// Most bytes of pictures that wait.
pub const WAITING_BYTES_MAX: usize = 64 << 20;
/// How far parameter sets and a first picture are looked for.
const SEARCH_BYTES_MAX: u64 = 64 << 20;
/// The frame rate where neither the stream nor the caller knows it.
pub(super) const ASSUMED: (u32, u32) = (25, 1);

/// What the caller knows of a stream.
#[derive(Clone, Copy, Debug, Default)]
pub struct Options {
    /// [`Encoding::H264`] or [`Encoding::H265`]; `None`: as its first NAL units look.
    pub encoding: Option<Encoding>,
    /// Used where the stream does not say it.
    pub frame_rate: Option<FrameRate>,
}

/// Who knew the frame rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum FrameRateOrigin {
    /// Parameter sets of the stream.
    Stream,
    /// [`Options::frame_rate`].
    Options,
    /// Nobody: 25 frames per second were assumed. Worth a warning.
    Assumed,
}

/// A byte stream, opened.
pub struct AnnexB<R> {
    input: String,
    nals: NalReader<R>,
    gatherer: Gatherer<NalUnits>,
    /// The unit that the caller has.
    given: Option<Next<NalUnits>>,
    pieces: Pieces,
    format: StreamFormat,
    frame_rate: FrameRate,
    frame_rate_origin: FrameRateOrigin,
    /// Frames that display lags behind decoding.
    delay: u64,
}

/// Reads up to the first picture. `input` names the stream in errors.
///
/// # Errors
///
/// [`MediaError::Input`] if it is no such stream, or its display order cannot be told, or a read
/// fails.
pub fn open<R: Read>(input: &str, read: R, options: &Options) -> Result<AnnexB<R>, MediaError> {
    let mut nals = NalReader::new(read);
    let mut gatherer = Gatherer::new(options.encoding.and_then(codec));
    while gatherer.waiting() == 0 && nals.position() < SEARCH_BYTES_MAX {
        if !advance(input, &mut nals, &mut gatherer)? {
            break;
        }
    }
    let (Some(codec), Some(first)) = (gatherer.codec(), gatherer.first()) else {
        let reason =
            "no picture with its parameter sets: this is no H.264 or H.265 byte stream (Annex B)";
        return Err(failed(input, nals.position(), reason));
    };
    let assumed = || FrameRate::new(ASSUMED.0, ASSUMED.1);
    let said = gatherer.frame_rate();
    let origin = match (said, options.frame_rate) {
        (Some(_), _) => FrameRateOrigin::Stream,
        (None, Some(_)) => FrameRateOrigin::Options,
        (None, None) => FrameRateOrigin::Assumed,
    };
    let frame_rate = said.or(options.frame_rate).or_else(assumed);
    Ok(AnnexB {
        input: input.to_owned(),
        format: parameters::format(codec, gatherer.sets()),
        frame_rate: frame_rate.ok_or_else(|| failed(input, 0, "no frame rate"))?,
        frame_rate_origin: origin,
        delay: first.picture.reordered_max as u64,
        nals,
        gatherer,
        given: None,
        pieces: Pieces::default(),
    })
}

fn codec(encoding: Encoding) -> Option<Codec> {
    let codecs = [Codec::H264, Codec::H265];
    codecs
        .into_iter()
        .find(|codec| codec.encoding() == encoding)
}

/// Takes one NAL unit; `false` at the end.
fn advance<R: Read>(
    input: &str,
    nals: &mut NalReader<R>,
    gatherer: &mut Gatherer<NalUnits>,
) -> Result<bool, MediaError> {
    let position = nals.position();
    let taken = match nals.next() {
        Ok(Some(nal)) => gatherer.take(nal, ()).map(|()| true),
        Ok(None) => gatherer.finish().map(|()| false),
        Err(error) => return Err(failed(input, position, &format!("cannot be read: {error}"))),
    };
    taken.map_err(|reason| refused(input, position, reason))
}

/// Why the display order cannot be told.
pub(super) fn refused(input: &str, position: u64, reason: &str) -> MediaError {
    let reason = format!(
        "the display order of this byte stream cannot be told, {reason}: put it into MP4 or TS"
    );
    failed(input, position, &reason)
}

fn failed(input: &str, position: u64, reason: &str) -> MediaError {
    MediaError::Input {
        input: input.to_owned(),
        position,
        reason: reason.to_owned(),
    }
}

impl<R> AnnexB<R> {
    /// The frame rate that times are made from, and who knew it.
    pub fn frame_rate(&self) -> (FrameRate, FrameRateOrigin) {
        (self.frame_rate, self.frame_rate_origin)
    }
}

impl<R: Read> Source for AnnexB<R> {
    fn format(&self) -> &StreamFormat {
        &self.format
    }

    fn next(&mut self) -> Result<Option<Unit<'_>>, MediaError> {
        if let Some(given) = self.given.take() {
            self.gatherer.release(given.nals);
        }
        while !self.gatherer.is_ready() {
            let has_more = advance(&self.input, &mut self.nals, &mut self.gatherer)?;
            if !has_more && !self.gatherer.is_ready() {
                return Ok(None);
            }
        }
        self.given = self.gatherer.next();
        let (Some(codec), Some(given)) = (self.gatherer.codec(), &self.given) else {
            return Ok(None);
        };
        let time = self.frame_rate.ticks(given.display_index + self.delay);
        let end = self.frame_rate.ticks(given.display_index + self.delay + 1);
        Ok(Some(Unit {
            pieces: with_pieces(codec, &[], given.nals.iter(), |nals| self.pieces.list(nals)),
            time,
            due: self.frame_rate.ticks(given.decoding_index),
            duration: (end - time) as u32,
            is_start: given.is_start,
        }))
    }

    fn says_frame_rate(&self) -> bool {
        self.frame_rate_origin == FrameRateOrigin::Stream
    }

    fn damaged(&self) -> u64 {
        self.nals.damaged() + self.gatherer.damaged()
    }
}

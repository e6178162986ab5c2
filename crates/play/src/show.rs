//! Pictures: takes what the core decoded, and shows each when the clock says so.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hythe::media::source::mp4::movie::{self, PlacedSample, VideoTrack};
use hythe::monotonic_ns;
use hythe_screen::Screen;

use crate::error::PlayError;
use crate::method::{Decoded, Receiver};
use crate::pair::TrackPlayer;
use crate::ports::{LAST_NUMBER, PictureInfo, UnitTag};
use crate::report::{Frame, Sent};
use crate::stage::{LOOK, Stage, locked};
use crate::viewer::Taken;
use crate::y4m::{Written, Y4m};

/// Shows the pictures of a movie.
pub(crate) struct PicturePlayer<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) track: &'a VideoTrack,
    pub(crate) from_decoder: Box<dyn Receiver>,
    pub(crate) sent: &'a Mutex<Vec<Sent>>,
    pub(crate) output: Option<Y4m>,
    pub(crate) screen: Option<&'a Screen>,
    pub(crate) stall: Duration,
    pub(crate) start: Duration,
    /// There is no sound.
    pub(crate) is_alone: bool,
    /// The movie begins without sound.
    pub(crate) starts_clock: bool,
}

/// What was shown.
#[derive(Debug, Default)]
pub(crate) struct Shown {
    pub(crate) frames: Vec<Frame>,
    pub(crate) bytes: u64,
    pub(crate) wakes: u64,
    pub(crate) size: (u32, u32),
    pub(crate) written: Option<Written>,
}

/// What there is to show for a number.
enum Turn {
    Picture(PictureInfo, Decoded),
    /// Its picture did not come, or there is none.
    Missing,
}

/// A picture that came before its turn, and whether any came lately.
#[derive(Default)]
struct Arrivals {
    early: Option<(PictureInfo, Decoded)>,
    is_away: bool,
    is_ended: bool,
    /// The decoder cannot use the parameter sets that it was sent with a key frame.
    are_sets_refused: bool,
}

impl TrackPlayer for PicturePlayer<'_> {
    type Played = Shown;

    fn play(&mut self) -> Result<Shown, PlayError> {
        let mut shown = Shown::default();
        let done = self.show_all(&mut shown);
        self.stage.unless_closed(done)?;
        self.stage.end_pictures();
        shown.wakes = self.from_decoder.wakes();
        if let Some(output) = &mut self.output {
            let end_ns = match self.stage.is_closed() {
                true => 0,
                false => movie::end_ns(&self.track.units),
            };
            shown.written = Some(output.finish(end_ns)?);
        }
        Ok(shown)
    }

    fn decoded(&mut self) -> &mut dyn Receiver {
        &mut *self.from_decoder
    }
}

impl PicturePlayer<'_> {
    /// Shows the pictures to the end of the movie.
    fn show_all(&mut self, shown: &mut Shown) -> Result<(), PlayError> {
        let mut arrivals = Arrivals::default();
        for (number, unit) in in_order(&self.track.units) {
            let turn = self.turn(number, unit, &mut arrivals)?;
            if !unit.is_shown {
                continue;
            }
            if self.starts_clock && shown.frames.is_empty() {
                self.stage.with_clock(|clock, now_ns| clock.start(now_ns));
            }
            let at = self.stage.wait_until(unit.time_ns)?;
            let mut frame = Frame::missing(number, unit.time_ns);
            if let Turn::Picture(info, sample) = turn {
                let now_ns = monotonic_ns();
                frame.sync_error_ns = Some(at - unit.time_ns);
                frame.decode_ns = Some(info.decode_ns);
                frame.file_to_shown_ns = self.read_ns(number).map(|read| now_ns - read);
                shown.size = info.size;
                shown.bytes += sample.len() as u64;
                let taken = Arc::new(Taken::new(info.size, sample));
                if let Some(screen) = self.screen {
                    screen.show(taken.clone());
                }
                if let Some(output) = &mut self.output {
                    output.show(taken, unit.from_ns)?;
                }
            }
            shown.frames.push(frame);
        }
        // With sound it was worth playing.
        if shown.bytes == 0 && self.is_alone {
            return Err(PlayError::NothingDecoded {
                what: "picture",
                waited: self.start,
            });
        }
        self.see_the_last()
    }

    /// The last picture of a window stays as long as it lasts.
    fn see_the_last(&self) -> Result<(), PlayError> {
        let end_ns = movie::end_ns(&self.track.units);
        match self.screen {
            Some(_) => self.stage.wait_until(end_ns).map(drop),
            None => Ok(()),
        }
    }

    /// Waits for the picture of `number`, no longer than it is worth.
    fn turn(
        &mut self,
        number: u32,
        unit: &PlacedSample,
        arrivals: &mut Arrivals,
    ) -> Result<Turn, PlayError> {
        let stall_ns = i64::try_from(self.stall.as_nanos()).unwrap_or(i64::MAX);
        let begun = Instant::now();
        loop {
            self.stage.go_on()?;
            if let Some((info, sample)) = arrivals.early.take() {
                if info.tag.number == number {
                    return Ok(Turn::Picture(info, sample));
                }
                if info.tag.number > number {
                    arrivals.early = Some((info, sample));
                    return Ok(Turn::Missing);
                }
            }
            if arrivals.is_ended {
                return Ok(Turn::Missing);
            }
            if let Some(sample) = self.from_decoder.take(LOOK.min(self.stall))? {
                let missing = self.arrived(number, sample, arrivals)?;
                if missing == Some(number) {
                    return Ok(Turn::Missing);
                }
            }
            let worth_ns = if arrivals.is_away { 0 } else { stall_ns };
            let limit = unit.time_ns.saturating_add(worth_ns);
            let is_over = match self.stage.at() {
                Some(at) => at > limit,
                None => begun.elapsed() > self.start,
            };
            if arrivals.early.is_none() && is_over {
                arrivals.is_away = true;
                return Ok(Turn::Missing);
            }
        }
    }

    /// Sorts in what came while `turn` is to be shown; the number of a unit of which there is no
    /// picture.
    fn arrived(
        &self,
        turn: u32,
        sample: Decoded,
        arrivals: &mut Arrivals,
    ) -> Result<Option<u32>, PlayError> {
        let info = PictureInfo::of(sample.words);
        let UnitTag { pass, number } = info.tag;
        let unit = self.track.units.get(number as usize);
        if unit.is_none_or(|unit| unit.is_shown) {
            self.stage.picture_came();
        }
        self.stage.has_answered();
        if pass != self.stage.wanted().pass {
            // It is sent again.
            return Ok(None);
        }
        if let Some(reason) = info.hopeless() {
            return Err(PlayError::Undecodable { number, reason });
        }
        if sample.is_empty() {
            if self.is_forgotten(turn, info, arrivals) {
                return Ok(None);
            }
            arrivals.is_away = false;
            arrivals.is_ended = number == LAST_NUMBER;
            return Ok(Some(number));
        }
        if !info.is_picture_of(sample.len()) {
            return Err(PlayError::Mismatch {
                decoded: format!("{} bytes", sample.len()),
                expected: format!("a picture of {}x{}", info.size.0, info.size.1),
            });
        }
        // While a decoder that began anew catches up, nothing is to be seen of it.
        arrivals.are_sets_refused = false;
        if number >= turn {
            arrivals.is_away = false;
            arrivals.early = Some((info, sample));
        }
        Ok(None)
    }

    /// Has the decoder begun anew, so that this unit is sent again with those in front of it?
    fn is_forgotten(&self, turn: u32, info: PictureInfo, arrivals: &mut Arrivals) -> bool {
        if !info.lacks_sets() {
            return false;
        }
        let UnitTag { pass, number } = info.tag;
        let unit = self.track.units.get(number as usize);
        // It was sent with parameter sets.
        arrivals.are_sets_refused |= unit.is_some_and(|unit| unit.is_key);
        if !arrivals.are_sets_refused {
            self.stage.send_again(pass, turn);
        }
        !arrivals.are_sets_refused
    }

    /// When the file was read for this unit.
    fn read_ns(&self, number: u32) -> Option<u64> {
        let sent = locked(self.sent);
        // The last time that it was: not many are under way.
        let last = sent.iter().rev().find(|sent| sent.number == number)?;
        Some(last.read_ns)
    }
}

/// Units with their numbers, in the order in which they are shown.
fn in_order(units: &[PlacedSample]) -> impl Iterator<Item = (u32, &PlacedSample)> {
    let mut order: Vec<(u32, &PlacedSample)> = (0..).zip(units).collect();
    order.sort_by_key(|(number, unit)| (unit.time_ns, *number));
    order.into_iter()
}

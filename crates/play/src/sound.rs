//! Sound: takes what the core decoded, and writes it when it is to be heard. The clock follows it.

use std::ops::Range;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hythe::media::sink::Sink;
use hythe::media::source::mp4::movie::{self, AudioTrack, PlacedSample};
use hythe::rtp::unit::Unit;
use hythe_screen::Speaker;

use crate::error::PlayError;
use crate::method::{Decoded, Receiver};
use crate::pair::TrackPlayer;
use crate::ports::SoundInfo;
use crate::report::{Sent, Sound};
use crate::rtp::SoundQueue;
use crate::stage::{LOOK, Stage, locked};
use crate::viewer::{AHEAD_NS, queue};

/// Bytes of a sample of a channel.
const SAMPLE_BYTES: usize = 2;

/// Plays the sound of a movie.
pub(crate) struct SoundPlayer<'a> {
    pub(crate) stage: &'a Stage,
    pub(crate) track: &'a AudioTrack,
    pub(crate) from_decoder: Box<dyn Receiver>,
    pub(crate) sent: &'a Mutex<Vec<Sent>>,
    pub(crate) sink: Option<Box<dyn Sink + Send>>,
    /// The sound card; none from when it fails.
    pub(crate) speaker: Option<&'a Speaker>,
    pub(crate) stall: Duration,
    /// For the first block and picture, which the core decodes while it may still be starting.
    pub(crate) start: Duration,
    /// There are no pictures.
    pub(crate) is_alone: bool,
    /// The movie begins with sound.
    pub(crate) starts_clock: bool,
    /// The movie begins with a picture.
    pub(crate) waits_for_picture: bool,
    /// Where else it goes.
    pub(crate) rtp: Option<SoundQueue>,
}

impl TrackPlayer for SoundPlayer<'_> {
    type Played = Sound;

    fn play(&mut self) -> Result<Sound, PlayError> {
        let mut sound = Sound::new(self.track.header);
        let mut reached = 0;
        let done = self.play_all(&mut sound, &mut reached);
        self.stage.unless_closed(done)?;
        self.stage.with_clock(|clock, now_ns| {
            clock.let_go(now_ns);
            sound.stalls = clock.stalls;
        });
        sound.silent = reached - sound.blocks - sound.late;
        if let Some(sink) = &mut self.sink {
            sink.finish()?;
        }
        sound.wakes = self.from_decoder.wakes();
        sound.unsent = self.rtp.as_ref().map_or(0, SoundQueue::dropped);
        Ok(sound)
    }

    fn decoded(&mut self) -> &mut dyn Receiver {
        &mut *self.from_decoder
    }
}

impl SoundPlayer<'_> {
    /// Plays the blocks to the end of the track; `reached` is how many frames that were, those of
    /// which no block came included.
    fn play_all(&mut self, sound: &mut Sound, reached: &mut u64) -> Result<(), PlayError> {
        let mut first = None;
        if self.starts_clock {
            first = self.take(self.start)?;
            if first.is_none() && self.is_alone {
                return Err(PlayError::NothingDecoded {
                    what: "sound",
                    waited: self.start,
                });
            }
            let number = first.as_ref().map(|(number, _)| *number);
            let frame = number.map(|number| self.frame(number)).transpose()?;
            self.start_clock(frame.map(|frame| frame.end_ns))?;
        }
        let mut next = match first {
            Some(block) => Some(block),
            None => self.take_or_end(0)?,
        };
        while let Some((number, block)) = next {
            let frame = self.frame(number)?;
            self.play_block(&frame, block, sound)?;
            *reached = u64::from(number) + 1;
            next = self.take_or_end(number + 1)?;
        }
        *reached = self.track.frames.len() as u64;
        self.hear_the_last()
    }

    /// The sound card plays what it has.
    fn hear_the_last(&self) -> Result<(), PlayError> {
        let begun = Instant::now();
        let Some(speaker) = self.speaker else {
            return Ok(());
        };
        while !speaker.is_drained() && begun.elapsed() < self.stall {
            self.stage.go_on()?;
            std::thread::sleep(LOOK / 10);
        }
        Ok(())
    }

    /// Waits until there is a picture, too, as long as one may take. The clock then waits for the
    /// sound behind `end_ns`, if there is any: a free one could pass the first block, which may be
    /// a millisecond long.
    fn start_clock(&self, end_ns: Option<i64>) -> Result<(), PlayError> {
        let begun = Instant::now();
        while self.waits_for_picture && !self.stage.has_picture() && begun.elapsed() < self.start {
            self.stage.go_on()?;
            std::thread::sleep(LOOK / 10);
        }
        self.stage.with_clock(|clock, now_ns| {
            clock.start(now_ns);
            if let Some(end_ns) = end_ns {
                clock.extend(now_ns, end_ns.max(0));
            }
        });
        Ok(())
    }

    /// The next block, of `number` or behind it. The clock goes on without while none comes;
    /// `None`: none is left, or none came up to the end.
    fn take_or_end(&mut self, number: u32) -> Result<Option<(u32, Decoded)>, PlayError> {
        let rest = self.track.frames.get(number as usize..).unwrap_or_default();
        if rest.is_empty() {
            return Ok(None);
        }
        let end_ns = movie::end_ns(rest);
        let mut next = self.take(self.stall)?;
        if next.is_none() {
            self.stage.with_clock(|clock, now_ns| clock.let_go(now_ns));
        }
        while next.is_none() && self.stage.at().is_none_or(|at| at < end_ns) {
            next = self.take(LOOK)?;
        }
        Ok(next)
    }

    /// Waits for a block of samples, and says of which frame it is.
    fn take(&mut self, bound: Duration) -> Result<Option<(u32, Decoded)>, PlayError> {
        let begun = Instant::now();
        loop {
            self.stage.go_on()?;
            let Some(sample) = self.from_decoder.take(LOOK)? else {
                if begun.elapsed() >= bound {
                    return Ok(None);
                }
                continue;
            };
            self.stage.has_answered();
            let info = SoundInfo::of(sample.words);
            let Some(number) = self.number_of(info.sequence) else {
                let decoded = format!("frame {} of sound", info.sequence);
                let expected = "fewer that were sent".to_owned();
                return Err(PlayError::Mismatch { decoded, expected });
            };
            self.check(info, &sample)?;
            return Ok(Some((number, sample)));
        }
    }

    /// The core numbers what it takes; what was never sent has no number.
    fn number_of(&self, sequence: u32) -> Option<u32> {
        let sent = locked(self.sent);
        sent.get(sequence as usize).map(|sent| sent.number)
    }

    fn check(&self, info: SoundInfo, sample: &Decoded) -> Result<(), PlayError> {
        let header = self.track.header;
        let expected = (header.samples_per_second(), u32::from(header.channels()));
        if sample.is_empty() || (info.samples_per_second, info.channels) == expected {
            return Ok(());
        }
        let say = |(hz, channels): (u32, u32)| format!("{hz} Hz, {channels} channels");
        Err(PlayError::Mismatch {
            decoded: say((info.samples_per_second, info.channels)),
            expected: say(expected),
        })
    }

    fn frame(&self, number: u32) -> Result<PlacedSample, PlayError> {
        let frame = self.track.frames.get(number as usize).copied();
        frame.ok_or_else(|| PlayError::Mismatch {
            decoded: format!("frame {number} of sound"),
            expected: format!("{} frames", self.track.frames.len()),
        })
    }

    /// Waits until the block is to be heard, and writes it; one whose time is over is left out.
    fn play_block(
        &mut self,
        frame: &PlacedSample,
        block: Decoded,
        sound: &mut Sound,
    ) -> Result<(), PlayError> {
        if !frame.is_shown {
            sound.blocks += 1;
            sound.bytes += block.len() as u64;
            return Ok(());
        }
        let end_ns = frame.end_ns;
        if self.stage.at().is_some_and(|at| at > end_ns) && self.is_free() {
            sound.late += 1;
            return Ok(());
        }
        self.stage
            .with_clock(|clock, now_ns| clock.extend(now_ns, end_ns));
        let ahead_ns = self.speaker.map_or(0, |_| AHEAD_NS);
        self.stage.wait_until(frame.time_ns - ahead_ns)?;
        sound.blocks += 1;
        sound.bytes += block.len() as u64;
        self.write(frame, &block, sound)?;
        let (time, heard) = self.heard(frame, block.len());
        if let Some(queue) = &mut self.rtp
            && let Some(sample) = block.into_sample()
        {
            queue.push(sample, heard, time)?;
        }
        Ok(())
    }

    /// Has the clock been let go, so that it goes on without sound?
    fn is_free(&self) -> bool {
        self.stage.with_clock(|clock, _| clock.is_free())
    }

    /// From which sample of the movie on a frame is heard, and which of its `bytes` are: in front
    /// of the movie's start lies the encoder's delay, and an edit list cuts where it likes.
    fn heard(&self, frame: &PlacedSample, bytes: usize) -> (u64, Range<usize>) {
        let rate = i64::from(self.track.header.samples_per_second());
        let from = to_samples(frame.from_ns, rate);
        let behind = |ns: i64| {
            let samples = to_samples(ns, rate) - to_samples(frame.time_ns, rate);
            let samples = usize::try_from(samples).unwrap_or(0);
            samples.saturating_mul(self.sample_bytes()).min(bytes)
        };
        let end = match frame.is_shortened {
            true => behind(frame.end_ns),
            false => bytes,
        };
        (
            from.max(0).unsigned_abs(),
            behind(frame.from_ns).min(end)..end,
        )
    }

    /// Of all channels.
    fn sample_bytes(&self) -> usize {
        SAMPLE_BYTES * usize::from(self.track.header.channels())
    }

    fn write(
        &mut self,
        frame: &PlacedSample,
        block: &Decoded,
        sound: &mut Sound,
    ) -> Result<(), PlayError> {
        let (time, heard) = self.heard(frame, block.len());
        let sample_bytes = self.sample_bytes();
        let heard = block.bytes().get(heard).unwrap_or_default();
        if heard.is_empty() {
            return Ok(());
        }
        if let Some(speaker) = self.speaker {
            match queue(speaker, self.stage, heard, frame.end_ns) {
                true => {
                    sound.queued.0 += 1;
                    sound.queued.1 += heard.len() as u64;
                }
                false => self.speaker = None,
            }
        }
        let Some(sink) = &mut self.sink else {
            return Ok(());
        };
        let unit = Unit {
            pieces: &[heard],
            time,
            due: time,
            duration: (heard.len() / sample_bytes) as u32,
            is_start: true,
        };
        Ok(sink.take(&unit, false)?)
    }
}

/// The nearest sample.
fn to_samples(time_ns: i64, rate: i64) -> i64 {
    let scaled = i128::from(time_ns) * i128::from(rate);
    let nearest = (scaled + 500_000_000).div_euclid(1_000_000_000);
    i64::try_from(nearest).unwrap_or(i64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_those_of_the_nearest_sample() {
        // 1105 samples of delay at 44100 Hz, in whole nanoseconds.
        assert_eq!(to_samples(-25_056_689, 44_100), -1105);
        assert_eq!(to_samples(1_065_759, 44_100), 47);
        assert_eq!(to_samples(0, 44_100), 0);
    }
}

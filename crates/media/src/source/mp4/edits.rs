//! The time line of a track: which of its samples are shown, and when (edit lists, ISO/IEC
//! 14496-12, 8.6.6).
//!
//! An edit begins where it likes, but a decoder begins at a key frame. So what is decoded of an
//! edit begins at the key frame before it, and ends with the last sample that it shows. Samples in
//! between that it does not show are decoded only. They are placed as well, in order, but so close
//! together that nothing is seen of them: [`FINE`] times closer than they lie in the track, those
//! before the edit just in front of it, those behind it within its last frame.

use std::ops::Range;

use mp4_atom::{Elst, ElstEntry, Mvhd, Stss};

use super::boxes::{decode, descend};
use super::samples::{Sample, Samples};

/// More entries are refused: the tables of the track are walked for each.
const EDITS_MAX: usize = 256;
/// Places are given in this fraction of a tick.
pub(super) const FINE: u32 = 512;
/// Frames of MP3 in front of the first that is heard, from which it may take bits: each has 48
/// bytes or more, and at most 511 are taken (ISO/IEC 11172-3, 2.4.2.7).
const SOUND_BEFORE: usize = 10;

/// What a track has. A picture is shown whole or not at all, of a frame of sound a part is heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Medium {
    Picture,
    Sound,
}

/// A stretch of the track that is shown as it is, in ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Edit {
    /// In the track's own time.
    from: i64,
    /// `i64::MAX`: to its end.
    to: i64,
    /// When `from` is shown, from the movie's start.
    start: i64,
    /// No other begins where it ends, so that its last frame of sound may be heard to its end.
    is_last: bool,
}

/// When a sample is shown, from the movie's start, in [`FINE`] parts of ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Place {
    /// Where it begins.
    pub(super) time: i128,
    /// What is shown of it begins and ends here.
    pub(super) from: i128,
    pub(super) to: i128,
    /// Else it is only decoded.
    pub(super) is_shown: bool,
    /// Its end is cut away.
    pub(super) is_shortened: bool,
}

/// An edit, and what is decoded for it: numbers of samples, counted from 0.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Part {
    pub(super) edit: Edit,
    pub(super) samples: Range<usize>,
}

impl Edit {
    /// All of a track, in its own time.
    const WHOLE: Self = Self {
        from: i64::MIN,
        to: i64::MAX,
        start: i64::MIN,
        is_last: true,
    };

    /// When a sample is decoded.
    pub(super) fn decoded(&self, sample: &Sample) -> i128 {
        self.on_the_time_line(sample.decoded.into())
    }

    /// When a sample is shown.
    pub(super) fn place(&self, sample: &Sample, medium: Medium) -> Place {
        let begin = i128::from(sample.decoded) + i128::from(sample.composition);
        let end = begin + i128::from(sample.duration);
        let (from, to) = (i128::from(self.from), i128::from(self.to));
        let is_shown = match medium {
            Medium::Picture => begin >= from && begin < to,
            Medium::Sound => end > from && begin < to,
        };
        if !is_shown {
            let time = match begin < from {
                true => self.on_the_time_line(from) + (begin - from),
                // In front of those that the next edit needs.
                false => {
                    let apart = i128::from(sample.duration) * i128::from(FINE) * 3 / 4;
                    self.on_the_time_line(to) - apart + (begin - to)
                }
            };
            return Place {
                time,
                from: time,
                to: time,
                is_shown,
                is_shortened: false,
            };
        }
        let is_shortened = !self.is_last && end > to;
        let shown_to = if is_shortened { to } else { end };
        Place {
            time: self.on_the_time_line(begin),
            from: self.on_the_time_line(begin.max(from)),
            to: self.on_the_time_line(shown_to),
            is_shown,
            is_shortened,
        }
    }

    fn on_the_time_line(&self, time: i128) -> i128 {
        (time - i128::from(self.from) + i128::from(self.start)) * i128::from(FINE)
    }

    /// The same, later.
    fn shifted(self, ticks: i64) -> Self {
        Self {
            start: self.start + ticks,
            ..self
        }
    }

    /// The same to the end of the track.
    pub(super) fn unending(self) -> Self {
        Self {
            to: i64::MAX,
            is_last: true,
            ..self
        }
    }
}

/// What is decoded of a track of `timescale` ticks a second, in order. Walks its tables from their
/// start to their end, and leaves them where the first part begins.
///
/// Where most samples lie in fragments, behind the tables, all is decoded from the first edit on.
///
/// # Errors
///
/// Why its edit list cannot be followed.
pub(super) fn parts(
    trak: &[u8],
    moov: &[u8],
    timescale: u32,
    samples: &mut Samples,
    medium: Medium,
) -> Result<Vec<Part>, String> {
    let list = descend(trak, &[b"edts"]).and_then(|edts| decode::<Elst>(edts, b"elst"));
    let entries = list.map(|list| list.entries).unwrap_or_default();
    if entries.len() > EDITS_MAX {
        let count = entries.len();
        return Err(format!(
            "the edit list of a track has {count} entries, more than {EDITS_MAX}: \
             ffmpeg -i FILE OUT.mp4 writes a movie without"
        ));
    }
    let movie = decode::<Mvhd>(moov, b"mvhd").map(|header| header.timescale);
    let movie = i128::from(movie.filter(|scale| *scale > 0).unwrap_or(1000));
    let edits = follow(&entries, |time| {
        let scaled = i128::from(time) * i128::from(timescale);
        i64::try_from((scaled + movie / 2) / movie).unwrap_or(i64::MAX)
    });
    if descend(moov, &[b"mvex"]).is_some() {
        let edit = edits[0].unending();
        let samples = 0..usize::MAX;
        return Ok(vec![Part { edit, samples }]);
    }
    let keys = Keys::new(trak);
    let parts = needed(edits, samples, &keys, medium);
    samples.seek(parts.first().map_or(0, |part| part.samples.start));
    Ok(parts)
}

/// `ticks` makes those of the track of those of the movie.
fn follow(entries: &[ElstEntry], ticks: impl Fn(u64) -> i64) -> Vec<Edit> {
    let mut edits: Vec<Edit> = Vec::new();
    let mut start = 0_i64;
    let last = entries.len().saturating_sub(1);
    for (number, entry) in entries.iter().enumerate() {
        let length = match ticks(entry.segment_duration) {
            0 if number == last => i64::MAX,
            length => length,
        };
        if let Some(from) = entry.media_time {
            let from = i64::try_from(from).unwrap_or(i64::MAX);
            edits.push(Edit {
                from,
                to: from.saturating_add(length),
                start,
                is_last: false,
            });
        }
        start = start.saturating_add(length);
    }
    edits.retain(|edit| edit.from < edit.to);
    if edits.is_empty() {
        let shift = if start == i64::MAX { 0 } else { start };
        return vec![Edit::WHOLE.shifted(shift)];
    }
    if let Some(edit) = edits.last_mut() {
        edit.is_last = true;
    }
    edits
}

/// What is decoded for each edit that shows anything.
fn needed(edits: Vec<Edit>, samples: &mut Samples, keys: &Keys, medium: Medium) -> Vec<Part> {
    let mut found: Vec<_> = edits.iter().map(|_| Found::default()).collect();
    samples.seek(0);
    loop {
        let number = samples.number();
        let Some(sample) = samples.next() else {
            break;
        };
        for (edit, found) in edits.iter().zip(&mut found) {
            found.look(edit, number, &sample, keys.has(number), medium);
        }
    }
    let parts = edits.into_iter().zip(found).filter_map(|(edit, found)| {
        let samples = found.samples(medium)?;
        Some(Part { edit, samples })
    });
    parts.collect()
}

/// The key frames of a track. Without a table each sample is one (8.6.2).
pub(super) struct Keys(Option<Vec<u32>>);

impl Keys {
    pub(super) fn new(trak: &[u8]) -> Self {
        let stbl = descend(trak, &[b"mdia", b"minf", b"stbl"]).unwrap_or_default();
        let mut keys = decode::<Stss>(stbl, b"stss").map(|table| table.entries);
        if let Some(keys) = &mut keys {
            keys.sort_unstable();
        }
        Self(keys)
    }

    /// Is the sample of this number, counted from 0, a key frame?
    pub(super) fn has(&self, number: usize) -> bool {
        let Some(keys) = &self.0 else {
            return true;
        };
        u32::try_from(number + 1).is_ok_and(|number| keys.binary_search(&number).is_ok())
    }
}

/// Which samples an edit needs, as far as the tables are walked.
#[derive(Default)]
struct Found {
    /// The last key frame that is shown up to the edit's start.
    before: Option<usize>,
    /// The last key frame in front of the first sample that is shown, in decoding order.
    key: Option<usize>,
    first: Option<usize>,
    last: usize,
}

impl Found {
    fn look(&mut self, edit: &Edit, number: usize, sample: &Sample, is_key: bool, medium: Medium) {
        let begin = i128::from(sample.decoded) + i128::from(sample.composition);
        if is_key && self.first.is_none() {
            self.key = Some(number);
        }
        // A picture may be shown before the key frame that it is decoded behind.
        if is_key && begin <= i128::from(edit.from) {
            self.before = Some(number);
        }
        if edit.place(sample, medium).is_shown {
            self.first.get_or_insert(number);
            self.last = number;
        }
    }

    fn samples(&self, medium: Medium) -> Option<Range<usize>> {
        let first = self.first?;
        let begin = match medium {
            Medium::Picture => {
                let key = self.before.filter(|key| *key <= first).or(self.key);
                key.unwrap_or(first)
            }
            Medium::Sound => first.saturating_sub(SOUND_BEFORE),
        };
        Some(begin..self.last + 1)
    }
}

#[cfg(test)]
mod tests {
    use mp4_atom::FixedPoint;

    use super::*;

    /// In thousandths of a second, as the track is here.
    fn entry(length: u64, from: Option<u64>) -> ElstEntry {
        ElstEntry {
            segment_duration: length,
            media_time: from,
            media_rate: FixedPoint::new(1, 0),
        }
    }

    fn list(entries: &[ElstEntry]) -> Vec<Edit> {
        follow(entries, |time| i64::try_from(time).unwrap())
    }

    fn sample(decoded: u64, duration: u32) -> Sample {
        Sample {
            decoded,
            duration,
            ..Sample::default()
        }
    }

    /// Begin and end of what is shown.
    fn shown(edit: &Edit, sample: &Sample, medium: Medium) -> Option<(i128, i128)> {
        let place = edit.place(sample, medium);
        let fine = i128::from(FINE);
        place
            .is_shown
            .then_some((place.from / fine, place.to / fine))
    }

    #[test]
    fn without_an_edit_list_all_is_shown_at_its_own_time() {
        for (edits, shift) in [
            (list(&[]), 0),
            (list(&[entry(70, None)]), 70),
            (list(&[entry(0, Some(5)), entry(70, None)]), 70),
        ] {
            assert_eq!(edits.len(), 1);
            let found = shown(&edits[0], &sample(30, 10), Medium::Picture);
            assert_eq!(found, Some((30 + shift, 40 + shift)));
        }
        let early = Sample {
            composition: -4,
            ..sample(0, 10)
        };
        let found = shown(&list(&[])[0], &early, Medium::Picture);
        assert_eq!(found, Some((-4, 6)));
    }

    #[test]
    fn adjacent_edits_have_no_gap() {
        let edits = list(&[
            entry(40, None),
            entry(100, Some(500)),
            entry(60, None),
            entry(0, Some(20)),
        ]);
        let starts: Vec<_> = edits.iter().map(|edit| (edit.from, edit.start)).collect();
        assert_eq!(starts, [(500, 40), (20, 200)]);
        let at = |edit: usize, time| shown(&edits[edit], &sample(time, 10), Medium::Picture);
        assert_eq!(at(0, 500), Some((40, 50)));
        assert_eq!(at(0, 590), Some((130, 140)));
        assert_eq!((at(0, 499), at(0, 600)), (None, None));
        assert_eq!(at(1, 1 << 40), Some(((1 << 40) + 180, (1 << 40) + 190)));
    }

    #[test]
    fn of_sound_a_part_is_heard_where_an_edit_cuts() {
        let edits = list(&[entry(100, Some(505)), entry(100, Some(5))]);
        let at = |edit: usize, time| shown(&edits[edit], &sample(time, 10), Medium::Sound);
        assert_eq!((at(0, 490), at(0, 500)), (None, Some((0, 5))));
        assert_eq!(at(0, 600), Some((95, 100)), "the next begins there");
        assert_eq!(at(1, 100), Some((195, 205)), "whole behind the last");
        let picture = shown(&edits[0], &sample(500, 10), Medium::Picture);
        assert_eq!(picture, None, "a picture is whole or not there");
    }

    #[test]
    fn what_is_only_decoded_stands_in_order_between_what_is_shown() {
        let edits = list(&[entry(100, Some(0)), entry(100, Some(1000))]);
        let time = |edit: usize, time| {
            let place = edits[edit].place(&sample(time, 10), Medium::Picture);
            (place.time, place.is_shown)
        };
        let last = time(0, 90);
        let behind = [time(0, 100), time(0, 140)];
        let before = [time(1, 0), time(1, 990)];
        let next = time(1, 1000);
        let all = [[last].as_slice(), &behind, &before, &[next]].concat();
        assert!(all.is_sorted_by(|a, b| a.0 < b.0), "{all:?}");
        let are_shown: Vec<_> = all.iter().map(|(_, is_shown)| *is_shown).collect();
        assert_eq!(are_shown, [true, false, false, false, false, true]);
    }
}

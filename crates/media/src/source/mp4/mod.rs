//! H.264 and H.265 in MP4 and MOV (ISO/IEC 14496-12 and -15): tracks of `avc1`, `avc3`, `hvc1` and
//! `hev1`, also in fragments.
//!
//! Decoding times say when a unit is due, composition offsets and the edit list when it is shown.
//! What an edit list cuts away is not sent, but for what decoding needs between a key frame and the
//! cut: such units go out at once, and are shown for an instant by who receives them. Parameter
//! sets of the sample description go in front of each key frame that has none. One track is read;
//! others of picture or sound are named as left out.
//!
//! The index (`moov`) is read whole, up to [`MOOV_BYTES_MAX`]; samples are read one at a time, each
//! at its place: the input has to be a file. Nothing is allocated that is longer than the file.

mod boxes;
mod edits;
mod fragments;
pub mod movie;
mod samples;
mod track;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::os::unix::fs::FileExt;
use std::path::{Path, PathBuf};

use hythe_rtp::format::StreamFormat;
use hythe_rtp::unit::Unit;
use hythe_rtp::video::units::{NALS_MAX, UNIT_BYTES_MAX, with_pieces};
use hythe_rtp::video::{CLOCK_HZ, Role, parameters};
use hythe_sys::regular_file::open_regular;

use self::boxes::{file_box, read_body};
use self::edits::{Edit, FINE, Medium};
use self::fragments::Fragments;
use self::samples::Sample;
use self::track::{Description, Track};
use super::Source;
use super::pieces::Pieces;
use crate::MediaError;

/// Longest index: 24 bytes for each frame of twelve hours at 60 frames.
pub const MOOV_BYTES_MAX: u64 = 64 << 20;
/// So many samples without a NAL unit in a row, and the file is given up.
const DAMAGED_IN_A_ROW_MAX: u64 = 1000;

/// A movie, opened.
pub struct Mp4 {
    path: PathBuf,
    file: File,
    file_bytes: u64,
    track: Track,
    /// Other tracks of picture or sound.
    left_out: Vec<String>,
    /// `None` where the movie has no fragments, or no more.
    fragments: Option<Fragments>,
    format: StreamFormat,
    /// Which of the track's parts is before us.
    part: usize,
    /// Added to times, so that sending begins at 0 and none is negative; as places are given.
    /// `None`: the first sample says it.
    lead: Option<i128>,
    /// The least time from decoding to presentation, where that is negative.
    composition_min: i64,
    due: u64,
    /// The description whose parameter sets were sent.
    described: Option<u32>,
    sample: Vec<u8>,
    nals: Vec<Range<usize>>,
    pieces: Pieces,
    damaged: u64,
}

/// Opens a movie and reads its index.
///
/// # Errors
///
/// [`MediaError::File`], also if it is no regular file; [`MediaError::Input`] if it is no movie, or
/// has no track of H.264 or H.265.
pub fn open(path: &Path) -> Result<Mp4, MediaError> {
    let failed = |source| file_error("open", path, source);
    let file = open_regular(path).map_err(failed)?;
    let file_bytes = file.metadata().map_err(failed)?.len();
    let (moov, moov_end) = read_moov(&file, path, file_bytes)?;
    let mut track = track::find(&moov).map_err(|reason| input_error(path, 0, &reason))?;
    let mut fragments = Fragments::new(&moov, track.id, moov_end, track.samples.decoded());
    let has_fragments = boxes::descend(&moov, &[b"mvex"]).is_some()
        && fragments.read_fragment(&file, file_bytes).map_err(failed)?;
    let least = track
        .samples
        .composition_min()
        .min(fragments.composition_min());
    let composition_min = least.min(0);
    let lead = match has_fragments {
        true => None,
        false => lead(&mut track, composition_min),
    };
    let sets = track
        .descriptions
        .iter()
        .flatten()
        .next()
        .map(|first| first.sets.as_slice());
    Ok(Mp4 {
        path: path.to_path_buf(),
        file,
        file_bytes,
        fragments: has_fragments.then_some(fragments),
        left_out: track::others(&moov, track.id),
        format: parameters::format(track.codec, sets.unwrap_or_default()),
        track,
        part: 0,
        lead,
        composition_min,
        due: 0,
        described: None,
        sample: Vec::new(),
        nals: Vec::new(),
        pieces: Pieces::default(),
        damaged: 0,
    })
}

/// The body of `moov` and where it ends.
fn read_moov(file: &File, path: &Path, file_bytes: u64) -> Result<(Vec<u8>, u64), MediaError> {
    let failed = |source| file_error("read", path, source);
    let mut position = 0;
    while let Some(found) = file_box(file, position, file_bytes).map_err(failed)? {
        position = found.body.end;
        if &found.kind == b"moov" {
            let moov = read_body(file, &found, MOOV_BYTES_MAX).map_err(failed)?;
            let too_long =
                || input_error(path, found.start, "its index (moov) has more than 64 MiB");
            return Ok((moov.ok_or_else(too_long)?, position));
        }
    }
    let reason = "no index (moov): it is no MP4 or MOV file, or its recording was cut short";
    Err(input_error(path, position, reason))
}

fn file_error(what: &'static str, path: &Path, source: io::Error) -> MediaError {
    let path = path.to_path_buf();
    MediaError::File { what, path, source }
}

fn input_error(path: &Path, position: u64, reason: &str) -> MediaError {
    MediaError::Input {
        input: path.display().to_string(),
        position,
        reason: reason.to_owned(),
    }
}

/// What is added to times so that the first unit that is shown is due at 0, and nothing before.
/// Leaves the tables where they were.
fn lead(track: &mut Track, composition_min: i64) -> Option<i128> {
    let part = track.parts.first()?;
    let mut lead = i128::MIN;
    for _ in part.samples.clone() {
        let Some(sample) = track.samples.next() else {
            break;
        };
        let place = part.edit.place(&sample, Medium::Picture);
        lead = lead.max(-place.time);
        if place.is_shown {
            lead = lead.max(-earliest(&part.edit, &sample, composition_min));
            break;
        }
    }
    track.samples.seek(part.samples.start);
    (lead != i128::MIN).then_some(lead)
}

/// When a sample is decoded; or shown, were that as long before as of any sample.
fn earliest(edit: &Edit, sample: &Sample, composition_min: i64) -> i128 {
    edit.decoded(sample) + i128::from(composition_min) * i128::from(FINE)
}

impl Mp4 {
    /// The next sample, and the edit that it is decoded for.
    fn next_sample(&mut self) -> Result<Option<(Sample, Edit)>, MediaError> {
        let samples = &mut self.track.samples;
        while let Some(part) = self.track.parts.get(self.part) {
            if samples.number() < part.samples.end
                && let Some(sample) = samples.next()
            {
                return Ok(Some((sample, part.edit)));
            }
            if self.fragments.is_some() {
                break;
            }
            self.part += 1;
            if let Some(next) = self.track.parts.get(self.part) {
                samples.seek(next.samples.start);
            }
        }
        while let Some(fragments) = &mut self.fragments {
            let edit = self.track.parts.first().map(|part| part.edit);
            if let Some(sample) = edit.and_then(|edit| Some((fragments.next()?, edit))) {
                return Ok(Some(sample));
            }
            let read = fragments.read_fragment(&self.file, self.file_bytes);
            if !read.map_err(|source| file_error("read", &self.path, source))? {
                self.fragments = None;
            }
        }
        Ok(None)
    }

    /// Reads a sample and finds its NAL units; `false`: it has none, or lies outside the file.
    fn read(&mut self, sample: &Sample) -> Result<bool, MediaError> {
        self.nals.clear();
        let end = sample.offset.saturating_add(sample.bytes.into());
        let bytes = sample.bytes as usize;
        let Some(description) = described(&self.track, sample) else {
            return Ok(false);
        };
        if bytes > UNIT_BYTES_MAX || end > self.file_bytes {
            return Ok(false);
        }
        self.sample.resize(bytes, 0);
        let read = self.file.read_exact_at(&mut self.sample, sample.offset);
        read.map_err(|source| file_error("read", &self.path, source))?;
        let is_whole = split(description, &self.sample, &mut self.nals);
        self.damaged += u64::from(!is_whole && !self.nals.is_empty());
        Ok(!self.nals.is_empty())
    }

    fn unit(&mut self, sample: &Sample, edit: &Edit) -> Unit<'_> {
        let codec = self.track.codec;
        let first = || -earliest(edit, sample, self.composition_min);
        let lead = *self.lead.get_or_insert_with(first);
        let place = edit.place(sample, Medium::Picture);
        let fine = u64::from(self.track.timescale) * u64::from(FINE);
        // What is only decoded goes at once.
        if place.is_shown {
            let due = earliest(edit, sample, self.composition_min) + lead;
            self.due = self.due.max(ticks(due, fine));
        }
        let nals = self.nals.iter().map(|range| &self.sample[range.clone()]);
        let is_start = nals.clone().any(|nal| codec.is_start(nal));
        let is_described = self.described.replace(sample.description) == Some(sample.description);
        let sets = match described(&self.track, sample) {
            Some(description) if is_start || !is_described => description.sets.as_slice(),
            _ => &[],
        };
        Unit {
            pieces: with_pieces(codec, sets, nals, |nals| self.pieces.list(nals)),
            time: ticks(place.time + lead, fine),
            due: self.due,
            duration: u32::try_from(ticks(place.to - place.from, fine)).unwrap_or(0),
            is_start,
        }
    }
}

/// Ticks of a time scale as ticks of the RTP clock.
fn ticks(time: i128, timescale: u64) -> u64 {
    let scaled = time.max(0) * i128::from(CLOCK_HZ) / i128::from(timescale);
    u64::try_from(scaled).unwrap_or(u64::MAX)
}

fn described<'t>(track: &'t Track, sample: &Sample) -> Option<&'t Description> {
    let index = (sample.description as usize).checked_sub(1)?;
    track.descriptions.get(index)?.as_ref()
}

/// Finds the NAL units of a sample (ISO/IEC 14496-15, section 5.3.4.2); `false` if something had to
/// be left out.
fn split(description: &Description, sample: &[u8], nals: &mut Vec<Range<usize>>) -> bool {
    let Description {
        codec,
        length_bytes,
        ..
    } = *description;
    let mut at = 0;
    let mut is_whole = true;
    while at < sample.len() {
        let Some((length, behind)) = sample[at..].split_at_checked(length_bytes) else {
            return false;
        };
        let length = length
            .iter()
            .fold(0, |length, byte| length << 8 | usize::from(*byte));
        if length > behind.len() || nals.len() == NALS_MAX {
            return false;
        }
        let nal = at + length_bytes..at + length_bytes + length;
        at = nal.end;
        match codec.role(&sample[nal.clone()]) {
            Role::Unspecified => is_whole = false,
            _ => nals.push(nal),
        }
    }
    is_whole
}

impl Source for Mp4 {
    fn format(&self) -> &StreamFormat {
        &self.format
    }

    fn next(&mut self) -> Result<Option<Unit<'_>>, MediaError> {
        let mut in_a_row = 0;
        while let Some((sample, edit)) = self.next_sample()? {
            if self.read(&sample)? {
                return Ok(Some(self.unit(&sample, &edit)));
            }
            self.damaged += 1;
            in_a_row += 1;
            if in_a_row > DAMAGED_IN_A_ROW_MAX {
                let reason = "1,000 samples in a row lie outside the file or hold no NAL unit: it is damaged, or was cut short";
                return Err(input_error(&self.path, sample.offset, reason));
            }
        }
        Ok(None)
    }

    fn left_out(&self) -> &[String] {
        &self.left_out
    }

    fn damaged(&self) -> u64 {
        self.damaged
    }
}

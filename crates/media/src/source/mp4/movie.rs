//! A movie for a player: the places and times of all samples of its H.264 picture and MP3 sound.
//!
//! [`Mp4`](super::Mp4) is what is sent: one track, units read into memory of its own. A player
//! reads both tracks straight into slots, so it is told where samples lie and reads them itself.
//! Edit lists are followed; the movie begins with whatever is shown or heard first. Movies in
//! fragments are refused.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use hythe_rtp::mpeg_audio::{Header, Layer};
use hythe_rtp::video::Codec;
use hythe_sys::regular_file::open_regular;
use mp4_atom::{Esds, Mdhd, Stts, SttsEntry};

use super::boxes::{Kind, children, decode, descend};
use super::edits::{self, FINE, Keys, Medium};
use super::samples::Samples;
use super::track::{self, Description, STSD_BYTES};
use super::{file_error, input_error, read_moov};
use crate::MediaError;

/// Samples of a track: a day and a half of 30 frames a second.
pub const SAMPLES_MAX: usize = 1 << 22;
/// Frames of a duration that fewer than one in so many have do not make the frame rate.
const EXCEPTION: u64 = 20;
/// No screen shows more.
const FRAME_RATE_MAX: u32 = 240;
/// Of the length in front of each NAL unit: as long as a start code, which takes its place.
const LENGTH_BYTES: usize = 4;
/// Bytes of an audio sample entry in front of its boxes (ISO/IEC 14496-12, 12.2.3), and what
/// QuickTime's version 1 adds.
const AUDIO_ENTRY_BYTES: usize = 28;
const QUICKTIME_ENTRY_BYTES: usize = 16;
/// `profile_idc` of Baseline; and `constraint_set0_flag`: a stream of another profile that a
/// decoder of Baseline decodes, too (ISO/IEC 14496-10, 7.4.2.1.1).
const BASELINE: u8 = 66;
const FITS_BASELINE: u8 = 0x80;
/// What makes a movie that can be played of any other.
const CONVERT: &str = "ffmpeg -i FILE -c:v libx264 -profile:v baseline -pix_fmt yuv420p \
                       -c:a libmp3lame OUT.mp4 converts it";

/// A movie, opened, with the index of what can be played.
#[derive(Debug)]
pub struct Movie {
    /// The file.
    pub file: File,
    /// The picture, if there is any.
    pub video: Option<VideoTrack>,
    /// The sound, if there is any.
    pub audio: Option<AudioTrack>,
}

/// H.264, Constrained Baseline or Baseline, with four bytes of length in front of each NAL unit.
#[derive(Debug)]
pub struct VideoTrack {
    /// Sequence and picture parameter sets, for the front of each key frame.
    pub sets: Vec<Vec<u8>>,
    /// Frames in so many seconds, by the duration of the shortest that are no exception.
    pub frame_rate: (u32, u32),
    /// In the order in which they are decoded, which is that of the edit list.
    pub units: Vec<PlacedSample>,
}

/// MP3.
#[derive(Debug)]
pub struct AudioTrack {
    /// Of the first frame; all others should have its rate and channels.
    pub header: Header,
    /// In order.
    pub frames: Vec<PlacedSample>,
}

/// Where a sample lies and when it is shown or heard.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PlacedSample {
    /// In the file, whole.
    pub offset: u64,
    /// Never 0.
    pub bytes: u32,
    /// From the movie's start, in nanoseconds; also less than 0.
    pub time_ns: i64,
    /// What is shown or heard of it begins here and ends at [`Self::end_ns`]: of sound, the edit
    /// list may cut a part away.
    pub from_ns: i64,
    /// From the movie's start, in nanoseconds.
    pub end_ns: i64,
    /// Else the edit list cuts it away, and it is decoded for others.
    pub is_shown: bool,
    /// The edit list cuts its end away. Else it may be longer than the movie says, as the last
    /// frame of sound often is.
    pub is_shortened: bool,
    /// Decoding may begin here.
    pub is_key: bool,
}

/// When the first of these is shown or heard.
#[must_use]
pub fn first_ns(samples: &[PlacedSample]) -> i64 {
    let shown = samples.iter().filter(|sample| sample.is_shown);
    shown.map(|sample| sample.from_ns).min().unwrap_or(0)
}

/// When the last of these is over.
#[must_use]
pub fn end_ns(samples: &[PlacedSample]) -> i64 {
    let ends = samples.iter().map(|sample| sample.end_ns);
    ends.max().unwrap_or(0)
}

impl Movie {
    /// Opens a movie and reads its index.
    ///
    /// # Errors
    ///
    /// [`MediaError::File`], also if it is no regular file; [`MediaError::Input`] if it is no
    /// movie, was cut short, or has picture or sound of another codec, which is named with what
    /// converts it.
    pub fn open(path: &Path) -> Result<Self, MediaError> {
        let failed = |source| file_error("open", path, source);
        let file = open_regular(path).map_err(failed)?;
        let file_bytes = file.metadata().map_err(failed)?.len();
        if file_bytes == 0 {
            return Err(input_error(path, 0, "the file is empty"));
        }
        let (moov, _) = read_moov(&file, path, file_bytes)?;
        let refused = |reason: String| input_error(path, 0, &reason);
        if descend(&moov, &[b"mvex"]).is_some() {
            let how = "the movie is in fragments, which are not played: \
                       ffmpeg -i FILE -c copy OUT.mp4 puts them together";
            return Err(refused(how.to_owned()));
        }
        let tracks = Tracks::find(&moov).map_err(refused)?;
        let placed =
            |trak: &[u8], medium: Medium| place(trak, &moov, medium, file_bytes).map_err(refused);
        let video = tracks.video.map(|(trak, sets)| {
            Ok::<_, MediaError>(VideoTrack {
                sets,
                frame_rate: frame_rate(trak),
                units: placed(trak, Medium::Picture)?,
            })
        });
        let audio = tracks.audio.map(|trak| {
            let frames = placed(trak, Medium::Sound)?;
            let header = first_header(&file, path, &frames)?;
            Ok::<_, MediaError>(AudioTrack { header, frames })
        });
        let mut movie = Self {
            file,
            video: video.transpose()?,
            audio: audio.transpose()?,
        };
        movie.begin_at_once();
        Ok(movie)
    }

    /// Moves all times so that the first that is shown or heard is 0.
    fn begin_at_once(&mut self) {
        let video = self.video.as_mut().map(|track| &mut track.units);
        let audio = self.audio.as_mut().map(|track| &mut track.frames);
        let mut tracks: Vec<_> = video.into_iter().chain(audio).collect();
        let begin_ns = tracks.iter().map(|samples| first_ns(samples)).min();
        let begin_ns = begin_ns.unwrap_or(0);
        for sample in tracks.iter_mut().flat_map(|samples| samples.iter_mut()) {
            for time_ns in [&mut sample.time_ns, &mut sample.from_ns, &mut sample.end_ns] {
                *time_ns = time_ns.saturating_sub(begin_ns);
            }
        }
    }
}

/// The first track of picture and of sound.
#[derive(Default)]
struct Tracks<'m> {
    video: Option<(&'m [u8], Vec<Vec<u8>>)>,
    audio: Option<&'m [u8]>,
}

impl<'m> Tracks<'m> {
    fn find(moov: &'m [u8]) -> Result<Self, String> {
        let mut found = Self::default();
        for (_, trak) in children(moov).filter(|(kind, _)| kind == b"trak") {
            let entry = descend(trak, &[b"mdia", b"minf", b"stbl", b"stsd"])
                .and_then(|stsd| children(stsd.get(STSD_BYTES..)?).next());
            match (track::handler(trak), entry) {
                (Some(b"vide"), Some((kind, entry))) if found.video.is_none() => {
                    found.video = Some((trak, parameter_sets(&kind, entry)?));
                }
                (Some(b"soun"), Some((kind, entry))) if found.audio.is_none() => {
                    expect_mp3(&kind, entry)?;
                    found.audio = Some(trak);
                }
                _ => {}
            }
        }
        match (&found.video, &found.audio) {
            (None, None) => Err(format!("it has neither picture nor sound; {CONVERT}")),
            _ => Ok(found),
        }
    }
}

/// Of a track that can be decoded.
fn parameter_sets(kind: &Kind, entry: &[u8]) -> Result<Vec<Vec<u8>>, String> {
    let other = |what: String| format!("its picture is {what}, not H.264 Baseline; {CONVERT}");
    let Some(Description {
        codec: Codec::H264,
        length_bytes,
        sets,
    }) = track::description(kind, entry)
    else {
        return Err(other(kind.escape_ascii().to_string()));
    };
    let profile = sets
        .iter()
        .find_map(|set| Some((*set.get(1)?, *set.get(2)?)));
    match profile {
        Some((BASELINE, _)) => {}
        Some((_, constraints)) if constraints & FITS_BASELINE != 0 => {}
        Some((profile, _)) => return Err(other(format!("H.264 of profile {profile}"))),
        None => return Err(other("H.264 without parameter sets".to_owned())),
    }
    if length_bytes != LENGTH_BYTES {
        return Err(format!(
            "its NAL units have {length_bytes} bytes of length in front, not {LENGTH_BYTES}: \
             ffmpeg -i FILE -c copy OUT.mp4 writes them so"
        ));
    }
    Ok(sets)
}

fn expect_mp3(kind: &Kind, entry: &[u8]) -> Result<(), String> {
    let version = entry.get(8..10).unwrap_or_default();
    let boxes = match version {
        [0, 1] => AUDIO_ENTRY_BYTES + QUICKTIME_ENTRY_BYTES,
        _ => AUDIO_ENTRY_BYTES,
    };
    let object_type = || {
        let esds = decode::<Esds>(entry.get(boxes..)?, b"esds")?;
        Some(esds.es_desc.dec_config.object_type_indication)
    };
    let other = match (kind, object_type()) {
        // MPEG-2 and MPEG-1 audio (registered at mp4ra.org); which layer is seen in the frames.
        (b".mp3", _) | (b"mp4a", Some(0x69 | 0x6b)) => return Ok(()),
        (b"mp4a", Some(0x40 | 0x66..=0x68)) => "AAC".to_owned(),
        (kind, _) => kind.escape_ascii().to_string(),
    };
    Err(format!("its sound is {other}, not MP3; {CONVERT}"))
}

/// The samples of a track that are decoded, each whole within the file.
fn place(
    trak: &[u8],
    moov: &[u8],
    medium: Medium,
    file_bytes: u64,
) -> Result<Vec<PlacedSample>, String> {
    let unreadable = || "a track has no time scale or no table of samples".to_owned();
    let mdia = descend(trak, &[b"mdia"]).ok_or_else(unreadable)?;
    let stbl = descend(mdia, &[b"minf", b"stbl"]).ok_or_else(unreadable)?;
    let header = decode::<Mdhd>(mdia, b"mdhd").filter(|header| header.timescale > 0);
    let timescale = header.ok_or_else(unreadable)?.timescale;
    let mut samples = Samples::new(stbl);
    if samples.next().is_none() {
        return Err("a track has no samples".to_owned());
    }
    let keys = Keys::new(trak);
    let mut placed = Vec::new();
    for part in edits::parts(trak, moov, timescale, &mut samples, medium)? {
        samples.seek(part.samples.start);
        for number in part.samples {
            let Some(sample) = samples.next() else {
                break;
            };
            let end = sample.offset.saturating_add(sample.bytes.into());
            if sample.bytes == 0 || end > file_bytes {
                return Err(format!(
                    "sample {} of a track lies at {}..{end} of {file_bytes} bytes: \
                     the file is damaged, or was cut short",
                    number + 1,
                    sample.offset
                ));
            }
            if placed.len() == SAMPLES_MAX {
                return Err(format!("a track has more than {SAMPLES_MAX} samples"));
            }
            let place = part.edit.place(&sample, medium);
            let ns = |fine| nanoseconds(fine, timescale);
            placed.push(PlacedSample {
                offset: sample.offset,
                bytes: sample.bytes,
                time_ns: ns(place.time),
                from_ns: ns(place.from),
                end_ns: ns(place.to),
                is_shown: place.is_shown,
                is_shortened: place.is_shortened,
                is_key: keys.has(number),
            });
        }
    }
    match placed.is_empty() {
        true => Err("the edit list of a track shows nothing of it".to_owned()),
        false => Ok(placed),
    }
}

/// Of a place on the time line.
fn nanoseconds(fine: i128, timescale: u32) -> i64 {
    let second = i128::from(timescale) * i128::from(FINE);
    let ns = fine.saturating_mul(1_000_000_000) / second;
    i64::try_from(ns).unwrap_or(i64::MAX)
}

/// In lowest terms; 1 frame a second where the track does not say. Where frames differ, that of the
/// shortest of which there is more than one in [`EXCEPTION`].
fn frame_rate(trak: &[u8]) -> (u32, u32) {
    let mdia = descend(trak, &[b"mdia"]).unwrap_or_default();
    let stbl = descend(mdia, &[b"minf", b"stbl"]).unwrap_or_default();
    let timescale = decode::<Mdhd>(mdia, b"mdhd").map_or(0, |header| header.timescale);
    let times = decode::<Stts>(stbl, b"stts").map(|table| table.entries);
    let duration = usual_shortest(times.unwrap_or_default());
    if timescale == 0 || duration == 0 {
        return (1, 1);
    }
    if timescale / duration > FRAME_RATE_MAX {
        return (FRAME_RATE_MAX, 1);
    }
    let (mut divisor, mut rest) = (timescale, duration);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    (timescale / divisor, duration / divisor)
}

/// The shortest duration but for exceptions; 0: there is none.
fn usual_shortest(mut times: Vec<SttsEntry>) -> u32 {
    times.retain(|entry| entry.sample_delta > 0);
    times.sort_unstable_by_key(|entry| entry.sample_delta);
    let count: u64 = times
        .iter()
        .map(|entry| u64::from(entry.sample_count))
        .sum();
    let runs = times.chunk_by(|a, b| a.sample_delta == b.sample_delta);
    let mut durations = runs.map(|run| {
        let alike: u64 = run.iter().map(|entry| u64::from(entry.sample_count)).sum();
        (run[0].sample_delta, alike)
    });
    let usual = durations.find(|(_, alike)| alike * EXCEPTION >= count);
    usual.map_or(0, |(duration, _)| duration)
}

fn first_header(file: &File, path: &Path, frames: &[PlacedSample]) -> Result<Header, MediaError> {
    let mut bytes = [0; 4];
    let first = frames.first().map_or(0, |frame| frame.offset);
    let read = file.read_exact_at(&mut bytes, first);
    read.map_err(|source| file_error("read", path, source))?;
    let header = Header::parse(&bytes).filter(|header| header.layer() == Layer::Three);
    header.ok_or_else(|| {
        let reason = format!("its sound begins with no frame of MP3; {CONVERT}");
        input_error(path, first, &reason)
    })
}

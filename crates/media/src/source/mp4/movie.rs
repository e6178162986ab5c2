//! A movie for a player: the places and times of all samples of its H.264 picture and MP3 sound.
//!
//! [`Mp4`](super::Mp4) is what is sent: one track, units read into memory of its own. A player
//! reads both tracks straight into slots, so it is told where samples lie and reads them itself.
//! Edit lists are followed as far as they shift a track's start: an encoder's delay in front of the
//! sound would move it against the picture. Movies in fragments are refused.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use hythe_rtp::mpeg_audio::{Header, Layer};
use hythe_rtp::video::Codec;
use hythe_sys::regular_file::open_regular;
use mp4_atom::{Elst, Esds, Mdhd, Mvhd, Stss};

use super::boxes::{Kind, children, decode, descend};
use super::samples::Samples;
use super::track::{self, Description, STSD_BYTES};
use super::{file_error, input_error, read_moov};
use crate::MediaError;

/// Samples of a track: a day and a half of 30 frames a second.
pub const SAMPLES_MAX: usize = 1 << 22;
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
    /// Frames in so many seconds, by the duration of the first.
    pub frame_rate: (u32, u32),
    /// In decoding order.
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
    /// From the movie's start, in nanoseconds; less than 0: cut away by the edit list.
    pub time_ns: i64,
    /// In nanoseconds.
    pub duration_ns: u64,
    /// Decoding may begin here.
    pub is_key: bool,
}

impl PlacedSample {
    /// When it is over, from the movie's start, in nanoseconds.
    #[must_use]
    pub fn end_ns(&self) -> i64 {
        let duration = i64::try_from(self.duration_ns).unwrap_or(i64::MAX);
        self.time_ns.saturating_add(duration)
    }
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
        let placed = |trak: &[u8]| place(trak, &moov, file_bytes).map_err(refused);
        let video = tracks.video.map(|(trak, sets)| {
            Ok::<_, MediaError>(VideoTrack {
                sets,
                frame_rate: frame_rate(trak),
                units: placed(trak)?,
            })
        });
        let audio = tracks.audio.map(|trak| {
            let frames = placed(trak)?;
            let header = first_header(&file, path, &frames)?;
            Ok::<_, MediaError>(AudioTrack { header, frames })
        });
        let (video, audio) = (video.transpose()?, audio.transpose()?);
        Ok(Self { file, video, audio })
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

/// All samples of a track, each whole within the file.
fn place(trak: &[u8], moov: &[u8], file_bytes: u64) -> Result<Vec<PlacedSample>, String> {
    let unreadable = || "a track has no time scale or no table of samples".to_owned();
    let mdia = descend(trak, &[b"mdia"]).ok_or_else(unreadable)?;
    let stbl = descend(mdia, &[b"minf", b"stbl"]).ok_or_else(unreadable)?;
    let header = decode::<Mdhd>(mdia, b"mdhd").filter(|header| header.timescale > 0);
    let ns = scale(header.ok_or_else(unreadable)?.timescale);
    let start_ns = start_ns(trak, moov, ns);
    let mut keys = decode::<Stss>(stbl, b"stss").map(|table| table.entries);
    if let Some(keys) = &mut keys {
        keys.sort_unstable();
    }
    let mut samples = Samples::new(stbl);
    let mut placed = Vec::new();
    while let Some(sample) = samples.next() {
        let number = placed.len() as u32 + 1;
        let end = sample.offset.saturating_add(sample.bytes.into());
        if sample.bytes == 0 || end > file_bytes {
            return Err(format!(
                "sample {number} of a track lies at {}..{end} of {file_bytes} bytes: \
                 the file is damaged, or was cut short",
                sample.offset
            ));
        }
        if placed.len() == SAMPLES_MAX {
            return Err(format!("a track has more than {SAMPLES_MAX} samples"));
        }
        let time = i128::from(sample.decoded) + i128::from(sample.composition);
        placed.push(PlacedSample {
            offset: sample.offset,
            bytes: sample.bytes,
            time_ns: ns(time).saturating_sub(start_ns),
            duration_ns: ns(sample.duration.into()).unsigned_abs(),
            // Without a table each is one (ISO/IEC 14496-12, 8.6.2).
            is_key: keys
                .as_ref()
                .is_none_or(|keys| keys.binary_search(&number).is_ok()),
        });
    }
    match placed.is_empty() {
        true => Err("a track has no samples".to_owned()),
        false => Ok(placed),
    }
}

/// In lowest terms; 1 frame a second where the track does not say.
fn frame_rate(trak: &[u8]) -> (u32, u32) {
    let mdia = descend(trak, &[b"mdia"]).unwrap_or_default();
    let stbl = descend(mdia, &[b"minf", b"stbl"]).unwrap_or_default();
    let timescale = decode::<Mdhd>(mdia, b"mdhd").map_or(0, |header| header.timescale);
    let duration = Samples::new(stbl)
        .next()
        .map_or(0, |sample| sample.duration);
    if timescale == 0 || duration == 0 {
        return (1, 1);
    }
    let (mut divisor, mut rest) = (timescale, duration);
    while rest != 0 {
        (divisor, rest) = (rest, divisor % rest);
    }
    (timescale / divisor, duration / divisor)
}

/// Ticks of this time scale as nanoseconds.
fn scale(timescale: u32) -> impl Fn(i128) -> i64 + Copy {
    move |ticks| {
        let ns = ticks.saturating_mul(1_000_000_000) / i128::from(timescale);
        i64::try_from(ns).unwrap_or(i64::MAX)
    }
}

/// Where in the track's own time the movie begins: behind empty edits, the first that shows media
/// (ISO/IEC 14496-12, 8.6.6).
fn start_ns(trak: &[u8], moov: &[u8], track_ns: impl Fn(i128) -> i64) -> i64 {
    let edits = descend(trak, &[b"edts"]).and_then(|edts| decode::<Elst>(edts, b"elst"));
    let movie = decode::<Mvhd>(moov, b"mvhd").map(|header| header.timescale);
    let movie_ns = scale(movie.filter(|scale| *scale > 0).unwrap_or(1000));
    let mut empty_ns = 0_i64;
    for edit in edits.iter().flat_map(|edits| &edits.entries) {
        match edit.media_time {
            None => empty_ns = empty_ns.saturating_add(movie_ns(edit.segment_duration.into())),
            Some(start) => return track_ns(start.into()).saturating_sub(empty_ns),
        }
    }
    -empty_ns
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

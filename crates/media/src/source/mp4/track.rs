//! The video track of a movie: what `moov` says of it.

use hythe_rtp::video::Codec;
use hythe_rtp::video::parameters::is_set;
use hythe_rtp::video::units::SETS_MAX;
use mp4_atom::{Avcc, Hvcc, Mdhd};

use super::boxes::{Kind, children, decode, descend};
use super::edits::{Medium, Part, parts};
use super::samples::Samples;

/// Bytes of a visual sample entry in front of its boxes (ISO/IEC 14496-12, section 12.1.3).
const VISUAL_ENTRY_BYTES: usize = 78;
/// Tracks that are named, at most.
const OTHERS_MAX: usize = 8;
/// Version, flags and the count of entries in front of the entries of `stsd`.
pub(super) const STSD_BYTES: usize = 8;

/// The remedy for a movie whose tracks have unsupported codecs.
const REMEDY: &str = "convert its sound, ffmpeg -i FILE -vn -c:a libopus FILE.opus, or its \
     pictures, ffmpeg -i FILE -c:v libx264 -c:a libmp3lame -f mpegts FILE.ts";

/// A track that can be sent.
pub(super) struct Track {
    pub(super) id: u32,
    pub(super) codec: Codec,
    /// Ticks per second, never 0.
    pub(super) timescale: u32,
    pub(super) samples: Samples,
    /// As `stsd` lists them; `None`: not of this codec.
    pub(super) descriptions: Vec<Option<Description>>,
    /// What is sent of it, in order.
    pub(super) parts: Vec<Part>,
}

/// How samples are stored.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Description {
    pub(super) codec: Codec,
    /// Of the length in front of each NAL unit.
    pub(super) length_bytes: usize,
    pub(super) sets: Vec<Vec<u8>>,
}

/// The first track of H.264 or H.265 in `moov`.
///
/// # Errors
///
/// What there is instead.
pub(super) fn find(moov: &[u8]) -> Result<Track, String> {
    let mut kinds = Vec::new();
    for (_, trak) in children(moov).filter(|(kind, _)| kind == b"trak") {
        match track(trak) {
            Ok(mut track) => {
                let (samples, medium) = (&mut track.samples, Medium::Picture);
                track.parts = parts(trak, moov, track.timescale, samples, medium)?;
                return Ok(track);
            }
            Err(found) => kinds.extend(found.map(|kind| kind.escape_ascii().to_string())),
        }
    }
    Err(match kinds.is_empty() {
        true => "it has no track with sample descriptions that can be read".to_owned(),
        false => format!(
            "it has no track of H.264 or H.265, but {}; {REMEDY}",
            kinds.join(", ")
        ),
    })
}

/// The tracks of picture or sound but this one, by what they are and the kind of their samples.
pub(super) fn others(moov: &[u8], id: u32) -> Vec<String> {
    let tracks = children(moov).filter(|(kind, _)| kind == b"trak");
    let others = tracks.filter_map(|(_, trak)| {
        let is_this = descend(trak, &[b"tkhd"]).and_then(track_id) == Some(id);
        let mdia = descend(trak, &[b"mdia"]).filter(|_| !is_this)?;
        let what = match handler(trak)? {
            b"soun" => "sound",
            b"vide" => "picture",
            _ => return None,
        };
        let stsd = descend(mdia, &[b"minf", b"stbl", b"stsd"])?.get(STSD_BYTES..)?;
        let (kind, _) = children(stsd).next()?;
        Some(format!("{what} ({})", kind.escape_ascii()))
    });
    others.take(OTHERS_MAX).collect()
}

/// What a track is (section 8.4.3): behind version, flags and four bytes.
pub(super) fn handler(trak: &[u8]) -> Option<&Kind> {
    descend(trak, &[b"mdia", b"hdlr"])?.get(8..)?.first_chunk()
}

/// What the track is, or the kind of its samples.
fn track(trak: &[u8]) -> Result<Track, Option<Kind>> {
    let mdia = descend(trak, &[b"mdia"]).ok_or(None)?;
    let stbl = descend(mdia, &[b"minf", b"stbl"]).ok_or(None)?;
    let stsd = descend(stbl, &[b"stsd"])
        .and_then(|stsd| stsd.get(STSD_BYTES..))
        .ok_or(None)?;
    let mut descriptions: Vec<_> = children(stsd)
        .map(|(kind, entry)| description(&kind, entry))
        .collect();
    let first = children(stsd).next().map(|(kind, _)| kind);
    let codec = descriptions.iter().flatten().next().ok_or(first)?.codec;
    for other in &mut descriptions {
        *other = other.take().filter(|other| other.codec == codec);
    }
    Ok(Track {
        id: descend(trak, &[b"tkhd"]).and_then(track_id).ok_or(first)?,
        codec,
        timescale: decode::<Mdhd>(mdia, b"mdhd")
            .map(|header| header.timescale)
            .filter(|timescale| *timescale > 0)
            .ok_or(first)?,
        samples: Samples::new(stbl),
        descriptions,
        parts: Vec::new(),
    })
}

/// Section 8.3.2: behind two times of four or eight bytes.
fn track_id(tkhd: &[u8]) -> Option<u32> {
    let offset = if *tkhd.first()? == 1 { 20 } else { 12 };
    Some(u32::from_be_bytes(*tkhd.get(offset..)?.first_chunk()?))
}

/// An entry of `stsd`; `None`: not of these codecs.
pub(super) fn description(kind: &Kind, entry: &[u8]) -> Option<Description> {
    let boxes = entry.get(VISUAL_ENTRY_BYTES..)?;
    let (codec, length_bytes, mut sets) = match kind {
        b"avc1" | b"avc3" => {
            let record = decode::<Avcc>(boxes, b"avcC")?;
            let sets = [
                record.sequence_parameter_sets,
                record.picture_parameter_sets,
            ]
            .concat();
            (Codec::H264, record.length_size, sets)
        }
        b"hvc1" | b"hev1" => {
            let record = decode::<Hvcc>(boxes, b"hvcC")?;
            let sets = record.arrays.into_iter().flat_map(|array| array.nalus);
            (
                Codec::H265,
                record.length_size_minus_one + 1,
                sets.collect(),
            )
        }
        _ => return None,
    };
    sets.retain(|set| is_set(codec, set));
    sets.truncate(SETS_MAX);
    Some(Description {
        codec,
        length_bytes: usize::from(length_bytes),
        sets,
    })
}

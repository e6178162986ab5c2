//! Opening one input: its format is found by the first bytes, never by the name.

use std::path::Path;

use hythe_rtp::MAX_PAYLOAD_BYTES;
use hythe_rtp::format::Encoding;

use super::mpeg_audio::MpegAudioSource;
use super::ogg_opus::OggOpusSource;
use super::raw::{PcmFormat, PcmSource};
use super::{Input, Source, annex_b, mp4, ogg_pages, other_formats, ts, wav};
use crate::MediaError;
use crate::mp3::Header;

/// Why these are not sent, and what to do.
const UNKNOWN: &str = "no format that can be sent is recognised here (MPEG-TS, MP4, H.264 or H.265 \
     byte streams, WAV, Ogg with Opus, MPEG audio); for files of nothing but samples say their \
     format, rate and channels";
const PROGRAM_STREAM: &str = "this is an MPEG program stream (.mpg, .vob), which is not sent: make \
     a transport stream of it first, ffmpeg -i FILE -c copy -f mpegts FILE.ts";
const OTHER_VIDEO: &str = "this is video of another codec than H.264 and H.265 (MPEG-1, MPEG-2, \
     MPEG-4 part 2), which is sent in a transport stream only: \
     ffmpeg -i FILE -c copy -f mpegts FILE.ts";
const FRAME_RATE_OF_MOVIE: &str = "this is an MP4 or MOV file, which tells when each picture is \
     shown: leave the frame rate out (--frame-rate)";
const FROM_URL: &str = "this is a URL, and only files are read: have ffmpeg fetch it, \
     ffmpeg -i URL -c copy -f mpegts - | hythe media send - --to rtp://HOST:PORT";
/// Behind the start code of a program stream's first pack.
const PACK_HEADER: u8 = 0xba;
/// `forbidden_zero_bit` of H.264 and H.265, set in start codes of other MPEG video and of program
/// streams.
const NEVER_IN_NAL_UNITS: u8 = 0x80;
/// How much of an input is looked at.
const LOOK_BYTES: usize = 4096;
/// How many zeros in front are passed over: a disk that holds nothing else is not read to its end.
const ZERO_BYTES_MAX: usize = 64 << 20;

/// What an input cannot tell by itself.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenOptions {
    /// Bits per second of a transport stream, whose clock references are then not looked at;
    /// `None`: they tell.
    pub bits_per_second: Option<u32>,
    /// What 16-bit samples of a WAV file are sent as: L16, PCMU or PCMA.
    pub samples_as: Encoding,
    /// Set: the input is nothing but such samples.
    pub raw: Option<PcmFormat>,
    /// Milliseconds of a block of samples.
    pub block_ms: u32,
    /// Frames per second of an H.264 or H.265 byte stream that does not say it itself.
    pub frame_rate: Option<annex_b::FrameRate>,
    /// Most bytes of a packet's payload: units that may be of any length are made to fit.
    pub payload_limit: usize,
    /// How often the input is played; 0: without end. Standard input is played once.
    pub plays: u64,
}

impl Default for OpenOptions {
    fn default() -> Self {
        Self {
            bits_per_second: None,
            samples_as: Encoding::L16,
            raw: None,
            block_ms: 20,
            frame_rate: None,
            payload_limit: MAX_PAYLOAD_BYTES,
            plays: 1,
        }
    }
}

/// Opens one file, or standard input.
pub(super) fn open_file(
    path: &Path,
    options: &OpenOptions,
) -> Result<Box<dyn Source + Send>, MediaError> {
    let mut input = Input::open(path).map_err(|error| of_url(path, error))?;
    // Found here, because it is not read in one go.
    if options.raw.is_none() && path != Path::new("-") && is_movie(input.fill(LOOK_BYTES)?) {
        if options.frame_rate.is_some() {
            return Err(input.error(FRAME_RATE_OF_MOVIE));
        }
        return Ok(Box::new(mp4::open(path)?));
    }
    open_input(input, options)
}

/// What is said of a URL, which is no file.
fn of_url(path: &Path, error: MediaError) -> MediaError {
    let name = path.display().to_string();
    let is_gone = matches!(&error, MediaError::File { source, .. }
        if source.kind() == std::io::ErrorKind::NotFound);
    match name.contains("://") && is_gone {
        true => MediaError::Input {
            input: name,
            position: 0,
            reason: FROM_URL.to_owned(),
        },
        false => error,
    }
}

/// Opens what is read in one go, whatever it comes from.
///
/// # Errors
///
/// As [`open`](super::open()).
pub fn open_input(
    mut input: Input,
    options: &OpenOptions,
) -> Result<Box<dyn Source + Send>, MediaError> {
    if let Some(format) = options.raw {
        let samples = PcmSource::new(input, format, options.block_ms)?;
        return Ok(Box::new(samples.with_some("the input")?));
    }
    skip_zeros(&mut input)?;
    let Some(container) = Container::of(input.window(), input.is_ended()) else {
        let refusal = other_formats::refusal(input.window());
        return Err(input.error(refusal.unwrap_or_else(|| UNKNOWN.to_owned())));
    };
    Ok(match container {
        Container::Wav => Box::new(wav::open(input, options.samples_as, options.block_ms)?),
        Container::Ogg => Box::new(OggOpusSource::new(input)?),
        Container::TransportStream => Box::new(ts::TsSource::new(input, options.bits_per_second)?),
        Container::MpegAudio => Box::new(MpegAudioSource::new(input, options.payload_limit)?),
        Container::ProgramStream => return Err(input.error(PROGRAM_STREAM)),
        Container::OtherVideo => return Err(input.error(OTHER_VIDEO)),
        Container::Movie => {
            let reason = "MP4 is read at many places: it has to be a file of its own";
            return Err(input.error(reason));
        }
        Container::ByteStream => {
            let known = annex_b::Options {
                encoding: None,
                frame_rate: options.frame_rate,
            };
            Box::new(annex_b::open(&input.name(), input, &known)?)
        }
    })
}

/// Passes over zeros in front of everything else, if there are more than are looked at: byte
/// streams may begin with any number of them (`leading_zero_8bits`), and nothing else that is sent
/// does with so many.
fn skip_zeros(input: &mut Input) -> Result<(), MediaError> {
    let mut passed = 0;
    while passed < ZERO_BYTES_MAX {
        let zeros = leading_zeros(input.fill(LOOK_BYTES)?);
        if zeros < LOOK_BYTES {
            break;
        }
        // A start code has two of them.
        passed += zeros - 2;
        input.consume(zeros - 2);
    }
    Ok(())
}

/// What holds the media.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Container {
    Wav,
    Ogg,
    TransportStream,
    MpegAudio,
    Movie,
    ByteStream,
    /// MPEG-1 and MPEG-2 (ISO/IEC 13818-1, 2.5): what DVDs and old recorders have.
    ProgramStream,
    /// With start codes, too, and neither H.264 nor H.265.
    OtherVideo,
}

impl Container {
    /// Looks at the first bytes of an input, all of them if `is_all`: marks first, then patterns
    /// that repeat, since those might occur by accident.
    pub(super) fn of(start: &[u8], is_all: bool) -> Option<Self> {
        if wav::is_wav(start) {
            Some(Self::Wav)
        } else if start.starts_with(ogg_pages::CAPTURE) {
            Some(Self::Ogg)
        } else if start.starts_with(b"ID3") {
            Some(Self::MpegAudio)
        } else if is_movie(start) {
            Some(Self::Movie)
        } else if let Some(first) = behind_start_code(start) {
            Some(match first {
                PACK_HEADER => Self::ProgramStream,
                first if first & NEVER_IN_NAL_UNITS != 0 => Self::OtherVideo,
                _ => Self::ByteStream,
            })
        } else if ts::find_packets(start, is_all).is_some() {
            Some(Self::TransportStream)
        } else if is_mpeg_audio(start) {
            Some(Self::MpegAudio)
        } else {
            None
        }
    }
}

/// The byte behind the start code that an input begins with. Any number of zeros may stand in front
/// of it (`leading_zero_8bits`, and `zero_byte` of long start codes).
fn behind_start_code(start: &[u8]) -> Option<u8> {
    let zeros = leading_zeros(start);
    match start[zeros..] {
        [1, first, ..] if zeros >= 2 => Some(first),
        _ => None,
    }
}

fn leading_zeros(bytes: &[u8]) -> usize {
    bytes.iter().take_while(|byte| **byte == 0).count()
}

/// The first box of an ISO base media file (ISO/IEC 14496-12, 4.3), or of a QuickTime movie without
/// a type.
fn is_movie(start: &[u8]) -> bool {
    let first = start.get(4..8).unwrap_or_default();
    [b"ftyp", b"styp", b"moov", b"wide"]
        .iter()
        .any(|kind| first == *kind)
}

/// A frame somewhere in `start` that another of the same kind follows, or that begins it and is all
/// of it: encoders and cut recordings leave bytes in front.
fn is_mpeg_audio(start: &[u8]) -> bool {
    (0..start.len()).any(|at| {
        let rest = &start[at..];
        let header = Header::parse(rest);
        header.is_some_and(|header| match header.frame_bytes() {
            Some(bytes) if bytes < rest.len() => header.is_continued_by(&rest[bytes..]).is_some(),
            Some(bytes) => at == 0 && bytes == rest.len(),
            // Free format: the source says what is wrong with it.
            None => at == 0,
        })
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_known_by_their_first_bytes() {
        let mut packet = vec![0x47];
        packet.resize(188, 0);
        let mut frame = vec![0xff, 0xfb, 0x90, 0x64];
        frame.resize(417, 0);
        let late = [vec![0; 100], frame.repeat(3)].concat();
        for (start, expected) in [
            (b"RIFF\x10\0\0\0WAVEfmt ".to_vec(), Some(Container::Wav)),
            (b"RIFF\x10\0\0\0AVI fmt ".to_vec(), None),
            (b"OggS\0\x02".to_vec(), Some(Container::Ogg)),
            (b"ID3\x04\0".to_vec(), Some(Container::MpegAudio)),
            (packet.repeat(5), Some(Container::TransportStream)),
            (packet.clone(), Some(Container::TransportStream)),
            (frame.repeat(3), Some(Container::MpegAudio)),
            (frame, Some(Container::MpegAudio)),
            (late, Some(Container::MpegAudio)),
            (b"\0\0\0\x18ftypisom".to_vec(), Some(Container::Movie)),
            (b"\0\0\0\x01\x67".to_vec(), Some(Container::ByteStream)),
            (b"\0\0\x01\x40".to_vec(), Some(Container::ByteStream)),
            (b"\0\0\0\0\0\x01\x67".to_vec(), Some(Container::ByteStream)),
            (
                [vec![0; 1000], b"\x01\x67".to_vec()].concat(),
                Some(Container::ByteStream),
            ),
            (b"\0\x01\x67".to_vec(), None),
            (vec![0; 1000], None),
            (b"\0\0\x01\xba\x44".to_vec(), Some(Container::ProgramStream)),
            (b"\0\0\0\x01\xba".to_vec(), Some(Container::ProgramStream)),
            (b"\0\0\x01\xb3\x16".to_vec(), Some(Container::OtherVideo)),
            (b"\0\0\x01\xb0\x01".to_vec(), Some(Container::OtherVideo)),
            (b"\0\0\x01\xe0\0".to_vec(), Some(Container::OtherVideo)),
            (vec![0xff; 1000], None),
            (Vec::new(), None),
        ] {
            assert_eq!(
                Container::of(&start, true),
                expected,
                "{:?}",
                &start[..start.len().min(8)]
            );
        }
    }

    #[test]
    fn byte_stream_behind_many_zeros_is_opened() {
        // A black picture of 16x16 by x264.
        let stream =
            b"\0\0\x01\x67\x42\xc0\x0a\xdd\xec\x04\x40\0\0\x03\0\x40\0\0\x0c\x83\xc4\x89\xe0\
            \0\0\0\x01\x68\xce\x0f\x2c\x80\0\0\x01\x65\x88\x84\x04\xbc\x98\xa0\0\x38\xa3\x80";
        for zeros in [1, 2, 3, 4093, 4094, 4095, 4096, 70_000, 1_000_001] {
            let bytes = [vec![0; zeros], stream.to_vec()].concat();
            let input = Input::new("zeros", std::io::Cursor::new(bytes));
            let source = open_input(input, &OpenOptions::default());
            assert_eq!(source.unwrap().format().encoding, Encoding::H264, "{zeros}");
        }
        let input = Input::new("zeros", std::io::repeat(0));
        let refused = open_input(input, &OpenOptions::default()).err().unwrap();
        assert!(refused.to_string().contains("recognised"), "{refused}");
    }

    #[test]
    fn video_that_is_not_sent_is_refused_with_what_to_do() {
        for (start, named) in [
            (&b"\0\0\x01\xba\x44\0\x04\0"[..], "MPEG program stream"),
            (b"\0\0\x01\xb3\x16\0\xf0\x13", "MPEG-2"),
        ] {
            // With what looks like a picture of H.264 behind it.
            let bytes = [start, &b"\0\0\x01\x67\x42\xc0\x0a".repeat(100)].concat();
            let input = Input::new("film.mpg", std::io::Cursor::new(bytes));
            let refused = open_input(input, &OpenOptions::default());
            let refused = refused.err().unwrap().to_string();
            assert!(refused.contains(named), "{refused}");
            assert!(
                refused.contains("ffmpeg -i FILE -c copy -f mpegts"),
                "{refused}"
            );
        }
    }

    #[test]
    fn open_refuses_unknown_input_unless_declared_samples() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("samples");
        std::fs::write(&path, [1; 1000]).unwrap();
        let mut options = OpenOptions::default();
        let error = open_file(&path, &options).err().unwrap().to_string();
        assert!(
            error.contains("samples, byte 0") && error.contains("recognised"),
            "{error}"
        );
        options.raw = Some(PcmFormat {
            encoding: Encoding::Pcma,
            samples_per_second: 8000,
            channels: 1,
        });
        let mut source = open_file(&path, &options).unwrap();
        assert_eq!(source.next().unwrap().unwrap().len(), 160);
        assert!(matches!(
            open_file(&directory.path().join("gone"), &options),
            Err(MediaError::File { .. })
        ));
        let url = Path::new("https://example.com/film.ts");
        let refused = open_file(url, &options).err().unwrap().to_string();
        assert!(refused.contains("ffmpeg -i URL"), "{refused}");
    }
}

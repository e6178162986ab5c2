//! WAV files: 16-bit PCM, sent as L16 or as G.711, and files that hold G.711 already.
//!
//! The header is read here, not by `hound`, which reads one sample at a time, takes neither G.711
//! nor a file that was written to a pipe: there the length is 0 or 0xffffffff, and the samples go
//! on to the end.

use hythe_rtp::format::Encoding;

use super::Input;
use super::raw::{Conversion, OPEN_BYTES_MIN, PcmFormat, PcmSource};
use crate::MediaError;

/// `RIFF`, a length, `WAVE`.
const RIFF_BYTES: usize = 12;
/// Name and length of a chunk.
const CHUNK_BYTES: usize = 8;
/// What is read of a format chunk: up to the format that an extensible one names.
const FORMAT_BYTES: usize = 26;
/// The least that a format chunk has.
const FORMAT_BYTES_MIN: u32 = 16;
const PCM: u16 = 1;
const ALAW: u16 = 6;
const ULAW: u16 = 7;
const EXTENSIBLE: u16 = 0xfffe;

/// Does the input begin like a WAV file?
pub(super) fn is_wav(window: &[u8]) -> bool {
    window.len() >= RIFF_BYTES && window.starts_with(b"RIFF") && &window[8..12] == b"WAVE"
}

/// Reads `input` in blocks of `block_ms` milliseconds. 16-bit samples are sent as `encoding`: L16,
/// PCMU or PCMA.
///
/// # Errors
///
/// [`MediaError::Input`] for what is no WAV file, or holds something else than these samples;
/// [`MediaError::Rtp`]; [`MediaError::File`].
pub fn open(mut input: Input, encoding: Encoding, block_ms: u32) -> Result<PcmSource, MediaError> {
    input.fill(RIFF_BYTES)?;
    if !is_wav(input.window()) {
        return Err(input.error("no WAV file begins here"));
    }
    let riff_end = riff_end(input.window());
    input.consume(RIFF_BYTES);
    let mut format = None;
    loop {
        let header = input.fill(CHUNK_BYTES)?.first_chunk::<CHUNK_BYTES>();
        let Some([name @ .., a, b, c, d]) = header.copied() else {
            return Err(input.error("the WAV file ends before its samples"));
        };
        let bytes = u32::from_le_bytes([a, b, c, d]);
        input.consume(CHUNK_BYTES);
        match (&name, format) {
            (b"fmt ", _) => format = Some(read_format(&mut input, bytes, encoding)?),
            (b"data", Some((format, conversion))) => {
                let has_chunks_behind = riff_end.is_some_and(|end| input.position() < end);
                let bytes = match bytes {
                    // Empty, and no length that was left open.
                    0 if has_chunks_behind => 0,
                    0 | u32::MAX => u64::MAX,
                    bytes => u64::from(bytes),
                };
                let samples = PcmSource::converting(input, format, conversion, block_ms, bytes)?;
                return samples.with_some("the WAV file");
            }
            (b"data", None) => return Err(input.error("the WAV file does not tell its format")),
            _ => skip(&mut input, u64::from(bytes))?,
        }
    }
}

/// Where the file ends by its own account; `None`: it was written to a pipe, and does not know.
fn riff_end(start: &[u8]) -> Option<u64> {
    let bytes = u32::from_le_bytes(*start.get(4..8)?.first_chunk()?);
    let bytes = u64::from(bytes);
    (1..OPEN_BYTES_MIN)
        .contains(&bytes)
        .then_some(CHUNK_BYTES as u64 + bytes)
}

/// Passes over the rest of a chunk; chunks begin at even offsets.
fn skip(input: &mut Input, bytes: u64) -> Result<(), MediaError> {
    input.skip(bytes + bytes % 2).map(drop)
}

fn read_format(
    input: &mut Input,
    bytes: u32,
    encoding: Encoding,
) -> Result<(PcmFormat, Conversion), MediaError> {
    let window = input.fill(FORMAT_BYTES.min(bytes as usize))?;
    if bytes < FORMAT_BYTES_MIN || window.len() < FORMAT_BYTES_MIN as usize {
        return Err(input.error("the format of the WAV file is cut short"));
    }
    let word = |at: usize| u16::from_le_bytes([window[at], window[at + 1]]);
    let (mut tag, channels, bits) = (word(0), word(2), word(14));
    let samples_per_second = u32::from(word(4)) | u32::from(word(6)) << 16;
    if tag == EXTENSIBLE && bytes as usize >= FORMAT_BYTES && window.len() >= FORMAT_BYTES {
        tag = word(24);
    }
    let (encoding, conversion) = match (tag, bits) {
        (PCM, 16) => (encoding, Conversion::LittleEndian),
        (ALAW, 8) => (Encoding::Pcma, Conversion::None),
        (ULAW, 8) => (Encoding::Pcmu, Conversion::None),
        _ => {
            return Err(input.error(format!(
                "samples of {bits} bits in WAV format {tag} cannot be sent: convert them to 16-bit PCM, ffmpeg -i FILE -c:a pcm_s16le FILE.wav"
            )));
        }
    };
    let format = PcmFormat {
        encoding,
        samples_per_second,
        channels: u8::try_from(channels).unwrap_or(u8::MAX),
    };
    format.stream()?; // refused before samples are looked for
    skip(input, u64::from(bytes))?;
    Ok((format, conversion))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::g711;
    use crate::source::Source;
    use std::io::Cursor;

    fn chunk(name: &[u8; 4], bytes: &[u8]) -> Vec<u8> {
        let mut chunk = [name, &(bytes.len() as u32).to_le_bytes(), bytes].concat();
        chunk.resize(chunk.len().next_multiple_of(2), 0);
        chunk
    }

    fn format(tag: u16, channels: u16, rate: u32, bits: u16) -> Vec<u8> {
        let mut format = [tag, channels].map(u16::to_le_bytes).concat();
        format.extend(rate.to_le_bytes());
        format.extend([0; 6]);
        format.extend(bits.to_le_bytes());
        chunk(b"fmt ", &format)
    }

    fn wav(chunks: &[Vec<u8>]) -> Vec<u8> {
        [b"RIFF\0\0\0\0WAVE".to_vec(), chunks.concat()].concat()
    }

    fn read(
        file: Vec<u8>,
        encoding: Encoding,
    ) -> Result<(Vec<u8>, hythe_rtp::format::StreamFormat), MediaError> {
        let mut source = open(Input::new("test", Cursor::new(file)), encoding, 20)?;
        let mut bytes = Vec::new();
        while let Some(unit) = source.next()? {
            bytes.extend(unit.pieces.concat());
        }
        Ok((bytes, source.format().clone()))
    }

    #[test]
    fn samples_are_turned_into_what_is_asked_for() {
        let samples: Vec<i16> = (0..1000).map(|sample| sample * 31).collect();
        let data = chunk(
            b"data",
            &samples
                .iter()
                .flat_map(|sample| sample.to_le_bytes())
                .collect::<Vec<_>>(),
        );
        let tail = chunk(b"LIST", b"behind the samples");
        let file = wav(&[chunk(b"LIST", b"odd"), format(PCM, 1, 8000, 16), data, tail]);
        for (encoding, expected) in [
            (
                Encoding::L16,
                samples
                    .iter()
                    .flat_map(|sample| sample.to_be_bytes())
                    .collect::<Vec<u8>>(),
            ),
            (
                Encoding::Pcmu,
                samples
                    .iter()
                    .map(|sample| g711::compress_ulaw(*sample))
                    .collect(),
            ),
            (
                Encoding::Pcma,
                samples
                    .iter()
                    .map(|sample| g711::compress_alaw(*sample))
                    .collect(),
            ),
        ] {
            let (bytes, format) = read(file.clone(), encoding).unwrap();
            assert!(bytes == expected);
            assert_eq!(
                (format.encoding, format.clock_hz, format.channels),
                (encoding, 8000, 1)
            );
        }
    }

    #[test]
    fn g711_inside_is_sent_as_it_is() {
        for (tag, encoding) in [(ALAW, Encoding::Pcma), (ULAW, Encoding::Pcmu)] {
            let file = wav(&[format(tag, 1, 8000, 8), chunk(b"data", &[7; 333])]);
            let (bytes, format) = read(file, Encoding::L16).unwrap();
            assert_eq!((bytes.len(), format.encoding), (333, encoding));
        }
    }

    #[test]
    fn length_that_a_pipe_left_open_goes_to_the_end() {
        for length in [0, u32::MAX] {
            let mut file = wav(&[format(PCM, 2, 48_000, 16)]);
            file.extend([&b"data"[..], &length.to_le_bytes(), &[3; 40_000]].concat());
            assert_eq!(read(file, Encoding::L16).unwrap().0.len(), 40_000);
        }
    }

    /// Samples and damaged places of a file.
    fn damage(file: Vec<u8>) -> (usize, u64) {
        let input = Input::new("test", Cursor::new(file));
        let mut source = open(input, Encoding::L16, 20).unwrap();
        let mut bytes = 0;
        while let Some(unit) = source.next().unwrap() {
            bytes += unit.pieces.concat().len();
        }
        assert!(source.next().unwrap().is_none(), "and counted once");
        (bytes, source.damaged())
    }

    #[test]
    fn file_that_ends_before_its_length_is_damaged() {
        let whole = wav(&[format(PCM, 1, 8000, 16), chunk(b"data", &[3; 4000])]);
        for cut in [0, 1, 2, 1000, 3998] {
            let file = whole[..whole.len() - cut].to_vec();
            let left = (4000 - cut) / 2 * 2;
            assert_eq!(damage(file), (left, u64::from(cut > 0)), "{cut}");
        }
        // What programs say that write to a pipe: ffmpeg, and SoX.
        for length in [0, u32::MAX, 0x7fff_f000] {
            let mut file = wav(&[format(PCM, 1, 8000, 16)]);
            file.extend([&b"data"[..], &length.to_le_bytes(), &[3; 4000]].concat());
            assert_eq!(damage(file), (4000, 0), "{length:#x}");
        }
    }

    #[test]
    fn file_without_samples_is_refused_whatever_stands_behind_them() {
        let list = chunk(b"LIST", b"behind the samples");
        let mut file = wav(&[format(PCM, 1, 8000, 16), chunk(b"data", &[]), list]);
        let bytes = file.len() as u32 - 8;
        file[4..8].copy_from_slice(&bytes.to_le_bytes());
        let refused = read(file, Encoding::L16).unwrap_err().to_string();
        assert!(refused.contains("holds no samples"), "{refused}");
        // A header whose lengths were never filled in, and samples.
        let mut file = wav(&[format(PCM, 1, 8000, 16), chunk(b"data", &[])]);
        let bytes = file.len() as u32 - 8;
        file[4..8].copy_from_slice(&bytes.to_le_bytes());
        file.extend([3; 1000]);
        assert_eq!(read(file, Encoding::L16).unwrap().0.len(), 1000);
    }

    #[test]
    fn what_cannot_be_sent_is_refused_with_a_reason() {
        let data = chunk(b"data", &[0; 100]);
        for (file, reason) in [
            (b"RIFF".to_vec(), "no WAV file"),
            (wav(&[]), "ends before"),
            (wav(&[format(PCM, 2, 48_000, 16)]), "ends before"),
            (wav(std::slice::from_ref(&data)), "its format"),
            (
                wav(&[format(PCM, 2, 48_000, 16), chunk(b"data", &[])]),
                "holds no samples",
            ),
            (
                wav(&[format(PCM, 2, 48_000, 16), chunk(b"data", &[1, 2, 3])]),
                "holds no samples",
            ),
            (wav(&[format(PCM, 2, 48_000, 24), data.clone()]), "24 bits"),
            (wav(&[format(3, 2, 48_000, 32), data.clone()]), "format 3"),
            (wav(&[format(PCM, 0, 48_000, 16), data.clone()]), "channel"),
            (
                wav(&[format(PCM, 300, 48_000, 16), data.clone()]),
                "channel",
            ),
            (wav(&[format(PCM, 1, 0, 16), data.clone()]), "rate"),
            (wav(&[chunk(b"fmt ", &[1, 0]), data]), "cut short"),
        ] {
            let error = read(file, Encoding::L16).unwrap_err().to_string();
            assert!(error.contains(reason), "{error}");
        }
    }
}

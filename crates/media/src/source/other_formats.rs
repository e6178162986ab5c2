//! Formats that are not sent, known by their first bytes, and what makes one of them that is.
//!
//! Only for the text of refusals: nothing here reads beyond the first bytes.

/// For pictures, and sound beside them, as they are.
const AS_STREAM: &str = "ffmpeg -i FILE -c copy -f mpegts FILE.ts";
/// For codecs that a transport stream does not carry.
const AS_H264: &str = "ffmpeg -i FILE -c:v libx264 -c:a libmp3lame -f mpegts FILE.ts";
/// For sound.
const AS_WAV: &str = "ffmpeg -i FILE -vn -c:a pcm_s16le FILE.wav";
/// For sound of a speech codec or AAC, which WAV would make many times as long.
const AS_OPUS: &str = "ffmpeg -i FILE -vn -c:a libopus FILE.opus";

/// A format: what its files are called, a mark, and another one at an offset.
struct Format {
    name: &'static str,
    mark: &'static [u8],
    /// Empty: none.
    second: (usize, &'static [u8]),
    remedy: &'static str,
}

const fn format(
    name: &'static str,
    mark: &'static [u8],
    second: (usize, &'static [u8]),
    remedy: &'static str,
) -> Format {
    Format {
        name,
        mark,
        second,
        remedy,
    }
}

const NONE: (usize, &[u8]) = (0, b"");

const FORMATS: [Format; 17] = [
    format("an AVI file", b"RIFF", (8, b"AVI "), AS_STREAM),
    format("Flash video (.flv)", b"FLV", NONE, AS_STREAM),
    format("an MXF file", b"\x06\x0e\x2b\x34", NONE, AS_STREAM),
    format(
        "a Windows Media file (.wmv, .wma, .asf)",
        b"\x30\x26\xb2\x75\x8e\x66\xcf\x11",
        NONE,
        AS_H264,
    ),
    format("an IVF file of VP8, VP9 or AV1", b"DKIF", NONE, AS_H264),
    format("a long WAV file (RF64)", b"RF64", (8, b"WAVE"), AS_WAV),
    format("a long WAV file (BW64)", b"BW64", (8, b"WAVE"), AS_WAV),
    format(
        "a Wave64 file (.w64)",
        b"riff\x2e\x91\xcf\x11",
        NONE,
        AS_WAV,
    ),
    format("a FLAC file", b"fLaC", NONE, AS_WAV),
    format("an AIFF file", b"FORM", (8, b"AIF"), AS_WAV),
    format("a Core Audio file (.caf)", b"caff", NONE, AS_WAV),
    format("a Sun audio file (.au)", b".snd", NONE, AS_WAV),
    format("a WavPack file", b"wvpk", NONE, AS_WAV),
    format("a Monkey's Audio file", b"MAC ", NONE, AS_WAV),
    format("an AMR file", b"#!AMR", NONE, AS_OPUS),
    format("AC-3 sound", b"\x0b\x77", NONE, AS_OPUS),
    format("RealMedia", b".RMF", NONE, AS_H264),
];
/// The first element of Matroska (RFC 8794, section 11.2.1).
const EBML: &[u8] = b"\x1a\x45\xdf\xa3";
/// How far into the file the type of a document may stand.
const EBML_HEADER_BYTES: usize = 64;

/// What a file that begins with `start` is and what to do, if it is of a format that is known and
/// not sent.
pub(super) fn refusal(start: &[u8]) -> Option<String> {
    let (name, remedy) = named(start)?;
    Some(format!(
        "this is {name}, which is not sent: make another file of it first, {remedy}"
    ))
}

fn named(start: &[u8]) -> Option<(&'static str, &'static str)> {
    if start.starts_with(EBML) {
        let header = &start[..start.len().min(EBML_HEADER_BYTES)];
        let is_webm = header.windows(4).any(|word| word == b"webm");
        return Some(match is_webm {
            true => ("a WebM file", AS_H264),
            false => ("a Matroska file (.mkv)", AS_STREAM),
        });
    }
    if is_adts(start) {
        return Some(("AAC sound (ADTS)", AS_OPUS));
    }
    let found = FORMATS.iter().find(|format| {
        let (at, second) = format.second;
        let behind = start.get(at..).unwrap_or_default();
        start.starts_with(format.mark) && behind.starts_with(second)
    })?;
    Some((found.name, found.remedy))
}

/// A frame of AAC with a header of its own (ISO/IEC 13818-7, 6.2), behind which another one begins.
fn is_adts(start: &[u8]) -> bool {
    let begins = |bytes: &[u8]| matches!(bytes, [0xff, second, ..] if second & 0xf6 == 0xf0);
    let length = |header: &[u8]| {
        usize::from(header[3] & 3) << 11 | usize::from(header[4]) << 3 | usize::from(header[5] >> 5)
    };
    start.len() > 6
        && begins(start)
        && start
            .get(length(start)..)
            .is_some_and(|next| next.is_empty() || begins(next))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn formats_are_named_with_what_makes_another_of_them() {
        let mut adts = b"\xff\xf1\x50\x80\x01\x1f\xfc\0".to_vec();
        adts.extend(b"\xff\xf1\x50\x80");
        for (start, name, remedy) in [
            (
                &b"\x1a\x45\xdf\xa3\x9f\x42\x82\x88matroska"[..],
                "Matroska",
                AS_STREAM,
            ),
            (b"\x1a\x45\xdf\xa3\x9f\x42\x82\x84webm", "WebM", AS_H264),
            (b"RIFF\x10\0\0\0AVI LIST", "AVI", AS_STREAM),
            (b"FLV\x01\x05", "Flash", AS_STREAM),
            (b"RF64\xff\xff\xff\xffWAVEds64", "RF64", AS_WAV),
            (b"riff\x2e\x91\xcf\x11\xa5\xd6", "Wave64", AS_WAV),
            (b"fLaC\0\0\0\x22", "FLAC", AS_WAV),
            (b"FORM\0\0\0\x10AIFCFVER", "AIFF", AS_WAV),
            (&adts, "AAC", AS_OPUS),
            (b"#!AMR-WB\n", "AMR", AS_OPUS),
        ] {
            let refusal = refusal(start).unwrap();
            assert!(
                refusal.contains(name) && refusal.ends_with(remedy),
                "{refusal}"
            );
        }
        for start in [
            &b""[..],
            b"RIFF\x10\0\0\0WAVE",
            b"text",
            b"\xff\xf1\x50",
            b"RF64",
        ] {
            assert_eq!(refusal(start), None, "{start:?}");
        }
    }
}

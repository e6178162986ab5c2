//! What comes to an address without a description, as people write it.

use std::str::FromStr;

use hythe::rtp::L16;
use hythe::rtp::format::{Encoding, StreamFormat};

/// Names, their encodings, clocks and payload types: those of RFC 3551, or the ones that
/// `hythe media send` uses.
const KNOWN: [(&str, Encoding, u32, u8); 7] = [
    ("ts", Encoding::MpegTs, 90_000, 33),
    ("mpa", Encoding::MpegAudio, 90_000, 14),
    ("h264", Encoding::H264, 90_000, 96),
    ("h265", Encoding::H265, 90_000, 96),
    ("opus", Encoding::Opus, 48_000, 97),
    ("pcmu", Encoding::Pcmu, 8000, 0),
    ("pcma", Encoding::Pcma, 8000, 8),
];
/// As the error and the help name them.
pub(super) const EXAMPLES: &str = "ts, mpa, h264, h265, opus, pcmu, pcma or l16:48000:2, and \
     @TYPE where the payload type is another one than usual, such as h264@99";
/// Payload types have seven bits.
const TYPE_MAX: u8 = 127;

/// A stream's format.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Payload(pub(super) StreamFormat);

impl FromStr for Payload {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || format!("{text} is not {EXAMPLES}");
        let (name, payload_type) = match text.split_once('@') {
            Some((name, number)) => {
                let number: Option<u8> = number.parse().ok();
                let number = number.filter(|number| *number <= TYPE_MAX);
                (name, Some(number.ok_or_else(refused)?))
            }
            None => (text, None),
        };
        let mut format = match name.strip_prefix("l16:") {
            Some(samples) => samples_of(samples).ok_or_else(refused)?,
            None => {
                let known = KNOWN.into_iter().find(|known| known.0 == name);
                let (_, encoding, clock_hz, payload_type) = known.ok_or_else(refused)?;
                StreamFormat {
                    encoding,
                    payload_type,
                    clock_hz,
                    channels: 1,
                    parameters: String::new(),
                }
            }
        };
        format.payload_type = payload_type.unwrap_or(format.payload_type);
        Ok(Self(format))
    }
}

fn samples_of(text: &str) -> Option<StreamFormat> {
    let (rate, channels) = text.split_once(':')?;
    let format = L16::new(rate.parse().ok()?, channels.parse().ok()?).ok()?;
    Some(format.into())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payloads_are_read_or_refused_with_examples() {
        for (text, name, clock_hz, payload_type) in [
            ("ts", "MP2T", 90_000, 33),
            ("h264@99", "H264", 90_000, 99),
            ("l16:44100:2", "L16", 44_100, 10),
            ("l16:48000:1@100", "L16", 48_000, 100),
        ] {
            let Payload(format) = text.parse().unwrap();
            let found = (format.encoding.name(), format.clock_hz, format.payload_type);
            assert_eq!(found, (name, clock_hz, payload_type));
        }
        for text in [
            "",
            "mp4",
            "l16",
            "l16:48000",
            "l16:x:1",
            "ts@128",
            "ts@",
            "@33",
        ] {
            let refused = text.parse::<Payload>().unwrap_err();
            assert!(refused.contains("l16:48000:2"), "{refused}");
        }
    }
}

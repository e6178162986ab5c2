//! Parameter sets in SDP: the `a=fmtp` line of RFC 6184, section 8.2.1, and of RFC 7798, section
//! 7.2.1, written and read.

use base64::Engine;
use base64::engine::general_purpose::STANDARD;

use super::units::SETS_MAX;
use super::{Codec, Role};
use crate::format::StreamFormat;

/// First dynamic payload type (RFC 3551, section 6); SDP may say another one.
const PAYLOAD_TYPE: u8 = 96;

/// The format of a stream with these parameter sets.
#[must_use]
pub fn format(codec: Codec, sets: &[Vec<u8>]) -> StreamFormat {
    let parameters = match codec {
        Codec::H264 => describe_h264(sets),
        Codec::H265 => describe_h265(sets),
    };
    StreamFormat {
        encoding: codec.encoding(),
        payload_type: PAYLOAD_TYPE,
        clock_hz: super::CLOCK_HZ,
        channels: 1,
        parameters,
    }
}

fn describe_h264(sets: &[Vec<u8>]) -> String {
    let mut parameters = "packetization-mode=1".to_owned();
    let of_role = |role| sets.iter().filter(move |set| Codec::H264.role(set) == role);
    if let Some([profile, constraints, level]) =
        of_role(Role::SequenceSet).find_map(|set| set.get(1..4))
    {
        parameters += &format!(";profile-level-id={profile:02x}{constraints:02x}{level:02x}");
    }
    let sequence = of_role(Role::SequenceSet);
    let sets = encode(sequence.chain(of_role(Role::PictureSet)));
    if !sets.is_empty() {
        parameters += &format!(";sprop-parameter-sets={sets}");
    }
    parameters
}

fn describe_h265(sets: &[Vec<u8>]) -> String {
    let names = [
        ("sprop-vps", Role::VideoSet),
        ("sprop-sps", Role::SequenceSet),
        ("sprop-pps", Role::PictureSet),
    ];
    let described = names.map(|(name, role)| {
        let sets = encode(sets.iter().filter(|set| Codec::H265.role(set) == role));
        (name, sets)
    });
    let present = described.iter().filter(|(_, sets)| !sets.is_empty());
    let fields: Vec<String> = present
        .map(|(name, sets)| format!("{name}={sets}"))
        .collect();
    fields.join(";")
}

fn encode<'s>(sets: impl Iterator<Item = &'s Vec<u8>>) -> String {
    let encoded: Vec<String> = sets.map(|set| STANDARD.encode(set)).collect();
    encoded.join(",")
}

/// The parameter sets that a description has, at most [`SETS_MAX`]; what is not base64 or no
/// parameter set is left out.
///
/// # Errors
///
/// A mode of packetization that is not understood here.
pub fn sets(codec: Codec, parameters: &str) -> Result<Vec<Vec<u8>>, &'static str> {
    let mut sets = Vec::new();
    for field in parameters.split(';') {
        let (name, value) = field.split_once('=').unwrap_or((field, ""));
        match (codec, name.trim().to_ascii_lowercase().as_str()) {
            (Codec::H264, "packetization-mode") if value.trim() == "2" => {
                return Err("packetization-mode=2 (interleaved) is not supported");
            }
            (Codec::H265, "sprop-max-don-diff") if value.trim() != "0" => {
                return Err("sprop-max-don-diff above 0 (decoding order numbers) is not supported");
            }
            (Codec::H264, "sprop-parameter-sets")
            | (Codec::H265, "sprop-vps" | "sprop-sps" | "sprop-pps") => {
                sets.extend(value.split(',').filter_map(|set| decode(codec, set)));
            }
            _ => {}
        }
    }
    sets.sort_by_key(|set| codec.role(set) as u8);
    sets.truncate(SETS_MAX);
    Ok(sets)
}

fn decode(codec: Codec, encoded: &str) -> Option<Vec<u8>> {
    let set = STANDARD.decode(encoded.trim()).ok()?;
    is_set(codec, &set).then_some(set)
}

/// Is it a parameter set?
#[must_use]
pub fn is_set(codec: Codec, nal: &[u8]) -> bool {
    let role = codec.role(nal);
    matches!(role, Role::VideoSet | Role::SequenceSet | Role::PictureSet)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn example_of_rfc_6184_is_read_and_written() {
        // Section 8.3 has these values; both are sequence and picture parameter sets of a Baseline
        // stream.
        let line = "profile-level-id=42A01E;packetization-mode=1; sprop-parameter-sets=Z0IACpZTBYmI,aMljiA==";
        let sets = sets(Codec::H264, line).unwrap();
        assert_eq!(sets[0], [0x67, 0x42, 0, 0x0a, 0x96, 0x53, 5, 0x89, 0x88]);
        assert_eq!(sets[1], [0x68, 0xc9, 0x63, 0x88]);
        let format = format(Codec::H264, &sets);
        assert_eq!(
            format.parameters,
            "packetization-mode=1;profile-level-id=42000a;sprop-parameter-sets=Z0IACpZTBYmI,aMljiA=="
        );
        assert_eq!((format.clock_hz, format.payload_type), (90_000, 96));
    }

    #[test]
    fn parameter_sets_of_h265_come_back_in_order() {
        let given = [
            vec![0x40, 1, 1],
            vec![0x42, 1, 2],
            vec![0x44, 1, 3],
            vec![0x44, 1, 4],
        ];
        let format = format(Codec::H265, &given);
        assert_eq!(
            format.parameters,
            "sprop-vps=QAEB;sprop-sps=QgEC;sprop-pps=RAED,RAEE"
        );
        assert_eq!(sets(Codec::H265, &format.parameters).unwrap(), given);
        let turned = "sprop-pps=RAED,RAEE;SPROP-SPS=QgEC;sprop-vps = QAEB";
        assert_eq!(sets(Codec::H265, turned).unwrap(), given);
    }

    #[test]
    fn what_is_no_parameter_set_is_left_out() {
        for line in [
            "",
            ";;=;",
            "sprop-parameter-sets",
            "sprop-parameter-sets=!,,ZZ,ZQ==",
            "sprop-sps=Z0IACg==",
        ] {
            assert_eq!(sets(Codec::H264, line).unwrap(), [[0_u8; 0]; 0], "{line}");
        }
        let many = format!("sprop-parameter-sets={}", "Z0IACpZTBYmI,".repeat(100));
        assert_eq!(sets(Codec::H264, &many).unwrap().len(), SETS_MAX);
    }

    #[test]
    fn modes_that_are_not_understood_are_refused() {
        assert!(sets(Codec::H264, "packetization-mode=2").is_err());
        assert!(sets(Codec::H265, "sprop-max-don-diff=2").is_err());
        assert!(sets(Codec::H265, "sprop-max-don-diff=0").is_ok());
    }
}

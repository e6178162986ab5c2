//! What H.264 and H.265 have in common: NAL units, their roles, and the headers that say when
//! pictures begin and are shown.
//!
//! [`payload`](crate::payload) joins fragments into [`units`] with it, and sources of byte streams
//! split them. Everything here reads bytes of strangers: `bits` refuses numbers that no conforming
//! stream has, and no count decides how much is allocated. Nothing here reads a file or decodes a
//! picture.

mod bits;
mod h264;
mod h265;
pub mod headers;
pub mod order;
pub mod parameters;
pub mod slice;
pub mod units;

use crate::format::Encoding;

/// Ticks per second of RTP timestamps of video (RFC 6184, section 8.2.1; RFC 7798, section 7.1).
pub const CLOCK_HZ: u32 = 90_000;

/// In front of each NAL unit (H.264 and H.265, annex B).
pub const START_CODE: [u8; 4] = [0, 0, 0, 1];

/// Which of the two.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Codec {
    /// H.264 (AVC).
    H264,
    /// H.265 (HEVC).
    H265,
}

/// What a NAL unit is to an access unit.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Part of a picture.
    Slice,
    /// Video parameter set.
    VideoSet,
    /// Sequence parameter set.
    SequenceSet,
    /// Picture parameter set.
    PictureSet,
    /// First of an access unit wherever it stands.
    Delimiter,
    /// Stands in front of the slices of its access unit.
    Prefix,
    /// No more pictures of this sequence follow.
    SequenceEnd,
    /// Stands anywhere.
    Other,
    /// No standard says what it is; in RTP its number means something else (RFC 6184, section 5.2;
    /// RFC 7798, section 4.4).
    Unspecified,
}

impl Codec {
    /// How RTP and SDP call it.
    #[must_use]
    pub const fn encoding(self) -> Encoding {
        match self {
            Self::H264 => Encoding::H264,
            Self::H265 => Encoding::H265,
        }
    }

    /// Bytes of the header of a NAL unit.
    #[must_use]
    pub const fn header_bytes(self) -> usize {
        match self {
            Self::H264 => 1,
            Self::H265 => 2,
        }
    }

    /// The `nal_unit_type` of the header; `None` if it is cut short or has the forbidden bit set.
    #[must_use]
    pub fn nal_type(self, nal: &[u8]) -> Option<u8> {
        if nal.len() < self.header_bytes() || nal[0] & 0x80 != 0 {
            return None;
        }
        Some(match self {
            Self::H264 => nal[0] & 0x1f,
            Self::H265 => nal[0] >> 1,
        })
    }

    /// What the NAL unit is. Layers above the base layer of H.265 stay with the picture before
    /// them.
    #[must_use]
    pub fn role(self, nal: &[u8]) -> Role {
        let Some(nal_type) = self.nal_type(nal) else {
            return Role::Unspecified;
        };
        match self {
            Self::H264 => role_h264(nal_type),
            Self::H265 => {
                let is_base_layer = nal[0] & 1 == 0 && nal[1] >> 3 == 0;
                match role_h265(nal_type) {
                    Role::Unspecified => Role::Unspecified,
                    role if is_base_layer => role,
                    _ => Role::Other,
                }
            }
        }
    }

    /// May decoding begin with this slice? IDR pictures of H.264, random access points of H.265.
    #[must_use]
    pub fn is_start(self, nal: &[u8]) -> bool {
        match (self, self.nal_type(nal)) {
            (Self::H264, Some(nal_type)) => nal_type == 5,
            (Self::H265, Some(nal_type)) => (16..=23).contains(&nal_type),
            (_, None) => false,
        }
    }
}

/// Table 7-1 of H.264 and its section 7.4.1.2.3.
fn role_h264(nal_type: u8) -> Role {
    match nal_type {
        1 | 2 | 5 => Role::Slice,
        6 | 14..=18 => Role::Prefix,
        7 => Role::SequenceSet,
        8 => Role::PictureSet,
        9 => Role::Delimiter,
        10 => Role::SequenceEnd,
        0 | 24.. => Role::Unspecified,
        _ => Role::Other,
    }
}

/// Table 7-1 of H.265 and its section 7.4.2.4.4.
fn role_h265(nal_type: u8) -> Role {
    match nal_type {
        0..=9 | 16..=21 => Role::Slice,
        32 => Role::VideoSet,
        33 => Role::SequenceSet,
        34 => Role::PictureSet,
        35 => Role::Delimiter,
        36 => Role::SequenceEnd,
        39 | 41..=44 => Role::Prefix,
        48.. => Role::Unspecified,
        _ => Role::Other,
    }
}

/// Frames in seconds: 30,000 in 1,001 for NTSC.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct FrameRate {
    frames: u32,
    seconds: u32,
}

impl FrameRate {
    /// Fewest frames in ten seconds, and most in one, that are believed.
    const TEN_SECONDS_MIN: u64 = 1;
    const SECOND_MAX: u64 = 1000;

    /// So many frames in so many seconds; `None` if that is not between one frame in ten seconds
    /// and 1,000 in one.
    #[must_use]
    pub const fn new(frames: u32, seconds: u32) -> Option<Self> {
        let (wide_frames, wide_seconds) = (frames as u64, seconds as u64);
        let is_slow = wide_frames * 10 < wide_seconds * Self::TEN_SECONDS_MIN;
        if seconds == 0 || is_slow || wide_frames > wide_seconds * Self::SECOND_MAX {
            return None;
        }
        let (mut divisor, mut rest) = (frames, seconds);
        while rest != 0 {
            (divisor, rest) = (rest, divisor % rest);
        }
        Some(Self {
            frames: frames / divisor,
            seconds: seconds / divisor,
        })
    }

    /// When frame `index` begins, in ticks of [`CLOCK_HZ`]; rounded anew for each frame, so that
    /// nothing adds up.
    #[must_use]
    pub fn ticks(self, index: u64) -> u64 {
        let ticks = u128::from(index) * u128::from(CLOCK_HZ) * u128::from(self.seconds);
        (ticks / u128::from(self.frames)) as u64
    }
}

impl std::fmt::Display for FrameRate {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        match self.seconds {
            1 => write!(formatter, "{}", self.frames),
            seconds => write!(formatter, "{}/{seconds}", self.frames),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn roles_follow_the_tables() {
        assert_eq!(Codec::H264.role(&[0x67]), Role::SequenceSet);
        assert_eq!(Codec::H264.role(&[0x65]), Role::Slice);
        assert_eq!(Codec::H264.role(&[0x7c]), Role::Unspecified, "FU-A");
        assert_eq!(
            Codec::H264.role(&[0xe5]),
            Role::Unspecified,
            "forbidden bit"
        );
        assert_eq!(Codec::H264.role(&[]), Role::Unspecified);
        assert_eq!(Codec::H265.role(&[0x40, 1]), Role::VideoSet);
        assert_eq!(Codec::H265.role(&[0x40]), Role::Unspecified, "cut short");
        assert_eq!(Codec::H265.role(&[0x26, 0x01]), Role::Slice);
        assert_eq!(Codec::H265.role(&[0x26, 0x09]), Role::Other, "layer 1");
        assert_eq!(Codec::H265.role(&[0x60, 1]), Role::Unspecified, "AP");
        assert!(Codec::H264.is_start(&[0x65]) && !Codec::H264.is_start(&[0x41]));
        assert!(Codec::H265.is_start(&[0x2a, 1]) && !Codec::H265.is_start(&[0x02, 1]));
    }

    #[test]
    fn frame_times_do_not_drift() {
        let rate = FrameRate::new(30_000, 1001).unwrap();
        assert_eq!([0, 1, 2].map(|index| rate.ticks(index)), [0, 3003, 6006]);
        let rate = FrameRate::new(7, 1).unwrap();
        assert_eq!(rate.ticks(7_000_000), 90_000_000_000);
        assert_eq!(rate.to_string(), "7");
        assert_eq!(FrameRate::new(60_000, 2002), FrameRate::new(30_000, 1001));
    }

    #[test]
    fn unbelievable_rates_are_refused() {
        for (frames, seconds) in [(0, 1), (1, 0), (0, 0), (1, 11), (1001, 1), (u32::MAX, 1)] {
            assert_eq!(FrameRate::new(frames, seconds), None, "{frames}/{seconds}");
        }
        assert!(FrameRate::new(u32::MAX, u32::MAX).is_some());
    }
}

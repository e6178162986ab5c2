//! What a stream carries: its encoding, and the numbers that RTP and SDP need to know of it.
//!
//! A source finds it out from its input, [`payload`](crate::payload) cuts and joins by it,
//! [`sdp`](crate::sdp) writes and reads it.
//! Nothing here changes once a stream has begun.

/// How media is carried in RTP. Not `non_exhaustive`: sources and sinks have a case for each.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum Encoding {
    /// MPEG-2 transport stream (RFC 2250, section 2).
    MpegTs,
    /// Linear PCM of 16 bits in network byte order (RFC 3551, section 4.5.11).
    L16,
    /// G.711 in µ-law (RFC 3551, section 4.5.14).
    Pcmu,
    /// G.711 in A-law (RFC 3551, section 4.5.14).
    Pcma,
    /// MPEG-1 and MPEG-2 audio, layers I to III (RFC 2250, section 3.5).
    MpegAudio,
    /// H.264 (RFC 6184, packetization mode 1).
    H264,
    /// H.265 (RFC 7798).
    H265,
    /// Opus (RFC 7587).
    Opus,
}

impl Encoding {
    /// All of them.
    pub const ALL: [Self; 8] = [
        Self::MpegTs,
        Self::L16,
        Self::Pcmu,
        Self::Pcma,
        Self::MpegAudio,
        Self::H264,
        Self::H265,
        Self::Opus,
    ];

    /// The encoding name of SDP's `a=rtpmap`.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::MpegTs => "MP2T",
            Self::L16 => "L16",
            Self::Pcmu => "PCMU",
            Self::Pcma => "PCMA",
            Self::MpegAudio => "MPA",
            Self::H264 => "H264",
            Self::H265 => "H265",
            Self::Opus => "opus",
        }
    }

    /// The encoding of that name, which SDP compares without regard to case.
    #[must_use]
    pub fn named(name: &str) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|encoding| encoding.name().eq_ignore_ascii_case(name))
    }

    /// The media type of SDP's `m=` line.
    #[must_use]
    pub const fn media(self) -> &'static str {
        match self {
            Self::MpegTs | Self::H264 | Self::H265 => "video",
            Self::L16 | Self::Pcmu | Self::Pcma | Self::MpegAudio | Self::Opus => "audio",
        }
    }
}

/// What a stream carries.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct StreamFormat {
    /// How.
    pub encoding: Encoding,
    /// The RTP payload type: of RFC 3551's tables, or dynamic (96 to 127).
    pub payload_type: u8,
    /// Ticks per second of RTP timestamps.
    pub clock_hz: u32,
    /// Channels of audio; 1 for video.
    pub channels: u8,
    /// What SDP's `a=fmtp` says behind the payload type; empty: no such line.
    pub parameters: String,
}

//! What all RTP streams here share, and linear PCM: L16 of RFC 3551, section 4.5.11, identities of
//! RFC 3550, section 5.1.
//!
//! Samples are in network byte order: whoever decodes them writes them so, or calls
//! [`to_network_order`] before they are published.

use crate::RtpError;
use crate::format::{Encoding, StreamFormat};

/// Bytes of the header of every packet sent here (no contributing sources, no extension).
pub const HEADER_BYTES: usize = 12;

/// Payload bytes per packet at most: what an Ethernet frame of 1500 bytes leaves behind IPv6 (40),
/// UDP (8) and RTP (12), less some space for tunnels.
pub const MAX_PAYLOAD_BYTES: usize = 1400;

const SAMPLE_BYTES: usize = 2;
const MAX_CHANNELS: u8 = 8;
/// L16 at 44.1 kHz has numbers of its own in RFC 3551, table 4; anything else takes a dynamic one.
const STATIC_RATE: u32 = 44_100;
const STEREO_AT_STATIC_RATE: u8 = 10;
const MONO_AT_STATIC_RATE: u8 = 11;
/// The payload type of what RFC 3551 assigns none: the first that is used here of the dynamic ones.
pub const DYNAMIC: u8 = 97;

/// What the samples are: 16 bits, this many channels, at this rate.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct L16 {
    samples_per_second: u32,
    channels: u8,
}

impl L16 {
    /// A format that can be sent.
    ///
    /// # Errors
    ///
    /// [`RtpError::Format`] for no samples, no channels, or more than eight.
    pub fn new(samples_per_second: u32, channels: u8) -> Result<Self, RtpError> {
        let reason = match (samples_per_second, channels) {
            (0, _) => "a sampling rate is at least 1",
            (_, 0) => "there is at least one channel",
            (_, count) if count > MAX_CHANNELS => "there are at most eight channels",
            _ => {
                return Ok(Self {
                    samples_per_second,
                    channels,
                });
            }
        };
        Err(RtpError::Format {
            samples_per_second,
            channels,
            reason,
        })
    }

    /// Samples per second and channel: the rate of the media clock.
    #[must_use]
    pub fn samples_per_second(self) -> u32 {
        self.samples_per_second
    }

    /// Channels, interleaved.
    #[must_use]
    pub fn channels(self) -> u8 {
        self.channels
    }

    /// Bytes of a sample frame: one sample of each channel.
    #[must_use]
    pub fn frame_bytes(self) -> usize {
        SAMPLE_BYTES * usize::from(self.channels)
    }

    /// The payload type: 10 or 11 where RFC 3551 assigns one, else 97.
    #[must_use]
    pub fn payload_type(self) -> u8 {
        match (self.samples_per_second, self.channels) {
            (STATIC_RATE, 2) => STEREO_AT_STATIC_RATE,
            (STATIC_RATE, 1) => MONO_AT_STATIC_RATE,
            _ => DYNAMIC,
        }
    }
}

impl From<L16> for StreamFormat {
    fn from(format: L16) -> Self {
        Self {
            encoding: Encoding::L16,
            payload_type: format.payload_type(),
            clock_hz: format.samples_per_second,
            channels: format.channels,
            parameters: String::new(),
        }
    }
}

/// What RFC 3550 wants chosen at random for each stream.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Identity {
    /// The synchronisation source.
    pub ssrc: u32,
    /// The first sequence number.
    pub sequence: u16,
    /// The timestamp of the first sample.
    pub timestamp: u32,
    /// The canonical name (RFC 7022: 96 random bits), as sent in RTCP.
    pub name: [u8; 12],
}

impl Identity {
    /// Bytes that [`Self::from_bytes`] makes one from.
    pub const RANDOM_BYTES: usize = 22;

    /// The same for the same seed: for runs that are to be repeated.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        let mut bytes = [0; Self::RANDOM_BYTES];
        for (index, chunk) in (0..).zip(bytes.chunks_mut(8)) {
            chunk.copy_from_slice(&scramble(seed, index).to_be_bytes()[..chunk.len()]);
        }
        Self::from_bytes(bytes)
    }

    /// Made from random bytes, which the caller has from a source that peers cannot predict.
    #[must_use]
    pub fn from_bytes(bytes: [u8; Self::RANDOM_BYTES]) -> Self {
        let [a, b, c, d, e, f, g, h, i, j, name @ ..] = bytes;
        Self {
            ssrc: u32::from_be_bytes([a, b, c, d]),
            sequence: u16::from_be_bytes([e, f]),
            timestamp: u32::from_be_bytes([g, h, i, j]),
            name,
        }
    }
}

/// The `index`th output of splitmix64 (Steele, Lea, Flood 2014).
fn scramble(seed: u64, index: u64) -> u64 {
    let state = seed.wrapping_add((index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let state = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
    let state = (state ^ state >> 27).wrapping_mul(0x94d0_49bb_1331_11eb);
    state ^ state >> 31
}

/// Turns 16-bit samples from this machine's byte order into network order, in place; a last odd
/// byte stays as it is.
pub fn to_network_order(samples: &mut [u8]) {
    for sample in samples.as_chunks_mut::<SAMPLE_BYTES>().0 {
        *sample = i16::from_ne_bytes(*sample).to_be_bytes();
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn payload_types_follow_the_table() {
        let payload_type = |rate, channels| L16::new(rate, channels).unwrap().payload_type();
        assert_eq!(payload_type(44_100, 2), 10);
        assert_eq!(payload_type(44_100, 1), 11);
        assert_eq!(payload_type(48_000, 2), 97);
        assert_eq!(payload_type(22_050, 1), 97);
        for (rate, channels) in [(0, 1), (8_000, 0), (8_000, 9)] {
            assert!(matches!(
                L16::new(rate, channels),
                Err(RtpError::Format { .. })
            ));
        }
    }

    #[test]
    fn identities_differ_by_seed() {
        assert_eq!(Identity::seeded(3), Identity::seeded(3));
        assert_ne!(Identity::seeded(3), Identity::seeded(4));
    }

    #[test]
    fn network_order_is_big_endian() {
        let mut bytes = [0x1234_i16.to_ne_bytes(), (-2_i16).to_ne_bytes()].concat();
        to_network_order(&mut bytes);
        assert_eq!(bytes, [0x12, 0x34, 0xff, 0xfe]);
    }
}

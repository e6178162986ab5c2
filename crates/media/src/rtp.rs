//! Linear PCM as RTP packets: L16 of RFC 3551, section 4.5.11, headers of RFC 3550, section 5.1.
//!
//! [`RtpSender`](crate::send::RtpSender) feeds a [`Packetizer`] one payload (a decoded frame, still in
//! its slot) at a time and sends what it yields. The header is built here, the payload stays where
//! it is: a packet is twelve bytes of its own and a slice of the slot.
//!
//! Payloads are in network byte order: whoever decodes into the slot writes them so, or calls
//! [`to_network_order`] while it still holds the lease. Nothing here writes a payload, allocates or
//! knows the time.

use rtp_types::RtpPacketBuilder;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::MediaError;
use crate::format::{Encoding, StreamFormat};

/// Bytes of the header of every packet sent here (no contributing sources, no extension).
pub const HEADER_BYTES: usize = 12;

/// Payload bytes per packet at most: what an Ethernet frame of 1500 bytes leaves behind IPv6 (40),
/// UDP (8) and RTP (12), less some room for tunnels.
pub const MAX_PAYLOAD_BYTES: usize = 1400;

const SAMPLE_BYTES: usize = 2;
const MAX_CHANNELS: u8 = 8;
/// L16 at 44.1 kHz has numbers of its own in RFC 3551, table 4; anything else takes a dynamic one.
const STATIC_RATE: u32 = 44_100;
const STEREO_AT_STATIC_RATE: u8 = 10;
const MONO_AT_STATIC_RATE: u8 = 11;
pub(crate) const DYNAMIC: u8 = 97;

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
    /// [`MediaError::Format`] for no samples, no channels, or more than eight.
    pub fn new(samples_per_second: u32, channels: u8) -> Result<Self, MediaError> {
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
        Err(MediaError::Format {
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
    /// Chosen by the kernel's random numbers.
    ///
    /// # Errors
    ///
    /// [`MediaError::System`] where the kernel gives none.
    pub fn random() -> Result<Self, MediaError> {
        let mut bytes = [0; 22];
        let filled =
            getrandom(&mut bytes, GetRandomFlags::empty()).map_err(|error| MediaError::System {
                what: "get random numbers",
                source: error.into(),
            })?;
        debug_assert_eq!(filled, bytes.len(), "up to 256 bytes come whole");
        Ok(Self::from_bytes(bytes))
    }

    /// The same for the same seed: for runs that are to be repeated.
    #[must_use]
    pub fn seeded(seed: u64) -> Self {
        let mut bytes = [0; 22];
        for (index, chunk) in (0..).zip(bytes.chunks_mut(8)) {
            chunk.copy_from_slice(&scramble(seed, index).to_be_bytes()[..chunk.len()]);
        }
        Self::from_bytes(bytes)
    }

    fn from_bytes(bytes: [u8; 22]) -> Self {
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

/// A packet: a header of its own, a payload that stays where it was.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Packet<'p> {
    /// The RTP header.
    pub header: [u8; HEADER_BYTES],
    /// The samples, in network byte order.
    pub payload: &'p [u8],
    /// How many samples of each channel the payload holds.
    pub samples: u32,
}

/// Cuts payloads into packets and numbers them.
///
/// ```
/// use hythe_media::rtp::{Identity, L16, Packetizer};
///
/// let format = L16::new(44_100, 2)?;
/// let mut packetizer = Packetizer::new(format, Identity::seeded(1));
/// let frame = [0; 4608]; // 1152 samples of two channels
/// let sizes: Vec<usize> = packetizer.packets(&frame)?.map(|packet| packet.payload.len()).collect();
/// assert_eq!(sizes, [1152; 4]);
/// # Ok::<(), hythe_media::MediaError>(())
/// ```
#[derive(Clone, Debug)]
pub struct Packetizer {
    format: L16,
    ssrc: u32,
    sequence: u16,
    timestamp: u32,
    marks_talkspurts: bool,
    marker: bool,
    max_payload_bytes: usize,
}

impl Packetizer {
    /// A packetizer at the start of a stream that is sent without pauses. RFC 3551, section 4.1,
    /// wants the marker bit to be zero throughout then.
    #[must_use]
    pub fn new(format: L16, identity: Identity) -> Self {
        Self {
            format,
            ssrc: identity.ssrc,
            sequence: identity.sequence,
            timestamp: identity.timestamp,
            marks_talkspurts: false,
            marker: false,
            max_payload_bytes: MAX_PAYLOAD_BYTES,
        }
    }

    /// Silence is not sent: the first packet, and the first after each [`skip`](Self::skip), gets
    /// the marker bit.
    #[must_use]
    pub fn with_silence_suppression(mut self) -> Self {
        self.marks_talkspurts = true;
        self.marker = true;
        self
    }

    /// Another limit than [`MAX_PAYLOAD_BYTES`], where the way is known to carry more or less. A
    /// packet holds at least one sample frame all the same.
    #[must_use]
    pub fn with_max_payload_bytes(mut self, bytes: usize) -> Self {
        self.max_payload_bytes = bytes;
        self
    }

    /// The format given to [`Self::new`].
    #[must_use]
    pub fn format(&self) -> L16 {
        self.format
    }

    /// The timestamp that the next sample will have.
    #[must_use]
    pub fn timestamp(&self) -> u32 {
        self.timestamp
    }

    /// Cuts `payload` into packets of nearly equal size, on sample frames. Packets that are not
    /// taken from the iterator are not numbered: their samples are as if never offered.
    ///
    /// # Errors
    ///
    /// [`MediaError::PartialSample`] if `payload` is not a whole number of sample frames.
    pub fn packets<'p>(&'p mut self, payload: &'p [u8]) -> Result<Packets<'p>, MediaError> {
        let frame_bytes = self.format.frame_bytes();
        if !payload.len().is_multiple_of(frame_bytes) {
            return Err(MediaError::PartialSample {
                bytes: payload.len(),
                frame_bytes,
            });
        }
        let most_frames = (self.max_payload_bytes / frame_bytes).max(1);
        let packets = (payload.len() / frame_bytes).div_ceil(most_frames);
        Ok(Packets {
            packetizer: self,
            rest: payload,
            packets,
        })
    }

    /// Passes over `samples` of silence that are not sent.
    pub fn skip(&mut self, samples: u32) {
        self.timestamp = self.timestamp.wrapping_add(samples);
        self.marker = self.marks_talkspurts;
    }

    fn number<'p>(&mut self, payload: &'p [u8]) -> Packet<'p> {
        let samples = (payload.len() / self.format.frame_bytes()) as u32;
        let mut header = [0; HEADER_BYTES];
        RtpPacketBuilder::<&[u8], &[u8]>::new()
            .payload_type(self.format.payload_type())
            .marker_bit(self.marker)
            .sequence_number(self.sequence)
            .timestamp(self.timestamp)
            .ssrc(self.ssrc)
            .write_into_unchecked(&mut header);
        self.marker = false;
        self.sequence = self.sequence.wrapping_add(1);
        self.timestamp = self.timestamp.wrapping_add(samples);
        Packet {
            header,
            payload,
            samples,
        }
    }
}

/// The packets of one payload; see [`Packetizer::packets`].
#[derive(Debug)]
pub struct Packets<'p> {
    packetizer: &'p mut Packetizer,
    rest: &'p [u8],
    packets: usize,
}

impl<'p> Iterator for Packets<'p> {
    type Item = Packet<'p>;

    fn next(&mut self) -> Option<Packet<'p>> {
        let frame_bytes = self.packetizer.format.frame_bytes();
        let frames = (self.rest.len() / frame_bytes).div_ceil(self.packets.max(1));
        let (payload, rest) = self.rest.split_at_checked(frames * frame_bytes)?;
        self.packets = self.packets.checked_sub(1)?;
        self.rest = rest;
        Some(self.packetizer.number(payload))
    }

    fn size_hint(&self) -> (usize, Option<usize>) {
        (self.packets, Some(self.packets))
    }
}

impl ExactSizeIterator for Packets<'_> {}

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
    use rtp_types::RtpPacket;

    fn packetizer(rate: u32, channels: u8) -> Packetizer {
        let mut identity = Identity::seeded(7);
        (identity.sequence, identity.timestamp) = (0xfffe, 0xffff_ff00);
        Packetizer::new(L16::new(rate, channels).unwrap(), identity)
    }

    #[test]
    fn headers_read_back_and_wrap() {
        let payload: Vec<u8> = (0..4608_u32).map(|byte| byte as u8).collect();
        let mut packetizer = packetizer(44_100, 2);
        let mut joined = Vec::new();
        for (index, packet) in packetizer.packets(&payload).unwrap().enumerate() {
            let bytes = [&packet.header[..], packet.payload].concat();
            let read = RtpPacket::parse(&bytes).unwrap();
            assert_eq!(read.payload_type(), 10);
            assert_eq!(read.ssrc(), Identity::seeded(7).ssrc);
            assert_eq!(
                read.sequence_number(),
                0xfffe_u16.wrapping_add(index as u16)
            );
            assert_eq!(
                read.timestamp(),
                0xffff_ff00_u32.wrapping_add(288 * index as u32)
            );
            assert!(!read.marker_bit());
            joined.extend_from_slice(read.payload());
        }
        assert_eq!(joined, payload);
    }

    #[test]
    fn packets_are_nearly_equal_and_within_the_limit() {
        for frames in [1, 2, 349, 350, 351, 699, 701, 1152, 5000] {
            for (channels, frame_bytes) in [(1, 2), (2, 4), (6, 12)] {
                let payload = vec![0; frames * frame_bytes];
                let mut packetizer = packetizer(48_000, channels);
                let packets = packetizer.packets(&payload).unwrap();
                let expected = packets.len();
                let sizes: Vec<usize> = packets.map(|packet| packet.payload.len()).collect();
                assert_eq!(sizes.len(), expected);
                assert_eq!(sizes.iter().sum::<usize>(), payload.len());
                let (least, most) = (sizes.iter().min().unwrap(), sizes.iter().max().unwrap());
                assert!(
                    *most <= MAX_PAYLOAD_BYTES && most - least <= frame_bytes,
                    "{sizes:?}"
                );
                assert_eq!(
                    expected,
                    payload.len().div_ceil(1400 / frame_bytes * frame_bytes)
                );
            }
        }
        assert_eq!(packetizer(8_000, 1).packets(&[]).unwrap().count(), 0);
    }

    #[test]
    fn a_partial_sample_is_refused() {
        let mut packetizer = packetizer(44_100, 2);
        let error = packetizer.packets(&[0; 6]).unwrap_err();
        assert!(matches!(
            error,
            MediaError::PartialSample {
                bytes: 6,
                frame_bytes: 4
            }
        ));
    }

    #[test]
    fn the_marker_stands_where_talk_begins_and_nowhere_else() {
        let mut packetizer = packetizer(8_000, 1).with_silence_suppression();
        let payload = [0; 320];
        let mut markers = |skip| {
            packetizer.skip(skip);
            packetizer
                .packets(&payload)
                .unwrap()
                .map(|packet| packet.header[1] >> 7)
                .collect()
        };
        let first: Vec<u8> = markers(0);
        assert_eq!(first, [1]);
        let mut packetizer = self::packetizer(8_000, 1).with_silence_suppression();
        let continued: Vec<u8> = (0..2)
            .flat_map(|_| {
                packetizer
                    .packets(&payload)
                    .unwrap()
                    .map(|p| p.header[1] >> 7)
                    .last()
            })
            .collect();
        assert_eq!(continued, [1, 0]);
        let before = packetizer.timestamp();
        packetizer.skip(1000);
        assert_eq!(packetizer.timestamp(), before.wrapping_add(1000));
        assert_eq!(
            packetizer.packets(&payload).unwrap().next().unwrap().header[1] >> 7,
            1
        );
    }

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
                Err(MediaError::Format { .. })
            ));
        }
    }

    #[test]
    fn identities_differ_by_seed_and_by_chance() {
        assert_eq!(Identity::seeded(3), Identity::seeded(3));
        assert_ne!(Identity::seeded(3), Identity::seeded(4));
        assert_ne!(Identity::random().unwrap(), Identity::random().unwrap());
    }

    #[test]
    fn network_order_is_big_endian() {
        let mut bytes = [0x1234_i16.to_ne_bytes(), (-2_i16).to_ne_bytes()].concat();
        to_network_order(&mut bytes);
        assert_eq!(bytes, [0x12, 0x34, 0xff, 0xfe]);
    }
}

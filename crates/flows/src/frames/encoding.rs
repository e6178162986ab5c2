//! Bytes of a frame: the payload of a UDP datagram over IPv4.
//!
//! `spec/flows.md` has the layout. All numbers are little endian.

use crate::position::Position;

/// Bytes in front of a message's payload.
pub(super) const HEADER_BYTES: usize = 32;

const KIND_OFFSET: usize = 24;
const CHECKSUM_OFFSET: usize = 28;

/// What a frame contains.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Packet {
    /// A message of this number, with so many bytes of payload behind the header.
    Message { number: u64, length: usize },
    /// What has arrived at the subscriber's end.
    Acknowledgement(Position),
    /// Asks for an answer with the same number.
    Probe(u64),
    /// Answers a probe.
    Answer(u64),
}

impl Packet {
    /// The header; `payload` is what is sent behind it.
    pub(super) fn header(self, word: u64, payload: &[u8]) -> [u8; HEADER_BYTES] {
        let (kind, first, second) = match self {
            Self::Message { number, length } => (1, number, length as u64),
            Self::Acknowledgement(position) => (2, position.received, position.accepted),
            Self::Probe(number) => (3, number, 0),
            Self::Answer(number) => (3, number, 1),
        };
        let mut header = [0; HEADER_BYTES];
        for (bytes, number) in header.chunks_exact_mut(8).zip([word, first, second]) {
            bytes.copy_from_slice(&number.to_le_bytes());
        }
        header[KIND_OFFSET] = kind;
        let checksum = checksum(&header, payload);
        header[CHECKSUM_OFFSET..].copy_from_slice(&checksum.to_le_bytes());
        header
    }

    /// Reads a frame; `None`: it is damaged, or none of the flow with this secret.
    pub(super) fn decode(word: u64, frame: &[u8]) -> Option<Self> {
        let (header, payload) = frame.split_first_chunk::<HEADER_BYTES>()?;
        let (words, _) = header.as_chunks::<8>();
        let [sent_word, first, second] =
            [0, 1, 2].map(|index: usize| u64::from_le_bytes(words[index]));
        if sent_word != word {
            return None;
        }
        let [kind, 0, 0, 0, sent @ ..] = words[3] else {
            return None;
        };
        let mut unsigned = *header;
        unsigned[CHECKSUM_OFFSET..].fill(0);
        if u32::from_le_bytes(sent) != checksum(&unsigned, payload) {
            return None;
        }
        match (kind, second) {
            (1, length) if length == payload.len() as u64 => Some(Self::Message {
                number: first,
                length: payload.len(),
            }),
            (2, accepted) if payload.is_empty() => Some(Self::Acknowledgement(Position {
                received: first,
                accepted,
            })),
            (3, 0) => Some(Self::Probe(first)),
            (3, 1) if payload.is_empty() => Some(Self::Answer(first)),
            _ => None,
        }
    }
}

/// CRC-32C of a header without one, and its payload: UDP's own checksum is left out.
fn checksum(header: &[u8; HEADER_BYTES], payload: &[u8]) -> u32 {
    crc32c::crc32c_append(crc32c::crc32c(header), payload)
}

#[cfg(test)]
mod tests {
    use super::*;

    const WORD: u64 = 0x0102_0304_0506_0708;

    fn frame(packet: Packet, payload: &[u8]) -> Vec<u8> {
        let mut frame = packet.header(WORD, payload).to_vec();
        frame.extend_from_slice(payload);
        frame
    }

    fn all() -> [(Packet, &'static [u8]); 5] {
        let position = Position {
            received: 9,
            accepted: 3,
        };
        let message = Packet::Message {
            number: 5,
            length: 3,
        };
        [
            (message, &[1, 2, 3]),
            (Packet::Acknowledgement(position), &[]),
            (Packet::Probe(6), &[0; 100]),
            (Packet::Probe(6), &[]),
            (Packet::Answer(6), &[]),
        ]
    }

    #[test]
    fn encodings_are_those_of_the_specification() {
        for (packet, payload) in all() {
            assert_eq!(Packet::decode(WORD, &frame(packet, payload)), Some(packet));
        }
        let (message, payload) = all()[0];
        let mut bytes = message.header(WORD, payload);
        let checksum = crc32c::crc32c(
            b"\x08\x07\x06\x05\x04\x03\x02\x01\
            \x05\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0\
              \x01\x02\x03",
        );
        assert_eq!(bytes[28..], checksum.to_le_bytes());
        bytes[28..].fill(0);
        let expected = b"\x08\x07\x06\x05\x04\x03\x02\x01\
            \x05\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0\x01\0\0\0\0\0\0\0";
        assert_eq!(&bytes, expected);
    }

    #[test]
    fn decoding_refuses_foreign_and_damaged_frames() {
        for (packet, payload) in all() {
            let whole = frame(packet, payload);
            assert_eq!(Packet::decode(WORD + 1, &whole), None);
            for at in 0..whole.len() {
                let mut damaged = whole.clone();
                damaged[at] ^= 0x10;
                assert_eq!(
                    Packet::decode(WORD, &damaged),
                    None,
                    "{packet:?}: byte {at}"
                );
                assert_eq!(Packet::decode(WORD, &whole[..at]), None, "{packet:?}: {at}");
            }
        }
        let longer = Packet::Message {
            number: 5,
            length: 4,
        };
        assert_eq!(Packet::decode(WORD, &frame(longer, &[1, 2, 3])), None);
        let strange = Packet::Answer(6);
        assert_eq!(Packet::decode(WORD, &frame(strange, &[1])), None);
    }
}

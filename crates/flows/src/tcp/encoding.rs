//! Bytes of a flow's connection: greeting, answer, frame headers, acknowledgements.
//!
//! `spec/flows.md` has the layout. All numbers are little endian.

use crate::position::Position;

/// Bytes of a greeting, and of its answer.
pub(super) const GREETING_BYTES: usize = 32;
/// Bytes in front of each message.
pub(super) const HEADER_BYTES: usize = 16;
/// Bytes of an acknowledgement.
pub(super) const ACKNOWLEDGEMENT_BYTES: usize = 16;

const MAGIC: [u8; 8] = *b"HYTHEFLW";
/// Changes with the layout of anything here.
const VERSION: u32 = 1;
/// In the place of a length: the publisher sends no further message.
const END: u32 = u32::MAX;

/// Flow number and secret of a connection, as the agents agreed on them.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct FlowSecret {
    pub(crate) flow: u32,
    pub(crate) word: u64,
}

impl FlowSecret {
    /// First bytes of a connection, from the publisher's end.
    pub(super) fn greeting(self) -> [u8; GREETING_BYTES] {
        encode(self.flow, self.word, 0)
    }

    /// True: the greeting has this flow's number and secret.
    pub(super) fn matches(self, greeting: &[u8; GREETING_BYTES]) -> bool {
        decode(greeting) == Some((self.flow, self.word, 0))
    }
}

impl Position {
    pub(super) fn answer(self, flow: u32) -> [u8; GREETING_BYTES] {
        encode(flow, self.received, self.accepted)
    }

    /// Reads an answer; `None`: it is none of this flow.
    pub(super) fn of_answer(answer: &[u8; GREETING_BYTES], flow: u32) -> Option<Self> {
        let (answered, received, accepted) = decode(answer)?;
        (answered == flow).then_some(Self { received, accepted })
    }

    pub(super) fn acknowledgement(self) -> [u8; ACKNOWLEDGEMENT_BYTES] {
        pair(self.received, self.accepted)
    }

    pub(super) fn of_acknowledgement(bytes: &[u8; ACKNOWLEDGEMENT_BYTES]) -> Self {
        let [received, accepted] = numbers(bytes);
        Self { received, accepted }
    }
}

/// What a frame header announces.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Frame {
    /// A message of this number, with so many bytes of payload behind the header.
    Message { number: u64, length: u32 },
    /// The end of the flow; its number is that of the message which would have been next.
    End { number: u64 },
}

impl Frame {
    pub(super) fn header(self) -> [u8; HEADER_BYTES] {
        match self {
            Self::Message { number, length } => pair(number, length.into()),
            Self::End { number } => pair(number, END.into()),
        }
    }

    /// `None`: reserved bytes are not 0.
    pub(super) fn of_header(header: &[u8; HEADER_BYTES]) -> Option<Self> {
        let [number, length] = numbers(header);
        Some(match u32::try_from(length).ok()? {
            END => Self::End { number },
            length => Self::Message { number, length },
        })
    }
}

fn pair(first: u64, second: u64) -> [u8; 16] {
    let mut bytes = [0; 16];
    bytes[..8].copy_from_slice(&first.to_le_bytes());
    bytes[8..].copy_from_slice(&second.to_le_bytes());
    bytes
}

fn numbers(bytes: &[u8; 16]) -> [u64; 2] {
    let (words, _) = bytes.as_chunks::<8>();
    [0, 1].map(|index| u64::from_le_bytes(words[index]))
}

fn encode(flow: u32, first: u64, second: u64) -> [u8; GREETING_BYTES] {
    let mut bytes = [0; GREETING_BYTES];
    bytes[..8].copy_from_slice(&MAGIC);
    bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
    bytes[12..16].copy_from_slice(&flow.to_le_bytes());
    bytes[16..].copy_from_slice(&pair(first, second));
    bytes
}

fn decode(bytes: &[u8; GREETING_BYTES]) -> Option<(u32, u64, u64)> {
    let (words, _) = bytes.as_chunks::<4>();
    let is_ours = bytes[..8] == MAGIC && u32::from_le_bytes(words[2]) == VERSION;
    let (halves, _) = bytes.as_chunks::<16>();
    let [first, second] = numbers(&halves[1]);
    is_ours.then_some((u32::from_le_bytes(words[3]), first, second))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn encodings_are_those_of_the_specification() {
        let secret = FlowSecret {
            flow: 7,
            word: 0x0102_0304_0506_0708,
        };
        let greeting = secret.greeting();
        let bytes = b"HYTHEFLW\x01\0\0\0\x07\0\0\0\x08\x07\x06\x05\x04\x03\x02\x01\0\0\0\0\0\0\0\0";
        assert_eq!(&greeting, bytes);
        let position = Position {
            received: 9,
            accepted: 3,
        };
        let answer = b"HYTHEFLW\x01\0\0\0\x07\0\0\0\x09\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0";
        assert_eq!(&position.answer(7), answer);
        let acknowledgement = b"\x09\0\0\0\0\0\0\0\x03\0\0\0\0\0\0\0";
        assert_eq!(&position.acknowledgement(), acknowledgement);
        let message = Frame::Message {
            number: 2,
            length: 300,
        };
        assert_eq!(&message.header(), b"\x02\0\0\0\0\0\0\0\x2c\x01\0\0\0\0\0\0");
        let end = Frame::End { number: 5 };
        assert_eq!(&end.header(), b"\x05\0\0\0\0\0\0\0\xff\xff\xff\xff\0\0\0\0");
    }

    #[test]
    fn decoding_refuses_foreign_bytes() {
        let secret = FlowSecret { flow: 7, word: 1 };
        assert!(secret.matches(&secret.greeting()));
        for other in [
            FlowSecret { flow: 8, word: 1 },
            FlowSecret { flow: 7, word: 2 },
        ] {
            assert!(!secret.matches(&other.greeting()));
        }
        for at in 0..GREETING_BYTES {
            let mut greeting = secret.greeting();
            greeting[at] ^= 0x80;
            assert!(!secret.matches(&greeting), "byte {at}");
        }
        let position = Position {
            received: 2,
            accepted: 1,
        };
        assert_eq!(Position::of_answer(&position.answer(7), 7), Some(position));
        assert_eq!(Position::of_answer(&position.answer(7), 8), None);
        let bytes = position.acknowledgement();
        assert_eq!(Position::of_acknowledgement(&bytes), position);
        for frame in [
            Frame::Message {
                number: 1,
                length: 0,
            },
            Frame::End { number: 4 },
        ] {
            assert_eq!(Frame::of_header(&frame.header()), Some(frame));
        }
        assert_eq!(Frame::of_header(&[0xff; HEADER_BYTES]), None);
    }
}

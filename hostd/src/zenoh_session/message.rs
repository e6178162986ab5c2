//! The messages of a tunnel, as bytes: `spec/host.md`. Pure.

use super::flow::Taken;

/// Kind and position.
const HEADER_BYTES: usize = 9;

/// A message.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Message<'a> {
    /// The first message of who dials.
    Open,
    /// Bytes, and how many were before them. None: how many were sent.
    Bytes(u64, &'a [u8]),
    /// How far whoever sends this is.
    Taken(Taken),
    /// The end of both directions.
    Close,
}

impl<'a> Message<'a> {
    /// As it travels.
    pub(super) fn encode(self) -> Vec<u8> {
        let (kind, position, bytes) = match self {
            Self::Open => (0, 0, &[][..]),
            Self::Bytes(position, bytes) => (1, position, bytes),
            Self::Taken(there) => {
                let kind = 2 + u8::from(there.is_missing);
                (kind, there.received, &there.consumed.to_le_bytes()[..])
            }
            Self::Close => (4, 0, &[][..]),
        };
        let mut message = Vec::with_capacity(HEADER_BYTES + bytes.len());
        message.push(kind);
        message.extend_from_slice(&position.to_le_bytes());
        message.extend_from_slice(bytes);
        message
    }

    /// Reads a message; `None` if it is none.
    pub(super) fn decode(message: &'a [u8]) -> Option<Self> {
        let (header, bytes) = message.split_first_chunk::<HEADER_BYTES>()?;
        let [kind, position @ ..] = *header;
        let position = u64::from_le_bytes(position);
        Some(match kind {
            0 => Self::Open,
            1 => Self::Bytes(position, bytes),
            2 | 3 => Self::Taken(Taken {
                received: position,
                consumed: u64::from_le_bytes(bytes.try_into().ok()?),
                is_missing: kind == 3,
            }),
            4 => Self::Close,
            _ => return None,
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn messages_are_those_of_the_specification() {
        let state = |is_missing| Taken {
            received: 0x0102,
            consumed: 3,
            is_missing,
        };
        let messages: [(Message<'_>, &[u8]); 5] = [
            (Message::Open, &[0, 0, 0, 0, 0, 0, 0, 0, 0]),
            (Message::Bytes(0x0102, b"ab"), b"\x01\x02\x01\0\0\0\0\0\0ab"),
            (
                Message::Taken(state(false)),
                b"\x02\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0",
            ),
            (
                Message::Taken(state(true)),
                b"\x03\x02\x01\0\0\0\0\0\0\x03\0\0\0\0\0\0\0",
            ),
            (Message::Close, &[4, 0, 0, 0, 0, 0, 0, 0, 0]),
        ];
        for (message, bytes) in messages {
            assert_eq!(message.encode(), bytes);
            assert_eq!(Message::decode(bytes), Some(message));
        }
        for damaged in [&[][..], &[1; 8], &[2; 16], &[5; 9]] {
            assert_eq!(Message::decode(damaged), None);
        }
    }
}

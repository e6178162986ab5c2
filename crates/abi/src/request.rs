//! What travels beside the payload of a request or reply (`spec/request.md`): 16 bytes at the start
//! of the slot's headroom.

/// Bytes of a header.
pub const BYTES: usize = 16;
/// Where the header stands, from the slot's first byte.
pub const OFFSET: usize = 0;

/// What a message over a request/reply channel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum MessageKind {
    /// From a client to a server.
    Request,
    /// From a server to the client that asked.
    Reply,
    /// From a server to the client that asked: there will be no reply.
    GivenUp,
    /// From a server to the client that asked: who should have answered for it is gone. Whether it
    /// acted on the request is not known.
    Lost,
}

/// The header.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the message is.
    pub kind: MessageKind,
    /// The client's number of the request, never 0. Chosen by the client, unique among its
    /// requests.
    pub number: u64,
}

impl Header {
    /// The bytes as they stand in the headroom.
    #[must_use]
    pub fn to_bytes(self) -> [u8; BYTES] {
        let kind: u32 = match self.kind {
            MessageKind::Request => 1,
            MessageKind::Reply => 2,
            MessageKind::GivenUp => 3,
            MessageKind::Lost => 4,
        };
        let mut bytes = [0; BYTES];
        bytes[..4].copy_from_slice(&kind.to_le_bytes());
        bytes[8..].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    /// Reads a peer's claim; `None` if it is none of ours.
    #[must_use]
    pub const fn from_bytes(bytes: [u8; BYTES]) -> Option<Self> {
        let [a, b, c, d, _, _, _, _, number @ ..] = bytes;
        let kind = match u32::from_le_bytes([a, b, c, d]) {
            1 => MessageKind::Request,
            2 => MessageKind::Reply,
            3 => MessageKind::GivenUp,
            4 => MessageKind::Lost,
            _ => return None,
        };
        match u64::from_le_bytes(number) {
            0 => None,
            number => Some(Self { kind, number }),
        }
    }
}

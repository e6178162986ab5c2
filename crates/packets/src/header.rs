//! The header of a packet: its bytes, its checksum, and what a stranger's packet lacks.

use crate::fault::DropReason;

/// Bytes of each packet's header. An acknowledgement without gaps is nothing else, so that no
/// packet is answered with more bytes than it has.
pub const HEADER_BYTES: usize = 48;

const CHECKSUM_OFFSET: usize = 12;
const PAYLOAD_BYTES_OFFSET: usize = 26;

/// CRC32C (Castagnoli) of a payload, which may be added in pieces. UDP's own checksum is not
/// computed on virtual links.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Checksum {
    crc: u32,
    bytes: usize,
}

impl Checksum {
    /// Of the whole payload.
    #[must_use]
    pub fn of(payload: &[u8]) -> Self {
        let mut checksum = Self::default();
        checksum.add(payload);
        checksum
    }

    /// Adds the next piece. For payload that others may still write, pieces are copied first.
    pub fn add(&mut self, piece: &[u8]) {
        self.crc = crc32c::crc32c_append(self.crc, piece);
        self.bytes += piece.len();
    }

    /// Bytes that were added.
    #[must_use]
    pub fn bytes(&self) -> usize {
        self.bytes
    }
}

/// How long the datagram is that begins here, by what its header says; at least a header. For
/// kernels that join datagrams of one length: where the header lies, what is cut so has wrong
/// checksums.
#[must_use]
pub fn datagram_bytes(joined: &[u8]) -> usize {
    let payload_bytes = joined
        .get(PAYLOAD_BYTES_OFFSET..PAYLOAD_BYTES_OFFSET + 2)
        .map_or(0, |field| u16::from_le_bytes([field[0], field[1]]));
    HEADER_BYTES + usize::from(payload_bytes)
}

/// What a packet is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    Message = 1,
    End = 2,
    Probe = 3,
    Acknowledgement = 4,
}

/// The fields, as the page orders them. What they mean for an acknowledgement is in
/// `acknowledgement.rs`.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Header {
    pub(crate) number: u64,
    pub(crate) kind: Kind,
    pub(crate) tag: u8,
    /// Behind the header.
    pub(crate) bytes: u16,
    pub(crate) offset: u32,
    pub(crate) message: u64,
    pub(crate) length: u32,
    /// `number` less the oldest packet that the sender waits for.
    pub(crate) waiting: u32,
}

/// What all packets of a flow have in common.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Address {
    session: u64,
    flow: u32,
}

impl Address {
    pub(crate) fn new(session: u64, flow: u32) -> Self {
        Self { session, flow }
    }

    /// The bytes of `header`, all but the checksum.
    pub(crate) fn write(&self, header: &Header) -> [u8; HEADER_BYTES] {
        let mut bytes = [0; HEADER_BYTES];
        bytes[..8].copy_from_slice(&self.session.to_le_bytes());
        bytes[8..12].copy_from_slice(&self.flow.to_le_bytes());
        bytes[16..24].copy_from_slice(&header.number.to_le_bytes());
        bytes[24] = header.kind as u8;
        bytes[25] = header.tag;
        bytes[26..28].copy_from_slice(&header.bytes.to_le_bytes());
        bytes[28..32].copy_from_slice(&header.offset.to_le_bytes());
        bytes[32..40].copy_from_slice(&header.message.to_le_bytes());
        bytes[40..44].copy_from_slice(&header.length.to_le_bytes());
        bytes[44..].copy_from_slice(&header.waiting.to_le_bytes());
        bytes
    }

    /// The fields of a packet of this flow that is whole.
    pub(crate) fn read(
        &self,
        bytes: &[u8; HEADER_BYTES],
        payload: Checksum,
    ) -> Result<Header, DropReason> {
        if u64::from_le_bytes(array(bytes, 0)) != self.session {
            return Err(DropReason::Session);
        }
        // Before the flow: a damaged number of the flow is damage.
        let mut summed = *bytes;
        summed[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 4].fill(0);
        let checksum = crc32c::crc32c_append(payload.crc, &summed);
        if checksum != u32::from_le_bytes(array(bytes, CHECKSUM_OFFSET)) {
            return Err(DropReason::Checksum);
        }
        if u32::from_le_bytes(array(bytes, 8)) != self.flow {
            return Err(DropReason::Flow);
        }
        let kind = match bytes[24] {
            1 => Kind::Message,
            2 => Kind::End,
            3 => Kind::Probe,
            4 => Kind::Acknowledgement,
            _ => return Err(DropReason::Kind),
        };
        let header = Header {
            number: u64::from_le_bytes(array(bytes, 16)),
            kind,
            tag: bytes[25],
            bytes: u16::from_le_bytes(array(bytes, 26)),
            offset: u32::from_le_bytes(array(bytes, 28)),
            message: u64::from_le_bytes(array(bytes, 32)),
            length: u32::from_le_bytes(array(bytes, 40)),
            waiting: u32::from_le_bytes(array(bytes, 44)),
        };
        if usize::from(header.bytes) != payload.bytes {
            return Err(DropReason::Length);
        }
        Ok(header)
    }
}

/// Writes the checksum of `payload` and `header` into `header`, where it was zero.
pub(crate) fn seal(header: &mut [u8; HEADER_BYTES], payload: Checksum) {
    let checksum = crc32c::crc32c_append(payload.crc, header);
    header[CHECKSUM_OFFSET..CHECKSUM_OFFSET + 4].copy_from_slice(&checksum.to_le_bytes());
}

/// The `N` bytes of `header` from `offset` on.
pub(crate) fn array<const N: usize>(header: &[u8], offset: usize) -> [u8; N] {
    let mut taken = [0; N];
    taken.copy_from_slice(&header[offset..offset + N]);
    taken
}

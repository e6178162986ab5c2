//! The header of a frame on a data connection.

use super::FrameError;

/// What a frame is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum FrameKind {
    /// A message of a publisher, a request, or a reply. Its payload follows.
    Message,
    /// Only a number of missed messages.
    Missed,
    /// The publisher has closed its port: its number may be another's from the next frame on.
    PublisherClosed,
    /// Nothing more comes on this stream.
    End,
    /// There will be no reply to the request with this number.
    GivenUp,
    /// Who should have replied to the request with this number is gone.
    Lost,
}

impl FrameKind {
    const ALL: [Self; 6] = [
        Self::Message,
        Self::Missed,
        Self::PublisherClosed,
        Self::End,
        Self::GivenUp,
        Self::Lost,
    ];

    const fn to_number(self) -> u32 {
        match self {
            Self::Message => 1,
            Self::Missed => 2,
            Self::PublisherClosed => 3,
            Self::End => 4,
            Self::GivenUp => 5,
            Self::Lost => 6,
        }
    }

    fn from_number(number: u32) -> Result<Self, FrameError> {
        let mut all = Self::ALL.into_iter();
        let found = all.find(|kind| kind.to_number() == number);
        found.ok_or(FrameError::UnknownKind(number))
    }

    /// Does payload follow such a header?
    #[must_use]
    pub const fn has_payload(self) -> bool {
        matches!(self, Self::Message)
    }
}

/// What stands in front of each payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Header {
    /// What the frame is.
    pub kind: FrameKind,
    /// Bytes of payload that follow.
    pub length: u32,
    /// Number of the frame in its stream, from 1 on, without gaps.
    pub sequence: u64,
    /// Number of the publisher in the stream, from 0 on.
    pub publisher: u32,
    /// Messages of this publisher that were lost on the way to this one.
    pub missed: u32,
    /// Number of a request, for frames of the streams of request/reply channels; else 0.
    pub number: u64,
}

impl Header {
    /// Size of a header.
    pub const BYTES: usize = 32;

    /// As bytes.
    #[must_use]
    pub fn to_bytes(self) -> [u8; Self::BYTES] {
        let mut bytes = [0; Self::BYTES];
        bytes[0..4].copy_from_slice(&self.kind.to_number().to_le_bytes());
        bytes[4..8].copy_from_slice(&self.length.to_le_bytes());
        bytes[8..16].copy_from_slice(&self.sequence.to_le_bytes());
        bytes[16..20].copy_from_slice(&self.publisher.to_le_bytes());
        bytes[20..24].copy_from_slice(&self.missed.to_le_bytes());
        bytes[24..32].copy_from_slice(&self.number.to_le_bytes());
        bytes
    }

    /// From bytes of a peer. What the numbers mean is checked by who knows the stream.
    ///
    /// # Errors
    /// [`FrameError::UnknownKind`], [`FrameError::UnexpectedPayload`].
    pub fn from_bytes(bytes: &[u8; Self::BYTES]) -> Result<Self, FrameError> {
        let word = |at: usize| {
            let mut word = [0; 4];
            word.copy_from_slice(&bytes[at..at + 4]);
            u32::from_le_bytes(word)
        };
        let cell = |at: usize| u64::from(word(at)) | u64::from(word(at + 4)) << 32;
        let kind = FrameKind::from_number(word(0))?;
        let length = word(4);
        if length > 0 && !kind.has_payload() {
            return Err(FrameError::UnexpectedPayload { kind, length });
        }
        Ok(Self {
            kind,
            length,
            sequence: cell(8),
            publisher: word(16),
            missed: word(20),
            number: cell(24),
        })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn unknown_kinds_and_payload_where_none_belongs_are_refused() {
        let mut bytes = [0; Header::BYTES];
        assert_eq!(Header::from_bytes(&bytes), Err(FrameError::UnknownKind(0)));
        bytes[0] = 2;
        bytes[4] = 1;
        assert_eq!(
            Header::from_bytes(&bytes),
            Err(FrameError::UnexpectedPayload {
                kind: FrameKind::Missed,
                length: 1
            })
        );
    }
}

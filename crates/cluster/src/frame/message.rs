//! Messages with their length in front: 4 bytes, little endian, then as many of `postcard`.

use serde::Serialize;
use serde::de::DeserializeOwned;

use super::FrameError;

/// The longest message.
pub const MESSAGE_BYTES_MAX: usize = 64 << 10;
const LENGTH_BYTES: usize = 4;

/// Appends a message to `into`.
///
/// # Errors
/// [`FrameError::TooLong`]; `into` is as it was then.
pub fn encode(message: &impl Serialize, into: &mut Vec<u8>) -> Result<(), FrameError> {
    let start = into.len();
    let unreadable = |error: postcard::Error| FrameError::Unreadable {
        bytes: 0,
        reason: error.to_string(),
    };
    let encoded = postcard::to_stdvec(message).map_err(unreadable)?;
    if encoded.len() > MESSAGE_BYTES_MAX {
        into.truncate(start);
        let bytes = encoded.len() as u64;
        return Err(FrameError::TooLong { bytes });
    }
    // Fits: just compared.
    into.extend((encoded.len() as u32).to_le_bytes());
    into.extend(encoded);
    Ok(())
}

/// Puts the bytes of one message after another together, in whatever pieces they come.
#[derive(Debug, Default)]
pub struct Assembler {
    /// Length and content, as far as they have come.
    bytes: Vec<u8>,
}

impl Assembler {
    /// Takes bytes in, at most up to the end of the message; says how many.
    ///
    /// # Errors
    /// [`FrameError::TooLong`], before any of its content is kept.
    pub fn take_in(&mut self, mut received: &[u8]) -> Result<usize, FrameError> {
        let offered = received.len();
        while !received.is_empty() {
            let wanted = self.wanted()?;
            if wanted == 0 {
                break;
            }
            let (now, later) = received.split_at(wanted.min(received.len()));
            self.bytes.extend(now);
            received = later;
        }
        // Of a length that has just become known.
        self.wanted()?;
        Ok(offered - received.len())
    }

    /// The message, once it is whole; the next one begins then.
    ///
    /// # Errors
    /// [`FrameError::Unreadable`].
    pub fn message<T: DeserializeOwned>(&mut self) -> Result<Option<T>, FrameError> {
        if self.bytes.len() < LENGTH_BYTES || self.wanted()? > 0 {
            return Ok(None);
        }
        let content = &self.bytes[LENGTH_BYTES..];
        let unreadable = |reason: String| FrameError::Unreadable {
            bytes: content.len(),
            reason,
        };
        let (message, rest) =
            postcard::take_from_bytes(content).map_err(|error| unreadable(error.to_string()))?;
        if !rest.is_empty() {
            return Err(unreadable(format!("{} bytes too many", rest.len())));
        }
        self.bytes.clear();
        Ok(Some(message))
    }

    /// How many bytes are missing to what is known to come.
    fn wanted(&self) -> Result<usize, FrameError> {
        let Some((length, content)) = self.bytes.split_first_chunk::<LENGTH_BYTES>() else {
            return Ok(LENGTH_BYTES - self.bytes.len());
        };
        let length = u32::from_le_bytes(*length);
        if length as usize > MESSAGE_BYTES_MAX {
            return Err(FrameError::TooLong {
                bytes: length.into(),
            });
        }
        Ok(length as usize - content.len())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take_all(bytes: &[u8], piece: usize) -> Result<Vec<String>, FrameError> {
        let (mut assembler, mut found, mut left) = (Assembler::default(), Vec::new(), bytes);
        while !left.is_empty() {
            let taken = assembler.take_in(&left[..piece.min(left.len())])?;
            left = &left[taken..];
            found.extend(assembler.message()?);
        }
        Ok(found)
    }

    #[test]
    fn messages_come_whole_in_whatever_pieces() {
        let sent = ["", "one", "another"].map(str::to_owned);
        let mut bytes = Vec::new();
        for message in &sent {
            encode(message, &mut bytes).expect("short");
        }
        for piece in 1..bytes.len() {
            assert_eq!(take_all(&bytes, piece), Ok(sent.to_vec()));
        }
    }

    #[test]
    fn length_is_believed_only_up_to_the_longest() {
        let mut bytes = (MESSAGE_BYTES_MAX as u32 + 1).to_le_bytes().to_vec();
        assert_eq!(
            take_all(&bytes, 1),
            Err(FrameError::TooLong {
                bytes: MESSAGE_BYTES_MAX as u64 + 1
            })
        );
        let long = "x".repeat(MESSAGE_BYTES_MAX);
        bytes.clear();
        assert!(encode(&long, &mut bytes).is_err() && bytes.is_empty());
    }

    #[test]
    fn bytes_behind_a_message_are_refused() {
        let bytes = [2, 0, 0, 0, 0, 0];
        assert!(matches!(
            take_all(&bytes, 6),
            Err(FrameError::Unreadable { bytes: 2, .. })
        ));
    }
}

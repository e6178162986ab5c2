//! How a message of PVM lies in a message of tasks: a header, then its body.
//!
//! | offset | size | little endian |
//! | --- | --- | --- |
//! | 0 | 4 | magic and version: `HPV1` |
//! | 4 | 4 | context |
//! | 8 | 4 | tag |
//! | 12 | 4 | wait id |
//! | 16 | 4 | encoding: XDR (1 more: little-endian numbers), or the sender's data format |
//! | 20 | 4 | checksum: 0 |
//! | 24 | 4 | sender |
//! | 28 | 4 | receiver |

use super::{BYTES_MAX, Buffer, Encoding, Info};
use crate::tid::Tid;

const MAGIC: [u8; 4] = *b"HPV1";
/// Bytes in front of the body.
pub const HEADER_BYTES: usize = 32;
const SENDER: std::ops::Range<usize> = 24..28;

/// Writes into a frame from whom it came, whatever it says itself. One without a header is none.
pub fn set_sender(frame: &mut [u8], sender: Tid) {
    if let Some(place) = frame.get_mut(SENDER) {
        place.copy_from_slice(&sender.number().to_le_bytes());
    }
}

/// From whom a frame came, as it says. `None`: it has no header.
#[must_use]
pub fn claimed_sender(frame: &[u8]) -> Option<Tid> {
    let (number, _) = frame.get(SENDER)?.split_first_chunk()?;
    Some(Tid::from_number(i32::from_le_bytes(*number)))
}

impl Buffer {
    /// The message as it is sent: what it says about itself, and its body. That of an in-place
    /// buffer is not among it.
    pub fn frame(&mut self) -> &[u8] {
        let info = self.said();
        let words = [
            info.context,
            info.tag,
            info.wait_id,
            info.encoding,
            info.checksum,
            info.source,
            info.destination,
        ];
        self.bytes[..4].copy_from_slice(&MAGIC);
        let places = self.bytes[4..HEADER_BYTES].chunks_exact_mut(4);
        for (place, word) in places.zip(words) {
            place.copy_from_slice(&word.to_le_bytes());
        }
        &self.bytes
    }

    /// The message that was sent so. `None`: it makes no sense.
    #[must_use]
    pub fn from_frame(bytes: Vec<u8>) -> Option<Self> {
        let (header, body) = bytes.split_first_chunk::<HEADER_BYTES>()?;
        if header[..4] != MAGIC || body.len() > BYTES_MAX {
            return None;
        }
        let word = |index: usize| {
            let at = 4 + 4 * index;
            i32::from_le_bytes([header[at], header[at + 1], header[at + 2], header[at + 3]])
        };
        let info = Info {
            context: word(0),
            tag: word(1),
            wait_id: word(2),
            encoding: word(3),
            checksum: word(4),
            source: word(5),
            destination: word(6),
        };
        let mut received = Self::new(Encoding::Raw);
        received.say(info);
        received.bytes = bytes;
        Some(received)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_is_sent_is_received_and_nothing_else() {
        let info = Info {
            context: 7,
            tag: -3,
            wait_id: 1,
            encoding: 0x1000_0000,
            checksum: 0,
            source: 0x40001,
            destination: 0x40002,
        };
        let mut sent = Buffer::with_body(info, b"body");
        let frame = sent.frame().to_vec();
        let received = Buffer::from_frame(frame.clone()).expect("sound");
        assert_eq!((received.info, received.body()), (info, &b"body"[..]));
        let short = frame[..HEADER_BYTES - 1].to_vec();
        assert_eq!(Buffer::from_frame(short), None);
        let mut other = frame;
        other[3] = b'2';
        assert_eq!(Buffer::from_frame(other), None);
    }
    #[test]
    fn sender_is_who_it_is_whatever_it_says() {
        let own = Tid::from_number(0x40001);
        let mut sent = Buffer::new(Encoding::Raw);
        sent.info.source = crate::tid::MACHINE.number();
        let mut frame = sent.frame().to_vec();
        set_sender(&mut frame, own);
        assert_eq!(claimed_sender(&frame), Some(own));
        let received = Buffer::from_frame(frame).expect("sound");
        assert_eq!(received.info.source, own.number());
        let mut none = vec![0; SENDER.end - 1];
        set_sender(&mut none, own);
        assert_eq!(claimed_sender(&none), None);
        assert!(none.iter().all(|byte| *byte == 0));
    }
}

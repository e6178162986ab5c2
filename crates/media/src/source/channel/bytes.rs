//! The messages of a Hythe channel as one stream of bytes, for containers that cannot be sent from
//! where they lie.

use std::io::{self, Read};

use super::Messages;
use super::message::Message;

/// Reads what is published on a channel, message behind message: a copy of it. Ends with the
/// messages.
pub(super) struct ChannelReader {
    messages: Messages,
    message: Option<Message>,
    /// Bytes of it that were read.
    read: usize,
}

impl ChannelReader {
    /// A reader of `first` and what arrives behind it.
    pub(super) fn new(messages: Messages, first: Message) -> Self {
        Self {
            messages,
            message: Some(first),
            read: 0,
        }
    }
}

impl Read for ChannelReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            let rest = self
                .message
                .as_ref()
                .map(|message| &message.bytes()[self.read..]);
            if let Some(rest) = rest.filter(|rest| !rest.is_empty()) {
                let bytes = into.len().min(rest.len());
                into[..bytes].copy_from_slice(&rest[..bytes]);
                self.read += bytes;
                return Ok(bytes);
            }
            self.read = 0;
            self.message = self.messages.wait().map_err(io::Error::other)?;
            if self.message.is_none() {
                return Ok(0);
            }
        }
    }
}

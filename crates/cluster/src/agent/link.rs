//! A connection as messages: preamble, hello, answer, and what follows on a control connection.
//!
//! Used by whoever dials and by whoever accepts. Never waits longer than it is told.

use std::time::{Duration, Instant};

use serde::Serialize;
use serde::de::DeserializeOwned;

use crate::carrier::{ConnectionReceiver, ConnectionSender, Received};
use crate::error::ClusterError;
use crate::frame::{Assembler, PREAMBLE_BYTES, Preamble, encode};

/// Reads messages.
#[derive(Debug)]
pub(crate) struct MessageReader {
    receiver: Box<dyn ConnectionReceiver>,
    assembler: Assembler,
}

impl MessageReader {
    pub(crate) fn new(receiver: Box<dyn ConnectionReceiver>) -> Self {
        Self {
            receiver,
            assembler: Assembler::default(),
        }
    }

    /// Checks how the other side begins.
    pub(crate) fn preamble(&mut self, timeout: Duration) -> Result<(), ClusterError> {
        let (mut preamble, mut filled) = ([0; PREAMBLE_BYTES], 0);
        let start = Instant::now();
        while filled < PREAMBLE_BYTES {
            let left = timeout.saturating_sub(start.elapsed());
            filled += match self.receiver.receive(left)? {
                Received::Bytes(bytes) => {
                    let now = bytes.len().min(PREAMBLE_BYTES - filled);
                    preamble[filled..filled + now].copy_from_slice(&bytes[..now]);
                    self.receiver.consume(now);
                    now
                }
                Received::Nothing if left.is_zero() => return Err(ClusterError::Silent(timeout)),
                Received::Nothing => 0,
                Received::Closed => return Err(ClusterError::Closed),
            };
        }
        Ok(Preamble::check(&preamble)?)
    }

    /// The next message; [`ClusterError::Silent`] if it is not whole in that time.
    pub(crate) fn message<T: DeserializeOwned>(
        &mut self,
        timeout: Duration,
    ) -> Result<T, ClusterError> {
        let start = Instant::now();
        loop {
            if let Some(message) = self.assembler.message()? {
                return Ok(message);
            }
            let left = timeout.saturating_sub(start.elapsed());
            match self.receiver.receive(left)? {
                Received::Bytes(bytes) => {
                    let taken = self.assembler.take_in(bytes)?;
                    self.receiver.consume(taken);
                }
                Received::Nothing if left.is_zero() => return Err(ClusterError::Silent(timeout)),
                Received::Nothing => {}
                Received::Closed => return Err(ClusterError::Closed),
            }
        }
    }

    /// The connection behind the messages that were read.
    pub(crate) fn into_receiver(self) -> Box<dyn ConnectionReceiver> {
        self.receiver
    }
}

/// Sends the own preamble and a message.
pub(crate) fn send_first(
    sender: &mut dyn ConnectionSender,
    message: &impl Serialize,
    timeout: Duration,
) -> Result<(), ClusterError> {
    let mut bytes = Preamble::to_bytes().to_vec();
    encode(message, &mut bytes)?;
    Ok(sender.send(&[&bytes], timeout)?)
}

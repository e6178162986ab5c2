//! `copy`: the baseline. Linux reads into memory of its own, and every byte is copied into and out
//! of fragments of 496 bytes on both sides, as over RPMsg (`hythe_vring`). What comes begins with
//! its words.

use std::time::Duration;

use hythe::Node;
use hythe_vring::sleeping;

use super::{Decoded, Flow, Message, Receiver, Sender, Spare};
use crate::error::PlayError;
use crate::ports::{Channels, MESSAGE_BYTES_MAX, SEND_TIMEOUT, publisher};

/// Opens the transfer of a decoder of the core.
pub(super) fn open(node: &Node, channels: &Channels) -> Result<Flow, PlayError> {
    let channel = channels.copy;
    let publisher = publisher(node, channel)?;
    let (sender, receiver) = sleeping::open(node, publisher, channel)?;
    Ok(Flow {
        to_decoder: Box::new(ToCore {
            sender,
            limit: channels.copy_bytes_max,
            spare: Spare::default(),
            is_broken: false,
        }),
        from_decoder: Box::new(FromCore {
            receiver,
            spare: Spare::default(),
            next: Vec::new(),
        }),
    })
}

struct ToCore {
    sender: sleeping::Sender,
    /// The longest message that the core takes.
    limit: usize,
    spare: Spare,
    /// The core has a part of a message whose rest came too late: it takes nothing any more.
    is_broken: bool,
}

impl Sender for ToCore {
    fn lease(&mut self, bytes: usize) -> Result<Option<Message>, PlayError> {
        if bytes > self.limit {
            let limit = self.limit;
            return Err(PlayError::TooLong { bytes, limit });
        }
        Ok(Some(self.spare.message(bytes)))
    }

    fn send(
        &mut self,
        message: Message,
        bytes: usize,
        is_worth: &dyn Fn() -> Result<bool, PlayError>,
    ) -> Result<bool, PlayError> {
        let own = message.into_own();
        let mut at = 0;
        let mut goes_on = !self.is_broken;
        while goes_on && at < bytes {
            at = self.sender.send(&own[..bytes], at, SEND_TIMEOUT)?;
            // Nothing of it is there yet: it may be sent another time.
            goes_on = at > 0 && is_worth()?;
        }
        if self.is_broken {
            std::thread::sleep(SEND_TIMEOUT);
        }
        self.is_broken |= 0 < at && at < bytes;
        self.spare.back(own);
        Ok(at == bytes)
    }
}

struct FromCore {
    receiver: sleeping::Receiver,
    spare: Spare,
    /// What came of the next message.
    next: Vec<u8>,
}

impl Receiver for FromCore {
    fn take(&mut self, bound: Duration) -> Result<Option<Decoded>, PlayError> {
        let limit = MESSAGE_BYTES_MAX;
        if !self.receiver.receive(&mut self.next, limit, bound)? {
            return Ok(None);
        }
        let fresh = self.spare.take();
        Decoded::of_own(std::mem::replace(&mut self.next, fresh), &self.spare).map(Some)
    }

    fn wakes(&self) -> u64 {
        self.receiver.wakes()
    }
}

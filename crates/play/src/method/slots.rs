//! `hythe`: slots of the pool, which the kernel fills and the core reads, and the other way round.

use std::time::Duration;

use hythe::{Node, NodeError, Publisher, Sample, Subscriber};

use super::{Decoded, Flow, Message, Payload, Receiver, Sender};
use crate::error::PlayError;
use crate::ports::{Channels, INFO_WORDS, Ports};

/// Opens the ports of a decoder of the core.
pub(super) fn open(node: &Node, channels: &Channels) -> Result<Flow, PlayError> {
    let ports = Ports::open(node, channels)?;
    Ok(Flow {
        to_decoder: Box::new(ports.to_core),
        from_decoder: Box::new(ports.from_core),
    })
}

/// Is this refusal one that goes by?
const fn is_full(error: &NodeError) -> bool {
    error.is_pool_full()
        || matches!(
            error,
            NodeError::CoreFull { .. } | NodeError::CoreBlocked { .. }
        )
}

impl Sender for Publisher {
    fn lease(&mut self, bytes: usize) -> Result<Option<Message>, PlayError> {
        match Self::lease(self, bytes) {
            Ok(lease) => Ok(Some(Message::Slot(lease))),
            Err(refusal) if is_full(&refusal) => Ok(None),
            Err(error) => Err(error.into()),
        }
    }

    fn send(
        &mut self,
        message: Message,
        bytes: usize,
        _is_worth: &dyn Fn() -> Result<bool, PlayError>,
    ) -> Result<bool, PlayError> {
        let Message::Slot(lease) = message else {
            unreachable!("messages come from `lease`");
        };
        match self.publish(lease, bytes) {
            Ok(_) => Ok(true),
            Err(refusal) if is_full(&refusal) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

impl Receiver for Subscriber {
    fn take(&mut self, bound: Duration) -> Result<Option<Decoded>, PlayError> {
        let sample = Self::take(self, bound)?;
        Ok(sample.map(|sample| Decoded {
            words: words(&sample),
            payload: Payload::Slot(sample),
        }))
    }

    fn wakes(&self) -> u64 {
        self.sleeps()
    }
}

/// Words at the start of a slot.
fn words(sample: &Sample) -> [u32; INFO_WORDS] {
    let mut bytes = [0; 4 * INFO_WORDS];
    sample.read_headroom(0, &mut bytes);
    super::words(&bytes)
}

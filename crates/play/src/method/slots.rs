//! `hythe`: slots of the pool, which the kernel fills and the core reads, and the other way round.

use std::time::Duration;

use hythe::{Node, Publisher, Sample, Subscriber};

use super::{Decoded, Flow, Message, Method, Own, Payload, Receiver, Sender, Spare, is_full};
use crate::error::PlayError;
use crate::ports::{INFO_WORDS, Ports};

/// Payload of a message of RPMsg: 512 bytes less its header.
const FRAGMENT_BYTES: usize = 496;

/// Opens the ports of a decoder of the core.
pub(crate) fn open(
    node: &Node,
    to_core: &'static str,
    from_core: &str,
    method: Method,
) -> Result<Flow, PlayError> {
    let ports = Ports::open(node, to_core, from_core)?;
    let is_copied = method == Method::Copy;
    Ok(Flow {
        to_decoder: Box::new(ToCore {
            publisher: ports.to_core,
            own: is_copied.then(Vec::new),
        }),
        from_decoder: Box::new(FromCore {
            subscriber: ports.from_core,
            spare: is_copied.then(Spare::default),
        }),
    })
}

struct ToCore {
    publisher: Publisher,
    /// Messages are written here, and copied to the slot.
    own: Option<Vec<u8>>,
}

impl Sender for ToCore {
    fn lease(&mut self, bytes: usize) -> Result<Option<Message>, PlayError> {
        if let Some(own) = &mut self.own {
            let mut own = std::mem::take(own);
            own.resize(own.len().max(bytes), 0);
            return Ok(Some(Message::Own(own)));
        }
        match self.publisher.lease(bytes) {
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
        let sent = match message {
            Message::Slot(lease) => self.publisher.publish(lease, bytes),
            Message::Own(own) => self.publisher.lease(bytes).and_then(|mut lease| {
                for (index, fragment) in own[..bytes].chunks(FRAGMENT_BYTES).enumerate() {
                    lease.write(index * FRAGMENT_BYTES, fragment);
                }
                self.own = Some(own);
                self.publisher.publish(lease, bytes)
            }),
        };
        match sent {
            Ok(_) => Ok(true),
            Err(refusal) if is_full(&refusal) => Ok(false),
            Err(error) => Err(error.into()),
        }
    }
}

struct FromCore {
    subscriber: Subscriber,
    /// Messages are copied out of the slot to here.
    spare: Option<Spare>,
}

impl Receiver for FromCore {
    fn take(&mut self, bound: Duration) -> Result<Option<Decoded>, PlayError> {
        let Some(sample) = self.subscriber.take(bound)? else {
            return Ok(None);
        };
        let words = words(&sample);
        let payload = match &self.spare {
            None => Payload::Slot(sample),
            Some(spare) => Payload::Own(copied(&sample, spare.take())),
        };
        Ok(Some(Decoded { words, payload }))
    }

    fn wakes(&self) -> u64 {
        self.subscriber.sleeps()
    }
}

fn copied(sample: &Sample, mut own: Own) -> Own {
    own.bytes.resize(sample.len(), 0);
    for (index, fragment) in own.bytes.chunks_mut(FRAGMENT_BYTES).enumerate() {
        sample.read(index * FRAGMENT_BYTES, fragment);
    }
    own
}

/// Words at the start of a slot.
fn words(sample: &Sample) -> [u32; INFO_WORDS] {
    let mut bytes = [0; 4 * INFO_WORDS];
    sample.read_headroom(0, &mut bytes);
    let mut words = [0; INFO_WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    words
}

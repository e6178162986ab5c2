//! Hythe as an application uses it: a publisher of `ping`, a subscriber of `pong`, payload in place
//! (`TrustPeers`: both ends are ours).

use std::time::Duration;

use hythe_node::{Publisher, PublisherOptions, Sample, Subscriber, SubscriberOptions, TrustPeers};

use super::case::{Case, Payload};
use super::order;
use super::wait::Waiting;
use crate::error::BenchError;
use crate::payload::{fill, is_message, sum, sum_of};

pub(super) const TRUST: TrustPeers = TrustPeers::i_trust_every_writer_of_this_pool();
/// How long the core may keep what it was given, once all is over.
pub(super) const FLUSH_BOUND: Duration = Duration::from_secs(10);

/// The Linux end.
#[derive(Debug)]
pub(super) struct HytheEnd<'a> {
    case: Case,
    size: usize,
    waiting: Waiting<'a>,
    pong: Subscriber,
    ping: Publisher,
    control: Publisher,
    /// What was received last, to be forwarded.
    held: Option<Sample>,
}

impl<'a> HytheEnd<'a> {
    /// Opens the ports, and orders the exchange.
    pub(super) fn open(case: Case, size: usize, waiting: Waiting<'a>) -> Result<Self, BenchError> {
        let node = waiting.node;
        // A round trip needs no queue; and a slot given to the core is one less for messages.
        let pong = node.subscriber("pong", &SubscriberOptions::default().depth(1))?;
        let ping = node.publisher("ping", &PublisherOptions::default())?;
        let mut control = node.publisher("control", &PublisherOptions::default())?;
        let mut order = control.lease(order::BYTES)?;
        order.write(0, &order::bytes(case));
        control.publish(order, order::BYTES)?;
        Ok(Self {
            case,
            size,
            waiting,
            pong,
            ping,
            control,
            held: None,
        })
    }

    /// There and back.
    #[inline]
    pub(super) fn round_trip(&mut self, number: u64) -> Result<(), BenchError> {
        match self.held.take() {
            Some(sample) => {
                let published = self.ping.forward(sample)?;
                Self::delivered(published.delivered, number)?;
            }
            None => self.send_filled(number)?,
        }
        let pong = &mut self.pong;
        let back = self.waiting.until(|| pong.try_take())?;
        if back.len() != self.size {
            return Err(BenchError::Damaged { number });
        }
        match self.case.payload {
            Payload::Untouched => self.held = Some(back),
            Payload::Filled if is_answer(back.as_slice(TRUST), number) => {}
            Payload::Filled => return Err(BenchError::Damaged { number }),
        }
        Ok(())
    }

    #[inline]
    fn send_filled(&mut self, number: u64) -> Result<(), BenchError> {
        let mut lease = self.ping.lease(self.size)?;
        fill(&mut lease.as_mut_slice(TRUST)[..self.size], number);
        let published = self.ping.publish(lease, self.size)?;
        Self::delivered(published.delivered, number)
    }

    const fn delivered(count: u32, number: u64) -> Result<(), BenchError> {
        match count {
            1 => Ok(()),
            _ => Err(BenchError::Dropped { number }),
        }
    }

    /// Ends the order, and waits until the core has given everything back.
    pub(super) fn finish(mut self) -> Result<(), BenchError> {
        if let Some(sample) = self.held.take()
            && !is_message(sample.as_slice(TRUST), 0)
        {
            return Err(BenchError::Damaged { number: 0 });
        }
        let empty = self.ping.lease(0)?;
        self.ping.publish(empty, 0)?;
        self.ping.flush(FLUSH_BOUND)?;
        Ok(self.control.flush(FLUSH_BOUND)?)
    }
}

/// The core answers with the sum of what it has read, in each word.
#[inline]
pub(super) fn is_answer(bytes: &[u8], number: u64) -> bool {
    let words = bytes.len() as u64 / 8;
    sum(bytes) == sum_of(number, bytes.len()).wrapping_mul(words)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answer_is_the_sum_of_what_was_sent() {
        let mut bytes = [0; 64];
        fill(&mut bytes, 7);
        let sum = sum(&bytes).to_le_bytes();
        let mut answer = sum.repeat(8);
        assert!(is_answer(&answer, 7) && !is_answer(&answer, 8));
        answer[9] ^= 1;
        assert!(!is_answer(&answer, 7));
    }
}

//! Messages by the kernel's own queues, one each way.

use super::case::Case;
use super::end::{End, Side};
use crate::error::BenchError;
use crate::lookout::{BoundedWait, Lookout, NAP};
use crate::payload::{fill, is_message};
use crate::posix_queue::PosixQueue;

/// One end.
#[derive(Debug)]
pub(super) struct PosixEnd {
    outgoing: PosixQueue,
    incoming: PosixQueue,
    buffer: Vec<u8>,
}

impl PosixEnd {
    /// Of the queues that begin with this name, which the near side makes, and removes.
    pub(super) fn open(case: Case, side: Side, place: &str) -> Result<Self, BenchError> {
        let size = case.size;
        let open = |name: String| match side {
            Side::Near => PosixQueue::create(&name, size),
            Side::Far => PosixQueue::open(&name),
        };
        let queues = [
            open(format!("{place}-there"))?,
            open(format!("{place}-back"))?,
        ];
        let [outgoing, incoming] = side.order(queues);
        Ok(Self {
            outgoing,
            incoming,
            buffer: vec![0; size],
        })
    }
}

impl End for PosixEnd {
    fn send(&mut self, number: u64) -> Result<(), BenchError> {
        fill(&mut self.buffer, number);
        Ok(self.outgoing.send(&self.buffer)?)
    }

    fn receive(&mut self, number: u64, lookout: &Lookout) -> Result<(), BenchError> {
        let mut bounded_wait = BoundedWait::new(lookout);
        while !self.incoming.receive(&mut self.buffer, NAP)? {
            bounded_wait.look_up()?;
        }
        if is_message(&self.buffer, number) {
            return Ok(());
        }
        Err(BenchError::Damaged { number })
    }
}

//! The baseline: messages copied in and out in fragments of 496 bytes, as RPMsg does it, over two
//! rings in one slot of the core's region.
//!
//! The slot goes to the core with the order.

use hythe_memory::Mapped;
use hythe_node::{Pool, Publisher, PublisherOptions};
use hythe_vring::{Bell, Memory, Receiver, Sender, Sleeps};

use super::case::{Case, Payload, Wait};
use super::hythe::{FLUSH_BOUND, is_answer};
use super::order;
use super::wait::Waiting;
use crate::error::BenchError;
use crate::payload::{fill, is_message};

/// Looks between "I sleep" and the sleep: by then what an emulated core had stored before is here,
/// even if its emulator has dropped a barrier.
const LOOKS_BEFORE_SLEEP: u32 = 64;

/// The Linux end.
#[derive(Debug)]
pub(super) struct CopyEnd<'a> {
    case: Case,
    waiting: Waiting<'a>,
    bell: &'a Bell,
    control: Publisher,
    memory: Memory,
    sender: Sender,
    receiver: Receiver,
    /// The application's own: what it sends, and then what it has received.
    message: Vec<u8>,
    is_over: bool,
}

impl<'a> CopyEnd<'a> {
    /// Gives the core the memory, and orders the exchange.
    pub(super) fn open(
        case: Case,
        size: usize,
        waiting: Waiting<'a>,
        pool: &Pool,
        bell: &'a Bell,
    ) -> Result<Self, BenchError> {
        let options = PublisherOptions::default();
        let mut control = waiting.node.publisher("control", &options)?;
        let memory = Memory::lend(pool, &mut control, "control", &order::words(case))?;
        let (sender, receiver) = memory.ends();
        let mut message = vec![0; size];
        fill(&mut message, 0);
        Ok(Self {
            case,
            waiting,
            bell,
            control,
            memory,
            sender,
            receiver,
            message,
            is_over: false,
        })
    }

    /// There and back.
    #[inline]
    pub(super) fn round_trip(&mut self, number: u64) -> Result<(), BenchError> {
        if self.case.payload == Payload::Filled {
            fill(&mut self.message, number);
        }
        self.send()?;
        self.receive(number)?;
        if self.case.payload == Payload::Filled && !is_answer(&self.message, number) {
            return Err(BenchError::Damaged { number });
        }
        Ok(())
    }

    fn send(&mut self) -> Result<(), BenchError> {
        let (sender, map) = (&mut self.sender, self.memory.words());
        let mut at = 0;
        while at < self.message.len() {
            if !sender.has_room(map) {
                wait_for_room(self.waiting, sender, map)?;
            }
            at += sender.put(map, &self.message, at);
            if sender.sleeps.other_is_to_be_rung(map) {
                self.bell.ring();
            }
        }
        Ok(())
    }

    fn receive(&mut self, number: u64) -> Result<(), BenchError> {
        let (receiver, map) = (&mut self.receiver, self.memory.words());
        let mut at = 0;
        while at < self.message.len() {
            if !receiver.has_waiting(map) {
                wait_for_fragment(self.waiting, receiver, map)?;
            }
            let got = receiver.get(map, &mut self.message, at);
            at += got.ok_or(BenchError::Damaged { number })?;
            if receiver.may_have_made_room(map) && receiver.sleeps.other_is_to_be_rung(map) {
                self.bell.ring();
            }
        }
        Ok(())
    }

    /// Ends the order, and waits until the core has given the memory back.
    pub(super) fn finish(mut self) -> Result<(), BenchError> {
        if self.case.payload == Payload::Untouched && !is_message(&self.message, 0) {
            return Err(BenchError::Damaged { number: 0 });
        }
        self.end();
        Ok(self.control.flush(FLUSH_BOUND)?)
    }

    /// Once: behind it the memory may be another's.
    fn end(&mut self) {
        if std::mem::replace(&mut self.is_over, true) {
            return;
        }
        self.memory.end();
        self.bell.ring();
    }
}

impl Drop for CopyEnd<'_> {
    /// Also of a run that failed: the core shall not go on.
    fn drop(&mut self) {
        self.end();
    }
}

fn wait_for_room(
    waiting: Waiting<'_>,
    sender: &mut Sender,
    map: &Mapped,
) -> Result<(), BenchError> {
    change_sleep(waiting, &mut sender.sleeps, map);
    let waited = wait_for(waiting, || sender.has_room(map));
    change_sleep(waiting, &mut sender.sleeps, map);
    waited
}

fn wait_for_fragment(
    waiting: Waiting<'_>,
    receiver: &mut Receiver,
    map: &Mapped,
) -> Result<(), BenchError> {
    change_sleep(waiting, &mut receiver.sleeps, map);
    let waited = wait_for(waiting, || receiver.has_waiting(map));
    change_sleep(waiting, &mut receiver.sleeps, map);
    waited
}

/// Who polls never says that it sleeps, and is never rung.
fn change_sleep(waiting: Waiting<'_>, sleeps: &mut Sleeps, map: &Mapped) {
    if waiting.wait == Wait::Bell {
        sleeps.change(map);
    }
}

fn wait_for(waiting: Waiting<'_>, is_there: impl Fn() -> bool) -> Result<(), BenchError> {
    if waiting.wait == Wait::Bell {
        for _ in 0..LOOKS_BEFORE_SLEEP {
            if is_there() {
                return Ok(());
            }
            std::hint::spin_loop();
        }
    }
    waiting.until(|| Ok(is_there().then_some(())))
}

//! Ends that sleep on their participant's bell, each for one thread.

use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hythe_node::hop::{HopNode as _, Participant, WaitPlan};
use hythe_node::{Node, NodeError, Publisher};

use crate::bell::Bell;
use crate::error::VringError;
use crate::memory::Memory;
use crate::ring;

/// A ring that an emulator has lost costs this much at most: as long as the product's own waits for
/// a core sleep.
const NAP: Duration = Duration::from_millis(20);
/// Looks between "I sleep" and the sleep: by then what an emulated core had stored before is here,
/// even if its emulator has dropped a barrier.
const LOOKS_BEFORE_SLEEP: u32 = 64;

/// What both ends need. Dropped, the transfer is over.
#[derive(Debug)]
struct Transfer {
    participant: Arc<Participant>,
    memory: Memory,
    bell: Bell,
    /// Through which the core has the memory: it is over when this goes.
    _publisher: Mutex<Publisher>,
}

impl Transfer {
    /// Sleeps until it is there; false: not within the time. The end has said that it sleeps.
    fn wait(&self, bound: Duration, is_there: impl Fn() -> bool) -> Result<bool, NodeError> {
        if (0..LOOKS_BEFORE_SLEEP).any(|_| is_there()) {
            return Ok(true);
        }
        let look = || Ok(is_there().then_some(()));
        let plan = WaitPlan::sleeping(NAP);
        let waited = self.participant.wait_for(plan, bound, look)?;
        Ok(waited.is_some())
    }
}

impl Drop for Transfer {
    fn drop(&mut self) {
        self.memory.end();
        self.bell.ring();
    }
}

/// Opens a transfer: gives the core its memory over `channel`, which must be up.
///
/// # Errors
/// As [`Memory::lend`] and [`Bell::of_channel`].
pub fn open(
    node: &Node,
    mut publisher: Publisher,
    channel: &str,
) -> Result<(Sender, Receiver), VringError> {
    let bell = Bell::of_channel(node, channel)?;
    let memory = Memory::lend(node.pool(), &mut publisher, channel, &[])?;
    let (to_core, to_linux) = memory.ends();
    let transfer = Arc::new(Transfer {
        participant: Arc::clone(node.participant()),
        memory,
        bell,
        _publisher: Mutex::new(publisher),
    });
    let sender = Sender {
        transfer: Arc::clone(&transfer),
        ring: to_core,
    };
    let receiver = Receiver {
        transfer,
        ring: to_linux,
        at: 0,
        wakes: 0,
    };
    Ok((sender, receiver))
}

/// The sending end.
#[derive(Debug)]
pub struct Sender {
    transfer: Arc<Transfer>,
    ring: ring::Sender,
}

impl Sender {
    /// Sends what is behind the first `at` bytes of a message, until all is sent or the core has
    /// given back no buffer for as long as `bound`. Returns how far it came.
    ///
    /// # Errors
    /// What waiting says.
    pub fn send(
        &mut self,
        message: &[u8],
        mut at: usize,
        bound: Duration,
    ) -> Result<usize, VringError> {
        while at < message.len() {
            if !self.has_room(bound)? {
                return Ok(at);
            }
            let Self { transfer, ring } = self;
            let words = transfer.memory.words();
            at += ring.put(words, message, at);
            if ring.sleeps.other_is_to_be_rung(words) {
                transfer.bell.ring();
            }
        }
        Ok(at)
    }

    fn has_room(&mut self, bound: Duration) -> Result<bool, VringError> {
        let Self { transfer, ring } = self;
        let words = transfer.memory.words();
        if ring.has_room(words) {
            return Ok(true);
        }
        ring.sleeps.change(words);
        let waited = transfer.wait(bound, || ring.has_room(words));
        ring.sleeps.change(words);
        Ok(waited?)
    }
}

/// The receiving end.
#[derive(Debug)]
pub struct Receiver {
    transfer: Arc<Transfer>,
    ring: ring::Receiver,
    /// How much of a message is there.
    at: usize,
    wakes: u64,
}

impl Receiver {
    /// Waits for the whole of the next message, of up to `limit` bytes. Always the same `message`,
    /// which keeps what came so far; false: not within the time.
    ///
    /// # Errors
    /// [`VringError::BadFragment`]; what waiting says.
    pub fn receive(
        &mut self,
        message: &mut Vec<u8>,
        limit: usize,
        bound: Duration,
    ) -> Result<bool, VringError> {
        let begun = Instant::now();
        loop {
            if !self.has_waiting(bound.saturating_sub(begun.elapsed()))? {
                return Ok(false);
            }
            if self.take(message, limit)? {
                self.at = 0;
                return Ok(true);
            }
        }
    }

    /// Sleeps that a bell ended.
    #[must_use]
    pub const fn wakes(&self) -> u64 {
        self.wakes
    }

    /// Takes one fragment; true: it was the last of its message.
    fn take(&mut self, message: &mut Vec<u8>, limit: usize) -> Result<bool, VringError> {
        let words = self.transfer.memory.words();
        if self.at == 0 {
            let total = self.ring.total(words);
            if !(1..=limit).contains(&total) {
                return Err(VringError::BadFragment { limit });
            }
            message.resize(total, 0);
        }
        let got = self.ring.get(words, message, self.at);
        self.at += got.ok_or(VringError::BadFragment { limit })?;
        let ring = &mut self.ring;
        if ring.may_have_made_room(words) && ring.sleeps.other_is_to_be_rung(words) {
            self.transfer.bell.ring();
        }
        Ok(self.at == message.len())
    }

    fn has_waiting(&mut self, bound: Duration) -> Result<bool, VringError> {
        let words = self.transfer.memory.words();
        if self.ring.has_waiting(words) {
            return Ok(true);
        }
        self.ring.sleeps.change(words);
        let waited = self.transfer.wait(bound, || self.ring.has_waiting(words));
        self.ring.sleeps.change(words);
        let waited = waited?;
        self.wakes += u64::from(waited);
        Ok(waited)
    }
}

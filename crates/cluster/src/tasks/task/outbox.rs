//! Sends messages without waiting for their receivers.
//!
//! A piece goes into a slot and the queue of the receiver. Where there is no place for it, the rest
//! of the message is kept in this process's memory, and all later ones for the same task behind it;
//! a thread sends them as soon as there is. What is kept has a limit, and ends with its receiver.

use std::cell::Cell;
use std::collections::btree_map::Entry;
use std::collections::{BTreeMap, VecDeque};
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hythe_node::hop;
use hythe_node::{Lease, Node, NodeError, Published, Publisher, PublisherOptions, RegionIndex};

use super::ends::Ends;
use super::header::{HEADER_BYTES, Header};
use super::in_place::{InPlace, Occupied};
use super::{inbox, reach};
use crate::tasks::error::TaskError;
use crate::tasks::id::TaskId;

/// The most payload of one piece: a receiver may occupy half of a class of slots, and smaller ones
/// are more.
const PIECE_BYTES_MAX: usize = 256 << 10;
/// What a message that is kept costs beside its bytes: its header, its place among the others, and
/// the allocator's share.
const KEPT_COST: usize = 128;
/// How often the thread tries again.
const AGAIN: Duration = Duration::from_millis(1);
/// How often it asks whether a receiver that takes nothing has ended.
const LOOK: Duration = Duration::from_millis(20);

/// A message, or the rest of one.
#[derive(Debug)]
struct Kept {
    header: Header,
    /// From `header.offset` on.
    bytes: Vec<u8>,
    sent: usize,
}

impl Kept {
    fn cost(&self) -> usize {
        KEPT_COST + self.bytes.len() - self.sent
    }
}

#[derive(Debug)]
struct Receiver {
    publisher: Publisher,
    kept: VecDeque<Kept>,
    has_ended: bool,
}

#[derive(Debug, Default)]
struct State {
    receivers: BTreeMap<TaskId, Receiver>,
    leased: InPlace,
    kept_bytes: usize,
    kept_bytes_max: usize,
    lost: u64,
    is_stopped: bool,
}

#[derive(Debug)]
struct Shared {
    own: TaskId,
    node: Node,
    ends: Arc<Mutex<Ends>>,
    piece_bytes: usize,
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug)]
pub(super) struct Outbox {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

/// What became of a piece.
enum Piece {
    Sent,
    /// There is no place for it now.
    Full,
}

thread_local! {
    static IS_INSIDE: Cell<bool> = const { Cell::new(false) };
}

/// This thread is in a call that may have the lock: a signal handler that interrupts it, and exits,
/// does not wait for its own thread.
struct Inside;

impl Inside {
    fn enter() -> Self {
        IS_INSIDE.set(true);
        Self
    }
}

impl Drop for Inside {
    fn drop(&mut self) {
        IS_INSIDE.set(false);
    }
}

/// Is this called by a signal handler that has interrupted a call of its thread?
pub(super) fn is_interrupted() -> bool {
    IS_INSIDE.get()
}

impl Outbox {
    pub(super) fn start(
        own: TaskId,
        node: &Node,
        ends: &Arc<Mutex<Ends>>,
        kept_bytes_max: usize,
    ) -> Result<Self, TaskError> {
        let region = node.pool().region(RegionIndex(0));
        let largest = region.map_or(0, |region| {
            let classes = region.classes.iter().filter(|class| class.count > 0);
            let payload = classes.map(|class| class.payload_bytes());
            payload.max().unwrap_or(0)
        });
        let shared = Arc::new(Shared {
            own,
            node: node.clone(),
            ends: Arc::clone(ends),
            piece_bytes: largest
                .saturating_sub(HEADER_BYTES)
                .clamp(1, PIECE_BYTES_MAX),
            state: Mutex::new(State {
                kept_bytes_max,
                ..State::default()
            }),
            changed: Condvar::new(),
        });
        let sending = Arc::clone(&shared);
        let thread = hythe_sys::wait::spawn("hythe-outbox", move || sending.run());
        let thread = thread.map_err(|source| TaskError::System {
            action: "start a thread that sends",
            source,
        })?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// Sends or keeps a message.
    pub(super) fn send(&self, to: TaskId, header: Header, bytes: &[u8]) -> Result<(), TaskError> {
        let (shared, _inside) = (&*self.shared, Inside::enter());
        let mut state = shared.lock_to_send(to)?;
        shared.send_or_keep(&mut state, to, header, bytes)
    }

    /// A slot for a message and its header. `None`: there is none that is free and large enough, or
    /// this task has leased too many of that size.
    pub(super) fn lease(
        &self,
        to: TaskId,
        bytes: usize,
    ) -> Result<Option<(Lease, Occupied)>, TaskError> {
        let (shared, _inside) = (&*self.shared, Inside::enter());
        let mut state = shared.lock_for(to)?;
        let receiver = state.receiver(to)?;
        if bytes > shared.piece_bytes {
            return Ok(None);
        }
        let lease = match receiver.publisher.lease(HEADER_BYTES + bytes) {
            Ok(lease) => lease,
            Err(error) if error.is_pool_full() => return Ok(None),
            Err(error) => return Err(error.into()),
        };
        let class = hop::class_of_lease(&lease);
        let pool = shared.node.pool();
        let occupied = class.and_then(|class| state.leased.occupy(pool, class));
        Ok(occupied.map(|occupied| (lease, occupied)))
    }

    /// Sends what was written into a slot, or keeps a copy of it.
    pub(super) fn send_slot(
        &self,
        to: TaskId,
        header: Header,
        mut lease: Lease,
    ) -> Result<(), TaskError> {
        let (shared, _inside) = (&*self.shared, Inside::enter());
        let mut state = shared.lock_to_send(to)?;
        lease.write(0, &header.to_bytes());
        // Fits: it was leased for so many.
        let bytes = header.total as usize;
        let written = lease.freeze(HEADER_BYTES + bytes);
        let receiver = state.receiver(to)?;
        if receiver.kept.is_empty() && receiver.publisher.subscribers()? > 0 {
            let whole = written.part(0, HEADER_BYTES + bytes)?;
            match outcome(receiver.publisher.forward(whole))? {
                Piece::Sent => return Ok(()),
                Piece::Full => {}
            }
        }
        let mut copy = vec![0; bytes];
        written.read(HEADER_BYTES, &mut copy);
        drop(written);
        shared.send_or_keep(&mut state, to, header, &copy)
    }

    /// Did the program close descriptors of this task?
    pub(super) fn is_missing_descriptors(&self) -> bool {
        hop::is_missing_descriptors(&self.shared.node)
    }

    /// How many bytes may be kept from now on.
    pub(super) fn set_kept_bytes_max(&self, kept_bytes: usize) {
        let _inside = Inside::enter();
        self.shared.lock().kept_bytes_max = kept_bytes;
    }

    /// Bytes that are kept.
    pub(super) fn kept_bytes(&self) -> usize {
        let _inside = Inside::enter();
        self.shared.lock().kept_bytes
    }

    /// Messages whose receivers ended before they were sent, or could not be reached.
    pub(super) fn lost(&self) -> u64 {
        let _inside = Inside::enter();
        self.shared.lock().lost
    }

    /// Waits until nothing is kept any more. False: the time was over first.
    pub(super) fn flush(&self, timeout: Duration) -> bool {
        let (start, _inside) = (Instant::now(), Inside::enter());
        let mut state = self.shared.lock();
        while state.receivers.values().any(|one| !one.kept.is_empty()) {
            let left = timeout.saturating_sub(start.elapsed());
            if left.is_zero() {
                return false;
            }
            let waited = self.shared.changed.wait_timeout(state, left);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        true
    }
}

impl Drop for Outbox {
    fn drop(&mut self) {
        self.shared.lock().is_stopped = true;
        self.shared.changed.notify_all();
        if let Some(thread) = self.thread.take() {
            hythe_sys::wait::for_end_of(thread);
        }
    }
}

impl State {
    fn receiver(&mut self, to: TaskId) -> Result<&mut Receiver, TaskError> {
        let found = self.receivers.get_mut(&to);
        found.ok_or(TaskError::Ended { task: to })
    }

    /// Nothing is kept for a task that has ended.
    fn forget(&mut self, task: TaskId) {
        let Some(receiver) = self.receivers.remove(&task) else {
            return;
        };
        let left = receiver.kept.iter().map(Kept::cost);
        self.kept_bytes = self.kept_bytes.saturating_sub(left.sum());
        self.lost += receiver.kept.len() as u64;
    }
}

impl Shared {
    fn lock(&self) -> MutexGuard<'_, State> {
        self.state.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn has_ended(&self, task: TaskId) -> Result<bool, TaskError> {
        let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
        ends.has_ended(task)
    }

    fn open(&self, state: &mut State, to: TaskId) -> Result<(), TaskError> {
        if let Entry::Vacant(entry) = state.receivers.entry(to) {
            let options = PublisherOptions::default().send_timeout(Duration::ZERO);
            let publisher = self.node.publisher(&inbox::channel(to), &options)?;
            let receiver = Receiver {
                publisher,
                kept: VecDeque::new(),
                has_ended: false,
            };
            entry.insert(receiver);
        }
        Ok(())
    }

    /// The state, with the receiver in it, if that has not ended.
    fn lock_for(&self, to: TaskId) -> Result<MutexGuard<'_, State>, TaskError> {
        let is_gone = self.has_ended(to)?;
        let mut state = self.lock();
        if is_gone {
            state.forget(to);
            return Err(TaskError::Ended { task: to });
        }
        if !state.receivers.contains_key(&to) {
            // Runners are asked without it.
            drop(state);
            let mut ends = self.ends.lock().unwrap_or_else(PoisonError::into_inner);
            reach::check(&mut ends, self.own, to)?;
            drop(ends);
            state = self.lock();
        }
        self.open(&mut state, to)?;
        Ok(state)
    }

    /// The same for a message, which is lost if it has ended, or cannot be reached.
    fn lock_to_send(&self, to: TaskId) -> Result<MutexGuard<'_, State>, TaskError> {
        self.lock_for(to).inspect_err(|error| {
            if matches!(
                error,
                TaskError::Ended { .. } | TaskError::OutOfReach { .. }
            ) {
                self.lock().lost += 1;
            }
        })
    }

    /// Sends what there is place for, and keeps the rest.
    fn send_or_keep(
        &self,
        state: &mut State,
        to: TaskId,
        mut header: Header,
        bytes: &[u8],
    ) -> Result<(), TaskError> {
        let (kept, most) = (state.kept_bytes, state.kept_bytes_max);
        let receiver = state.receiver(to)?;
        let mut sent = 0;
        if receiver.kept.is_empty() {
            match self.send_pieces(&mut receiver.publisher, &header, bytes, &mut sent)? {
                Piece::Sent => return Ok(()),
                Piece::Full => {}
            }
        }
        header.offset = sent as u64;
        // What was begun has to be ended.
        if sent == 0 && kept.saturating_add(bytes.len() + KEPT_COST) > most {
            return Err(TaskError::KeptTooMuch {
                task: to,
                bytes: bytes.len(),
                kept,
                most,
            });
        }
        let left = Kept {
            header,
            bytes: bytes[sent..].to_vec(),
            sent: 0,
        };
        let cost = left.cost();
        receiver.kept.push_back(left);
        state.kept_bytes += cost;
        self.changed.notify_all();
        Ok(())
    }

    /// As many pieces as there is place for; `sent` grows by what they have.
    fn send_pieces(
        &self,
        publisher: &mut Publisher,
        header: &Header,
        bytes: &[u8],
        sent: &mut usize,
    ) -> Result<Piece, TaskError> {
        // One that has not joined yet takes nothing; a message without bytes is a piece, too.
        if publisher.subscribers()? == 0 {
            return Ok(Piece::Full);
        }
        let mut is_first = true;
        while is_first || *sent < bytes.len() {
            is_first = false;
            let piece = &bytes[*sent..bytes.len().min(*sent + self.piece_bytes)];
            let header = Header {
                offset: header.offset + *sent as u64,
                ..*header
            };
            match send_piece(publisher, &header, piece)? {
                Piece::Sent => *sent += piece.len(),
                Piece::Full => return Ok(Piece::Full),
            }
        }
        Ok(Piece::Sent)
    }

    fn run(&self) {
        let mut looked = Instant::now();
        let mut state = self.lock();
        while !state.is_stopped {
            if state.receivers.values().all(|one| one.kept.is_empty()) {
                let waited = self.changed.wait(state);
                state = waited.unwrap_or_else(PoisonError::into_inner);
                continue;
            }
            let has_sent = self.send_kept(&mut state);
            self.changed.notify_all();
            if has_sent {
                continue;
            }
            if looked.elapsed() > LOOK {
                looked = Instant::now();
                drop(state);
                self.forget_ended();
                state = self.lock();
                continue;
            }
            // Who wants to send meanwhile gets the lock.
            let waited = self.changed.wait_timeout(state, AGAIN);
            state = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }

    /// True: something was sent.
    fn send_kept(&self, state: &mut State) -> bool {
        let mut has_sent = false;
        let mut freed = 0;
        for receiver in state.receivers.values_mut() {
            while let Some(kept) = receiver.kept.front_mut() {
                let before = kept.sent;
                let sent = self.send_pieces(
                    &mut receiver.publisher,
                    &kept.header,
                    &kept.bytes,
                    &mut kept.sent,
                );
                freed += kept.sent - before;
                has_sent |= kept.sent > before;
                match sent {
                    Ok(Piece::Sent) => {
                        has_sent = true;
                        freed += KEPT_COST;
                        receiver.kept.pop_front();
                    }
                    Ok(Piece::Full) => break,
                    Err(error) => {
                        // The pool is lost: nothing will ever be sent.
                        tracing::warn!(%error, "what was kept for a task cannot be sent");
                        receiver.has_ended = true;
                        break;
                    }
                }
            }
        }
        state.kept_bytes = state.kept_bytes.saturating_sub(freed);
        let broken: Vec<TaskId> = state
            .receivers
            .iter()
            .filter_map(|(task, receiver)| receiver.has_ended.then_some(*task))
            .collect();
        broken.into_iter().for_each(|task| state.forget(task));
        has_sent
    }

    fn forget_ended(&self) {
        let kept_for: Vec<TaskId> = {
            let state = self.lock();
            let receivers = state.receivers.iter();
            let waiting = receivers.filter(|(_, receiver)| !receiver.kept.is_empty());
            waiting.map(|(task, _)| *task).collect()
        };
        for task in kept_for {
            let has_ended = match self.has_ended(task) {
                Ok(has_ended) => has_ended,
                // The program has closed the connection to the runner, which is not made again.
                Err(TaskError::Node(NodeError::PoolLost { .. })) => true,
                // A runner that cannot be asked is asked again.
                Err(_) => false,
            };
            if has_ended {
                self.lock().forget(task);
                self.changed.notify_all();
            }
        }
    }
}

fn send_piece(
    publisher: &mut Publisher,
    header: &Header,
    piece: &[u8],
) -> Result<Piece, TaskError> {
    let bytes = HEADER_BYTES + piece.len();
    let mut lease = match publisher.lease(bytes) {
        Ok(lease) => lease,
        Err(error) if error.is_pool_full() => return Ok(Piece::Full),
        Err(error) => return Err(error.into()),
    };
    lease.write(0, &header.to_bytes());
    lease.write(HEADER_BYTES, piece);
    outcome(publisher.publish(lease, bytes))
}

fn outcome(published: Result<Published, NodeError>) -> Result<Piece, TaskError> {
    match published {
        Ok(published) if published.delivered > 0 => Ok(Piece::Sent),
        Ok(_) | Err(NodeError::Blocked { .. } | NodeError::ReceiverGone { .. }) => Ok(Piece::Full),
        Err(error) if error.is_pool_full() => Ok(Piece::Full),
        Err(error) => Err(error.into()),
    }
}

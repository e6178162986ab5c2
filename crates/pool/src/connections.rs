//! Connections: one queue from a publisher's port to a subscriber's, made by the publisher, ended by whoever leaves last.

use hythe_abi::Descriptor;
use hythe_abi::pool::{NOBODY, connection};
use hythe_memory::{Memory, Ordering};
use hythe_queue::{Consumer, Producer, RingPlaces};

use crate::cell::ATTEMPTS;
use crate::control::Control;
use crate::granules::{self, granules_for};
use crate::high_water::{Table, note_table};
use crate::members::note_change;
use crate::oldest;
use crate::ports::PortIndex;
use crate::regions::Regions;
use crate::{Member, MemberIndex, PoolError};

/// Number of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ConnectionIndex(pub u32);

/// The two sides of a connection.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Side {
    /// Pushes.
    Producer,
    /// Takes.
    Consumer,
}

impl Side {
    const fn bit(self) -> u8 {
        match self {
            Self::Producer => 1,
            Self::Consumer => 2,
        }
    }
}

/// Which sides of a connection a participant is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Ends {
    /// It pushes.
    pub producer: bool,
    /// It takes.
    pub consumer: bool,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Status {
    Free = 0,
    Claimed = 1,
    Open = 2,
    Closing = 3,
}

/// What the state cell of a connection says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct State {
    status: Status,
    producer: u8,
    consumer: u8,
    left: u8,
    finalizer: u8,
    nonce: u32,
}

impl State {
    const fn from_bits(bits: u64) -> Self {
        let status = match bits & 0xFF {
            1 => Status::Claimed,
            2 => Status::Open,
            3 => Status::Closing,
            _ => Status::Free,
        };
        Self {
            status,
            producer: (bits >> 8) as u8,
            consumer: (bits >> 16) as u8,
            left: (bits >> 24) as u8,
            finalizer: (bits >> 32) as u8,
            nonce: (bits >> 40) as u32,
        }
    }

    const fn to_bits(self) -> u64 {
        self.status as u64
            | (self.producer as u64) << 8
            | (self.consumer as u64) << 16
            | (self.left as u64) << 24
            | (self.finalizer as u64) << 32
            | (self.nonce as u64) << 40
    }

    const fn free(nonce: u32) -> Self {
        Self {
            status: Status::Free,
            producer: NOBODY,
            consumer: NOBODY,
            left: 0,
            finalizer: NOBODY,
            nonce,
        }
    }
}

/// A connection in use, checked.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionInfo {
    /// Its number.
    pub index: ConnectionIndex,
    /// Tells it from earlier connections of that number.
    pub nonce: u32,
    /// Who pushes.
    pub producer: MemberIndex,
    /// Who takes.
    pub consumer: MemberIndex,
    /// From this port.
    pub producer_port: PortIndex,
    /// To this port.
    pub consumer_port: PortIndex,
    /// The producer has left.
    pub producer_left: bool,
    /// The consumer has left.
    pub consumer_left: bool,
    /// Its queue.
    pub places: RingPlaces,
    /// Either side moves the head, which stands in a cell.
    pub drops_oldest: bool,
}

/// What the queue of a new connection shall be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePlan {
    /// Descriptors that may wait.
    pub capacity: u32,
    /// The producer may take the oldest back.
    pub drops_oldest: bool,
}

impl From<u32> for QueuePlan {
    fn from(capacity: u32) -> Self {
        Self {
            capacity,
            drops_oldest: false,
        }
    }
}

/// The end of a connection that a participant works with.
#[derive(Debug)]
pub struct ConnectionEnd<Q> {
    /// The connection.
    pub info: ConnectionInfo,
    /// Its queue end.
    pub queue: Q,
}

impl<M: Memory> Control<M> {
    /// A connection that is open or closing; `None` if it is free, being made, or its record makes no sense.
    pub fn connection(&self, index: ConnectionIndex) -> Option<ConnectionInfo> {
        if index.0 >= self.layout().limits().connections {
            return None;
        }
        let (memory, at) = (self.memory(), self.layout().connection(index.0 as usize));
        let state = State::from_bits(memory.load_cell(at + connection::STATE, Ordering::Acquire));
        if !matches!(state.status, Status::Open | Status::Closing) {
            return None;
        }
        // Each pairs with a release store in `Member::connect`: what a later maker wrote comes with its nonce.
        let word = |offset| memory.load(at + offset, Ordering::Acquire);
        let (producer_port, consumer_port) = (
            PortIndex(word(connection::PRODUCER_PORT)),
            PortIndex(word(connection::CONSUMER_PORT)),
        );
        let (granule, capacity) = (word(connection::GRANULE), word(connection::CAPACITY));
        let drops_oldest = word(connection::DROPS_OLDEST) != 0;
        // Relaxed: the loads above keep it behind them.
        let now = State::from_bits(memory.load_cell(at + connection::STATE, Ordering::Relaxed));
        if now.nonce != state.nonce {
            return None;
        }
        let (producer, consumer) = (MemberIndex(state.producer), MemberIndex(state.consumer));
        if !self.has_row(producer) || !self.has_row(consumer) {
            return None;
        }
        let end = granule.checked_add(granules_for(capacity))?;
        if !capacity_is_possible(capacity) || end > self.layout().limits().granules {
            return None;
        }
        Some(ConnectionInfo {
            index,
            nonce: state.nonce,
            producer,
            consumer,
            producer_port,
            consumer_port,
            producer_left: state.left & Side::Producer.bit() != 0,
            consumer_left: state.left & Side::Consumer.bit() != 0,
            places: RingPlaces {
                tail: at + connection::TAIL,
                head: at + connection::HEAD,
                entries: self.layout().granule(granule as usize),
                capacity,
            },
            drops_oldest,
        })
    }

    /// Does the consumer of a connection still take part in it? One look at one word, for every message.
    #[inline]
    pub fn consumer_stays(&self, info: &ConnectionInfo) -> bool {
        let at = self.layout().connection(info.index.0 as usize) + connection::STATE;
        // Relaxed: nothing is read on the strength of it. Who leaves because of it looks again.
        let state = State::from_bits(self.memory().load_cell(at, Ordering::Relaxed));
        let in_use = matches!(state.status, Status::Open | Status::Closing);
        in_use && state.nonce == info.nonce && state.left & Side::Consumer.bit() == 0
    }

    /// Every connection that is open or closing.
    pub fn connections(&self) -> impl Iterator<Item = ConnectionInfo> {
        (0..self.layout().limits().connections)
            .filter_map(|index| self.connection(ConnectionIndex(index)))
    }

    /// How many descriptors were taken out of a connection's queue, wrapping, by its consumer or
    /// (evict oldest) by its producer. A claim of the consumer.
    #[inline]
    pub fn taken_from(&self, info: &ConnectionInfo) -> u32 {
        head_of(self, info)
    }

    /// Does something wait for a port, over any of its connections? A snapshot.
    pub fn something_waits_for(&self, port: PortIndex) -> bool {
        self.connections()
            .filter(|info| info.consumer_port == port)
            // Relaxed: nothing is read on the strength of it.
            .any(|info| {
                let tail = self.memory().load(info.places.tail, Ordering::Relaxed);
                tail != head_of(self, &info)
            })
    }

    /// The taking end of a connection, from where its consumer left off.
    pub fn consumer_end(&self, info: ConnectionInfo) -> ConnectionEnd<Consumer> {
        let head = head_of(self, &info);
        ConnectionEnd {
            info,
            queue: Consumer::resume(info.places, head),
        }
    }

    /// The pushing end of a connection, from where its producer left off.
    pub fn producer_end(&self, info: ConnectionInfo) -> ConnectionEnd<Producer> {
        // Relaxed: its own word.
        let tail = self.memory().load(info.places.tail, Ordering::Relaxed);
        let head = head_of(self, &info);
        ConnectionEnd {
            info,
            queue: Producer::resume(info.places, tail, head),
        }
    }
}

impl Member {
    /// Connects an own publisher's port to a subscriber's.
    ///
    /// # Errors
    /// [`PoolError::TableFull`] for connections or queue memory; [`PoolError::QueueTooDeep`].
    pub fn connect<M: Memory>(
        &mut self,
        control: &Control<M>,
        producer_port: PortIndex,
        consumer: MemberIndex,
        consumer_port: PortIndex,
        queue: impl Into<QueuePlan>,
    ) -> Result<ConnectionInfo, PoolError> {
        let queue = queue.into();
        let capacity = granules::check_depth(control, consumer, queue.capacity)?;
        let (index, nonce) = self.claim_connection(control)?;
        let memory = control.memory();
        let at = control.layout().connection(index as usize);
        let granule = granules::take(control, index, capacity).inspect_err(|_| {
            free_record(control, ConnectionIndex(index), nonce);
        })?;
        note_table(control, Table::Connections, index + 1);
        note_table(control, Table::Granules, granule + granules_for(capacity));
        // Each pairs with an acquire load in `Control::connection`: whoever reads it there sees the nonce of the claim, too.
        let word = |offset, value| memory.store(at + offset, value, Ordering::Release);
        word(connection::PRODUCER_PORT, producer_port.0);
        word(connection::CONSUMER_PORT, consumer_port.0);
        word(connection::GRANULE, granule);
        word(connection::CAPACITY, capacity);
        word(connection::DROPS_OLDEST, queue.drops_oldest.into());
        word(connection::TAIL, 0);
        word(connection::HEAD, 0);
        // No mark in it is asked for any more: whoever was on this connection has left it, and settled its last step before.
        // Relaxed: it is seen by those who see the state below.
        memory.store_cell(at + connection::OLDEST, 0, Ordering::Relaxed);
        let open = State {
            status: Status::Open,
            producer: self.index().0,
            consumer: consumer.0,
            left: 0,
            finalizer: NOBODY,
            nonce,
        };
        memory.store_cell(at + connection::STATE, open.to_bits(), Ordering::Release);
        note_change(control, consumer.0);
        control.connection(ConnectionIndex(index)).ok_or_else(|| {
            PoolError::Damaged(format!("connection {index} changed while it was made"))
        })
    }

    fn claim_connection<M: Memory>(&self, control: &Control<M>) -> Result<(u32, u32), PoolError> {
        let limit = control.layout().limits().connections;
        for index in 0..limit {
            let at = control.layout().connection(index as usize) + connection::STATE;
            // Relaxed: a free one is confirmed by the swap.
            let bits = control.memory().load_cell(at, Ordering::Relaxed);
            let found = State::from_bits(bits);
            if found.status != Status::Free {
                continue;
            }
            let nonce = (found.nonce + 1) & 0x00FF_FFFF;
            let claim = State {
                status: Status::Claimed,
                producer: self.index().0,
                ..State::free(nonce)
            };
            if control
                .memory()
                .replace_cell(at, bits, claim.to_bits())
                .is_ok()
            {
                return Ok((index, nonce));
            }
        }
        Err(PoolError::TableFull {
            what: "connection",
            limit,
        })
    }

    /// Leaves a connection. The last to leave empties its queue and frees it. Leaving twice does nothing.
    ///
    /// # Errors
    /// [`PoolError::Damaged`] if shared words contradict each other.
    pub fn leave_connection<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        index: ConnectionIndex,
        nonce: u32,
        side: Side,
    ) -> Result<(), PoolError> {
        self.leave_with(control, regions, index, nonce, |_| side.bit())
    }

    /// Leaves a connection that this participant has made to a port which closed meanwhile: for both sides in one step, so
    /// that nobody has to notice that it was there, or for the producer only if the consumer attends to it, and leaves itself.
    ///
    /// # Errors
    /// As [`Member::leave_connection`].
    pub fn leave_unattended<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        info: &ConnectionInfo,
    ) -> Result<(), PoolError> {
        let sides = |found: State| match found.left & ATTENDED {
            0 => BOTH_LEFT,
            _ => Side::Producer.bit(),
        };
        self.leave_with(control, regions, info.index, info.nonce, sides)
    }

    /// Begins to take part in a connection as its consumer. From here on only this participant, or its recoverer, leaves on
    /// this side. False: it is gone; nothing of it may be touched, it may be another's already.
    pub fn attend<M: Memory>(&mut self, control: &Control<M>, info: &ConnectionInfo) -> bool {
        let at = control.layout().connection(info.index.0 as usize) + connection::STATE;
        let memory = control.memory();
        // Relaxed: confirmed by the swap, or nothing of it is touched, or it was our own swap.
        let mut bits = memory.load_cell(at, Ordering::Relaxed);
        // Others change it a few times in its life: when they leave. More is a liar's work.
        for _ in 0..STATE_ATTEMPTS {
            let found = State::from_bits(bits);
            let mine = found.status == Status::Open
                && found.nonce == info.nonce
                && found.consumer == self.index().0
                && found.left & Side::Consumer.bit() == 0;
            if !mine || found.left & ATTENDED != 0 {
                return mine;
            }
            let after = State {
                left: found.left | ATTENDED,
                ..found
            };
            match memory.replace_cell(at, bits, after.to_bits()) {
                Ok(()) => return true,
                Err(now) => bits = now,
            }
        }
        false
    }

    fn leave_with<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        index: ConnectionIndex,
        nonce: u32,
        sides: impl Fn(State) -> u8,
    ) -> Result<(), PoolError> {
        let at = control.layout().connection(index.0 as usize) + connection::STATE;
        for _ in 0..ATTEMPTS {
            // Relaxed: confirmed by the swap, or nothing is done.
            let bits = control.memory().load_cell(at, Ordering::Relaxed);
            let found = State::from_bits(bits);
            let leaving = sides(found);
            if found.status != Status::Open
                || found.nonce != nonce
                || found.left & leaving == leaving
            {
                return Ok(());
            }
            let mut after = State {
                left: found.left | leaving,
                ..found
            };
            let last = after.left & BOTH_LEFT == BOTH_LEFT;
            if last {
                after.status = Status::Closing;
                after.finalizer = self.index().0;
            }
            if control
                .memory()
                .replace_cell(at, bits, after.to_bits())
                .is_err()
            {
                continue;
            }
            note_change(control, found.producer);
            note_change(control, found.consumer);
            return if last {
                self.finalize(control, regions, index)
            } else {
                Ok(())
            };
        }
        let why = format!("the state of connection {} never stands still", index.0);
        Err(PoolError::Damaged(why))
    }

    /// Empties and frees a connection that both sides left. Can be done again from the start if its doer dies.
    pub(crate) fn finalize<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        index: ConnectionIndex,
    ) -> Result<(), PoolError> {
        // Freed in any case: what cannot be taken out now can never be.
        let drained = match control.connection(index) {
            Some(info) => self.drain(control, regions, info),
            None => Ok(()),
        };
        granules::free(control, index.0);
        let at = control.layout().connection(index.0 as usize) + connection::STATE;
        let found = State::from_bits(control.memory().load_cell(at, Ordering::Relaxed));
        free_record(control, index, found.nonce);
        drained
    }

    /// Takes and releases all that waits in the queue of a connection whose consumer this is.
    ///
    /// # Errors
    /// [`PoolError::Damaged`] if shared words contradict each other.
    pub fn drain_own<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        info: ConnectionInfo,
    ) -> Result<(), PoolError> {
        if self.attend(control, &info) {
            self.drain(control, regions, info)
        } else {
            Ok(())
        }
    }

    /// Takes and releases all that waits in a queue.
    pub(crate) fn drain<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        info: ConnectionInfo,
    ) -> Result<(), PoolError> {
        let (mut end, mut outcome) = (control.consumer_end(info), Ok(()));
        // As many as the queue can hold: a producer that keeps pushing meanwhile does not keep us here.
        for _ in 0..info.places.capacity {
            match self.take(control, regions, &mut end) {
                Ok(Some(taken)) => {
                    outcome = outcome.and(self.release(control, taken.slot, 1).map(drop));
                }
                Err(PoolError::BadDescriptor { .. }) => {}
                // Empty; or an impossible counter: what the queue held is lost with whoever wrote that, and shows in the audit.
                Ok(None) | Err(_) => break,
            }
        }
        outcome
    }

    /// Leaves every connection of this participant, frees those it had claimed, finishes those it was freeing. All of them,
    /// whatever is found damaged on the way; the first damage is the result.
    pub(crate) fn leave_all_connections<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
    ) -> Result<(), PoolError> {
        let me = self.index().0;
        let mut outcome = Ok(());
        for number in 0..control.layout().limits().connections {
            let index = ConnectionIndex(number);
            let at = control.layout().connection(number as usize) + connection::STATE;
            let state = State::from_bits(control.memory().load_cell(at, Ordering::Acquire));
            let left = match state.status {
                Status::Claimed if state.producer == me => {
                    granules::free(control, number);
                    free_record(control, index, state.nonce);
                    Ok(())
                }
                Status::Closing if state.finalizer == me => self.finalize(control, regions, index),
                Status::Open => self.leave_as(control, regions, index, state),
                Status::Free | Status::Claimed | Status::Closing => Ok(()),
            };
            outcome = outcome.and(left);
        }
        outcome
    }

    fn leave_as<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        index: ConnectionIndex,
        state: State,
    ) -> Result<(), PoolError> {
        let mut outcome = Ok(());
        if state.consumer == self.index().0 {
            // Now, not when the producer next looks: it may be idle for long, and others want the buffers. Not without
            // attending: a producer that leaves for both sides may be freeing it.
            let attended = control
                .connection(index)
                .filter(|info| info.nonce == state.nonce && self.attend(control, info));
            if let Some(info) = attended {
                outcome = self.drain(control, regions, info);
            }
            let left = self.leave_connection(control, regions, index, state.nonce, Side::Consumer);
            outcome = outcome.and(left);
        }
        if state.producer == self.index().0 {
            outcome = outcome.and(self.leave_as_producer(control, regions, index, state));
        }
        if state.left & BOTH_LEFT != 0 && [state.producer, state.consumer].contains(&self.index().0)
        {
            // A death between leaving and telling leaves the other side untold. Telling twice does no harm.
            note_change(control, state.producer);
            note_change(control, state.consumer);
        }
        outcome
    }
}

/// Bit of `left` that is none: the consumer attends to the connection, and nobody leaves it in its place.
const ATTENDED: u8 = 4;
/// Tries to change the state of a connection against others who change it.
const STATE_ATTEMPTS: usize = 64;
const BOTH_LEFT: u8 = Side::Producer.bit() | Side::Consumer.bit();

impl Member {
    /// Whoever makes a connection to a port that closes meanwhile leaves it for both sides; or dies over it.
    fn leave_as_producer<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        index: ConnectionIndex,
        state: State,
    ) -> Result<(), PoolError> {
        let closed = control.connection(index).filter(|info| {
            let port = control.port(info.consumer_port);
            info.nonce == state.nonce && port.is_none_or(|port| port.member != info.consumer)
        });
        match closed {
            Some(info) => self.leave_unattended(control, regions, &info),
            None => self.leave_connection(control, regions, index, state.nonce, Side::Producer),
        }
    }
}

/// Gives a record back, of which nothing is in use any more. Pairs with the swap of the next maker in `claim_connection`.
fn free_record<M: Memory>(control: &Control<M>, index: ConnectionIndex, nonce: u32) {
    let at = control.layout().connection(index.0 as usize) + connection::STATE;
    let free = State::free(nonce).to_bits();
    control.memory().store_cell(at, free, Ordering::Release);
}

const fn capacity_is_possible(capacity: u32) -> bool {
    capacity.is_power_of_two() && capacity >= 2 && capacity <= granules::DEPTH_MAX
}

fn head_of<M: Memory>(control: &Control<M>, info: &ConnectionInfo) -> u32 {
    if info.drops_oldest {
        oldest::head(control, info.index)
    } else {
        // For a producer's end made anew: pairs with the consumer's advance, behind which it has finished reading.
        control.memory().load(info.places.head, Ordering::Acquire)
    }
}

/// Descriptors that wait in a connection's queue, read without taking them. A snapshot: the ends may move meanwhile.
pub(crate) fn queued<M: Memory>(control: &Control<M>, info: ConnectionInfo) -> Vec<Descriptor> {
    let memory = control.memory();
    let head = head_of(control, &info);
    let mut reader = Consumer::resume(info.places, head);
    let waiting = reader.waiting(memory).unwrap_or(0);
    let word = |number: u32, index: usize| {
        let entry = (number & (info.places.capacity - 1)) as usize * Descriptor::BYTES;
        memory.load(info.places.entries + entry + index * 4, Ordering::Relaxed)
    };
    (0..waiting)
        .map(|step| head.wrapping_add(step))
        .map(|number| Descriptor::from_words(std::array::from_fn(|index| word(number, index))))
        .collect()
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::scene;
    use crate::{ChannelType, PortKind, PortPolicy};

    #[test]
    fn full_tables_are_refused_and_leave_nothing_behind() {
        let control = scene::control();
        let mut member = scene::join(&control);
        let channel = member
            .open_channel(&control, "c", &ChannelType::default())
            .expect("made");
        let policy = PortPolicy::DropNewest;
        let port = member.open_port(&control, channel, PortKind::Publisher, 2, policy);
        let port = port.expect("port");
        let me = member.index();
        let mut connect = |capacity| member.connect(&control, port, me, port, capacity);

        let (depth, room) = (1000, 64);
        assert_eq!(connect(depth), Err(PoolError::QueueTooDeep { depth, room }));
        assert_eq!(control.connections().count(), 0);
        let made = connect(31).expect("the granule of this connection");
        assert_eq!(made.places.capacity, 32);
        let limit = scene::LIMITS.connections;
        assert_eq!(
            connect(2),
            Err(PoolError::TableFull {
                what: "connection",
                limit
            })
        );
    }
}

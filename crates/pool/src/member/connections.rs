//! Making, leaving and freeing connections: made by the publisher, ended by whoever leaves last.

use hythe_abi::pool::{NOBODY, connection};
use hythe_memory::{Memory, Ordering};

use super::Member;
use crate::PoolError;
use crate::cell::ATTEMPTS;
use crate::control::Control;
use crate::high_water::{Table, note_table};
use crate::regions::Regions;
use crate::tables::connections::{
    ConnectionIndex, ConnectionInfo, Side, State, Status, queue_segments_for,
};
use crate::tables::members::MemberIndex;
use crate::tables::ports::PortIndex;
use crate::tables::queue_segments;

/// What the queue of a new connection shall be like.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct QueuePlan {
    /// Descriptors that may wait.
    pub capacity: u32,
    /// The producer may take the oldest back.
    pub evicts_oldest: bool,
}

impl From<u32> for QueuePlan {
    fn from(capacity: u32) -> Self {
        Self {
            capacity,
            evicts_oldest: false,
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
        let capacity = queue_segments::check_depth(control, consumer, queue.capacity)?;
        let (index, nonce) = self.claim_connection(control)?;
        let memory = control.memory();
        let at = control.layout().connection(index as usize);
        let queue_segment = queue_segments::take(control, index, capacity).inspect_err(|_| {
            free_record(control, ConnectionIndex(index), nonce);
        })?;
        note_table(control, Table::Connections, index + 1);
        note_table(
            control,
            Table::QueueSegments,
            queue_segment + queue_segments_for(capacity),
        );
        // Each pairs with an acquire load in `Tables::connection`: whoever reads it there sees the
        // nonce of the claim, too.
        let word = |offset, value| memory.store(at + offset, value, Ordering::Release);
        word(connection::PRODUCER_PORT, producer_port.0);
        word(connection::CONSUMER_PORT, consumer_port.0);
        let tables = control.tables();
        tables.note_consumer_port(ConnectionIndex(index), Some(consumer_port));
        word(connection::QUEUE_SEGMENT, queue_segment);
        word(connection::CAPACITY, capacity);
        word(connection::EVICTS_OLDEST, queue.evicts_oldest.into());
        let host = match self.stands_for_host {
            true => connection::STANDS_FOR_HOST | self.session(),
            false => 0,
        };
        word(connection::PRODUCER_HOST, host);
        word(connection::TAIL, 0);
        word(connection::HEAD, 0);
        // No mark in it is asked for any more: whoever was on this connection has left it, and
        // settled its last step before. Relaxed: it is seen by those who see the state below.
        memory.store_cell(at + connection::OLDEST, 0, Ordering::Relaxed);
        memory.store_cell(at + connection::MISSED, 0, Ordering::Relaxed);
        memory.store_cell(at + connection::COUNTED, 0, Ordering::Relaxed);
        let gaps = control.layout().gap(queue_segment as usize);
        for number in 0..capacity as usize {
            memory.store(gaps + number * 4, 0, Ordering::Relaxed);
        }
        let open = State {
            status: Status::Open,
            producer: self.index().0,
            consumer: consumer.0,
            left: 0,
            finalizer: NOBODY,
            nonce,
        };
        memory.store_cell(at + connection::STATE, open.to_bits(), Ordering::Release);
        tables.note_change(consumer.0);
        let made = tables.connection(ConnectionIndex(index));
        made.ok_or_else(|| {
            PoolError::Damaged(format!("connection {index} changed while it was made"))
        })
    }

    fn claim_connection<M: Memory>(&self, control: &Control<M>) -> Result<(u32, u32), PoolError> {
        let limit = control.layout().limits().connections;
        let claimed = control.tables().claim_connection(|index| {
            let at = control.layout().connection(index as usize) + connection::STATE;
            // Relaxed: a free one is confirmed by the swap.
            let bits = control.memory().load_cell(at, Ordering::Relaxed);
            let found = State::from_bits(bits);
            if found.status != Status::Free {
                return None;
            }
            let nonce = (found.nonce + 1) & 0x00FF_FFFF;
            let claim = State {
                status: Status::Claimed,
                producer: self.index().0,
                ..State::free(nonce)
            };
            let replaced = control.memory().replace_cell(at, bits, claim.to_bits());
            replaced.ok().map(|()| (index, nonce))
        });
        claimed.ok_or(PoolError::TableFull {
            what: "connection",
            limit,
        })
    }

    /// Leaves a connection. The last to leave empties its queue and frees it. Leaving twice does
    /// nothing.
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

    /// Leaves a connection that this participant has made to a port which closed meanwhile: for
    /// both sides in one step, so that nobody has to notice that it was there, or for the producer
    /// only if the consumer attends to it, and leaves itself.
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

    /// Begins to take part in a connection as its consumer. From here on only this participant, or
    /// its recoverer, leaves on this side. False: it is gone; nothing of it may be touched, it may
    /// be another's already.
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
            control.tables().note_change(found.producer);
            control.tables().note_change(found.consumer);
            return if last {
                self.finalize(control, regions, index)
            } else {
                Ok(())
            };
        }
        let why = format!("the state of connection {} never stands still", index.0);
        Err(PoolError::Damaged(why))
    }

    /// Empties and frees a connection that both sides left. Can be done again from the start if its
    /// doer dies.
    pub(crate) fn finalize<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        index: ConnectionIndex,
    ) -> Result<(), PoolError> {
        // Freed in any case: what cannot be taken out now can never be.
        let drained = match control.tables().connection(index) {
            Some(info) => self.drain(control, regions, info),
            None => Ok(()),
        };
        queue_segments::free(control, index.0);
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
        let (mut end, mut outcome) = (control.tables().consumer_end(info), Ok(()));
        // As many as the queue can hold: a producer that keeps pushing meanwhile does not keep us
        // here.
        for _ in 0..info.places.capacity {
            match self.take(control, regions, &mut end) {
                Ok(Some(taken)) => {
                    outcome = outcome.and(self.release(control, taken.slot, 1).map(drop));
                }
                Err(PoolError::BadDescriptor { .. }) => {}
                // Empty; or an impossible counter: what the queue held is lost with whoever wrote
                // that, and shows in the audit.
                Ok(None) | Err(_) => break,
            }
        }
        outcome
    }

    /// Leaves every connection of this participant, frees those it had claimed, finishes those it
    /// was freeing. All of them, whatever is found damaged on the way; the first damage is the
    /// result.
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
                    queue_segments::free(control, number);
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
            // Now, not when the producer next looks: it may be idle for long, and others want the
            // buffers. Not without attending: a producer that leaves for both sides may be freeing
            // it.
            let attended = control
                .tables()
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
            // A death between leaving and telling leaves the other side untold. Telling twice does
            // no harm.
            control.tables().note_change(state.producer);
            control.tables().note_change(state.consumer);
        }
        outcome
    }
}

/// Bit of `left` that is none: the consumer attends to the connection, and nobody leaves it in its
/// place.
const ATTENDED: u8 = 4;
/// Tries to change the state of a connection against others who change it.
const STATE_ATTEMPTS: usize = 64;
const BOTH_LEFT: u8 = Side::Producer.bit() | Side::Consumer.bit();

impl Member {
    /// Whoever makes a connection to a port that closes meanwhile leaves it for both sides; or dies
    /// over it.
    fn leave_as_producer<M: Memory>(
        &mut self,
        control: &Control<M>,
        regions: &Regions,
        index: ConnectionIndex,
        state: State,
    ) -> Result<(), PoolError> {
        let closed = control.tables().connection(index).filter(|info| {
            let port = control.tables().port(info.consumer_port);
            info.nonce == state.nonce && port.is_none_or(|port| port.member != info.consumer)
        });
        match closed {
            Some(info) => self.leave_unattended(control, regions, &info),
            None => self.leave_connection(control, regions, index, state.nonce, Side::Producer),
        }
    }
}

/// Gives a record back, of which nothing is in use any more. Pairs with the swap of the next maker
/// in `claim_connection`.
fn free_record<M: Memory>(control: &Control<M>, index: ConnectionIndex, nonce: u32) {
    control.tables().note_consumer_port(index, None);
    let at = control.layout().connection(index.0 as usize) + connection::STATE;
    let free = State::free(nonce).to_bits();
    control.memory().store_cell(at, free, Ordering::Release);
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::scene;
    use crate::{ChannelType, MemberKind, PortKind, PortPolicy};

    #[test]
    fn host_member_is_known_after_end_and_never_mistaken() {
        let control = scene::control();
        let mut consumer = scene::join(&control);
        let channel = consumer
            .open_channel(&control, "c", &ChannelType::default())
            .expect("made");
        let policy = PortPolicy::DropNewest;
        let port = consumer.open_port(&control, channel, PortKind::Subscriber, 2, policy);
        let port = port.expect("port");
        let join = |name: &str, session| {
            let identity = control
                .tables()
                .member(consumer.index())
                .expect("it is there");
            let kind = MemberKind::Host;
            Member::join_with_session(&control, kind, identity.identity, name, session)
        };
        let mut host = join("host b", 0x0012_3456).expect("a free record");
        let (me, to) = (host.index(), consumer.index());
        let info = host.connect(&control, port, to, port, 2).expect("free");
        assert_eq!(info.producer_host, Some(host.session()));
        let name = |session| control.tables().name_of(me, session);
        assert_eq!(name(host.session()).as_deref(), Some("host b"));
        assert_eq!(name(host.session() + 1), None);
        let session = host.session();
        scene::with_region(&control, |regions, _| {
            host.depart(&control, regions).expect("sound");
        });
        assert_eq!(name(session).as_deref(), Some("host b"), "nobody is there");
        let other = join("host c", 0x0065_4321).expect("a free record");
        assert_eq!(other.index(), me, "the same record");
        let info = control
            .tables()
            .connection(info.index)
            .expect("not left by both");
        assert_eq!(name(info.producer_host.expect("of a host")), None);
    }

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

        let (depth, free_capacity) = (1000, 64);
        assert_eq!(
            connect(depth),
            Err(PoolError::QueueTooDeep {
                depth,
                free_capacity
            })
        );
        assert_eq!(control.tables().connections().count(), 0);
        let made = connect(31).expect("the queue segment of this connection");
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

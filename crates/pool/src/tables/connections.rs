//! Records of connections: one queue from a publisher's port to a subscriber's.

use hythe_abi::pool::{NOBODY, QUEUE_SEGMENT_DESCRIPTORS, connection};
use hythe_memory::{Memory, Ordering};
use hythe_queue::RingPlaces;

use super::Tables;
use super::members::MemberIndex;
use super::ports::PortIndex;

/// Most descriptors of one queue.
pub(crate) const DEPTH_MAX: u32 = 32768;

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
    pub(crate) const fn bit(self) -> u8 {
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
pub(crate) enum Status {
    Free = 0,
    Claimed = 1,
    Open = 2,
    Closing = 3,
}

/// What the state cell of a connection says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct State {
    pub(crate) status: Status,
    pub(crate) producer: u8,
    pub(crate) consumer: u8,
    pub(crate) left: u8,
    pub(crate) finalizer: u8,
    pub(crate) nonce: u32,
}

impl State {
    pub(crate) const fn from_bits(bits: u64) -> Self {
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

    pub(crate) const fn to_bits(self) -> u64 {
        self.status as u64
            | (self.producer as u64) << 8
            | (self.consumer as u64) << 16
            | (self.left as u64) << 24
            | (self.finalizer as u64) << 32
            | (self.nonce as u64) << 40
    }

    pub(crate) const fn free(nonce: u32) -> Self {
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
    /// The gap word of the queue's first place.
    pub gaps: usize,
    /// Either side moves the head, which stands in a cell.
    pub evicts_oldest: bool,
    /// The producer stands for another host: its session.
    pub producer_host: Option<u32>,
}

impl ConnectionInfo {
    /// Queue segments that its queue takes.
    #[must_use]
    pub const fn queue_segments(&self) -> u32 {
        queue_segments_for(self.places.capacity)
    }
}

pub(crate) const fn queue_segments_for(capacity: u32) -> u32 {
    capacity.div_ceil(QUEUE_SEGMENT_DESCRIPTORS as u32)
}

const fn capacity_is_possible(capacity: u32) -> bool {
    capacity.is_power_of_two() && capacity >= 2 && capacity <= DEPTH_MAX
}

impl<'c, M: Memory> Tables<'c, M> {
    /// A connection that is open or closing; `None` if it is free, being made, or its record makes
    /// no sense.
    pub fn connection(self, index: ConnectionIndex) -> Option<ConnectionInfo> {
        if index.0 >= self.layout().limits().connections {
            return None;
        }
        let (memory, at) = (self.memory(), self.layout().connection(index.0 as usize));
        let state = State::from_bits(memory.load_cell(at + connection::STATE, Ordering::Acquire));
        if !matches!(state.status, Status::Open | Status::Closing) {
            return None;
        }
        // Each pairs with a release store in `Member::connect`: what a later maker wrote comes with
        // its nonce.
        let word = |offset| memory.load(at + offset, Ordering::Acquire);
        let (producer_port, consumer_port) = (
            PortIndex(word(connection::PRODUCER_PORT)),
            PortIndex(word(connection::CONSUMER_PORT)),
        );
        let (queue_segment, capacity) =
            (word(connection::QUEUE_SEGMENT), word(connection::CAPACITY));
        let evicts_oldest = word(connection::EVICTS_OLDEST) != 0;
        let host = word(connection::PRODUCER_HOST);
        let producer_host = (host & connection::STANDS_FOR_HOST != 0)
            .then_some(host & !connection::STANDS_FOR_HOST);
        // Relaxed: the loads above keep it behind them.
        let now = State::from_bits(memory.load_cell(at + connection::STATE, Ordering::Relaxed));
        if now.nonce != state.nonce {
            return None;
        }
        let (producer, consumer) = (MemberIndex(state.producer), MemberIndex(state.consumer));
        if !self.has_row(producer) || !self.has_row(consumer) {
            return None;
        }
        let end = queue_segment.checked_add(queue_segments_for(capacity))?;
        if !capacity_is_possible(capacity) || end > self.layout().limits().queue_segments {
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
                entries: self.layout().queue_segment(queue_segment as usize),
                capacity,
            },
            gaps: self.layout().gap(queue_segment as usize),
            evicts_oldest,
            producer_host,
        })
    }

    /// Does the consumer of a connection still take part in it? One look at one word, for every
    /// message.
    #[inline(always)]
    pub fn consumer_stays(self, info: &ConnectionInfo) -> bool {
        let at = self.layout().connection(info.index.0 as usize) + connection::STATE;
        // Relaxed: nothing is read on the strength of it. Who leaves because of it looks again.
        let state = State::from_bits(self.memory().load_cell(at, Ordering::Relaxed));
        let in_use = matches!(state.status, Status::Open | Status::Closing);
        in_use && state.nonce == info.nonce && state.left & Side::Consumer.bit() == 0
    }

    /// The connections to one port that are open or closing, found by their index words.
    pub fn connections_to(self, port: PortIndex) -> impl Iterator<Item = ConnectionInfo> {
        self.connections_by_port(port)
            .filter_map(move |index| self.connection(ConnectionIndex(index)))
            .filter(move |info| info.consumer_port == port)
    }

    /// Every connection that is open or closing.
    pub fn connections(self) -> impl Iterator<Item = ConnectionInfo> {
        (0..self.layout().limits().connections)
            .filter_map(move |index| self.connection(ConnectionIndex(index)))
    }
}

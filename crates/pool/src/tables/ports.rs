//! Records of ports.

use hythe_abi::pool::port;
use hythe_memory::{Memory, Ordering};
use hythe_queue::EventCell;

use super::Tables;
use super::channels::{ChannelIndex, ChannelKind};
use super::members::MemberIndex;

pub(crate) const STATUS_FREE: u64 = 0;
pub(crate) const STATUS_CLAIMED: u64 = 1;
pub(crate) const STATUS_OPEN: u64 = 2;

/// Number of a port.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct PortIndex(pub u32);

/// What a port does.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortKind {
    /// Publishes.
    Publisher,
    /// Subscribes.
    Subscriber,
    /// Asks.
    Client,
    /// Answers.
    Server,
    /// Raises events.
    Notifier,
    /// Waits for events.
    Listener,
}

impl PortKind {
    const ALL: [Self; 6] = [
        Self::Publisher,
        Self::Subscriber,
        Self::Client,
        Self::Server,
        Self::Notifier,
        Self::Listener,
    ];

    #[inline(always)]
    const fn to_number(self) -> u8 {
        match self {
            Self::Publisher => 1,
            Self::Subscriber => 2,
            Self::Client => 3,
            Self::Server => 4,
            Self::Notifier => 5,
            Self::Listener => 6,
        }
    }

    fn from_number(number: u8) -> Option<Self> {
        Self::ALL
            .into_iter()
            .find(|kind| kind.to_number() == number)
    }

    /// The kind of channel that such ports meet on.
    #[must_use]
    pub const fn channel_kind(self) -> ChannelKind {
        match self {
            Self::Publisher | Self::Subscriber => ChannelKind::PublishSubscribe,
            Self::Client | Self::Server => ChannelKind::RequestReply,
            Self::Notifier | Self::Listener => ChannelKind::Event,
        }
    }
}

impl std::fmt::Display for PortKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::Publisher => "publisher",
            Self::Subscriber => "subscriber",
            Self::Client => "client",
            Self::Server => "server",
            Self::Notifier => "notifier",
            Self::Listener => "listener",
        })
    }
}

/// What happens to a subscriber whose queue is full.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum PortPolicy {
    /// The new message passes it by, and is counted.
    DropNewest,
    /// The publisher takes the oldest back, counts it, and sends the new one.
    EvictOldest,
    /// The publisher waits, for at most this many milliseconds.
    Block {
        /// Bound of the wait, 1 to 2^32 - 2; what is outside is brought inside.
        timeout_ms: u32,
    },
}

impl PortPolicy {
    const fn from_word(block_ms: u32) -> Self {
        match block_ms {
            0 => Self::DropNewest,
            port::EVICT_OLDEST => Self::EvictOldest,
            timeout_ms => Self::Block { timeout_ms },
        }
    }

    #[inline(always)]
    pub(crate) fn to_word(self) -> u32 {
        match self {
            Self::DropNewest => 0,
            Self::EvictOldest => port::EVICT_OLDEST,
            Self::Block { timeout_ms } => timeout_ms.clamp(1, port::EVICT_OLDEST - 1),
        }
    }
}

/// A port in use.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PortInfo {
    /// Its number.
    pub index: PortIndex,
    /// Its owner.
    pub member: MemberIndex,
    /// The owner's session.
    pub session: u32,
    /// What it does.
    pub kind: PortKind,
    /// Its channel.
    pub channel: ChannelIndex,
    /// Descriptors that wait for it at most, per publisher.
    pub depth: u32,
    /// When they do.
    pub policy: PortPolicy,
    /// Earlier messages that a subscriber wants of each publisher.
    pub history: u32,
    /// What it has counted.
    pub statistics: PortStatistics,
}

/// What a port's owner counts.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct PortStatistics {
    /// Messages published or taken.
    pub messages: u64,
    /// Their payload.
    pub payload_bytes: u64,
    /// Of a publisher: messages that did not reach a subscriber, because its queue was full. Of a
    /// subscriber: messages that it missed, because its own queue was full, or they were lost on
    /// the way from another host. Of a client, a server: requests and replies that reached nobody.
    pub dropped: u64,
    /// Descriptors refused.
    pub violations: u64,
    /// Messages published that were copied to a buffer that the receivers can see.
    pub copies: u64,
    /// Their payload.
    pub copied_bytes: u64,
}

impl std::fmt::Display for PortStatistics {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let noun = if self.messages == 1 {
            "message"
        } else {
            "messages"
        };
        let Self {
            messages,
            payload_bytes,
            dropped,
            violations,
            ..
        } = self;
        write!(
            f,
            "{messages} {noun}, {payload_bytes} B of payload, {dropped} dropped, {violations} violations"
        )?;
        if self.copies > 0 {
            write!(f, ", {} copied ({} B)", self.copies, self.copied_bytes)?;
        }
        Ok(())
    }
}

#[inline(always)]
pub(crate) const fn state_bits(status: u64, member: u8, kind: PortKind, session: u32) -> u64 {
    let kind = kind.to_number() as u64;
    status | (member as u64) << 8 | kind << 16 | (session as u64) << 40
}

impl<'c, M: Memory> Tables<'c, M> {
    /// A port, if it is open.
    pub fn port(self, index: PortIndex) -> Option<PortInfo> {
        let limits = self.layout().limits();
        if index.0 >= limits.ports {
            return None;
        }
        let (memory, at) = (self.memory(), self.layout().port(index.0 as usize));
        let state = memory.load_cell(at + port::STATE, Ordering::Acquire);
        if state & 0xFF != STATUS_OPEN {
            return None;
        }
        let channel = memory.load(at + port::CHANNEL, Ordering::Relaxed);
        let kind = PortKind::from_number((state >> 16) as u8)?;
        let policy = PortPolicy::from_word(memory.load(at + port::BLOCK_MS, Ordering::Relaxed));
        let member = MemberIndex((state >> 8) as u8);
        (channel < limits.channels && self.has_row(member)).then(|| PortInfo {
            index,
            member,
            session: (state >> 40) as u32,
            kind,
            channel: ChannelIndex(channel),
            depth: memory.load(at + port::DEPTH, Ordering::Relaxed),
            policy,
            history: memory.load(at + port::HISTORY, Ordering::Relaxed),
            statistics: self.last_statistics(index),
        })
    }

    /// What the last port of this number counted: also behind its end, until the number is used
    /// again.
    ///
    /// # Panics
    /// If the table has no such number.
    pub fn last_statistics(self, index: PortIndex) -> PortStatistics {
        assert!(index.0 < self.layout().limits().ports, "no port {index:?}");
        let at = self.layout().port(index.0 as usize);
        let count = |offset| self.memory().load_cell(at + offset, Ordering::Relaxed);
        PortStatistics {
            messages: count(port::MESSAGES),
            payload_bytes: count(port::PAYLOAD_BYTES),
            dropped: count(port::DROPPED),
            violations: count(port::VIOLATIONS),
            copies: count(port::COPIES),
            copied_bytes: count(port::COPIED_BYTES),
        }
    }

    /// Is a port that was seen open still so, and still the same to whoever sends to it? Reads
    /// nothing that its owner keeps writing.
    #[inline(always)]
    pub fn is_still_open(self, known: &PortInfo) -> bool {
        let (memory, at) = (self.memory(), self.layout().port(known.index.0 as usize));
        let word = |offset| memory.load(at + offset, Ordering::Relaxed);
        let open = state_bits(STATUS_OPEN, known.member.0, known.kind, known.session);
        memory.load_cell(at + port::STATE, Ordering::Acquire) == open
            && word(port::CHANNEL) == known.channel.0
            && word(port::DEPTH) == known.depth
            && word(port::BLOCK_MS) == known.policy.to_word()
    }

    /// Is it, and may one connect to it? Asked behind the connecting and a full barrier.
    pub fn takes_connections(self, known: &PortInfo) -> bool {
        let at = self.layout().port(known.index.0 as usize) + port::FLAGS;
        let flags = self.memory().load(at, Ordering::Relaxed);
        self.is_still_open(known) && flags & port::NOBODY_NEW == 0
    }

    /// The open ports of one channel, found by their index words: a table may have thousands of
    /// records, and is searched several times whenever a port opens or closes.
    pub fn ports_of_channel(self, channel: ChannelIndex) -> impl Iterator<Item = PortInfo> {
        // The record is read whole afterwards: it may have become one of another channel.
        self.ports_by_channel(channel)
            .filter_map(move |index| self.port(PortIndex(index)))
            .filter(move |port| port.channel == channel)
    }

    /// Every open port.
    pub fn ports(self) -> impl Iterator<Item = PortInfo> {
        (0..self.layout().limits().ports).filter_map(move |index| self.port(PortIndex(index)))
    }

    /// Writes what the owner of a port counts with each message.
    #[inline(always)]
    pub fn set_traffic(self, index: PortIndex, statistics: &PortStatistics) {
        let at = self.layout().port(index.0 as usize);
        let (memory, relaxed) = (self.memory(), Ordering::Relaxed);
        memory.store_cell(at + port::MESSAGES, statistics.messages, relaxed);
        memory.store_cell(at + port::PAYLOAD_BYTES, statistics.payload_bytes, relaxed);
    }

    /// Writes all that the owner of a port has counted.
    pub fn set_statistics(self, index: PortIndex, statistics: PortStatistics) {
        let at = self.layout().port(index.0 as usize);
        let count = |offset, value| {
            self.memory()
                .store_cell(at + offset, value, Ordering::Relaxed)
        };
        count(port::MESSAGES, statistics.messages);
        count(port::PAYLOAD_BYTES, statistics.payload_bytes);
        count(port::DROPPED, statistics.dropped);
        count(port::VIOLATIONS, statistics.violations);
        count(port::COPIES, statistics.copies);
        count(port::COPIED_BYTES, statistics.copied_bytes);
    }

    /// The events of a listener's port, for its owner and for those who raise them. Look again
    /// afterwards whether the port [`is_still_open`](Self::is_still_open): then it is this
    /// opening's.
    pub fn events(self, index: PortIndex) -> EventCell {
        let at = self.layout().port(index.0 as usize) + port::EVENTS;
        EventCell::now(self.memory(), at)
    }
}

//! Records of channels.

use hythe_abi::RegionIndex;
use hythe_abi::link::Direction;
use hythe_abi::pool::{CORE_PORTS_MAX, NAME_BYTES, channel};
use hythe_memory::{Memory, Ordering, read_name};
use hythe_terminal::escaped;

use super::Tables;
use super::members::{MemberIndex, MemberKind};

pub(crate) const FREE: u64 = 0;
pub(crate) const CLAIMED: u64 = 1;
pub(crate) const READY: u64 = 2;
pub(crate) const CLOSING: u64 = 3;

/// The bit of `attached` that says: it is being let go, and counts for nobody.
pub(crate) const LETTING_GO: u64 = 1 << 16;

/// Number of a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ChannelIndex(pub u32);

/// Which ports meet on a channel.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub enum ChannelKind {
    /// Publishers and subscribers.
    #[default]
    PublishSubscribe,
    /// Clients and servers.
    RequestReply,
    /// Notifiers and listeners: no payload.
    Event,
}

impl ChannelKind {
    pub(crate) const fn from_word(word: u32) -> Option<Self> {
        match word {
            0 => Some(Self::PublishSubscribe),
            1 => Some(Self::RequestReply),
            2 => Some(Self::Event),
            _ => None,
        }
    }

    pub(crate) const fn to_word(self) -> u32 {
        match self {
            Self::PublishSubscribe => 0,
            Self::RequestReply => 1,
            Self::Event => 2,
        }
    }
}

impl std::fmt::Display for ChannelKind {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        f.write_str(match self {
            Self::PublishSubscribe => "publish/subscribe",
            Self::RequestReply => "request/reply",
            Self::Event => "events",
        })
    }
}

/// What a channel carries. Raw bytes have no size and no name.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct ChannelType {
    /// Name of the type; empty for raw bytes.
    pub name: String,
    /// Size of a value; 0 for raw bytes.
    pub bytes: u32,
    /// Alignment of a value; 0 for raw bytes.
    pub align: u32,
    /// Version of the type, by whoever made it; 0 for raw bytes.
    pub version: u32,
}

impl std::fmt::Display for ChannelType {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        if self.name.is_empty() {
            f.write_str("raw bytes")
        } else {
            write!(
                f,
                "{} version {} ({} bytes, aligned to {})",
                escaped(&self.name),
                self.version,
                self.bytes,
                self.align
            )
        }
    }
}

/// The core endpoint behind a channel.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct CoreBinding {
    /// Region that the core sees.
    pub region: RegionIndex,
    /// Endpoint of its link.
    pub endpoint: u32,
    /// Which way payload travels.
    pub direction: Direction,
    /// The row in the ledger of the endpoint's first port. Those of the others are found by their
    /// names ([`Tables::row_of_core_port`]).
    pub row: MemberIndex,
    /// The participant that runs the core: its bell is the way to the core's.
    pub agent: MemberIndex,
}

/// A channel in use.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelInfo {
    /// Its number.
    pub index: ChannelIndex,
    /// Its name.
    pub name: String,
    /// Which ports meet on it.
    pub kind: ChannelKind,
    /// What it carries.
    pub carries: ChannelType,
    /// The core endpoint behind it, if any.
    pub core: Option<CoreBinding>,
    /// The participants attached to that endpoint, by the number of their port.
    pub attached: [Option<MemberIndex>; CORE_PORTS_MAX],
}

impl ChannelInfo {
    /// Do the same ports meet on it under the same name? Then whoever opened one channel may use
    /// the other.
    #[must_use]
    pub fn is_like(&self, other: &Self) -> bool {
        (&self.name, self.kind, &self.carries) == (&other.name, other.kind, &other.carries)
    }
}

pub(crate) const fn state(status: u64, by: u8, hash: u32) -> u64 {
    status | (by as u64) << 8 | (hash as u64) << 32
}

pub(crate) const fn status_of(bits: u64) -> u64 {
    bits & 0xFF
}

/// The name of the row of a port, which is not the first, of an endpoint whose first port's row has
/// this name.
#[must_use]
pub fn core_port_name(endpoint: &str, port: usize) -> String {
    format!("{endpoint}#{port}")
}

/// FNV-1a: only tells most names apart at a glance; the names themselves decide.
pub(crate) fn hash_of(name: &str) -> u32 {
    name.bytes().fold(0x811C_9DC5, |hash, byte| {
        (hash ^ u32::from(byte)).wrapping_mul(0x0100_0193)
    })
}

impl<'c, M: Memory> Tables<'c, M> {
    /// A channel, if it is in use.
    pub fn channel(self, index: ChannelIndex) -> Option<ChannelInfo> {
        if index.0 >= self.layout().limits().channels {
            return None;
        }
        let (memory, at) = (self.memory(), self.layout().channel(index.0 as usize));
        if status_of(memory.load_cell(at + channel::STATE, Ordering::Acquire)) != READY {
            return None;
        }
        Some(ChannelInfo {
            index,
            name: read_name(memory, at + channel::NAME, NAME_BYTES),
            kind: ChannelKind::from_word(memory.load(at + channel::KIND, Ordering::Relaxed))?,
            carries: ChannelType {
                name: read_name(memory, at + channel::TYPE_NAME, NAME_BYTES),
                bytes: memory.load(at + channel::TYPE_BYTES, Ordering::Relaxed),
                align: memory.load(at + channel::TYPE_ALIGN, Ordering::Relaxed),
                version: memory.load(at + channel::TYPE_VERSION, Ordering::Relaxed),
            },
            core: self.core_binding(index),
            attached: std::array::from_fn(|port| self.attached(index, port)),
        })
    }

    /// The core endpoint behind a channel, or behind one on its way in or out.
    pub(crate) fn core_binding(self, index: ChannelIndex) -> Option<CoreBinding> {
        let at = self.layout().channel(index.0 as usize);
        let word = |offset| self.memory().load(at + offset, Ordering::Acquire);
        let region = word(channel::CORE_REGION).checked_sub(1)?;
        let (row, agent) = (word(channel::CORE_ROW), word(channel::CORE_AGENT));
        let participants = self.layout().limits().participants;
        if row >= participants || agent >= participants {
            return None;
        }
        Some(CoreBinding {
            region: RegionIndex(u8::try_from(region).ok()?),
            endpoint: word(channel::CORE_ENDPOINT),
            direction: Direction::from_word(word(channel::CORE_DIRECTION))?,
            row: MemberIndex(row as u8),
            agent: MemberIndex(agent as u8),
        })
    }

    /// The participant attached to a port of the core endpoint behind a channel: one load, for
    /// whoever forwards rings.
    pub fn attached(self, index: ChannelIndex, port: usize) -> Option<MemberIndex> {
        let member = (self.attachment(index, port) as u8).checked_sub(1);
        member
            .map(MemberIndex)
            .filter(move |&member| self.has_row(member))
    }

    /// Is anybody attached to the core endpoint behind a channel?
    pub(crate) fn is_attached(self, index: ChannelIndex) -> bool {
        (0..CORE_PORTS_MAX).any(|port| self.attached(index, port).is_some())
    }

    /// The rows of the ports that somebody is attached to over a channel, or over one on its way in
    /// or out.
    pub(crate) fn attached_rows(self, index: ChannelIndex) -> impl Iterator<Item = MemberIndex> {
        let rows = (0..CORE_PORTS_MAX).map(move |port| (self.attachment(index, port) >> 8) as u8);
        rows.filter_map(|row| row.checked_sub(1).map(MemberIndex))
    }

    /// The row of a port of a core's endpoint: for the first that of the binding, for another the
    /// one with its name, if it has been made.
    pub fn row_of_core_port(self, core: CoreBinding, port: usize) -> Option<MemberIndex> {
        if port == 0 {
            return Some(core.row);
        }
        let first = self.member(core.row)?;
        let name = core_port_name(&first.name, port);
        let found = self.members().find(|row| {
            row.kind == MemberKind::CoreEndpoint
                && row.identity == first.identity
                && row.name == name
        });
        found.map(|row| row.index)
    }

    /// What says who is attached; 0: nobody, or nobody that counts any more.
    fn attachment(self, index: ChannelIndex, port: usize) -> u64 {
        let at = self.layout().channel(index.0 as usize) + channel::attached(port);
        let bits = self.memory().load_cell(at, Ordering::Acquire);
        if bits & LETTING_GO == 0 { bits } else { 0 }
    }

    /// The number of every record for a channel.
    pub(crate) fn channel_indices(self) -> impl Iterator<Item = ChannelIndex> + use<M> {
        (0..self.layout().limits().channels).map(ChannelIndex)
    }

    /// Every channel in use.
    pub fn channels(self) -> impl Iterator<Item = ChannelInfo> {
        self.channel_indices()
            .filter_map(move |index| self.channel(index))
    }

    /// The channel of that name.
    pub fn find_channel(self, name: &str) -> Option<ChannelInfo> {
        let hash = hash_of(name);
        self.channels_by_hash(hash)
            .filter(|&index| (self.channel_state(index) >> 32) as u32 == hash)
            .filter_map(move |index| self.channel(ChannelIndex(index)))
            .find(|info| info.name == name)
    }

    /// Is there a channel, not only one on its way in or out?
    pub(crate) fn channel_is_ready(self, index: ChannelIndex) -> bool {
        index.0 < self.layout().limits().channels && status_of(self.channel_state(index.0)) == READY
    }

    pub(crate) fn channel_state(self, index: u32) -> u64 {
        let at = self.layout().channel(index as usize) + channel::STATE;
        self.memory().load_cell(at, Ordering::Acquire)
    }

    /// Changes when the ports of a channel change.
    #[inline]
    pub fn channel_epoch(self, index: ChannelIndex) -> u32 {
        let at = self.layout().channel(index.0 as usize) + channel::EPOCH;
        self.memory().load(at, Ordering::Acquire)
    }

    /// The sum, wrapping, of the epochs of all records of channels: changes when the ports of any
    /// channel change. An epoch only rises, by one, whatever becomes of its record.
    pub fn all_channel_epochs(self) -> u32 {
        let epochs = self
            .channel_indices()
            .map(|index| self.channel_epoch(index));
        epochs.fold(0, u32::wrapping_add)
    }

    /// Has all ports of a channel look anew for their other ends.
    pub fn note_ports_changed(self, index: ChannelIndex) {
        let at = self.layout().channel(index.0 as usize) + channel::EPOCH;
        self.memory().add(at, 1, Ordering::Release);
    }
}

//! What this host has on its channels: the ends that are not another host's.
//!
//! The host hop asks, through [`crate::hop`]: what receives here is told to other hosts, and a port
//! of theirs is opened only where something here sends or receives. A look goes through all tables;
//! [`epoch`] says cheaply whether another is due. Never opens, never waits.

use hythe_abi::link::Direction;
use hythe_memory::Mapped;
use hythe_pool::{
    ChannelInfo, ChannelKind, Control, MemberIndex, MemberKind, PortInfo, PortKind, PortPolicy,
};

use crate::leasing::SEND_TIMEOUT;
use crate::pool::Pool;

/// Of a core, whose link has a depth of its own, and which waits where that is full.
const CORE_DEPTH: u32 = 32;

/// A channel with all its ends here.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ChannelEnds {
    /// The channel.
    pub channel: ChannelInfo,
    /// Its ends, at least one.
    pub ends: Vec<End>,
}

/// An end of a channel: a port of a process, or a core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct End {
    /// What it does.
    pub kind: PortKind,
    /// Whose it is; of a core, its row in the ledger.
    pub member: MemberIndex,
    /// Is it a core?
    pub is_core: bool,
    /// Messages that may wait for it, of each sender.
    pub depth: u32,
    /// What happens when as many do.
    pub policy: PortPolicy,
    /// Earlier messages that it wants of each sender.
    pub history: u32,
}

impl End {
    /// Does it take messages, requests or events? Else it sends them.
    #[must_use]
    pub const fn receives(&self) -> bool {
        matches!(
            self.kind,
            PortKind::Subscriber | PortKind::Server | PortKind::Listener
        )
    }
}

/// All channels that have ends here which are not another host's.
#[must_use]
pub fn ends(pool: &Pool) -> Vec<ChannelEnds> {
    let control = pool.control();
    let tables = control.tables();
    let is_of_host = |port: &PortInfo| tables.member_kind(port.member) == Some(MemberKind::Host);
    let ports: Vec<PortInfo> = tables.ports().filter(|port| !is_of_host(port)).collect();
    let channels = tables.channels().map(|channel| {
        let here = ports.iter().filter(|port| port.channel == channel.index);
        let ends = here.map(end_of_port).chain(end_of_core(&channel)).collect();
        ChannelEnds { channel, ends }
    });
    channels.filter(|found| !found.ends.is_empty()).collect()
}

/// Changes whenever [`ends`] may. One load for each channel that the pool can have.
///
/// Read it before the look: what changes meanwhile changes it again. Each opening and closing of a
/// port, also of a host's, rings the bells of all participants that stand for hosts behind the
/// change; so do recoveries, and cores that come and go.
#[must_use]
pub fn epoch(pool: &Pool) -> u32 {
    // Each only rises, by one, also when its record becomes another channel's.
    pool.control().tables().all_channel_epochs()
}

fn end_of_port(port: &PortInfo) -> End {
    End {
        kind: port.kind,
        member: port.member,
        is_core: false,
        depth: port.depth,
        policy: port.policy,
        history: port.history,
    }
}

fn end_of_core(channel: &ChannelInfo) -> Option<End> {
    let core = channel.core?;
    let kind = match (channel.kind, core.direction) {
        (ChannelKind::PublishSubscribe, Direction::FromCore) => PortKind::Publisher,
        (ChannelKind::PublishSubscribe, Direction::ToCore) => PortKind::Subscriber,
        (ChannelKind::RequestReply, Direction::FromCore) => PortKind::Client,
        (ChannelKind::RequestReply, Direction::ToCore) => PortKind::Server,
        (ChannelKind::Event, Direction::FromCore) => PortKind::Notifier,
        (ChannelKind::Event, Direction::ToCore) => PortKind::Listener,
    };
    Some(End {
        kind,
        member: core.row,
        is_core: true,
        depth: CORE_DEPTH,
        policy: PortPolicy::Block {
            timeout_ms: SEND_TIMEOUT.as_millis() as u32,
        },
        history: 0,
    })
}

/// The agents of other hosts.
pub(crate) fn host_agents(control: &Control<Mapped>) -> impl Iterator<Item = MemberIndex> {
    let hosts = control.tables().hosts();
    hosts.filter_map(|(member, kind)| (kind == MemberKind::HostAgent).then_some(member))
}

/// Wakes whoever acts for another host: a port has opened or closed.
pub(crate) fn ring_hosts(control: &Control<Mapped>) {
    for (host, _) in control.tables().hosts() {
        crate::wait::ring(control, host);
    }
}

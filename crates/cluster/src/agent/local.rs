//! What ends the channels have on this host, seen in its pool. Ends of participants that stand for
//! other hosts do not count: what came from a host goes to no host.

use std::collections::BTreeMap;

use hythe_node::hop::HopPool as _;
use hythe_node::{ChannelIndex, ChannelInfo, Direction, MemberIndex, Pool, PortIndex, PortKind};

use crate::frame::{CarriedType, EndKind, Policy, Want};

/// What a core takes at once where nothing else is known.
const CORE_DEPTH: u32 = 32;

/// Kind and name of a channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChannelKey {
    pub(crate) kind: EndKind,
    pub(crate) channel: String,
}

/// The ends on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LocalEnds {
    /// Receiving ends: subscribers, servers, listeners, taken together for each channel.
    pub(crate) wants: BTreeMap<ChannelKey, LocalWant>,
    /// Sending ends, and what the channel carries.
    pub(crate) sends: BTreeMap<ChannelKey, LocalSend>,
}

/// The receiving ends of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalWant {
    pub(crate) want: Want,
    /// Their ports: when there are others, somebody new may want the history.
    ports: Vec<(PortIndex, u32)>,
}

/// The sending ends of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalSend {
    pub(crate) carries: CarriedType,
    /// Participant and port of each.
    pub(crate) ports: Vec<(MemberIndex, Option<PortIndex>)>,
}

impl LocalEnds {
    /// Looks at the pool.
    pub(crate) fn scan(pool: &Pool, is_host: impl Fn(MemberIndex) -> bool) -> Self {
        let tables = pool.control().tables();
        let mut channels: BTreeMap<ChannelIndex, ChannelInfo> = BTreeMap::new();
        let mut ends = Self::default();
        for port in tables.ports().filter(|port| !is_host(port.member)) {
            let known = channels.get(&port.channel).cloned();
            let Some(channel) = known.or_else(|| tables.channel(port.channel)) else {
                continue;
            };
            match port.kind {
                PortKind::Publisher | PortKind::Client | PortKind::Notifier => {
                    ends.add_send(&channel, (port.member, Some(port.index)));
                }
                PortKind::Subscriber | PortKind::Server | PortKind::Listener => {
                    let want = ends.add_want(&channel);
                    want.want
                        .strengthen(port.policy.into(), port.depth, port.history);
                    want.ports.push((port.index, port.session));
                }
            }
            channels.insert(channel.index, channel);
        }
        for channel in tables.channels() {
            match channel.core.map(|core| (core.direction, core.row)) {
                Some((Direction::FromCore, row)) => ends.add_send(&channel, (row, None)),
                Some((Direction::ToCore, _)) => {
                    let want = ends.add_want(&channel);
                    want.want.strengthen(Policy::DropNewest, CORE_DEPTH, 0);
                }
                None => {}
            }
        }
        ends
    }

    fn add_send(&mut self, channel: &ChannelInfo, port: (MemberIndex, Option<PortIndex>)) {
        let made = || LocalSend {
            carries: channel.carries.clone().into(),
            ports: Vec::new(),
        };
        let send = self
            .sends
            .entry(ChannelKey::of(channel))
            .or_insert_with(made);
        send.ports.push(port);
    }

    fn add_want(&mut self, channel: &ChannelInfo) -> &mut LocalWant {
        let made = || LocalWant {
            want: Want {
                kind: channel.kind.into(),
                channel: channel.name.clone(),
                carries: channel.carries.clone().into(),
                policy: Policy::DropNewest,
                depth: 0,
                history: 0,
            },
            ports: Vec::new(),
        };
        self.wants
            .entry(ChannelKey::of(channel))
            .or_insert_with(made)
    }
}

impl ChannelKey {
    fn of(channel: &ChannelInfo) -> Self {
        Self {
            kind: channel.kind.into(),
            channel: channel.name.clone(),
        }
    }
}

impl Want {
    /// One more receiving end.
    fn strengthen(&mut self, policy: Policy, depth: u32, history: u32) {
        self.policy = self.policy.max(policy);
        self.depth = self.depth.max(depth);
        self.history = self.history.max(history);
    }

    /// Where it is wanted.
    pub(crate) fn key(&self) -> ChannelKey {
        ChannelKey {
            kind: self.kind,
            channel: self.channel.clone(),
        }
    }
}

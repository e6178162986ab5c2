//! What ends the channels have on this host, seen in its pool. Ends of participants that stand for
//! other hosts do not count: what came from a host goes to no host.

use std::collections::BTreeMap;

use hythe_node::hop::{self, ChannelEnds, End};
use hythe_node::{ChannelInfo, Pool};

use crate::frame::{CarriedType, EndKind, Ends, Policy, Want};
use crate::tasks::stays_on_its_host;

/// What a core asks its agent over, and what the agent tells it.
const OF_ONE_CORE: [&str; 3] = ["core/services", "core/messages", "core/control"];

/// Kind and name of a channel.
#[derive(Clone, Debug, PartialEq, Eq, PartialOrd, Ord)]
pub(crate) struct ChannelKey {
    pub(crate) kind: EndKind,
    pub(crate) channel: String,
}

/// The ends on this host.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct LocalEnds {
    /// Receiving ends: subscribers, servers, listeners, taken together for each channel. A client
    /// wants replies.
    pub(crate) wants: BTreeMap<ChannelKey, LocalWant>,
    /// Sending ends, and what the channel carries.
    pub(crate) sends: BTreeMap<ChannelKey, CarriedType>,
    /// How many there are of both, without replies.
    pub(crate) counts: BTreeMap<ChannelKey, Ends>,
}

/// The receiving ends of a channel.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(crate) struct LocalWant {
    pub(crate) want: Want,
    /// When there are others, somebody new may want the history.
    ends: Vec<End>,
}

impl LocalWant {
    pub(crate) fn ends(&self) -> &[End] {
        &self.ends
    }
}

impl LocalEnds {
    /// Looks at the pool.
    pub(crate) fn scan(pool: &Pool) -> Self {
        let mut ends = Self::default();
        for ChannelEnds {
            channel,
            ends: here,
        } in hop::ends(pool)
        {
            if is_of_one_core(&channel.name) || stays_on_its_host(&channel.name) {
                continue;
            }
            for end in here {
                let key = ChannelKey::of(&channel);
                ends.count(key.clone(), &channel, &end);
                let back = ChannelKey {
                    kind: EndKind::Reply,
                    channel: channel.name.clone(),
                };
                let is_request = key.kind == EndKind::Request;
                if end.receives() {
                    let want = ends.add_want(key, &channel);
                    want.want.strengthen(&end);
                    want.ends.push(end);
                    if is_request {
                        ends.add_send(back, &channel);
                    }
                } else {
                    ends.add_send(key, &channel);
                    if is_request {
                        ends.add_want(back, &channel);
                    }
                }
            }
        }
        ends
    }

    fn count(&mut self, key: ChannelKey, channel: &ChannelInfo, end: &End) {
        let none = |key: &ChannelKey| Ends {
            kind: key.kind,
            channel: key.channel.clone(),
            carries: channel.carries.clone().into(),
            sending: 0,
            receiving: 0,
        };
        let counted = self.counts.entry(key).or_insert_with_key(none);
        match end.receives() {
            true => counted.receiving += 1,
            false => counted.sending += 1,
        }
    }

    fn add_send(&mut self, key: ChannelKey, channel: &ChannelInfo) {
        let carries = || channel.carries.clone().into();
        self.sends.entry(key).or_insert_with(carries);
    }

    fn add_want(&mut self, key: ChannelKey, channel: &ChannelInfo) -> &mut LocalWant {
        let made = |key: &ChannelKey| LocalWant {
            want: Want {
                kind: key.kind,
                channel: channel.name.clone(),
                carries: channel.carries.clone().into(),
                policy: Policy::DropNewest,
                depth: 0,
                history: 0,
            },
            ends: Vec::new(),
        };
        self.wants.entry(key).or_insert_with_key(made)
    }
}

/// Do a core and its agent meet there, who are of one host (`spec/services.md`)? Another host has
/// channels of the same names, for other cores.
fn is_of_one_core(channel: &str) -> bool {
    let mut names = OF_ONE_CORE.iter();
    names.any(|name| {
        channel
            .strip_suffix(name)
            .is_some_and(|front| front.is_empty() || front.ends_with('/'))
    })
}

/// As queues are made: a power of two.
pub(crate) fn queue_depth(depth: u32) -> u32 {
    depth.max(2).checked_next_power_of_two().unwrap_or(u32::MAX)
}

impl ChannelKey {
    fn of(channel: &ChannelInfo) -> Self {
        Self {
            kind: channel.kind.into(),
            channel: channel.name.clone(),
        }
    }
}

impl Ends {
    /// Are there none any more?
    pub(crate) const fn is_none(&self) -> bool {
        self.sending == 0 && self.receiving == 0
    }

    /// Where they are.
    pub(crate) fn key(&self) -> ChannelKey {
        ChannelKey {
            kind: self.kind,
            channel: self.channel.clone(),
        }
    }
}

impl Want {
    /// One more receiving end.
    fn strengthen(&mut self, end: &End) {
        self.policy = self.policy.max(end.policy.into());
        self.depth = self.depth.max(end.depth);
        self.history = self.history.max(end.history);
    }

    /// This is wanted, too. Does that take another port than before? A longer history does not:
    /// those who come now get what their publishers keep.
    pub(crate) fn include(&mut self, other: &Self) -> bool {
        let port = |want: &Self| (want.policy, queue_depth(want.depth));
        let before = port(self);
        self.policy = self.policy.max(other.policy);
        self.depth = self.depth.max(other.depth);
        self.history = self.history.max(other.history);
        port(self) != before
    }

    /// Where it is wanted.
    pub(crate) fn key(&self) -> ChannelKey {
        ChannelKey {
            kind: self.kind,
            channel: self.channel.clone(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn core_asks_the_agent_of_its_own_host() {
        for own in ["core/services", "left/core/messages", "core/control"] {
            assert!(is_of_one_core(own), "{own}");
        }
        for shared in ["core/calls", "score/services", "core/services/x", "pcm"] {
            assert!(!is_of_one_core(shared), "{shared}");
        }
    }
}

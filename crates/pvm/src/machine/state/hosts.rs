//! Hosts that come and go, and who is told.

use std::collections::BTreeMap;

use super::{Sent, State, Watch, notice, sent_by_machine};
use crate::buffer::{Buffer, Encoding};
use crate::code::Code;
use crate::hostfile::Settings;
use crate::machine::protocol::{Reply, WatchedEvent};
use crate::tid::Tid;

/// How often the coming of hosts is told stands where the number of what is watched does; a
/// negative one has no end. Not once: what was asked before ends.
pub(super) fn ends_additions(watch: &Watch) -> bool {
    watch.event == WatchedEvent::HostAdd && watch.of.number() == 0
}

impl State {
    /// The name of the first host.
    pub fn name_first_host(&mut self, name: &str) {
        self.hosts.name_first(name);
    }

    /// What a hostfile says of hosts that come later, and of the first.
    pub fn set_hosts(&mut self, named: BTreeMap<String, Settings>, others: Settings) {
        self.hosts.set(named, others);
    }

    /// All of them.
    #[must_use]
    pub fn hosts(&self) -> Reply {
        Reply::Hosts(self.hosts.rows().to_vec())
    }

    /// The host of this name.
    #[must_use]
    pub fn host_named(&self, name: &str) -> Option<Tid> {
        self.hosts.named(name)
    }

    /// Takes hosts in: the number of each, and what is to be sent.
    pub fn add_hosts(&mut self, names: &[String]) -> (Vec<Result<Tid, Code>>, Sent) {
        let outcomes: Vec<_> = names.iter().map(|name| self.hosts.add(name)).collect();
        let added: Vec<Tid> = outcomes.iter().filter_map(|one| one.ok()).collect();
        if added.is_empty() {
            return (outcomes, Vec::new());
        }
        let mut sent = Vec::new();
        for watch in &mut self.watches {
            if watch.event == WatchedEvent::HostAdd {
                sent.extend(addition(watch, &added));
                let left = watch.of.number();
                watch.of = match left {
                    ..0 => watch.of,
                    _ => Tid::from_number(left - 1),
                };
            }
        }
        let goes_on =
            |watch: &Watch| watch.event != WatchedEvent::HostAdd || watch.of.number() != 0;
        self.watches.retain(goes_on);
        (outcomes, sent)
    }

    /// What a host is, by the bytes of an address in its programs and their order.
    pub fn describe_host(&mut self, host: Tid, pointer_bytes: usize, is_big_endian: bool) {
        self.hosts.describe(host, pointer_bytes, is_big_endian);
    }

    /// A host is gone, and all that ran there. The first one cannot be.
    pub fn remove_host(&mut self, host: Tid) -> Sent {
        if !self.hosts.remove(host) {
            return Vec::new();
        }
        let mut sent = Vec::new();
        let there = self.enrolled.iter().filter(|task| task.host() == host);
        for task in there.copied().collect::<Vec<_>>() {
            sent.extend(self.leave(task));
        }
        let is_over = |watch: &Watch| match watch.event {
            WatchedEvent::HostDelete | WatchedEvent::TaskExit => watch.of.host() == host,
            WatchedEvent::HostAdd => false,
        };
        let (over, go_on) = std::mem::take(&mut self.watches)
            .into_iter()
            .partition(is_over);
        self.watches = go_on;
        sent.extend(over.iter().flat_map(notice));
        sent
    }
}

/// How many have come, and their numbers.
fn addition(watch: &Watch, added: &[Tid]) -> Option<(Tid, super::Outgoing)> {
    let mut message = Buffer::new(Encoding::Xdr);
    message.pack_int(i32::try_from(added.len()).ok()?).ok()?;
    for host in added {
        message.pack_int(host.number()).ok()?;
    }
    Some(sent_by_machine(message, watch.by, watch.tag, watch.context))
}

//! The hosts that an agent knows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::context::{Context, Group, lock};
use super::host::Host;
use crate::{DirectoryEvent, HostName};

/// The most other hosts of an agent: each has a few threads and a participant while it is
/// connected.
pub const HOSTS_MAX: usize = 240;

/// Who says that there is a host.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Source {
    /// A connection, which has proven its name.
    Connection,
    /// The directory: anybody in the realm can declare any name there.
    Directory,
}

/// The hosts that an agent knows, by name.
#[derive(Debug, Default)]
pub(crate) struct Hosts(Mutex<BTreeMap<HostName, Arc<Host>>>);

impl Hosts {
    pub(crate) fn all(&self) -> Vec<Arc<Host>> {
        lock(&self.0).values().cloned().collect()
    }

    /// The host with this name, known or new. `None`: there are too many, or it is this one.
    pub(crate) fn get(
        &self,
        context: &Arc<Context>,
        name: &HostName,
        source: Source,
    ) -> Option<Arc<Host>> {
        let mut hosts = lock(&self.0);
        if let Some(known) = hosts.get(name) {
            return Some(Arc::clone(known));
        }
        if *name == context.options.host {
            return None;
        }
        if hosts.len() >= HOSTS_MAX {
            let victim = dispensable(&hosts, source)?;
            if let Some(victim) = hosts.remove(&victim) {
                victim.forget();
            }
        }
        let host = Arc::new(Host::new(context, name.clone()));
        hosts.insert(name.clone(), Arc::clone(&host));
        Some(host)
    }

    /// The directory says something.
    pub(crate) fn apply(
        &self,
        context: &Arc<Context>,
        carrying: &Arc<Group>,
        event: DirectoryEvent,
    ) {
        match event {
            DirectoryEvent::Seen { host, addresses } => {
                match self.get(context, &host, Source::Directory) {
                    Some(known) => known.seen(addresses, carrying),
                    None if host != context.options.host => {
                        tracing::warn!(%host, most = HOSTS_MAX, "one host too many: not connected");
                    }
                    None => {}
                }
            }
            DirectoryEvent::Gone { host } => {
                if let Some(known) = self.known(&host) {
                    known.gone();
                }
            }
            // One host too many is said when it is seen.
            DirectoryEvent::Listed { host, addresses } => {
                if let Some(known) = self.get(context, &host, Source::Directory) {
                    known.listed(addresses, carrying);
                }
            }
            DirectoryEvent::Unlisted { host } => {
                if let Some(known) = self.known(&host) {
                    known.unlisted();
                }
            }
        }
    }

    fn known(&self, name: &HostName) -> Option<Arc<Host>> {
        lock(&self.0).get(name).cloned()
    }
}

/// The host that makes place for another: one that never connected, whose name was never proven, or
/// else one that has gone, with what was counted of it.
fn dispensable(hosts: &BTreeMap<HostName, Arc<Host>>, source: Source) -> Option<HostName> {
    let idle = || hosts.values().filter(|host| host.is_idle());
    let is_proven = source == Source::Connection;
    let unproven = idle().find(|host| host.never_connected() && (is_proven || !host.is_seen()));
    let victim = unproven.or_else(|| idle().find(|host| !host.is_seen()));
    victim.map(|host| host.record.name.clone())
}

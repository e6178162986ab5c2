//! The hosts that an agent knows.

use std::collections::BTreeMap;
use std::sync::{Arc, Mutex};

use super::context::{Context, Group, lock};
use super::host::Host;
use crate::{DirectoryEvent, HostName};

/// The most hosts: each has a few threads and a participant while it is connected.
const HOSTS_MAX: usize = 240;

/// The hosts that an agent knows, by name.
#[derive(Debug, Default)]
pub(crate) struct Hosts(Mutex<BTreeMap<HostName, Arc<Host>>>);

impl Hosts {
    pub(crate) fn all(&self) -> Vec<Arc<Host>> {
        lock(&self.0).values().cloned().collect()
    }

    /// The host with this name, known or new. `None`: there are too many, or it is this one.
    pub(crate) fn get(&self, context: &Arc<Context>, name: &HostName) -> Option<Arc<Host>> {
        let mut hosts = lock(&self.0);
        if let Some(known) = hosts.get(name) {
            return Some(Arc::clone(known));
        }
        if hosts.len() >= HOSTS_MAX || *name == context.options.host {
            return None;
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
            DirectoryEvent::Seen { host, addresses } => match self.get(context, &host) {
                Some(known) => known.seen(addresses, carrying),
                None if host != context.options.host => {
                    tracing::warn!(%host, most = HOSTS_MAX, "one host too many: not connected");
                }
                None => {}
            },
            DirectoryEvent::Gone { host } => {
                let known = lock(&self.0).get(&host).cloned();
                if let Some(known) = known {
                    known.gone();
                }
            }
        }
    }
}

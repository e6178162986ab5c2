//! A directory that a test fills.

use std::collections::VecDeque;
use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex};
use std::time::Duration;

use hythe_cluster::{Directory, DirectoryEvent, HostName};

/// What one agent is told.
#[derive(Debug, Default)]
pub(crate) struct StaticDirectory {
    events: Mutex<VecDeque<DirectoryEvent>>,
    condition: Condvar,
}

impl StaticDirectory {
    pub(crate) fn new() -> Arc<Self> {
        Arc::default()
    }

    pub(crate) fn show(&self, host: &HostName, address: SocketAddr) {
        self.say(DirectoryEvent::Seen {
            host: host.clone(),
            addresses: vec![address],
        });
    }

    pub(crate) fn say(&self, event: DirectoryEvent) {
        self.events.lock().expect("sound").push_back(event);
        self.condition.notify_all();
    }
}

impl Directory for StaticDirectory {
    fn next(&self, timeout: Duration) -> Result<Option<DirectoryEvent>, String> {
        let events = self.events.lock().expect("sound");
        let waited = self
            .condition
            .wait_timeout_while(events, timeout, |events| events.is_empty());
        Ok(waited.expect("sound").0.pop_front())
    }
}

//! Channels that are open to Zenoh programs outside the realm, by decision of the user.
//!
//! Part of the agent. A Zenoh session of its own, without keys or encryption, meets those programs;
//! a participant of the pool, of the kind that stands for hosts, has the ports. What is published
//! here goes to the channel's key, and what comes there is published here; neither goes on to other
//! hosts of the realm, and what they publish does not go out here. Ports are open only while a
//! program here has the other end, so that the channel's type is that program's. Nothing is open,
//! and nobody listens, unless a channel was named.

mod channel;
mod incoming;
mod list;
mod outgoing;
mod session;

use std::collections::BTreeMap;
use std::net::{Ipv4Addr, SocketAddr};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hythe_cluster::OpenStatus;
use hythe_node::hop::{self, ChannelEnds};
use hythe_node::{ChannelKind, Node, Pool};
use zenoh::{Session, Wait};

use self::channel::{Channel, Counts};
use self::incoming::Incoming;
pub(crate) use self::list::read;
pub use self::list::{OPEN_FILE, close, open};
use self::outgoing::Outgoing;
pub use self::session::OpenAddresses;

/// Where programs outside the realm connect, unless it is told otherwise: this machine's only, at
/// the port behind those of the realm.
pub const OPEN_ADDRESS: SocketAddr = SocketAddr::new(
    std::net::IpAddr::V4(Ipv4Addr::LOCALHOST),
    crate::tls::DEFAULT_PORT + 2,
);
/// The participant is `host (open)`: no host can have such a name.
const PARTICIPANT: &str = "(open)";
/// How often the ends of the channels here are looked at.
const LOOK: Duration = Duration::from_millis(100);
/// Between two attempts to begin what failed.
const RETRY: Duration = Duration::from_secs(1);

/// The open channels of this host.
#[derive(Debug)]
pub(crate) struct OpenChannels {
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    pool: Pool,
    addresses: OpenAddresses,
    marker: String,
    is_over: AtomicBool,
    state: Mutex<State>,
}

#[derive(Debug, Default)]
struct State {
    /// By channel; counts stay for as long as it is open.
    wanted: BTreeMap<String, Arc<Counts>>,
    /// Why programs outside cannot be met.
    trouble: String,
}

impl OpenChannels {
    /// Meets programs outside the realm at these addresses, once a channel is open.
    ///
    /// # Errors
    /// There can be no more threads.
    pub(crate) fn start(
        pool: Pool,
        realm: &str,
        addresses: OpenAddresses,
    ) -> std::io::Result<Self> {
        let shared = Arc::new(Shared {
            pool,
            addresses,
            marker: format!("hythe realm {realm}"),
            is_over: AtomicBool::new(false),
            state: Mutex::default(),
        });
        let supervised = Arc::clone(&shared);
        let thread = std::thread::Builder::new().name("hostd-open".to_owned());
        let thread = thread.spawn(move || Supervisor::new(&supervised).run())?;
        Ok(Self {
            shared,
            thread: Some(thread),
        })
    }

    /// From now on these channels are open, and no others.
    pub(crate) fn set(&self, channels: &[String]) {
        let mut state = lock(&self.shared.state);
        state.wanted.retain(|name, _| channels.contains(name));
        for channel in channels {
            state.wanted.entry(channel.clone()).or_default();
        }
    }

    /// `None`: nothing is open.
    pub(crate) fn status(&self) -> Option<OpenStatus> {
        let state = lock(&self.shared.state);
        let channels = state.wanted.iter();
        let channels: Vec<_> = channels
            .map(|(name, counts)| counts.status(name, list::key_of(name)))
            .collect();
        (!channels.is_empty()).then(|| OpenStatus {
            address: format!("tcp/{}", self.shared.addresses.listen),
            peers: self.shared.addresses.peers.clone(),
            trouble: state.trouble.clone(),
            channels,
        })
    }
}

impl Drop for OpenChannels {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        if let Some(thread) = self.thread.take() {
            // It has no result.
            let _ = thread.join();
        }
    }
}

/// The thread: opens and closes what is to be.
struct Supervisor<'a> {
    shared: &'a Shared,
    /// Before what they use.
    ports: BTreeMap<String, Ports>,
    outside: Option<Outside>,
    retry_at: Instant,
}

/// Session and participant.
struct Outside {
    session: Session,
    node: Node,
}

#[derive(Default)]
struct Ports {
    outgoing: Option<Outgoing>,
    incoming: Option<Incoming>,
    retry_at: Option<Instant>,
}

impl<'a> Supervisor<'a> {
    fn new(shared: &'a Shared) -> Self {
        Self {
            shared,
            ports: BTreeMap::new(),
            outside: None,
            retry_at: Instant::now(),
        }
    }

    fn run(mut self) {
        while !self.shared.is_over.load(Ordering::Acquire) {
            let wanted = lock(&self.shared.state).wanted.clone();
            self.ports.retain(|name, _| wanted.contains_key(name));
            match wanted.is_empty() {
                true => self.leave(),
                false => self.meet(),
            }
            if let Some(outside) = &self.outside {
                let ends = hop::ends(&self.shared.pool);
                for (name, counts) in &wanted {
                    let of_channel = |ends: &&ChannelEnds| ends.channel.name == *name;
                    let ends = ends.iter().find(of_channel);
                    let ports = self.ports.entry(name.clone()).or_default();
                    ports.follow(self.shared, outside, ends, name, counts);
                }
            }
            std::thread::sleep(LOOK);
        }
        self.ports.clear();
        self.leave();
    }

    fn leave(&mut self) {
        if let Some(outside) = self.outside.take() {
            // It is gone in any case.
            let _ = outside.session.close().wait();
        }
    }

    fn meet(&mut self) {
        if self.outside.is_some() || Instant::now() < self.retry_at {
            return;
        }
        self.retry_at = Instant::now() + RETRY;
        let outside = session::open(&self.shared.addresses).and_then(|session| {
            let node = hythe_rtcore::join_host(&self.shared.pool, PARTICIPANT);
            let node = node.map_err(|error| error.to_string())?;
            Ok(Outside { session, node })
        });
        lock(&self.shared.state).trouble = outside.as_ref().err().cloned().unwrap_or_default();
        self.outside = outside.ok();
    }
}

impl Ports {
    /// Opens what a program here has the other end of, and closes the rest.
    fn follow(
        &mut self,
        shared: &Shared,
        outside: &Outside,
        ends: Option<&ChannelEnds>,
        name: &str,
        counts: &Arc<Counts>,
    ) {
        if let Some(ends) = ends
            && ends.channel.kind != ChannelKind::PublishSubscribe
        {
            counts.say("it carries no messages: requests and events are not open");
            return;
        }
        let has = |receives: bool| {
            let mut ends = ends.iter().flat_map(|ends| &ends.ends);
            ends.any(|end| end.receives() == receives)
        };
        self.outgoing
            .take_if(|port| !has(false) || port.has_failed());
        self.incoming
            .take_if(|port| !has(true) || port.has_failed());
        let is_due = self.retry_at.is_none_or(|at| Instant::now() >= at);
        let (wants_out, wants_in) = (
            has(false) && self.outgoing.is_none(),
            has(true) && self.incoming.is_none(),
        );
        let Some(ends) = ends.filter(|_| is_due && (wants_out || wants_in)) else {
            return;
        };
        let channel = Arc::new(Channel {
            name: name.to_owned(),
            key: list::key_of(name),
            node: outside.node.clone(),
            session: outside.session.clone(),
            marker: shared.marker.clone(),
            carries: ends.channel.carries.clone(),
            counts: Arc::clone(counts),
        });
        self.retry_at = None;
        if wants_out {
            self.outgoing = self.begun(counts, Outgoing::start(&channel));
        }
        if wants_in {
            self.incoming = self.begun(counts, Incoming::start(&channel));
        }
    }

    fn begun<T>(&mut self, counts: &Counts, begun: Result<T, String>) -> Option<T> {
        match begun {
            Ok(port) => {
                counts.say("");
                Some(port)
            }
            Err(reason) => {
                self.retry_at = Some(Instant::now() + RETRY);
                counts.say(&reason);
                None
            }
        }
    }
}

/// A panic elsewhere leaves what is in there whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

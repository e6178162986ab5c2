//! The tunnels of this host: which there are, and the calls of others.
//!
//! The carrier dials here and takes calls from a queue. One subscriber takes the messages of all
//! tunnels; its callback runs on a thread of Zenoh's, and gives each message to its tunnel or
//! counts it as lost. Never waits there.

use std::collections::HashMap;
use std::io;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::mpsc::{Receiver, RecvTimeoutError, SyncSender, TrySendError, sync_channel};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError, Weak};
use std::time::{Duration, Instant};

use hythe_cluster::HostName;
use zenoh::pubsub::Subscriber;
use zenoh::sample::Sample;
use zenoh::{Session, Wait};

use super::message::Message;
use super::tunnel::{Tunnel, put};
use super::{SessionError, ZenohSession};

/// What the keys of all messages begin with.
const PREFIX: &str = "hythe/tunnel";
/// Tunnels at once; each buffers at most a window.
const TUNNELS_MAX: usize = 256;
/// Tunnels that wait for the thread that mends; one for which there is no place waits for its turn.
const MENDING_MAX: usize = 256;
/// Between two looks at all tunnels. What was sent before one, and not consumed at the next, is
/// announced.
const ANNOUNCE: Duration = Duration::from_millis(250);

/// Makes tunnels and takes those of others.
#[derive(Debug)]
pub(crate) struct Tunnels {
    session: Arc<ZenohSession>,
    table: Arc<Table>,
    declared: Mutex<Option<Declared>>,
    next: AtomicU64,
}

#[derive(Debug)]
struct Declared {
    generation: u64,
    _subscriber: Subscriber<()>,
}

/// The tunnels that there are, by host and number.
#[derive(Debug)]
struct Table {
    own: HostName,
    open: Mutex<HashMap<String, Weak<Tunnel>>>,
    calls: SyncSender<Arc<Tunnel>>,
    mending: SyncSender<Mending>,
}

/// What a callback leaves to a thread that may wait.
#[derive(Debug)]
enum Mending {
    Tunnel(Weak<Tunnel>),
    /// Somebody speaks of a tunnel that is none: host and number.
    Unknown(Session, String),
}

impl Tunnels {
    /// Takes calls into `calls`; those for which it has no free capacity are dropped.
    ///
    /// # Errors
    /// The session does not take the declaration.
    pub(crate) fn start(
        session: Arc<ZenohSession>,
        own: HostName,
        calls: SyncSender<Arc<Tunnel>>,
    ) -> Result<Self, SessionError> {
        let (mending, wanted) = sync_channel(MENDING_MAX);
        let table = Arc::new(Table {
            own,
            open: Mutex::default(),
            calls,
            mending,
        });
        let mended = Arc::downgrade(&table);
        std::thread::Builder::new()
            .name("hostd-mend".to_owned())
            .spawn(move || mend_all(&mended, &wanted))
            .map_err(|error| SessionError::Zenoh(error.to_string()))?;
        let tunnels = Self {
            session,
            table,
            declared: Mutex::new(None),
            next: AtomicU64::new(0),
        };
        tunnels.follow()?;
        Ok(tunnels)
    }

    /// Follows the session: another one has no subscriber.
    ///
    /// # Errors
    /// There is none at present.
    pub(crate) fn follow(&self) -> Result<Session, SessionError> {
        let (generation, session) = self.session.current()?;
        let mut declared = lock(&self.declared);
        let is_current = declared
            .as_ref()
            .is_some_and(|one| one.generation == generation);
        if !is_current {
            let (table, callback_session) = (Arc::clone(&self.table), session.clone());
            let subscriber = session
                .declare_subscriber(format!("{PREFIX}/{}/**", self.table.own))
                .callback(move |sample| table.take(&callback_session, &sample))
                .wait()
                .map_err(|error| SessionError::Zenoh(error.to_string()))?;
            *declared = Some(Declared {
                generation,
                _subscriber: subscriber,
            });
        }
        Ok(session)
    }

    /// A tunnel to a host. Whether anybody is there, what it answers shows.
    ///
    /// # Errors
    /// There is no session, or there are too many tunnels.
    pub(crate) fn dial(&self, host: &HostName) -> io::Result<Arc<Tunnel>> {
        let session = self.follow().map_err(io::Error::other)?;
        let number = self.next.fetch_add(1, Ordering::Relaxed);
        let number = format!("{}-{number}", session.zid());
        let tunnel = self.table.add(&session, host.as_str(), &number);
        let tunnel = tunnel.ok_or_else(|| {
            io::Error::other(format!("there are {TUNNELS_MAX} tunnels over Zenoh"))
        })?;
        tunnel.open()?;
        Ok(tunnel)
    }
}

impl Table {
    fn add(self: &Arc<Self>, session: &Session, host: &str, number: &str) -> Option<Arc<Tunnel>> {
        let name = format!("{host}/{number}");
        let key = self.key_of(host, number);
        let mut open = lock(&self.open);
        open.retain(|_, tunnel| tunnel.strong_count() > 0);
        if open.len() >= TUNNELS_MAX || open.contains_key(&name) {
            return None;
        }
        let tunnel = Arc::new(Tunnel::new(session.clone(), key));
        open.insert(name, Arc::downgrade(&tunnel));
        Some(tunnel)
    }

    /// Called on a thread of Zenoh's.
    fn take(self: &Arc<Self>, session: &Session, sample: &Sample) {
        let key = sample.key_expr().as_str();
        let name = self.name_in(key);
        let payload = sample.payload().to_bytes();
        let (Some(name), Some(message)) = (name, Message::decode(&payload)) else {
            return;
        };
        if message == Message::Open {
            self.call(session, name);
            return;
        }
        let tunnel = lock(&self.open).get(name).cloned();
        let mending = match tunnel.as_ref().and_then(Weak::upgrade) {
            Some(tunnel) => tunnel
                .take(message)
                .then(|| Mending::Tunnel(Arc::downgrade(&tunnel))),
            None => matches!(message, Message::Bytes(..))
                .then(|| Mending::Unknown(session.clone(), name.to_owned())),
        };
        if let Some(mending) = mending {
            // Where there is no place, it is looked at in its turn, or announced again.
            let _ = self.mending.try_send(mending);
        }
    }

    fn announce(&self) {
        let open: Vec<_> = lock(&self.open).values().cloned().collect();
        for tunnel in open.iter().filter_map(Weak::upgrade) {
            tunnel.announce();
        }
    }

    /// Host and number, of a key of this host's.
    fn name_in<'a>(&self, key: &'a str) -> Option<&'a str> {
        let rest = key.strip_prefix(PREFIX)?.strip_prefix('/')?;
        rest.strip_prefix(self.own.as_str())?.strip_prefix('/')
    }

    fn key_of(&self, host: &str, number: &str) -> String {
        format!("{PREFIX}/{host}/{}/{number}", self.own)
    }

    fn call(self: &Arc<Self>, session: &Session, name: &str) {
        let Some((host, number)) = name.split_once('/') else {
            return;
        };
        if host.parse::<HostName>().is_err() || number.contains('/') {
            return;
        }
        // Whoever calls tries again: a queue that is full is emptied within a handshake's time.
        if let Some(tunnel) = self.add(session, host, number)
            && let Err(TrySendError::Full(tunnel) | TrySendError::Disconnected(tunnel)) =
                self.calls.try_send(tunnel)
        {
            drop(tunnel);
        }
    }
}

/// Does for the tunnels what callbacks cannot, until there is no table any more.
fn mend_all(table: &Weak<Table>, wanted: &Receiver<Mending>) {
    let mut announce_at = Instant::now() + ANNOUNCE;
    loop {
        let left = announce_at.saturating_duration_since(Instant::now());
        let mending = wanted.recv_timeout(left);
        let Some(table) = table.upgrade() else {
            return;
        };
        match mending {
            Ok(Mending::Tunnel(tunnel)) => {
                if let Some(tunnel) = tunnel.upgrade() {
                    tunnel.mend();
                }
            }
            Ok(Mending::Unknown(session, name)) => {
                if let Some((host, number)) = name.split_once('/') {
                    // It is announced again.
                    let _ = put(&session, &table.key_of(host, number), Message::Close);
                }
            }
            Err(RecvTimeoutError::Disconnected) => return,
            Err(RecvTimeoutError::Timeout) => {}
        }
        if announce_at <= Instant::now() {
            table.announce();
            announce_at = Instant::now() + ANNOUNCE;
        }
    }
}

/// A panic elsewhere leaves a table that is whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The directory of hosts, on Zenoh's liveliness.
//!
//! Each agent declares a token with its name and its addresses, and sees those of all others, also
//! past routers. A token proves nothing: any host of the realm can declare any. It is where
//! somebody may be reached; who that is, the carrier's connection finds out, and a false token
//! costs at worst dials that fail, at a bounded number of addresses for each host. Where more are
//! declared than are kept, the others come in their turn (`sweep`). That a token ends is a hint,
//! too. Never dials a host itself.

#[cfg(test)]
mod hostile;
mod known;
mod listed;
mod sweep;
mod token;
mod tokens;

use std::net::SocketAddr;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hythe_cluster::{Directory, DirectoryEvent, DirectoryStatus, HostName};
use zenoh::liveliness::LivelinessToken;
use zenoh::pubsub::Subscriber;
use zenoh::sample::{Sample, SampleKind};
use zenoh::{Session, Wait};

use crate::zenoh_session::{SessionError, ZenohSession, addresses};
use known::Known;
use listed::Listed;
use sweep::Sweeper;

/// How often this host's addresses are looked at.
const CHECK_INTERVAL: Duration = Duration::from_secs(1);
/// How often the token is declared under a new key. One that is declared while two of Zenoh's
/// routers (1.10.2) meet may not get through: in 2 of 24 runs of the test with two routers the
/// hosts saw each other only after the next declaration.
const RENEW_INTERVAL: Duration = Duration::from_secs(30);
/// How soon after a host came or went, which is when routers may have met.
const RENEW_AFTER_CHANGE: Duration = Duration::from_secs(2);

/// The directory.
#[derive(Debug)]
pub struct ZenohDirectory {
    session: Arc<ZenohSession>,
    host: HostName,
    listener: SocketAddr,
    shared: Arc<Shared>,
    declared: Mutex<Declared>,
}

#[derive(Debug)]
struct Shared {
    state: Mutex<State>,
    changed: Condvar,
}

#[derive(Debug, Default)]
struct State {
    known: Known,
    listed: Listed,
    /// What the keys of this host's tokens begin with, and of those of this session.
    own_name: String,
    own_session: String,
    namesake: Option<String>,
}

/// What is declared, and when to look again.
#[derive(Debug)]
struct Declared {
    addresses: Vec<SocketAddr>,
    /// Those that the session found when it was opened.
    session_addresses: Vec<SocketAddr>,
    /// Dropping them undeclares them. `None`: declaring failed.
    handles: Option<Handles>,
    trouble: Option<String>,
    check_at: Instant,
    /// How many tokens this session has declared.
    serial: u64,
    renew_at: Instant,
    /// When tokens that were not seen again after the session was reopened are gone.
    expire_at: Option<Instant>,
    lease: Duration,
    sweeper: Sweeper,
}

#[derive(Debug)]
struct Handles {
    _token: LivelinessToken,
    _subscriber: Subscriber<()>,
}

impl ZenohDirectory {
    /// Declares that `host` is there, and can be reached where `listener` listens: an address, or
    /// all of this host's, followed as they change. `lease` is that of the session.
    ///
    /// # Errors
    /// The session does not take the declaration.
    pub fn declare(
        session: Arc<ZenohSession>,
        host: HostName,
        listener: SocketAddr,
        lease: Duration,
    ) -> Result<Self, SessionError> {
        let addresses = addresses::reachable(listener);
        let shared = Arc::new(Shared {
            state: Mutex::default(),
            changed: Condvar::new(),
        });
        let (_generation, zenoh) = session.current()?;
        let handles = Some(declare(&zenoh, &host, 0, &addresses, &shared)?);
        let now = Instant::now();
        let declared = Declared {
            session_addresses: addresses.clone(),
            addresses,
            handles,
            trouble: None,
            check_at: now + CHECK_INTERVAL,
            serial: 0,
            renew_at: now + RENEW_INTERVAL,
            expire_at: None,
            lease,
            sweeper: Sweeper::new(lease),
        };
        Ok(Self {
            session,
            host,
            listener,
            shared,
            declared: Mutex::new(declared),
        })
    }

    /// How it stands.
    #[must_use]
    pub fn status(&self) -> DirectoryStatus {
        let declared = lock(&self.declared);
        let state = lock(&self.shared.state);
        DirectoryStatus {
            addresses: declared.addresses.clone(),
            refused_tokens: state.known.refused(),
            refused_calls: tls_listener::refused(),
            trouble: declared.trouble.clone(),
            namesake: state.namesake.clone(),
        }
    }

    /// The hosts of the realm's list: false tokens of other names keep none of them out.
    pub fn set_listed(&self, listed: impl IntoIterator<Item = HostName>) {
        lock(&self.shared.state).known.set_listed(listed);
        self.shared.changed.notify_all();
    }

    /// Where a host of the realm's list should be, or why that is not known; `None`: it is in the
    /// list no more.
    pub fn list(&self, host: HostName, addresses: Option<Result<Vec<SocketAddr>, String>>) {
        lock(&self.shared.state).listed.set(host, addresses);
        self.shared.changed.notify_all();
    }

    /// Follows the addresses of this host. Says when to look next.
    fn follow_addresses(&self) -> Instant {
        let mut declared = lock(&self.declared);
        let now = Instant::now();
        if declared.expire_at.is_some_and(|at| at <= now) {
            declared.expire_at = None;
            lock(&self.shared.state).known.end_generation();
        }
        if now < declared.check_at {
            return declared.check_at;
        }
        if let Ok((_generation, zenoh)) = self.session.current() {
            declared.sweeper.sweep_if_due(&zenoh, &self.shared);
        }
        let addresses = addresses::reachable(self.listener);
        let is_due = declared.renew_at <= now || declared.handles.is_none();
        if is_due || addresses != declared.addresses {
            self.declare_again(&mut declared, addresses);
        }
        declared.check_at = Instant::now() + CHECK_INTERVAL;
        declared.check_at
    }

    /// A host that has just come may not have got this host's token.
    fn renew_soon(&self) {
        let mut declared = lock(&self.declared);
        let soon = Instant::now() + RENEW_AFTER_CHANGE;
        declared.renew_at = declared.renew_at.min(soon);
    }

    /// A session scouts and listens on the addresses that there were at its start, so for one that
    /// is new it starts again; not for one that is gone: it may come back, and to close a session
    /// whose links are dead takes ten seconds.
    fn declare_again(&self, declared: &mut Declared, addresses: Vec<SocketAddr>) {
        declared.serial += 1;
        declared.renew_at = Instant::now() + RENEW_INTERVAL;
        let serial = declared.serial;
        let is_known = |address| declared.session_addresses.contains(address);
        let result = match declared.handles.take() {
            Some(handles) if addresses.iter().all(is_known) => {
                self.redeclare(handles, serial, &addresses)
            }
            handles => {
                drop(handles);
                declared.session_addresses.clone_from(&addresses);
                declared.expire_at = Some(Instant::now() + declared.lease);
                self.start_again(serial, &addresses)
            }
        };
        declared.addresses = addresses;
        declared.trouble = result.as_ref().err().map(ToString::to_string);
        declared.handles = result.ok();
    }

    fn redeclare(
        &self,
        handles: Handles,
        serial: u64,
        addresses: &[SocketAddr],
    ) -> Result<Handles, SessionError> {
        let (_generation, zenoh) = self.session.current()?;
        // The old token goes once the new one is there.
        let token = declare_token(&zenoh, &self.host, serial, addresses)?;
        Ok(Handles {
            _token: token,
            ..handles
        })
    }

    fn start_again(&self, serial: u64, addresses: &[SocketAddr]) -> Result<Handles, SessionError> {
        lock(&self.shared.state).known.begin_generation();
        let (_generation, zenoh) = self.session.reopen()?;
        declare(&zenoh, &self.host, serial, addresses, &self.shared)
    }
}

impl Directory for ZenohDirectory {
    fn next(&self, timeout: Duration) -> Result<Option<DirectoryEvent>, String> {
        let deadline = Instant::now() + timeout;
        loop {
            let check_at = self.follow_addresses();
            let mut state = lock(&self.shared.state);
            if let Some(event) = state.listed.take() {
                return Ok(Some(event));
            }
            if let Some(event) = state.known.take() {
                drop(state);
                self.renew_soon();
                return Ok(Some(event));
            }
            let now = Instant::now();
            if now >= deadline {
                return Ok(None);
            }
            let wait = deadline.min(check_at).saturating_duration_since(now);
            drop(self.shared.changed.wait_timeout(state, wait));
        }
    }
}

impl State {
    /// Another session's token of this host's name comes or ends.
    fn note_namesake(&mut self, key: &str, is_there: bool) {
        if is_there {
            self.namesake = Some(key.to_owned());
        } else if self.namesake.as_deref() == Some(key) {
            self.namesake = None;
        }
    }
}

impl Shared {
    /// Called on a thread of Zenoh's.
    fn note(&self, sample: &Sample) {
        let key = sample.key_expr().as_str();
        let Some(token) = token::parse(key) else {
            return;
        };
        let is_there = sample.kind() == SampleKind::Put;
        let mut state = lock(&self.state);
        match () {
            () if key.starts_with(&state.own_session) => {}
            () if key.starts_with(&state.own_name) => state.note_namesake(key, is_there),
            () if is_there => state.known.add(&token),
            () => state.known.remove(&token),
        }
        self.changed.notify_all();
    }
}

fn declare(
    zenoh: &Session,
    host: &HostName,
    serial: u64,
    addresses: &[SocketAddr],
    shared: &Arc<Shared>,
) -> Result<Handles, SessionError> {
    {
        let mut state = lock(&shared.state);
        state.own_name = token::of_host(host);
        state.own_session = token::of_session(host, &session_id(zenoh));
        state.namesake = None;
    }
    let noted = Arc::clone(shared);
    let all = format!("{}/**", token::PREFIX);
    let subscriber = zenoh.liveliness().declare_subscriber(all).history(true);
    let subscriber = subscriber.callback(move |sample| noted.note(&sample));
    let subscriber = subscriber.wait().map_err(refused)?;
    let token = declare_token(zenoh, host, serial, addresses)?;
    Ok(Handles {
        _token: token,
        _subscriber: subscriber,
    })
}

fn declare_token(
    zenoh: &Session,
    host: &HostName,
    serial: u64,
    addresses: &[SocketAddr],
) -> Result<LivelinessToken, SessionError> {
    let key = token::key(host, &session_id(zenoh), serial, addresses);
    zenoh
        .liveliness()
        .declare_token(key)
        .wait()
        .map_err(refused)
}

fn session_id(zenoh: &Session) -> String {
    zenoh.zid().to_string()
}

fn refused(error: zenoh::Error) -> SessionError {
    SessionError::Zenoh(error.to_string())
}

fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

//! The Zenoh session of the agent: one for each agent, by which the directory finds hosts.
//!
//! It speaks nothing but mutual TLS with the realm's certificates. Zenoh reads no revocation list:
//! one that was revoked may be seen here, and no connection is made with it. Nothing that comes
//! through here counts as proof of a host's name. Its threads are Zenoh's own; callbacks run there
//! and never wait.

pub(crate) mod addresses;
mod config;
mod flow;
#[cfg(test)]
mod hostile;
mod message;
mod rank;
mod runtime;
mod tunnel;
mod tunnels;

use std::io;
use std::net::{SocketAddr, TcpListener};
use std::path::PathBuf;
use std::sync::mpsc::{Receiver, channel};
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hythe_cluster::HostName;
use zenoh::{Session, Wait};

pub(crate) use self::rank::dials;
pub use self::runtime::on_one_thread;
pub(crate) use self::tunnel::Tunnel;
pub(crate) use self::tunnels::Tunnels;

/// Zenoh gives up closing after this time.
const CLOSE_TIMEOUT: Duration = Duration::from_secs(10);

/// How long an agent that stops waits until the others know. Whom it does not reach in that time
/// finds out as of one that was switched off.
const FAREWELL_TIMEOUT: Duration = Duration::from_secs(2);

/// How the session is opened.
#[derive(Clone, Debug)]
pub struct Settings {
    /// Whose it is; says which of two hosts makes the connection between them.
    pub host: HostName,
    /// By which certificates it knows the realm.
    pub identity: Identity,
    /// Where it listens; an IPv4 address, as Zenoh cannot dial TLS by an IPv6 address.
    pub listen: SocketAddr,
    /// What it does for others.
    pub role: Role,
    /// Whether it finds the agents of its LAN by multicast.
    pub scouting: bool,
    /// Other agents or routers that it connects to, as `ADDRESS:PORT`.
    pub peers: Vec<String>,
    /// How long a silent peer counts as there.
    pub lease: Duration,
}

/// Files of the realm, PEM.
#[derive(Clone, Debug)]
pub struct Identity {
    /// The certificate of the realm's authority.
    pub authority: PathBuf,
    /// The certificate of this host.
    pub certificate: PathBuf,
    /// Its key.
    pub key: PathBuf,
}

/// What a session does for others.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Role {
    /// Speaks for itself.
    Peer,
    /// Besides forwards between its LAN and other routers.
    Router,
}

/// Why there is no session.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum SessionError {
    /// Nobody can listen there.
    #[error(
        "the directory of hosts cannot listen on {address}: {source}; end the program that does, \
         or choose another port"
    )]
    Listen {
        /// Where.
        address: SocketAddr,
        /// What the system said.
        source: io::Error,
    },
    /// Zenoh refused.
    #[error("the directory of hosts cannot start: {0}")]
    Zenoh(String),
    /// It was closed.
    #[error("the directory of hosts was closed")]
    Closed,
}

/// A session, and how to open it again.
#[derive(Debug)]
pub struct ZenohSession {
    settings: Settings,
    current: Mutex<Current>,
}

#[derive(Debug)]
struct Current {
    generation: u64,
    session: Option<Session>,
}

impl ZenohSession {
    /// Opens it. Takes up to half a second, while it looks for others.
    ///
    /// # Errors
    /// The port is taken, or the certificates cannot be used.
    pub fn open(settings: Settings) -> Result<Self, SessionError> {
        let session = open(&settings)?;
        let current = Mutex::new(Current {
            generation: 0,
            session: Some(session),
        });
        Ok(Self { settings, current })
    }

    /// The session, and a number that changes when there is another one: what was declared on an
    /// older one is void.
    ///
    /// # Errors
    /// There is none at present.
    pub fn current(&self) -> Result<(u64, Session), SessionError> {
        let current = self.lock();
        let session = current.session.clone().ok_or(SessionError::Closed)?;
        Ok((current.generation, session))
    }

    /// Closes the session and opens another, which listens and scouts on the addresses that this
    /// host has now.
    ///
    /// # Errors
    /// As [`open`](Self::open); it may be tried again.
    pub fn reopen(&self) -> Result<(u64, Session), SessionError> {
        let mut current = self.lock();
        if let Some(session) = current.session.take() {
            // It goes on by itself.
            drop(close_aside(session));
            self.until_port_free();
        }
        let session = open(&self.settings)?;
        current.generation += 1;
        current.session = Some(session.clone());
        Ok((current.generation, session))
    }

    /// Waits for as long as Zenoh may take to close; then `open` says what is wrong.
    fn until_port_free(&self) {
        let deadline = Instant::now() + CLOSE_TIMEOUT;
        while TcpListener::bind(self.settings.listen).is_err() && Instant::now() < deadline {
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    fn lock(&self) -> MutexGuard<'_, Current> {
        self.current.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl Drop for ZenohSession {
    fn drop(&mut self) {
        let session = self.lock().session.take();
        if let Some(session) = session {
            // Tells the others at once that this host is gone.
            close_within(session, FAREWELL_TIMEOUT);
        }
    }
}

/// Zenoh waits until each peer has taken its farewell, which one that is cut off never does.
fn close_aside(session: Session) -> Receiver<()> {
    let (closed, is_closed) = channel();
    std::thread::spawn(move || {
        // What it says is of no use: the session is gone in any case. Nobody may wait any more.
        let _ = session.close().wait();
        let _ = closed.send(());
    });
    is_closed
}

/// The same, and waits for it so long at most. What is not closed then ends with the process.
fn close_within(session: Session, timeout: Duration) {
    if close_aside(session).recv_timeout(timeout).is_err() {
        tracing::warn!(?timeout, "not every agent has taken this one's farewell");
    }
}

fn open(settings: &Settings) -> Result<Session, SessionError> {
    // Zenoh names neither the address nor the cause; between this and its own attempt another
    // program may take the port, and then its words must do.
    TcpListener::bind(settings.listen).map_err(|source| SessionError::Listen {
        address: settings.listen,
        source,
    })?;
    let config = config::config(settings).map_err(SessionError::Zenoh)?;
    zenoh::open(config)
        .wait()
        .map_err(|error| SessionError::Zenoh(error.to_string()))
}

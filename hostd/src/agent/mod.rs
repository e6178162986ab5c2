//! The agent: carrier, directory and engine put together, and the socket by which it is told.
//!
//! [`run`] is the program's main loop, [`start`] runs it in the background. One agent for each
//! hosts directory: a lock that the kernel gives back proves it. Never carries a message itself.

mod listed;
mod news;
mod rights;
mod start;
mod tcp_again;

use std::io::ErrorKind::{AddrInUse, ConnectionRefused, NotFound};
use std::net::{Ipv4Addr, SocketAddr};
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hythe_cluster::command::{Reply, Request, SOCKET_NAME, answer, ask};
use hythe_cluster::{Agent, AgentOptions, Calls, HostName, Status};
use hythe_node::{Pool, PoolOptions};
use hythe_sys::accept::Acceptor;
use hythe_sys::local_socket::{LocalListener, Peers};
use rustix::event::{PollFd, PollFlags};
use rustix::net::SocketType;

pub use self::rights::{RIGHTS_FILE, allow};
pub use self::start::start;
use crate::HostdError;
use crate::directory::ZenohDirectory;
use crate::hosts_directory::{DirectoryLock, HostsDirectory};
use crate::open_channels::{self, OPEN_ADDRESS, OpenAddresses, OpenChannels};
use crate::realm::{Identity, LiveRealm, RealmDocument, file};
use crate::tls::{self, TlsCarrier};
use crate::zenoh_session::{self, Role, Settings, ZenohSession};

/// Port of the discovery by Zenoh, unless it is told another: beside that of the carrier.
pub const DISCOVERY_PORT: u16 = crate::tls::DEFAULT_PORT + 1;
/// Commands that may wait to be answered.
const BACKLOG: i32 = 128;
/// Held by the agent of a hosts directory.
const LOCK: &str = "agent.lock";
/// How long a silent host counts as there, unless it is told otherwise.
const LEASE: Duration = Duration::from_secs(2);
/// How often the agent looks whether a signal asked it to stop.
const LOOK: Duration = Duration::from_millis(50);
/// Hosts that are dialled at once for something else than their channels.
const AT_ONCE: usize = 16;
/// Between the end of an agent's socket and that of its process.
const STOPPING: Duration = Duration::from_secs(1);
/// Until one that ends has given its ports back.
const ENDING: Duration = Duration::from_secs(5);
/// Between two readings of the hosts directory.
const RELOAD: Duration = Duration::from_secs(1);

/// How an agent is run.
#[derive(Clone, Debug, Default)]
pub struct RunOptions {
    /// Where connections are taken; `None`: at all addresses, at the default port.
    pub listen: Option<SocketAddr>,
    /// Where Zenoh listens; `None`: at all addresses, at [`DISCOVERY_PORT`].
    pub discovery: Option<SocketAddr>,
    /// Zenoh peers or routers beside the hosts of the realm, `HOST:PORT`.
    pub peers: Vec<String>,
    /// Find no agents by multicast.
    pub no_scouting: bool,
    /// Pass on what other LANs' routers know.
    pub router: bool,
    /// How long a silent host counts as there; `None`: 2 s.
    pub lease: Option<Duration>,
    /// The pool whose channels reach other hosts.
    pub pool: String,
    /// Interfaces whose links are trusted: processes send there in clear text.
    pub trusted: Vec<String>,
    /// Send no short messages there by `AF_XDP` frames.
    pub no_xdp: bool,
    /// Where programs outside the realm connect; `None`: [`OPEN_ADDRESS`].
    pub open_listen: Option<SocketAddr>,
    /// Their routers or peers that this host connects to, `HOST:PORT`.
    pub open_peers: Vec<String>,
}

/// Runs the agent until it is asked to stop; says `ready` with its address when it can be reached.
///
/// # Errors
/// There is one already; no realm; a port that is taken; a pool that cannot be opened.
pub fn run(
    directory: HostsDirectory,
    options: &RunOptions,
    ready: impl FnOnce(SocketAddr),
) -> Result<(), HostdError> {
    let stop = on_signals()?;
    raise_file_limit();
    let _lock = lock(&directory)?;
    let realm = Arc::new(LiveRealm::open(directory)?);
    wait_for_ports(options);
    let carrier = Arc::new(TlsCarrier::start(Arc::clone(&realm), options.listen)?);
    let address = carrier.address();
    let lease = options.lease.unwrap_or(LEASE);
    tls::judge_by(Arc::clone(&realm))?;
    let session = session(&realm, options)?;
    carrier.tunnel_over(Arc::clone(&session))?;
    let name = realm.identity().name().clone();
    let hosts = ZenohDirectory::declare(session, name, address, lease);
    let hosts = Arc::new(hosts.map_err(discovery_error)?);
    let identity = realm.identity();
    hosts.set_listed(identity.document().names());
    let pool = Pool::open_or_create(&PoolOptions::new(&options.pool));
    let pool = pool.map_err(|error| HostdError::Agent(error.to_string()))?;
    let open = open_channels(&realm, &pool, options)?;
    let engine = AgentOptions::new(identity.name().clone(), pool)
        .join(hythe_rtcore::join_host)
        .rights(rights::effective(realm.directory(), &identity)?)
        .lease(lease)
        .trusted(options.trusted.clone())
        .allows_frames(!options.no_xdp)
        .pool_name(&options.pool)
        .task_command(task_command());
    let agent = Agent::start(engine, carrier.clone(), hosts.clone());
    let agent = agent.map_err(|error| HostdError::Agent(error.to_string()))?;
    agent.set_host_numbers(identity.document().numbers());
    let listener = listen(realm.directory())?;
    let version = env!("CARGO_PKG_VERSION");
    tracing::info!(host = %identity.name(), %address, version, "the agent runs");
    ready(address);
    let served = Served {
        realm: &realm,
        carrier: &carrier,
        directory: &hosts,
        agent: &agent,
        open: &open,
        listener: &listener,
        stop: &stop,
    };
    std::thread::scope(|scope| {
        scope.spawn(|| listed::follow(&served));
        scope.spawn(|| news::spread(&served));
        scope.spawn(|| tcp_again::watch(&served));
        serve(&served);
        stop.store(true, Ordering::Relaxed);
    });
    // In the end: where there is no socket, there is no agent any more.
    drop(open);
    drop(agent);
    drop(carrier);
    // Zenoh takes its time to close.
    drop(hosts);
    realm.directory().remove(SOCKET_NAME)?;
    tracing::info!("the agent has stopped");
    Ok(())
}

/// Tells the agent of a hosts directory, if it runs, that something there has changed.
///
/// # Errors
/// It cannot go by what is there now.
pub fn tell(directory: &HostsDirectory) -> Result<(), HostdError> {
    let fail = |why: String| HostdError::Agent(format!("it is written, but the agent {why}"));
    match ask(&directory.path_of(SOCKET_NAME), &Request::Reload) {
        Ok(Reply::Failed { reason }) => Err(fail(format!("cannot go by it: {reason}"))),
        Ok(_) => Ok(()),
        // None runs.
        Err(error) if matches!(error.kind(), NotFound | ConnectionRefused) => Ok(()),
        Err(error) => Err(fail(format!("does not answer: {error}"))),
    }
}

/// Stops the agent of a hosts directory, if it runs, and waits until it has stopped.
///
/// # Errors
/// It goes on.
pub fn stop(directory: &HostsDirectory) -> Result<(), HostdError> {
    // Whether it runs shows in its lock.
    let asked = ask(&directory.path_of(SOCKET_NAME), &Request::Stop);
    let stopped = directory.lock(LOCK).map(drop);
    stopped.map_err(|error| match asked {
        Ok(_) => error,
        Err(asked) => HostdError::Agent(format!("the agent cannot be stopped: {asked}")),
    })
}

/// What requests are about.
struct Served<'a> {
    realm: &'a LiveRealm,
    carrier: &'a TlsCarrier,
    directory: &'a ZenohDirectory,
    agent: &'a Agent,
    open: &'a OpenChannels,
    listener: &'a LocalListener,
    stop: &'a AtomicBool,
}

/// Answers requests, and goes by what changes in the hosts directory, until it is to stop.
fn serve(served: &Served<'_>) {
    let (mut acceptor, mut reloaded) = (Acceptor::default(), Instant::now());
    let mut trouble = None;
    while !served.stop.load(Ordering::Relaxed) {
        if !served.realm.directory().is_in_place() {
            // Nobody could reach it any more, and it would keep its ports from another.
            let path = served.realm.directory().path().display();
            tracing::error!(%path, "the hosts directory is removed or replaced: the agent ends");
            return;
        }
        wait_for_request(served.listener, &acceptor);
        answer(&mut acceptor, served.listener, |request| {
            served.obey(&request)
        });
        if reloaded.elapsed() >= RELOAD {
            // What counted before goes on; a list that is being written is read the next time.
            let error = served.reload().err().map(|error| error.to_string());
            if let Some(error) = error.as_ref().filter(|_| error != trouble) {
                tracing::warn!(
                    error,
                    "what is written anew in the hosts directory does not count"
                );
            }
            trouble = error;
            reloaded = Instant::now();
        }
    }
}

/// Waits until somebody connects, for [`LOOK`] at most.
fn wait_for_request(listener: &LocalListener, acceptor: &Acceptor) {
    match acceptor.pause() {
        Some(pause) => hythe_sys::wait::sleep(pause.min(LOOK)),
        None => {
            let mut sockets = [PollFd::new(listener, PollFlags::IN)];
            // Refused, it has slept.
            let _ = hythe_sys::wait::poll_or_sleep(&mut sockets, LOOK);
        }
    }
}

impl Served<'_> {
    /// Does something with each of these hosts, and the addresses at which they were seen, that
    /// takes its time. False: it did not work with all.
    fn for_each(
        &self,
        wanted: &[HostName],
        act: impl Fn(&HostName, &[SocketAddr]) -> bool + Sync,
    ) -> bool {
        let hosts = self.agent.status().hosts.into_iter();
        let hosts = hosts.filter(|host| wanted.contains(&host.host));
        let hosts: Vec<(HostName, Vec<SocketAddr>)> = hosts
            .map(|host| {
                let addresses = host.addresses.iter();
                (host.host, addresses.flat_map(|one| one.parse()).collect())
            })
            .collect();
        let act = &act;
        let mut is_done = true;
        for some in hosts.chunks(AT_ONCE) {
            std::thread::scope(|scope| {
                let acting: Vec<_> = some
                    .iter()
                    .map(|(host, addresses)| {
                        let thread = std::thread::Builder::new();
                        // One thread too many for the system is no reason to end.
                        thread.spawn_scoped(scope, move || act(host, addresses))
                    })
                    .collect();
                for thread in acting {
                    is_done &= thread.is_ok_and(|thread| thread.join().unwrap_or(false));
                }
            });
        }
        is_done
    }

    fn obey(&self, request: &Request) -> Reply {
        match request {
            Request::Status => Reply::Status {
                status: Box::new(self.status()),
            },
            Request::Stop => {
                self.stop.store(true, Ordering::Relaxed);
                Reply::Done
            }
            Request::Reload => match self.reload() {
                Ok(()) => Reply::Done,
                Err(error) => Reply::Failed {
                    reason: error.to_string(),
                },
            },
            other => Reply::Failed {
                reason: format!("this agent does not know {other:?}"),
            },
        }
    }

    fn status(&self) -> Status {
        let counts = self.carrier.counts();
        Status {
            calls: Calls {
                accepted: counts.accepted,
                not_hythe: counts.not_hythe,
                not_trusted: counts.not_trusted,
                revoked: counts.revoked,
                other_version: counts.other_version,
                too_slow: counts.too_slow,
                crowded_out: counts.crowded_out,
            },
            directory: self.directory.status(),
            open: self.open.status(),
            ..self.agent.status()
        }
    }

    /// Goes by the hosts directory as it is now: who is revoked, who may do what.
    fn reload(&self) -> Result<(), HostdError> {
        self.realm.reload()?;
        self.apply()
    }

    /// Goes by the realm's list as it is now.
    fn apply(&self) -> Result<(), HostdError> {
        self.carrier.refresh()?;
        let identity = self.realm.identity();
        self.directory.set_listed(identity.document().names());
        let rights = rights::effective(self.realm.directory(), &identity)?;
        self.agent.set_rights(rights);
        self.agent.set_host_numbers(identity.document().numbers());
        self.open.set(&open_channels::read(self.realm.directory())?);
        Ok(())
    }
}

/// `hythe` beside this program, else as `PATH` leads to it.
fn task_command() -> PathBuf {
    let own = std::env::current_exe().ok();
    let beside = own.and_then(|own| Some(own.parent()?.join("hythe")));
    let beside = beside.filter(|path| path.is_file());
    beside.unwrap_or_else(|| PathBuf::from("hythe"))
}

/// As many open files as the system permits: each channel with each host has a connection, and the
/// usual soft limit of 1,024 is less than 240 hosts need.
fn raise_file_limit() {
    use rustix::process::{Resource, Rlimit, getrlimit, setrlimit};
    let limit = getrlimit(Resource::Nofile);
    let raised = Rlimit {
        current: limit.maximum,
        ..limit
    };
    if let Err(error) = setrlimit(Resource::Nofile, raised) {
        tracing::warn!(%error, "the limit of open files stays as it is");
    }
}

/// Asked to stop by a signal.
fn on_signals() -> Result<Arc<AtomicBool>, HostdError> {
    use signal_hook::consts::{SIGINT, SIGTERM};
    let stop = Arc::new(AtomicBool::new(false));
    for signal in [SIGINT, SIGTERM] {
        let registered = signal_hook::flag::register(signal, Arc::clone(&stop));
        registered.map_err(|error| HostdError::Agent(format!("signal {signal}: {error}")))?;
    }
    Ok(stop)
}

/// Held by the one agent of a directory. One that has just stopped may have it for a moment still.
fn lock(directory: &HostsDirectory) -> Result<DirectoryLock, HostdError> {
    let since = Instant::now();
    loop {
        if let Some(lock) = directory.try_lock(LOCK)? {
            return Ok(lock);
        }
        if since.elapsed() >= STOPPING {
            break;
        }
        std::thread::sleep(STOPPING / 50);
    }
    Err(HostdError::Agent(format!(
        "an agent of {} runs already: `hythe host status` shows it, `hythe host stop` ends it",
        hythe_terminal::escaped(directory.path())
    )))
}

/// An agent whose hosts directory was removed has its ports for a moment still. If another program
/// has one, the agent finds out when it listens there.
fn wait_for_ports(options: &RunOptions) {
    let at_all = |port| SocketAddr::from((Ipv4Addr::UNSPECIFIED, port));
    let carrier = options.listen.unwrap_or(at_all(crate::tls::DEFAULT_PORT));
    let discovery = options.discovery.unwrap_or(at_all(DISCOVERY_PORT));
    let is_in_use = |address: SocketAddr| {
        let bound = std::net::TcpListener::bind(address);
        bound.is_err_and(|error| error.kind() == AddrInUse)
    };
    let since = Instant::now();
    while [carrier, discovery].into_iter().any(is_in_use) && since.elapsed() < ENDING {
        std::thread::sleep(LOOK);
    }
}

/// By which this host finds the others, those of the realm's list where they are said to be and
/// others by multicast and through routers; tunnels go there, too.
fn session(realm: &LiveRealm, options: &RunOptions) -> Result<Arc<ZenohSession>, HostdError> {
    let identity = realm.identity();
    let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, DISCOVERY_PORT));
    let known = discovery_peers(identity.document(), &identity);
    let path = |name| realm.directory().path_of(name);
    let lease = options.lease.unwrap_or(LEASE);
    let settings = Settings {
        host: identity.name().clone(),
        identity: zenoh_session::Identity {
            authority: path(file::AUTHORITY_CERTIFICATE),
            certificate: path(file::CERTIFICATE),
            key: path(file::KEY),
        },
        listen: options.discovery.unwrap_or(everywhere),
        role: match options.router {
            true => Role::Router,
            false => Role::Peer,
        },
        scouting: !options.no_scouting,
        peers: known.chain(options.peers.iter().cloned()).collect(),
        lease,
    };
    let session = ZenohSession::open(settings).map_err(discovery_error)?;
    Ok(Arc::new(session))
}

/// What is open to programs outside the realm.
fn open_channels(
    realm: &LiveRealm,
    pool: &Pool,
    options: &RunOptions,
) -> Result<OpenChannels, HostdError> {
    let addresses = OpenAddresses {
        listen: options.open_listen.unwrap_or(OPEN_ADDRESS),
        peers: options.open_peers.clone(),
    };
    let open = OpenChannels::start(pool.clone(), realm.identity().realm(), addresses);
    let open = open.map_err(|error| HostdError::Agent(format!("a thread: {error}")))?;
    open.set(&open_channels::read(realm.directory())?);
    Ok(open)
}

fn discovery_error(error: zenoh_session::SessionError) -> HostdError {
    HostdError::Agent(error.to_string())
}

/// Where Zenoh of the other hosts listens, as far as the realm's list says where they are.
fn discovery_peers<'a>(
    document: &'a RealmDocument,
    own: &'a Identity,
) -> impl Iterator<Item = String> + 'a {
    let others = document.hosts.iter();
    let others = others.filter(|host| zenoh_session::dials(own.name(), &host.name));
    others.flat_map(|host| &host.addresses).map(|address| {
        let host = address
            .rsplit_once(':')
            .map_or(&**address, |(host, _)| host);
        format!("{host}:{DISCOVERY_PORT}")
    })
}

/// The socket for requests. Whoever was there has gone: this agent has the lock.
fn listen(directory: &HostsDirectory) -> Result<LocalListener, HostdError> {
    directory.remove(SOCKET_NAME)?;
    let path = directory.path_of(SOCKET_NAME);
    // Whoever may connect stops it, and reads what is in the private directory.
    let peers = Peers::User(hythe_sys::identity::effective_user());
    let bound = LocalListener::bind(&path, SocketType::STREAM, BACKLOG, peers);
    bound.map_err(|source| HostdError::File { path, source })
}

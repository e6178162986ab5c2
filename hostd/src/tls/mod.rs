//! The carrier `tls`: mutual TLS 1.3 over TCP; where there is no TCP way the same as `zenoh`, over
//! linked Zenoh routers.
//!
//! Implements `Carrier` of `crates/cluster`. Each connection has two halves for two threads; both
//! names are proven before either is used, and a host whose certificate is revoked loses the
//! connections that it has. Kernel TLS is not used: [`kernel_tls`] says why. Never decides what a
//! host may do: that is judged by its name, elsewhere.

mod acceptor;
mod config;
mod counts;
mod dial;
mod discovery_callers;
mod greeting;
mod halves;
mod handshake;
#[cfg(test)]
mod hostile;
pub mod kernel_tls;
mod race;
mod record;
mod socket;
#[cfg(test)]
mod tests;
mod tunnelled;

use std::collections::BTreeMap;
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::sync::atomic::AtomicUsize;
use std::sync::mpsc::sync_channel;
use std::sync::{Arc, Mutex, MutexGuard, OnceLock, PoisonError, Weak};
use std::time::Duration;

use hythe_cluster::{
    AuthenticationFailure, Carrier, CarrierError, Connection, ConnectionAbout, ConnectionPath,
    HostName,
};
use rustls::pki_types::CertificateDer;

use self::acceptor::Acceptor;
use self::config::Configs;
pub use self::counts::CarrierCounts;
pub(crate) use self::discovery_callers::judge_by;
use self::socket::Socket;
use crate::error::HostdError;
use crate::realm::LiveRealm;
use crate::zenoh_session::{Tunnels, ZenohSession};

/// The port on which an agent listens, unless it is told another: IANA lists none for it.
pub const DEFAULT_PORT: u16 = 7450;

/// Calls over Zenoh that wait until they are answered.
const CALLS_WAITING_MAX: usize = 16;

/// Makes and takes connections of TLS 1.3.
#[derive(Debug)]
pub struct TlsCarrier {
    inner: Arc<Inner>,
    acceptor: Acceptor,
}

#[derive(Debug)]
struct Inner {
    realm: Arc<LiveRealm>,
    counts: counts::Counts,
    /// Those of the document with this number.
    configs: Mutex<Option<(u64, Configs)>>,
    /// How often none of a host's addresses led to it.
    failed_dials: AtomicUsize,
    /// Connections that are established.
    live: Mutex<Vec<Live>>,
    /// Where no TCP connection is possible.
    tunnels: OnceLock<tunnelled::Tunnelled>,
}

#[derive(Debug)]
struct Live {
    peer: HostName,
    certificate: CertificateDer<'static>,
    socket: Weak<Socket>,
    /// The other side has a list of the realm with this number, or a newer one.
    told: u64,
    /// This side made the connection.
    is_dialled: bool,
}

impl TlsCarrier {
    /// Listens at `listen`, or on all addresses at [`DEFAULT_PORT`].
    ///
    /// # Errors
    /// [`HostdError::Agent`] if the address is taken, or not this host's.
    pub fn start(realm: Arc<LiveRealm>, listen: Option<SocketAddr>) -> Result<Self, HostdError> {
        let listener = bind(listen)?;
        let inner = Arc::new(Inner {
            realm,
            counts: counts::Counts::default(),
            configs: Mutex::new(None),
            failed_dials: AtomicUsize::new(0),
            live: Mutex::new(Vec::new()),
            tunnels: OnceLock::new(),
        });
        inner.configs()?;
        let acceptor = Acceptor::start(listener, inner.clone())
            .map_err(|error| HostdError::Agent(format!("cannot listen: {error}")))?;
        Ok(Self { inner, acceptor })
    }

    /// From now on also dials and is called over Zenoh, where there is no TCP way.
    ///
    /// # Errors
    /// [`HostdError::Agent`] if the session does not take it.
    pub fn tunnel_over(&self, session: Arc<ZenohSession>) -> Result<(), HostdError> {
        let fail = |error: String| HostdError::Agent(format!("no tunnels over Zenoh: {error}"));
        let (sender, calls) = sync_channel(CALLS_WAITING_MAX);
        let own = self.inner.realm.identity().name().clone();
        let tunnels =
            Tunnels::start(session, own, sender).map_err(|error| fail(error.to_string()))?;
        let taken = self.acceptor.take_calls(calls);
        taken.map_err(|error| fail(error.to_string()))?;
        // A second call changes nothing.
        let _ = self.inner.tunnels.set(tunnelled::Tunnelled::new(tunnels));
        Ok(())
    }

    /// Where it listens.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.acceptor.address()
    }

    /// What came of the calls of others.
    #[must_use]
    pub fn counts(&self) -> CarrierCounts {
        self.inner.counts.values()
    }

    /// Goes by the newest document of the realm: closes the connections of hosts that it revokes.
    ///
    /// # Errors
    /// The document is damaged.
    pub fn refresh(&self) -> Result<(), HostdError> {
        self.inner.configs().map(|_| ())
    }

    /// The hosts with which there are connections.
    #[must_use]
    pub fn peers(&self) -> Vec<HostName> {
        let live = lock(&self.inner.live);
        let open = live.iter().filter(|one| one.socket.strong_count() > 0);
        let mut peers: Vec<HostName> = open.map(|one| one.peer.clone()).collect();
        peers.sort();
        peers.dedup();
        peers
    }

    /// The hosts with which there are connections, and that may have an older list of the realm
    /// than this one.
    #[must_use]
    pub fn untold(&self) -> Vec<HostName> {
        let newest = self.inner.realm.identity().document().number;
        let live = lock(&self.inner.live);
        let open = live.iter().filter(|one| one.socket.strong_count() > 0);
        let mut told: BTreeMap<&HostName, u64> = BTreeMap::new();
        for one in open {
            let known = told.entry(&one.peer).or_default();
            *known = one.told.max(*known);
        }
        let untold = told.into_iter().filter(|(_, told)| *told < newest);
        untold.map(|(peer, _)| peer.clone()).collect()
    }

    /// Gives a host the newest list, or takes it from there: by a connection for nothing else.
    ///
    /// # Errors
    /// As [`Carrier::connect`].
    pub fn tell(
        &self,
        host: &HostName,
        addresses: &[SocketAddr],
        timeout: Duration,
    ) -> Result<(), CarrierError> {
        let number = self.inner.realm.identity().document().number;
        drop(self.inner.dial_either(host, addresses, timeout)?);
        let mut live = lock(&self.inner.live);
        for one in live.iter_mut().filter(|one| one.peer == *host) {
            one.told = one.told.max(number);
        }
        Ok(())
    }

    /// The hosts to which this one has made connections over Zenoh.
    #[must_use]
    pub fn tunnelled(&self) -> Vec<HostName> {
        let live = lock(&self.inner.live);
        let tunnels = live.iter().filter(|one| one.is_dialled_tunnel());
        let mut hosts: Vec<HostName> = tunnels.map(|one| one.peer.clone()).collect();
        hosts.sort();
        hosts.dedup();
        hosts
    }

    /// Whether a host that was reached over Zenoh can be reached by TCP by now. If so, it is
    /// dialled by TCP from now on.
    pub fn try_tcp(&self, host: &HostName, addresses: &[SocketAddr], timeout: Duration) -> bool {
        self.inner.try_tcp(host, addresses, timeout)
    }

    /// Ends the connections that this host made to another over Zenoh: they are made anew.
    pub fn leave_tunnels(&self, host: &HostName) {
        let live = lock(&self.inner.live);
        let tunnels = live.iter().filter(|one| one.is_dialled_tunnel());
        for one in tunnels.filter(|one| one.peer == *host) {
            if let Some(socket) = one.socket.upgrade() {
                socket.close();
            }
        }
    }
}

impl Live {
    fn is_dialled_tunnel(&self) -> bool {
        let socket = self.socket.upgrade();
        self.is_dialled
            && socket.is_some_and(|socket| socket.peer().is_none() && !socket.is_closed())
    }
}

impl Carrier for TlsCarrier {
    fn name(&self) -> &'static str {
        "tls"
    }

    fn connect(
        &self,
        host: &HostName,
        addresses: &[SocketAddr],
        timeout: Duration,
    ) -> Result<Connection, CarrierError> {
        self.inner.dial_either(host, addresses, timeout)
    }

    fn accept(&self, timeout: Duration) -> Result<Option<Connection>, CarrierError> {
        if let Some(tunnels) = self.inner.tunnels.get() {
            tunnels.maintain();
        }
        Ok(self.acceptor.accept(timeout))
    }

    fn knows(&self, host: &HostName) -> bool {
        self.inner.realm.identity().document().host(host).is_some()
    }

    fn interface_of(&self, address: IpAddr) -> Option<String> {
        let mut interfaces = pnet_datalink::interfaces().into_iter();
        let found =
            interfaces.find(|interface| interface.ips.iter().any(|one| one.ip() == address));
        found.map(|interface| interface.name)
    }
}

impl Inner {
    /// The configurations of the newest document.
    fn configs(&self) -> Result<Configs, HostdError> {
        let mut kept = lock(&self.configs);
        let identity = self.realm.identity();
        let number = identity.document().number;
        if let Some((of, configs)) = &*kept
            && *of == number
        {
            return Ok(configs.clone());
        }
        let configs = Configs::new(&identity)?;
        *kept = Some((number, configs.clone()));
        drop(kept);
        self.close_revoked();
        Ok(configs)
    }

    /// Keeps an eye on a connection that was just made.
    fn register(&self, new: Live) -> Result<(), AuthenticationFailure> {
        let certificate = new.certificate.clone();
        let mut live = lock(&self.live);
        live.retain(|one| one.socket.strong_count() > 0);
        live.push(new);
        drop(live);
        // It may have been revoked since it was verified, before it was in the list.
        let identity = self.realm.identity();
        match identity.document().has_revoked(&certificate) {
            Ok(false) => Ok(()),
            Ok(true) | Err(_) => Err(AuthenticationFailure::Revoked {
                realm: identity.realm().to_owned(),
            }),
        }
    }

    fn close_revoked(&self) {
        let identity = self.realm.identity();
        for one in &*lock(&self.live) {
            let is_revoked = identity.document().has_revoked(&one.certificate);
            if is_revoked.unwrap_or(true)
                && let Some(socket) = one.socket.upgrade()
            {
                socket.close();
            }
        }
    }
}

/// What a status says of a connection. Each byte is sealed into a record and copied into the
/// socket, and the same way back: opened in place, it is copied where it is wanted by others.
fn about(socket: &Socket, certificate: &CertificateDer<'_>, why: &str) -> ConnectionAbout {
    let identity = fingerprint(certificate);
    match socket.peer() {
        Some(peer) => ConnectionAbout {
            carrier: "tls".to_owned(),
            why_not_better: format!("kernel TLS: {}", kernel_tls::why_not()),
            identity,
            address: canonical(peer).to_string(),
            copies_sending: 2,
            copies_receiving: 1,
        },
        None => ConnectionAbout {
            carrier: "zenoh".to_owned(),
            why_not_better: format!("tls: {why}"),
            identity,
            address: "over Zenoh".to_owned(),
            // Into a message and a batch, and out of both into a buffer, besides.
            copies_sending: 4,
            copies_receiving: 4,
        },
    }
}

/// Where its ends are; over Zenoh nobody knows.
fn path(socket: &Socket) -> Option<ConnectionPath> {
    Some(ConnectionPath {
        local: canonical(socket.local()?).ip(),
        peer: canonical(socket.peer()?).ip(),
    })
}

/// An IPv4 address as such, also where a socket of IPv6 took the connection.
const fn canonical(address: SocketAddr) -> SocketAddr {
    SocketAddr::new(address.ip().to_canonical(), address.port())
}

/// SHA-256 of the certificate, as other tools show it.
fn fingerprint(certificate: &CertificateDer<'_>) -> String {
    let suite = rustls::crypto::ring::cipher_suite::TLS13_AES_128_GCM_SHA256;
    let hash = suite
        .tls13()
        .map(|suite| suite.common.hash_provider.hash(certificate));
    let bytes = hash.iter().flat_map(|hash| hash.as_ref().iter());
    let pairs: Vec<String> = bytes.map(|byte| format!("{byte:02X}")).collect();
    format!("SHA256 {}", pairs.join(":"))
}

fn bind(listen: Option<SocketAddr>) -> Result<TcpListener, HostdError> {
    let fail = |address: SocketAddr, error: std::io::Error| {
        let port = address.port();
        HostdError::Agent(match error.kind() {
            std::io::ErrorKind::AddrInUse => format!(
                "port {port} of address {} is taken by another program (`ss -ltnp 'sport = \
                 :{port}'` shows which): stop that one, or choose another (`hythe host start \
                 --listen ADDRESS:PORT`)",
                address.ip()
            ),
            std::io::ErrorKind::AddrNotAvailable => format!(
                "{} is no address of this host (`ip address` shows them): choose another (`hythe \
                 host start --listen ADDRESS:PORT`)",
                address.ip()
            ),
            _ => format!("cannot listen at {address}: {error}"),
        })
    };
    if let Some(address) = listen {
        return TcpListener::bind(address).map_err(|error| fail(address, error));
    }
    let everywhere = SocketAddr::from((Ipv6Addr::UNSPECIFIED, DEFAULT_PORT));
    TcpListener::bind(everywhere).or_else(|error| match error.kind() {
        std::io::ErrorKind::AddrInUse => Err(fail(everywhere, error)),
        // A host without IPv6.
        _ => {
            let everywhere = SocketAddr::from((Ipv4Addr::UNSPECIFIED, DEFAULT_PORT));
            TcpListener::bind(everywhere).map_err(|error| fail(everywhere, error))
        }
    })
}

/// A panic elsewhere leaves lists that are whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

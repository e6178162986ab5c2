//! Accepts TLS connections, with a bounded number of handshakes under way.
//!
//! Zenoh calls it for each of its listeners, in place of the crate of this name. Until its
//! handshake has proved a certificate of the realm, a connection is a stranger's: where there are
//! [`HANDSHAKES_MAX`], the oldest of the address that has most of them makes way for a new one, so
//! strangers crowd each other out. One that fails or takes too long is closed and counted, and
//! nothing waits for that. Zenoh reads no revocation list: callers are judged by the verifier of
//! [`set_verifier`], if there is one. Where the system has no descriptor left, nothing is accepted
//! for [`PAUSE`], and Zenoh, which logs it, learns of it once in [`BETWEEN_REPORTS`]. Never logs
//! what a stranger did, and keeps nothing about one that is gone.

use std::future::{Future as _, poll_fn};
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::pin::Pin;
use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex, PoisonError};
use std::task::{Context, Poll};
use std::time::{Duration, Instant};

use tokio::net::{TcpListener, TcpStream};
use tokio::time::{Sleep, Timeout, sleep, timeout};
use tokio_rustls::rustls::ServerConfig;
use tokio_rustls::rustls::server::NoServerSessionStorage;
use tokio_rustls::rustls::server::danger::ClientCertVerifier;
use tokio_rustls::rustls::version::TLS13;
use tokio_rustls::server::TlsStream;
use tokio_rustls::{Accept, TlsAcceptor};

/// Connections of one listener that have not proved who they are.
pub const HANDSHAKES_MAX: usize = 32;

/// For how long a handshake may take unless Zenoh says otherwise.
const HANDSHAKE_TIMEOUT: Duration = Duration::from_secs(5);

/// For how long nothing is accepted where the system has no descriptor left.
pub const PAUSE: Duration = Duration::from_millis(100);

/// Between two errors that a caller of [`TlsListener::accept`] gets.
pub const BETWEEN_REPORTS: Duration = Duration::from_secs(60);

static REFUSED: AtomicU64 = AtomicU64::new(0);
static VERIFIER: Mutex<Option<Arc<dyn ClientCertVerifier>>> = Mutex::new(None);

/// From now on listeners of this process that are made ask this one about callers, in place of the
/// verifier that their acceptor has. No session is resumed then: each caller is judged.
pub fn set_verifier(verifier: Arc<dyn ClientCertVerifier>) {
    *VERIFIER.lock().unwrap_or_else(PoisonError::into_inner) = Some(verifier);
}

/// An acceptor with the certificate of another one, and the verifier of this process.
fn with_verifier(acceptor: TlsAcceptor) -> TlsAcceptor {
    let verifier = VERIFIER.lock().unwrap_or_else(PoisonError::into_inner);
    let Some(verifier) = verifier.clone() else {
        return acceptor;
    };
    let before = acceptor.config();
    let config = ServerConfig::builder_with_provider(before.crypto_provider().clone());
    // A provider without TLS 1.3 could not have made the certificate's acceptor.
    let Ok(config) = config.with_protocol_versions(&[&TLS13]) else {
        return acceptor;
    };
    let config = config.with_client_cert_verifier(verifier);
    let mut config = config.with_cert_resolver(before.cert_resolver.clone());
    config.alpn_protocols.clone_from(&before.alpn_protocols);
    config.session_storage = Arc::new(NoServerSessionStorage {});
    config.send_tls13_tickets = 0;
    TlsAcceptor::from(Arc::new(config))
}

/// Connections to the listeners of this process that proved nothing: they failed, were too slow, or
/// gave way to newer ones.
#[must_use]
pub fn refused() -> u64 {
    REFUSED.load(Ordering::Relaxed)
}

/// Begins a listener whose connections are proved by this acceptor.
#[must_use]
pub fn builder(acceptor: TlsAcceptor) -> Builder {
    Builder {
        acceptor: with_verifier(acceptor),
        handshake_timeout: HANDSHAKE_TIMEOUT,
    }
}

/// What a listener is made of.
pub struct Builder {
    acceptor: TlsAcceptor,
    handshake_timeout: Duration,
}

impl Builder {
    /// For how long a handshake may take.
    pub const fn handshake_timeout(&mut self, timeout: Duration) -> &mut Self {
        self.handshake_timeout = timeout;
        self
    }

    /// Accepts what comes to this listener.
    #[must_use]
    pub fn listen(&self, listener: TcpListener) -> TlsListener {
        TlsListener {
            listener,
            acceptor: self.acceptor.clone(),
            handshake_timeout: self.handshake_timeout,
            handshakes: Vec::with_capacity(HANDSHAKES_MAX),
            pause: None,
            reported: None,
        }
    }
}

/// Listens; handshakes advance while [`accept`](Self::accept) is awaited.
pub struct TlsListener {
    listener: TcpListener,
    acceptor: TlsAcceptor,
    handshake_timeout: Duration,
    /// Oldest first.
    handshakes: Vec<Handshake>,
    /// Nothing is accepted before its end.
    pause: Option<Pin<Box<Sleep>>>,
    /// When an error was returned last.
    reported: Option<Instant>,
}

struct Handshake {
    from: SocketAddr,
    result: Pin<Box<Timeout<Accept<TcpStream>>>>,
}

impl TlsListener {
    /// The next connection that has proved who it is. What is under way goes on if this is
    /// cancelled and called again.
    ///
    /// # Errors
    /// The system gives no connection: there are no descriptors left. To be called again.
    pub async fn accept(&mut self) -> io::Result<(TlsStream<TcpStream>, SocketAddr)> {
        poll_fn(|context| self.poll_accept(context)).await
    }

    /// Takes at most as many new ones at a time as tokio lets a task do without a pause.
    fn poll_accept(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(TlsStream<TcpStream>, SocketAddr)>> {
        loop {
            let (is_more, error) = match self.poll_listener(context) {
                Poll::Ready(Ok((stream, from))) => {
                    self.begin(stream, from);
                    (true, None)
                }
                Poll::Ready(Err(error)) => (false, Some(error)),
                Poll::Pending => (false, None),
            };
            if let Some(proved) = self.advance(context) {
                return Poll::Ready(Ok(proved));
            }
            match error {
                Some(error) => return Poll::Ready(Err(error)),
                None if is_more => {}
                None => return Poll::Pending,
            }
        }
    }

    /// The next connection; none during a pause. Errors are returned now and then.
    fn poll_listener(
        &mut self,
        context: &mut Context<'_>,
    ) -> Poll<io::Result<(TcpStream, SocketAddr)>> {
        loop {
            if let Some(pause) = &mut self.pause {
                if pause.as_mut().poll(context).is_pending() {
                    return Poll::Pending;
                }
                self.pause = None;
            }
            let error = match self.listener.poll_accept(context) {
                Poll::Ready(Err(error)) => error,
                taken => return taken,
            };
            self.pause = Some(Box::pin(sleep(PAUSE)));
            let is_new = |reported: Instant| reported.elapsed() >= BETWEEN_REPORTS;
            if self.reported.is_none_or(is_new) {
                self.reported = Some(Instant::now());
                return Poll::Ready(Err(error));
            }
        }
    }

    fn begin(&mut self, stream: TcpStream, from: SocketAddr) {
        if self.handshakes.len() >= HANDSHAKES_MAX {
            let addresses: Vec<IpAddr> = self.handshakes.iter().map(|one| one.from.ip()).collect();
            if let Some(victim) = most_crowded(&addresses) {
                self.handshakes.remove(victim);
                REFUSED.fetch_add(1, Ordering::Relaxed);
            }
        }
        let accept = self.acceptor.accept(stream);
        self.handshakes.push(Handshake {
            from,
            result: Box::pin(timeout(self.handshake_timeout, accept)),
        });
    }

    /// Lets all go on, until one has proved who it is. Those that fail are closed.
    fn advance(&mut self, context: &mut Context<'_>) -> Option<(TlsStream<TcpStream>, SocketAddr)> {
        let mut proved = None;
        self.handshakes.retain_mut(|handshake| {
            if proved.is_some() {
                return true;
            }
            match handshake.result.as_mut().poll(context) {
                Poll::Pending => return true,
                Poll::Ready(Ok(Ok(stream))) => proved = Some((stream, handshake.from)),
                Poll::Ready(_) => drop(REFUSED.fetch_add(1, Ordering::Relaxed)),
            }
            false
        });
        proved
    }
}

/// The oldest of the address that has most of them.
fn most_crowded(addresses: &[IpAddr]) -> Option<usize> {
    let of_same = |one: &IpAddr| addresses.iter().filter(|other| *other == one).count();
    let most = addresses.iter().map(of_same).max()?;
    addresses.iter().position(|one| of_same(one) == most)
}

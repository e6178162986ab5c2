//! Takes the calls of other hosts: a bounded number at once, each within a time.
//!
//! A thread accepts; each call is answered by a thread of its own, of which there are few. Where
//! all are busy, the oldest call of the address that has most of them is ended: strangers who say
//! nothing crowd each other out, and a host calls again. Nothing more is accepted while the threads
//! of too many ended calls have not noticed. Connections wait in a short queue for
//! [`Acceptor::accept`]. Strangers get no more bytes than they sent, and never more than an alert
//! that nothing is known about them. Never logs what a stranger did: it is counted.

use std::collections::VecDeque;
use std::io;
use std::net::{IpAddr, Ipv4Addr, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::sync::mpsc::Receiver;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hythe_cluster::Connection;
use hythe_sys::accept::{self, Accepted};
use rustix::event::{PollFd, PollFlags, poll};

use super::counts::count;
use super::greeting::{GreetingError, Halves, welcome};
use super::halves::{TlsReceiver, TlsSender};
use super::handshake::{self, HandshakeError};
use super::socket::Socket;
use super::{Inner, Live, about, path};
use crate::realm::common_name;
use crate::zenoh_session::Tunnel;

/// Calls that are answered at once.
const CALLS_MAX: usize = 16;

/// Threads that answer: those of [`CALLS_MAX`], and as many of calls that were ended for newer
/// ones.
const THREADS_MAX: usize = 2 * CALLS_MAX;

/// Connections that wait to be taken.
const WAITING_MAX: usize = 64;

/// For how long a call may take until both sides have said who they are.
const CALL_TIMEOUT: Duration = Duration::from_secs(5);

/// Listens and answers.
#[derive(Debug)]
pub(super) struct Acceptor {
    address: SocketAddr,
    listener: Arc<TcpListener>,
    shared: Arc<Shared>,
    thread: Option<JoinHandle<()>>,
}

#[derive(Debug)]
struct Shared {
    inner: Arc<Inner>,
    is_over: AtomicBool,
    next_call: AtomicU64,
    answering: Mutex<Answering>,
    thread_ended: Condvar,
    waiting: Mutex<VecDeque<Connection>>,
    arrived: Condvar,
}

#[derive(Debug, Default)]
struct Answering {
    /// Oldest first.
    calls: Vec<Call>,
    /// Also of calls that were ended for newer ones.
    threads: usize,
}

/// A call that is being answered.
#[derive(Debug)]
struct Call {
    number: u64,
    from: IpAddr,
    socket: Arc<Socket>,
}

impl Acceptor {
    pub(super) fn start(listener: TcpListener, inner: Arc<Inner>) -> io::Result<Self> {
        let address = listener.local_addr()?;
        listener.set_nonblocking(true)?;
        let listener = Arc::new(listener);
        let shared = Arc::new(Shared {
            inner,
            is_over: AtomicBool::new(false),
            next_call: AtomicU64::new(0),
            answering: Mutex::default(),
            thread_ended: Condvar::new(),
            waiting: Mutex::new(VecDeque::new()),
            arrived: Condvar::new(),
        });
        let (accepting, accepting_shared) = (listener.clone(), shared.clone());
        let thread = std::thread::Builder::new()
            .name("hostd-accept".to_owned())
            .spawn(move || accept_all(&accepting, &accepting_shared))?;
        Ok(Self {
            address,
            listener,
            shared,
            thread: Some(thread),
        })
    }

    /// Where it listens.
    pub(super) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Takes the calls that come over Zenoh until no more can come.
    ///
    /// # Errors
    /// There can be no more threads.
    pub(super) fn take_calls(&self, calls: Receiver<Arc<Tunnel>>) -> io::Result<()> {
        let shared = Arc::downgrade(&self.shared);
        let thread = std::thread::Builder::new().name("hostd-tunnels".to_owned());
        thread.spawn(move || {
            for tunnel in calls {
                let Some(shared) = shared.upgrade() else {
                    return;
                };
                if !shared.is_over.load(Ordering::Acquire) {
                    shared.begin(Arc::new(Socket::over(tunnel)));
                }
            }
        })?;
        Ok(())
    }

    /// The next connection.
    pub(super) fn accept(&self, timeout: Duration) -> Option<Connection> {
        let deadline = Instant::now() + timeout;
        let mut waiting = lock(&self.shared.waiting);
        loop {
            if let Some(connection) = waiting.pop_front() {
                return Some(connection);
            }
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                return None;
            }
            let waited = self.shared.arrived.wait_timeout(waiting, left);
            waiting = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
    }
}

impl Drop for Acceptor {
    fn drop(&mut self) {
        self.shared.is_over.store(true, Ordering::Release);
        // Wakes the thread; it fails only where nobody listens any more.
        let _ = rustix::net::shutdown(&self.listener, rustix::net::Shutdown::Both);
        if let Some(thread) = self.thread.take() {
            // It has no result.
            let _ = thread.join();
        }
        let answering = lock(&self.shared.answering);
        answering.calls.iter().for_each(|call| call.socket.close());
        drop(self.shared.wait_for_threads(answering, 1));
    }
}

fn accept_all(listener: &TcpListener, shared: &Arc<Shared>) {
    let is_over = || shared.is_over.load(Ordering::Acquire);
    let mut acceptor = accept::Acceptor::default();
    while !is_over() {
        let accepted = acceptor.accept(listener, |error| {
            // Where it is over, the listener says so by an error.
            if !is_over() {
                tracing::warn!(%error, "hosts that call are refused; those connected stay so");
            }
        });
        match accepted {
            Accepted::Connection(stream) => {
                let stream = TcpStream::from(stream);
                let socket = stream.set_nonblocking(false);
                match socket.and_then(|()| Socket::new(stream)) {
                    Ok(socket) => shared.begin(Arc::new(socket)),
                    Err(_) => count(&shared.inner.counts.too_slow),
                }
            }
            Accepted::Surplus(stream) => {
                acceptor.take_back(stream);
                count(&shared.inner.counts.crowded_out);
            }
            Accepted::Nothing => match acceptor.pause() {
                Some(pause) if !is_over() => std::thread::sleep(pause),
                Some(_) => {}
                None => {
                    let mut listeners = [PollFd::new(listener, PollFlags::IN)];
                    // What keeps it from waiting the next call says.
                    let _ = poll(&mut listeners, None);
                }
            },
        }
    }
}

impl Shared {
    fn begin(self: &Arc<Self>, socket: Arc<Socket>) {
        let number = self.next_call.fetch_add(1, Ordering::Relaxed);
        self.admit(Call {
            number,
            // Over Zenoh only hosts of the realm call: they crowd each other out.
            from: socket
                .peer()
                .map_or(IpAddr::V4(Ipv4Addr::UNSPECIFIED), |peer| peer.ip()),
            socket: socket.clone(),
        });
        let shared = self.clone();
        let thread = std::thread::Builder::new()
            .name("hostd-call".to_owned())
            .spawn(move || {
                // Also after a panic: whoever ends the acceptor waits for all calls.
                let _ends = EndsCall(&shared, number);
                shared.answer(&socket);
            });
        if thread.is_err() {
            self.end(number);
            count(&self.inner.counts.crowded_out);
        }
    }

    /// Counts a call and its thread in; where there are too many, another one ends.
    fn admit(&self, call: Call) {
        let mut answering = lock(&self.answering);
        if answering.calls.len() >= CALLS_MAX
            && let Some(victim) = most_crowded(&answering.calls)
        {
            answering.calls.remove(victim).socket.close();
            count(&self.inner.counts.crowded_out);
        }
        // Those that were ended find their sockets closed: there is soon one thread less.
        let mut answering = self.wait_for_threads(answering, THREADS_MAX);
        answering.calls.push(call);
        answering.threads += 1;
    }

    /// Until there are fewer than `threads`.
    fn wait_for_threads<'a>(
        &self,
        answering: MutexGuard<'a, Answering>,
        threads: usize,
    ) -> MutexGuard<'a, Answering> {
        let are_too_many = |answering: &mut Answering| answering.threads >= threads;
        let waited = self.thread_ended.wait_while(answering, are_too_many);
        waited.unwrap_or_else(PoisonError::into_inner)
    }

    fn end(&self, number: u64) {
        let mut answering = lock(&self.answering);
        answering.calls.retain(|call| call.number != number);
        answering.threads -= 1;
        drop(answering);
        self.thread_ended.notify_all();
    }

    fn answer(&self, socket: &Arc<Socket>) {
        let counts = &self.inner.counts;
        match self.inner.answer(socket) {
            Ok(connection) => {
                let mut waiting = lock(&self.waiting);
                if waiting.len() >= WAITING_MAX {
                    count(&counts.crowded_out);
                    return;
                }
                count(&counts.accepted);
                waiting.push_back(connection);
                self.arrived.notify_one();
            }
            // It was ended for a newer one, and counted then.
            Err(_) if socket.is_closed() => {}
            Err(refused) => count(match refused {
                Refused::NotHythe => &counts.not_hythe,
                Refused::NotTrusted => &counts.not_trusted,
                Refused::Revoked => &counts.revoked,
                Refused::OtherVersion => &counts.other_version,
                Refused::TooSlow => &counts.too_slow,
            }),
        }
    }
}

struct EndsCall<'a>(&'a Shared, u64);

impl Drop for EndsCall<'_> {
    fn drop(&mut self) {
        self.0.end(self.1);
    }
}

/// The oldest call of the address that has most of them.
fn most_crowded(calls: &[Call]) -> Option<usize> {
    let of_same = |call: &Call| calls.iter().filter(|other| other.from == call.from).count();
    let most = calls.iter().map(of_same).max()?;
    calls.iter().position(|call| of_same(call) == most)
}

/// What a call was refused for.
enum Refused {
    NotHythe,
    NotTrusted,
    Revoked,
    OtherVersion,
    TooSlow,
}

impl Inner {
    fn answer(&self, socket: &Arc<Socket>) -> Result<Connection, Refused> {
        let deadline = Instant::now() + CALL_TIMEOUT;
        let configs = self.configs().map_err(|_| Refused::NotTrusted)?;
        let established = handshake::answer(socket, configs.server, deadline)?;
        let peer = common_name(&established.certificate).map_err(|_| Refused::NotTrusted)?;
        if peer == *self.realm.identity().name() {
            return Err(Refused::NotTrusted);
        }
        let mut halves = Halves {
            sender: TlsSender::new(socket.clone(), established.sealer),
            receiver: TlsReceiver::new(socket.clone(), established.opener, &established.received),
        };
        // Of before: it may change meanwhile.
        let told = self.realm.identity().document().number;
        welcome(
            &mut halves,
            &self.realm,
            established.is_same_version,
            deadline,
        )?;
        let why = "the host that dialled had no TCP connection";
        let about = about(socket, &established.certificate, why);
        self.register(Live {
            peer: peer.clone(),
            certificate: established.certificate,
            socket: Arc::downgrade(socket),
            told,
            is_dialled: false,
        })
        .map_err(|_| Refused::Revoked)?;
        Ok(Connection {
            peer,
            about,
            path: path(socket),
            sender: Box::new(halves.sender),
            receiver: Box::new(halves.receiver),
        })
    }
}

impl From<HandshakeError> for Refused {
    fn from(error: HandshakeError) -> Self {
        use rustls::{AlertDescription, CertificateError, Error};
        match error {
            HandshakeError::NotHythe => Self::NotHythe,
            HandshakeError::Socket(_) | HandshakeError::Closed { .. } => Self::TooSlow,
            HandshakeError::Tls(error) => match error {
                Error::InvalidCertificate(CertificateError::Revoked) => Self::Revoked,
                Error::NoApplicationProtocol | Error::PeerIncompatible(_) => Self::OtherVersion,
                Error::InvalidMessage(_) | Error::InappropriateMessage { .. } => Self::NotHythe,
                Error::AlertReceived(AlertDescription::CertificateRevoked) => Self::Revoked,
                _ => Self::NotTrusted,
            },
        }
    }
}

impl From<GreetingError> for Refused {
    fn from(error: GreetingError) -> Self {
        match error {
            GreetingError::Socket(_) => Self::TooSlow,
            GreetingError::OtherVersion(_) => Self::OtherVersion,
            GreetingError::Refused(_) => Self::NotTrusted,
        }
    }
}

/// A panic elsewhere leaves lists that are whole.
fn lock<T>(mutex: &Mutex<T>) -> MutexGuard<'_, T> {
    mutex.lock().unwrap_or_else(PoisonError::into_inner)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn call(number: u64, from: [u8; 4]) -> (Call, TcpStream) {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let stream = TcpStream::connect(listener.local_addr().expect("bound")).expect("connected");
        let socket = Socket::new(stream.try_clone().expect("cloned")).expect("a socket");
        let call = Call {
            number,
            from: from.into(),
            socket: Arc::new(socket),
        };
        (call, stream)
    }

    #[test]
    fn oldest_call_of_the_busiest_address_makes_way() {
        let addresses = [[10, 0, 0, 1], [10, 0, 0, 2], [10, 0, 0, 2], [10, 0, 0, 3]];
        let numbered = (0..).zip(addresses);
        let (calls, _streams): (Vec<Call>, Vec<TcpStream>) =
            numbered.map(|(number, from)| call(number, from)).unzip();
        assert_eq!(most_crowded(&calls), Some(1));
        assert_eq!(most_crowded(&[]), None);
    }
}

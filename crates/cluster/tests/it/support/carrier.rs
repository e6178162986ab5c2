//! Plain TCP: who dials says its name, and is believed. Counts what is sent, and breaks on demand.

use std::io::{self, Read as _, Write as _};
use std::net::{IpAddr, Shutdown, SocketAddr, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use hythe_cluster::{
    Carrier, CarrierError, Connection, ConnectionAbout, ConnectionPath, ConnectionReceiver,
    ConnectionSender, HostName, Received,
};
use hythe_testing::let_time_pass;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::{RecvFlags, SendFlags};

/// How long the two names may take.
const NAMES: Duration = Duration::from_secs(10);
/// The interface of all of them.
pub(crate) const LOOPBACK: &str = "lo";
const BUFFER_BYTES: usize = 64 << 10;

/// Plain TCP on loopback.
#[derive(Debug)]
pub(crate) struct TcpCarrier {
    name: HostName,
    listener: TcpListener,
    pub(crate) sent_bytes: Arc<AtomicU64>,
    /// Nothing arrives and nothing is sent any more, and nobody is told: a cable is cut.
    is_cut: Arc<AtomicBool>,
    /// It makes no new connection.
    dials_nobody: AtomicBool,
    /// So many new connections have no answer: those that have none.
    unanswered: AtomicU32,
    silent: Mutex<Vec<TcpStream>>,
    steps: Arc<Steps>,
    /// All connections, dialled and accepted.
    connections: Mutex<Vec<Arc<TcpStream>>>,
}

impl TcpCarrier {
    pub(crate) fn new(name: &HostName) -> Arc<Self> {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        listener.set_nonblocking(true).expect("set");
        Arc::new(Self {
            name: name.clone(),
            listener,
            sent_bytes: Arc::default(),
            is_cut: Arc::default(),
            dials_nobody: AtomicBool::new(false),
            unanswered: AtomicU32::new(0),
            silent: Mutex::default(),
            steps: Arc::default(),
            connections: Mutex::default(),
        })
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.listener.local_addr().expect("bound")
    }

    /// Kills this process in front of the step with this number: of a connection that is made or
    /// taken, of what is sent and of what is received.
    pub(crate) fn die_before(&self, step: u64) {
        self.steps.last.store(step, Ordering::SeqCst);
    }

    pub(crate) fn cut(&self, is_cut: bool) {
        self.is_cut.store(is_cut, Ordering::SeqCst);
    }

    /// It makes no new connection; what there is stays.
    pub(crate) fn dial_nobody(&self) {
        self.dials_nobody.store(true, Ordering::SeqCst);
    }

    /// Leaves so many of the next connections that are made to it without an answer, as a host does
    /// that is too busy.
    pub(crate) fn leave_unanswered(&self, connections: u32) {
        self.unanswered.store(connections, Ordering::SeqCst);
    }

    /// Breaks all connections but the first `but`, as a network does: without a word.
    pub(crate) fn break_but(&self, but: usize) {
        let connections = self.connections.lock().expect("sound");
        for connection in connections.iter().skip(but) {
            let _ = connection.shutdown(Shutdown::Both);
        }
    }

    /// How many connections there were so far, dialled and accepted.
    pub(crate) fn connections(&self) -> usize {
        self.connections.lock().expect("sound").len()
    }

    /// A connection of whose ends the names are known.
    pub(crate) fn made(&self, stream: TcpStream, peer: HostName) -> Connection {
        // Both fail where the other side has reset it meanwhile; so does what is sent.
        let _ = stream.set_nodelay(true);
        let address = stream
            .peer_addr()
            .map_or_else(|error| error.to_string(), |it| it.to_string());
        let ends = stream.local_addr().ok().zip(stream.peer_addr().ok());
        let path = ends.map(|(local, peer)| ConnectionPath {
            local: local.ip(),
            peer: peer.ip(),
        });
        let stream = Arc::new(stream);
        let mut connections = self.connections.lock().expect("sound");
        connections.push(Arc::clone(&stream));
        drop(connections);
        Connection {
            peer,
            about: ConnectionAbout {
                carrier: "tcp".to_owned(),
                address,
                ..ConnectionAbout::default()
            },
            path,
            sender: Box::new(Sender {
                stream: Arc::clone(&stream),
                sent_bytes: Arc::clone(&self.sent_bytes),
                is_cut: Arc::clone(&self.is_cut),
                steps: Arc::clone(&self.steps),
            }),
            receiver: Box::new(Receiver {
                stream,
                is_cut: Arc::clone(&self.is_cut),
                steps: Arc::clone(&self.steps),
                buffer: vec![0; BUFFER_BYTES],
                start: 0,
                end: 0,
            }),
        }
    }
}

/// What a carrier has done, and where its process dies; 0: nowhere.
#[derive(Debug, Default)]
struct Steps {
    done: AtomicU64,
    last: AtomicU64,
}

impl Steps {
    fn step(&self) {
        if self.done.fetch_add(1, Ordering::SeqCst) + 1 == self.last.load(Ordering::SeqCst) {
            let me = rustix::process::getpid();
            let _ = rustix::process::kill_process(me, rustix::process::Signal::KILL);
        }
    }
}

/// Dials as `name`, whoever that is.
pub(crate) fn dial(name: &str, to: SocketAddr) -> io::Result<TcpStream> {
    let mut stream = TcpStream::connect_timeout(&to, NAMES)?;
    stream.write_all(&[name.len() as u8])?;
    stream.write_all(name.as_bytes())?;
    Ok(stream)
}

impl Carrier for TcpCarrier {
    fn name(&self) -> &'static str {
        "tcp"
    }

    fn connect(
        &self,
        host: &HostName,
        addresses: &[SocketAddr],
        _timeout: Duration,
    ) -> Result<Connection, CarrierError> {
        let unreachable = |source| CarrierError::Unreachable {
            host: host.clone(),
            address: format!("{addresses:?}"),
            source,
        };
        let address = addresses.first();
        let address = address.filter(|_| {
            !self.is_cut.load(Ordering::SeqCst) && !self.dials_nobody.load(Ordering::SeqCst)
        });
        let Some(address) = address else {
            return Err(unreachable(io::ErrorKind::AddrNotAvailable.into()));
        };
        self.steps.step();
        let stream = dial(self.name.as_str(), *address).map_err(unreachable)?;
        Ok(self.made(stream, host.clone()))
    }

    fn interface_of(&self, address: IpAddr) -> Option<String> {
        address.is_loopback().then(|| LOOPBACK.to_owned())
    }

    fn accept(&self, timeout: Duration) -> Result<Option<Connection>, CarrierError> {
        if !wait_for(&self.listener, PollFlags::IN, timeout) {
            return Ok(None);
        }
        let Ok((mut stream, _)) = self.listener.accept() else {
            return Ok(None);
        };
        if self.is_cut.load(Ordering::SeqCst) {
            return Ok(None);
        }
        let (order, one_less) = (Ordering::SeqCst, |left: u32| left.checked_sub(1));
        if self.unanswered.fetch_update(order, order, one_less).is_ok() {
            self.silent.lock().expect("sound").push(stream);
            return Ok(None);
        }
        self.steps.step();
        stream.set_nonblocking(false).expect("set");
        stream.set_read_timeout(Some(NAMES)).expect("set");
        let mut length = [0];
        let mut name = Vec::new();
        let read = stream.read_exact(&mut length).and_then(|()| {
            name.resize(length[0].into(), 0);
            stream.read_exact(&mut name)
        });
        let name = String::from_utf8(name).unwrap_or_default();
        match (read, HostName::try_from(name)) {
            (Ok(()), Ok(peer)) => Ok(Some(self.made(stream, peer))),
            _ => Ok(None),
        }
    }
}

#[derive(Debug)]
struct Sender {
    stream: Arc<TcpStream>,
    sent_bytes: Arc<AtomicU64>,
    is_cut: Arc<AtomicBool>,
    steps: Arc<Steps>,
}

impl ConnectionSender for Sender {
    fn send(&mut self, parts: &[&[u8]], timeout: Duration) -> io::Result<()> {
        if self.is_cut.load(Ordering::SeqCst) {
            return Ok(());
        }
        self.steps.step();
        let start = Instant::now();
        for part in parts {
            let mut left = *part;
            while !left.is_empty() {
                let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
                match rustix::net::send(&*self.stream, left, flags) {
                    Ok(sent) => {
                        self.sent_bytes.fetch_add(sent as u64, Ordering::Relaxed);
                        left = &left[sent..];
                    }
                    Err(rustix::io::Errno::AGAIN) => {
                        let patience = timeout.saturating_sub(start.elapsed());
                        if patience.is_zero() {
                            return Err(io::ErrorKind::TimedOut.into());
                        }
                        wait_for(&*self.stream, PollFlags::OUT, patience);
                    }
                    Err(error) => return Err(error.into()),
                }
            }
        }
        Ok(())
    }

    fn close(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

impl Drop for Sender {
    fn drop(&mut self) {
        self.close();
    }
}

#[derive(Debug)]
struct Receiver {
    stream: Arc<TcpStream>,
    is_cut: Arc<AtomicBool>,
    steps: Arc<Steps>,
    buffer: Vec<u8>,
    start: usize,
    end: usize,
}

impl ConnectionReceiver for Receiver {
    fn receive(&mut self, timeout: Duration) -> io::Result<Received<'_>> {
        if self.is_cut.load(Ordering::SeqCst) {
            let_time_pass(
                timeout.min(Duration::from_millis(10)),
                "a cut link is silent",
            );
            return Ok(Received::Nothing);
        }
        if self.start == self.end {
            if !wait_for(&*self.stream, PollFlags::IN, timeout) {
                return Ok(Received::Nothing);
            }
            let received =
                rustix::net::recv(&*self.stream, &mut self.buffer[..], RecvFlags::DONTWAIT);
            self.steps.step();
            match received {
                Ok((0, _)) => return Ok(Received::Closed),
                Ok((bytes, _)) => (self.start, self.end) = (0, bytes),
                Err(rustix::io::Errno::AGAIN) => return Ok(Received::Nothing),
                Err(error) => return Err(error.into()),
            }
        }
        Ok(Received::Bytes(&self.buffer[self.start..self.end]))
    }

    fn consume(&mut self, bytes: usize) {
        assert!(bytes <= self.end - self.start);
        self.start += bytes;
    }
}

impl Drop for Receiver {
    fn drop(&mut self) {
        let _ = self.stream.shutdown(Shutdown::Both);
    }
}

fn wait_for(file: impl std::os::fd::AsFd, flags: PollFlags, timeout: Duration) -> bool {
    let mut polled = [PollFd::from_borrowed_fd(file.as_fd(), flags)];
    let timeout = Timespec {
        tv_sec: timeout.as_secs() as i64,
        tv_nsec: timeout.subsec_nanos().into(),
    };
    poll(&mut polled, Some(&timeout)).is_ok_and(|ready| ready > 0)
}

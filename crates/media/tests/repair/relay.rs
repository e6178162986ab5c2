//! A way that delays and loses: what comes to its ports goes on to a receiver's, and the receiver's RTCP back, later or never.
//!
//! One thread with a bounded queue, which a seed decides for. Its ports lie as those of a stream do: RTP, RTCP one above, parity two
//! and four above. Nothing is lost of the first [`SPARED`] datagrams of each port, so that both ends know each other.

use std::collections::VecDeque;
use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use hythe_media::loss::fec::predict::Chance;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;

/// Datagrams on their way, at most; one more is lost.
const QUEUE_MAX: usize = 1 << 14;
const SPARED: u64 = 10;
/// Of RTP, RTCP, columns and rows, above that of RTP.
const PORTS: [u16; 4] = [0, 1, 2, 4];
const RECEIVE_BUFFER_BYTES: usize = 4 << 20;
/// How often it is looked whether to stop.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// What a way does.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Way {
    /// Probability of a loss, in either direction.
    pub(crate) loss: f64,
    /// In either direction.
    pub(crate) delay: Duration,
    pub(crate) seed: u64,
}

/// A port of the way: what comes near the sender leaves far from it, and back.
struct Lane {
    near: UdpSocket,
    far: UdpSocket,
    receiver: SocketAddr,
    /// Where the sender was last heard.
    sender: Option<SocketAddr>,
    passed: u64,
}

struct Held {
    due: Instant,
    lane: usize,
    is_back: bool,
    bytes: Vec<u8>,
}

/// A way that exists as long as the value.
pub(crate) struct Relay {
    address: SocketAddr,
    has_ended: Arc<AtomicBool>,
    lost: Arc<AtomicU64>,
    thread: Option<JoinHandle<()>>,
}

impl Relay {
    /// To the receiver whose RTP port is `receiver`.
    pub(crate) fn start(receiver: SocketAddr, way: Way) -> Self {
        let (near, far) = (ports(), ports());
        let address = near[0].local_addr().unwrap();
        let lanes: Vec<Lane> = near
            .into_iter()
            .zip(far)
            .zip(PORTS)
            .map(|((near, far), above)| Lane {
                near,
                far,
                receiver: SocketAddr::new(receiver.ip(), receiver.port() + above),
                sender: None,
                passed: 0,
            })
            .collect();
        let (has_ended, lost) = (Arc::new(AtomicBool::new(false)), Arc::default());
        let (told, count) = (Arc::clone(&has_ended), Arc::clone(&lost));
        let thread = std::thread::spawn(move || run(lanes, way, &told, &count));
        Self {
            address,
            has_ended,
            lost,
            thread: Some(thread),
        }
    }

    /// Where a sender sends RTP to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Datagrams lost so far, in both directions.
    pub(crate) fn lost(&self) -> u64 {
        self.lost.load(Ordering::Relaxed)
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.has_ended.store(true, Ordering::Relaxed);
        if let Some(thread) = self.thread.take() {
            let _ = thread.join(); // it failed, and has said so
        }
    }
}

/// An even port, and those above it.
fn ports() -> [UdpSocket; 4] {
    let found = (0..1000).find_map(|_| {
        let port = UdpSocket::bind("127.0.0.1:0")
            .ok()?
            .local_addr()
            .ok()?
            .port()
            & !1;
        let sockets = PORTS.map(|above| UdpSocket::bind(("127.0.0.1", port.saturating_add(above))));
        let [Ok(rtp), Ok(rtcp), Ok(columns), Ok(rows)] = sockets else {
            return None;
        };
        Some([rtp, rtcp, columns, rows])
    });
    let sockets = found.unwrap();
    for socket in &sockets {
        socket.set_nonblocking(true).unwrap();
        if sockopt::set_socket_recv_buffer_size_force(socket, RECEIVE_BUFFER_BYTES).is_err() {
            sockopt::set_socket_recv_buffer_size(socket, RECEIVE_BUFFER_BYTES).unwrap();
        }
    }
    sockets
}

fn run(mut lanes: Vec<Lane>, way: Way, has_ended: &AtomicBool, lost: &AtomicU64) {
    let mut chance = Chance::new(way.seed);
    let mut held: VecDeque<Held> = VecDeque::with_capacity(QUEUE_MAX);
    while !has_ended.load(Ordering::Relaxed) {
        let due = held
            .front()
            .map(|first| first.due.saturating_duration_since(Instant::now()));
        wait(&lanes, due.unwrap_or(LOOK_EVERY).min(LOOK_EVERY));
        for (index, lane) in lanes.iter_mut().enumerate() {
            for is_back in [false, true] {
                while let Some(bytes) = take(lane, is_back) {
                    let is_spared = lane.passed <= SPARED;
                    if (chance.happens(way.loss) && !is_spared) || held.len() == QUEUE_MAX {
                        lost.fetch_add(1, Ordering::Relaxed);
                        continue;
                    }
                    let due = Instant::now() + way.delay;
                    held.push_back(Held {
                        due,
                        lane: index,
                        is_back,
                        bytes,
                    });
                }
            }
        }
        while let Some(first) = held.pop_front_if(|first| first.due <= Instant::now()) {
            pass(&lanes[first.lane], first.is_back, &first.bytes);
        }
    }
}

fn wait(lanes: &[Lane], at_most: Duration) {
    let sockets = lanes.iter().flat_map(|lane| [&lane.near, &lane.far]);
    let mut waited: Vec<_> = sockets
        .map(|socket| PollFd::new(socket, PollFlags::IN))
        .collect();
    let timeout = Timespec {
        tv_sec: 0,
        tv_nsec: at_most.subsec_nanos().into(),
    };
    let _ = poll(&mut waited, Some(&timeout)); // interrupted: the next turn waits
}

fn take(lane: &mut Lane, is_back: bool) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 2048];
    let socket = if is_back { &lane.far } else { &lane.near };
    let (length, source) = socket.recv_from(&mut bytes).ok()?;
    if !is_back {
        lane.sender = Some(source);
    }
    lane.passed += 1;
    bytes.truncate(length);
    Some(bytes)
}

fn pass(lane: &Lane, is_back: bool, bytes: &[u8]) {
    // Nobody there any more: nobody misses it.
    let _ = match (is_back, lane.sender) {
        (false, _) => lane.far.send_to(bytes, lane.receiver),
        (true, Some(sender)) => lane.near.send_to(bytes, sender),
        (true, None) => Ok(0),
    };
}

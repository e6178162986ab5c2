//! A way that delays and loses: what comes to its ports goes on to a receiver's, and the receiver's
//! RTCP back, later or never.
//!
//! One loop with a bounded queue, which a seed decides for; whoever runs it has the sockets. Its
//! ports lie as those of a stream do: RTP, RTCP one above, parity two and four above. Nothing is
//! lost of the first [`SPARED`] datagrams of each port, so that both ends know each other. Used by
//! the tests of repair, and by `hythe bench media` between its networks.

use std::collections::VecDeque;
use std::io;
use std::net::{SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use hythe_rtp::loss::fec::predict::Chance;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt;

/// Datagrams on their way, at most; one more is lost.
const QUEUE_MAX: usize = 1 << 14;
const SPARED: u64 = 10;
/// Of RTP, RTCP, columns and rows, above that of RTP.
pub(crate) const PORTS: [u16; 4] = [0, 1, 2, 4];
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

/// What happened at one port, in one direction.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Count {
    /// Datagrams that came.
    pub(crate) came: u64,
    /// Those of them that were lost by chance.
    pub(crate) lost: u64,
    /// Those of them that were lost because too many were on their way.
    pub(crate) crowded: u64,
}

/// A port of the way: what comes near the sender leaves far from it, and back.
#[derive(Debug)]
pub(crate) struct Lane {
    near: UdpSocket,
    far: UdpSocket,
    receiver: SocketAddr,
    /// Where the sender was last heard.
    sender: Option<SocketAddr>,
    /// To the receiver, and back.
    counts: [Count; 2],
}

struct Held {
    due: Instant,
    lane: usize,
    is_back: bool,
    bytes: Vec<u8>,
}

impl Lane {
    /// From `near` to `far`, and from there to `receiver`.
    pub(crate) fn new(near: UdpSocket, far: UdpSocket, receiver: SocketAddr) -> io::Result<Self> {
        for socket in [&near, &far] {
            socket.set_nonblocking(true)?;
            if sockopt::set_socket_recv_buffer_size_force(socket, RECEIVE_BUFFER_BYTES).is_err() {
                sockopt::set_socket_recv_buffer_size(socket, RECEIVE_BUFFER_BYTES)?;
            }
        }
        Ok(Self {
            near,
            far,
            receiver,
            sender: None,
            counts: [Count::default(); 2],
        })
    }

    /// To the receiver, and back.
    pub(crate) const fn counts(&self) -> [Count; 2] {
        self.counts
    }

    fn take(&mut self, is_back: bool) -> Option<Vec<u8>> {
        let mut bytes = vec![0; 2048];
        let socket = if is_back { &self.far } else { &self.near };
        let (length, source) = socket.recv_from(&mut bytes).ok()?;
        if !is_back {
            self.sender = Some(source);
        }
        self.counts[usize::from(is_back)].came += 1;
        bytes.truncate(length);
        Some(bytes)
    }

    fn pass(&self, is_back: bool, bytes: &[u8]) {
        // Nobody there any more: nobody misses it.
        let _ = match (is_back, self.sender) {
            (false, _) => self.far.send_to(bytes, self.receiver),
            (true, Some(sender)) => self.near.send_to(bytes, sender),
            (true, None) => Ok(0),
        };
    }

    fn is_spared(&self) -> bool {
        let [there, back] = self.counts;
        there.came + back.came <= SPARED
    }
}

/// Passes on, until somebody says that it has ended.
pub(crate) fn run(lanes: &mut [Lane], way: Way, has_ended: &AtomicBool) {
    let mut chance = Chance::new(way.seed);
    let mut held: VecDeque<Held> = VecDeque::with_capacity(QUEUE_MAX);
    while !has_ended.load(Ordering::Relaxed) {
        let due = held
            .front()
            .map(|first| first.due.saturating_duration_since(Instant::now()));
        wait(lanes, due.unwrap_or(LOOK_EVERY).min(LOOK_EVERY));
        for (lane, port) in lanes.iter_mut().enumerate() {
            for is_back in [false, true] {
                while let Some(bytes) = port.take(is_back) {
                    let is_lost = chance.happens(way.loss) && !port.is_spared();
                    let count = &mut port.counts[usize::from(is_back)];
                    if is_lost {
                        count.lost += 1;
                        continue;
                    }
                    if held.len() == QUEUE_MAX {
                        count.crowded += 1;
                        continue;
                    }
                    let due = Instant::now() + way.delay;
                    held.push_back(Held {
                        due,
                        lane,
                        is_back,
                        bytes,
                    });
                }
            }
        }
        while let Some(first) = held.pop_front_if(|first| first.due <= Instant::now()) {
            lanes[first.lane].pass(first.is_back, &first.bytes);
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

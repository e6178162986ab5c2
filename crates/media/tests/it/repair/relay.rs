//! A way on this host: a thread of its own, which ends with the value.

use std::net::{SocketAddr, UdpSocket};
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread::JoinHandle;

use crate::way::{Lane, PORTS, Way, run};

/// A way that exists as long as the value.
pub(crate) struct Relay {
    address: SocketAddr,
    has_ended: Arc<AtomicBool>,
    thread: Option<JoinHandle<u64>>,
}

impl Relay {
    /// To the receiver whose RTP port is `receiver`.
    pub(crate) fn start(receiver: SocketAddr, way: Way) -> Self {
        let (near, far) = (ports(), ports());
        let address = near[0].local_addr().unwrap();
        let mut lanes: Vec<Lane> = near
            .into_iter()
            .zip(far)
            .zip(PORTS)
            .map(|((near, far), above)| {
                let port = receiver.port() + above;
                Lane::new(near, far, SocketAddr::new(receiver.ip(), port)).unwrap()
            })
            .collect();
        let has_ended = Arc::new(AtomicBool::new(false));
        let told = Arc::clone(&has_ended);
        let thread = std::thread::spawn(move || {
            run(&mut lanes, way, &told);
            let counts = lanes.iter().flat_map(Lane::counts);
            counts.map(|count| count.lost + count.crowded).sum()
        });
        Self {
            address,
            has_ended,
            thread: Some(thread),
        }
    }

    /// Where a sender sends RTP to.
    pub(crate) fn address(&self) -> SocketAddr {
        self.address
    }

    /// Ends it; how many datagrams were lost, in both directions.
    pub(crate) fn end(mut self) -> u64 {
        self.has_ended.store(true, Ordering::Relaxed);
        self.thread.take().unwrap().join().unwrap()
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
    let first = hythe_testing::reserve_ports(PORTS[3] + 1);
    PORTS.map(|above| UdpSocket::bind(("127.0.0.1", first + above)).unwrap())
}

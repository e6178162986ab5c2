//! The way between the two networks: a process with a foot in each.

use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::sync::atomic::{AtomicBool, Ordering};

use super::way::{self, Count, Lane, PORTS, Way};
use super::{DELAY, LOSS, PORT, Passed};
use crate::error::BenchError;

/// Open sockets.
#[derive(Debug)]
pub(in super::super) struct Relay {
    lanes: Vec<Lane>,
}

impl Relay {
    /// `near` the sender, `far` from it, and on to the `receiver`.
    pub(in super::super) fn open(
        near: IpAddr,
        far: IpAddr,
        receiver: IpAddr,
    ) -> Result<Self, BenchError> {
        let lane = |above| {
            let near = UdpSocket::bind((near, PORT + above))?;
            let far = UdpSocket::bind((far, PORT + above))?;
            Lane::new(near, far, SocketAddr::new(receiver, PORT + above))
        };
        let lanes: Result<_, std::io::Error> = PORTS.into_iter().map(lane).collect();
        Ok(Self { lanes: lanes? })
    }

    /// Passes on for as long as `work` takes. The `seed` decides what is lost.
    pub(in super::super) fn run<R>(mut self, seed: u64, work: impl FnOnce() -> R) -> (Passed, R) {
        let way = Way {
            loss: LOSS,
            delay: DELAY,
            seed,
        };
        let has_ended = AtomicBool::new(false);
        let done = std::thread::scope(|scope| {
            let lanes = &mut self.lanes;
            scope.spawn(|| way::run(lanes, way, &has_ended));
            let done = work();
            has_ended.store(true, Ordering::Relaxed);
            done
        });
        let counts: Vec<[Count; 2]> = self.lanes.iter().map(Lane::counts).collect();
        (sum(&counts), done)
    }
}

/// By kind, in the order of [`PORTS`].
fn sum(counts: &[[Count; 2]]) -> Passed {
    let mut passed = Passed::default();
    for (above, [there, back]) in PORTS.into_iter().zip(counts) {
        match above {
            0 => {
                passed.media += there.came;
                passed.lost_media += there.lost;
            }
            1 => passed.lost_reports += there.lost,
            _ => {
                passed.parity += there.came;
                passed.lost_parity += there.lost;
            }
        }
        passed.lost_back += back.lost;
        passed.crowded += there.crowded + back.crowded;
    }
    passed
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn losses_are_told_apart_by_port_and_direction() {
        let count = |came, lost| Count {
            came,
            lost,
            crowded: 1,
        };
        let counts = [
            [count(1000, 50), count(0, 0)],
            [count(20, 2), count(100, 5)],
            [count(200, 10), count(0, 0)],
            [count(200, 20), count(0, 0)],
        ];
        let expected = Passed {
            media: 1000,
            parity: 400,
            lost_media: 50,
            lost_parity: 30,
            lost_reports: 2,
            lost_back: 5,
            crowded: 8,
        };
        assert_eq!(sum(&counts), expected);
    }

    #[test]
    fn what_comes_near_leaves_far() {
        let host = |last| IpAddr::from([127, 0, 77, last]);
        let receiver = UdpSocket::bind((host(3), PORT)).expect("a port");
        let bound = std::time::Duration::from_secs(30);
        receiver.set_read_timeout(Some(bound)).expect("set");
        let relay = Relay::open(host(1), host(2), host(3)).expect("ports");
        let sender = UdpSocket::bind((host(4), 0)).expect("a port");
        let (passed, came) = relay.run(1, || {
            sender.send_to(&[7; 20], (host(1), PORT)).expect("sent");
            let mut buffer = [0; 100];
            receiver.recv(&mut buffer).expect("it came")
        });
        assert_eq!((passed.media, passed.lost_media, came), (1, 0, 20));
    }
}

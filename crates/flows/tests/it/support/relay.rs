//! A datagram relay between two sockets, which loses, doubles and swaps what passes.

use std::net::UdpSocket;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicU64, Ordering};
use std::thread::JoinHandle;
use std::time::Duration;

use hythe_testing::Dice;

/// What becomes of datagrams, in each thousand.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Faults {
    pub(crate) lost: usize,
    pub(crate) doubled: usize,
    pub(crate) swapped: usize,
    pub(crate) damaged: usize,
}

/// Passes datagrams on until it is dropped.
pub(crate) struct Relay {
    stop: Arc<AtomicBool>,
    /// Of what the first sends, and of what the second sends.
    cut: [Arc<AtomicBool>; 2],
    pub(crate) passed: Arc<AtomicU64>,
    threads: Vec<JoinHandle<()>>,
}

impl Relay {
    /// Between two ports of 127.0.0.1: the relay, and to which port each of them sends.
    pub(crate) fn between(first: u16, second: u16, faults: Faults) -> (Self, (u16, u16)) {
        let socket = || UdpSocket::bind("127.0.0.1:0").expect("bound");
        let (to_first, to_second) = (socket(), socket());
        let port = |socket: &UdpSocket| socket.local_addr().expect("bound").port();
        // What arrives at one end leaves by the other.
        let ports = (port(&to_first), port(&to_second));
        to_first.connect(("127.0.0.1", first)).expect("connected");
        to_second.connect(("127.0.0.1", second)).expect("connected");
        let mut relay = Self {
            stop: Arc::default(),
            cut: Default::default(),
            passed: Arc::default(),
            threads: Vec::new(),
        };
        let ways = [
            (to_first.try_clone(), to_second.try_clone()),
            (to_second.try_clone(), to_first.try_clone()),
        ];
        for (way, (from, to)) in ways.into_iter().enumerate() {
            relay.pass(from.expect("copied"), to.expect("copied"), faults, way);
        }
        (relay, ports)
    }

    /// From now on nothing passes, or everything again.
    pub(crate) fn cut(&self, cut: bool) {
        (0..2).for_each(|way| self.cut_way(way, cut));
    }

    /// As [`cut`](Self::cut), in one direction: 0 is what the first of both sends.
    pub(crate) fn cut_way(&self, way: usize, cut: bool) {
        self.cut[way].store(cut, Ordering::Relaxed);
    }

    fn pass(&mut self, from: UdpSocket, to: UdpSocket, faults: Faults, way: usize) {
        let (stop, cut) = (Arc::clone(&self.stop), Arc::clone(&self.cut[way]));
        let passed = Arc::clone(&self.passed);
        let timeout = Some(Duration::from_millis(20));
        from.set_read_timeout(timeout).expect("set");
        self.threads.push(std::thread::spawn(move || {
            let mut dice = Dice::new(way as u64);
            let mut draw = move || dice.below(1_000);
            let (mut buffer, mut late) = ([0; 10_000], None::<Vec<u8>>);
            while !stop.load(Ordering::Relaxed) {
                let Ok(length) = from.recv(&mut buffer) else {
                    continue;
                };
                if cut.load(Ordering::Relaxed) || draw() < faults.lost {
                    continue;
                }
                passed.fetch_add(1, Ordering::Relaxed);
                let datagram = &mut buffer[..length];
                if draw() < faults.damaged {
                    let at = draw() * length / 1_000;
                    datagram[at] ^= 1 << (draw() % 8);
                }
                if draw() < faults.swapped && late.is_none() {
                    late = Some(datagram.to_vec());
                    continue;
                }
                let copies = 1 + u32::from(draw() < faults.doubled);
                for _ in 0..copies {
                    let _ = to.send(datagram);
                }
                if let Some(late) = late.take() {
                    let _ = to.send(&late);
                }
            }
        }));
    }
}

impl Drop for Relay {
    fn drop(&mut self) {
        self.stop.store(true, Ordering::Relaxed);
        for thread in self.threads.drain(..) {
            let _ = thread.join();
        }
    }
}

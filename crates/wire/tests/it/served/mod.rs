//! A service of an interface in a thread, and flows by it.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod child;

use std::io::{ErrorKind, IoSlice};
use std::net::UdpSocket;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Instant;

use hythe_wire::{Options, Sent, Service, Wire};
use hythe_xdp::Attachment;
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{AddressFamily, SocketAddrUnix, SocketFlags, SocketType, connect, socket_with};

use crate::links::{BOUND, FAR, NEAR, Network, udp};

/// A service of an interface, in a thread of its own.
pub(crate) struct Served {
    pub(crate) path: PathBuf,
    /// The kernel's number of the thread.
    number: i32,
    stop: OwnedFd,
    pub(crate) thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Served {
    /// In the network of the calling thread.
    pub(crate) fn start(folder: &Path, interface: &str) -> Self {
        let path = folder.join(interface);
        let options = Options {
            interface: interface.to_owned(),
            user: rustix::process::geteuid().as_raw(),
            path: Some(path.clone()),
            attachments: vec![Attachment::Generic],
        };
        let start = Instant::now();
        let mut service = loop {
            match Service::open(options.clone()) {
                Ok(service) => break service,
                // The kernel lets go of a queue some time after its last socket.
                Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                    assert!(start.elapsed() < BOUND, "{error}");
                }
                Err(error) => panic!("{error}"),
            }
        };
        assert!(service.describe().contains("generic"));
        let stop = eventfd(0, EventfdFlags::CLOEXEC).expect("made");
        let stopped = stop.try_clone().expect("copied");
        let (to, from) = std::sync::mpsc::channel();
        let thread = std::thread::spawn(move || {
            let _ = to.send(rustix::thread::gettid().as_raw_pid());
            service.run(stopped)
        });
        Self {
            path,
            number: from.recv().expect("it has begun"),
            stop,
            thread: Some(thread),
        }
    }

    /// A connection over which nothing is asked.
    pub(crate) fn connect(&self) -> OwnedFd {
        let (family, kind) = (AddressFamily::UNIX, SocketType::SEQPACKET);
        let socket = socket_with(family, kind, SocketFlags::CLOEXEC, None).expect("made");
        let address = SocketAddrUnix::new(&self.path).expect("short");
        connect(&socket, &address).expect("it listens");
        socket
    }

    /// How often its thread has waited for something so far.
    pub(crate) fn sleeps(&self) -> u64 {
        let path = format!("/proc/self/task/{}/status", self.number);
        let text = std::fs::read_to_string(path).expect("it runs");
        let mut lines = text.lines();
        let found = lines.find_map(|line| line.strip_prefix("voluntary_ctxt_switches:"));
        found.expect("there").trim().parse().expect("a number")
    }

    pub(crate) fn end(&mut self) -> Option<std::io::Result<()>> {
        let thread = self.thread.take()?;
        rustix::io::write(&self.stop, &1_u64.to_ne_bytes()).expect("written");
        Some(thread.join().expect("no panic"))
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        let _ = self.end();
    }
}

/// Two connected sockets, of the near and the far end.
pub(crate) fn connected(network: &Network) -> (UdpSocket, UdpSocket) {
    let (near, far) = (udp(NEAR), network.at_far(|| udp(FAR)));
    near.connect(far.local_addr().expect("bound")).expect("set");
    far.connect(near.local_addr().expect("bound")).expect("set");
    (near, far)
}

pub(crate) fn wire(served: &Served, socket: &UdpSocket) -> Wire {
    Wire::connect(&served.path, socket, None, BOUND).expect("granted")
}

pub(crate) fn take(wire: &mut Wire) -> Vec<u8> {
    let (start, mut into) = (Instant::now(), [0; 4096]);
    loop {
        if let Some(bytes) = wire.receive(1, &mut into) {
            return into[..bytes].to_vec();
        }
        assert!(start.elapsed() < BOUND, "nothing: {:?}", wire.dropped());
        std::thread::yield_now();
    }
}

/// Sends, also where all chunks are with the kernel still.
pub(crate) fn send(wire: &mut Wire, bytes: &[u8]) {
    let start = Instant::now();
    let (one, other) = bytes.split_at(bytes.len() / 2);
    while wire.send(1, &[one, other].map(IoSlice::new)) != Sent::Taken {
        wire.flush();
        assert!(start.elapsed() < BOUND, "no chunk comes back");
        std::thread::yield_now();
    }
    wire.flush();
}

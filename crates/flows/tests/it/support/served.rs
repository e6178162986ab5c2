//! A service of an interface in a thread.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::io::ErrorKind;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::thread::JoinHandle;
use std::time::Instant;

use hythe_sys::namespaces::Network;
use hythe_wire::{Attachment, Options, Service};
use rustix::event::{EventfdFlags, eventfd};
use tempfile::TempDir;

use super::BOUND;
use super::networks::{ip, is_skipped};

/// A network of the calling thread's own, with nothing but the loopback interface.
pub(crate) struct Loopback {
    _network: Network,
    _folder: TempDir,
    /// Of the service of that interface.
    pub(crate) path: PathBuf,
}

impl Loopback {
    /// `None`, said aloud, without root.
    pub(crate) fn new() -> Option<Self> {
        if is_skipped() {
            return None;
        }
        let network = Network::unshare().expect("root");
        ip("link set lo up");
        let folder = TempDir::new().expect("made");
        Some(Self {
            _network: network,
            path: folder.path().join("lo"),
            _folder: folder,
        })
    }

    pub(crate) fn serve(&self) -> Served {
        Served::start(&self.path, "lo")
    }
}

pub(crate) struct Served {
    stop: OwnedFd,
    /// It runs, or it stands.
    thread: Option<JoinHandle<(Service, std::io::Result<()>)>>,
    standing: Option<Service>,
}

impl Served {
    /// Of an interface of the calling thread's network.
    pub(crate) fn start(path: &Path, interface: &str) -> Self {
        let options = Options {
            interface: interface.to_owned(),
            user: rustix::process::geteuid().as_raw(),
            path: Some(path.to_owned()),
            attachments: vec![Attachment::Generic],
        };
        let start = Instant::now();
        let service = loop {
            match Service::open(options.clone()) {
                Ok(service) => break service,
                // The kernel lets go of a queue, or of a program, some time after its last user.
                Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                    assert!(start.elapsed() < BOUND, "{error}");
                }
                Err(error) => panic!("{error}"),
            }
        };
        let mut served = Self {
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("made"),
            thread: None,
            standing: Some(service),
        };
        served.go_on();
        served
    }

    /// Behind [`stand`](Self::stand).
    pub(crate) fn go_on(&mut self) {
        let mut service = self.standing.take().expect("it stands");
        let stopped = self.stop.try_clone().expect("copied");
        self.thread = Some(std::thread::spawn(move || {
            let ended = service.run(stopped);
            (service, ended)
        }));
    }

    /// Why it has ended, by itself.
    pub(crate) fn error(mut self) -> std::io::Error {
        let thread = self.thread.take().expect("it runs");
        let (service, ended) = thread.join().expect("no panic");
        drop(service);
        ended.expect_err("it has ended")
    }

    /// From now on it does nothing, and is there still.
    pub(crate) fn stand(&mut self) {
        rustix::io::write(&self.stop, &1_u64.to_ne_bytes()).expect("written");
        let thread = self.thread.take().expect("it runs");
        let (service, ended) = thread.join().expect("no panic");
        ended.expect("ended well");
        self.standing = Some(service);
        rustix::io::read(&self.stop, &mut [0; 8]).expect("read");
    }

    pub(crate) fn end(mut self) {
        self.stand();
    }
}

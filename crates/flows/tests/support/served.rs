//! A service of an interface in a thread.

use std::os::fd::OwnedFd;
use std::path::Path;
use std::thread::JoinHandle;

use hythe_wire::{Attachment, Options, Service};
use rustix::event::{EventfdFlags, eventfd};

pub(crate) struct Served {
    stop: OwnedFd,
    /// It runs, or it stands.
    thread: Option<JoinHandle<Service>>,
    standing: Option<Service>,
}

impl Served {
    /// Of an interface of the calling thread's network.
    pub(crate) fn start(path: &Path, interface: &str) -> Self {
        let service = Service::open(Options {
            interface: interface.to_owned(),
            user: rustix::process::geteuid().as_raw(),
            path: Some(path.to_owned()),
            attachments: vec![Attachment::Generic],
        });
        let mut served = Self {
            stop: eventfd(0, EventfdFlags::CLOEXEC | EventfdFlags::NONBLOCK).expect("made"),
            thread: None,
            standing: Some(service.expect("served")),
        };
        served.go_on();
        served
    }

    /// Behind [`stand`](Self::stand).
    pub(crate) fn go_on(&mut self) {
        let mut service = self.standing.take().expect("it stands");
        let stopped = self.stop.try_clone().expect("copied");
        self.thread = Some(std::thread::spawn(move || {
            service.run(stopped).expect("ended well");
            service
        }));
    }

    /// From now on it does nothing, and is there still.
    pub(crate) fn stand(&mut self) {
        rustix::io::write(&self.stop, &1_u64.to_ne_bytes()).expect("written");
        let thread = self.thread.take().expect("it runs");
        self.standing = Some(thread.join().expect("no panic"));
        rustix::io::read(&self.stop, &mut [0; 8]).expect("read");
    }

    pub(crate) fn end(mut self) {
        self.stand();
    }
}

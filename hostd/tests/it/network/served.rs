//! An interface that is served with `AF_XDP` sockets.

use std::io::ErrorKind;
use std::os::fd::AsFd as _;
use std::thread::JoinHandle;

use hythe_testing::Polling;
use hythe_wire::{Attachment, Options, Service};
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

use super::agent::Host;

/// What `hythe host wire` does, on a host, in a thread.
pub(crate) struct Served {
    stop: Option<std::io::PipeWriter>,
    thread: Option<JoinHandle<std::io::Result<()>>>,
}

impl Served {
    pub(crate) fn start(host: &Host) -> Self {
        let network = format!("/proc/{}/ns/net", host.space.id());
        let network = std::fs::File::open(network).expect("a namespace");
        let interface = host.plug.interface();
        let (stopped, stop) = std::io::pipe().expect("made");
        let thread = std::thread::spawn(move || {
            let kind = Some(LinkNameSpaceType::Network);
            move_into_link_name_space(network.as_fd(), kind).expect("root");
            let options = Options {
                interface,
                user: rustix::process::geteuid().as_raw(),
                path: None,
                attachments: vec![Attachment::Generic],
            };
            let mut polling = Polling::new("a free queue");
            loop {
                match Service::open(options.clone()) {
                    // The kernel lets go of a queue some time after its last socket.
                    Err(error) if error.kind() == ErrorKind::ResourceBusy => {
                        polling.pause_or_show(|| error.to_string());
                    }
                    opened => return opened?.run(stopped),
                }
            }
        });
        let (stop, thread) = (Some(stop), Some(thread));
        Self { stop, thread }
    }

    pub(crate) fn end(&mut self) {
        self.stop = None;
        let thread = self.thread.take().expect("runs");
        thread.join().expect("no panic").expect("ended well");
    }
}

impl Drop for Served {
    fn drop(&mut self) {
        self.stop = None;
        let _ = self.thread.take().map(JoinHandle::join);
        // Unless something else is served.
        let path = hythe_wire::path_of("");
        let _ = std::fs::remove_dir(&path);
        let _ = path.parent().map(std::fs::remove_dir);
    }
}

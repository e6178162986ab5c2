//! Listeners of a process that may open no more files. Alone in its program: the limit is the
//! process's.

use std::io::{ErrorKind, Read as _};
use std::os::fd::OwnedFd;
use std::os::unix::net::{UnixListener, UnixStream};

use hythe_sys::accept::{Accepted, Acceptor};
use rustix::event::{EventfdFlags, eventfd};
use rustix::process::{Resource, getrlimit, setrlimit};

/// Opens files until the system refuses.
fn fill() -> Vec<OwnedFd> {
    let one = || eventfd(0, EventfdFlags::CLOEXEC).ok();
    std::iter::from_fn(one).collect()
}

fn is_hung_up(mut client: &UnixStream) -> bool {
    match client.read(&mut [0]) {
        Ok(count) => count == 0,
        Err(error) => error.kind() != ErrorKind::WouldBlock,
    }
}

#[test]
fn connections_are_refused_and_taken_again_later() {
    let folder = tempfile::tempdir().expect("a folder");
    let path = folder.path().join("socket");
    let listener = UnixListener::bind(&path).expect("bound");
    listener.set_nonblocking(true).expect("set");
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(limit.maximum.unwrap_or(256).min(256));
    setrlimit(Resource::Nofile, limit).expect("lowered");
    let mut acceptor = Acceptor::default();
    let clients: Vec<UnixStream> = (0..100)
        .map(|_| {
            let client = UnixStream::connect(&path).expect("it listens");
            client.set_nonblocking(true).expect("set");
            client
        })
        .collect();

    let mut full = fill();
    let (mut surplus, mut reports) = (0, Vec::new());
    while surplus < clients.len() {
        match acceptor.accept(&listener, |error| reports.push(error.to_string())) {
            Accepted::Surplus(connection) => {
                surplus += 1;
                acceptor.take_back(connection);
                assert!(fill().is_empty(), "others get the spare descriptor");
            }
            Accepted::Connection(_) => panic!("there is no descriptor for it"),
            // After a number of them there is a pause.
            Accepted::Nothing => std::thread::yield_now(),
        }
    }
    assert!(clients.iter().all(is_hung_up));
    assert_eq!(reports.len(), 1, "{reports:?}");
    assert!(reports[0].contains("Too many open files"), "{reports:?}");

    // Nobody connects: nothing to report, and nothing to pause for.
    drop(clients);
    let accepted = acceptor.accept(&listener, |error| panic!("{error}"));
    assert!(matches!(accepted, Accepted::Nothing) && acceptor.pause().is_none());

    full.extend(fill());
    // Other threads get what is not taken back; when no spare one is left, connections wait.
    let late = loop {
        drop(full.pop());
        let client = UnixStream::connect(&path).expect("it listens");
        client.set_nonblocking(true).expect("set");
        match acceptor.accept(&listener, |_| ()) {
            Accepted::Surplus(connection) => {
                drop(connection);
                full.extend(fill());
            }
            Accepted::Connection(_) => panic!("there is no descriptor for it"),
            Accepted::Nothing => break client,
        }
    };
    assert!(acceptor.pause().is_some() && !is_hung_up(&late));

    full.clear();
    loop {
        match acceptor.accept(&listener, |error| panic!("{error}")) {
            Accepted::Connection(_) => break,
            Accepted::Surplus(_) => panic!("descriptors are there"),
            Accepted::Nothing => std::thread::yield_now(),
        }
    }
}

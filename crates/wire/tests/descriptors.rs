//! What a service has open is no more than it was, whatever its processes pass; and it serves again
//! after a time in which it could open nothing. Alone in its program: the limit is the process's.

#[path = "../../xdp/tests/it/links/mod.rs"]
mod links;
#[path = "it/served/mod.rs"]
mod served;

use std::io::IoSlice;
use std::mem::MaybeUninit;
use std::os::fd::{AsFd as _, BorrowedFd, OwnedFd};
use std::time::Instant;

use hythe_testing::eventually;
use hythe_wire::Wire;
use links::{BOUND, Network};
use rustix::event::{EventfdFlags, eventfd};
use rustix::net::{RecvFlags, SendAncillaryBuffer, SendAncillaryMessage, SendFlags, recv, sendmsg};
use rustix::process::{Resource, getrlimit, setrlimit};
use served::{Served, connected, wire};
use tempfile::TempDir;

/// A pipe is nothing that a service expects.
const PASSED: usize = 10;
const MESSAGES: usize = 20;
const CONNECTIONS: usize = 100;

fn files() -> usize {
    std::fs::read_dir("/proc/self/fd").expect("it runs").count()
}

/// Passes descriptors that nobody asked for; how many messages were taken.
fn pass(connection: &OwnedFd, pipe: BorrowedFd<'_>) -> usize {
    let files = [pipe; PASSED];
    let message = [4_u32.to_le_bytes().to_vec(), vec![0; 8]].concat();
    let send = || {
        let mut space = [MaybeUninit::uninit(); rustix::cmsg_space!(ScmRights(PASSED))];
        let mut control = SendAncillaryBuffer::new(&mut space);
        assert!(control.push(SendAncillaryMessage::ScmRights(&files)));
        let pieces = [IoSlice::new(&message)];
        let flags = SendFlags::NOSIGNAL | SendFlags::DONTWAIT;
        sendmsg(connection, &pieces, &mut control, flags).is_ok()
    };
    (0..MESSAGES).filter(|_| send()).count()
}

#[test]
fn service_outlives_floods_and_lacks_of_descriptors() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let folder = TempDir::new().expect("made");
    let mut served = Served::start(folder.path(), "near");
    let mut limit = getrlimit(Resource::Nofile);
    limit.current = Some(limit.maximum.unwrap_or(512).min(512));
    setrlimit(Resource::Nofile, limit).expect("lowered");
    let late = served.connect();
    let one = || eventfd(0, EventfdFlags::CLOEXEC).ok();
    let full: Vec<OwnedFd> = std::iter::from_fn(one).collect();
    // It looks whether its interface is there, and refuses who connects.
    let start = Instant::now();
    let mut answer = [0; 600];
    while let Err(error) = recv(&late, &mut answer, RecvFlags::DONTWAIT) {
        assert_eq!(error, rustix::io::Errno::AGAIN);
        assert!(start.elapsed() < BOUND, "one that connects is not refused");
        std::thread::yield_now();
    }
    drop((full, late));

    let (near, _far) = connected(&network);
    let start = Instant::now();
    let flow = loop {
        match Wire::connect(&served.path, &near, None, BOUND) {
            Ok(wire) => break wire,
            // It may pause.
            Err(error) => assert!(start.elapsed() < BOUND, "{error}"),
        }
    };
    let before = files();
    let (pipe, other_end) = rustix::pipe::pipe().expect("made");
    let mut passed = 0;
    for _ in 0..CONNECTIONS {
        let connection = served.connect();
        passed += pass(&connection, pipe.as_fd()) * PASSED;
    }
    assert!(passed >= CONNECTIONS * PASSED, "{passed} are too few");
    drop((pipe, other_end));
    eventually("its files are closed", || files() <= before);
    drop(flow);
    let (near, _far) = connected(&network);
    drop(wire(&served, &near));
    served.end().expect("it runs").expect("it ends in order");
}

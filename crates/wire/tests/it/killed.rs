//! What a killed process had received and not read is filled again, for others.

use std::time::Instant;

use crate::links::{BOUND, FAR, NEAR, Network, udp};
use crate::served::child::{Child, role, say_where};
use crate::served::{Served, connected, wire};
use hythe_testing::{await_kill, eventually, in_module};
use hythe_wire::Wire;
use tempfile::TempDir;

/// Of the child process of a test: where the service is, and whom it hears.
const ROLE: &str = "HYTHE_TEST_READS_NOTHING";

/// Not a test of its own: the process that the next test kills.
#[test]
fn reads_nothing_and_stays() {
    let Some((path, near)) = role(ROLE) else {
        return;
    };
    let wire = Wire::connect(&path, &near, None, BOUND).expect("granted");
    say_where(&near);
    eventually("its fill ring is empty", || {
        wire.dropped().fill_ring_empty > 0
    });
    eprintln!("full");
    await_kill();
}

#[test]
fn chunks_left_by_killed_process_are_reused() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let folder = TempDir::new().expect("made");
    // Here: the process ends with the thread that has started it.
    let served = Served::start(folder.path(), "near");
    let far = network.at_far(|| udp(FAR));
    let test = in_module("reads_nothing_and_stays");
    let (child, near) = Child::start((&test, ROLE), &served, &far);
    far.connect((NEAR, near)).expect("set");
    // It has all chunks, and more is lost.
    let start = Instant::now();
    while !child.has_said("full") {
        far.send(&[7; 100]).expect("sent");
        assert!(start.elapsed() < BOUND, "its ring takes all that comes");
    }
    let killed = Instant::now();
    drop(child);
    let (near, other_far) = connected(&network);
    let mut other = wire(&served, &near);
    let mut into = [0; 100];
    // More than there are: each chunk is used again.
    let mut got = 0;
    while got < 3_000 {
        other_far.send(b"comes").expect("sent");
        while let Some(bytes) = other.receive(1, &mut into) {
            assert_eq!(into[..bytes], *b"comes");
            if got == 0 {
                eprintln!("chunks were back after {:?}", killed.elapsed());
            }
            got += 1;
        }
        other.flush();
        assert!(killed.elapsed() < BOUND, "{got} came");
    }
}

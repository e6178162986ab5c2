//! What a killed process had received and not read is filled again, for others.

#[path = "../../xdp/tests/links/mod.rs"]
mod links;
mod served;

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::{Command, Stdio};
use std::time::Instant;

use hythe_sys::spawn::die_with_parent;
use hythe_wire::Wire;
use links::{BOUND, FAR, NEAR, Network, udp};
use served::{Served, connected, until, wire};
use tempfile::TempDir;

/// Of the child process of a test: where the service is, and whom it hears.
const ROLE: &str = "HYTHE_TEST_READS_NOTHING";

/// Not a test of its own: the process that the next test kills.
#[test]
fn reads_nothing_and_stays() {
    let Some(role) = std::env::var_os(ROLE) else {
        return;
    };
    let role = role.to_str().expect("readable");
    let (path, port) = role.split_once(' ').expect("two words");
    let near = udp(NEAR);
    let far: u16 = port.parse().expect("a port");
    near.connect((FAR, far)).expect("set");
    let wire = Wire::connect(Path::new(path), &near, None, BOUND).expect("granted");
    eprintln!("at {}", near.local_addr().expect("bound").port());
    until(|| wire.dropped().fill_ring_empty > 0);
    eprintln!("full");
    std::thread::sleep(BOUND);
}

#[test]
fn what_a_killed_process_has_left_unread_is_received_into_again() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let folder = TempDir::new().expect("made");
    // Here: the process ends with the thread that has started it.
    let served = Served::start(folder.path(), "near");
    let far = network.at_far(|| udp(FAR));
    let port = far.local_addr().expect("bound").port();
    let mut command = Command::new(std::env::current_exe().expect("itself"));
    command
        .args(["reads_nothing_and_stays", "--exact", "--nocapture"])
        .env(ROLE, format!("{} {port}", served.path.display()))
        .stdout(Stdio::null())
        .stderr(Stdio::piped());
    die_with_parent(&mut command);
    let mut child = command.spawn().expect("started");
    let lines = BufReader::new(child.stderr.take().expect("piped")).lines();
    let (said, words) = std::sync::mpsc::channel();
    let reading = std::thread::spawn(move || {
        lines
            .map_while(Result::ok)
            .try_for_each(|line| said.send(line))
    });
    let at = loop {
        let line = words.recv_timeout(BOUND).expect("it says where it is");
        if let Some(port) = line.strip_prefix("at ") {
            break port.parse::<u16>().expect("a port");
        }
    };
    far.connect((NEAR, at)).expect("set");
    // It has all chunks, and more is lost.
    let start = Instant::now();
    while !words.try_iter().any(|line| line == "full") {
        far.send(&[7; 100]).expect("sent");
        assert!(start.elapsed() < BOUND, "its ring takes all that comes");
    }
    let (near, other_far) = connected(&network);
    let mut other = wire(&served, &near);
    let (lost, mut into) = (other.dropped().fill_ring_empty, [0; 100]);
    other_far.send(b"lost").expect("sent");
    until(|| other.dropped().fill_ring_empty > lost);
    assert_eq!(
        other.receive(1, &mut into),
        None,
        "there is no chunk for it"
    );
    child.kill().expect("runs");
    let killed = Instant::now();
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
    child.wait().expect("ended");
    let _ = reading.join().expect("no panic");
}

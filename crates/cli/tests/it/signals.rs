//! Commands that are asked to end by signals, once and twice.

use std::io::Write;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::process::Stdio;
use std::time::Duration;

use crate::support::streams::{self, wait_until_listening};
use crate::support::{Root, Running, eventually};
use hythe_testing::let_time_pass;
use rustix::process::Signal;
use serde_json::Value;

/// What a second signal has written.
const LINE: &str = "ended at the second signal";

fn receive(root: &Root, port: u16) -> std::process::Command {
    let address = format!("rtp://127.0.0.1:{port}");
    let out = root.path().join("out.ts");
    let out = out.to_str().expect("plain");
    let arguments = ["media", "recv", &address, "--payload", "ts", "--json"];
    root.command(&[&arguments[..], &["--out", out]].concat())
}

/// A terminal and `timeout` signal a process and its group; service managers send two kinds.
#[test]
fn two_signals_at_once_end_a_command_in_order() {
    let root = Root::new();
    for _ in 0..5 {
        let port = streams::port();
        let running = Running::new(receive(&root, port));
        wait_until_listening(port);
        // Both wait for it when it goes on.
        running.signal(Signal::STOP);
        running.signal(Signal::INT);
        running.signal(Signal::TERM);
        running.signal(Signal::CONT);
        let ended = running.end();
        if ended.errors.contains(LINE) {
            // The machine kept it from running between the two.
            assert_eq!(ended.code, Some(1));
            continue;
        }
        ended.succeeded();
        let document: Value = serde_json::from_slice(&ended.output).expect("one document");
        assert_eq!(document["ended"], "stopped");
    }
}

#[test]
fn command_that_does_not_end_is_ended_by_a_later_signal() {
    let root = Root::new();
    // A full socket, which nobody reads: the command waits to print its document.
    let (mut full, _unread) = UnixStream::pair().expect("a pair");
    full.set_nonblocking(true).expect("ours");
    while full.write(&[0; 4096]).is_ok() {}
    while full.write(&[0]).is_ok() {}
    full.set_nonblocking(false).expect("ours");
    let port = streams::port();
    let mut command = receive(&root, port);
    command.stdout(Stdio::from(
        full.as_fd().try_clone_to_owned().expect("a descriptor"),
    ));
    let running = Running::new(command);
    wait_until_listening(port);
    running.interrupt();
    eventually("it closes its port", || !streams::is_bound(port));
    eventually("it ends at another signal", || {
        let_time_pass(
            Duration::from_millis(250),
            "longer than signals count as one",
        );
        running.interrupt();
        running.said().contains(LINE)
    });
    running.end().failed(1, &[LINE]);
}

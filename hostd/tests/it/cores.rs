//! A core's methods, called from another host.

use std::process::{Child, Command, Stdio};
use std::time::Duration;

use crate::network::agent::{Host, LONG, eventually, pair};
use crate::network::{Lan, is_skipped};
use hythe::request::ClientOptions;
use hythe::rpc::Caller;
use hythe_node::NodeError;

/// A core that is a process of this machine; what runs on it serves calls (`rtos/apps/p1`).
const BOARD: &str = "hosted";
const APP: &str = "p1";
const CALLS: &str = "core/calls";

const REVERSE: u32 = 1;
const FAIL: u32 = 3;
const FILL: u32 = 4;

/// `hythe`, which the workspace builds: `make test-hosts` names it.
fn hythe() -> Option<String> {
    let program = std::env::var("HYTHE_COMMAND").ok();
    if program.is_none() {
        eprintln!("SKIPPED (no HYTHE_COMMAND; `make test-hosts` builds it): a core on two hosts");
    }
    program.filter(|_| !is_skipped())
}

/// A core of a host; stopped with the value.
struct Core<'a> {
    host: &'a Host,
    hythe: &'a str,
    run: Child,
}

impl<'a> Core<'a> {
    fn start(host: &'a Host, hythe: &'a str) -> Self {
        let words = ["core", "run", BOARD, "--app", APP];
        let run = command(host, hythe, &words).spawn().expect("nsenter");
        Self { host, hythe, run }
    }

    /// As a user stops it, and to its end.
    fn stop(&mut self) {
        let stop = command(self.host, self.hythe, &["core", "stop", BOARD]).output();
        let stop = stop.expect("nsenter");
        assert!(stop.status.success(), "{stop:?}");
        assert!(self.run.wait().expect("its end").success());
    }
}

impl Drop for Core<'_> {
    fn drop(&mut self) {
        let _ = self.run.kill();
        let _ = self.run.wait();
    }
}

/// `hythe` on a host.
fn command(host: &Host, hythe: &str, words: &[&str]) -> Command {
    let mut command = host.space.command(hythe);
    command.env("HYTHE_ROOT", host.path("pools")).args(words);
    command.stdin(Stdio::null()).stdout(Stdio::null());
    command
}

#[test]
fn client_calls_the_methods_of_a_core_on_another_host() {
    let Some(hythe) = hythe() else { return };
    let lan = Lan::new(1);
    let [a, b] = pair(&lan);
    let mut core = Core::start(&a, &hythe);
    let there = b.join("caller");
    let client = there.client(CALLS, &ClientOptions::default());
    let mut client = client.expect("a client");
    eventually("the calls reach the core's host", || {
        a.channels().iter().any(|one| one == CALLS)
    });
    // The core may still be starting, for longer than a call waits for it.
    let served = client.wait_for_servers(1, LONG);
    assert!(served.expect("sound"), "the core serves nothing");
    let mut call = |method, argument: &[u8]| {
        let mut caller = Caller::new(&mut client);
        caller
            .call(method, argument, LONG)
            .map(|reply| reply.to_vec())
    };
    for bytes in [0_usize, 1, 3000, 60_000] {
        let argument: Vec<u8> = (0..bytes).map(|at| at as u8).collect();
        let mut reversed = argument.clone();
        reversed.reverse();
        assert_eq!(call(REVERSE, &argument).expect("a result"), reversed);
    }
    assert_eq!(
        call(FILL, &1000_u32.to_le_bytes()).expect("a result"),
        [0x5A; 1000]
    );
    let failed = call(FAIL, &7_u32.to_le_bytes()).expect_err("fails");
    assert!(
        matches!(failed, NodeError::MethodFailed { number: 7, .. }),
        "{failed}"
    );
    // A core that goes is a server that goes.
    core.stop();
    let mut caller = Caller::new(&mut client);
    let gone = caller.call(REVERSE, b"abc", Duration::from_millis(500));
    assert!(gone.is_err(), "{gone:?}");
    drop(client);
    let nothing_is_held = |host: &Host| {
        let audit = host.join("auditor").pool().snapshot().audit;
        assert!(audit.mismatches.is_empty(), "{:?}", audit.mismatches);
        audit.free == audit.slots
    };
    for host in [&a, &b] {
        eventually("all slots are free", || nothing_is_held(host));
    }
}

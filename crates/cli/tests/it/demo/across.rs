//! `hythe demo --across`: a core's channel of one host reaches the sender on another.

use std::path::PathBuf;

use crate::demo::world::{World, exact};

/// The agent, which is built apart: `make test-hosts` names it.
fn agent() -> Option<PathBuf> {
    let agent = std::env::var_os("HYTHE_HOSTD").map(PathBuf::from);
    if agent.is_none() {
        eprintln!("SKIPPED (no HYTHE_HOSTD; `make test-hosts` builds it): a demo on two hosts");
    }
    agent.filter(|_| {
        let is_root = rustix::process::geteuid().is_root();
        if !is_root {
            eprintln!("SKIPPED: network namespaces need root");
        }
        is_root
    })
}

#[test]
fn core_on_another_host_plays_sample_for_sample() {
    let Some(agent) = agent() else { return };
    assert!(agent.is_file(), "{}", agent.display());
    for board in ["hosted", "mps2-an386"] {
        let world = World::new();
        let file = world.recording("plain.mp3", &["-t", "3"]);
        let verdict = world.demo(&["--across", "--board", board, &file]);
        exact(&verdict);
        let hops = verdict["hops"].as_array().expect("hops");
        let host = hops.iter().find(|hop| hop["name"] == "core, host");
        let host = host.expect("the way over both");
        assert_eq!(host["cpu_copies"], 4, "{verdict}");
        assert!(host["buffers"].as_u64() > Some(0), "{verdict}");
        world.is_clean();
    }
}

#[test]
fn agent_that_is_not_there_is_named() {
    let world = World::new();
    let file = world.recording("plain.mp3", &["-t", "1"]);
    let mut command = world.command(&["demo", "--across", &file]);
    let output = command.env("HYTHE_HOSTD", "/nowhere/agent").output();
    let output = output.expect("it runs");
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(output.status.code(), Some(1), "{said}");
    assert!(said.contains("there is no /nowhere/agent"), "{said}");
    assert!(said.contains("make hosts"), "{said}");
    world.is_clean();
}

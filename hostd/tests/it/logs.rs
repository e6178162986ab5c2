//! What an agent says, and how much of it is kept.

use std::fs::File;
use std::os::unix::fs::MetadataExt as _;
use std::process::Stdio;

use crate::network::agent::{Host, eventually};
use crate::network::{Lan, is_skipped};
use hythe_hostd::log::LOG_BYTES_MAX;

fn begun(lan: &Lan) -> Host {
    let host = Host::on(lan, 1);
    host.said(&["init", "--name", "a", "--address", &host.plug.address()]);
    host
}

fn read(host: &Host, name: &str) -> String {
    std::fs::read_to_string(host.path("hosts").join(name)).unwrap_or_default()
}

/// Fills the log up to so many bytes below the limit.
fn fill(host: &Host, free: u64) {
    let line = "what was said before\n";
    let mut text = line.repeat(LOG_BYTES_MAX as usize / line.len() + 1);
    text.truncate((LOG_BYTES_MAX - free) as usize);
    std::fs::write(host.path("hosts").join("agent.log"), text).expect("written");
}

#[test]
fn log_of_an_agent_is_bounded_and_the_one_before_is_kept() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(1);
    let host = begun(&lan);
    // Its first line does not fit any more: the agent itself begins a new one.
    fill(&host, 20);
    host.said(&["start"]);
    eventually("it is said", || {
        read(&host, "agent.log").contains("the agent runs")
    });
    let (now, before) = (read(&host, "agent.log"), read(&host, "agent.log.1"));
    assert!(
        now.contains(" INFO  hythe_hostd::agent: the agent runs host=a"),
        "{now}"
    );
    assert!(!now.contains("what was said before"), "{now}");
    assert_eq!(before.len() as u64, LOG_BYTES_MAX - 20);
    host.stop();
    eventually("it has stopped", || {
        read(&host, "agent.log").contains("has stopped")
    });
    // Where it is full at the start, it is renewed then; why it fails is found all the same.
    fill(&host, 0);
    let taken = host.path("hosts").join("host.key");
    std::fs::rename(&taken, host.path("kept")).expect("moved");
    let refusal = host.refusal(&["start"]);
    assert!(refusal.contains("has no host.key"), "{refusal}");
    assert_eq!(read(&host, "agent.log.1").len() as u64, LOG_BYTES_MAX);
    assert!(read(&host, "agent.log").contains("has no host.key"));
}

#[test]
fn journal_is_told_levels_and_no_time() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(2);
    let host = begun(&lan);
    let journal = File::create(host.path("journal")).expect("made");
    let it = journal.metadata().expect("there");
    let mut command = host.command();
    command.args(["start", "--foreground"]).stderr(journal);
    command.env("JOURNAL_STREAM", format!("{}:{}", it.dev(), it.ino()));
    let mut agent = command.stdout(Stdio::null()).spawn().expect("started");
    let said = || std::fs::read_to_string(host.path("journal")).expect("text");
    let wanted = "<6>hythe_hostd::agent: the agent runs host=a";
    eventually("it is said", || {
        said().lines().any(|line| line.starts_with(wanted))
    });
    host.stop();
    assert!(agent.wait().expect("its end").success());
    // A filter that is none is no reason to say nothing.
    let mut command = host.command();
    command
        .args(["start", "--foreground"])
        .env("RUST_LOG", "hythe=loudly");
    let output = command.output().expect("run");
    let text = String::from_utf8_lossy(&output.stderr);
    assert!(
        text.contains("RUST_LOG=`hythe=loudly` is no filter"),
        "{text}"
    );
}

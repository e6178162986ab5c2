//! An agent that may open no more files goes on with what it carries, answers commands, and stops.

use std::path::Path;

use crate::network::agent::{LEASE, LONG, are_connected, eventually, pair, programs, start_anew};
use crate::network::{Lan, is_skipped};
use hythe_node::{Node, Publisher, PublisherOptions, Subscriber, SubscriberOptions};

/// Far less than the channels below need.
const FILES_MAX: usize = 64;
const CHANNELS: usize = 40;

fn files(pid: u32) -> usize {
    let files = std::fs::read_dir(Path::new("/proc").join(pid.to_string()).join("fd"));
    files.expect("it runs").count()
}

fn publisher(node: &Node, channel: &str) -> Publisher {
    let options = PublisherOptions::default();
    node.publisher(channel, &options).expect("published")
}

fn subscriber(node: &Node, channel: &str) -> Subscriber {
    let options = SubscriberOptions::default();
    node.subscriber(channel, &options).expect("subscribed")
}

#[test]
fn agent_without_descriptors_goes_on() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(61);
    let [a, b] = pair(&lan);
    // For a machine under load.
    start_anew(&[&b], |_| Vec::new());
    a.stop();
    let mut command = a.space.command("sh");
    command.env("HYTHE_HOSTS_DIR", a.path("hosts"));
    command.env("HYTHE_ROOT", a.path("pools"));
    let script = format!("ulimit -n {FILES_MAX}; exec \"$0\" start --lease {LEASE}");
    command
        .args(["-c", &script])
        .arg(programs().join("hythe-hostd"));
    eventually("its agent runs", || {
        command.output().expect("run").status.success()
    });
    eventually("they are connected", || are_connected(&a, &b));
    let pid = a.status().expect("it runs").pid;
    let (from, to) = (b.join("from"), a.join("to"));
    let mut carried = (publisher(&from, "carried"), subscriber(&to, "carried"));
    let reached = carried.0.wait_for_subscribers(1, LONG);
    assert!(reached.expect("sound"), "it is carried before");

    let names: Vec<String> = (0..CHANNELS).map(|number| format!("c{number}")).collect();
    let _publishers: Vec<Publisher> = names.iter().map(|name| publisher(&from, name)).collect();
    let _subscribers: Vec<Subscriber> = names.iter().map(|name| subscriber(&to, name)).collect();
    let log = a.path("hosts").join("agent.log");
    eventually("it says that it may open no more files", || {
        // Each of them is a connection for which there may be none.
        assert!(a.status().is_some(), "the agent is gone");
        let said = std::fs::read_to_string(&log).unwrap_or_default();
        files(pid) + 2 >= FILES_MAX && said.contains("Too many open files")
    });
    eventually("its status says so, too", || {
        let Some(status) = a.status() else {
            return false;
        };
        let sessions = status.hosts.iter().filter_map(|host| host.session.as_ref());
        let mut channels = sessions.flat_map(|session| &session.channels);
        let names_files = channels.any(|channel| channel.reason.contains("no open files left"));
        let limit = status.no_files_left.map(|files| files.limit);
        limit == Some(FILES_MAX as u64) && names_files
    });
    // Each answer takes a descriptor that others of the agent wait for, too.
    for _ in 0..100 {
        eventually("it answers", || {
            a.status().is_some_and(|status| status.pid == pid)
        });
    }
    let mut lease = carried.0.lease(5).expect("a slot");
    lease.write(0, b"still");
    carried.0.publish(lease, 5).expect("published");
    let taken = carried.1.take(LONG).expect("sound").expect("it arrives");
    assert_eq!(taken.to_vec(), b"still");
    a.stop();
    eventually("it has stopped", || a.status().is_none());
}

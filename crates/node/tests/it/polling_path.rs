//! The polling path (lease, publish, take, forward, drop) asks neither the allocator nor the kernel
//! for anything.
//!
//! Allocations are counted on this thread. System calls are proven absent: a process that plays
//! [`ROLE`] goes the way under a seccomp filter that ends it at the first call but the one by which
//! it says that it came through. Both proofs are shown to fail when there is something to find.

use crate::support;

use std::collections::BTreeMap;
use std::hint::black_box;
use std::os::fd::{AsFd, AsRawFd};
use std::os::unix::process::ExitStatusExt;
use std::process::Output;

use crate::support::Root;
use hythe_node::{Node, Publisher, PublisherOptions, Sample, Subscriber, SubscriberOptions};
use hythe_testing::in_module;

/// The environment variable that makes [`goes_the_way_confined`] do something, and what it may be.
const ROLE: &str = "HYTHE_TEST_CONFINED";
/// Only the way itself.
const HONEST: &str = "honest";
/// And one system call.
const PLANTED: &str = "planted";

/// Printed by a process that came through, and by one that could not be confined.
const CAME_THROUGH: &str = "came through";
const UNCONFINED: &str = "cannot be confined";

/// Until everything is connected, mapped and touched.
const WARM_UP: usize = 100;
const MESSAGES: usize = 1000;
const BYTES: usize = 64;
const SIGSYS: i32 = 31;

/// From a source over a relay to a sink, each a participant of its own.
struct Way {
    source: Publisher,
    into_relay: Subscriber,
    relay: Publisher,
    sink: Subscriber,
    _nodes: [Node; 3],
}

impl Way {
    fn open(root: &Root) -> Self {
        let pool = root.pool();
        let nodes = ["source", "relay", "sink"].map(|name| Node::join(&pool, name).expect("joins"));
        let subscriber = |node: &Node, channel| {
            let opened = node.subscriber(channel, &SubscriberOptions::default());
            opened.expect("opens")
        };
        let publisher = |node: &Node, channel| {
            let opened = node.publisher(channel, &PublisherOptions::default());
            opened.expect("opens")
        };
        let mut way = Self {
            into_relay: subscriber(&nodes[1], "first"),
            sink: subscriber(&nodes[2], "second"),
            source: publisher(&nodes[0], "first"),
            relay: publisher(&nodes[1], "second"),
            _nodes: nodes,
        };
        (0..WARM_UP).for_each(|_| way.carry(&mut |_, step| step()));
        way
    }

    /// One message; `watched` is given the name of each step, and performs it.
    fn carry(&mut self, watched: &mut dyn FnMut(&'static str, &mut dyn FnMut())) {
        let mut lease = None;
        watched("lease", &mut || {
            lease = Some(self.source.lease(BYTES).expect("free"));
        });
        watched("write and publish", &mut || {
            let mut lease = lease.take().expect("leased");
            lease.write(0, &[7; BYTES]);
            let published = self.source.publish(lease, BYTES).expect("published");
            assert_eq!(published.delivered, 1);
        });
        let mut sample = None;
        watched("take", &mut || sample = take(&mut self.into_relay));
        watched("forward", &mut || {
            let sample = sample.take().expect("published");
            let published = self.relay.forward(sample).expect("forwarded");
            assert_eq!(published.delivered, 1);
        });
        watched("take what was forwarded", &mut || {
            sample = take(&mut self.sink)
        });
        watched("drop", &mut || drop(sample.take().expect("forwarded")));
        watched("take nothing", &mut || {
            assert!(take(&mut self.sink).is_none());
        });
    }
}

fn take(subscriber: &mut Subscriber) -> Option<Sample> {
    subscriber.try_take().expect("sound")
}

/// How often the allocator was asked, by step.
fn allocations(way: &mut Way) -> BTreeMap<&'static str, u64> {
    let mut found = BTreeMap::new();
    for _ in 0..MESSAGES {
        way.carry(&mut |name, step| {
            let counted = allocation_counter::measure(step);
            *found.entry(name).or_default() += counted.count_total;
        });
    }
    found
}

#[test]
fn no_message_allocates() {
    let root = Root::new();
    let found = allocations(&mut Way::open(&root));
    assert_eq!(found.len(), 7, "a step was not watched");
    assert!(found.values().all(|&count| count == 0), "{found:?}");
}

#[test]
fn allocation_would_be_counted() {
    let counted = allocation_counter::measure(|| drop(black_box(Box::new(black_box(7)))));
    assert_eq!(counted.count_total, 1);
}

#[test]
fn no_message_makes_a_system_call() {
    let Some(output) = confined(HONEST) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(
        said.contains(CAME_THROUGH),
        "a system call on the way: it ended with {} and said: {said}{}",
        output.status,
        String::from_utf8_lossy(&output.stderr)
    );
}

#[test]
fn system_call_would_be_noticed() {
    let Some(output) = confined(PLANTED) else {
        return;
    };
    let said = String::from_utf8_lossy(&output.stdout);
    assert!(!said.contains(CAME_THROUGH), "{said}");
    assert_eq!(output.status.signal(), Some(SIGSYS), "{output:?}");
}

/// This program again, with a role. `None`, said aloud, where nothing can be confined.
fn confined(role: &str) -> Option<Output> {
    let root = Root::new();
    let output = support::again::command()
        .env("TMPDIR", root.path())
        .args([
            "--exact",
            &in_module("goes_the_way_confined"),
            "--nocapture",
        ])
        .env(ROLE, role)
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&output.stdout);
    if said.contains(UNCONFINED) {
        eprintln!("SKIPPED (needs seccomp): whether the polling path makes system calls; {said}");
        return None;
    }
    Some(output)
}

/// Does nothing without [`ROLE`]. With it, it never ends well: leaving takes system calls.
#[test]
fn goes_the_way_confined() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    // Below the directory of the test that started it, which removes what this process leaves.
    let root = Root::new();
    let mut way = Way::open(&root);
    // Has a number of its own: whatever else is written is a call too many.
    let output = std::io::stdout().as_fd().try_clone_to_owned();
    let output = output.expect("a descriptor");
    if let Err(why) = confine(output.as_raw_fd()) {
        println!("{UNCONFINED}: {why}");
        return;
    }
    for _ in 0..MESSAGES {
        way.carry(&mut |_, step| step());
        if role == PLANTED {
            black_box(rustix::process::getppid());
        }
    }
    let _ = rustix::io::write(&output, CAME_THROUGH.as_bytes());
}

#[cfg(not(target_pointer_width = "64"))]
fn confine(_output: i32) -> Result<(), String> {
    Err("seccompiler knows no processor of 32 bits".to_owned())
}

#[cfg(target_pointer_width = "64")]
fn confine(output: i32) -> Result<(), String> {
    seccomp::confine(output).map_err(|error| error.to_string())
}

#[cfg(target_pointer_width = "64")]
mod seccomp {
    use std::collections::BTreeMap;

    use seccompiler::{
        BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
        SeccompFilter, SeccompRule,
    };

    /// From now on this thread may write to `output`, and any other system call ends the process.
    pub(super) fn confine(output: i32) -> Result<(), Error> {
        let number = u64::from(output.cast_unsigned());
        let is_output =
            SeccompCondition::new(0, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, number)?;
        let filter = SeccompFilter::new(
            BTreeMap::from([(libc::SYS_write, vec![SeccompRule::new(vec![is_output])?])]),
            SeccompAction::KillProcess,
            SeccompAction::Allow,
            std::env::consts::ARCH.try_into()?,
        );
        let program: BpfProgram = filter?.try_into()?;
        seccompiler::apply_filter(&program)
    }
}

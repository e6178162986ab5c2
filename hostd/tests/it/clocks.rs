//! Two hosts whose clocks differ by decades, and a clock that is set while they are connected: they
//! find each other, prove their names, and carry channels all the same.
//!
//! The clock of a host is wrong by a library in front of its agent (`clock/shifted.c`): a machine
//! has one wall clock, which no namespace shifts.

use std::path::PathBuf;
use std::process::Command;
use std::time::{Duration, Instant, SystemTime, UNIX_EPOCH};

use crate::network::agent::{Host, LEASE, LONG, are_connected, eventually, first, have_patience};
use crate::network::{Lan, is_skipped};
use hythe_node::{Node, Publisher, PublisherOptions, Subscriber, SubscriberOptions};
use rustix::process::Signal;

/// Longer than [`LEASE`], so that a session that was silent would have ended.
const BEYOND_A_LEASE: Duration = Duration::from_secs(12);
const YEAR: i64 = 365 * 24 * 60 * 60;

/// The library, built for this host; `None`, said aloud, where there is no C compiler.
fn shifted_clock(host: &Host) -> Option<PathBuf> {
    let library = host.path("shifted.so");
    let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/clock/shifted.c");
    let mut compiler = Command::new("cc");
    compiler
        .args(["-shared", "-fPIC", "-O1", "-o"])
        .arg(&library);
    match compiler.arg(source).status() {
        Ok(status) => assert!(status.success(), "{source} does not compile"),
        Err(error) => {
            eprintln!("SKIPPED: a wrong clock needs a C compiler: {error}");
            return None;
        }
    }
    Some(library)
}

/// A host with a clock that can be set.
struct Shifted {
    host: Host,
    clock: PathBuf,
}

impl Shifted {
    fn on(lan: &Lan, number: u8) -> Option<Self> {
        let mut host = Host::on(lan, number);
        let (library, clock) = (shifted_clock(&host)?, host.path("clock"));
        host.environment = vec![("LD_PRELOAD", library), ("HYTHE_TEST_CLOCK", clock.clone())];
        Some(Self { host, clock })
    }

    /// Sets its clock to so many seconds after the beginning of 1970.
    fn set(&self, seconds: i64) {
        let now = SystemTime::now().duration_since(UNIX_EPOCH).expect("later");
        let wrong_by = seconds - i64::try_from(now.as_secs()).expect("soon");
        // In one step: who reads it meanwhile has the one or the other.
        let new = self.host.path("new clock");
        std::fs::write(&new, wrong_by.to_string()).expect("written");
        std::fs::rename(new, &self.clock).expect("renamed");
    }

    /// The year, as programs with the agent's environment see it.
    fn year(&self) -> String {
        let mut date = self.host.space.command("date");
        let date = date.args(["-u", "+%Y"]).envs(self.host.environment.clone());
        let said = date.output().expect("date").stdout;
        String::from_utf8(said).expect("text").trim().to_owned()
    }
}

/// A channel from one host to the other.
struct Crossing {
    publisher: Publisher,
    subscriber: Subscriber,
}

impl Crossing {
    fn open(from: &Node, to: &Node, channel: &str) -> Self {
        let publisher = from.publisher(channel, &PublisherOptions::default());
        let subscriber = to.subscriber(channel, &SubscriberOptions::default());
        Self {
            publisher: publisher.expect("opened"),
            subscriber: subscriber.expect("opened"),
        }
    }

    fn assert_crosses(&mut self) {
        let waited = self.publisher.wait_for_subscribers(1, LONG);
        assert!(waited.expect("sound"), "{}", self.publisher.channel());
        let lease = self.publisher.lease(8).expect("a slot");
        self.publisher.publish(lease, 8).expect("published");
        let taken = self.subscriber.take(LONG).expect("sound");
        assert!(taken.is_some(), "{}", self.publisher.channel());
    }
}

fn sessions(host: &Host, other: &str) -> u64 {
    host.status_of(other).expect("known").sessions
}

#[test]
fn hosts_work_together_whatever_their_clocks_say() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(1);
    let Some(b) = Shifted::on(&lan, 2) else {
        return;
    };
    // A device whose clock was never set.
    b.set(100);
    assert_eq!(b.year(), "1970");
    let a = first(&lan);
    a.take_in(&b.host, "b");
    have_patience(&[&a, &b.host]);
    let both = || are_connected(&a, &b.host);
    eventually("a and b are connected", both);
    let (here, there) = (a.join("here"), b.host.join("there"));
    let mut channels = [
        Crossing::open(&here, &there, "from a"),
        Crossing::open(&there, &here, "from b"),
    ];
    channels.iter_mut().for_each(Crossing::assert_crosses);

    // It is set, far forward and far back, under a session at work.
    let before = [sessions(&a, "b"), sessions(&b.host, "a")];
    for seconds in [130 * YEAR, 100, 60 * YEAR] {
        b.set(seconds);
        let since = Instant::now();
        while since.elapsed() < BEYOND_A_LEASE {
            channels.iter_mut().for_each(Crossing::assert_crosses);
        }
    }
    assert_eq!([sessions(&a, "b"), sessions(&b.host, "a")], before);

    // Its agent begins anew with a clock that says less than when it was added.
    b.host.signal(Signal::KILL);
    eventually("a knows that b has gone", || !a.is_connected_with("b"));
    b.set(0);
    b.host.said(&["start", "--lease", LEASE]);
    eventually("a and b are connected again", both);
    channels.iter_mut().for_each(Crossing::assert_crosses);
}

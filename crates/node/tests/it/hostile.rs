//! A hostile process beside honest ones: it scribbles over every shared word and over payload, and
//! at last cuts the files away. Nobody crashes, panics, or is kept past its time-outs, and the
//! damage is counted and named.
//!
//! The honest processes are this test program again, asked by [`ROLE`] to be one of [`roles`]. Each
//! watches its own calls: one that lasts [`KEPT`] longer than its time-out ends the process, with
//! the name of the call. Seeded; a certain seed, or more rounds: `HYTHE_FUZZ_SEED=17
//! HYTHE_FUZZ_ROUNDS=100 cargo test -p hythe-node --test it hostile::`. How the processes
//! interleave is the scheduler's choice: `crates/pool/tests/it/hostile.rs` has runs that can be had
//! again.

use crate::support;
use crate::words;

use std::collections::BTreeMap;
use std::fs::OpenOptions;
use std::io::{BufRead, BufReader, Read};
use std::process::{Child, ChildStdout, ExitStatus, Stdio};
use std::sync::Mutex;
use std::time::{Duration, Instant};

use crate::choices::Choices;
use crate::support::player::until_told;
use crate::support::{Root, fill, in_a_small_file_system};
use hythe_memory::{Access, Mapped, Memory, Ordering};
use hythe_node::hop::HopPool as _;
use hythe_node::{
    ClassPlan, Geometry, Limits, Node, NodeError, Pool, PoolError, PoolOptions, PortPolicy,
    PublisherOptions, SubscriberOptions,
};
use hythe_testing::{in_module, let_time_pass};
use rustix::process::{Pid, Signal, WaitOptions, kill_process, waitpid};

const ROLE: &str = "HYTHE_TEST_ROLE";
const SEED: &str = "HYTHE_TEST_SEED";
const ROUND: Duration = Duration::from_millis(1500);
/// Between two tries at a pool that refuses.
const REFUSED_PAUSE: Duration = Duration::from_millis(20);
/// The time-out of every call of the honest.
const SEND_TIMEOUT: Duration = Duration::from_millis(50);
/// How much longer than that a call may last on a machine with other things to do. It only ends
/// tests that have failed.
const KEPT: Duration = Duration::from_secs(120);
/// Exit status of an honest process that was kept.
const KEPT_STATUS: i32 = 77;

/// Exit status of one that panicked.
const PANIC_STATUS: i32 = 78;

mod roles {
    /// Joins, leases, publishes, takes, forwards, leaves.
    pub(super) const WORKER: &str = "worker";
    /// Looks at the pool from outside.
    pub(super) const LOOKER: &str = "looker";
}

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().expect("a number"))
}

fn geometry() -> Geometry {
    let limits = Limits {
        participants: 10,
        channels: 4,
        ports: 16,
        connections: 16,
        queue_segments: 24,
        slots: 8,
    };
    let class = |payload_bytes, count| ClassPlan {
        payload_bytes,
        count,
    };
    let plan = [class(768, 16), class(3840, 8), class(65536, 4)];
    Geometry::with_classes(limits, &plan).expect("geometry")
}

fn options(root: &Root) -> PoolOptions {
    root.options().geometry(geometry())
}

/// What the parent does to the pool while the others work.
#[derive(Clone, Copy, Debug)]
enum Deed {
    Scribble,
    /// First scribbles, then cuts the file.
    Cut(&'static str, u64),
    /// First scribbles, then fills the file system, gives the pages of a file away, and fills it
    /// again.
    Starve(&'static str),
}

/// An honest process says so when it has opened the pool.
const OPENED: &str = "opened the pool";

struct Honest {
    role: &'static str,
    child: Child,
    output: BufReader<ChildStdout>,
}

impl Honest {
    fn start(root: &Root, role: &'static str, seed: u64) -> Self {
        let mut child = support::again::command()
            .args(["--exact", &in_module("plays_its_role"), "--nocapture"])
            .env(ROLE, role)
            .env(SEED, seed.to_string())
            .env("HYTHE_ROOT", root.path())
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()
            .expect("started");
        let output = child.stdout.take().expect("piped");
        let mut one = Self {
            role,
            child,
            output: BufReader::new(output),
        };
        let opened = one.output.by_ref().lines().map_while(Result::ok);
        assert!(
            opened.into_iter().any(|line| line.contains(OPENED)),
            "{role} ended before it had opened the pool"
        );
        one
    }

    /// It has opened the pool, and works from now on.
    fn begin(&mut self) {
        drop(self.child.stdin.take());
    }

    /// Returns when it does nothing any more.
    fn halt(&self) {
        let pid = Pid::from_child(&self.child);
        kill_process(pid, Signal::STOP).expect("own child");
        let status = waitpid(Some(pid), WaitOptions::UNTRACED).expect("own child");
        assert!(
            status.is_some_and(|(_, status)| status.stopped()),
            "{} ended early",
            self.role
        );
    }

    fn go_on(&self) {
        kill_process(Pid::from_child(&self.child), Signal::CONT).expect("own child");
    }

    /// What it says when it is done, and how it ended.
    fn end(mut self) -> (&'static str, String, ExitStatus) {
        let mut said = Vec::new();
        self.output.read_to_end(&mut said).expect("own child");
        let status = self.child.wait().expect("own child");
        (
            self.role,
            String::from_utf8_lossy(&said).into_owned(),
            status,
        )
    }
}

/// Returns how often damage was named: in answers, and by the audit at the end.
fn round(root: &Root, seed: u64, deed: Deed) -> usize {
    let pool = Pool::open_or_create(&options(root)).expect("made");
    let mut honest: Vec<Honest> = [roles::WORKER, roles::WORKER, roles::WORKER, roles::LOOKER]
        .into_iter()
        .enumerate()
        .map(|(index, role)| Honest::start(root, role, seed * 10 + index as u64))
        .collect();
    // Only now: starting takes as long as it takes, and nobody has to open a pool that is full of
    // lies.
    honest.iter_mut().for_each(Honest::begin);
    let scribbles = scribble(&pool, seed);
    let filler = match deed {
        Deed::Scribble => Vec::new(),
        Deed::Cut(name, bytes) => {
            let file = OpenOptions::new().write(true).open(pool.path().join(name));
            file.and_then(|file| file.set_len(bytes)).expect("cut");
            Vec::new()
        }
        Deed::Starve(name) => {
            // Who touched a page between the hole and the filling would find zeroes, and no loss.
            honest.iter().for_each(Honest::halt);
            let fillers = starve(root, &pool.path().join(name));
            honest.iter().for_each(Honest::go_on);
            fillers
        }
    };
    println!("seed {seed}, {deed:?}: {scribbles} scribbles");
    let mut named = 0;
    for one in honest {
        let (role, said, status) = one.end();
        let done = said.lines().find_map(|line| line.split_once("role: "));
        println!("  {role}: {}", done.map_or("", |(_, said)| said));
        assert!(
            status.success(),
            "seed {seed}: {role} ended by {status}: {said}"
        );
        assert!(done.is_some(), "seed {seed}: {role} said nothing: {said}");
        if matches!(deed, Deed::Cut("control", _) | Deed::Starve("control")) {
            assert!(said.contains("PoolLost"), "seed {seed}: {role}: {said}");
        }
        let names = [
            "Damaged",
            "NotAPool",
            "OtherVersion",
            "BadDescriptor",
            "PoolLost",
        ];
        named += names.iter().filter(|name| said.contains(**name)).count();
    }
    let mismatches = pool.snapshot().audit.mismatches.len();
    println!("  the audit finds {mismatches} slots that do not add up");
    drop(filler);
    // Whoever comes to clean up gets the pool away.
    Pool::remove_by_force(&options(root)).expect("removed");
    named + mismatches
}

/// For a round: bursts of lies, and pauses in which the honest find together again.
fn scribble(pool: &Pool, seed: u64) -> u64 {
    let mut choices = Choices::Seed(seed);
    let layout = *pool.control().layout();
    let region = OpenOptions::new()
        .read(true)
        .write(true)
        .open(pool.path().join("region.0"))
        .expect("region");
    let bytes = region.metadata().expect("metadata").len() as usize;
    let region = Mapped::file(&region, 0, bytes, Access::Write).expect("mapped");
    let control = pool.control().memory();
    let (start, mut scribbles) = (Instant::now(), 0);
    while start.elapsed() < ROUND {
        for _ in 0..choices.below(32) {
            let at = words::anywhere(&layout, &mut choices);
            let found = control.load(at, Ordering::Relaxed);
            control.store(at, words::lie(found, &mut choices), Ordering::Relaxed);
            let payload = choices.below(bytes as u32 / 4) as usize * 4;
            region.store(payload, choices.below(u32::MAX), Ordering::Relaxed);
            scribbles += 1;
        }
        let pause = Duration::from_micros(choices.below(20_000).into());
        let_time_pass(pause, "random times between forged words");
    }
    scribbles
}

#[test]
fn honest_processes_live_beside_a_hostile_one() {
    let first = number("HYTHE_FUZZ_SEED", 1);
    let rounds = number("HYTHE_FUZZ_ROUNDS", 3);
    let named: usize = (first..first + rounds)
        .map(|seed| round(&Root::new(), seed, Deed::Scribble))
        .sum();
    assert!(named > 0, "damage is named");
}

#[test]
fn files_cut_away_under_honest_processes_kill_none() {
    let first = number("HYTHE_FUZZ_SEED", 1);
    round(&Root::new(), first + 1000, Deed::Cut("control", 0));
    round(&Root::new(), first + 2000, Deed::Cut("region.0", 4096));
    round(&Root::new(), first + 3000, Deed::Cut("control", 8192));
}

#[test]
fn full_file_system_kills_none() {
    in_a_small_file_system("full_file_system_kills_none", |root| {
        let first = number("HYTHE_FUZZ_SEED", 1);
        round(root, first + 4000, Deed::Starve("region.0"));
        round(root, first + 5000, Deed::Starve("control"));
    });
}

/// Leaves no page in the file system, and makes the file need some.
fn starve(root: &Root, path: &std::path::Path) -> Vec<std::fs::File> {
    let before = fill(root.path());
    let file = OpenOptions::new().write(true).open(path).expect("opened");
    let bytes = file.metadata().expect("metadata").len();
    let hole = rustix::fs::FallocateFlags::PUNCH_HOLE | rustix::fs::FallocateFlags::KEEP_SIZE;
    rustix::fs::fallocate(&file, hole, 0, bytes).expect("punched");
    vec![before, fill(root.path())]
}

/// What an honest process does now, and since when.
static NOW: Mutex<Option<(&'static str, Instant)>> = Mutex::new(None);

/// One call that may not be kept, and what it answers, counted.
struct Calls {
    answers: BTreeMap<String, u32>,
    longest: Duration,
    longest_call: &'static str,
    lost: bool,
}

impl Calls {
    fn call<T>(
        &mut self,
        name: &'static str,
        act: impl FnOnce() -> Result<T, NodeError>,
    ) -> Option<T> {
        let start = Instant::now();
        *NOW.lock().expect("not poisoned") = Some((name, start));
        let outcome = act();
        *NOW.lock().expect("not poisoned") = None;
        if start.elapsed() > self.longest {
            self.longest = start.elapsed();
            self.longest_call = name;
        }
        let answer = match &outcome {
            Ok(_) => name.to_owned(),
            Err(NodeError::Pool(PoolError::TableFull { .. } | PoolError::PoolFull { .. })) => {
                "full".to_owned()
            }
            Err(error) => {
                let said = format!("{error:?}");
                let end = said.find([' ', '{', '"']).unwrap_or(said.len());
                said[..end].to_owned()
            }
        };
        self.lost |= matches!(outcome, Err(NodeError::PoolLost { .. }));
        *self.answers.entry(answer).or_default() += 1;
        outcome.ok()
    }
}

fn watch_over_calls() {
    std::thread::spawn(|| {
        loop {
            let_time_pass(
                Duration::from_millis(100),
                "a watchdog looks ten times a second",
            );
            let now = *NOW.lock().expect("not poisoned");
            if let Some((name, since)) = now.filter(|(_, since)| since.elapsed() > KEPT) {
                println!("role: kept in {name} for {:?}", since.elapsed());
                std::process::exit(KEPT_STATUS);
            }
        }
    });
}

/// Not a test of its own: an honest process of the tests above.
#[test]
fn plays_its_role() {
    let Ok(role) = std::env::var(ROLE) else {
        return;
    };
    // In whatever thread: that of the watcher would die unnoticed.
    std::panic::set_hook(Box::new(|panic| {
        println!("role: {panic}");
        std::process::exit(PANIC_STATUS);
    }));
    watch_over_calls();
    let mut choices = Choices::Seed(number(SEED, 0));
    let mut calls = Calls {
        answers: BTreeMap::new(),
        longest: Duration::ZERO,
        longest_call: "",
        lost: false,
    };
    let pool = Pool::open(&PoolOptions::new("test")).expect("the test has made it");
    println!("{OPENED}");
    until_told();
    let start = Instant::now();
    // Somewhat longer than the other, so that the cut is met.
    while start.elapsed() < 2 * ROUND && !calls.lost {
        if role == roles::LOOKER {
            look(&pool, &mut calls);
        } else {
            work(&pool, &mut calls, &mut choices);
        }
    }
    println!(
        "role: {:?}, longest {:?} in {}",
        calls.answers, calls.longest, calls.longest_call
    );
}

fn look(pool: &Pool, calls: &mut Calls) {
    calls.call("snapshot", || {
        let seen = pool.snapshot();
        let audit = &seen.audit;
        assert_eq!(audit.free + audit.held + audit.queued, audit.slots);
        for held in seen.held_buffers() {
            let _ = seen.holder_name(held.holder);
        }
        pool.check_whole()
    });
    calls.call("open", || Pool::open(&PoolOptions::new("test")).map(drop));
    let_time_pass(
        Duration::from_millis(10),
        "others shall run between two rounds of calls",
    );
}

/// A life as a participant.
fn work(pool: &Pool, calls: &mut Calls, choices: &mut Choices) {
    let Some(node) = calls.call("join", || Node::join(pool, "worker")) else {
        return let_time_pass(REFUSED_PAUSE, "a damaged pool refuses; others shall run");
    };
    let channel = ["left", "right"][choices.below(2) as usize];
    let timeout_ms = SEND_TIMEOUT.as_millis() as u32;
    let policies = [PortPolicy::DropNewest, PortPolicy::Block { timeout_ms }];
    let subscribing = SubscriberOptions::default()
        .depth(4)
        .policy(policies[choices.below(2) as usize]);
    let publishing = PublisherOptions::default().send_timeout(SEND_TIMEOUT);
    let subscriber = calls.call("subscriber", || node.subscriber(channel, &subscribing));
    let publisher = calls.call("publisher", || node.publisher(channel, &publishing));
    let (Some(mut subscriber), Some(mut publisher)) = (subscriber, publisher) else {
        return let_time_pass(REFUSED_PAUSE, "a damaged pool refuses; others shall run");
    };
    let mut kept = Vec::new();
    for _ in 0..choices.below(200) {
        if calls.lost {
            break;
        }
        match choices.below(4) {
            0 | 1 => {
                let bytes = 1 + choices.below(5000) as usize;
                let Some(mut lease) = calls.call("lease", || node.lease(bytes)) else {
                    continue;
                };
                lease.write(0, &vec![7; bytes]);
                calls.call("publish", || publisher.publish(lease, bytes));
            }
            2 => {
                let taken = calls.call("take", || subscriber.take(SEND_TIMEOUT));
                if let Some(sample) = taken.flatten() {
                    let _ = (sample.to_vec(), sample.part(0, sample.len() / 2));
                    kept.push(sample);
                }
            }
            _ => {
                if let Some(sample) = kept.pop() {
                    calls.call("forward", || publisher.forward(sample));
                }
            }
        }
        kept.truncate(3);
    }
    calls.call("leave", || {
        drop((kept, subscriber, publisher, node));
        Ok(())
    });
}

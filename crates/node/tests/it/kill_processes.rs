//! Real processes, killed by SIGKILL in front of stores of real operations, and recovered by the
//! watcher of another.
//!
//! `crates/pool/tests/it/kill_sweep.rs` visits every store of every step in one process. Here whole
//! operations of [`Node`] are killed, as a kernel does it, at stores drawn by a printed seed
//! (`HYTHE_KILL_SEED`, `HYTHE_KILL_SAMPLES`; 0 samples visits all). After each death: the ledger
//! sums up, the other goes on, a restarted participant works. How long the others were held up is
//! printed, not asserted: it is the machine's business as well. The victims are this test program
//! again, asked by [`ROLE`].

use crate::support;

use std::os::unix::process::ExitStatusExt;
use std::process::{ExitStatus, Stdio};
use std::time::{Duration, Instant};

use crate::choices::Choices;
use crate::support::{BOUND, Root};
use hythe_memory::kill_points;
use hythe_node::hop::HopPool as _;
use hythe_node::{
    ClassPlan, Geometry, Limits, MemberInfo, MemberStatus, Node, Pool, PoolOptions, PortPolicy,
    Publisher, PublisherOptions, Sample, Subscriber, SubscriberOptions,
};
use hythe_testing::{Polling, in_module};

const ROLE: &str = "HYTHE_TEST_ROLE";
const STORE: &str = "HYTHE_TEST_STORE";
/// Deaths per operation in an ordinary run of the tests.
const SAMPLES: u64 = 40;

/// The operations under test, in the words of the pool. Each victim prepares, and then does the one
/// thing that may kill it.
const OPERATIONS: [&str; 9] = [
    "join", "lease", "publish", "take", "forward", "release", "connect", "leave", "depart",
];

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().expect("a number"))
}

/// Small tables: a sweep over them is short, and reaches every kind of record.
fn options(root: &std::path::Path) -> PoolOptions {
    let limits = Limits {
        participants: 8,
        channels: 4,
        ports: 16,
        connections: 16,
        queue_segments: 16,
        slots: 4,
    };
    let class = ClassPlan {
        payload_bytes: 768,
        count: 16,
    };
    let geometry = Geometry::with_classes(limits, &[class]).expect("geometry");
    PoolOptions::new("test").root(root).geometry(geometry)
}

fn subscribing() -> SubscriberOptions {
    SubscriberOptions::default()
        .depth(4)
        .policy(PortPolicy::DropNewest)
}

/// Plays a victim: how it ended, and what it said.
fn play(root: &Root, operation: &str, store: u32) -> (ExitStatus, String) {
    let played = support::again::command()
        .args(["--exact", &in_module("plays_its_role"), "--nocapture"])
        .env(ROLE, operation)
        .env(STORE, store.to_string())
        .env("HYTHE_TEST_ROOT", root.path())
        .stderr(Stdio::inherit())
        .output()
        .expect("started");
    let said = String::from_utf8_lossy(&played.stdout).into_owned();
    (played.status, said)
}

/// The survivor: it publishes on `to` and subscribes to `from`, as the victims' other side.
struct Survivor {
    node: Node,
    publisher: Publisher,
    subscriber: Subscriber,
    /// The longest of its own calls since somebody asked: how long the death of another held it up.
    longest_call: Duration,
}

impl Survivor {
    fn new(pool: &Pool) -> Self {
        let node = Node::join(pool, "survivor").expect("join");
        let publisher = node.publisher("to", &PublisherOptions::default());
        let subscriber = node.subscriber("from", &subscribing());
        Self {
            publisher: publisher.expect("publisher"),
            subscriber: subscriber.expect("subscriber"),
            longest_call: Duration::ZERO,
            node,
        }
    }

    fn sends(&mut self) {
        let start = Instant::now();
        let lease = self.node.lease(100).expect("a free slot");
        self.publisher.publish(lease, 100).expect("published");
        self.longest_call = self.longest_call.max(start.elapsed());
    }

    fn takes_all(&mut self) {
        let start = Instant::now();
        while self.subscriber.try_take().expect("takes").is_some() {}
        self.longest_call = self.longest_call.max(start.elapsed());
    }

    /// After the death of a victim: how long until all it had is back, and the own work goes on.
    fn goes_on(&mut self, context: &str) -> Duration {
        let start = Instant::now();
        let pool = self.node.pool().clone();
        // Work is not held up at any moment.
        self.sends();
        let mut polling = Polling::new("recovery");
        loop {
            // A subscriber leaves its side of a dead publisher's connection when it next takes.
            self.takes_all();
            let before = Instant::now();
            let members = pool.control().tables().members().count();
            let subscribers = self.publisher.subscribers().expect("looks");
            if members == 1 && subscribers == 0 && is_settled(&pool) {
                return before - start;
            }
            polling.pause_or_show(|| format!("{context}: {:#?}", pool.snapshot()));
        }
    }
}

fn is_settled(pool: &Pool) -> bool {
    let seen = pool.snapshot();
    let audit = &seen.audit;
    seen.connections.is_empty() && audit.mismatches.is_empty() && audit.free == audit.slots
}

/// The numbers of stores to die at: all, or a sample with the first and the last in it.
fn stores(count: u32, choices: &mut Choices) -> Vec<u32> {
    let samples = number("HYTHE_KILL_SAMPLES", SAMPLES);
    if samples == 0 || u64::from(count) <= samples {
        return (1..=count).collect();
    }
    let mut stores: Vec<u32> = (2..samples).map(|_| 1 + choices.below(count)).collect();
    stores.extend([1, count]);
    stores.sort_unstable();
    stores.dedup();
    stores
}

/// How the victims of one operation fared.
struct Deaths<'a> {
    operation: &'a str,
    stores: u32,
    deaths: u32,
    longest: Duration,
}

impl<'a> Deaths<'a> {
    /// `said` by one that came through.
    fn begin(operation: &'a str, (status, said): (ExitStatus, String)) -> Self {
        assert!(status.success(), "{operation}: {status}: {said}");
        let stores = said.lines().find_map(|line| line.split_once("stores: "));
        let stores = stores.expect("it says").1.trim();
        let stores = stores.parse().expect("a number");
        assert!(
            stores > 0,
            "{operation} stores nothing: no death was visited"
        );
        let (deaths, longest) = (0, Duration::ZERO);
        Self {
            operation,
            stores,
            deaths,
            longest,
        }
    }

    fn note(&mut self, context: &str, (status, said): (ExitStatus, String)) {
        // Fewer stores this time: a swap that need not be tried again.
        let died = status.signal() == Some(9);
        assert!(died || status.success(), "{context}: {status}: {said}");
        self.deaths += u32::from(died);
    }

    fn end(&self) {
        println!(
            "{:8} {:5} stores, {:3} deaths; the others had everything back after {:?} at most",
            self.operation, self.stores, self.deaths, self.longest
        );
        assert!(self.deaths > 0, "{}: no death was visited", self.operation);
    }
}

#[test]
fn killed_operations_of_processes_are_recovered() {
    let seed = number("HYTHE_KILL_SEED", 1);
    println!("seed {seed}");
    let mut choices = Choices::Seed(seed);
    let root = Root::new();
    let pool = Pool::open_or_create(&options(root.path())).expect("made");
    let mut survivor = Survivor::new(&pool);
    for operation in OPERATIONS {
        let mut deaths = Deaths::begin(operation, play_beside(&mut survivor, &root, operation, 0));
        survivor.goes_on(operation);
        for store in stores(deaths.stores, &mut choices) {
            let context = format!("seed {seed}: {operation} killed before store {store}");
            let played = play_beside(&mut survivor, &root, operation, store);
            deaths.note(&context, played);
            deaths.longest = deaths.longest.max(survivor.goes_on(&context));
        }
        deaths.end();
        let held_up = std::mem::take(&mut survivor.longest_call);
        println!("         meanwhile no call of theirs lasted longer than {held_up:?}");
        // A restarted participant works.
        Deaths::begin(operation, play_beside(&mut survivor, &root, operation, 0));
        survivor.goes_on(operation);
    }
}

/// A participant dies with much in its hands, then the one that recovers it; whoever joins next
/// recovers both.
#[test]
fn recoverers_are_killed_and_recovered() {
    let seed = number("HYTHE_KILL_SEED", 1);
    let mut choices = Choices::Seed(seed);
    let root = Root::new();
    let pool = Pool::open_or_create(&options(root.path())).expect("made");
    let die_and_recover = |store| {
        let (status, said) = play(&root, "hold", 0);
        assert_eq!(status.signal(), Some(9), "{said}");
        play(&root, "recover", store)
    };
    let mut deaths = Deaths::begin("recover", die_and_recover(0));
    assert!(
        is_settled(&pool),
        "recovered at joining, before anything else"
    );
    for store in stores(deaths.stores, &mut choices) {
        let context = format!("seed {seed}: recover killed before store {store}");
        deaths.note(&context, die_and_recover(store));
        let start = Instant::now();
        let mut survivor = Survivor::new(&pool);
        survivor.goes_on(&context);
        deaths.longest = deaths.longest.max(start.elapsed());
    }
    deaths.end();
    Deaths::begin("recover", die_and_recover(0));
}

/// As before, but nobody joins: a process that only looks at the pool finishes what they began.
#[test]
fn onlooker_finishes_an_interrupted_recovery() {
    let seed = number("HYTHE_KILL_SEED", 1);
    let mut choices = Choices::Seed(seed);
    let root = Root::new();
    let pool = Pool::open_or_create(&options(root.path())).expect("made");
    let die = || {
        let (status, output) = play(&root, "hold", 0);
        assert_eq!(status.signal(), Some(9), "{output}");
    };
    die();
    let mut deaths = Deaths::begin("recover", play(&root, "recover", 0));
    for store in stores(deaths.stores, &mut choices) {
        let context = format!("seed {seed}: recover killed before store {store}");
        die();
        deaths.note(&context, play(&root, "recover", store));
        pool.finish_recoveries();
        let seen = pool.snapshot();
        let is_finished = |member: &MemberInfo| {
            member.status == MemberStatus::Alive
                && !pool.control().tables().is_claimed(member.index)
        };
        assert!(seen.members.iter().all(is_finished), "{context}: {seen:#?}");
        assert_eq!(seen.audit.mismatches, [], "{context}");
        // The holder died within a step.
        let is_holder = |member: &MemberInfo| member.name == "holder";
        assert!(!seen.members.iter().any(is_holder), "{context}: {seen:#?}");
        Survivor::new(&pool).goes_on(&context);
    }
    deaths.end();
}

/// Plays a victim while the survivor sends what it may take.
fn play_beside(
    survivor: &mut Survivor,
    root: &Root,
    operation: &str,
    store: u32,
) -> (ExitStatus, String) {
    std::thread::scope(|scope| {
        let victim = scope.spawn(|| play(root, operation, store));
        let mut polling = Polling::new("the end of the victim");
        while !victim.is_finished() {
            if matches!(operation, "take" | "forward" | "release" | "depart") {
                survivor.sends();
            }
            survivor.takes_all();
            polling.pause();
        }
        victim.join().expect("no panic")
    })
}

/// Not a test of its own: a victim.
#[test]
fn plays_its_role() {
    let Ok(operation) = std::env::var(ROLE) else {
        return;
    };
    let root = std::env::var_os("HYTHE_TEST_ROOT").expect("set");
    let store = number(STORE, 0) as u32;
    let pool = Pool::open(&options(root.as_ref())).expect("the test has made it");
    let stores = match operation.as_str() {
        "join" | "recover" => {
            kill_points::arm(store);
            let _node = Node::join(&pool, "victim").expect("joins, and recovers the dead");
            kill_points::disarm()
        }
        "hold" => hold_much_and_die(&pool),
        other => act(&pool, other, store),
    };
    println!("stores: {stores}");
}

fn act(pool: &Pool, operation: &str, store: u32) -> u32 {
    let node = Node::join(pool, "victim").expect("joins");
    let mut publisher = node
        .publisher("from", &PublisherOptions::default())
        .expect("port");
    if operation != "connect" {
        let connected = publisher.wait_for_subscribers(1, BOUND).expect("connects");
        assert!(connected, "the survivor is there");
    }
    let mut subscriber = node.subscriber("to", &subscribing()).expect("port");
    let mut next = || -> Sample {
        let taken = subscriber.take(BOUND).expect("takes");
        taken.expect("the survivor sends")
    };
    match operation {
        "lease" => {
            kill_points::arm(store);
            let _lease = node.lease(100).expect("a free slot");
            kill_points::disarm()
        }
        "publish" => {
            let lease = node.lease(100).expect("a free slot");
            kill_points::arm(store);
            publisher.publish(lease, 100).expect("published");
            kill_points::disarm()
        }
        "take" => {
            drop(next());
            kill_points::arm(store);
            let _sample = next();
            kill_points::disarm()
        }
        "forward" => {
            let part = next().part(10, 20).expect("a part");
            kill_points::arm(store);
            publisher.forward(part).expect("forwarded");
            kill_points::disarm()
        }
        "release" => {
            let sample = next();
            kill_points::arm(store);
            drop(sample);
            kill_points::disarm()
        }
        "connect" => {
            kill_points::arm(store);
            publisher.subscribers().expect("connects");
            kill_points::disarm()
        }
        "leave" => {
            kill_points::arm(store);
            drop(publisher);
            kill_points::disarm()
        }
        "depart" => {
            let sample = next();
            kill_points::arm(store);
            drop((sample, publisher, subscriber, node));
            kill_points::disarm()
        }
        other => panic!("no such operation: {other}"),
    }
}

/// Leases, samples, something in a queue, and a step begun.
fn hold_much_and_die(pool: &Pool) -> u32 {
    let node = Node::join(pool, "holder").expect("joins");
    let mut subscriber = node.subscriber("own", &subscribing()).expect("port");
    let mut publisher = node
        .publisher("own", &PublisherOptions::default())
        .expect("port");
    for _ in 0..4 {
        let lease = node.lease(100).expect("a free slot");
        publisher.publish(lease, 100).expect("published");
    }
    let _kept = [subscriber.try_take(), subscriber.try_take()];
    let _lease = node.lease(100).expect("a free slot");
    // In the middle of a lease: begun, and not noted as one's own.
    kill_points::arm(10);
    let _other = node.lease(100);
    kill_points::disarm()
}

//! A core that rings without end: bytes over its doorbell, events that flip, counts of rings that
//! rise, its own and Linux's. Other cores and channels between processes go on, its agent can be
//! asked and stopped, and says what was seen.
//!
//! A rate is compared with that of the same test while the same core computes without ringing, in
//! turns: what the core's process takes of the machine's CPUs it takes in both, and another
//! program that runs meanwhile takes its part of both.

use std::fs;
use std::io::Write;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, AtomicU64, Ordering};
use std::time::{Duration, Instant};

use crate::hostile_core::User;
use crate::hostile_core::choices::Choices;
use crate::hostile_core::core::{
    CoreFault, ENDPOINTS, FakeCore, LINK_BYTES, PORTS, REGION_BYTES, SLOT_BYTES, SLOTS,
};
use crate::support::{Echo, LONG, World, board, eventually, start};
use hythe_memory::{Access, Mapped};
use hythe_node::{Node, PublisherOptions, SubscriberOptions};
use hythe_rtcore::{Board, Core, CoreOptions, control};
use hythe_testing::let_time_pass;

const VARIABLE: &str = "HYTHE_TEST_LOUD";
/// How long each kind of turn lasts, and how many there are of each.
const TURN: Duration = Duration::from_millis(120);
const TURNS: usize = 9;
/// What the switch tells the core to do beside what it must: compute for itself; ring; write over
/// all memory that it reaches; sleep.
const COMPUTES: u32 = 0;
const RINGS: u32 = 1;
const SCRIBBLES: u32 = 2;
const SLEEPS: u32 = 4;
/// Asked at its start: announce an endpoint that cannot be.
const BAD_RECORD: u32 = 3;
/// How long the second lasts.
const SCRIBBLING: Duration = Duration::from_secs(2);

/// The core's process, started by its board's image.
#[test]
fn loud_core() {
    let Ok(places) = std::env::var(VARIABLE) else {
        return;
    };
    let places: Vec<&str> = places.split_whitespace().collect();
    let [region, link, doorbell] = places[..] else {
        panic!("{places:?}");
    };
    let map = |path: &str, bytes: usize| {
        let file = fs::File::options().read(true).write(true).open(path);
        Mapped::file(file.expect("its file"), 0, bytes, Access::Write).expect("mapped")
    };
    let slots = map(region, REGION_BYTES as usize);
    let switch = map(&switch_of(Path::new(link)), 4096);
    let is_bad = hythe_memory::Memory::load(&switch, 0, Ordering::Acquire) == BAD_RECORD;
    let mut core = FakeCore::answering(map(link, LINK_BYTES as usize), slots, is_bad);
    let mut bell = UnixStream::connect(doorbell).expect("the agent listens");
    bell.write_all(b"!").expect("it reads");
    bell.set_nonblocking(true).expect("ours");
    core.fault = CoreFault::Scribbling;
    let mut choices = Choices::Seed(seed());
    // Ends with its agent.
    loop {
        core.follow();
        core.serve();
        for _ in 0..100 {
            match hythe_memory::Memory::load(&switch, 0, Ordering::Acquire) {
                RINGS => {
                    core.make_noise();
                    // A full socket is as loud as it gets.
                    let _ = bell.write(&[b'!'; 4096]);
                }
                SCRIBBLES => {
                    core.act(&mut choices);
                    let _ = bell.write(b"!");
                    let pause = Duration::from_micros(choices.below(500).into());
                    let_time_pass(pause, "random times between forged words");
                }
                SLEEPS => let_time_pass(Duration::from_micros(100), "it is ordered to sleep"),
                _ => std::hint::spin_loop(),
            }
        }
    }
}

/// A file beside the link by which the test tells the core what to do.
fn switch_of(link: &Path) -> String {
    format!("{}.switch", link.display())
}

/// A board whose core is [`loud_core`].
fn loud_board(world: &World) -> Board {
    let folder = world.root.join("loud");
    fs::create_dir(&folder).expect("own");
    let program = std::env::current_exe().expect("this program");
    let script = format!(
        "#!/bin/sh\n{VARIABLE}=\"$*\" exec {} {} --exact --nocapture --test-threads=1\n",
        program.display(),
        hythe_testing::in_module("loud_core")
    );
    hythe_testing::write_script(folder.join("words.elf"), &script);
    let endpoints = ENDPOINTS.len();
    let manifest = format!(
        r#"
schema = 1
name = "loud"
summary = "rings"
emulated = false
requires = []
[build]
prefix = ""
package = "none"
flags = []
link_flags = []
sources = []
freestanding = false
apps = ["words"]
[build.freertos]
sources = []
include = []
[run]
kind = "process"
command = "{{image}}"
args = ["{{region}}", "{{link}}", "{{doorbell}}"]
console = "stdout"
doorbell = "connect"
ring = "wanted"
[[run.file]]
name = "region"
bytes = {REGION_BYTES}
[[run.file]]
name = "link"
bytes = {LINK_BYTES}
[run.region]
file = "region"
offset = 0
bytes = {REGION_BYTES}
[run.link]
file = "link"
offset = 0
bytes = {LINK_BYTES}
line_bytes = 64
endpoints = {endpoints}
ports = {PORTS}
capacity = 4
[[run.class]]
slot_bytes = {SLOT_BYTES}
count = {SLOTS}
"#
    );
    fs::write(folder.join("board.toml"), manifest).expect("own");
    Board::read(&folder).expect("a board")
}

/// The loud core, and the switch that makes it so.
struct Loud {
    core: Core,
    switch: Mapped,
}

impl Loud {
    fn start(world: &World, options: &CoreOptions, order: u32) -> Self {
        // It is there before the core looks for it: the first region of a core is number 1.
        let link = world.pool.path().join("link.1");
        let path = PathBuf::from(switch_of(&link));
        let mut words = [0; 4096];
        words[..4].copy_from_slice(&order.to_le_bytes());
        fs::write(&path, words).expect("own");
        let file = fs::File::options().read(true).write(true).open(&path);
        let switch = Mapped::file(file.expect("own"), 0, 4096, Access::Write).expect("mapped");
        let core = Core::start(&world.pool, &loud_board(world), options).expect("core");
        assert_eq!(core.region().0, 1);
        Self { core, switch }
    }

    fn order(&self, what: u32) {
        hythe_memory::Memory::store(&self.switch, 0, what, Ordering::Release);
    }
}

/// Round trips between two nodes, as fast as they go.
fn between_processes(world: &World, count: &AtomicU64, over: &AtomicU32) {
    let join = |name: &str| hythe_rtcore::join(&world.pool, name).expect("joins");
    let (left, right) = (join("left"), join("right"));
    let ports = |node: &Node, to: &str, from: &str| {
        let publisher = node.publisher(to, &PublisherOptions::default());
        let subscriber = node.subscriber(from, &SubscriberOptions::default());
        (
            publisher.expect("publishes"),
            subscriber.expect("subscribes"),
        )
    };
    let (mut there, mut back) = ports(&left, "there", "back");
    std::thread::scope(|scope| {
        scope.spawn(|| {
            let (mut back, mut there) = ports(&right, "back", "there");
            while over.load(Ordering::Relaxed) == 0 {
                if let Some(sample) = there.take(Duration::from_millis(50)).expect("sound") {
                    back.forward(sample).expect("published");
                }
            }
        });
        while over.load(Ordering::Relaxed) == 0 {
            let lease = there.lease(64).expect("a free slot");
            there.publish(lease, 64).expect("published");
            if back
                .take(Duration::from_millis(50))
                .expect("sound")
                .is_some()
            {
                count.fetch_add(1, Ordering::Relaxed);
            }
        }
    });
}

/// Round trips over another core.
fn over_a_core(world: &World, count: &AtomicU64, over: &AtomicU32) {
    let mut echo = Echo::open(&world.pool, "echo").expect("ports");
    while over.load(Ordering::Relaxed) == 0 {
        echo.send(b"round").expect("published");
        if echo
            .pong
            .take(Duration::from_secs(1))
            .expect("sound")
            .is_some()
        {
            count.fetch_add(1, Ordering::Relaxed);
        }
    }
}

fn median(mut counts: Vec<u64>) -> u64 {
    counts.sort_unstable();
    counts[counts.len() / 2]
}

/// What is counted in a second, by medians over turns.
struct Rates {
    /// While the core sleeps: for people, a busy machine decides it.
    asleep: u64,
    computing: u64,
    ringing: u64,
}

fn rates(loud: &Loud, count: &AtomicU64) -> Rates {
    eventually("it goes at all", || count.load(Ordering::Relaxed) > 10);
    let mut counted = [Vec::new(), Vec::new(), Vec::new()];
    for turn in 0..3 * TURNS {
        loud.order([SLEEPS, COMPUTES, RINGS][turn % 3]);
        let_time_pass(TURN / 4, "what is on its way when it changes is of neither");
        let before = count.load(Ordering::Relaxed);
        let begun = Instant::now();
        let_time_pass(TURN, "round trips are counted in this time");
        let made = count.load(Ordering::Relaxed) - before;
        let per_second = made as f64 / begun.elapsed().as_secs_f64();
        counted[turn % 3].push(per_second as u64);
    }
    let [asleep, computing, ringing] = counted.map(median);
    Rates {
        asleep,
        computing,
        ringing,
    }
}

fn keeps_its_rate(what: &str, make: fn(&World, &AtomicU64, &AtomicU32)) {
    let Some(hosted) = board("hosted") else {
        return;
    };
    let world = World::new();
    // With channels of its own, beside those of the other core.
    let options = CoreOptions::default().start_bound(LONG).name("loud");
    let loud = Loud::start(&world, &options, COMPUTES);
    let other = start(&world, &hosted);
    let listener = hythe_rtcore::join(&world.pool, "listener").expect("joins");
    let port = listener.listener("loud/answer").ok();
    let (count, over) = (AtomicU64::new(0), AtomicU32::new(0));
    let rates = std::thread::scope(|scope| {
        scope.spawn(|| make(&world, &count, &over));
        let rates = rates(&loud, &count);
        over.store(1, Ordering::Relaxed);
        rates
    });
    let Rates {
        asleep,
        computing,
        ringing,
    } = rates;
    println!(
        "{what}: {asleep} round trips a second beside a core that sleeps, {computing} beside one \
         that computes, {ringing} beside one that rings"
    );
    // Whoever is starved comes to a hundredth. What ringing costs is for a benchmark to say: what
    // else runs here takes its share from turns of either kind.
    assert!(8 * ringing >= computing, "{what}: {ringing} of {computing}");
    // While it rings it can be asked, and stopped. Nobody is attached, so the rings are for nobody.
    loud.order(RINGS);
    drop((port, listener));
    eventually("its rings are counted", || {
        let status = control::status(&world.pool, "loud").expect("it runs");
        status.counters.rings_ignored > 1000
    });
    loud.core.stop().expect("stopped");
    other.stop().expect("stopped");
    world.assert_clean();
}

fn seed() -> u64 {
    let given = std::env::var("HYTHE_FUZZ_SEED");
    given.map_or(1, |seed| seed.parse().expect("a number"))
}

/// A core that was never in order, beside ports of every kind; from its own process.
#[test]
fn core_of_nonsense_alone_harms_nobody() {
    let world = World::new();
    let options = CoreOptions::default().start_bound(LONG);
    let loud = Loud::start(&world, &options, COMPUTES);
    println!("HYTHE_FUZZ_SEED={}", seed());
    let mut choices = Choices::Seed(seed());
    let mut users = [0, 1].map(|number| User::join(&world.pool, number));
    let mut steps = 0;
    loud.order(SCRIBBLES);
    let begun = Instant::now();
    while begun.elapsed() < SCRIBBLING || steps < 100 {
        let user = choices.below(2) as usize;
        users[user].step(choices.below(8), choices.below(1 << 16));
        let audit = world.pool.snapshot().audit;
        assert_eq!(audit.mismatches, [], "step {steps}");
        steps += 1;
    }
    let counters = control::status(&world.pool, "loud").expect("it runs");
    println!("{steps} steps, {:?}", counters.counters);
    assert!(counters.counters.violations > 0);
    drop(users);
    // It may have died of what it wrote over.
    let _ = loud.core.stop();
    world.assert_clean();
}

#[test]
fn impossible_endpoint_is_left_out_and_others_keep_numbers() {
    let world = World::new();
    let options = CoreOptions::default().start_bound(LONG);
    let loud = Loud::start(&world, &options, BAD_RECORD);
    let status = control::status(&world.pool, "loud").expect("it runs");
    let bound: Vec<(u32, &str)> = status
        .endpoints
        .iter()
        .map(|endpoint| (endpoint.endpoint, endpoint.channel.as_str()))
        .collect();
    assert_eq!(bound, [(1, "out"), (2, "knock"), (3, "answer"), (4, "ask")]);
    let node = hythe_rtcore::join(&world.pool, "reader").expect("joins");
    let port = node.subscriber("out", &SubscriberOptions::default());
    drop(port.expect("it is what its record says"));
    drop(node);
    loud.core.stop().expect("stopped");
    world.assert_clean();
}

#[test]
fn processes_keep_rate_beside_endlessly_ringing_core() {
    keeps_its_rate("between processes", between_processes);
}

#[test]
fn other_core_keeps_rate_beside_endlessly_ringing_core() {
    keeps_its_rate("over another core", over_a_core);
}

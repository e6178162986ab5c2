//! A hostile core: somebody writes over the link and the slots, beside the core of a real board,
//! while ports of every kind are in use. No call panics or lasts; the ledger, which a core never
//! touches, has lost nothing at the end; what the core may not reach is as it was; and `core
//! status` names what was seen.
//!
//! Seeded: `HYTHE_FUZZ_SEED=17 HYTHE_FUZZ_ROUNDS=50 cargo test -p hythe-rtcore --test it hostile`.
//! Which store meets which step of Linux is up to the machine: `words` plays that by a seed alone.

use crate::hostile_core::words;

use std::collections::BTreeMap;
use std::sync::Mutex;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::channel;
use std::time::{Duration, Instant};

use crate::hostile_core::choices::Choices;
use crate::support::link_memory::{LinkMemory, slots};
use crate::support::{DECODER_ENDPOINTS, Echo, LONG, World, board};
use hythe_abi::link::{ENTRY_BYTES, Flow, flow_line};
use hythe_memory::{Mapped, Memory};
use hythe_node::{
    ClientOptions, EventId, Node, NodeError, Pool, PublisherOptions, RegionIndex, ServerOptions,
    SubscriberOptions,
};
use hythe_rtcore::{Board, Core, CoreOptions, LinkTimeouts, Violation, control};
use hythe_testing::let_time_pass;

/// Of one seed on one board; four of them come to more than 20 seconds.
const ROUND: Duration = Duration::from_millis(5200);
const TIME_LIMIT: Duration = Duration::from_millis(50);

fn number(variable: &str, default: u64) -> u64 {
    std::env::var(variable).map_or(default, |value| value.parse().expect("a number"))
}

/// All that the core of a region sees.
struct Reach {
    slots: Mapped,
    link: LinkMemory,
}

impl Reach {
    fn of(pool: &Pool, region: RegionIndex) -> Self {
        Self {
            slots: slots(pool, region),
            link: LinkMemory::of(pool, region),
        }
    }

    /// Writes nonsense here and there until it is over; says how often.
    fn scribble(&self, seed: u64, over: &AtomicBool) -> u64 {
        let mut choices = Choices::Seed(seed);
        let mut scribbles = 0;
        while !over.load(Ordering::Relaxed) {
            for _ in 0..choices.below(8) {
                self.scribble_once(&mut choices);
                scribbles += 1;
            }
            // Now and then there is time for both sides to come to order.
            let pause = [1000, 30_000, 30_000, 700_000][choices.below(4) as usize];
            let pause = Duration::from_micros(choices.below(pause).into());
            let_time_pass(pause, "random times between forged words");
        }
        scribbles
    }

    fn scribble_once(&self, choices: &mut Choices) {
        let flow = Flow {
            endpoint: choices.below(DECODER_ENDPOINTS as u32) as usize,
            // Those that are in use.
            port: choices.below(2) as usize,
        };
        let lines = [
            self.link.layout.linux_flow(flow),
            self.link.layout.core_flow(flow),
        ];
        let line = lines[choices.below(2) as usize];
        match choices.below(6) {
            0 => self.lie(self.any(&self.link.words, choices), choices),
            // The headers and bells, of Linux and of the core.
            1 => {
                let section = choices.below(2) as usize * self.link.layout.section_bytes();
                self.lie(section + choices.below(32) as usize * 4, choices);
            }
            2 | 3 => self.lie(line + choices.below(9) as usize * 4, choices),
            4 => self.push_nonsense(flow, choices),
            _ => {
                let at = self.any(&self.slots, choices);
                let value = words::lie(0, choices);
                self.slots.store(at, value, Ordering::Release);
            }
        }
    }

    fn any(&self, memory: &Mapped, choices: &mut Choices) -> usize {
        choices.below(memory.bytes() as u32 / 4) as usize * 4
    }

    fn lie(&self, at: usize, choices: &mut Choices) {
        let found = self.link.words.load(at, Ordering::Relaxed);
        let value = words::lie(found, choices);
        self.link.words.store(at, value, Ordering::Release);
    }

    /// One more entry for Linux: what was given to the core once, changed or as it was.
    fn push_nonsense(&self, flow: Flow, choices: &mut Choices) {
        let capacity = self.link.layout.capacity();
        let from = Flow {
            endpoint: choices.below(DECODER_ENDPOINTS as u32) as usize,
            port: flow.port,
        };
        let index = choices.below(capacity as u32) as usize;
        let from = self.link.layout.linux_entries(from) + index * ENTRY_BYTES;
        let tail = self.link.layout.core_flow(flow) + flow_line::TAIL;
        let count = self.link.words.load(tail, Ordering::Relaxed);
        let to = self.link.layout.core_entries(flow) + (count as usize % capacity) * ENTRY_BYTES;
        for word in (0..ENTRY_BYTES).step_by(4) {
            let mut value = self.link.words.load(from + word, Ordering::Relaxed);
            if choices.below(8) == 0 {
                value = words::lie(value, choices);
            }
            self.link.words.store(to + word, value, Ordering::Relaxed);
        }
        self.link
            .words
            .store(tail, count.wrapping_add(1), Ordering::Release);
    }
}

/// What the ports answered, and how long the longest call took.
#[derive(Debug, Default)]
struct Answers {
    count: Mutex<BTreeMap<String, u32>>,
    longest: Mutex<Duration>,
}

impl Answers {
    fn note<T>(&self, name: &str, call: impl FnOnce() -> Result<T, NodeError>) -> Option<T> {
        let start = Instant::now();
        let outcome = call();
        let mut longest = self.longest.lock().expect("no panic");
        *longest = (*longest).max(start.elapsed());
        let answer = match &outcome {
            Ok(_) => name.to_owned(),
            Err(error) => {
                let said = format!("{error:?}");
                let end = said.find([' ', '{', '"']).unwrap_or(said.len());
                format!("{name}: {}", &said[..end])
            }
        };
        let mut count = self.count.lock().expect("no panic");
        *count.entry(answer).or_default() += 1;
        outcome.ok()
    }
}

fn join(pool: &Pool, name: &str) -> Node {
    let timeouts = LinkTimeouts::default()
        .attach(TIME_LIMIT)
        .window(TIME_LIMIT)
        .flush(TIME_LIMIT)
        .detach(TIME_LIMIT);
    hythe_rtcore::join_with(pool, name, timeouts).expect("joins")
}

/// Opens a port again and again until it is there, uses it for a while, and closes it.
fn use_ports<P>(
    over: &AtomicBool,
    mut open: impl FnMut() -> Option<P>,
    mut act: impl FnMut(&mut P, u32),
) {
    while !over.load(Ordering::Relaxed) {
        let Some(mut port) = open() else { continue };
        for step in 0..200 {
            act(&mut port, step);
            if over.load(Ordering::Relaxed) {
                break;
            }
        }
    }
}

fn publish_and_take(pool: &Pool, told: &Answers, over: &AtomicBool) {
    let node = join(pool, "echo");
    let options = PublisherOptions::default().send_timeout(TIME_LIMIT);
    let open = || {
        let ping = told.note("publisher", || node.publisher("ping", &options))?;
        let options = SubscriberOptions::default().depth(4);
        let pong = told.note("subscriber", || node.subscriber("pong", &options))?;
        Some((ping, pong))
    };
    use_ports(over, open, |(ping, pong), step| {
        let lease = told.note("lease", || ping.lease(1000));
        if let Some(mut lease) = lease {
            // The core asks for so many milliseconds, as the first word says, or echoes.
            lease.write(0, &[1, 0, 0, 0].repeat(250));
            told.note("publish", || ping.publish(lease, 1000));
        }
        let taken = told.note("take", || pong.take(TIME_LIMIT)).flatten();
        // Parts go on as they came, others are released.
        if let Some(sample) = taken {
            assert!(sample.to_vec().len() <= 1 << 20);
            if step % 8 == 0 {
                told.note("forward", || ping.forward(sample));
            }
        }
    });
}

fn notify_and_listen(pool: &Pool, told: &Answers, over: &AtomicBool) {
    let node = join(pool, "knocker");
    let open = || {
        let knock = told.note("notifier", || node.notifier("knock"))?;
        let answer = told.note("listener", || node.listener("answer"))?;
        Some((knock, answer))
    };
    use_ports(over, open, |(knock, answer), step| {
        let event = EventId::new((step % 40) as u8).expect("an event");
        told.note("notify", || knock.notify(event));
        told.note("listen", || answer.wait(TIME_LIMIT));
    });
}

fn ask(pool: &Pool, told: &Answers, over: &AtomicBool) {
    let node = join(pool, "client");
    let options = ClientOptions::default()
        .send_timeout(TIME_LIMIT)
        .outstanding(4);
    let open = || told.note("client", || node.client("ask", &options));
    use_ports(over, open, |client, _| {
        let Some(mut lease) = told.note("request lease", || client.lease(100)) else {
            return;
        };
        lease.write(0, &[7; 100]);
        let reply = told.note("call", || client.call(lease, 100, TIME_LIMIT));
        drop(reply.map(|reply| reply.to_vec()));
    });
}

/// While a server is there, the core asks it for what comes over `ping`.
fn answer(pool: &Pool, told: &Answers, over: &AtomicBool) {
    let node = join(pool, "server");
    let options = ServerOptions::default().depth(4);
    let open = || told.note("server", || node.server("query", &options));
    use_ports(over, open, |server, step| {
        let request = told.note("take request", || server.take(TIME_LIMIT));
        let Some(request) = request.flatten() else {
            return;
        };
        let asked = request.sample().to_vec();
        assert!(asked.len() <= 1 << 20);
        if step % 4 == 0 {
            told.note("reply in kind", || request.reply_in_kind());
        } else if let Some(lease) = told.note("reply lease", || server.lease(8)) {
            told.note("reply", || request.reply(lease, 8));
        }
    });
}

fn wait_for_any(pool: &Pool, told: &Answers, over: &AtomicBool) {
    let node = join(pool, "waiter");
    let open = || {
        let options = SubscriberOptions::default().depth(2);
        let mut pong = told.note("subscriber", || node.subscriber("pong", &options))?;
        let mut answer = told.note("listener", || node.listener("answer"))?;
        let mut set = told.note("wait set", || node.wait_set())?;
        set.attach(&mut pong).expect("ours");
        set.attach(&mut answer).expect("ours");
        Some((pong, answer, set))
    };
    use_ports(over, open, |(pong, answer, set), _| {
        let ready = told.note("wait", || set.wait(TIME_LIMIT).map(|ready| ready.len()));
        if ready.is_some_and(|ready| ready > 0) {
            told.note("take", || pong.try_take());
            told.note("listen", || answer.try_take());
        }
    });
}

fn look(pool: &Pool, board: &str, over: &AtomicBool) {
    while !over.load(Ordering::Relaxed) {
        let status = control::status(pool, board).expect("its agent lives");
        assert_eq!(status.board, board);
        let _ = format!("{status:?}");
        let audit = pool.snapshot().audit;
        assert_eq!(audit.mismatches, [], "{audit:?}");
        assert_eq!(audit.free + audit.held + audit.queued, audit.slots);
        let_time_pass(TIME_LIMIT, "the pace of its polls");
    }
}

fn round(board: &Board, seed: u64) {
    let world = World::new();
    let options = CoreOptions::default().start_bound(LONG);
    let core = Core::start(&world.pool, board, &options).expect("core");
    let reach = Reach::of(&world.pool, core.region());
    let mut echo = Echo::open(&world.pool, "first").expect("ports");
    echo.round_trip(b"sound so far");
    drop(echo);
    // In memory that is none of the core's.
    let bystander = join(&world.pool, "bystander");
    let mut untouched = bystander.lease(4000).expect("a free slot");
    untouched.write(0, &[0xA5; 4000]);
    let (over, told) = (AtomicBool::new(false), Answers::default());
    let scribbles = std::thread::scope(|scope| {
        let (pool, told, over) = (&world.pool, &told, &over);
        scope.spawn(|| publish_and_take(pool, told, over));
        scope.spawn(|| notify_and_listen(pool, told, over));
        scope.spawn(|| ask(pool, told, over));
        scope.spawn(|| answer(pool, told, over));
        scope.spawn(|| wait_for_any(pool, told, over));
        scope.spawn(|| look(pool, board.name(), over));
        let hostile = scope.spawn(|| reach.scribble(seed, over));
        let_time_pass(ROUND, "all threads work for the time of a round");
        over.store(true, Ordering::Relaxed);
        hostile.join().expect("no panic")
    });
    let status = control::status(&world.pool, board.name()).expect("its agent lives");
    let seen = Violation::last_of(&status.counters);
    println!(
        "{} HYTHE_FUZZ_SEED={seed}: {scribbles} scribbles, {told:?}\n  {:?}\n  the last: {}",
        board.name(),
        status.counters,
        seen.map_or_else(|| "nothing".to_owned(), |seen| seen.to_string())
    );
    assert!(status.counters.violations > 0 && seen.is_some());
    let mut found = [0; 4000];
    untouched.read(0, &mut found);
    assert!(found == [0xA5; 4000], "written where no core can write");
    drop((untouched, bystander));
    // The core may have refused to go on, or to stop when asked; then it is ended.
    let _ = core.stop();
    world.assert_clean();
}

fn rounds(board_name: &str) {
    let Some(board) = board(board_name) else {
        return;
    };
    let first = number("HYTHE_FUZZ_SEED", 1);
    for seed in first..first + number("HYTHE_FUZZ_ROUNDS", 2) {
        let (done, ended) = channel();
        let board = board.clone();
        let played = std::thread::spawn(move || {
            round(&board, seed);
            let _ = done.send(());
        });
        // A panic ends it, too; only who is kept does not.
        let kept = ended.recv_timeout(4 * LONG);
        let is_kept = kept == Err(std::sync::mpsc::RecvTimeoutError::Timeout);
        assert!(!is_kept, "seed {seed}: somebody is kept");
        played.join().expect("no panic");
    }
}

#[test]
fn hostile_core_harms_nobody() {
    rounds("hosted");
}

#[test]
fn hostile_emulated_core_harms_nobody() {
    rounds("mps2-an386");
}

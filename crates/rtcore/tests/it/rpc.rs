//! Calls both ways between processes and a core that runs `p1` (`rtos/apps/p1/README.md`).

use std::num::NonZeroU32;
use std::time::Duration;

use crate::support::{LONG, Other, World, boards, eventually, kill, pattern, role};
use hythe_node::rpc::{Call, Caller, Table};
use hythe_node::{
    Client, ClientOptions, Node, NodeError, PendingReply, PortKind, Server, ServerLoss,
    ServerOptions,
};
use hythe_rtcore::{Board, Core, CoreOptions};

const REVERSE: u32 = 1;
const HOLD: u32 = 2;
const FAIL: u32 = 3;
const FILL: u32 = 4;
const SLEEP: u32 = 5;
const ASK: u32 = 6;
const ASK_MANY: u32 = 7;
const COUNT: u32 = 8;

/// Calls that are held, or asked at once.
const MANY: usize = 16;
const LARGEST: usize = 64 << 10;
const LONG_MS: u32 = 120_000;

/// What the core's own calls end with (`hythe_rt.h`, `hythe_rpc.h`).
const OK: i32 = 0;
const TIMEOUT: i32 = -2;
const DETACHED: i32 = -5;
const LOST: i32 = -9;
const GIVEN_UP: i32 = -10;
const METHOD: i32 = -12;
const RESULT: i32 = -13;
const FAILED: i32 = -14;

struct Fixture {
    client: Client,
    node: Node,
    core: Core,
    world: World,
}

impl Fixture {
    fn start(board: &Board) -> Self {
        let world = World::new();
        let options = CoreOptions::default().start_bound(LONG).restarts(1);
        let core = Core::start(&world.pool, board, &options.app("p1")).expect("core");
        let node = hythe_rtcore::join(&world.pool, "caller").expect("joins");
        let client = client(&node);
        Self {
            client,
            node,
            core,
            world,
        }
    }

    fn call(&mut self, method: u32, argument: &[u8]) -> Result<Vec<u8>, NodeError> {
        let result = Caller::new(&mut self.client).call(method, argument, LONG)?;
        assert_eq!(
            result.descriptor().place.region,
            self.core.region(),
            "where the core wrote it"
        );
        Ok(result.to_vec())
    }

    fn begin(&mut self, method: u32, argument: &[u8]) -> PendingReply {
        let mut caller = Caller::new(&mut self.client);
        caller.begin(method, argument, LONG).expect("begun")
    }

    fn end(&mut self, call: PendingReply) -> Result<Vec<u8>, NodeError> {
        let result = Caller::new(&mut self.client).wait(call, LONG)?;
        Ok(result.expect("a result").to_vec())
    }

    /// Has the core call Linux.
    fn begin_ask(&mut self, method: u32, timeout_ms: u32, argument: &[u8]) -> PendingReply {
        self.begin_ask_within(method, timeout_ms, LARGEST as u32, argument)
    }

    fn begin_ask_within(
        &mut self,
        method: u32,
        timeout_ms: u32,
        capacity: u32,
        argument: &[u8],
    ) -> PendingReply {
        self.begin(ASK, &question(method, timeout_ms, capacity, argument))
    }

    /// What came of it on the core: result, length, bytes.
    fn outcome(&mut self, call: PendingReply) -> (i32, u32, Vec<u8>) {
        let mut outcome = self.end(call).expect("an outcome");
        let bytes = outcome.split_off(8);
        let [result, length] = [0, 4].map(|at| word(&outcome, at));
        (result.cast_signed(), length, bytes)
    }

    fn server(&self) -> Server {
        let options = ServerOptions::default().depth(MANY as u32);
        let server = self.node.server("core/asks", &options);
        server.expect("a server")
    }

    fn finish(self) {
        let Self {
            client,
            node,
            core,
            world,
        } = self;
        drop((client, node));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

fn client(node: &Node) -> Client {
    let client = node.client("core/calls", &ClientOptions::default());
    client.expect("a client")
}

/// Boards that can run `p1` here.
fn p1_boards() -> Vec<Board> {
    let runs = |board: &Board| {
        let missing = board.missing("p1");
        if !missing.is_empty() {
            eprintln!("SKIPPED on board {}: {}", board.name(), missing.join("; "));
        }
        missing.is_empty()
    };
    boards().into_iter().filter(runs).collect()
}

fn question(method: u32, timeout_ms: u32, capacity: u32, argument: &[u8]) -> Vec<u8> {
    let words = [method, timeout_ms, capacity].map(u32::to_le_bytes);
    [words.as_flattened(), argument].concat()
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let word = bytes[at..at + 4].try_into().expect("a word");
    u32::from_le_bytes(word)
}

fn reversed(bytes: &[u8]) -> Vec<u8> {
    bytes.iter().rev().copied().collect()
}

fn take(server: &mut Server) -> Call {
    let call = Call::take(server, LONG).expect("sound");
    call.expect("a call")
}

#[test]
fn process_calls_core_methods_with_distinct_refusals() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        for (seed, bytes) in (1..).zip([0, 1, 2, 64, 3000, 20_000, LARGEST]) {
            let argument = pattern(bytes, seed);
            let result = fixture.call(REVERSE, &argument).expect("a result");
            assert_eq!(result, reversed(&argument));
        }
        let none = fixture.call(99, b"abc").expect_err("no such method");
        assert!(
            matches!(none, NodeError::NoSuchMethod { method: 99, .. }),
            "{none}"
        );
        let number = 0x7FFF_FFFF_u32;
        let failed = fixture.call(FAIL, &number.to_le_bytes());
        let failed = failed.expect_err("fails");
        let NodeError::MethodFailed { number, .. } = failed else {
            panic!("{failed}");
        };
        assert_eq!(number, i32::MAX);
        assert_eq!(fixture.call(FAIL, &[0; 4]).expect("does not fail"), b"");

        let full = fixture.call(FILL, &(LARGEST as u32).to_le_bytes());
        assert_eq!(full.expect("a result"), vec![0x5A; LARGEST]);
        let large = fixture.call(FILL, &(LARGEST as u32 + 1).to_le_bytes());
        let large = large.expect_err("too large");
        let NodeError::ResultTooLarge { bytes, .. } = large else {
            panic!("{large}");
        };
        assert_eq!(bytes as usize, LARGEST + 1);
        let mut caller = Caller::new(&mut fixture.client).largest_result(10);
        let ten = caller.call(FILL, &10_u32.to_le_bytes(), LONG);
        assert_eq!(ten.expect("fits").len(), 10);
        let large = caller.call(FILL, &11_u32.to_le_bytes(), LONG);
        let says = large.expect_err("too large").to_string();
        assert!(says.contains("11 bytes, and its caller takes 10"), "{says}");
        // An argument that the endpoint does not carry.
        let long = fixture.call(REVERSE, &vec![0; LARGEST + 1]);
        let long = long.expect_err("too long");
        assert!(matches!(long, NodeError::TooLargeForCore { .. }), "{long}");
        assert_eq!(fixture.call(REVERSE, b"fine").expect("a result"), b"enif");
        fixture.finish();
    }
}

#[test]
fn what_is_no_call_is_given_up_by_a_core() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let mut lease = fixture.client.lease(31).expect("a free slot");
        lease.write(0, &[1; 31]);
        let short = fixture.client.call(lease, 31, LONG).expect_err("no call");
        assert!(matches!(short, NodeError::Unanswered { .. }), "{short}");
        assert_eq!(fixture.call(REVERSE, b"fine").expect("a result"), b"enif");
        fixture.finish();
    }
}

#[test]
fn process_answers_sixteen_calls_of_core_in_reverse() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        for round in 0..3_u8 {
            let calls: Vec<_> = (0..MANY as u8)
                .map(|number| (number, fixture.begin(HOLD, &[round, number])))
                .collect();
            for (number, call) in calls {
                assert_eq!(fixture.end(call).expect("a result"), [round, number]);
            }
        }
        fixture.finish();
    }
}

#[test]
fn result_that_comes_too_late_is_dropped_and_counted() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let mut caller = Caller::new(&mut fixture.client);
        let late = caller.call(SLEEP, &500_u32.to_le_bytes(), Duration::from_millis(20));
        let late = late.expect_err("too late");
        assert!(
            matches!(late, NodeError::NoReply { waited_ms: 20, .. }),
            "{late}"
        );
        assert_eq!(fixture.client.statistics().dropped, 0);
        assert_eq!(fixture.call(REVERSE, b"soon").expect("a result"), b"noos");
        assert_eq!(fixture.client.statistics().dropped, 1);
        fixture.finish();
    }
}

#[test]
fn core_that_is_killed_ends_its_calls_and_the_next_one_serves() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let calls: Vec<_> = (0..4)
            .map(|number| fixture.begin(HOLD, &[number]))
            .collect();
        let pid = fixture.core.status().pid;
        kill(pid);
        for call in calls {
            let lost = fixture.end(call).expect_err("its server is lost");
            assert!(
                matches!(
                    lost,
                    NodeError::ServerLost {
                        reason: ServerLoss::Went,
                        ..
                    }
                ),
                "{lost}"
            );
        }
        let next = fixture
            .core
            .wait_until(LONG, |status| status.pid != pid && status.restarts == 1);
        assert!(next, "the core is started again");
        eventually("the next core serves", || {
            fixture
                .call(REVERSE, b"abc")
                .is_ok_and(|result| result == b"cba")
        });
        fixture.finish();
    }
}

#[test]
fn caller_that_leaves_takes_nothing_from_the_others() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let other = hythe_rtcore::join(&fixture.world.pool, "leaves").expect("joins");
        let mut leaving = client(&other);
        let begun = Caller::new(&mut leaving).begin(HOLD, b"nobody", LONG);
        begun.expect("begun");
        // The core takes from its callers in turn: behind the second, it has that of the other.
        for _ in 0..2 {
            fixture.call(REVERSE, b"turn").expect("a result");
        }
        drop((leaving, other));
        let calls: Vec<_> = (1..MANY as u8)
            .map(|number| (number, fixture.begin(HOLD, &[number])))
            .collect();
        for (number, call) in calls {
            assert_eq!(fixture.end(call).expect("a result"), [number]);
        }
        fixture.finish();
    }
}

#[test]
fn core_calls_process_methods_with_distinct_codes() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let call = fixture.begin_ask(REVERSE, 50, b"nobody serves");
        assert_eq!(fixture.outcome(call).0, DETACHED);
        let mut server = fixture.server();
        let mut table = Table::new()
            .method(REVERSE, |call| {
                assert!(call.timeout() > Duration::ZERO);
                let result = reversed(&call.argument().to_vec());
                call.reply(&result)
            })
            .method(FILL, |call| {
                let bytes = word(&call.argument().to_vec(), 0) as usize;
                call.reply(&vec![0xA5; bytes])
            })
            .method(FAIL, |call| {
                let number = word(&call.argument().to_vec(), 0);
                call.fail(NonZeroU32::new(number).expect("not 0"))
            });
        let mut asked = |fixture: &mut Fixture, method, capacity, argument: &[u8]| {
            let call = fixture.begin_ask_within(method, LONG_MS, capacity, argument);
            let served = table.serve(&mut server, LONG).expect("sound");
            assert_eq!(served, Some(true));
            fixture.outcome(call)
        };
        for (seed, bytes) in (1..).zip([0, 1, 64, 3000, LARGEST - 12]) {
            let argument = pattern(bytes, seed);
            let (result, length, bytes) = asked(&mut fixture, REVERSE, LARGEST as u32, &argument);
            assert_eq!((result, length as usize), (OK, argument.len()));
            assert_eq!(bytes, reversed(&argument));
        }
        assert_eq!(asked(&mut fixture, 77, 9, b"abc"), (METHOD, 0, vec![]));
        let failed = asked(&mut fixture, FAIL, 9, &5_u32.to_le_bytes());
        assert_eq!(failed, (FAILED, 5, vec![]));
        let fits = asked(&mut fixture, FILL, 100, &100_u32.to_le_bytes());
        assert_eq!(fits, (OK, 100, vec![0xA5; 100]));
        let large = asked(&mut fixture, FILL, 100, &101_u32.to_le_bytes());
        assert_eq!(large, (RESULT, 101, vec![]));
        // A server may take its time, and write in place.
        let call = fixture.begin_ask(9, LONG_MS, b"in place");
        let held = take(&mut server);
        assert_eq!((held.method(), held.task()), (9, 0));
        assert_eq!(held.largest_result(), LARGEST - 8);
        let mut lease = held.lease(3).expect("a free slot");
        assert_eq!(lease.region(), fixture.core.region());
        lease.write(hythe_node::rpc::HEADER_BYTES, b"yes");
        assert!(held.reply_in(lease, 3).expect("replied"));
        assert_eq!(fixture.outcome(call), (OK, 3, b"yes".to_vec()));
        // No answer at all.
        let call = fixture.begin_ask(9, LONG_MS, b"dropped");
        drop(take(&mut server));
        assert_eq!(fixture.outcome(call).0, GIVEN_UP);
        assert_eq!(server.statistics().violations, 0);
        drop(server);
        fixture.finish();
    }
}

#[test]
fn core_answers_sixteen_calls_in_reverse() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let mut server = fixture.server();
        for round in 0..3 {
            let call = fixture.begin(ASK_MANY, &question(50 + round, LONG_MS, 0, b""));
            let mut calls: Vec<Call> = (0..MANY).map(|_| take(&mut server)).collect();
            while let Some(call) = calls.pop() {
                assert_eq!(call.method(), 50 + round);
                let number = word(&call.argument().to_vec(), 0);
                let result = (1000 * round + number).to_le_bytes();
                assert!(call.reply(&result).expect("replied"));
            }
            let results = fixture.end(call).expect("the results");
            let results: Vec<u32> = (0..MANY).map(|at| word(&results, 4 * at)).collect();
            let expected: Vec<u32> = (0..MANY as u32).map(|at| 1000 * round + at).collect();
            assert_eq!(results, expected);
        }
        drop(server);
        fixture.finish();
    }
}

#[test]
fn core_that_waits_no_longer_drops_and_counts_the_late_result() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let mut server = fixture.server();
        let call = fixture.begin_ask(9, 20, b"too slow");
        let late = take(&mut server);
        assert_eq!(late.timeout(), Duration::from_millis(20));
        assert_eq!(fixture.outcome(call).0, TIMEOUT);
        let before = fixture.call(COUNT, b"").expect("a count");
        assert_eq!(word(&before, 0), 0);
        assert!(late.reply(b"late").expect("it reaches the core"));
        // The next call looks at what came.
        let call = fixture.begin_ask(9, LONG_MS, b"in time");
        assert!(take(&mut server).reply(b"now").expect("replied"));
        assert_eq!(fixture.outcome(call), (OK, 3, b"now".to_vec()));
        let after = fixture.call(COUNT, b"").expect("a count");
        assert_eq!(word(&after, 0), 1);
        drop(server);
        fixture.finish();
    }
}

/// A server in a process of its own, which answers nothing.
#[test]
fn silent_server() {
    let Some((pool, _)) = role("silent_server") else {
        return;
    };
    let node = hythe_rtcore::join(&pool, "silent").expect("joins");
    let options = ServerOptions::default().depth(MANY as u32);
    let mut server = node.server("core/asks", &options).expect("a server");
    let mut held = Vec::new();
    loop {
        held.extend(Call::take(&mut server, LONG).expect("sound"));
    }
}

#[test]
fn calls_of_a_core_end_when_their_server_is_killed_or_leaves() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let silent = Other::start("silent_server", &fixture.world, &board);
        let call = fixture.begin_ask(9, LONG_MS, b"kept");
        eventually("taken", || {
            let ports = fixture.world.pool.snapshot().ports.into_iter();
            let servers = ports.filter(|port| port.kind == PortKind::Server);
            servers.map(|port| port.statistics.messages).sum::<u64>() == 1
        });
        silent.kill();
        assert_eq!(fixture.outcome(call).0, LOST);

        let mut server = fixture.server();
        let call = fixture.begin_ask(9, LONG_MS, b"kept");
        let taken = take(&mut server);
        drop(server);
        assert_eq!(fixture.outcome(call).0, LOST);
        assert!(!taken.reply(b"nobody").expect("no damage"), "nobody waits");
        fixture.finish();
    }
}

#[test]
fn core_that_is_killed_while_it_waits_leaves_nothing() {
    for board in p1_boards() {
        let mut fixture = Fixture::start(&board);
        let mut server = fixture.server();
        let call = fixture.begin_ask(9, LONG_MS, b"open");
        let taken = take(&mut server);
        let pid = fixture.core.status().pid;
        kill(pid);
        let lost = fixture.end(call).expect_err("its server is lost");
        assert!(matches!(lost, NodeError::ServerLost { .. }), "{lost}");
        let next = fixture
            .core
            .wait_until(LONG, |status| status.pid != pid && status.restarts == 1);
        assert!(next, "the core is started again");
        eventually("the old session is over", || {
            server.try_take().expect("sound").is_none() && server.clients().expect("sound") == 1
        });
        assert!(!taken.reply(b"late").expect("no damage"), "nobody waits");
        drop(server);
        fixture.finish();
    }
}

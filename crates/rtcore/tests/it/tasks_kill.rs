//! Tasks of a core are killed a hundred times under load: the others answer all the time, and
//! nothing is lost.

use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::time::Duration;

use crate::support::control::{P1, p1_boards};
use crate::support::{Echo, LONG, eventually};
use hythe_node::rpc::Caller;
use hythe_node::{ClientOptions, Pool, ServerOptions, SubscriberOptions};
use hythe_testing::let_time_pass;

/// A method of `p1` that returns its argument in reverse order.
const REVERSE: u32 = 1;
const KILLS: u32 = 100;
/// Longer than an echo that was not lost takes.
const LOST: Duration = Duration::from_secs(2);

/// What the load has come to.
#[derive(Default)]
struct Load {
    ends: AtomicBool,
    answered: AtomicU32,
    echoed: AtomicU32,
    lost: AtomicU32,
}

impl Load {
    /// Calls the task `methods`, which must answer each.
    fn call(&self, pool: &Pool) {
        let node = hythe_rtcore::join(pool, "calling").expect("joins");
        let options = ClientOptions::default();
        let mut client = node.client("core/calls", &options).expect("a client");
        let mut number = 0_u32;
        while !self.ends.load(Ordering::Relaxed) {
            number += 1;
            let argument = number.to_le_bytes();
            let result = Caller::new(&mut client).call(REVERSE, &argument, LONG);
            assert_eq!(result.expect("answered").to_vec(), number.to_be_bytes());
            self.answered.fetch_add(1, Ordering::Relaxed);
        }
    }

    /// Sends messages through the echo tasks. One that a killed task had is lost, no other.
    fn ping(&self, pool: &Pool) {
        let mut echo = Echo::open(pool, "pinging").expect("ports");
        let mut number = 0_u32;
        while !self.ends.load(Ordering::Relaxed) {
            number += 1;
            let sent = [number.to_le_bytes(); 64].concat();
            echo.send(&sent).expect("published");
            match echo.pong.take(LOST).expect("sound") {
                Some(back) => {
                    assert_eq!(
                        back.to_vec(),
                        sent,
                        "an echo that was given up for lost came"
                    );
                    self.echoed.fetch_add(1, Ordering::Relaxed);
                }
                None => {
                    self.lost.fetch_add(1, Ordering::Relaxed);
                }
            }
        }
    }
}

/// Kills by turns the first two echoes, of three, and the spinner. `give` lets Linux give the core
/// what came back.
fn kill_by_turns(p1: &mut P1, load: &Load, mut give: impl FnMut()) -> (u32, u32) {
    let mut requests = 0;
    let mut buffers = 0;
    let echoes: Vec<String> = p1
        .named("echo")
        .iter()
        .map(|task| task.number.to_string())
        .collect();
    for round in 0..KILLS {
        let victim = match round % 4 {
            0 => echoes[0].as_str(),
            2 => echoes[1].as_str(),
            _ => "spinner",
        };
        if victim == "spinner" {
            give();
            p1.tasks.start(victim, "").expect("started");
        }
        if round % 8 == 1 {
            eventually("it holds something", || p1.one("spinner").held > 0);
        }
        let moment = Duration::from_micros(u64::from(round * 7919 % 20_000));
        let_time_pass(moment, "another moment of its work each round");
        let (answered, echoed) = [&load.answered, &load.echoed]
            .map(|count| count.load(Ordering::Relaxed))
            .into();
        let killed = p1.tasks.kill(victim).expect("killed");
        buffers += killed.buffers_returned;
        requests += killed.requests_forgotten;
        eventually("the others answer behind the kill", || {
            load.answered.load(Ordering::Relaxed) > answered + 1
                && load.echoed.load(Ordering::Relaxed) > echoed + 1
        });
        if victim != "spinner" {
            p1.tasks.start(victim, "").expect("started again");
        }
    }
    (buffers, requests)
}

#[test]
fn two_of_several_tasks_are_killed_a_hundred_times_under_load() {
    for board in p1_boards() {
        let mut p1 = P1::start(&board);
        // The spinner's buffers come from here, and its requests go there, unanswered.
        let options = SubscriberOptions::default();
        let mut counted = p1.node.subscriber("count", &options).expect("a subscriber");
        let options = ServerOptions::default().depth(16);
        let mut server = p1.node.server("core/asks", &options).expect("a server");
        let load = Load::default();
        let pool = p1.world.pool.clone();
        let (buffers, requests) = std::thread::scope(|scope| {
            scope.spawn(|| load.call(&pool));
            scope.spawn(|| load.ping(&pool));
            let _ends = Ends(&load);
            kill_by_turns(&mut p1, &load, || {
                assert!(counted.try_take().expect("sound").is_none());
                while let Some(request) = server.try_take().expect("sound") {
                    drop(request);
                }
            })
        });
        let lost = load.lost.load(Ordering::Relaxed);
        println!(
            "{}: {KILLS} kills took back {buffers} buffers and {requests} requests; {} calls \
             answered, {} echoes, {lost} lost with their task",
            board.name(),
            load.answered.load(Ordering::Relaxed),
            load.echoed.load(Ordering::Relaxed)
        );
        assert!(
            buffers > 0 && requests > 0,
            "{buffers} buffers, {requests} requests"
        );
        let tasks = p1.tasks.list().expect("a list");
        let kills: u32 = tasks.iter().map(|task| task.kills).sum();
        assert_eq!(kills, KILLS);
        let returned: u32 = tasks.iter().map(|task| task.buffers_returned).sum();
        assert_eq!(returned, buffers);
        assert!(
            lost <= KILLS / 2,
            "{lost} of {} kills of an echo",
            KILLS / 2
        );
        // None but the service task, which is answering, has anything.
        for task in &tasks[1..] {
            assert_eq!(task.held, 0, "{task:?}");
        }
        let registers = p1.tasks.registers().expect("registers");
        let held: u32 = registers.ports.iter().map(|port| port.held).sum();
        assert_eq!(held, 1, "the request for them: {registers:?}");
        // At most: service, methods and three echoes.
        assert!(registers.sleepers <= 5, "{registers:?}");
        drop((counted, server));
        p1.assert_answers();
        p1.finish();
    }
}

/// Ends the load, however its scope is left.
struct Ends<'a>(&'a Load);

impl Drop for Ends<'_> {
    fn drop(&mut self) {
        self.0.ends.store(true, Ordering::Relaxed);
    }
}

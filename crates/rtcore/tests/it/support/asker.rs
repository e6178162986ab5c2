//! Having a core ask on channel `query`: the sending end of `ping`, with the outcomes on `pong`
//! (`rtos/apps/decoder/README.md`); and a server that replies with the bytes in reverse order.

use std::time::{Duration, Instant};

use hythe_node::{NodeError, PublisherOptions, Request, Server, SubscriberOptions};

use super::{Echo, LONG, World};

/// Results of `hythe_rt.h`.
pub const OK: i32 = 0;
pub const STALE: i32 = 1;
pub const TIMEOUT: i32 = -2;
pub const DETACHED: i32 = -5;
pub const LENGTH: i32 = -8;
pub const LOST: i32 = -9;
pub const GIVEN_UP: i32 = -10;

pub const LONG_MS: u32 = 120_000;

pub fn reversed(payload: &[u8]) -> Vec<u8> {
    payload.iter().rev().copied().collect()
}

/// The ports of somebody who has the core ask.
pub struct Asker(pub Echo);

impl Asker {
    pub fn open(world: &World) -> Self {
        let node = hythe_rtcore::join(&world.pool, "asker").expect("joins");
        let pong = node.subscriber("pong", &SubscriberOptions::default().depth(8));
        let ping = node.publisher("ping", &PublisherOptions::default());
        Self(Echo {
            pong: pong.expect("a subscriber"),
            ping: ping.expect("a publisher"),
            node,
        })
    }

    /// Waits until the core sees the server: it echoes before.
    pub fn await_server(&mut self, answer: impl FnMut() -> bool) {
        let mut answer = answer;
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < LONG, "the core does not ask");
            self.ask(LONG_MS, 7, b"");
            while self.0.pong.try_take().expect("sound").is_none() {
                if answer() {
                    let (result, id, _) = self.outcome();
                    assert_eq!((result, id), (OK, 7));
                    return;
                }
                assert!(start.elapsed() < LONG, "the core does not ask");
            }
        }
    }

    pub fn ask(&mut self, timeout_ms: u32, id: u32, question: &[u8]) {
        let prefix = [timeout_ms.to_le_bytes(), id.to_le_bytes()].concat();
        self.0.send(&[&prefix, question].concat()).expect("sent");
    }

    pub fn outcome(&mut self) -> (i32, u32, Vec<u8>) {
        let outcome = self.0.pong.take(LONG).expect("sound").expect("an outcome");
        let outcome = outcome.to_vec();
        let word = |at: usize| <[u8; 4]>::try_from(&outcome[at..at + 4]).expect("a word");
        (
            i32::from_le_bytes(word(0)),
            u32::from_le_bytes(word(4)),
            outcome[8..].to_vec(),
        )
    }

    /// As [`Asker::await_server`], of a server in another process.
    pub fn await_server_elsewhere(&mut self) {
        let start = Instant::now();
        loop {
            assert!(start.elapsed() < LONG, "the core does not ask");
            self.ask(LONG_MS, 7, b"ab");
            // An echo begins with the time-out.
            if self.outcome() == (OK, 7, b"ba".to_vec()) {
                return;
            }
        }
    }
}

pub fn reply(server: &Server, request: Request) -> Result<bool, NodeError> {
    let reply = reversed(&request.sample().to_vec());
    let mut lease = server.lease(reply.len())?;
    lease.write(0, &reply);
    request.reply(lease, reply.len())
}

pub fn answer_one(server: &mut Server) -> bool {
    let request = server.take(Duration::from_millis(20)).expect("sound");
    request.is_some_and(|request| reply(server, request).expect("replied"))
}

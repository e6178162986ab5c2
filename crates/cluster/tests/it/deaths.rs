//! An agent is killed by SIGKILL at steps of joining, sending, acknowledging and leaving, on either
//! host: both ledgers sum up, programs of the host go on, what was lost is a gap that is counted,
//! and an agent that is started again carries on.
//!
//! Each step of its carrier is visited (a connection made or taken, something sent, something
//! received), and stores of whatever thread into the pool, drawn by a printed seed
//! (`HYTHE_TEST_SEED`, `HYTHE_KILL_SAMPLES`; 0 samples visit all). The victim is this test program
//! again.

use crate::victim;

use std::collections::{BTreeSet, VecDeque};

use crate::support::eventually;
use crate::support::host::TestHost;
use crate::support::local::Local;
use crate::victim::{Death, End, Victim};
use hythe_node::{Publisher, PublisherOptions, Subscriber, SubscriberOptions};
use hythe_testing::Dice;

/// A few more than it takes to begin a session and a stream and to carry some messages. Those at
/// the end visit a session at work.
const STEPS: std::ops::RangeInclusive<u64> = 1..=80;
/// Deaths at stores in an ordinary run of the tests, of each host.
const SAMPLES: u32 = 24;
/// Taken before the victim is told to leave.
const MESSAGES: u32 = 5;

/// Plays the victim, if this process is one.
#[test]
fn plays_its_role() {
    victim::play();
}

/// A message that was given to the other host.
#[derive(Clone, Copy, Debug)]
struct Sent {
    number: u32,
    /// Beside which victim.
    round: u32,
    /// The host's port was open behind it.
    is_certain: bool,
}

/// A publisher on one host, a subscriber on the other.
struct Ends {
    publisher: Publisher,
    subscriber: Subscriber,
    local: Local,
    own_sends: bool,
    next: u32,
    round: u32,
    /// Not seen to arrive, in order.
    underway: VecDeque<Sent>,
    /// Of the last that arrived, and what was missed until then.
    last_round: u32,
    dropped: u64,
}

impl Ends {
    /// Of a host whose agent is the victim, and another.
    fn open(own: &TestHost, peer: &TestHost, own_sends: bool) -> Self {
        let (own, peer) = (own.join("local"), peer.join("local"));
        let (from, to) = if own_sends {
            (&own, &peer)
        } else {
            (&peer, &own)
        };
        let publisher = from.publisher("news", &PublisherOptions::default());
        // Never full.
        let subscriber = to.subscriber("news", &SubscriberOptions::default().depth(1024));
        Self {
            publisher: publisher.expect("opened"),
            subscriber: subscriber.expect("opened"),
            local: Local::open(&own),
            own_sends,
            next: 0,
            round: 0,
            underway: VecDeque::new(),
            last_round: 0,
            dropped: 0,
        }
    }

    fn send(&mut self) {
        let mut lease = self.publisher.lease(4).expect("a slot");
        lease.write(0, &self.next.to_le_bytes());
        // A host that went meanwhile may have taken the message before, or its port was closed.
        let published = self.publisher.publish(lease, 4);
        let is_certain = published.is_ok() && self.publisher.subscribers().is_ok_and(|it| it > 0);
        if published.map_or(true, |published| published.delivered > 0) {
            self.underway.push_back(Sent {
                number: self.next,
                round: self.round,
                is_certain,
            });
        }
        self.next += 1;
        self.local.assert_goes_on();
    }

    /// Takes all that has arrived, and says how much.
    fn take(&mut self) -> u32 {
        let mut taken = 0;
        while let Some(sample) = self.subscriber.try_take().expect("sound") {
            let bytes = sample.to_vec()[..4].try_into().expect("a number");
            self.arrived(u32::from_le_bytes(bytes));
            taken += 1;
        }
        taken
    }

    /// Each message comes once, and in order. What is missing before it is counted. Of an agent
    /// that was killed while it sent that is known if its stream had begun.
    fn arrived(&mut self, number: u32) {
        let mut lost = Vec::new();
        let round = loop {
            let sent = self.underway.pop_front().expect("sent, and not taken yet");
            if sent.number == number {
                break sent.round;
            }
            lost.push(sent);
        };
        let is_known =
            |sent: &&Sent| sent.is_certain && (!self.own_sends || sent.round == self.last_round);
        let known = lost.iter().filter(is_known).count();
        let dropped = self.subscriber.statistics().dropped;
        assert!(
            known == 0 || self.dropped < dropped,
            "{lost:?} are missing before {number} without a word"
        );
        (self.last_round, self.dropped) = (round, dropped);
    }

    /// Sends and takes until enough has arrived, or the victim is dead.
    fn run_beside(&mut self, victim: &mut Victim) {
        let mut taken = 0;
        self.round += 1;
        eventually("messages arrive, or the agent is dead", || {
            self.send();
            taken += self.take();
            taken >= MESSAGES || victim.has_died()
        });
    }
}

/// Two hosts, the agent of one of which is killed again and again.
struct Sweep {
    own: TestHost,
    peer: TestHost,
    ends: Ends,
    deaths: u32,
}

impl Sweep {
    /// The victim sends, and is dialled; or it receives, and dials.
    fn new(own_sends: bool) -> Self {
        let (own, peer) = if own_sends { ("a", "b") } else { ("b", "a") };
        let (own, peer) = (TestHost::without_agent(own), TestHost::new(peer));
        Self {
            ends: Ends::open(&own, &peer, own_sends),
            own,
            peer,
            deaths: 0,
        }
    }

    /// One victim, and what is left of it.
    fn visit(&mut self, death: Death) -> End {
        let mut victim = Victim::start(&self.own, &self.peer, death);
        self.ends.run_beside(&mut victim);
        let end = victim.end();
        self.deaths += u32::from(end == End::Killed);
        let (own, peer, ends) = (&self.own, &self.peer, &mut self.ends);
        eventually("both ledgers sum up", || {
            ends.take();
            let _ = ends.publisher.subscribers();
            !peer.is_connected_to(own.name.as_str()) && own.is_settled(1) && peer.is_settled(1)
        });
        end
    }

    fn end(mut self) {
        let last = self.visit(Death::Never);
        assert_ne!(last, End::Killed, "an agent that is started again works");
        println!("{} deaths", self.deaths);
        assert!(self.deaths > 10, "{} deaths were visited", self.deaths);
        drop(self.ends);
        for mut host in [self.own, self.peer] {
            host.agent = None;
            host.assert_settled(0);
        }
    }

    fn visit_steps(mut self) {
        for step in STEPS {
            self.visit(Death::Step(step));
        }
        self.end();
    }

    fn visit_stores(mut self) {
        let End::Left(before, leaving) = self.visit(Death::Never) else {
            panic!("nothing kills it");
        };
        let mut dice = Dice::from_environment();
        println!("{before} stores, {leaving} while it leaves");
        self.visit_drawn(before, &mut dice, Death::Store);
        self.visit_drawn(leaving, &mut dice, Death::StoreOfLeaving);
        self.end();
    }

    /// Deaths at some of so many stores. On a busy machine there were more of them, at looks for
    /// nothing, when they were counted: a victim that outlives its own says how many there are.
    fn visit_drawn(&mut self, mut count: u32, dice: &mut Dice, death: fn(u32) -> Death) {
        for store in drawn(count, dice) {
            let death = death(1 + (store - 1) % count);
            let fewer = match (self.visit(death), death) {
                (End::Killed, _) => continue,
                (End::Left(_, leaving), Death::StoreOfLeaving(_)) => leaving,
                (End::Left(before, _), _) => before,
            };
            count = fewer.clamp(1, count);
        }
    }
}

/// Numbers from 1 to `count`: all, or a sample with the first and the last in it.
fn drawn(count: u32, dice: &mut Dice) -> BTreeSet<u32> {
    let given = std::env::var("HYTHE_KILL_SAMPLES").ok();
    let samples = given.map_or(SAMPLES, |given| given.parse().expect("a number"));
    assert!(count > 0, "it stores something");
    if samples == 0 || count <= samples {
        return (1..=count).collect();
    }
    let some = (2..samples).map(|_| 1 + dice.below(count as usize) as u32);
    some.chain([1, count]).collect()
}

#[test]
fn agent_of_the_sender_is_killed_at_each_step() {
    Sweep::new(true).visit_steps();
}

#[test]
fn agent_of_the_receiver_is_killed_at_each_step() {
    Sweep::new(false).visit_steps();
}

#[test]
fn agent_of_the_sender_is_killed_at_stores() {
    Sweep::new(true).visit_stores();
}

#[test]
fn agent_of_the_receiver_is_killed_at_stores() {
    Sweep::new(false).visit_stores();
}

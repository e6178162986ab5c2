//! Random lives of four members and a core's row, against a model of plain maps: after every step
//! the counts agree.

use std::collections::{BTreeMap, VecDeque};
use std::time::SystemTime;

use crate::world::turns::{MEMBERS, Step, Turn, turns};
use crate::world::{self, Dying, Message, Way, World, until_death};
use hythe_pool::{
    Cursors, LedgerSlot, Member, MemberKind, PoolError, PortPolicy, SendError, Side, audit,
};
use proptest::prelude::*;
use proptest::test_runner::{Config, RngAlgorithm, TestCaseError, TestRng, TestRunner};

const CAPACITY: usize = 2;
const CASES: u32 = if cfg!(miri) { 2 } else { 500 };

type Counts = BTreeMap<LedgerSlot, u32>;

/// The pool, and what it should be.
struct Lives {
    world: World,
    dying: hythe_pool::Control<Dying>,
    members: Vec<Member>,
    core: Member,
    /// Of each member, and of the core's row behind them.
    held: Vec<Counts>,
    generations: BTreeMap<LedgerSlot, Message>,
    ways: BTreeMap<(usize, usize), (Way, VecDeque<Message>)>,
}

impl Lives {
    fn new() -> Self {
        let world = World::new();
        let members = (0..MEMBERS).map(|_| world.join("member")).collect();
        let core = world.join_as(MemberKind::CoreEndpoint, "core");
        Self {
            dying: world.dying(),
            members,
            core,
            held: vec![Counts::new(); MEMBERS + 1],
            generations: BTreeMap::new(),
            ways: BTreeMap::new(),
            world,
        }
    }

    fn pick(&self, who: usize, pick: usize) -> Option<(LedgerSlot, u32)> {
        let held = &self.held[who];
        let nth = pick.checked_rem(held.len())?;
        held.iter().nth(nth).map(|(&slot, &count)| (slot, count))
    }

    fn add(&mut self, who: usize, slot: LedgerSlot, more: u32) {
        *self.held[who].entry(slot).or_default() += more;
    }

    fn remove(&mut self, who: usize, slot: LedgerSlot, fewer: u32) {
        let left = self.held[who][&slot] - fewer;
        if left == 0 {
            self.held[who].remove(&slot);
        } else {
            self.held[who].insert(slot, left);
        }
    }

    fn total(&self, slot: LedgerSlot) -> u32 {
        let held: u32 = self
            .held
            .iter()
            .filter_map(|counts| counts.get(&slot))
            .sum();
        let queued = self.ways.values().flat_map(|way| &way.1);
        held + queued.filter(|message| message.slot == slot).count() as u32
    }

    /// Lets `who` take the step, in the pool and in the model. A panic by the fault leaves the
    /// model as it was before.
    fn step(&mut self, who: usize, step: &Step) {
        match *step {
            Step::Lease => self.lease(who),
            Step::Duplicate(pick, more) => {
                let Some((slot, _)) = self.pick(who, pick) else {
                    return;
                };
                self.members[who]
                    .duplicate(&self.dying, slot, more)
                    .expect("duplicate");
                self.add(who, slot, more);
            }
            Step::Release(pick, count) => {
                let Some((slot, held)) = self.pick(who, pick) else {
                    return;
                };
                let count = count.min(held);
                let last = self.members[who]
                    .release(&self.dying, slot, count)
                    .expect("release");
                assert_eq!(last, self.total(slot) == count);
                self.remove(who, slot, count);
            }
            Step::Send(pick, to) => self.send(who, pick, to),
            Step::Take(from) => self.take(who, from),
            Step::Give(pick) => {
                let Some((slot, _)) = self.pick(who, pick) else {
                    return;
                };
                self.members[who]
                    .give(&self.dying, self.core.index(), slot, 1)
                    .expect("give");
                self.remove(who, slot, 1);
                self.add(MEMBERS, slot, 1);
            }
            Step::Reclaim(pick) => {
                let Some((slot, _)) = self.pick(MEMBERS, pick) else {
                    return;
                };
                let row = self.core.index();
                assert!(
                    self.members[who]
                        .reclaim(&self.dying, row, slot, 1)
                        .expect("reclaim")
                );
                self.remove(MEMBERS, slot, 1);
                self.add(who, slot, 1);
            }
            Step::Connect(to) => self.connect(who, to),
            Step::Leave(other, out) => {
                let (key, side) = if out {
                    ((who, other), Side::Producer)
                } else {
                    ((other, who), Side::Consumer)
                };
                self.leave(key, side);
            }
        }
    }

    fn lease(&mut self, who: usize) {
        let region = self
            .world
            .regions
            .region(hythe_abi::RegionIndex(0))
            .expect("region 0");
        let leased = self.members[who].lease_any(&self.dying, region, 1, &mut Cursors::default());
        let slots = region.slots;
        match leased {
            Ok((slot, generation)) => {
                let slot = LedgerSlot(slot);
                assert_eq!(self.total(slot), 0, "a lease of a slot in use");
                let message = world::message(&self.world.regions, slot, generation);
                let earlier = self.generations.insert(slot, message);
                assert_ne!(earlier, Some(message), "the same generation again");
                self.add(who, slot, 1);
            }
            Err(PoolError::PoolFull { .. }) => {
                assert!(
                    (0..slots).all(|slot| self.total(LedgerSlot(slot)) > 0),
                    "a slot is free"
                );
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn send(&mut self, who: usize, pick: usize, to: usize) {
        let Some((slot, _)) = self.pick(who, pick) else {
            return;
        };
        let Some((way, queued)) = self.ways.get_mut(&(who, to)) else {
            return;
        };
        let message = self.generations[&slot];
        let sent = self.members[who].send(&self.dying, &mut way.producer, slot, message.descriptor);
        match sent {
            Ok(()) => {
                queued.push_back(message);
                assert!(queued.len() <= CAPACITY);
                self.remove(who, slot, 1);
            }
            Err(SendError::Full) => {
                assert_eq!(queued.len(), CAPACITY);
                self.evict_oldest(who, to);
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn evict_oldest(&mut self, who: usize, to: usize) {
        let Some((way, queued)) = self.ways.get_mut(&(who, to)) else {
            return;
        };
        if !way.producer.info.evicts_oldest {
            return;
        }
        let dropped = self.members[who]
            .evict_oldest(&self.dying, &self.world.regions, &mut way.producer)
            .expect("sound")
            .expect("nobody else takes meanwhile");
        let oldest = queued.pop_front().expect("it is full");
        assert_eq!(dropped.descriptor, oldest.descriptor);
        self.add(who, oldest.slot, 1);
    }

    fn take(&mut self, who: usize, from: usize) {
        let Some((way, queued)) = self.ways.get_mut(&(from, who)) else {
            return;
        };
        let regions = &self.world.regions;
        let taken = self.members[who]
            .take(&self.dying, regions, &mut way.consumer)
            .expect("take");
        assert_eq!(
            taken.map(|taken| taken.descriptor),
            queued.front().map(|m| m.descriptor)
        );
        if let Some(message) = queued.pop_front() {
            self.add(who, message.slot, 1);
        }
    }

    fn connect(&mut self, who: usize, to: usize) {
        if who == to || self.ways.len() >= 6 || self.ways.contains_key(&(who, to)) {
            return;
        }
        // Made by the living; what dies in `connect` is the subject of the kill sweep.
        let [from, to_member] = self
            .members
            .get_disjoint_mut([who, to])
            .expect("two different members");
        // Half of the ways.
        let policy = if who > to {
            PortPolicy::EvictOldest
        } else {
            PortPolicy::DropNewest
        };
        let way = self
            .world
            .connect_with(from, to_member, CAPACITY as u32, policy);
        self.ways.insert((who, to), (way, VecDeque::new()));
    }

    /// One side leaves, then the other, which finds the queue and empties it.
    fn leave(&mut self, key: (usize, usize), first: Side) {
        let Some((way, _)) = self.ways.get(&key) else {
            return;
        };
        let info = way.producer.info;
        let mut sides = [(key.0, Side::Producer), (key.1, Side::Consumer)];
        if first == Side::Consumer {
            sides.reverse();
        }
        for (place, (who, side)) in sides.into_iter().enumerate() {
            if place > 0 {
                // The second to leave is not the one that may die in this step.
                self.dying.memory().fault.arm(0);
            }
            let regions = &self.world.regions;
            let (control, index, nonce) = (&self.dying, info.index, info.nonce);
            let left = self.members[who].leave_connection(control, regions, index, nonce, side);
            left.expect("leave");
        }
        let (way, _) = self.ways.remove(&key).expect("it is there");
        self.close_ports(key, &way);
    }

    fn close_ports(&mut self, (from, to): (usize, usize), way: &Way) {
        self.members[from].free_port(&self.world.control, way.producer_port);
        self.members[to].free_port(&self.world.control, way.consumer_port);
    }

    /// `who` is dead: another recovers it, the others leave its ways, and a new member comes in its
    /// place.
    fn bury(&mut self, who: usize) {
        let undertaker = (who + 1) % MEMBERS;
        let dead = self.members[who].index();
        let mut living: Vec<_> = self.members.iter().map(Member::index).collect();
        living.push(self.core.index());
        living.retain(|&index| index != dead);
        self.world
            .recover(&self.members[undertaker], dead, &living)
            .expect("it is dead");
        let keys: Vec<_> = self
            .ways
            .keys()
            .filter(|key| key.0 == who || key.1 == who)
            .copied()
            .collect();
        for key in keys {
            let (mut way, _) = self.ways.remove(&key).expect("it is there");
            let (other, side) = if key.0 == who {
                (key.1, Side::Consumer)
            } else {
                (key.0, Side::Producer)
            };
            while side == Side::Consumer
                && let Some(message) = self.world.take(&mut self.members[other], &mut way)
            {
                self.add(other, message.slot, 1);
            }
            let info = way.producer.info;
            let member = &mut self.members[other];
            let (control, regions) = (&self.world.control, &self.world.regions);
            let left = member.leave_connection(control, regions, info.index, info.nonce, side);
            left.expect("leave");
            let port = if side == Side::Consumer {
                way.consumer_port
            } else {
                way.producer_port
            };
            member.free_port(control, port);
        }
        self.members[who] = self.world.join("member");
        self.held[who].clear();
        self.learn_what_the_dead_finished();
    }

    /// A step that its doer did not survive happened or not; what is left of it in the core's row
    /// is read, and the audit says whether it adds up.
    fn learn_what_the_dead_finished(&mut self) {
        let row = self.core.index();
        for slot in (0..world::SMALL_SLOTS + world::LARGE_SLOTS).map(LedgerSlot) {
            let count = self.world.control.ledger().held_by(row, slot);
            self.held[MEMBERS].remove(&slot);
            if count > 0 {
                self.add(MEMBERS, slot, count);
            }
        }
        for message in self.generations.values_mut() {
            message.descriptor.generation = self.world.control.ledger().slot(message.slot).1;
        }
    }

    fn check(&self) -> Result<(), TestCaseError> {
        let found = audit(&self.world.control, &self.world.regions, 0);
        prop_assert!(found.mismatches.is_empty(), "{:?}", found.mismatches);
        let mut sums = [0, 0, 0];
        for slot in (0..found.slots).map(LedgerSlot) {
            let total = self.total(slot);
            prop_assert_eq!(
                self.world.control.ledger().slot(slot).0,
                total,
                "{:?}",
                slot
            );
            let held = self.held.iter().any(|counts| counts.contains_key(&slot));
            sums[if held { 1 } else { usize::from(total > 0) * 2 }] += 1;
            for (member, counts) in self.members.iter().zip(&self.held) {
                let model = counts.get(&slot).copied().unwrap_or(0);
                prop_assert_eq!(member.holds(&self.world.control, slot), model, "{:?}", slot);
            }
        }
        prop_assert_eq!([found.free, found.held, found.queued], sums);
        Ok(())
    }
}

fn live(turns: &[Turn]) -> Result<(), TestCaseError> {
    let mut lives = Lives::new();
    for (who, step, death) in turns {
        lives.dying.memory().fault.arm(death.unwrap_or(0));
        let lived = until_death(|| lives.step(*who, step)).is_some();
        lives.dying.memory().fault.arm(0);
        if !lived {
            lives.bury(*who);
        }
        lives.check()?;
    }
    let Lives {
        world,
        members,
        core,
        ..
    } = lives;
    for member in members.into_iter().chain([core]) {
        member
            .depart(&world.control, &world.regions)
            .expect("departure");
    }
    world.check_empty("the end");
    Ok(())
}

#[test]
fn ledger_agrees_with_plain_maps() {
    let clock = || {
        SystemTime::UNIX_EPOCH
            .elapsed()
            .map_or(1, |now| now.as_nanos() as u64)
    };
    let given = std::env::var("HYTHE_SEED")
        .ok()
        .and_then(|seed| seed.parse().ok());
    let seed: u64 = given.unwrap_or_else(clock);
    println!("seed {seed}; HYTHE_SEED={seed} runs the same again");
    let mut bytes = [0; 32];
    bytes[..8].copy_from_slice(&seed.to_le_bytes());
    let rng = TestRng::from_seed(RngAlgorithm::ChaCha, &bytes);
    let config = Config {
        cases: CASES,
        failure_persistence: None,
        ..Config::default()
    };
    let outcome = TestRunner::new_with_rng(config, rng).run(&turns(), |turns| live(&turns));
    if let Err(error) = outcome {
        panic!("seed {seed}: {error}");
    }
}

//! Four members on threads of their own lease, send, take, forward and release at full speed; then
//! the sums are checked.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, AtomicUsize, Ordering};

use crate::world::{self, SMALL_BYTES, World};
use hythe_abi::{Descriptor, RegionIndex};
use hythe_memory::Mapped;
use hythe_pool::{ConnectionEnd, Control, Cursors, Member, PoolError, Regions, SendError, Taken};
use hythe_queue::{Consumer, Producer};

const MEMBERS: usize = 4;
/// Messages taken by all together until they stop.
const MESSAGES: usize = if cfg!(miri) { 300 } else { 300_000 };
/// A bound for each, should nothing move: far more turns than it takes.
const TURNS_MAX: u32 = 20_000_000;

/// One word of payload per slot. Relaxed: that a reader finds what the writer left is the work of
/// queue and ledger.
type Payloads = Arc<Vec<AtomicU64>>;

struct Actor {
    member: Member,
    control: Control<Mapped>,
    regions: Regions,
    payloads: Payloads,
    out: Vec<ConnectionEnd<Producer>>,
    back: Vec<ConnectionEnd<Consumer>>,
    random: u64,
    cursors: Cursors,
    taken: Arc<AtomicUsize>,
}

/// What the writer of this lease leaves in the payload, and its readers expect.
fn stamp(descriptor: Descriptor) -> u64 {
    let words = descriptor.to_words();
    u64::from(words[0]) << 32 | u64::from(words[1])
}

impl Actor {
    /// A small linear congruential generator (Knuth's MMIX constants): repeatable, no dependency.
    fn random(&mut self, below: usize) -> usize {
        self.random = self.random.wrapping_mul(6_364_136_223_846_793_005);
        self.random = self.random.wrapping_add(1_442_695_040_888_963_407);
        (self.random >> 33) as usize % below
    }

    fn publish(&mut self) {
        let region = self.regions.region(RegionIndex(0)).expect("region 0");
        let leased = self
            .member
            .lease_any(&self.control, region, SMALL_BYTES, &mut self.cursors);
        let (slot, generation) = match leased {
            Ok(leased) => leased,
            Err(PoolError::PoolFull { .. }) => return,
            Err(other) => panic!("{other}"),
        };
        let slot = hythe_pool::LedgerSlot(slot);
        let descriptor = world::message(&self.regions, slot, generation).descriptor;
        self.payloads[slot.0 as usize].store(stamp(descriptor), Ordering::Relaxed);
        self.member
            .duplicate(&self.control, slot, 1)
            .expect("duplicate");
        for _ in 0..2 {
            let place = self.regions.check(descriptor).expect("in the pool");
            self.send_or_release(place.taken(descriptor));
        }
    }

    fn send_or_release(&mut self, message: Taken) {
        let to = self.random(self.out.len());
        let (member, way) = (&mut self.member, &mut self.out[to]);
        match member.send(&self.control, way, message.slot, message.descriptor) {
            Ok(()) => {}
            Err(SendError::Full) => {
                member
                    .release(&self.control, message.slot, 1)
                    .expect("release");
            }
            Err(other) => panic!("{other}"),
        }
    }

    fn take(&mut self, from: usize) -> Option<Taken> {
        let way = &mut self.back[from];
        let taken = self
            .member
            .take(&self.control, &self.regions, way)
            .expect("take")?;
        let payload = self.payloads[taken.slot.0 as usize].load(Ordering::Relaxed);
        assert_eq!(payload, stamp(taken.descriptor), "payload of another lease");
        self.taken.fetch_add(1, Ordering::Relaxed);
        Some(taken)
    }

    fn turn(&mut self) {
        if self.random(3) == 0 {
            self.publish();
        }
        let from = self.random(self.back.len());
        let Some(taken) = self.take(from) else {
            std::thread::yield_now();
            return;
        };
        if self.random(2) == 0 {
            self.send_or_release(taken);
        } else {
            self.member
                .release(&self.control, taken.slot, 1)
                .expect("release");
        }
    }

    fn live(&mut self) {
        for _ in 0..TURNS_MAX {
            if self.taken.load(Ordering::Relaxed) >= MESSAGES {
                break;
            }
            self.turn();
        }
    }

    /// After the last send of all: empties its queues.
    fn finish(&mut self) {
        for from in 0..self.back.len() {
            while let Some(taken) = self.take(from) {
                self.member
                    .release(&self.control, taken.slot, 1)
                    .expect("release");
            }
        }
    }
}

fn cast(world: &World, taken: &Arc<AtomicUsize>) -> Vec<Actor> {
    let mut members: Vec<Member> = (0..MEMBERS).map(|_| world.join("member")).collect();
    let slots = world.control.layout().limits().slots;
    let payloads: Payloads = Arc::new((0..slots).map(|_| AtomicU64::new(0)).collect());
    let mut outs: Vec<Vec<_>> = (0..MEMBERS).map(|_| Vec::new()).collect();
    let mut backs: Vec<Vec<_>> = (0..MEMBERS).map(|_| Vec::new()).collect();
    // Two ways from each: around, and to the one opposite.
    for (from, to) in (0..MEMBERS).flat_map(|from| [(from, from + 1), (from, from + 2)]) {
        let to = to % MEMBERS;
        let [a, b] = members.get_disjoint_mut([from, to]).expect("two members");
        let way = world.connect(a, b, 4);
        outs[from].push(way.producer);
        backs[to].push(way.consumer);
    }
    let ends = outs.into_iter().zip(backs);
    let actors = members
        .into_iter()
        .zip(ends)
        .enumerate()
        .map(|(index, (member, (out, back)))| Actor {
            member,
            control: world.control.clone(),
            regions: Regions::read(&world.control).expect("regions"),
            payloads: Arc::clone(&payloads),
            out,
            back,
            random: index as u64,
            cursors: Cursors::default(),
            taken: Arc::clone(taken),
        });
    actors.collect()
}

/// Says that a thread sends no more, also if it panicked: the others do not wait for it forever.
struct Done<'a>(&'a AtomicUsize);

impl Drop for Done<'_> {
    fn drop(&mut self) {
        self.0.fetch_sub(1, Ordering::Release);
    }
}

#[test]
fn threads_at_full_speed_lose_nothing() {
    let world = World::new();
    let taken = Arc::new(AtomicUsize::new(0));
    let sending = AtomicUsize::new(MEMBERS);
    let finished: Vec<Member> = std::thread::scope(|scope| {
        let threads = cast(&world, &taken).into_iter().map(|mut actor| {
            let sending = &sending;
            scope.spawn(move || {
                let sent = Done(sending);
                actor.live();
                drop(sent);
                while sending.load(Ordering::Acquire) > 0 {
                    std::thread::yield_now();
                }
                actor.finish();
                actor.member
            })
        });
        let threads: Vec<_> = threads.collect();
        threads
            .into_iter()
            .map(|thread| thread.join().expect("a member panicked"))
            .collect()
    });
    world.check_sums("when all stand still");
    let taken = taken.load(Ordering::Relaxed);
    assert!(
        taken >= MESSAGES,
        "nothing moved any more after {taken} messages"
    );
    for member in finished {
        let given_back = member
            .depart(&world.control, &world.regions)
            .expect("departure");
        assert_eq!(
            given_back.references, 0,
            "its queues were empty, its samples released"
        );
    }
    world.check_empty("the end");
}

//! Queues that evict the oldest: what is taken, by whom, in which order; and what a liar can do to
//! one.

use std::sync::atomic::{AtomicBool, Ordering as Atomic};

use crate::world::{Message, Way, World};
use hythe_abi::{Descriptor, HEADROOM_BYTES};
use hythe_memory::{Memory, Ordering};
use hythe_pool::{Member, PoolError, PortPolicy, Regions, SendError, Side};

const CAPACITY: u32 = 4;
/// Messages sent at full speed.
const MESSAGES: u32 = if cfg!(miri) { 300 } else { 100_000 };

fn contested(world: &World) -> (Member, Member, Way) {
    let (mut from, mut to) = (world.join("from"), world.join("to"));
    let way = world.connect_with(&mut from, &mut to, CAPACITY, PortPolicy::EvictOldest);
    (from, to, way)
}

/// Sends, and evicts the oldest if it has to; returns what it dropped, released.
fn push(world: &World, from: &mut Member, way: &mut Way, message: Message) -> Option<Message> {
    let end = &mut way.producer;
    let control = &world.control;
    match from.send(control, end, message.slot, message.descriptor) {
        Ok(()) => return None,
        Err(SendError::Full) => {}
        Err(other) => panic!("{other}"),
    }
    let dropped = from.evict_oldest(control, &world.regions, end);
    let dropped = dropped.expect("sound").map(|taken| {
        world.release(from, taken.slot, 1);
        Message {
            slot: taken.slot,
            descriptor: taken.descriptor,
        }
    });
    from.send(control, end, message.slot, message.descriptor)
        .expect("room");
    dropped
}

/// A message whose length is its number.
fn numbered(world: &World, from: &mut Member, number: u32) -> Message {
    let mut message = world.lease(from);
    message.descriptor.length = number;
    message
}

#[test]
fn newest_stay_in_order() {
    let world = World::new();
    let (mut from, mut to, mut way) = contested(&world);
    let mut dropped = Vec::new();
    for number in 0..10 {
        let message = numbered(&world, &mut from, number);
        let old = push(&world, &mut from, &mut way, message);
        dropped.extend(old.map(|old| old.descriptor.length));
        world.check_sums("while it fills");
    }
    assert_eq!(dropped, (0..6).collect::<Vec<_>>());
    assert_eq!(way.consumer.waiting(&world.control), Ok(CAPACITY));
    for number in 6..10 {
        let taken = world.take(&mut to, &mut way).expect("it waits");
        assert_eq!(taken.descriptor.length, number);
        world.release(&mut to, taken.slot, 1);
    }
    assert_eq!(world.take(&mut to, &mut way), None);
    assert_eq!(way.consumer.waiting(&world.control), Ok(0));
    for member in [from, to] {
        member
            .depart(&world.control, &world.regions)
            .expect("departure");
    }
    world.check_empty("the end");
}

#[test]
fn heads_that_do_not_fit_are_refused_by_both_sides() {
    let world = World::new();
    let (mut from, mut to, mut way) = contested(&world);
    let message = world.lease(&mut from);
    world.send(&mut from, &mut way, message);
    let cell = world
        .control
        .layout()
        .oldest(way.producer.info.index.0 as usize);
    // Head 2, and one message was ever sent.
    let memory = world.control.memory();
    memory.store_cell(cell, 2 << 40, Ordering::Relaxed);
    let refused = to.take(&world.control, &world.regions, &mut way.consumer);
    assert!(matches!(refused, Err(PoolError::Damaged(_))), "{refused:?}");
    assert!(way.consumer.waiting(&world.control).is_err());
    let refused = from.evict_oldest(&world.control, &world.regions, &mut way.producer);
    assert!(matches!(refused, Err(PoolError::Damaged(_))), "{refused:?}");
    assert!(
        world
            .control
            .tables()
            .free_capacity(&mut way.producer)
            .is_err()
    );
    // What it held is lost with the liar; leaving still frees the queue.
    let info = way.producer.info;
    for (member, side) in [(&mut from, Side::Producer), (&mut to, Side::Consumer)] {
        let left =
            member.leave_connection(&world.control, &world.regions, info.index, info.nonce, side);
        left.expect("left");
    }
    assert_eq!(world.control.tables().connection(info.index), None);
}

#[test]
fn nonsense_is_passed_over_once() {
    let world = World::new();
    let (mut from, mut to, mut way) = contested(&world);
    for _ in 0..2 {
        let message = world.lease(&mut from);
        world.send(&mut from, &mut way, message);
    }
    // The second word is the generation; there is none that is 0.
    let entries = way.producer.info.places.entries;
    let memory = world.control.memory();
    memory.store(entries + 4, 0, Ordering::Relaxed);
    let refused = to.take(&world.control, &world.regions, &mut way.consumer);
    assert!(
        matches!(refused, Err(PoolError::BadDescriptor { .. })),
        "{refused:?}"
    );
    assert!(world.take(&mut to, &mut way).is_some());
    assert_eq!(world.take(&mut to, &mut way), None);
}

/// The high bits of the head are in the count of the cell: a queue goes on where 24 bits end, and
/// where 32 do.
#[test]
fn head_is_thirty_two_bits_wide() {
    for start in [(1 << 24) - 2, u32::MAX - 1] {
        let world = World::new();
        let (mut from, mut to, mut way) = contested(&world);
        let info = way.producer.info;
        let (memory, layout) = (world.control.memory(), world.control.layout());
        memory.store(info.places.tail, start, Ordering::Relaxed);
        let bits = u64::from(start >> 24) | u64::from(start & 0xFF_FFFF) << 40;
        memory.store_cell(
            layout.oldest(info.index.0 as usize),
            bits,
            Ordering::Relaxed,
        );
        way.producer = world.control.tables().producer_end(info);
        way.consumer = world.control.tables().consumer_end(info);
        for number in 0..9 {
            let message = numbered(&world, &mut from, number);
            push(&world, &mut from, &mut way, message);
        }
        for number in 5..9 {
            let taken = world.take(&mut to, &mut way).expect("it waits");
            assert_eq!(taken.descriptor.length, number);
        }
    }
}

fn number_of(descriptor: Descriptor) -> u32 {
    descriptor.offset - HEADROOM_BYTES + 400 * descriptor.length
}

/// Both sides at full speed: everything sent is taken once or dropped once, and what is taken comes
/// in order.
#[test]
fn nothing_is_lost_or_doubled_between_two_threads() {
    let world = World::new();
    let (mut from, mut to, way) = contested(&world);
    let Way {
        mut producer,
        mut consumer,
        ..
    } = way;
    // One slot, over and over: the descriptors differ by their part of it only.
    let message = world.lease(&mut from);
    let done = AtomicBool::new(false);
    let control = &world.control;
    let (dropped, taken) = std::thread::scope(|scope| {
        let (from, done) = (&mut from, &done);
        let pushing = scope.spawn(move || {
            let regions = Regions::read(control).expect("regions");
            let mut dropped = 0_u32;
            for number in 1..=MESSAGES {
                let mut descriptor = message.descriptor;
                // Inside the slot; together they tell all messages apart.
                descriptor.offset += number % 400;
                descriptor.length = number / 400;
                from.duplicate(control, message.slot, 1)
                    .expect("far from the limit");
                while let Err(refused) = from.send(control, &mut producer, message.slot, descriptor)
                {
                    assert_eq!(refused, SendError::Full);
                    let oldest = from.evict_oldest(control, &regions, &mut producer);
                    if let Some(oldest) = oldest.expect("sound") {
                        from.release(control, oldest.slot, 1).expect("its own");
                        dropped += 1;
                    }
                }
            }
            done.store(true, Atomic::Release);
            dropped
        });
        let regions = Regions::read(control).expect("regions");
        let (mut taken, mut last) = (0_u32, 0);
        loop {
            let over = done.load(Atomic::Acquire);
            match to.take(control, &regions, &mut consumer).expect("sound") {
                Some(found) => {
                    let number = number_of(found.descriptor);
                    assert!(number > last, "{number} behind {last}");
                    last = number;
                    to.release(control, found.slot, 1).expect("its own");
                    taken += 1;
                }
                None if over => break,
                None => std::thread::yield_now(),
            }
        }
        (pushing.join().expect("the producer"), taken)
    });
    assert_eq!(dropped + taken, MESSAGES);
    world.check_sums("the end");
    assert_eq!(world.control.ledger().slot(message.slot).0, 1);
}

//! What a participant may write that no honest one writes: refused or wasted, never a panic, never
//! somebody else's loss.

use crate::world::{LARGE_SLOTS, SMALL_SLOTS, World};
use hythe_abi::pool::{REFERENCES_MAX, connection, intent, participant, port, region};
use hythe_abi::{Descriptor, Place, RegionIndex};
use hythe_memory::{Memory, Ordering};
use hythe_pool::{PoolError, PortInfo, PortKind, PortPolicy, Regions, Side, audit};

/// A participant number that the tables of [`World`] do not have.
const NO_MEMBER: u64 = 200;
const READY: u64 = 2;

#[test]
fn slot_counts_that_come_round_are_refused() {
    let world = World::new();
    let (memory, at) = (world.control.memory(), world.control.layout().region(0));
    let class = |index: usize| at + region::CLASS_TABLE + index * region::CLASS_BYTES;
    memory.store_cell(at + region::REGION_BYTES, u64::MAX, Ordering::Relaxed);
    memory.store(class(0) + region::CLASS_COUNT, u32::MAX, Ordering::Relaxed);
    memory.store(class(1) + region::CLASS_FIRST, u32::MAX, Ordering::Relaxed);
    let rest = SMALL_SLOTS + LARGE_SLOTS + 1;
    memory.store(class(1) + region::CLASS_COUNT, rest, Ordering::Relaxed);
    let refused = Regions::read(&world.control).expect_err("more slots than the ledger has");
    assert!(matches!(refused, PoolError::NotAPool(_)), "{refused:?}");
}

#[test]
fn journal_with_an_impossible_count_is_settled() {
    let world = World::new();
    let (mut liar, honest) = (world.join("liar"), world.join("honest"));
    let held = world.lease(&mut liar);
    liar.duplicate(&world.control, held.slot, 1)
        .expect("duplicate");
    let layout = world.control.layout();
    let at = layout.participant(liar.index().0.into()) + participant::INTENT;
    let memory = world.control.memory();
    memory.store(at + intent::COUNT, u32::MAX, Ordering::Relaxed);
    memory.store(at + intent::OPERATION, 2, Ordering::Relaxed);
    world
        .recover(&honest, liar.index(), &[honest.index()])
        .expect("it is dead");
    assert_eq!(world.control.tables().members().count(), 1);
}

#[test]
fn reference_too_many_is_refused_and_removed() {
    let world = World::new();
    let (mut liar, mut honest) = (world.join("liar"), world.join("honest"));
    let mut way = world.connect(&mut liar, &mut honest, 4);
    let own = world.lease(&mut honest);
    honest
        .duplicate(&world.control, own.slot, REFERENCES_MAX - 1)
        .expect("up to the limit");
    let pushed = way
        .producer
        .queue
        .push(world.control.memory(), own.descriptor);
    pushed.expect("room");
    let refused = honest.take(&world.control, &world.regions, &mut way.consumer);
    assert!(
        matches!(refused, Err(PoolError::BadDescriptor { .. })),
        "{refused:?}"
    );
    assert_eq!(world.take(&mut honest, &mut way), None);
}

#[test]
fn region_that_makes_no_sense_stops_nobody() {
    let world = World::new();
    let (mut liar, mut honest) = (world.join("liar"), world.join("honest"));
    let mut way = world.connect(&mut liar, &mut honest, 4);
    let (memory, at) = (world.control.memory(), world.control.layout().region(1));
    memory.store(at + region::SLOTS, u32::MAX, Ordering::Relaxed);
    memory.store_cell(at + region::STATE, READY, Ordering::Relaxed);
    let message = world.lease(&mut liar);
    let lie = Descriptor {
        place: Place {
            region: RegionIndex(1),
            slot: 0,
        },
        ..message.descriptor
    };
    for _ in 0..2 {
        way.producer.queue.push(memory, lie).expect("room");
    }
    world.send(&mut liar, &mut way, message);
    let refused = honest.take(&world.control, &world.regions, &mut way.consumer);
    assert!(
        matches!(refused, Err(PoolError::BadDescriptor { .. })),
        "{refused:?}"
    );
    // The other lie, and the honest message behind it, are cleared away with the connection.
    honest
        .depart(&world.control, &world.regions)
        .expect("departure");
    liar.depart(&world.control, &world.regions)
        .expect("departure");
    world.check_empty("after all");
}

/// All queues claim to be full, as long as can be, and in the same place.
#[test]
#[cfg_attr(miri, ignore = "minutes under Miri")]
fn audit_reads_no_more_than_the_arena_has_room_for() {
    let world = World::new();
    let (mut from, mut to) = (world.join("from"), world.join("to"));
    let mut way = world.connect(&mut from, &mut to, 4);
    let message = world.lease(&mut from);
    world.send(&mut from, &mut way, message);
    let (memory, layout) = (world.control.memory(), world.control.layout());
    let limits = layout.limits();
    let entries = 256;
    for entry in 0..entries {
        for (word, value) in message.descriptor.to_words().into_iter().enumerate() {
            memory.store(
                layout.queue_segment(0) + entry * 16 + word * 4,
                value,
                Ordering::Relaxed,
            );
        }
    }
    let real = layout.connection(way.producer.info.index.0 as usize);
    let state = memory.load_cell(real + connection::STATE, Ordering::Relaxed);
    for index in 0..limits.connections as usize {
        let at = layout.connection(index);
        memory.store_cell(at + connection::STATE, state, Ordering::Relaxed);
        memory.store(at + connection::QUEUE_SEGMENT, 0, Ordering::Relaxed);
        memory.store(at + connection::CAPACITY, entries as u32, Ordering::Relaxed);
        memory.store(at + connection::TAIL, entries as u32, Ordering::Relaxed);
        memory.store(at + connection::HEAD, 0, Ordering::Relaxed);
    }
    let found = audit(&world.control, &world.regions, 0);
    assert_eq!(found.mismatches.len(), 1, "{:?}", found.mismatches);
    let room = limits.queue_segments * 32;
    assert!(
        limits.connections * entries as u32 > room,
        "or nothing is tried"
    );
    assert_eq!(found.mismatches[0].found, room);
    assert!(
        found.holders.len() <= limits.connections as usize,
        "one for each queue"
    );
}

#[test]
fn records_that_name_nobody_are_not_there() {
    let world = World::new();
    let (mut from, mut to) = (world.join("from"), world.join("to"));
    let way = world.connect(&mut from, &mut to, 4);
    let (memory, layout) = (world.control.memory(), world.control.layout());
    let rename = |at: usize, shift: u32| {
        let found = memory.load_cell(at, Ordering::Relaxed);
        let named = found & !(0xFF << shift) | NO_MEMBER << shift;
        memory.store_cell(at, named, Ordering::Relaxed);
        found
    };
    let port_at = layout.port(way.consumer_port.0 as usize) + port::STATE;
    rename(port_at, 8);
    assert_eq!(world.control.tables().port(way.consumer_port), None);
    let index = way.producer.info.index;
    let state = layout.connection(index.0 as usize) + connection::STATE;
    for shift in [8, 16] {
        let good = rename(state, shift);
        assert_eq!(world.control.tables().connection(index), None);
        memory.store_cell(state, good, Ordering::Relaxed);
    }
    assert!(world.control.tables().connection(index).is_some());
}

/// Not a lie, but as bad: a port's number given to another while its connections are still being
/// left.
#[test]
fn port_is_not_used_again_before_its_connections_are_left() {
    let world = World::new();
    let (mut from, mut to) = (world.join("from"), world.join("to"));
    let way = world.connect(&mut from, &mut to, 4);
    let control = &world.control;
    let known: PortInfo = control.tables().port(way.consumer_port).expect("open");
    to.close_port(control, way.consumer_port);
    assert_eq!(control.tables().port(way.consumer_port), None);
    assert!(!control.tables().is_still_open(&known));
    let open = |to: &mut hythe_pool::Member, depth| {
        let policy = PortPolicy::DropNewest;
        let opened = to.open_port(control, known.channel, PortKind::Subscriber, depth, policy);
        opened.expect("a free port")
    };
    assert_ne!(open(&mut to, 4), way.consumer_port);
    let info = way.consumer.info;
    to.leave_connection(
        control,
        &world.regions,
        info.index,
        info.nonce,
        Side::Consumer,
    )
    .expect("left");
    to.free_port(control, way.consumer_port);
    // Of the same owner, on the same channel, under the same number: still another port.
    assert_eq!(open(&mut to, 8), way.consumer_port);
    assert!(!control.tables().is_still_open(&known));
    for member in [from, to] {
        member.depart(control, &world.regions).expect("departure");
    }
    world.check_empty("after all");
}

//! One slot on several ways at once: over a diamond, in parts, and back to where it came from.

use crate::world::{Message, SMALL_BYTES, World};
use hythe_abi::HEADROOM_BYTES;
use hythe_memory::{Memory, Ordering};
use hythe_pool::{MemberInfo, PoolError, Recoverer};

#[test]
fn slot_may_reach_a_receiver_over_two_ways() {
    let world = World::new();
    let [mut a, mut b, mut c] = ["a", "b", "c"].map(|name| world.join(name));
    let mut direct = world.connect(&mut a, &mut c, 2);
    let mut first_leg = world.connect(&mut a, &mut b, 2);
    let mut second_leg = world.connect(&mut b, &mut c, 2);

    let message = world.lease(&mut a);
    a.duplicate(&world.control, message.slot, 1)
        .expect("duplicate");
    world.send(&mut a, &mut direct, message);
    world.send(&mut a, &mut first_leg, message);
    assert_eq!(a.holds(&world.control, message.slot), 0);
    assert_eq!(world.take(&mut c, &mut direct), Some(message));
    let passing = world.take(&mut b, &mut first_leg).expect("a message waits");
    world.send(&mut b, &mut second_leg, passing);
    assert_eq!(world.take(&mut c, &mut second_leg), Some(message));
    world.check_sums("both here");

    assert_eq!(c.holds(&world.control, message.slot), 2);
    assert!(
        !world.release(&mut c, message.slot, 1),
        "the other reference still counts"
    );
    world.check_sums("one gone");
    assert!(
        world.release(&mut c, message.slot, 1),
        "the last one frees it"
    );
    for member in [a, b, c] {
        member
            .depart(&world.control, &world.regions)
            .expect("departure");
    }
    world.check_empty("after all");
}

#[test]
fn parts_of_a_slot_travel_one_by_one() {
    const PARTS: u32 = 4;
    let world = World::new();
    let (mut from, mut to) = (world.join("from"), world.join("to"));
    let mut way = world.connect(&mut from, &mut to, PARTS);
    let whole = world.lease(&mut from);
    from.duplicate(&world.control, whole.slot, PARTS - 1)
        .expect("duplicate");
    let length = SMALL_BYTES as u32 / PARTS;
    let part = |number: u32| {
        let offset = HEADROOM_BYTES + number * length;
        Message {
            descriptor: hythe_abi::Descriptor {
                offset,
                length,
                ..whole.descriptor
            },
            ..whole
        }
    };
    for number in 0..PARTS {
        world.send(&mut from, &mut way, part(number));
    }
    // The consumer dies with two parts in its hands and two in its queue: all four go back.
    assert_eq!(world.take(&mut to, &mut way), Some(part(0)));
    assert_eq!(world.take(&mut to, &mut way), Some(part(1)));
    let recovered = world
        .recover(&from, to.index(), &[from.index()])
        .expect("it is dead");
    assert_eq!((recovered.references, recovered.slots), (2, 1));
    assert_eq!(world.control.ledger().slot(whole.slot).0, 0);
    from.depart(&world.control, &world.regions)
        .expect("departure");
    world.check_empty("after all");
}

#[test]
fn stale_descriptor_is_refused_and_removed() {
    let world = World::new();
    let (mut from, mut to) = (world.join("from"), world.join("to"));
    let mut way = world.connect(&mut from, &mut to, 4);
    let old = world.lease(&mut from);
    world.release(&mut from, old.slot, 1);
    let new = world.lease(&mut from);
    assert_eq!(new.slot, old.slot);
    assert_ne!(new.descriptor.generation, old.descriptor.generation);
    // A broken sender: the descriptor names an earlier lease of the slot.
    let stale = Message {
        slot: new.slot,
        ..old
    };
    world.send(&mut from, &mut way, stale);
    let refused = to.take(&world.control, &world.regions, &mut way.consumer);
    let reason = "stale generation";
    assert_eq!(
        refused,
        Err(PoolError::BadDescriptor {
            reason,
            descriptor: old.descriptor
        })
    );
    assert_eq!(world.take(&mut to, &mut way), None);
}

/// Nobody sees the end of a process that had no record, once its socket is gone.
#[test]
fn failed_recovery_by_an_outsider_keeps_no_claim() {
    let world = World::new();
    let (mut dead, living) = (world.join("dead"), world.join("living"));
    let held = world.lease(&mut dead);
    let cell = world.control.layout().slot_cell(held.slot.0 as usize);
    world
        .control
        .memory()
        .store_cell(cell, 0, Ordering::Relaxed);
    let outsider = Recoverer::outsider(world.control.new_session());
    let recover = |recoverer: Recoverer| {
        let info = world.control.tables().member(dead.index());
        let info = info.expect("it is not recovered yet");
        let mut is_dead = |member: &MemberInfo| member.index == dead.index();
        recoverer.recover(&world.control, &world.regions, &info, 0, &mut is_dead)
    };
    let refused = recover(outsider);
    assert!(matches!(refused, Err(PoolError::Damaged(_))), "{refused:?}");
    let recovered = recover(living.recoverer()).expect("the damage was met before");
    assert!(recovered.is_some(), "it is claimed still");
}

#[test]
fn scribbled_counter_wastes_what_was_queued_and_no_more() {
    let world = World::new();
    let (mut liar, mut honest) = (world.join("liar"), world.join("honest"));
    let mut way = world.connect(&mut liar, &mut honest, 4);
    let lost = world.lease(&mut liar);
    world.send(&mut liar, &mut way, lost);
    let kept = world.lease(&mut liar);
    let own = world.lease(&mut honest);
    let tail = way.producer.info.places.tail;
    world
        .control
        .memory()
        .store(tail, 0x8000_0000, Ordering::Relaxed);
    let refused = honest.take(&world.control, &world.regions, &mut way.consumer);
    assert!(matches!(refused, Err(PoolError::Damaged(_))), "{refused:?}");

    world
        .recover(&honest, liar.index(), &[honest.index()])
        .expect("it is dead");
    assert_eq!(world.control.ledger().slot(kept.slot).0, 0);
    honest
        .depart(&world.control, &world.regions)
        .expect("departure");
    assert_eq!(world.control.ledger().slot(own.slot).0, 0);
    assert_eq!(
        world.control.ledger().slot(lost.slot).0,
        1,
        "nobody can know where it went"
    );
    assert_eq!(world.control.tables().connections().count(), 0);
    assert_eq!(world.control.tables().members().count(), 0);
}

//! Cases about queues that evict the oldest: either side may die in its take, and the other goes on
//! meanwhile.

use hythe_pool::{Control, PortPolicy, Regions, SendError};

use super::stage::{Actor, Case, Stage, nothing};
use super::{Dying, Way, World};

pub(crate) const CAPACITY: u32 = 2;

/// A take by the consumer, one by the producer, a send to a full one, and leaving.
pub(crate) fn cases() -> [Case; 5] {
    [
        Case {
            name: "take from evict-oldest",
            before: to_the_actor,
            act: takes,
        },
        Case {
            name: "evict the oldest",
            before: from_the_actor,
            act: drops,
        },
        Case {
            name: "evict the oldest and send",
            before: from_the_actor,
            act: drops_and_sends,
        },
        Case {
            name: "drain evict-oldest",
            before: to_the_actor,
            act: drains,
        },
        Case {
            name: "make a evict-oldest queue",
            before: nothing,
            act: connects,
        },
    ]
}

fn to_the_actor(stage: &mut Stage) {
    let Stage {
        world, actor, near, ..
    } = stage;
    let me = actor.member.as_mut().expect("a member");
    let mut way = world.connect_with(near, me, CAPACITY, PortPolicy::EvictOldest);
    fill(world, near, &mut way);
    actor.contested = Some((way, false));
}

fn from_the_actor(stage: &mut Stage) {
    let Stage {
        world, actor, near, ..
    } = stage;
    let me = actor.member.as_mut().expect("a member");
    let mut way = world.connect_with(me, near, CAPACITY, PortPolicy::EvictOldest);
    fill(world, me, &mut way);
    actor.contested = Some((way, true));
}

fn fill(world: &World, from: &mut hythe_pool::Member, way: &mut Way) {
    for _ in 0..CAPACITY {
        let message = world.lease(from);
        world.send(from, way, message);
    }
}

fn takes(actor: &mut Actor, control: &Control<Dying>, regions: &Regions) {
    let (way, _) = actor.contested.as_mut().expect("a queue");
    let me = actor.member.as_mut().expect("a member");
    let taken = me.take(control, regions, &mut way.consumer).expect("take");
    taken.expect("a message waits");
}

fn drops(actor: &mut Actor, control: &Control<Dying>, regions: &Regions) {
    let (way, _) = actor.contested.as_mut().expect("a queue");
    let me = actor.member.as_mut().expect("a member");
    let dropped = me.evict_oldest(control, regions, &mut way.producer);
    dropped.expect("sound").expect("it was full");
}

fn drops_and_sends(actor: &mut Actor, control: &Control<Dying>, regions: &Regions) {
    let held = actor.held;
    let (way, _) = actor.contested.as_mut().expect("a queue");
    let me = actor.member.as_mut().expect("a member");
    let refused = me.send(control, &mut way.producer, held.slot, held.descriptor);
    assert_eq!(refused, Err(SendError::Full));
    let dropped = me.evict_oldest(control, regions, &mut way.producer);
    let dropped = dropped.expect("sound").expect("it was full");
    assert!(me.release(control, dropped.slot, 1).expect("its own"));
    me.send(control, &mut way.producer, held.slot, held.descriptor)
        .expect("room");
}

fn drains(actor: &mut Actor, control: &Control<Dying>, regions: &Regions) {
    let (way, _) = actor.contested.as_ref().expect("a queue");
    let info = way.consumer.info;
    let me = actor.member.as_mut().expect("a member");
    me.drain_own(control, regions, info).expect("sound");
}

fn connects(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let (from, to, near) = (actor.out.producer_port, actor.out.consumer_port, actor.near);
    let queue = hythe_pool::QueuePlan {
        capacity: CAPACITY,
        evicts_oldest: true,
    };
    actor
        .me()
        .connect(control, from, near, to, queue)
        .expect("connection");
}

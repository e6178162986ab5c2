//! Every operation of the crate that stores, as a case that can be killed. Those of request/reply
//! and of events are in `patterns`.

use hythe_abi::RegionIndex;
use hythe_memory::Memory;
use hythe_pool::{
    ChannelType, ConnectionEnd, ConnectionInfo, Control, CoreRegionPlan, Cursors, LedgerSlot,
    LinkPlace, Member, MemberKind, PoolError, PortKind, PortPolicy, Regions, Side, SlotClass,
    WireRegionPlan,
};

use super::patterns;
use super::stage::{Act, Actor, Case, Stage, binding, core_classes};
use super::{Dying, SMALL_BYTES, identity, oldest, until_death};

/// Those that need nothing before.
const PLAIN: [(&str, Act); 29] = [
    ("join", join),
    ("lease", |a, c, _| assert!(a.me_leases(c))),
    ("lease any", lease_any),
    ("lease next", lease_next),
    ("duplicate", duplicate),
    ("release one", |a, c, _| assert!(!a.me_releases(c, 1))),
    ("release all", |a, c, _| assert!(!a.me_releases(c, 3))),
    ("release last", release_last),
    ("send", |a, c, _| a.me_sends(c)),
    ("count missed", |a, c, _| a.me_counts_missed(c)),
    ("take", |a, c, r| a.me_takes(c, r)),
    ("forward", forward),
    ("give", give),
    ("reclaim", reclaim),
    ("open channel", open_channel),
    ("open port", open_port),
    ("close port", close_port),
    ("free port", free_port),
    ("bind core", bind_core),
    ("unbind core", unbind_core),
    ("attach core", attach_core),
    ("attach core at its second port", attach_core_second),
    ("add core region", add_core_region),
    ("add wire region", add_wire_region),
    ("add card region", add_card_region),
    ("connect", connect),
    ("leave as producer", leave_as_producer),
    ("leave as consumer", leave_as_consumer),
    ("depart", depart),
];

/// The cases, by what the member does when it dies.
pub(crate) fn all() -> Vec<Case> {
    let mut cases: Vec<Case> = PLAIN
        .into_iter()
        .map(|(name, act)| Case {
            name,
            before: |_| {},
            act,
        })
        .collect();
    let near_left_out: fn(&mut Stage) = |s| near_leaves(s, Side::Consumer);
    let near_left_back: fn(&mut Stage) = |s| near_leaves(s, Side::Producer);
    cases.extend([
        Case {
            name: "leave last, as producer",
            before: near_left_out,
            act: leave_as_producer,
        },
        Case {
            name: "leave last, as consumer",
            before: near_left_back,
            act: leave_as_consumer,
        },
        Case {
            name: "recover another",
            before: another_dies,
            act: recover_another,
        },
        Case {
            name: "retire channel",
            before: idle_channel,
            act: retire_channel,
        },
        Case {
            name: "detach core",
            before: attached,
            act: detach_core,
        },
    ]);
    cases.extend(oldest::cases());
    cases.extend(with_marks());
    cases.extend(patterns::all());
    cases
}

/// What a wait set adds to sending and taking.
fn with_marks() -> [Case; 2] {
    [
        Case {
            name: "send with a mark",
            before: near_waits_for_marks,
            act: send_with_a_mark,
        },
        Case {
            name: "take marks",
            before: victim_is_marked,
            act: take_marks,
        },
    ]
}

impl Actor {
    fn me_leases<M: Memory>(&mut self, control: &Control<M>) -> bool {
        let free = self.free;
        self.me().lease(control, free).expect("lease").is_some()
    }

    fn me_releases<M: Memory>(&mut self, control: &Control<M>, count: u32) -> bool {
        let slot = self.held.slot;
        self.me().release(control, slot, count).expect("release")
    }

    fn me_sends<M: Memory>(&mut self, control: &Control<M>) {
        let (held, way) = (self.held, &mut self.out.producer);
        let member = self.member.as_mut().expect("a member");
        member
            .send(control, way, held.slot, held.descriptor)
            .expect("send");
    }

    fn me_counts_missed<M: Memory>(&mut self, control: &Control<M>) {
        let (tables, way) = (control.tables(), &self.out.producer);
        tables.set_missed(&way.info, 7);
        tables.set_gap(&way.info, way.queue.tail(), 7);
    }

    fn me_takes<M: Memory>(&mut self, control: &Control<M>, regions: &Regions) {
        let member = self.member.as_mut().expect("a member");
        let taken = member
            .take(control, regions, &mut self.back.consumer)
            .expect("take");
        taken.expect("a message waits");
    }
}

fn join(_: &mut Actor, control: &Control<Dying>, _: &Regions) {
    Member::join(control, MemberKind::Process, identity(), "late").expect("join");
}

fn lease_any(actor: &mut Actor, control: &Control<Dying>, regions: &Regions) {
    let region = regions.region(RegionIndex(0)).expect("region 0");
    // Not the first slot of the class is free: looking at the others stores nothing.
    actor
        .me()
        .lease_any(control, region, SMALL_BYTES, &mut Cursors::default())
        .expect("lease");
}

fn lease_next(actor: &mut Actor, control: &Control<Dying>, regions: &Regions) {
    let region = regions.region(RegionIndex(0)).expect("region 0");
    let mut slots = (region.ledger_base..).map(LedgerSlot);
    let free = slots.find(|slot| control.ledger().slot(*slot).0 == 0);
    let mut cursors = Cursors::default();
    cursors.note_free(region, free.expect("a free slot"));
    let leased = actor
        .me()
        .lease_next(control, region, SMALL_BYTES, &mut cursors)
        .expect("sound");
    assert!(leased.is_some(), "it is free");
}

fn duplicate(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let slot = actor.held.slot;
    actor.me().duplicate(control, slot, 2).expect("duplicate");
}

fn give(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let (core, slot) = (actor.core, actor.held.slot);
    actor.me().give(control, core, slot, 1).expect("give");
}

fn reclaim(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let (core, slot) = (actor.core, actor.lent);
    assert!(actor.me().reclaim(control, core, slot, 1).expect("reclaim"));
}

fn close_port(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let port = actor.out.producer_port;
    actor.me().close_port(control, port);
}

fn free_port(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let port = actor.out.producer_port;
    actor.me().free_port(control, port);
}

fn unbind_core(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let channel = actor.core_channel;
    actor.me().unbind_core(control, channel);
}

fn release_last(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let slot = actor.lent;
    let core = actor.core;
    assert!(actor.me().reclaim(control, core, slot, 1).expect("reclaim"));
    assert!(actor.me().release(control, slot, 2).expect("release"));
}

fn forward(actor: &mut Actor, control: &Control<Dying>, regions: &Regions) {
    let member = actor.member.as_mut().expect("a member");
    let taken = member
        .take(control, regions, &mut actor.back.consumer)
        .expect("take");
    let taken = taken.expect("a message waits");
    member
        .send(
            control,
            &mut actor.out.producer,
            taken.slot,
            taken.descriptor,
        )
        .expect("send");
}

fn open_channel(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let carries = ChannelType {
        name: "frame".to_owned(),
        bytes: 12,
        align: 4,
        version: 1,
    };
    actor
        .me()
        .open_channel(control, "new", &carries)
        .expect("channel");
}

fn open_port(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let (channel, policy) = (actor.channel, PortPolicy::Block { timeout_ms: 5 });
    actor
        .me()
        .open_port(control, channel, PortKind::Subscriber, 4, policy)
        .expect("port");
}

fn bind_core(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let (channel, core) = (actor.channel, actor.core);
    actor.me().bind_core(control, channel, binding(core));
}

fn attach_core(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let channel = control
        .tables()
        .channel(actor.core_channel)
        .expect("channel");
    actor
        .me()
        .attach_core(control, &channel, 0)
        .expect("attach");
}

fn attach_core_second(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let channel = control
        .tables()
        .channel(actor.core_channel)
        .expect("channel");
    let unnamed = actor.me().attach_core(control, &channel, 1);
    assert_eq!(unnamed, Ok(None));
    let row = actor.core;
    actor
        .me()
        .name_core_row(control, &channel, 1, row)
        .expect("named");
}

fn detach_core(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let channel = actor.core_channel;
    actor.me().detach_core(control, channel, 0);
}

fn add_core_region(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let made = |_| Ok::<(), PoolError>(());
    let link = LinkPlace {
        bytes: 8192,
        offset: 0,
    };
    let plan = CoreRegionPlan {
        name: "board",
        bytes: 8192,
        classes: &core_classes(),
        link,
        segments: None,
    };
    actor
        .me()
        .add_core_region(control, &plan, made)
        .expect("region");
}

fn add_wire_region(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let plan = WireRegionPlan {
        slot_bytes: 4096,
        slots: super::SPARE_SLOTS,
    };
    let add = |_| {
        let made = |_| Ok::<(), PoolError>(());
        actor.me().add_wire_region(control, plan, made)
    };
    // The second finds what the first has added.
    let [first, second] = [0, 1].map(add);
    assert_eq!(first.expect("added"), second.expect("found"));
}

fn add_card_region(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let classes = [SlotClass {
        slot_bytes: 4096,
        count: super::SPARE_SLOTS,
        first: 0,
        offset: 0,
    }];
    let plan = (4096 * u64::from(super::SPARE_SLOTS), &classes[..]);
    let add = |_| {
        let made = |_| Ok::<(), PoolError>(());
        actor.me().add_card_region(control, plan, made)
    };
    // The second finds what the first has added.
    let [first, second] = [0, 1].map(add);
    assert_eq!(first.expect("added"), second.expect("found"));
}

fn connect(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let (from, to, near) = (actor.out.producer_port, actor.out.consumer_port, actor.near);
    // Two queue segments, so that a death between them is seen.
    actor
        .me()
        .connect(control, from, near, to, 64)
        .expect("connection");
}

fn leave<Q>(
    actor: &mut Actor,
    control: &Control<Dying>,
    regions: &Regions,
    end: fn(&Actor) -> &ConnectionEnd<Q>,
    side: Side,
) {
    let ConnectionInfo { index, nonce, .. } = end(actor).info;
    actor
        .me()
        .leave_connection(control, regions, index, nonce, side)
        .expect("leave");
}

fn leave_as_producer(actor: &mut Actor, control: &Control<Dying>, regions: &Regions) {
    leave(
        actor,
        control,
        regions,
        |actor| &actor.out.producer,
        Side::Producer,
    );
}

fn leave_as_consumer(actor: &mut Actor, control: &Control<Dying>, regions: &Regions) {
    leave(
        actor,
        control,
        regions,
        |actor| &actor.back.consumer,
        Side::Consumer,
    );
}

fn depart(actor: &mut Actor, control: &Control<Dying>, regions: &Regions) {
    let member = actor.member.take().expect("a member");
    member.depart(control, regions).expect("departure");
}

fn near_leaves(stage: &mut Stage, side: Side) {
    let info = match side {
        Side::Consumer => stage.actor.out.consumer.info,
        Side::Producer => stage.actor.back.producer.info,
    };
    let (control, regions) = (&stage.world.control, &stage.world.regions);
    let left = stage
        .near
        .leave_connection(control, regions, info.index, info.nonce, side);
    left.expect("leave");
}

/// Another member dies between the swap of a release and its own record of it.
fn another_dies(stage: &mut Stage) {
    let world = &stage.world;
    let mut other = world.join("other");
    let mut way = world.connect(&mut stage.near, &mut other, 2);
    let mut message = stage.older;
    stage
        .near
        .duplicate(&world.control, message.slot, 1)
        .expect("duplicate");
    world.send(&mut stage.near, &mut way, message);
    message = world.take(&mut other, &mut way).expect("a message waits");
    other
        .duplicate(&world.control, message.slot, 1)
        .expect("duplicate");
    stage.actor.other = world.control.tables().member(other.index());
    let dying = world.dying();
    // Eight stores of the journal and the swap are done; the hold record is not reached.
    dying.memory().fault.arm(10);
    let died = until_death(|| other.release(&dying, message.slot, 1));
    assert_eq!(died, None, "the fault was too long");
}

fn recover_another(actor: &mut Actor, control: &Control<Dying>, regions: &Regions) {
    let other = actor.other.clone().expect("somebody died");
    let mut is_dead = |member: &hythe_pool::MemberInfo| member.index == other.index;
    let recovered = actor
        .me()
        .recoverer()
        .recover(control, regions, &other, 0, &mut is_dead);
    assert_eq!(
        recovered.expect("recovery").map(|found| found.references),
        Some(1)
    );
}

fn idle_channel(stage: &mut Stage) {
    let raw = ChannelType::default();
    let opened = stage.near.open_channel(&stage.world.control, "idle", &raw);
    opened.expect("channel");
}

fn retire_channel(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let idle = control
        .tables()
        .find_channel("idle")
        .expect("channel")
        .index;
    actor.me().retire_channel(control, idle);
    assert_eq!(control.tables().find_channel("idle"), None);
}

/// As a wait set that has gone to sleep.
fn near_waits_for_marks(stage: &mut Stage) {
    let control = &stage.world.control;
    stage
        .near
        .want_marks(control, stage.actor.out.consumer_port, true);
    let bell = control.tables().bell(stage.near.index());
    let _ = bell.lie_down(control.memory());
}

fn send_with_a_mark(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    actor.me_sends(control);
    assert!(
        control
            .marks()
            .announce(actor.near, actor.out.consumer_port)
    );
}

fn victim_is_marked(stage: &mut Stage) {
    let port = stage.actor.back.consumer_port;
    let index = stage.actor.me().index();
    stage
        .actor
        .me()
        .want_marks(&stage.world.control, port, true);
    let _ = stage.world.control.marks().announce(index, port);
}

fn take_marks(actor: &mut Actor, control: &Control<Dying>, _: &Regions) {
    let (index, port) = (actor.me().index(), actor.back.consumer_port);
    let mut found = Vec::new();
    assert!(control.marks().take_marks(index, |port| found.push(port)));
    assert_eq!(found, [port]);
    actor.me().want_marks(control, port, false);
    control.tables().set_cpus(index, 1);
}

fn attached(stage: &mut Stage) {
    let Stage { actor, dying, .. } = stage;
    attach_core(actor, dying, &stage.world.regions);
}

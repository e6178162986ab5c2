//! A scene with everything in it that a step can touch: shared slots, queues with messages, a
//! core's row, older marks.

use hythe_abi::RegionIndex;
use hythe_abi::link::Direction;
use hythe_pool::{
    ChannelIndex, ChannelType, ConnectionInfo, Control, CoreBinding, Cursors, LedgerSlot, Member,
    MemberIndex, MemberInfo, MemberKind, PortIndex, Regions, SlotClass,
};

use super::{Dying, Message, Way, World};

/// The member that dies, and what it works with.
#[derive(Debug)]
pub(crate) struct Actor {
    /// `None` once it departed.
    pub(crate) member: Option<Member>,
    pub(crate) near: MemberIndex,
    pub(crate) core: MemberIndex,
    /// To `near`; one message of `queued` waits in it.
    pub(crate) out: Way,
    /// From `near`; two messages of `incoming` wait in it.
    pub(crate) back: Way,
    /// Three references here, one at `near`.
    pub(crate) held: Message,
    /// One reference here, one given to the core.
    pub(crate) lent: LedgerSlot,
    /// A free slot.
    pub(crate) free: LedgerSlot,
    pub(crate) channel: ChannelIndex,
    /// A channel that has the core's endpoint behind it.
    pub(crate) core_channel: ChannelIndex,
    /// A member that somebody shall recover; dead if a case killed it.
    pub(crate) other: Option<MemberInfo>,
    /// A full queue that evicts the oldest, if the case is about one; `true`: the actor pushes, and
    /// `near` takes.
    pub(crate) contested: Option<(Way, bool)>,
    /// A port here and one at `near` that meet on a channel of another kind, if a case needs them.
    pub(crate) ports: Option<(PortIndex, PortIndex)>,
}

impl Actor {
    pub(crate) fn me(&mut self) -> &mut Member {
        self.member.as_mut().expect("a member")
    }
}

/// The whole scene.
#[derive(Debug)]
pub(crate) struct Stage {
    pub(crate) world: World,
    pub(crate) dying: Control<Dying>,
    pub(crate) actor: Actor,
    pub(crate) near: Member,
    pub(crate) far: Member,
    pub(crate) core: Member,
    pub(crate) near_to_far: Way,
    /// At `near`, last changed by the actor, before it changed `held`.
    pub(crate) older: Message,
}

impl Stage {
    pub(crate) fn new() -> Self {
        let world = World::new();
        let mut near = world.join("near");
        let mut member = world.join("victim");
        let mut far = world.join("far");
        let core = world.join_as(MemberKind::CoreEndpoint, "core");
        let mut out = world.connect(&mut member, &mut near, 4);
        let mut back = world.connect(&mut near, &mut member, 4);
        let near_to_far = world.connect(&mut near, &mut far, 4);
        let control = &world.control;

        let incoming = world.lease(&mut near);
        near.duplicate(control, incoming.slot, 1)
            .expect("duplicate");
        world.send(&mut near, &mut back, incoming);
        world.send(&mut near, &mut back, incoming);

        let lent = world.lease(&mut member).slot;
        member.duplicate(control, lent, 1).expect("duplicate");
        member.give(control, core.index(), lent, 1).expect("give");
        let older = world.lease(&mut member);
        world.send(&mut member, &mut out, older);
        let held = world.lease(&mut member);
        member.duplicate(control, held.slot, 3).expect("duplicate");
        world.send(&mut member, &mut out, held);
        assert_eq!(world.take(&mut near, &mut out), Some(older));
        assert_eq!(world.take(&mut near, &mut out), Some(held));
        let queued = world.lease(&mut member);
        world.send(&mut member, &mut out, queued);
        let free = world.lease(&mut near).slot;
        world.release(&mut near, free, 1);

        let raw = ChannelType::default();
        let channel = control.tables().find_channel("way").expect("channel").index;
        let core_channel = near.open_channel(control, "core", &raw).expect("channel");
        near.bind_core(control, core_channel, binding(core.index()));
        let actor = Actor {
            member: Some(member),
            near: near.index(),
            core: core.index(),
            out,
            back,
            held,
            lent,
            free,
            channel,
            core_channel,
            other: None,
            contested: None,
            ports: None,
        };
        let dying = world.dying();
        Self {
            dying,
            actor,
            near,
            far,
            core,
            near_to_far,
            older,
            world,
        }
    }

    /// Everyone but the actor, and whoever joined late.
    pub(crate) fn living(&self) -> [MemberIndex; 3] {
        [self.near.index(), self.far.index(), self.core.index()]
    }

    /// The connections of `near`, and the word that tells it to look at them again.
    pub(crate) fn seen_by_near(&self) -> (Vec<ConnectionInfo>, u32) {
        let near = self.near.index();
        let own = |info: &ConnectionInfo| info.producer == near || info.consumer == near;
        let connections = self
            .world
            .control
            .tables()
            .connections()
            .filter(own)
            .collect();
        (connections, self.world.control.tables().changes(near))
    }

    /// What `near` does between a death and the recovery: changes cells that carry marks of the
    /// dead, the latest first.
    pub(crate) fn work_meanwhile(&mut self) {
        let (world, held, older) = (&self.world, self.actor.held, self.older);
        for slot in [held.slot, older.slot] {
            self.near
                .duplicate(&world.control, slot, 1)
                .expect("duplicate");
            world.release(&mut self.near, slot, 1);
        }
        let core = self.core.index();
        self.near
            .give(&world.control, core, held.slot, 1)
            .expect("give");
        assert!(
            self.near
                .reclaim(&world.control, core, held.slot, 1)
                .expect("reclaim")
        );
        near_takes_part(self);
        let world = &self.world;
        // Whatever is free by now, the slot of an unfinished lease or release included.
        let mut leased = Vec::new();
        let region = world.regions.region(RegionIndex(0)).expect("region 0");
        while let Ok((slot, _)) =
            self.near
                .lease_any(&world.control, region, 1, &mut Cursors::default())
        {
            leased.push(LedgerSlot(slot));
        }
        for slot in leased {
            world.release(&mut self.near, slot, 1);
        }
    }

    /// After the recovery: nothing of the living was touched, and all goes on.
    pub(crate) fn check_life_goes_on(&mut self, context: &str) {
        let world = &self.world;
        world.check_sums(context);
        let held = self.actor.held;
        assert_eq!(
            self.near.holds(&world.control, held.slot),
            1,
            "{context}: held"
        );
        assert_eq!(
            self.near.holds(&world.control, self.older.slot),
            1,
            "{context}: older"
        );
        let message = world.lease(&mut self.near);
        world.send(&mut self.near, &mut self.near_to_far, message);
        assert_eq!(
            world.take(&mut self.far, &mut self.near_to_far),
            Some(message),
            "{context}"
        );
        assert!(world.release(&mut self.far, message.slot, 1), "{context}");
        self.check_a_newcomer(context);
        self.world.check_sums(context);
    }

    /// New members find their places, connect, reach `near`; they depart, or die, and the places
    /// are free again.
    fn check_a_newcomer(&mut self, context: &str) {
        let world = &self.world;
        let mut newcomer = world.join("newcomer");
        let mut way = world.connect(&mut newcomer, &mut self.near, 2);
        let message = world.lease(&mut newcomer);
        world.send(&mut newcomer, &mut way, message);
        assert_eq!(
            world.take(&mut self.near, &mut way),
            Some(message),
            "{context}"
        );
        world.release(&mut self.near, message.slot, 1);
        let mut doomed = world.join("doomed");
        world.lease(&mut doomed);
        let living = [
            self.near.index(),
            self.far.index(),
            self.core.index(),
            newcomer.index(),
        ];
        assert_eq!(
            world.bury(&newcomer, &living, false),
            1,
            "{context}: doomed"
        );
        newcomer
            .depart(&world.control, &world.regions)
            .expect("departure");
    }

    /// Everyone left departs; then nothing is left.
    pub(crate) fn check_nothing_leaks(self, context: &str) {
        let world = self.world;
        for member in [self.near, self.core, self.far] {
            member
                .depart(&world.control, &world.regions)
                .expect("departure");
            world.check_sums(context);
        }
        world.check_empty(context);
    }
}

pub(crate) fn binding(row: MemberIndex) -> CoreBinding {
    CoreBinding {
        region: RegionIndex(0),
        endpoint: 0,
        direction: Direction::ToCore,
        row,
        agent: row,
    }
}

/// The classes of a core's region that fits the spare entries of the ledger.
pub(crate) fn core_classes() -> [SlotClass; 1] {
    [SlotClass {
        slot_bytes: 1024,
        count: super::SPARE_SLOTS,
        first: 0,
        offset: 0,
    }]
}

/// What one case does, as the member that may die.
pub(crate) type Act = fn(&mut Actor, &Control<Dying>, &Regions);

/// What happens before: in the same scene, by members that live.
pub(crate) type Before = fn(&mut Stage);

/// One operation under test.
pub(crate) struct Case {
    pub(crate) name: &'static str,
    pub(crate) before: Before,
    pub(crate) act: Act,
}

pub(crate) fn nothing(_: &mut Stage) {}

/// In a queue that evicts the oldest, `near` moves the head on, so that the mark of the dead is not
/// in the cell any more, and keeps nothing.
fn near_takes_part(stage: &mut Stage) {
    let Stage {
        world, actor, near, ..
    } = stage;
    let Some((way, actor_pushes)) = &mut actor.contested else {
        return;
    };
    let (control, regions) = (&world.control, &world.regions);
    // What the end knows is older than what the dead did.
    let taken = if *actor_pushes {
        let mut end = control.tables().consumer_end(way.consumer.info);
        near.take(control, regions, &mut end).expect("sound")
    } else {
        let mut end = control.tables().producer_end(way.producer.info);
        near.evict_oldest(control, regions, &mut end)
            .expect("sound")
    };
    if let Some(taken) = taken {
        world.release(near, taken.slot, 1);
    }
}

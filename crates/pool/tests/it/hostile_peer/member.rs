//! Honest members that do everything a member can do, in any order, and count what they are told.

use std::rc::Rc;

use hythe_abi::link::Direction;
use hythe_abi::pool::Limits;
use hythe_abi::{Descriptor, Generation, HEADROOM_BYTES, RegionIndex};
use hythe_memory::Mapped;
use hythe_pool::{
    ChannelInfo, ChannelType, ClassPlan, ConnectionEnd, Control, CoreBinding, CoreRegionPlan,
    Cursors, Geometry, Identity, LedgerSlot, LinkPlace, Member, MemberIndex, MemberKind, PoolError,
    PortIndex, PortKind, PortPolicy, PortStatistics, Regions, SendError, Side, SlotClass, audit,
};
use hythe_queue::{Consumer, Producer};

use super::choices::Choices;
use super::{FaultyMemory, Peer, PeerFault};

const LIMITS: Limits = Limits {
    participants: 6,
    channels: 4,
    ports: 12,
    connections: 8,
    queue_segments: 10,
    slots: 4,
};
const NAMES: [&str; 3] = ["video", "audio", "a"];
const MEMBERS: usize = 3;
const IDENTITY: Identity = Identity {
    pid: 1,
    start_time: 2,
    pid_namespace: 3,
    uid: 4,
};

/// What the members were told in one run, or in many.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Outcomes {
    /// Operations done.
    pub(crate) done: u64,
    /// Descriptors refused.
    pub(crate) bad_descriptors: u64,
    /// Damage named.
    pub(crate) damaged: u64,
    /// Headers or regions that make no sense.
    pub(crate) not_a_pool: u64,
    /// Full tables, busy records, wrong types: what also happens among the honest.
    pub(crate) refused: u64,
    /// Slots that an audit found not to add up.
    pub(crate) mismatches: u64,
}

impl Outcomes {
    fn note<T>(&mut self, outcome: Result<T, PoolError>) -> Option<T> {
        self.done += 1;
        match outcome {
            Ok(value) => return Some(value),
            Err(PoolError::BadDescriptor { .. }) => self.bad_descriptors += 1,
            Err(PoolError::Damaged(_)) => self.damaged += 1,
            Err(PoolError::NotAPool(_)) => self.not_a_pool += 1,
            Err(_) => self.refused += 1,
        }
        None
    }

    pub(crate) fn add(&mut self, other: Self) {
        self.done += other.done;
        self.bad_descriptors += other.bad_descriptors;
        self.damaged += other.damaged;
        self.not_a_pool += other.not_a_pool;
        self.refused += other.refused;
        self.mismatches += other.mismatches;
    }
}

/// A member with what it has in its hands, as a node keeps it.
#[derive(Debug)]
struct Honest {
    member: Member,
    held: Vec<(LedgerSlot, Descriptor)>,
    channels: Vec<ChannelInfo>,
    ports: Vec<PortIndex>,
    out: Vec<ConnectionEnd<Producer>>,
    back: Vec<ConnectionEnd<Consumer>>,
}

/// The scene of one run.
#[derive(Debug)]
pub(crate) struct Scene {
    pub(crate) peer: Rc<Peer>,
    memory: Mapped,
    control: Control<FaultyMemory>,
    regions: Regions,
    members: Vec<Honest>,
    core: MemberIndex,
    outcomes: Outcomes,
}

impl Scene {
    pub(crate) fn new(choices: Choices) -> Self {
        let class = |payload_bytes, count| ClassPlan {
            payload_bytes,
            count,
        };
        let plan = [class(768, 6), class(3840, 2)];
        let geometry = Geometry::with_classes(LIMITS, &plan).expect("geometry");
        let layout = geometry.layout().expect("layout");
        let memory = Mapped::anonymous(layout.bytes()).expect("memory");
        let peer = Peer::new(layout, choices);
        let faulty = FaultyMemory {
            memory: memory.clone(),
            peer: Rc::clone(&peer),
        };
        let control = Control::create(faulty, &geometry, 1).expect("control");
        let regions = Regions::read(&control).expect("regions");
        let core = Member::join(&control, MemberKind::CoreEndpoint, IDENTITY, "core");
        let core = core.expect("the first row").index();
        Self {
            core,
            peer,
            memory,
            control,
            regions,
            members: Vec::new(),
            outcomes: Outcomes::default(),
        }
    }

    /// Some turns, each of a random member, beside a peer with that fault. Then everybody goes,
    /// however that ends.
    pub(crate) fn run(mut self, turns: u32, fault: PeerFault) -> Outcomes {
        for _ in 0..turns {
            if self.peer.is_exhausted() {
                break;
            }
            // A few honest turns among them, so that there is something to destroy.
            let honest = self.peer.below(
                if matches!(fault, PeerFault::Relentless | PeerFault::Stubborn) {
                    2
                } else {
                    4
                },
            ) == 0;
            self.peer
                .behave(if honest { PeerFault::Quiet } else { fault });
            if fault == PeerFault::Scattered {
                self.peer.scribble_anywhere(&self.memory);
            }
            self.turn();
        }
        self.peer.behave(fault);
        while let Some(gone) = self.members.pop() {
            let left = gone.member.depart(&self.control, &self.regions);
            self.outcomes.note(left);
            self.peer.behave(fault);
        }
        self.look();
        self.outcomes
    }

    fn turn(&mut self) {
        if self.members.len() < MEMBERS {
            self.join();
        }
        let Some(index) =
            (self.peer.below(MEMBERS as u32) as usize).checked_rem(self.members.len())
        else {
            return;
        };
        match self.peer.below(64) {
            0 => self.look(),
            1..4 => self.recover(index),
            4..7 => {
                let gone = self.members.swap_remove(index);
                let left = gone.member.depart(&self.control, &self.regions);
                self.outcomes.note(left);
            }
            7..10 => self.open_again(),
            10..18 => self.make_a_way(index),
            _ => {
                let (control, regions, outcomes) =
                    (&self.control, &self.regions, &mut self.outcomes);
                let mut acting = Acting {
                    peer: &self.peer,
                    control,
                    regions,
                    core: self.core,
                    outcomes,
                };
                acting.turn(&mut self.members[index]);
            }
        }
    }

    fn join(&mut self) {
        let joined = Member::join(&self.control, MemberKind::Process, IDENTITY, "honest");
        if let Some(member) = self.outcomes.note(joined) {
            self.members.push(Honest {
                member,
                held: Vec::new(),
                channels: Vec::new(),
                ports: Vec::new(),
                out: Vec::new(),
                back: Vec::new(),
            });
        }
    }

    /// Everything that shows a pool.
    fn look(&mut self) {
        let control = &self.control;
        let _ = self.regions.refresh(control);
        let seen = audit(control, &self.regions, 1000);
        self.outcomes.mismatches += seen.mismatches.len() as u64;
        assert_eq!(seen.free + seen.held + seen.queued, seen.slots);
        for info in control.tables().members() {
            let _ = control.tables().pending_operation(info.index);
            let _ = control.tables().changes(info.index);
        }
        let _ = (
            control.tables().channels().count(),
            control.tables().ports().count(),
        );
        let _ = control.tables().connections().count();
    }

    /// Somebody whose process is not there (which the system says of liars, too) is recovered.
    fn recover(&mut self, index: usize) {
        let mut living: Vec<_> = self.members.iter().map(|one| one.member.index()).collect();
        living.push(self.core);
        let dead: Vec<_> = self
            .control
            .tables()
            .members()
            .filter(|found| !living.contains(&found.index))
            .collect();
        let recoverer = self.members[index].member.recoverer();
        for info in dead {
            let mut is_dead = |found: &hythe_pool::MemberInfo| !living.contains(&found.index);
            let recovered = recoverer.recover(&self.control, &self.regions, &info, 0, &mut is_dead);
            self.outcomes.note(recovered);
        }
    }

    /// All that it takes to send something from one member to the next.
    fn make_a_way(&mut self, from: usize) {
        let to = (from + 1) % self.members.len();
        for (index, kind) in [(to, PortKind::Subscriber), (from, PortKind::Publisher)] {
            let mut acting = Acting {
                peer: &self.peer,
                control: &self.control,
                regions: &self.regions,
                core: self.core,
                outcomes: &mut self.outcomes,
            };
            let honest = &mut self.members[index];
            acting.open_channel(honest, NAMES[0]);
            acting.open_port_as(honest, kind);
            acting.lease(honest);
            if kind == PortKind::Publisher {
                acting.connect(honest);
                (0..3).for_each(|_| acting.send(honest));
                acting.find_connections(&mut self.members[to]);
            }
        }
    }

    fn open_again(&mut self) {
        let opened = Control::open(self.control.memory().clone());
        if let Some(control) = self.outcomes.note(opened) {
            self.outcomes.note(Regions::read(&control));
        }
    }
}

/// One turn of one member.
struct Acting<'a> {
    peer: &'a Peer,
    control: &'a Control<FaultyMemory>,
    regions: &'a Regions,
    /// The row of a core's endpoint.
    core: MemberIndex,
    outcomes: &'a mut Outcomes,
}

impl Acting<'_> {
    fn pick<T>(&self, from: &[T]) -> Option<usize> {
        (self.peer.below(64) as usize).checked_rem(from.len())
    }

    fn turn(&mut self, honest: &mut Honest) {
        match self.peer.below(14) {
            0 | 1 => self.lease(honest),
            2 => self.duplicate(honest),
            3 => self.release(honest),
            4 | 5 => self.send(honest),
            6 | 7 => self.take(honest),
            8 => self.open_channel(honest, NAMES[self.peer.below(3) as usize]),
            9 => self.open_port(honest),
            10 => self.connect(honest),
            11 => self.find_connections(honest),
            12 => self.leave(honest),
            _ => self.with_a_core(honest),
        }
    }

    fn lease(&mut self, honest: &mut Honest) {
        let Some(region) = self.regions.region(RegionIndex(0)) else {
            return;
        };
        let bytes = [1, 800, 5000][self.peer.below(3) as usize];
        let mut cursors = Cursors::default();
        let anywhere = LedgerSlot(region.ledger_base + self.peer.below(region.slots));
        cursors.note_free(region, anywhere);
        let leased = honest
            .member
            .lease_any(self.control, region, bytes, &mut cursors);
        if let Some((slot, generation)) = self.outcomes.note(leased) {
            let slot = LedgerSlot(region.ledger_base + slot);
            let place = self.regions.place(slot).expect("a slot of a region");
            honest.held.push((slot, descriptor(place, generation)));
        }
    }

    fn duplicate(&mut self, honest: &mut Honest) {
        let Some(index) = self.pick(&honest.held) else {
            return;
        };
        let held = honest.held[index];
        let doubled = honest.member.duplicate(self.control, held.0, 1);
        if self.outcomes.note(doubled).is_some() {
            honest.held.push(held);
        }
    }

    fn release(&mut self, honest: &mut Honest) {
        let Some(index) = self.pick(&honest.held) else {
            return;
        };
        let (slot, _) = honest.held.swap_remove(index);
        let released = honest.member.release(self.control, slot, 1);
        self.outcomes.note(released);
    }

    fn send(&mut self, honest: &mut Honest) {
        let (Some(held), Some(way)) = (self.pick(&honest.held), self.pick(&honest.out)) else {
            return;
        };
        let (slot, descriptor) = honest.held[held];
        let end = &mut honest.out[way];
        let sent = honest.member.send(self.control, end, slot, descriptor);
        match sent {
            Ok(()) => {
                honest.held.swap_remove(held);
            }
            Err(SendError::Full) => self.outcomes.refused += 1,
            Err(SendError::Pool(error)) => {
                self.outcomes.note::<()>(Err(*error));
                let _ = end.queue.free_capacity(self.control.memory());
            }
        }
        let known = honest.out[way].info;
        let _ = self.control.tables().consumer_stays(&known);
    }

    fn take(&mut self, honest: &mut Honest) {
        let Some(way) = self.pick(&honest.back) else {
            return;
        };
        let end = &mut honest.back[way];
        let _ = end.queue.waiting(self.control.memory());
        let taken = honest.member.take(self.control, self.regions, end);
        if let Some(Some(taken)) = self.outcomes.note(taken) {
            let checked = self.regions.check(taken.descriptor);
            assert_eq!(
                checked.map(|found| found.slot),
                Ok(taken.slot),
                "what is taken is in the pool"
            );
            honest.held.push((taken.slot, taken.descriptor));
        }
    }

    fn open_channel(&mut self, honest: &mut Honest, name: &str) {
        let raw = ChannelType::default();
        let opened = honest.member.open_channel(self.control, name, &raw);
        let Some(index) = self.outcomes.note(opened) else {
            return;
        };
        if let Some(info) = self.control.tables().channel(index) {
            honest.channels.push(info);
        }
        if self.peer.below(4) == 0 {
            honest.member.retire_channel(self.control, index);
        }
    }

    fn open_port(&mut self, honest: &mut Honest) {
        let kind = [PortKind::Publisher, PortKind::Subscriber][self.peer.below(2) as usize];
        self.open_port_as(honest, kind);
    }

    fn open_port_as(&mut self, honest: &mut Honest, kind: PortKind) {
        let Some(index) = self.pick(&honest.channels) else {
            return;
        };
        let policy = PortPolicy::DropNewest;
        let channel = honest.channels[index].index;
        let opened = honest
            .member
            .open_port(self.control, channel, kind, 4, policy);
        if let Some(port) = self.outcomes.note(opened) {
            self.control
                .tables()
                .set_statistics(port, PortStatistics::default());
            honest.ports.push(port);
        }
        let _ = self.control.tables().channel_epoch(channel);
    }

    /// To every subscriber there seems to be, as a publisher does.
    fn connect(&mut self, honest: &mut Honest) {
        let Some(own) = self.pick(&honest.ports) else {
            return;
        };
        let subscribers: Vec<_> = self
            .control
            .tables()
            .ports()
            .filter(|port| port.kind == PortKind::Subscriber)
            .collect();
        for known in subscribers.into_iter().take(3) {
            let (member, port) = (known.member, known.index);
            let made =
                honest
                    .member
                    .connect(self.control, honest.ports[own], member, port, known.depth);
            if let Some(info) = self.outcomes.note(made) {
                let _ = self.control.tables().is_still_open(&known);
                honest.out.push(self.control.tables().producer_end(info));
            }
        }
    }

    /// From every publisher there seems to be, as a subscriber does.
    fn find_connections(&mut self, honest: &mut Honest) {
        let me = honest.member.index();
        honest.back = self
            .control
            .tables()
            .connections()
            .filter(|info| info.consumer == me && !info.consumer_left)
            .map(|info| self.control.tables().consumer_end(info))
            .collect();
    }

    fn leave(&mut self, honest: &mut Honest) {
        let (control, regions) = (self.control, self.regions);
        let out = self.pick(&honest.out).map(|at| honest.out.swap_remove(at));
        let back = self
            .pick(&honest.back)
            .map(|at| honest.back.swap_remove(at));
        let member = &mut honest.member;
        if let Some(info) = out.map(|end| end.info) {
            let side = Side::Producer;
            let left = member.leave_connection(control, regions, info.index, info.nonce, side);
            self.outcomes.note(left);
        }
        if let Some(info) = back.map(|end| end.info) {
            let side = Side::Consumer;
            self.outcomes.note(member.drain_own(control, regions, info));
            let left = member.leave_connection(control, regions, info.index, info.nonce, side);
            self.outcomes.note(left);
        }
        if let Some(port) = honest.ports.pop() {
            member.close_port(control, port);
            member.free_port(control, port);
        }
    }

    fn with_a_core(&mut self, honest: &mut Honest) {
        let control = self.control;
        match (self.peer.below(4), self.pick(&honest.channels)) {
            (0, Some(index)) => {
                let known = &honest.channels[index];
                let attached = honest.member.attach_core(control, known, 0);
                self.outcomes.note(attached);
                honest.member.detach_core(control, known.index, 0);
            }
            (1, Some(index)) => {
                let channel = honest.channels[index].index;
                honest
                    .member
                    .bind_core(control, channel, binding(self.core));
                honest.member.unbind_core(control, channel);
            }
            (2, _) => self.add_region(honest),
            _ => {
                let Some(index) = self.pick(&honest.held) else {
                    return;
                };
                let (slot, _) = honest.held[index];
                let row = self.core;
                let given = honest.member.give(control, row, slot, 1);
                if self.outcomes.note(given).is_none() {
                    return;
                }
                let back = honest.member.reclaim(control, row, slot, 1);
                if self.outcomes.note(back) != Some(true) {
                    honest.held.swap_remove(index);
                }
            }
        }
    }

    fn add_region(&mut self, honest: &Honest) {
        let classes = [SlotClass {
            slot_bytes: 1024,
            count: 2,
            first: 0,
            offset: 0,
        }];
        let link = LinkPlace {
            bytes: 8192,
            offset: 0,
        };
        let plan = CoreRegionPlan {
            name: "board",
            bytes: 8192,
            classes: &classes,
            link,
            segments: None,
        };
        let made = |_| Ok::<(), PoolError>(());
        let added = honest.member.add_core_region(self.control, &plan, made);
        self.outcomes.note(added);
    }
}

fn binding(row: MemberIndex) -> CoreBinding {
    CoreBinding {
        region: RegionIndex(0),
        endpoint: 0,
        direction: Direction::ToCore,
        row,
        agent: row,
    }
}

fn descriptor(place: hythe_abi::Place, generation: Generation) -> Descriptor {
    Descriptor {
        place,
        generation,
        offset: HEADROOM_BYTES,
        length: 100,
    }
}

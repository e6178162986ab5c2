//! A small pool in anonymous memory, members that can be made to die before any store, and what
//! must hold afterwards.
//!
//! Used by every test of this folder. A death is a panic in front of a store that others would see,
//! caught by [`until_death`]: what `kill -9` between two instructions leaves behind, since nothing
//! in the crate has a destructor.

pub(crate) mod cases;
pub(crate) mod oldest;
pub(crate) mod patterns;
pub(crate) mod stage;
pub(crate) mod turns;

use std::cell::Cell;
use std::panic::{AssertUnwindSafe, catch_unwind, resume_unwind};
use std::rc::Rc;

use hythe_abi::pool::{Limits, REGIONS_MAX, channel, connection, port, region};
use hythe_abi::{Descriptor, Generation, HEADROOM_BYTES, RegionIndex};
use hythe_memory::{Mapped, Memory, Ordering};
use hythe_pool::{
    ChannelType, ClassPlan, ConnectionEnd, Control, Cursors, Geometry, Identity, LedgerSlot,
    Member, MemberIndex, MemberKind, PortIndex, PortKind, PortPolicy, QueuePlan, Recovered,
    Regions, audit,
};
use hythe_queue::{Consumer, Producer};

/// Payload of the small class, and how many slots it has.
pub(crate) const SMALL_BYTES: usize = 768;
pub(crate) const SMALL_SLOTS: u32 = 8;
/// Payload of the large class, and how many slots it has.
pub(crate) const LARGE_BYTES: usize = 3840;
pub(crate) const LARGE_SLOTS: u32 = 2;
/// Ledger entries for the region of a core.
pub(crate) const SPARE_SLOTS: u32 = 4;

pub(crate) const LIMITS: Limits = Limits {
    participants: 7,
    channels: 3,
    ports: 16,
    connections: 8,
    queue_segments: 12,
    slots: SPARE_SLOTS,
};

/// What a death carries to [`until_death`].
struct Death;

/// Counts the stores of a member, and simulates its death before one of them.
#[derive(Debug, Default)]
pub(crate) struct Fault {
    stores: Cell<u32>,
    /// Number of the store that is not reached any more; 0: none.
    dies_before: Cell<u32>,
}

impl Fault {
    pub(crate) fn arm(&self, dies_before: u32) {
        self.stores.set(0);
        self.dies_before.set(dies_before);
    }

    /// Stores begun since the fault was armed, the one not reached included.
    pub(crate) fn stores(&self) -> u32 {
        self.stores.get()
    }

    fn step(&self) {
        self.stores.set(self.stores.get() + 1);
        if self.stores.get() == self.dies_before.get() {
            // Without the panic hook: thousands of these are expected.
            resume_unwind(Box::new(Death));
        }
    }
}

/// Memory seen by a member that may die.
#[derive(Clone, Debug)]
pub(crate) struct Dying {
    memory: Mapped,
    pub(crate) fault: Rc<Fault>,
}

impl Memory for Dying {
    fn bytes(&self) -> usize {
        self.memory.bytes()
    }
    fn load(&self, at: usize, order: Ordering) -> u32 {
        self.memory.load(at, order)
    }
    fn store(&self, at: usize, value: u32, order: Ordering) {
        self.fault.step();
        self.memory.store(at, value, order);
    }
    fn add(&self, at: usize, value: u32, order: Ordering) -> u32 {
        self.fault.step();
        self.memory.add(at, value, order)
    }
    fn load_cell(&self, at: usize, order: Ordering) -> u64 {
        self.memory.load_cell(at, order)
    }
    fn store_cell(&self, at: usize, value: u64, order: Ordering) {
        self.fault.step();
        self.memory.store_cell(at, value, order);
    }
    fn replace_cell(&self, at: usize, current: u64, new: u64) -> Result<(), u64> {
        // A swap that fails changes nothing; nobody else runs meanwhile, so the look ahead is
        // right.
        if self.memory.load_cell(at, Ordering::Acquire) == current {
            self.fault.step();
        }
        self.memory.replace_cell(at, current, new)
    }
}

/// Runs until the end or until the fault burns down; `None`: died.
pub(crate) fn until_death<T>(body: impl FnOnce() -> T) -> Option<T> {
    match catch_unwind(AssertUnwindSafe(body)) {
        Ok(value) => Some(value),
        Err(cause) if cause.is::<Death>() => None,
        Err(cause) => resume_unwind(cause),
    }
}

/// A descriptor together with its slot in the ledger.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Message {
    pub(crate) slot: LedgerSlot,
    pub(crate) descriptor: Descriptor,
}

/// Both ends of a connection, and its ports.
#[derive(Debug)]
pub(crate) struct Way {
    pub(crate) producer: ConnectionEnd<Producer>,
    pub(crate) consumer: ConnectionEnd<Consumer>,
    pub(crate) producer_port: PortIndex,
    pub(crate) consumer_port: PortIndex,
}

/// The pool as its living members see it.
#[derive(Debug)]
pub(crate) struct World {
    memory: Mapped,
    pub(crate) control: Control<Mapped>,
    pub(crate) regions: Regions,
}

impl World {
    pub(crate) fn new() -> Self {
        let plan = [
            ClassPlan {
                payload_bytes: SMALL_BYTES,
                count: SMALL_SLOTS,
            },
            ClassPlan {
                payload_bytes: LARGE_BYTES,
                count: LARGE_SLOTS,
            },
        ];
        let geometry = Geometry::with_classes(LIMITS, &plan).expect("geometry");
        let memory = Mapped::anonymous(geometry.layout().expect("layout").bytes()).expect("memory");
        let control = Control::create(memory.clone(), &geometry, 1).expect("control");
        let regions = Regions::read(&control).expect("regions");
        Self {
            memory,
            control,
            regions,
        }
    }

    /// The same pool for a member that may die.
    pub(crate) fn dying(&self) -> Control<Dying> {
        let memory = Dying {
            memory: self.memory.clone(),
            fault: Rc::default(),
        };
        Control::open(memory).expect("open")
    }

    pub(crate) fn join(&self, name: &str) -> Member {
        self.join_as(MemberKind::Process, name)
    }

    pub(crate) fn join_as(&self, kind: MemberKind, name: &str) -> Member {
        Member::join(&self.control, kind, identity(), name).expect("join")
    }

    pub(crate) fn lease(&self, member: &mut Member) -> Message {
        lease(member, &self.control, &self.regions)
    }

    /// Connects `from` to `to` over ports of their own on the channel `way`.
    pub(crate) fn connect(&self, from: &mut Member, to: &mut Member, capacity: u32) -> Way {
        self.connect_with(from, to, capacity, PortPolicy::DropNewest)
    }

    /// The same, with a policy.
    pub(crate) fn connect_with(
        &self,
        from: &mut Member,
        to: &mut Member,
        capacity: u32,
        policy: PortPolicy,
    ) -> Way {
        let control = &self.control;
        let raw = ChannelType::default();
        let channel = from.open_channel(control, "way", &raw).expect("channel");
        let open = |member: &mut Member, kind| {
            member
                .open_port(control, channel, kind, capacity, policy)
                .expect("port")
        };
        let producer_port = open(from, PortKind::Publisher);
        let consumer_port = open(to, PortKind::Subscriber);
        let queue = QueuePlan {
            capacity,
            evicts_oldest: policy == PortPolicy::EvictOldest,
        };
        let made = from.connect(control, producer_port, to.index(), consumer_port, queue);
        let made = made.expect("connection");
        Way {
            producer: control.tables().producer_end(made),
            consumer: control.tables().consumer_end(made),
            producer_port,
            consumer_port,
        }
    }

    pub(crate) fn send(&self, member: &mut Member, way: &mut Way, message: Message) {
        let sent = member.send(
            &self.control,
            &mut way.producer,
            message.slot,
            message.descriptor,
        );
        sent.expect("send");
    }

    pub(crate) fn take(&self, member: &mut Member, way: &mut Way) -> Option<Message> {
        let taken = member
            .take(&self.control, &self.regions, &mut way.consumer)
            .expect("take");
        taken.map(|taken| Message {
            slot: taken.slot,
            descriptor: taken.descriptor,
        })
    }

    pub(crate) fn release(&self, member: &mut Member, slot: LedgerSlot, count: u32) -> bool {
        member.release(&self.control, slot, count).expect("release")
    }

    /// Recovers one member, whose death and that of all others but `living` counts as proven.
    pub(crate) fn recover(
        &self,
        recoverer: &Member,
        dead: MemberIndex,
        living: &[MemberIndex],
    ) -> Option<Recovered> {
        let info = self.control.tables().member(dead)?;
        let mut is_dead = |member: &hythe_pool::MemberInfo| !living.contains(&member.index);
        recoverer
            .recoverer()
            .recover(&self.control, &self.regions, &info, 0, &mut is_dead)
            .expect("recovery")
    }

    /// Recovers everyone but `living`, and says who was found, in the order given by `order`.
    pub(crate) fn bury(&self, recoverer: &Member, living: &[MemberIndex], reverse: bool) -> usize {
        let mut dead: Vec<_> = self
            .control
            .tables()
            .members()
            .map(|member| member.index)
            .collect();
        dead.retain(|index| !living.contains(index));
        if reverse {
            dead.reverse();
        }
        for &index in &dead {
            self.recover(recoverer, index, living)
                .expect("nobody else recovers");
        }
        dead.len()
    }

    /// The invariant of the ledger.
    pub(crate) fn check_sums(&self, context: &str) {
        let found = audit(&self.control, &self.regions, 0);
        assert_eq!(found.mismatches, [], "{context}");
        assert_eq!(
            found.free + found.held + found.queued,
            found.slots,
            "{context}"
        );
    }

    /// Nobody is there, and everything is free.
    pub(crate) fn check_empty(&self, context: &str) {
        let found = audit(&self.control, &self.regions, 0);
        assert_eq!(found.free, found.slots, "{context}: {found:?}");
        assert_eq!(
            self.control.tables().members().count(),
            0,
            "{context}: members"
        );
        let (layout, limits) = (self.control.layout(), self.control.layout().limits());
        let status = |at| self.memory.load_cell(at, Ordering::Acquire) & 0xFF;
        for index in 0..limits.channels as usize {
            let at = layout.channel(index);
            assert_eq!(status(at + channel::STATE), 0, "{context}: channel {index}");
        }
        for index in 0..limits.ports as usize {
            assert_eq!(
                status(layout.port(index) + port::STATE),
                0,
                "{context}: port {index}"
            );
        }
        for index in 0..limits.connections as usize {
            let at = layout.connection(index) + connection::STATE;
            assert_eq!(status(at), 0, "{context}: connection {index}");
        }
        for index in 0..limits.queue_segments as usize {
            assert_eq!(
                status(layout.queue_segment_owner(index)),
                0,
                "{context}: queue segment {index}"
            );
        }
        for row in 0..limits.participants as usize {
            for slot in 0..limits.slots as usize {
                let count = self
                    .memory
                    .load_cell(layout.hold(row, slot), Ordering::Acquire)
                    & 0xFFF;
                assert_eq!(count, 0, "{context}: hold of {row} on {slot}");
            }
        }
        for index in 1..REGIONS_MAX {
            let at = layout.region(index) + region::STATE;
            assert_ne!(status(at), 1, "{context}: claimed region {index}");
        }
    }
}

pub(crate) const fn identity() -> Identity {
    Identity {
        pid: 1,
        start_time: 2,
        pid_namespace: 3,
        uid: 4,
    }
}

/// Leases a small slot.
pub(crate) fn lease<M: Memory>(
    member: &mut Member,
    control: &Control<M>,
    regions: &Regions,
) -> Message {
    let region = regions.region(RegionIndex(0)).expect("region 0");
    let (slot, generation) = member
        .lease_any(control, region, SMALL_BYTES, &mut Cursors::default())
        .expect("a free slot");
    message(regions, LedgerSlot(slot), generation)
}

/// A message that names a whole small payload of a slot of region 0.
pub(crate) fn message(regions: &Regions, slot: LedgerSlot, generation: Generation) -> Message {
    let descriptor = Descriptor {
        place: regions.place(slot).expect("a slot of a region"),
        generation,
        offset: HEADROOM_BYTES,
        length: SMALL_BYTES as u32,
    };
    Message { slot, descriptor }
}

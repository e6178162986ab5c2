//! What one subscriber keeps of a core's messages: at most its share of each size of slots
//! (ADR 0022).
//!
//! The core knows what waits for a port, not what its subscriber holds. So each subscriber counts
//! its own as it takes: a message beyond the share stays in the queue until it has released others,
//! and the core does about a full queue what its program says. Never waits.

use hythe_abi::pool::CORE_PORTS_MAX;
use hythe_abi::{Descriptor, Generation, RegionIndex};
use hythe_memory::Memory;
use hythe_node::hop::receiver_share;
use hythe_pool::{ChannelIndex, Control, LedgerSlot, MemberIndex, RegionGeometry};

/// A subscriber far from its limit gets this part of the distance without another look.
const UNSEEN_PART: u32 = 8;

/// The messages of one core that its subscriber has taken and not released.
#[derive(Debug, Default)]
pub(super) struct Kept {
    /// The core's region, and its first slot in the ledger.
    region: Option<(RegionIndex, u32)>,
    /// Its slots.
    classes: Vec<Class>,
    slots: Vec<KeptSlot>,
    /// Messages of a class that need no look.
    granted: (usize, u32),
    /// It has released something.
    gives_back: bool,
}

/// The slots of one class.
#[derive(Clone, Copy, Debug)]
struct Class {
    first: LedgerSlot,
    slots: u32,
}

/// A slot that was taken.
#[derive(Clone, Copy, Debug)]
struct KeptSlot {
    slot: LedgerSlot,
    generation: Generation,
    class: usize,
}

/// The participant that takes, and the channel it takes from.
#[derive(Debug)]
pub(super) struct Taker<'a, M: Memory> {
    pub(super) control: &'a Control<M>,
    pub(super) member: MemberIndex,
    pub(super) channel: ChannelIndex,
}

impl Kept {
    /// For another core: its slots are of this region. What was kept of the last is not counted.
    pub(super) fn begin(&mut self, index: RegionIndex, region: Option<&RegionGeometry>) {
        let class_of = |region: &RegionGeometry| -> Vec<Class> {
            let classes = region.classes.iter();
            classes
                .map(|class| Class {
                    first: LedgerSlot(region.ledger_base + class.first),
                    slots: class.count,
                })
                .collect()
        };
        *self = Self {
            region: region.map(|region| (index, region.ledger_base)),
            classes: region.map(class_of).unwrap_or_default(),
            ..Self::default()
        };
    }

    /// May the subscriber keep the message in this buffer, too? True: it is counted as kept. What
    /// the core says is not checked yet; a buffer that is none is not kept at the next look.
    pub(super) fn admits<M: Memory>(&mut self, buffer: &Descriptor, taker: &Taker<'_, M>) -> bool {
        let Some((_, base)) = self
            .region
            .filter(|(region, _)| *region == buffer.place.region)
        else {
            return true;
        };
        let slot = LedgerSlot(base.saturating_add(buffer.place.slot));
        let Some(class) = self.class_of(slot) else {
            return true;
        };
        let kept = KeptSlot {
            slot,
            generation: buffer.generation,
            class,
        };
        if let Some(last) = self.slots.last_mut()
            && last.slot == slot
        {
            // Another part of the same slot, or the next message in it.
            last.generation = kept.generation;
            return true;
        }
        let (granted, left) = &mut self.granted;
        if *granted == class && *left > 0 {
            *left -= 1;
        } else if !self.look(kept, taker) {
            return false;
        }
        self.slots.push(kept);
        true
    }

    fn class_of(&self, slot: LedgerSlot) -> Option<usize> {
        let within = |class: &Class| slot.0.wrapping_sub(class.first.0) < class.slots;
        self.classes.iter().position(within)
    }

    /// Compares what is kept with the share, behind a look at what was released.
    #[cold]
    fn look<M: Memory>(&mut self, message: KeptSlot, taker: &Taker<'_, M>) -> bool {
        self.forget_released(taker);
        let class = self.classes[message.class];
        let mut same = self.slots.iter().filter(|kept| kept.class == message.class);
        if same.any(|kept| kept.slot == message.slot) {
            return true;
        }
        let kept = same_class(&self.slots, message.class);
        let receivers = receivers(taker).count() as u32;
        let free = |enough| {
            let ledger = taker.control.ledger();
            ledger.free_slots(class.first, class.slots, enough)
        };
        let gets_last = || self.gives_back || leaves_one(class, message.slot, taker);
        let limit = receiver_share(class.slots, receivers, free, gets_last);
        let distance = limit.saturating_sub(kept);
        self.granted = (message.class, distance / UNSEEN_PART);
        distance > 0
    }

    fn forget_released<M: Memory>(&mut self, taker: &Taker<'_, M>) {
        let before = self.slots.len();
        let ledger = taker.control.ledger();
        self.slots.retain(|kept| {
            let (references, generation) = ledger.slot(kept.slot);
            let is_same = references > 0 && generation == kept.generation;
            is_same && ledger.held_by(taker.member, kept.slot) > 0
        });
        self.gives_back |= self.slots.len() < before;
        // Parts of a slot that were taken between others occupy one.
        self.slots.sort_unstable_by_key(|kept| kept.slot);
        self.slots.dedup_by_key(|kept| kept.slot);
    }
}

fn same_class(slots: &[KeptSlot], class: usize) -> u32 {
    slots.iter().filter(|kept| kept.class == class).count() as u32
}

/// The participants at the ports of the endpoint, one for each port.
fn receivers<M: Memory>(taker: &Taker<'_, M>) -> impl Iterator<Item = MemberIndex> {
    let (tables, channel) = (taker.control.tables(), taker.channel);
    (0..CORE_PORTS_MAX).filter_map(move |port| tables.attached(channel, port))
}

/// Is there a slot of the class beside this one that no receiver holds? Else those that never
/// release would take the last ones, one receiver after the other.
fn leaves_one<M: Memory>(class: Class, taken: LedgerSlot, taker: &Taker<'_, M>) -> bool {
    let (ledger, members) = (taker.control.ledger(), receivers(taker).collect::<Vec<_>>());
    let is_held = |slot: LedgerSlot| members.iter().any(|&it| ledger.held_by(it, slot) > 0);
    let mut others = (class.first.0..class.first.0 + class.slots).map(LedgerSlot);
    class.slots == 1 || others.any(|slot| slot != taken && !is_held(slot))
}

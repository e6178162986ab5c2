//! High-water marks: the most of each table, and of each class of slots, that was in use at once.
//!
//! Tables are filled from their first record on, so whoever takes a record knows how many are in
//! use at least, and notes it: off the data path. Slots are leased and released too often for that,
//! so the watchers of participants count them now and then ([`Control::note_slots`]), and so does
//! whoever finds a class full: these marks are samples, a short peak may be missed. Any participant
//! may write nonsense here; nothing is decided by a mark.

use hythe_abi::RegionIndex;
use hythe_abi::pool::{header, high_water};
use hythe_memory::{Memory, Ordering};

use crate::control::Control;
use crate::ledger::LedgerSlot;
use crate::regions::{RegionGeometry, Regions, SlotClass};

/// How often somebody else may raise a mark meanwhile.
const TRIES: usize = 16;

/// A table with a mark.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Table {
    Participants = 0,
    Channels = 1,
    Ports = 2,
    Connections = 3,
    QueueSegments = 4,
}

/// The most of everything that was in use at once.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct HighWater {
    /// Processes and core endpoints.
    pub participants: u32,
    /// Named channels.
    pub channels: u32,
    /// Publishers and subscribers together.
    pub ports: u32,
    /// Pairs of a publisher and a subscriber.
    pub connections: u32,
    /// How far queues have reached into the queue segments, gaps between them counted in: a
    /// connection without a deep queue reaches as far as its number, the first deep queue past the
    /// queue segments of all connections.
    pub queue_segments: u32,
    /// Slots, sampled.
    pub classes: Vec<ClassHighWater>,
}

/// The most slots of a class that were seen in use at once.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ClassHighWater {
    /// The region.
    pub region: RegionIndex,
    /// First slot of the class in the region.
    pub first: u32,
    /// Slots in use.
    pub slots: u32,
}

/// Notes that the first `in_use` records of a table are, or were a moment ago, in use.
pub(crate) fn note_table<M: Memory>(control: &Control<M>, table: Table, in_use: u32) {
    raise(
        control.memory(),
        header::HIGH_WATER + table as usize * 8,
        in_use,
    );
}

impl<M: Memory> Control<M> {
    /// Counts the slots in use of each class, and notes the most. Reads every cell of the ledger:
    /// for watchers, and for those who find the pool full.
    pub fn note_slots(&self, regions: &Regions) {
        for (region, number, class) in classes(regions) {
            raise(
                self.memory(),
                class_at(region, number),
                in_use(self, region, class),
            );
        }
    }

    /// The marks as they are, or as they would be after a look now, if that is more.
    pub fn high_water(&self, regions: &Regions) -> HighWater {
        let limits = self.layout().limits();
        let table = |table: Table, limit: u32, now: usize| {
            let at = header::HIGH_WATER + table as usize * 8;
            // No table has more records than 32 bits count.
            highest(self.memory(), at, now as u32, limit)
        };
        let classes = classes(regions).map(|(region, number, class)| ClassHighWater {
            region: region.index,
            first: class.first,
            slots: highest(
                self.memory(),
                class_at(region, number),
                in_use(self, region, class),
                class.count,
            ),
        });
        HighWater {
            participants: table(
                Table::Participants,
                limits.participants,
                self.tables().members().count(),
            ),
            channels: table(
                Table::Channels,
                limits.channels,
                self.tables().channels().count(),
            ),
            ports: table(Table::Ports, limits.ports, self.tables().ports().count()),
            connections: table(
                Table::Connections,
                limits.connections,
                self.tables().connections().count(),
            ),
            queue_segments: table(Table::QueueSegments, limits.queue_segments, 0),
            classes: classes.collect(),
        }
    }
}

fn raise<M: Memory>(memory: &M, at: usize, in_use: u32) {
    for _ in 0..TRIES {
        let known = memory.load_cell(at, Ordering::Relaxed);
        if known >= u64::from(in_use) || memory.replace_cell(at, known, in_use.into()).is_ok() {
            return;
        }
    }
}

/// A mark, which may be nonsense, between what is in use now and the limit.
fn highest<M: Memory>(memory: &M, at: usize, now: u32, limit: u32) -> u32 {
    let noted = memory.load_cell(at, Ordering::Relaxed).min(limit.into());
    // Not above a limit of 32 bits.
    (noted as u32).max(now)
}

fn classes(regions: &Regions) -> impl Iterator<Item = (&RegionGeometry, usize, &SlotClass)> {
    regions.iter().flat_map(|region| {
        let classes = region.classes.iter().enumerate();
        classes.map(move |(number, class)| (region, number, class))
    })
}

/// Both numbers were checked when the region was read.
fn class_at(region: &RegionGeometry, class: usize) -> usize {
    header::HIGH_WATER
        + high_water::REGIONS
        + usize::from(region.index.0) * high_water::REGION_BYTES
        + class * 8
}

fn in_use<M: Memory>(control: &Control<M>, region: &RegionGeometry, class: &SlotClass) -> u32 {
    let slots = class.first..class.first + class.count;
    let taken = slots.filter(|slot| {
        control
            .ledger()
            .slot(LedgerSlot(region.ledger_base + slot))
            .0
            > 0
    });
    // Not more than the class has.
    taken.count() as u32
}

#[cfg(all(test, not(loom)))]
mod tests {
    use super::*;
    use crate::{ChannelType, PortKind, PortPolicy, scene};

    #[test]
    fn tables_remember_the_most_that_was_in_use() {
        let (control, memory) = scene::pool();
        let mut first = scene::join(&control);
        scene::with_region(&control, |regions, _| {
            let second = scene::join(&control);
            second.depart(&control, regions).expect("goes");
            let open = |member: &mut crate::Member, name| {
                member
                    .open_channel(&control, name, &ChannelType::default())
                    .expect("room")
            };
            let channel = open(&mut first, "one");
            let policy = PortPolicy::DropNewest;
            let port = first
                .open_port(&control, channel, PortKind::Publisher, 0, policy)
                .expect("room");
            let connection = first
                .connect(&control, port, first.index(), port, 64)
                .expect("room");
            assert_eq!(control.tables().connections().count(), 1);
            let marks = control.high_water(regions);
            assert_eq!((marks.participants, marks.channels, marks.ports), (2, 1, 1));
            assert_eq!(
                (marks.connections, marks.queue_segments),
                (1, scene::LIMITS.connections + connection.queue_segments()),
                "a deep queue stands behind the queue segments of all connections"
            );
            assert_eq!(connection.queue_segments(), 2);
            for side in [crate::Side::Producer, crate::Side::Consumer] {
                first
                    .leave_connection(&control, regions, connection.index, connection.nonce, side)
                    .expect("left");
            }
            first.free_port(&control, port);
            first.retire_channel(&control, channel);
            assert_eq!(
                (
                    control.tables().ports().count(),
                    control.tables().connections().count()
                ),
                (0, 0)
            );
            assert_eq!(control.high_water(regions), marks, "a mark does not fall");
            // Nonsense is cut to what can be.
            memory.store_cell(header::HIGH_WATER + 16, u64::MAX, Ordering::Relaxed);
            assert_eq!(control.high_water(regions).ports, scene::LIMITS.ports);
        });
    }

    #[test]
    fn slots_are_noted_when_somebody_looks() {
        let control = scene::control();
        let mut member = scene::join(&control);
        scene::with_region(&control, |regions, region| {
            let most = || control.high_water(regions).classes[0].slots;
            assert_eq!(most(), 0);
            let mut lease = |slot| {
                let slot = LedgerSlot(region.ledger_base + slot);
                member.lease(&control, slot).expect("sound").expect("free");
                slot
            };
            let slots = [lease(0), lease(1)];
            assert_eq!(most(), 2, "what is in use now counts");
            control.note_slots(regions);
            for slot in slots {
                member.release(&control, slot, 1).expect("held");
            }
            assert_eq!(most(), 2);
            assert_eq!(control.high_water(regions).classes[0].first, 0);
        });
    }
}

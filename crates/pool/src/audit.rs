//! The audit: does the sum hold, and who holds what?
//!
//! Reading while others work, it can meet a reference between two records. It therefore looks again
//! at slots that do not add up, and reports only those that stay wrong while nothing about them
//! moves.

use std::collections::{BTreeMap, HashMap};

use hythe_abi::pool::QUEUE_SEGMENT_DESCRIPTORS;
use hythe_memory::Memory;

use crate::control::Control;
use crate::ledger::LedgerSlot;
use crate::regions::{ClaimedSlot, Regions};
use crate::tables::connections::ConnectionIndex;
use crate::tables::members::{MemberIndex, MemberKind, since_units};

/// Looks at a slot that does not add up before it is reported.
const LOOKS: usize = 200;
/// Records read for further looks in all: a liar who makes every slot look wrong does not keep us
/// for longer than a second or so.
const RECORDS_IN_ALL: usize = 1 << 23;

/// Who answers for references.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash)]
pub enum HolderKind {
    /// A participant.
    Member(MemberIndex),
    /// The queue of a connection.
    Queue(ConnectionIndex),
}

/// References of one holder to one slot.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Holder {
    /// The slot.
    pub slot: LedgerSlot,
    /// Who.
    pub kind: HolderKind,
    /// How many.
    pub count: u32,
    /// For how long, in milliseconds, to 128 ms; 0 for queues.
    pub held_ms: u64,
}

/// A slot whose count is not the sum of its holders.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Mismatch {
    /// The slot.
    pub slot: LedgerSlot,
    /// What its cell says.
    pub counted: u32,
    /// What holders and queues sum up to.
    pub found: u32,
}

/// The state of the ledger.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Audit {
    /// Slots of all regions.
    pub slots: u32,
    /// Slots that nobody holds.
    pub free: u32,
    /// Slots with a holder that is a participant.
    pub held: u32,
    /// Slots that are only in queues.
    pub queued: u32,
    /// Every holder.
    pub holders: Vec<Holder>,
    /// Slots that do not add up.
    pub mismatches: Vec<Mismatch>,
}

/// Sums the ledger up.
pub fn audit<M: Memory>(control: &Control<M>, regions: &Regions, monotonic_ms: u64) -> Audit {
    let mut audit = Audit::default();
    let slots: Vec<LedgerSlot> = regions
        .iter()
        .flat_map(|region| region.ledger_base..region.ledger_base + region.slots)
        .map(LedgerSlot)
        .collect();
    let in_queues = queue_references(control, regions);
    let rows = rows_in_use(control);
    let mut records = RECORDS_IN_ALL;
    for slot in slots {
        audit.slots += 1;
        let mut holders = holders_of(control, &rows, slot, &in_queues, monotonic_ms);
        let mut counted = control.ledger().slot(slot).0;
        if sum(&holders) != counted {
            (counted, holders) = look_again(control, regions, slot, monotonic_ms, &mut records);
        }
        if sum(&holders) != counted {
            audit.mismatches.push(Mismatch {
                slot,
                counted,
                found: sum(&holders),
            });
        }
        if holders
            .iter()
            .any(|holder| matches!(holder.kind, HolderKind::Member(_)))
        {
            audit.held += 1;
        } else if counted > 0 {
            audit.queued += 1;
        } else {
            audit.free += 1;
        }
        audit.holders.extend(holders);
    }
    audit
}

/// Who has these slots, at one glance: while others work, a reference on its way may be missing or
/// there twice.
pub fn holders_of_slots<M: Memory>(
    control: &Control<M>,
    regions: &Regions,
    slots: Vec<LedgerSlot>,
    monotonic_ms: u64,
) -> Vec<Holder> {
    let in_queues = queue_references(control, regions);
    let rows = rows_in_use(control);
    let of = |slot| holders_of(control, &rows, slot, &in_queues, monotonic_ms);
    slots.into_iter().flat_map(of).collect()
}

/// By slot: the queues that name it, and how often.
type QueueReferences = HashMap<u32, BTreeMap<ConnectionIndex, u32>>;

fn queue_references<M: Memory>(control: &Control<M>, regions: &Regions) -> QueueReferences {
    let mut found = QueueReferences::new();
    // Queues do not overlap. Where they claim to, or to be longer together than the arena, somebody
    // lies; that shows as slots that do not add up, and does not keep us.
    let mut left = control.layout().limits().queue_segments as usize * QUEUE_SEGMENT_DESCRIPTORS;
    for info in control.tables().connections() {
        for descriptor in control.tables().queued(info).into_iter().take(left) {
            left -= 1;
            if let Ok(ClaimedSlot { slot, .. }) = regions.check(descriptor) {
                *found
                    .entry(slot.0)
                    .or_default()
                    .entry(info.index)
                    .or_default() += 1;
            }
        }
    }
    found
}

/// Rows that may hold something: those of all participants. Row numbers of free records are left
/// out; recovery emptied them.
fn rows_in_use<M: Memory>(control: &Control<M>) -> Vec<(MemberIndex, MemberKind)> {
    control
        .tables()
        .members()
        .map(|member| (member.index, member.kind))
        .collect()
}

fn holders_of<M: Memory>(
    control: &Control<M>,
    rows: &[(MemberIndex, MemberKind)],
    slot: LedgerSlot,
    in_queues: &QueueReferences,
    monotonic_ms: u64,
) -> Vec<Holder> {
    let now = since_units(monotonic_ms);
    let members = rows.iter().filter_map(|&(index, _)| {
        let found = control.ledger().hold(index, slot);
        let units = now.wrapping_sub(found.upper) & 0x00FF_FFFF;
        (found.count > 0).then(|| Holder {
            slot,
            kind: HolderKind::Member(index),
            count: found.count,
            held_ms: u64::from(units) * hythe_abi::pool::SINCE_UNIT_MS,
        })
    });
    let queues = in_queues
        .get(&slot.0)
        .into_iter()
        .flatten()
        .map(|(&connection, &count)| Holder {
            slot,
            kind: HolderKind::Queue(connection),
            count,
            held_ms: 0,
        });
    members.chain(queues).collect()
}

fn look_again<M: Memory>(
    control: &Control<M>,
    regions: &Regions,
    slot: LedgerSlot,
    monotonic_ms: u64,
    records: &mut usize,
) -> (u32, Vec<Holder>) {
    let mut last = (0, Vec::new());
    for look in 0..LOOKS {
        // One at least.
        if look > 0 && *records == 0 {
            break;
        }
        let counted = control.ledger().slot(slot).0;
        let rows = rows_in_use(control);
        let in_queues = queue_references(control, regions);
        let queued: u32 = in_queues.values().flat_map(BTreeMap::values).sum();
        let read = control.layout().limits().connections as usize + rows.len() + queued as usize;
        *records = records.saturating_sub(read);
        let holders = holders_of(control, &rows, slot, &in_queues, monotonic_ms);
        let adds_up = sum(&holders) == counted;
        last = (counted, holders);
        if adds_up {
            break;
        }
    }
    last
}

fn sum(holders: &[Holder]) -> u32 {
    holders.iter().map(|holder| holder.count).sum()
}

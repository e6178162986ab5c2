//! Slots, ledger, leases and recovery: which participant holds which slot, as a protocol over
//! shared memory.
//!
//! One [`Control`] is the control file of a pool. Its words are read through views: [`Tables`],
//! [`Ledger`] and [`Marks`]. A [`Member`] changes it: it leases, duplicates, sends, takes and
//! releases references to slots. Each of these is one step with a journal entry. When a member dies
//! within a step, another participant finishes the step and releases all that it held
//! ([`Recoverer`]). The invariant, at every instant:
//!
//! > the count in a slot's cell = the sum of all hold records of the slot + its descriptors in
//! > queues,
//!
//! where the journal settles a step that a member has begun and not finished (`docs/adr/`).
//! [`audit`] checks it.
//!
//! Ports of channels without payload share a cell of events instead of queues.
//!
//! Never calls the system, never waits, never touches payload, never trusts an index it read from
//! shared memory.

mod audit;
mod cell;
#[cfg(all(test, loom))]
mod cell_models;
mod control;
mod counted;
mod create;
mod error;
mod geometry;
mod high_water;
mod incompatible_channel;
mod journal;
mod ledger;
mod limits;
#[cfg(all(test, loom))]
mod mark_models;
mod marks;
mod member;
mod object;
mod regions;
#[cfg(all(test, not(loom)))]
mod scene;
mod tables;

pub use audit::{Audit, Holder, HolderKind, Mismatch, audit, holders_of_slots};
pub use control::{Control, PrefaultOptions};
pub use error::{IncompatibleChannel, PoolError, SendError};
pub use geometry::{ClassPlan, Geometry, Term};
pub use high_water::{ClassHighWater, HighWater};
pub use hythe_queue::{EventCell, NotRaised};
pub use ledger::{Ledger, LedgerSlot};
pub use marks::Marks;
pub use member::Member;
pub use member::adding_regions::{CoreRegionPlan, WireRegionPlan};
pub use member::connections::QueuePlan;
pub use member::leasing::{Cursors, LEASES_AHEAD};
pub use member::ports::PortWishes;
pub use member::recovery::{Recovered, Recoverer};
pub use member::transfer::expect_take;
pub use object::{
    NewObject, ObjectCounts, ObjectError, ObjectIndex, ObjectInfo, ObjectKind, ObjectTable, Owner,
    Party, QueuedMessage, Registrant, Section, SectionTaken, Wait, Who,
};
pub use regions::{
    ClaimedSlot, LinkPlace, RegionGeometry, RegionKind, Regions, SegmentPlace, SlotClass, Taken,
};
pub use tables::Tables;
pub use tables::channels::{
    ChannelIndex, ChannelInfo, ChannelKind, ChannelType, CoreBinding, core_port_name,
};
pub use tables::connections::{ConnectionIndex, ConnectionInfo, Ends, Side};
pub use tables::core_counters::{CoreCounter, CoreCounters};
pub use tables::ends::ConnectionEnd;
pub use tables::members::{Identity, MemberIndex, MemberInfo, MemberKind, MemberStatus};
pub use tables::ports::{PortIndex, PortInfo, PortKind, PortPolicy, PortStatistics};
pub use tables::questions::Questions;

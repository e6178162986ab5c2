//! Slots, ledger, leases, recovery: who holds what, as a pure protocol over shared memory.
//!
//! One [`Control`] stands for the control file of a pool. A [`Member`] acts on it: it leases, duplicates, sends, takes and
//! releases references to slots, one journalled step at a time, so that whoever proves its death can finish the step and give
//! everything back ([`Recoverer`]). The one invariant, at every instant:
//!
//! > the count in a slot's cell = the sum of all hold records of the slot + its descriptors in queues,
//!
//! where a step begun by a member and not finished is settled by its journal (`docs/adr/`). [`audit`] checks it.
//!
//! Ports of channels that carry no payload share a cell of events instead of queues.
//!
//! Never calls the system, never waits, never touches payload, never trusts an index it read from shared memory.

mod adding_regions;
mod audit;
mod cell;
#[cfg(all(test, loom))]
mod cell_models;
mod channels;
mod connections;
mod control;
mod core_rows;
mod error;
mod geometry;
mod granules;
mod high_water;
mod holds;
mod journal;
mod ledger;
#[cfg(all(test, loom))]
mod mark_models;
mod marks;
mod members;
mod misfit;
mod oldest;
mod ports;
mod recovery;
mod regions;
#[cfg(all(test, not(loom)))]
mod scene;
mod transfer;

pub use adding_regions::{CoreRegionPlan, WireRegionPlan};
pub use audit::{Audit, Holder, HolderKind, Mismatch, audit, holders_of_slots};
pub use channels::{ChannelIndex, ChannelInfo, ChannelType, CoreBinding};
pub use connections::{ConnectionEnd, ConnectionIndex, ConnectionInfo, Ends, QueuePlan, Side};
pub use control::{Control, Residence};
pub use error::PoolError;
pub use geometry::{ClassPlan, Geometry, Term};
pub use high_water::{ClassHighWater, HighWater};
pub use hythe_queue::{EventCell, NotRaised};
pub use ledger::{Cursors, LEASES_AHEAD, LedgerSlot};
pub use members::{Identity, Member, MemberIndex, MemberInfo, MemberKind, MemberStatus};
pub use misfit::{ChannelKind, Misfit};
pub use ports::{PortIndex, PortInfo, PortKind, PortPolicy, PortStatistics, PortWishes};
pub use recovery::{Recovered, Recoverer};
pub use regions::{ClaimedSlot, LinkPlace, RegionGeometry, RegionKind, Regions, SlotClass};
pub use transfer::{SendError, Taken, expect_take};

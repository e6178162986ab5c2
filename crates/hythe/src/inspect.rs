//! The state of a pool: participants, channels, ports, and which participant holds which buffer for
//! how long.
//!
//! ```
//! use hythe::prelude::*;
//!
//! # fn main() -> Result<(), hythe::NodeError> {
//! # let pool = Pool::create_private(&PoolOptions::new("example").bytes(16 << 20))?;
//! let node = Node::join(&pool, "holder")?;
//! let _lease = node.lease(100)?;
//! let seen = pool.snapshot();
//! assert_eq!(seen.audit.free + seen.audit.held + seen.audit.queued, seen.audit.slots);
//! for buffer in seen.held_buffers() {
//!     println!("slot {} by {}", buffer.place.slot, seen.holder_name(buffer.holder));
//! }
//! # Ok(())
//! # }
//! ```

pub use hythe_node::{
    Audit, ChannelIndex, ChannelInfo, ClassHighWater, ConnectionIndex, ConnectionInfo, CoreBinding,
    Direction, HeldBuffer, HighWater, HolderKind, IncompatibleChannel, LinkPlace, MemberIndex,
    MemberInfo, MemberKind, MemberStatus, PortIndex, PortInfo, PortKind, Recovered, RegionGeometry,
    RegionKind, SegmentPlace, SlotClass, Snapshot, Term, identity_of, own_identity,
};

//! When packets leave: at the pace of the media, and never more at once than was asked for.
//!
//! [`plan`] says which packets go together, [`Pacer`] when a group goes and how well that was kept. Both are pure: they are handed
//! packets and the time, and whoever sends does the waiting.

mod pacer;
pub mod plan;

pub use pacer::{Pacer, Spacing};

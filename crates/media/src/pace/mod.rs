//! When packets leave: at the pace of the media, and never more at once than was asked for.
//!
//! A [`Schedule`] gives each packet its instant when it is built, and a [`Pacer`] says which of
//! them leave together, when that is on the system's clock, and how well it was kept. Where the
//! kernel spaces packets by their departure times, a [`Lead`] says how far ahead groups are handed
//! over. All are pure: they are handed packets and the time, and whoever sends does the waiting.
//! Instants of packets are nanoseconds since the start of the stream.

mod bucket;
mod lead;
mod pacer;
mod schedule;

pub(crate) use lead::FLOW_PACKETS_MAX;
pub use lead::{Group, Lead};
pub use pacer::{CATCH_UP, Pacer, Spacing};
pub use schedule::{Limit, Pace, Schedule};

//! Measures the carriers of a link, for the agents at its ends, and chooses between them.
//!
//! Each agent has a [`Prober`], a socket on its end of the link. One measures, the other answers:
//! short packets there and back, and bursts, by UDP alone and then with `xdp` at both ends that
//! have it, where bursts by UDP and blocks by TCP besides show what the program on the interface
//! costs all others.
//! [`choose`] decides from that, [`Schedule`] says when to measure; both know neither sockets nor
//! clocks.
//!
//! Bounded: a measurement takes [`TIME_MAX`] and [`BYTES_MAX`] at most, of which each is counted,
//! answers are never longer than what they answer, and only who knows the word that was told over
//! TLS is answered.

mod choice;
mod packet;
mod prober;
mod schedule;
mod tcp;

pub use choice::{Bulk, ByXdp, Choice, Figures, Measured, Others, choose};
pub use prober::{BYTES_MAX, NotMeasured, Prober, TIME_MAX};
pub use schedule::{Cause, Schedule};

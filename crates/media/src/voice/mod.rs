//! Thousands of telephone calls from one thread: G.711 packets of 20 ms, each call a stream of its
//! own.
//!
//! All calls have the same interval between packets, so they stand on a wheel: a turn takes 20 ms,
//! and at each of its slots one system call sends the packets of all calls there. A call stays at
//! its slot, so its packets are exactly one turn apart, however many calls there are. What is said
//! comes from memory that all calls share; only the headers are their own.
//!
//! [`Calls`] decides without doing; [`VoiceSender`] has the sockets and does the waiting.

mod calls;
mod sender;
mod wheel;

pub use calls::{CallId, CallStatistics, Calls, Prompt};
pub use sender::{VoiceSender, VoiceStatistics};

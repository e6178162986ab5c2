//! Linux system calls that rustix does not have, behind safe functions: an island of `unsafe`.
//!
//! The hop crates and `hythe doctor` call it. Each module is small and belongs to one caller:
//! [`packet`] to the media hop's count of packets, [`probe`] to the doctor, [`spawn`] to the agent of a core. Between calls nothing is
//! held but the descriptors that the returned values own. This crate never decides what an answer
//! means, never retries or logs, and is never on the way of a payload.

pub mod packet;
pub mod probe;
pub mod spawn;

//! A call whose method runs in the program. Kept by the server that took it, where it is ended if
//! the method does not return. Never answers.

use hythe::Lease;
use hythe::rpc::Call;

/// A call whose method runs: left by an exception or a longjmp(), it is dropped unanswered.
#[derive(Debug)]
pub(crate) struct Serving {
    pub(crate) call: Call,
    /// For the result.
    pub(crate) lease: Lease,
    /// How many bytes the method may write there.
    pub(crate) capacity: usize,
    /// What the method reads; empty where it reads what the caller wrote.
    #[allow(dead_code, reason = "the method has a pointer to it")]
    pub(crate) argument: Vec<u8>,
}

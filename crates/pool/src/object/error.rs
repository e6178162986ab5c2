//! What an object refuses.

/// Why an operation on an object came to nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum ObjectError {
    /// A word of the file cannot be what an operation left there.
    #[error(
        "object {object} of the pool is damaged: {what} is {found}, written by a member that does \
         not keep to the layout; unlink it, and make it anew"
    )]
    Damaged {
        /// Its number.
        object: usize,
        /// Which word.
        what: &'static str,
        /// What it holds.
        found: u32,
    },
    /// The file is none.
    #[error("the file `objects` of the pool is none of this version: {0}")]
    NotObjects(&'static str),
    /// The semaphore has its largest value.
    #[error("the semaphore has its largest value, {limit}; wait on it first")]
    Overflow {
        /// That value.
        limit: u32,
    },
    /// All objects are in use.
    #[error("all {limit} semaphores and message queues of the pool are in use; unlink some")]
    TableFull {
        /// How many there can be.
        limit: usize,
    },
    /// The object is there no more.
    #[error("the object was removed under its name")]
    Gone,
}

//! PVM's interface on Hythe's tasks: all that needs no pointers.
//!
//! Used by `bindings/pvm`, which is `libpvm3.so.3`, and by `hythe run --pvm`, which serves the
//! machine. Below is what a task has by itself: [`buffer`] (messages, packing), [`inbox`] (which
//! message is wanted), [`handlers`], [`options`], together a [`session`]; [`machine`] is what all
//! tasks share.
//!
//! PVM's manual pages and its behaviour are the specification. Never contains or derives from PVM's
//! source.

pub mod buffer;
pub mod code;
pub mod handlers;
pub mod hostfile;
pub mod inbox;
pub mod machine;
pub mod native;
mod numbers;
pub mod options;
pub mod server;
pub mod session;
pub mod tid;
mod wire;

/// For the library, whose calls no signal handler is to meet in the middle.
pub use hythe_sys::signals::SignalsBlocked;

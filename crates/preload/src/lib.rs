//! The storage hop: what a program or a boot needs from flash, recorded once and read ahead ever
//! after.
//!
//! A [`Pack`](pack::Pack) lists ranges of files in the order in which they were first needed
//! (`spec/pack.md`). Called by `hythe preload`; on a board, `preload-init` (C) reads the same packs
//! before anything else runs. Stands alone: it needs nothing of the pool.
//!
//! [`record`] finds out what is needed, [`replay`] reads it ahead, [`runs`] finds out whether that
//! helped.
//!
//! Never changes a file that it reads ahead, never believes a number in a pack before it was
//! checked, never waits without a bound.

mod cached;
mod error;
pub mod pack;
pub mod record;
pub mod replay;
pub mod runs;
pub mod sort_list;
mod whole_file;

pub use error::PreloadError;

//! The storage hop: records once which parts of files a program or a boot reads from flash, and
//! reads them ahead at each later start.
//!
//! A [`Pack`](pack::Pack) lists ranges of files in the order in which they were first needed
//! (`spec/pack.md`). `hythe preload` calls this crate. On a board, `preload-init` (C) reads the
//! same packs before any other program runs. This crate does not use the pool.
//!
//! [`record`] finds out what is needed, [`replay`] reads it ahead, and [`runs`] measures how much
//! of it was used.
//!
//! Never changes a file that it reads ahead, never uses a number of a pack before it is checked,
//! never waits without a bound.

mod cached;
mod error;
pub mod pack;
pub mod record;
pub mod replay;
pub mod runs;
pub mod sort_list;
mod whole_file;

pub use error::PreloadError;

//! The layout of all shared memory as Rust types: descriptors, the control file of a pool, the link
//! to a core.
//!
//! Every crate that reads or writes shared memory takes its offsets from here. `spec/` describes
//! the same bytes in prose. The golden vectors in `spec/vectors/` test this crate and the C library
//! against each other and against the specification.
//!
//! Never touches memory, never allocates, never calls the system: it computes numbers from numbers.

#![no_std]
#![forbid(unsafe_code)]

pub mod control;
pub mod core_services;
mod descriptor;
pub mod link;
pub mod objects;
pub mod pool;
pub mod request;
pub mod segments;
pub mod services;

pub use descriptor::{Descriptor, DescriptorMark, Generation, Place, RegionIndex};

/// Bytes kept free in front of a fresh payload, so that packet headers fit there without a copy.
pub const HEADROOM_BYTES: u32 = 256;

/// Bytes that two writers never share: a cache line on every machine we run on.
pub const LINE_BYTES: usize = 64;

/// Bytes of a page: regions, and slots from this size up, are aligned to it.
pub const PAGE_BYTES: usize = 4096;

/// Rounds `value` up to a multiple of `unit`.
///
/// # Panics
/// If `unit` is zero, or the result does not fit.
#[must_use]
pub const fn round_up(value: usize, unit: usize) -> usize {
    value.div_ceil(unit) * unit
}

//! A segment that is made, attached, written to, removed and detached: ours and the kernel's.

use hythe_node::Pool;
use hythe_rtcore::segment::{Access, Segments};

use super::super::pair::CREATE;
use crate::error::BenchError;
use crate::system_v::Segment;

/// What is written: a line of its first page.
const LINE: [u8; 64] = [1; 64];

/// In the area of the pool's core.
pub(super) fn ours(pool: &Pool) -> Result<Segments, BenchError> {
    Segments::open(pool, None).map_err(refused)
}

pub(super) fn make_ours(segments: &Segments, size: usize) -> Result<(), BenchError> {
    let made = segments.get(0, size, CREATE | 0o600).map_err(refused)?;
    let attached = segments
        .attach(made, Access::Write, None)
        .map_err(refused)?;
    attached.write(0, &LINE);
    segments.remove(made).map_err(refused)
}

/// It asks the kernel for the size as well, as `Segment` does for its own checks.
pub(super) fn make_the_kernels(size: usize) -> Result<(), BenchError> {
    Segment::create(size)?.copy_in(0, &LINE);
    Ok(())
}

fn refused(error: impl std::fmt::Display) -> BenchError {
    BenchError::Unable(error.to_string())
}

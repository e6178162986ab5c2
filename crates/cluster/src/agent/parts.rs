//! What other hosts may take of the tables of this pool.

/// One host has at most this part of a table.
pub(super) const HOST_PART: u32 = 4;
/// All together have at most this part.
pub(super) const HOSTS_PART: u32 = 2;

//! What bounds the size of a pool that is to be made.

use std::fmt;
use std::path::PathBuf;

/// What bounds the size of a pool.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum SizeBound {
    /// The free space of the file system that the pool is on.
    FileSystem,
    /// The memory of the machine that is available, less what must be left to others.
    Machine,
    /// The memory limit of a control group, less what is in use and what must be left to its
    /// processes.
    ControlGroup {
        /// Its directory.
        group: PathBuf,
        /// Its limit.
        limit_bytes: u64,
        /// What is in use and cannot be reclaimed.
        used_bytes: u64,
    },
}

impl fmt::Display for SizeBound {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::FileSystem => f.write_str("the free space of its file system"),
            Self::Machine => f.write_str("the available memory of this machine"),
            Self::ControlGroup {
                group,
                limit_bytes,
                used_bytes,
            } => write!(
                f,
                "the memory limit of control group {} ({limit_bytes} bytes, {used_bytes} in use)",
                group.display()
            ),
        }
    }
}

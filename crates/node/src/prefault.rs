//! Prefaults or locks (`mlock`) a pool's memory in a process: every page is touched, or locked.
//!
//! The control file and the slots of Linux when it joins; the region and the link of a core when
//! they are mapped. A publisher maps the region when it finds the core, a subscriber when it
//! attaches to it; who receives a core's buffer from a process maps it with the first. Called by
//! [`crate::Pool`].

use std::path::PathBuf;

use hythe_memory::Mapped;
use hythe_pool::PrefaultOptions;
use rustix::process::{Resource, getrlimit};

use crate::NodeError;

/// Does to memory what is `wanted`; `path` names its file in the error.
pub(crate) fn treat(
    memory: &Mapped,
    wanted: PrefaultOptions,
    path: impl FnOnce() -> PathBuf,
) -> Result<(), NodeError> {
    if wanted.lock {
        return memory
            .lock()
            .map_err(|source| not_locked(memory, path(), source));
    }
    if wanted.prefault {
        let _ = memory.prefault();
    }
    Ok(())
}

fn not_locked(memory: &Mapped, path: PathBuf, source: std::io::Error) -> NodeError {
    use hythe_memory::Memory;
    NodeError::NotLocked {
        path,
        bytes: memory.bytes(),
        limit_bytes: getrlimit(Resource::Memlock).current,
        source,
    }
}

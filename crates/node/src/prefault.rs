//! Prefaults or locks (`mlock`) a pool's memory in a process: every page is touched, or locked.
//!
//! The control file and the slots of Linux when it joins; the region and the link of a core when
//! they are mapped, which is at first use in such a pool. A publisher maps the region when it finds
//! the core, a subscriber when it attaches to it; who receives a core's buffer from a process maps
//! it with the first. Called by [`crate::Pool`].

use std::path::PathBuf;

use hythe_memory::{Mapped, Memory as _};
use hythe_pool::PrefaultOptions;

use crate::NodeError;
use crate::error::not_locked;

/// Does to memory what is `wanted`; `path` names its file in the error.
pub(crate) fn treat(
    memory: &Mapped,
    wanted: PrefaultOptions,
    path: impl FnOnce() -> PathBuf,
) -> Result<(), NodeError> {
    if wanted.lock {
        return memory
            .lock()
            .map_err(|source| not_locked(path(), memory.bytes(), source));
    }
    if wanted.prefault {
        let _ = memory.prefault();
    }
    Ok(())
}

//! Prefaults or locks (`mlock`) a pool's memory when a process joins it: every page is touched, or
//! locked.

use hythe_abi::RegionIndex;
use hythe_memory::Mapped;
use rustix::process::{Resource, getrlimit};

use crate::NodeError;
use crate::pool::Pool;

/// Does what the pool's maker or the opener asked for, before the node is used.
pub(crate) fn settle(pool: &Pool) -> Result<(), NodeError> {
    let (asked, wanted) = (pool.control().prefault_options(), pool.options());
    if !(asked.prefault || asked.lock || wanted.prefault || wanted.lock) {
        return Ok(());
    }
    let region = RegionIndex(0);
    let parts = [
        (pool.control().memory(), pool.path().join("control")),
        (pool.map(region)?, pool.region_path(region)),
    ];
    for (memory, path) in parts {
        if asked.lock || wanted.lock {
            memory
                .lock()
                .map_err(|source| not_locked(memory, path, source))?;
        } else {
            let _ = memory.prefault();
        }
    }
    Ok(())
}

fn not_locked(memory: &Mapped, path: std::path::PathBuf, source: std::io::Error) -> NodeError {
    use hythe_memory::Memory;
    NodeError::NotLocked {
        path,
        bytes: memory.bytes(),
        limit_bytes: getrlimit(Resource::Memlock).current,
        source,
    }
}

//! The objects of a pool, to be looked at. Takes no lock, and needs no participant.

use hythe_pool::{ObjectCounts, ObjectError, ObjectIndex, ObjectInfo, ObjectKind, ObjectTable};

use super::SyncError;
use crate::Pool;

/// A semaphore or message queue, as it is at this moment.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct ObjectStatus {
    /// Its name, with the slash.
    pub name: String,
    /// Is it a message queue, and no semaphore?
    pub is_queue: bool,
    /// It has no name any more, and goes when nobody has it open.
    pub is_unlinked: bool,
    /// Who may use it, as of a file.
    pub mode: u32,
    /// What it counts.
    pub counts: ObjectCounts,
}

/// All semaphores and message queues of a pool.
///
/// # Errors
/// A damaged file; no right to use it.
pub fn list(pool: &Pool) -> Result<Vec<ObjectStatus>, SyncError> {
    let Some(table) = pool.objects(false)? else {
        return Ok(Vec::new());
    };
    let mut found = Vec::new();
    for index in ObjectTable::<hythe_memory::Mapped>::indices() {
        match table.info(index) {
            Ok(info) => found.push(status(table, index, &info)),
            Err(ObjectError::Gone) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(found)
}

fn status(
    table: &ObjectTable<hythe_memory::Mapped>,
    index: ObjectIndex,
    info: &ObjectInfo,
) -> ObjectStatus {
    ObjectStatus {
        name: format!("/{}", table.name(index)),
        is_queue: info.kind == ObjectKind::MessageQueue,
        is_unlinked: table.state(index) == hythe_abi::objects::state::UNLINKED,
        mode: info.mode,
        counts: table.counts(index),
    }
}

//! Brings a table in line with the kernel's segments: what the kernel has let go is free, and what
//! a maker died over is undone.
//!
//! Called under the lock, at the begin of each operation that may write. A record that is *being
//! made* then has a dead maker: a living one has the lock itself.

use std::path::Path;

use hythe_node::{identity_of, own_identity};
use hythe_sys::system_v::{self, PRIVATE, Status};
use rustix::io::Errno;

use super::SegmentError;
use super::lock::Locked;
use super::table::{Process, Record, State, Table};

/// Frees the records of segments that are gone.
pub(super) fn reconcile(
    table: &mut Table,
    locked: &Locked,
    path: &Path,
) -> Result<(), SegmentError> {
    let used: Vec<(usize, Record)> = table
        .used()
        .map(|(index, record)| (index, record.clone()))
        .collect();
    for (index, record) in used {
        let is_gone = match record.state {
            State::Ready => is_gone(&record),
            State::Making => undo(&record, table),
        };
        if is_gone {
            table.write(&locked.file, path, index, None)?;
        }
    }
    Ok(())
}

/// Has the kernel let it go, and no core has it?
fn is_gone(record: &Record) -> bool {
    let is_kept = match system_v::status(record.id) {
        Ok(status) => is_of(&status, record),
        // It is there, and another user's. What the kernel does not tell changes nothing.
        Err(error) => !matches!(
            Errno::from_io_error(&error),
            Some(Errno::INVAL | Errno::IDRM)
        ),
    };
    !is_kept && !is_attached_by_core(record)
}

/// Has a core it attached, that lives? What cannot be known of one in another PID namespace is
/// known by its next agent.
pub(super) fn is_attached_by_core(record: &Record) -> bool {
    let is_known = record.core_namespace == own_identity().pid_namespace;
    record.core_attached != 0 && (!is_known || lives(record.core))
}

/// Is it that segment, and not another that got its id later?
pub(super) fn is_of(status: &Status, record: &Record) -> bool {
    status.bytes == record.bytes && (status.is_removed || status.key == record.key)
}

/// Removes the kernel's segment, if the maker got that far. False: that is not possible yet.
fn undo(record: &Record, table: &Table) -> bool {
    let is_same_namespace = own_identity().pid_namespace == record.pid_namespace;
    let is_its = |id: i32, status: &Status| {
        let is_of_maker = !is_same_namespace || status.creator.unsigned_abs() == record.creator.pid;
        let is_new = status.changed.unsigned_abs() >= record.begun && status.attached == 0;
        let is_known = table.ready().any(|other| other.id == id);
        is_of(status, record) && !status.is_removed && is_of_maker && is_new && !is_known
    };
    if record.key != PRIVATE {
        return match system_v::open(record.key, 0, 0) {
            Err(error) => Errno::from_io_error(&error) == Some(Errno::NOENT),
            Ok(id) => match system_v::status(id) {
                // Another's of that key, made later, is let be.
                Ok(status) => !is_its(id, &status) || system_v::remove(id).is_ok(),
                Err(_) => false,
            },
        };
    }
    // Of a maker in another PID namespace nothing tells which one it was.
    if is_same_namespace {
        for (id, status) in system_v::list() {
            if is_its(id, &status) {
                // Not permitted: it costs its maker's user an id, and no memory.
                let _ = system_v::remove(id);
            }
        }
    }
    true
}

/// Does that very process live?
fn lives(process: Process) -> bool {
    identity_of(process.pid).is_some_and(|found| found.start_time == process.start_time)
}

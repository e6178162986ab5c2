//! What a core does with segments, done for it by its agent.
//!
//! For each attachment of the core the agent attaches the kernel's segment, its *shadow*: so the
//! kernel counts the core, too, and keeps the segment for it. Beside that the table says how many
//! times the core has the segment attached, and which core. That is what counts when the agent has
//! died, and its shadows with it, while the core goes on: its pages stay its own until it has
//! ended. So a shadow is given up only when the core has let go of the pages, or is dead.
//!
//! Called by the agent's services, and when a life of its core begins or is over. Never believes a
//! number of the core, and never asks it anything.

use hythe_memory::Access;
use hythe_node::own_identity;
use hythe_pool::Identity;
use hythe_sys::system_v::{self, Attachment, Status};

use super::error::system;
use super::listing::{SegmentInfo, info};
use super::making::area_of;
use super::reconcile::reconcile;
use super::table::{Process, Record, State, Table};
use super::{SegmentError, Segments, Wish, is_there};

/// Most attachments of one core at a time. Each is a mapping of its agent, and the kernel has a
/// limit of those; no program has every segment attached more often than twice.
const ATTACHMENTS_MAX: usize = 256;

/// A core, as the table knows it.
#[derive(Clone, Debug)]
pub(crate) struct CoreUser {
    name: String,
    process: Process,
}

impl CoreUser {
    pub(crate) fn new(name: &str, identity: Identity) -> Self {
        Self {
            name: name.to_owned(),
            process: Process {
                pid: identity.pid,
                start_time: identity.start_time,
            },
        }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

/// A segment that a core has attached.
#[derive(Debug)]
pub(crate) struct CoreAttachment {
    pub(crate) id: i32,
    pub(crate) first_page: u64,
    pub(crate) bytes: usize,
    shadow: Attachment,
}

impl Segments {
    /// As [`Segments::get`], for a core: what is made is made by it.
    pub(crate) fn get_for(
        &self,
        core: &CoreUser,
        (key, bytes, flags): (i32, usize, i32),
    ) -> Result<i32, SegmentError> {
        let core = Some(core.name.as_str());
        self.find_or_make(Wish {
            key,
            bytes,
            flags,
            core,
        })
    }

    /// Attaches a segment for a core that has `attached` others.
    pub(crate) fn attach_for(
        &self,
        core: &CoreUser,
        attached: usize,
        (id, access): (i32, Access),
    ) -> Result<CoreAttachment, SegmentError> {
        let board = &self.boards[0];
        if attached >= ATTACHMENTS_MAX {
            return Err(SegmentError::TooManyAttached {
                limit: ATTACHMENTS_MAX,
                board: board.name.clone(),
            });
        }
        let path = self.table_path(board);
        self.with_table(board, |table, locked| {
            let (index, mut record) = find_id(table, id).ok_or(SegmentError::NoSuchId { id })?;
            let end = record.pages.first.checked_add(record.pages.count);
            if end.is_none_or(|end| end > area_of(board).count) {
                return Err(self.bad_table(board, format!("segment {id} leaves the area")));
            }
            let flags = match access {
                Access::Read => system_v::READ_ONLY,
                Access::Write => 0,
            };
            let shadow = Attachment::new(id, flags)
                .map_err(system(format!("attaching segment {id} for a core (shmat)")))?;
            if record.core != core.process {
                record.core_attached = 0;
            }
            record.core = core.process;
            record.core_namespace = own_identity().pid_namespace;
            record.core_attached = record.core_attached.saturating_add(1);
            let found = CoreAttachment {
                id,
                first_page: record.pages.first,
                bytes: record.bytes,
                shadow,
            };
            table.write(&locked.file, &path, index, Some(record))?;
            Ok(found)
        })
    }

    /// Gives up an attachment that its core has let go. On error it stays.
    pub(crate) fn detach_for(
        &self,
        core: &CoreUser,
        attachment: CoreAttachment,
    ) -> Result<(), (CoreAttachment, SegmentError)> {
        let board = &self.boards[0];
        let path = self.table_path(board);
        let mut kept = Some(attachment);
        let done = self.with_table(board, |table, locked| {
            let id = kept.take().map_or(-1, |CoreAttachment { id, shadow, .. }| {
                drop(shadow);
                id
            });
            let mine = table.find(|record| record.id == id && record.core == core.process);
            if let Some((index, mut record)) = mine {
                record.core_attached = record.core_attached.saturating_sub(1);
                table.write(&locked.file, &path, index, Some(record))?;
            }
            // It may have been the last attachment of a segment that was removed.
            reconcile(table, locked, &path)
        });
        match (done, kept) {
            (Err(error), Some(attachment)) => Err((attachment, error)),
            // The shadow is gone: what the table says is put right when the core's life is over.
            _ => Ok(()),
        }
    }

    /// What the kernel says of a segment, and what the table does.
    pub(crate) fn status_for(&self, id: i32) -> Result<(Status, SegmentInfo), SegmentError> {
        let found = self.look_up(id)?;
        let (_, record, _locked) = found.ok_or(SegmentError::NoSuchId { id })?;
        let looking = format!("looking at segment {id} (shmctl)");
        let status = system_v::status(id).map_err(system(looking))?;
        Ok((status, info(&record)))
    }

    /// No core has anything of this area attached: the one that had it is dead, or none has begun.
    pub(crate) fn detach_all(&self) -> Result<(), SegmentError> {
        let board = &self.boards[0];
        let path = self.table_path(board);
        self.with_table(board, |table, locked| {
            while let Some((index, mut record)) = table.find(|record| record.core_attached > 0) {
                record.core_attached = 0;
                table.write(&locked.file, &path, index, Some(record))?;
            }
            reconcile(table, locked, &path)
        })
    }
}

fn find_id(table: &Table, id: i32) -> Option<(usize, Record)> {
    table.find(|record| record.id == id && record.state == State::Ready && is_there(record))
}

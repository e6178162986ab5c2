//! What there is to see of segments: for `hythe core segments`.

use hythe_abi::segments::PAGE_BYTES;
use hythe_sys::system_v::{self, Status};

use super::making::area_of;
use super::table::{Record, Table};
use super::{Board, SegmentError, Segments};

/// The segments of one core.
#[derive(Clone, Debug)]
pub struct BoardSegments {
    /// The core's name.
    pub board: String,
    /// Size of its area.
    pub area_bytes: u64,
    /// Bytes of it that no segment has.
    pub free_bytes: u64,
    /// The largest piece of those.
    pub largest_free_bytes: u64,
    /// In the order in which they were made.
    pub segments: Vec<SegmentInfo>,
}

/// A segment that a core sees.
#[derive(Clone, Debug)]
pub struct SegmentInfo {
    /// Its key; 0: none.
    pub key: i32,
    /// Its id.
    pub id: i32,
    /// Was it made by the core?
    pub is_made_on_core: bool,
    /// Its size.
    pub bytes: usize,
    /// First page in the area.
    pub page: u64,
    /// How many times the core has it attached.
    pub attached_core: u64,
    /// When, in seconds since 1970.
    pub created: u64,
    /// Who made it: name and process.
    pub creator: (String, u32),
    /// What the kernel says; `None`: it is another user's, and not to be read.
    pub status: Option<Status>,
    /// The order of creation.
    pub order: u64,
}

impl Segments {
    /// All segments. Those whose last attachment has gone are freed first, where this process may.
    ///
    /// # Errors
    /// [`SegmentError::Busy`], or a table that cannot be read.
    pub fn list(&self) -> Result<Vec<BoardSegments>, SegmentError> {
        let boards = self.boards.iter();
        boards
            .map(|board| {
                let shown = self.with_table(board, |table, _| Ok(shown(board, table)));
                match shown {
                    Err(SegmentError::Pool(_)) => {
                        let (table, _locked) = self.read(board)?;
                        Ok(self::shown(board, &table))
                    }
                    shown => shown,
                }
            })
            .collect()
    }

    /// What the kernel says of a segment, as by `IPC_STAT` of shmctl(2).
    ///
    /// # Errors
    /// [`SegmentError::NoSuchId`]; `EACCES` of the kernel.
    pub fn status(&self, id: i32) -> Result<Status, SegmentError> {
        if !self.knows(id)? {
            return Err(SegmentError::NoSuchId { id });
        }
        let looking = format!("looking at segment {id} (shmctl)");
        system_v::status(id).map_err(super::error::system(looking))
    }
}

fn shown(board: &Board, table: &Table) -> BoardSegments {
    let free = area_of(board).free(&table.taken());
    let bytes = || free.iter().map(|run| run.count * PAGE_BYTES as u64);
    let mut records: Vec<&Record> = table
        .ready()
        .filter(|record| super::is_there(record))
        .collect();
    records.sort_by_key(|record| record.order);
    BoardSegments {
        board: board.name.clone(),
        area_bytes: board.place.bytes,
        free_bytes: bytes().sum(),
        largest_free_bytes: bytes().max().unwrap_or(0),
        segments: records.into_iter().map(info).collect(),
    }
}

pub(super) fn info(record: &Record) -> SegmentInfo {
    SegmentInfo {
        key: record.key,
        id: record.id,
        is_made_on_core: record.is_made_on_core,
        bytes: record.bytes,
        page: record.pages.first,
        attached_core: match super::reconcile::is_attached_by_core(record) {
            true => record.core_attached.into(),
            false => 0,
        },
        created: record.begun,
        creator: (record.creator_name.clone(), record.creator.pid),
        status: system_v::status(record.id).ok(),
        order: record.order,
    }
}

//! Segments: bytes by address that processes and a core see, as in System V shared memory.
//!
//! Each has a segment of the kernel beside it, of the same key, size and mode, whose pages nobody
//! touches. The kernel's is the record of who may use it, who attached it and whether it was
//! removed, so that `fork`, `exec` and death count as they do for any segment; the bytes stand in
//! the area of a core's region, at the pages that the table `segments.N` names
//! (`spec/segments.md`, ADR 0033). Called by applications through the facade, by the C functions of
//! the same names as the system's, and by `hythe core segments`. Between calls no lock is held and
//! nothing is kept but what is attached. No participant of the pool is needed for it.
//!
//! Never looks at a segment's bytes, but for zeroing a new one; never waits longer than for one
//! other operation on the table.

mod area;
mod by_core;
mod error;
mod listing;
mod lock;
mod making;
mod on_core;
#[doc(hidden)]
pub mod process;
mod reconcile;
mod table;

use std::os::fd::OwnedFd;
use std::path::PathBuf;

use hythe_abi::RegionIndex;
use hythe_abi::segments::PAGE_BYTES;
pub use hythe_memory::Access;
use hythe_memory::Placed;
use hythe_node::hop::{HopPool as _, PoolFiles};
use hythe_node::{NodeError, Pool, SegmentPlace};
use hythe_sys::system_v::{self, Attachment};
use rustix::io::Errno;
use rustix::param::page_size;

pub(crate) use by_core::{CoreAttachment, CoreUser};
pub use error::SegmentError;
use error::system;
pub use listing::{BoardSegments, SegmentInfo};
use lock::{Locked, Purpose};
#[doc(hidden)]
pub use making::call_at_each_step;
use reconcile::{is_of, reconcile};
use table::{Record, Table};

/// The segments of a pool's cores, or of one.
#[derive(Clone, Debug)]
pub struct Segments {
    files: PoolFiles,
    boards: Vec<Board>,
}

/// A core with an area of segments.
#[derive(Clone, Debug)]
struct Board {
    name: String,
    region: RegionIndex,
    place: SegmentPlace,
}

/// What shmget(2) is told.
#[derive(Clone, Copy, Debug)]
struct Wish<'a> {
    key: i32,
    bytes: usize,
    flags: i32,
    /// The core that asks; `None`: this process does.
    core: Option<&'a str>,
}

impl Segments {
    /// The segments of all cores of the pool that have an area for them, or of the named core. A
    /// core's area is there from its first start on, and stays.
    ///
    /// Keeps neither descriptor nor mapping of the pool.
    ///
    /// # Errors
    /// [`SegmentError::NoArea`].
    pub fn open(pool: &Pool, board: Option<&str>) -> Result<Self, SegmentError> {
        let regions = pool.regions().iter().filter_map(|region| {
            Some(Board {
                name: region.name.clone(),
                region: region.index,
                place: region.segments?,
            })
        });
        let boards: Vec<Board> = regions
            .filter(|found| board.is_none_or(|board| board == found.name))
            .collect();
        if boards.is_empty() {
            return Err(SegmentError::NoArea {
                pool: pool.options().name().to_owned(),
                board: board.map(str::to_owned),
            });
        }
        Ok(Self {
            files: pool.files()?,
            boards,
        })
    }

    /// The id of the segment with this key, which is made by `IPC_CREAT` in `flags` if there is
    /// none, as in shmget(2). A new one is zeroed, and stands in the area of the first core.
    ///
    /// # Errors
    /// As shmget(2); [`SegmentError::errno`] has the number.
    pub fn get(&self, key: i32, bytes: usize, flags: i32) -> Result<i32, SegmentError> {
        let core = None;
        self.find_or_make(Wish {
            key,
            bytes,
            flags,
            core,
        })
    }

    /// As [`Segments::get`], but a new one is made by the first core: its program is asked, and may
    /// refuse. It belongs to the user that the core's agent runs as. The core is waited for, 5 s at
    /// most, and the calling process takes part in the pool meanwhile.
    ///
    /// # Errors
    /// As [`Segments::get`]; [`SegmentError::CoreRefused`], [`SegmentError::CoreUnasked`].
    pub fn get_on_core(&self, key: i32, bytes: usize, flags: i32) -> Result<i32, SegmentError> {
        let core = None;
        let wish = Wish {
            key,
            bytes,
            flags,
            core,
        };
        match self.find_made(wish)? {
            Some(found) => Ok(found),
            None => on_core::make(self, wish),
        }
    }

    /// The one that there is; `None`: it is to be made.
    fn find_made(&self, wish: Wish<'_>) -> Result<Option<i32>, SegmentError> {
        let Wish { key, flags, .. } = wish;
        if key == system_v::PRIVATE {
            return Ok(None);
        }
        for board in &self.boards {
            let (table, _locked) = self.read(board)?;
            if let Some(found) = find(&table, wish)? {
                return Ok(Some(found));
            }
        }
        if flags & system_v::CREATE == 0 {
            return Err(SegmentError::NoSuchKey { key });
        }
        Ok(None)
    }

    fn find_or_make(&self, wish: Wish<'_>) -> Result<i32, SegmentError> {
        if let Some(found) = self.find_made(wish)? {
            return Ok(found);
        }
        // `open` has refused a pool without any.
        let board = &self.boards[0];
        self.with_table(board, |table, locked| {
            // Another may have been quicker.
            if let Some(found) = find(table, wish)? {
                return Ok(found);
            }
            making::make(self, board, (table, locked), wish)
        })
    }

    /// Is it the id of a segment that a core sees?
    ///
    /// # Errors
    /// [`SegmentError::Busy`], or a table that cannot be read.
    pub fn knows(&self, id: i32) -> Result<bool, SegmentError> {
        Ok(self.look_up(id)?.is_some())
    }

    /// Attaches a segment where there is space for it, or at the start of a page, as in shmat(2).
    ///
    /// # Errors
    /// [`SegmentError::NoSuchId`], [`SegmentError::BadAddress`], what the kernel says of
    /// permissions.
    pub fn attach(
        &self,
        id: i32,
        access: Access,
        at: Option<usize>,
    ) -> Result<Attached, SegmentError> {
        let no_such = || SegmentError::NoSuchId { id };
        let (board, record, locked) = self.look_up(id)?.ok_or_else(no_such)?;
        if let Some(address) = at.filter(|at| !at.is_multiple_of(page_size()) || *at == 0) {
            let reason = "it is not the start of a page";
            return Err(SegmentError::BadAddress { address, reason });
        }
        let is_read_only = access == Access::Read;
        let flags = if is_read_only { system_v::READ_ONLY } else { 0 };
        let counted = Attachment::new(id, flags)
            .map_err(system(format!("attaching segment {id} (shmat)")))?;
        // From now on the kernel keeps it: its pages stay its own.
        drop(locked);
        let is_still = system_v::status(id).map_or(true, |status| is_of(&status, &record));
        if !is_still {
            return Err(no_such());
        }
        let (file, file_bytes) = self.area_file(board, !is_read_only)?;
        let offset = board.place.offset + record.pages.first * PAGE_BYTES as u64;
        let mapped_bytes = record.bytes.next_multiple_of(page_size());
        let end = offset.saturating_add(mapped_bytes as u64);
        if end > file_bytes || end > board.place.offset + board.place.bytes {
            return Err(self.bad_table(board, format!("segment {id} leaves the area")));
        }
        let mapped = Placed::new(&file, (offset, mapped_bytes), access, at);
        let mapped = mapped.map_err(|error| match (at, Errno::from_io_error(&error)) {
            (Some(address), Some(Errno::EXIST)) => SegmentError::BadAddress {
                address,
                reason: "something is mapped there",
            },
            _ => system(format!("mapping segment {id}"))(error),
        })?;
        Ok(Attached {
            mapped,
            _counted: counted,
            id,
            bytes: record.bytes,
        })
    }

    /// Removes a segment: it goes with its last attachment, as by `IPC_RMID` of shmctl(2).
    ///
    /// # Errors
    /// [`SegmentError::NoSuchId`]; `EPERM` of the kernel for another user's.
    pub fn remove(&self, id: i32) -> Result<(), SegmentError> {
        let Some((board, _, locked)) = self.look_up(id)? else {
            return Err(SegmentError::NoSuchId { id });
        };
        let removed = system_v::remove(id);
        drop(locked);
        removed.map_err(system(format!("removing segment {id} (shmctl)")))?;
        // Its pages are free at once where nobody has it attached. Who may not write the table
        // leaves that to the next operation.
        let _ = self.with_table(board, |_, _| Ok(()));
        Ok(())
    }

    /// Changes owner, group and mode of a segment, as by `IPC_SET` of shmctl(2).
    ///
    /// # Errors
    /// [`SegmentError::NoSuchId`]; `EPERM` of the kernel for another user's.
    pub fn change(&self, id: i32, user: u32, group: u32, mode: u32) -> Result<(), SegmentError> {
        let Some((_, _, _locked)) = self.look_up(id)? else {
            return Err(SegmentError::NoSuchId { id });
        };
        let changed = system_v::change(id, user, group, mode);
        changed.map_err(system(format!("changing segment {id} (shmctl)")))
    }

    /// The segment of that id: its core, its record, and the lock, so that it stays as it is.
    fn look_up(&self, id: i32) -> Result<Option<(&Board, Record, Locked)>, SegmentError> {
        for board in &self.boards {
            let (table, locked) = self.read(board)?;
            let found = table.ready().find(|record| record.id == id);
            if let Some(record) = found.filter(|record| is_there(record)) {
                return Ok(Some((board, record.clone(), locked)));
            }
        }
        Ok(None)
    }

    /// The table as it is, beside others that read it.
    fn read(&self, board: &Board) -> Result<(Table, Locked), SegmentError> {
        let path = self.table_path(board);
        let open = || self.table_file(board, false);
        let locked = lock::lock(open, Purpose::Read, &board.name)?;
        let table = Table::read(&locked.file, &path)?;
        check_namespace(&table, board)?;
        Ok((table, locked))
    }

    /// Does something with the table alone, after it was brought in line with the kernel.
    fn with_table<T>(
        &self,
        board: &Board,
        act: impl FnOnce(&mut Table, &Locked) -> Result<T, SegmentError>,
    ) -> Result<T, SegmentError> {
        let path = self.table_path(board);
        let open = || self.table_file(board, true);
        let locked = lock::lock(open, Purpose::Write, &board.name)?;
        let mut table = Table::read(&locked.file, &path)?;
        check_namespace(&table, board)?;
        reconcile(&mut table, &locked, &path)?;
        act(&mut table, &locked)
    }

    fn table_file(&self, board: &Board, writable: bool) -> Result<OwnedFd, SegmentError> {
        let name = format!("segments.{}", board.region.0);
        Ok(self.files.open(&name, writable)?.0)
    }

    fn table_path(&self, board: &Board) -> PathBuf {
        let name = format!("segments.{}", board.region.0);
        self.files.options().path().join(name)
    }

    fn area_file(&self, board: &Board, writable: bool) -> Result<(OwnedFd, u64), NodeError> {
        let name = format!("region.{}", board.region.0);
        self.files.open(&name, writable)
    }

    fn bad_table(&self, board: &Board, reason: String) -> SegmentError {
        SegmentError::BadTable {
            path: self.table_path(board),
            reason,
        }
    }
}

/// The segment of that key, if a core sees it. Permissions and sizes are the kernel's to judge.
fn find(table: &Table, wish: Wish<'_>) -> Result<Option<i32>, SegmentError> {
    let Wish {
        key, bytes, flags, ..
    } = wish;
    // One that was removed and is attached still has no key any more.
    let is_asked = |record: &&Record| {
        let is_named = key != system_v::PRIVATE && record.key == key;
        is_named && is_there(record) && !is_removed(record)
    };
    let Some(record) = table.ready().find(is_asked) else {
        return Ok(None);
    };
    let is_exclusive = flags & system_v::CREATE != 0 && flags & system_v::EXCLUSIVE != 0;
    if is_exclusive {
        return Err(SegmentError::Exists { key });
    }
    // Without `IPC_CREAT`: it would make a plain one, were this one removed meanwhile.
    match system_v::open(key, bytes, flags & 0o777) {
        Ok(id) if id == record.id => Ok(Some(id)),
        // It was removed, and a plain one has its key.
        Ok(id) => Err(SegmentError::PlainKey { key, id }),
        Err(error) => match Errno::from_io_error(&error) {
            Some(Errno::NOENT) => Ok(None),
            _ => Err(system(format!(
                "opening the segment of key {key:#010x} (shmget)"
            ))(error)),
        },
    }
}

/// Does the kernel still have it? Who only reads the table meets records that nobody has freed yet.
fn is_there(record: &Record) -> bool {
    match system_v::status(record.id) {
        Ok(status) => is_of(&status, record),
        Err(error) => Errno::from_io_error(&error) == Some(Errno::ACCESS),
    }
}

fn is_removed(record: &Record) -> bool {
    system_v::status(record.id).is_ok_and(|status| status.is_removed)
}

/// Ids mean something in one IPC namespace only: in another every segment would look gone.
fn check_namespace(table: &Table, board: &Board) -> Result<(), SegmentError> {
    let own = system_v::namespace();
    if table.namespace == 0 || table.namespace == own || table.used().next().is_none() {
        return Ok(());
    }
    Err(SegmentError::OtherNamespace {
        board: board.name.clone(),
        theirs: table.namespace,
        own,
    })
}

/// A segment in this process, until this value goes. A forked child has it, too.
#[derive(Debug)]
pub struct Attached {
    /// Unmapped before the kernel hears of it: until then its pages are nobody else's.
    mapped: Placed,
    _counted: Attachment,
    id: i32,
    bytes: usize,
}

impl Attached {
    /// Its first byte. Others write whenever they like: what is read may change any time, and no
    /// reference may be made to it.
    #[must_use]
    pub fn as_ptr(&self) -> *mut u8 {
        self.mapped.as_ptr()
    }

    /// The number of that byte's address.
    #[must_use]
    pub fn address(&self) -> usize {
        self.mapped.address()
    }

    /// Copies bytes out. Who writes meanwhile can tear them.
    ///
    /// # Panics
    /// If the range is not inside the segment's pages.
    pub fn read(&self, at: usize, into: &mut [u8]) {
        self.mapped.read(at, into);
    }

    /// Copies bytes in.
    ///
    /// # Panics
    /// If the range is not inside the segment's pages, or it was attached for reading only.
    pub fn write(&self, at: usize, from: &[u8]) {
        self.mapped.write(at, from);
    }

    /// How many bytes it has. Those up to the end of the page belong to it, too.
    #[must_use]
    pub const fn len(&self) -> usize {
        self.bytes
    }

    /// Never: a segment has a byte.
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.bytes == 0
    }

    /// Was it attached for reading only?
    #[must_use]
    pub fn is_read_only(&self) -> bool {
        self.mapped.access() == Access::Read
    }

    /// Its id.
    #[must_use]
    pub const fn id(&self) -> i32 {
        self.id
    }
}

//! Making a segment: its pages, its record, and the kernel's segment beside it.
//!
//! In this order, so that a death between any two steps leaves what `reconcile` undoes: record
//! (being made), zeroes, kernel's segment, record (ready).

use std::os::fd::AsFd;
use std::sync::OnceLock;
use std::time::{SystemTime, UNIX_EPOCH};

use hythe_abi::segments::{PAGE_BYTES, SEGMENTS_MAX};
use hythe_node::own_identity;
use hythe_sys::system_v::{self, CREATE, EXCLUSIVE, NO_RESERVE};
use rustix::io::{Errno, pwrite, retry_on_intr};
use rustix::param::page_size;

use super::area::{Area, Pages};
use super::error::system;
use super::lock::Locked;
use super::table::{Process, Record, State, Table};
use super::{Board, SegmentError, Segments, Wish};

/// Zeroes are written in pieces of so many bytes.
static ZEROES: [u8; 65536] = [0; 65536];

static AT_EACH_STEP: OnceLock<fn()> = OnceLock::new();

/// Has a function called behind every step of making a segment in this process. For the kill sweep:
/// it may end the process. Once set it stays.
pub fn call_at_each_step(hook: fn()) {
    // A second one would number the same steps twice: the first stays.
    let _ = AT_EACH_STEP.set(hook);
}

fn step_done() {
    if let Some(hook) = AT_EACH_STEP.get() {
        hook();
    }
}

/// Makes one; its id.
pub(super) fn make(
    segments: &Segments,
    board: &Board,
    (table, locked): (&mut Table, &Locked),
    wish: Wish<'_>,
) -> Result<i32, SegmentError> {
    let path = segments.table_path(board);
    let Wish {
        key, bytes, flags, ..
    } = wish;
    let (index, mut record) = plan(board, table, wish)?;
    table.next_order = record.order + 1;
    table.namespace = system_v::namespace();
    table.write_header(&locked.file, &path)?;
    step_done();
    table.write(&locked.file, &path, index, Some(record.clone()))?;
    step_done();
    let made = zero(segments, board, record.pages).and_then(|()| {
        step_done();
        let rights = flags & 0o777 | CREATE | EXCLUSIVE | NO_RESERVE;
        system_v::open(key, bytes, rights).map_err(|error| refused(key, error))
    });
    step_done();
    match made {
        Ok(id) => {
            record.id = id;
            record.state = State::Ready;
            table.write(&locked.file, &path, index, Some(record))?;
            step_done();
            Ok(id)
        }
        Err(error) => {
            table.write(&locked.file, &path, index, None)?;
            Err(error)
        }
    }
}

/// A free record and free pages for it.
fn plan(
    board: &Board,
    table: &Table,
    Wish {
        key, bytes, core, ..
    }: Wish<'_>,
) -> Result<(usize, Record), SegmentError> {
    let page = PAGE_BYTES as u64;
    if bytes == 0 || bytes as u64 > board.place.bytes {
        return Err(SegmentError::BadSize {
            asked: bytes,
            area: board.place.bytes,
            board: board.name.clone(),
        });
    }
    let index = table.records.iter().position(Option::is_none);
    let index = index.ok_or_else(|| SegmentError::TooMany {
        limit: SEGMENTS_MAX,
        board: board.name.clone(),
    })?;
    let (area, taken) = (area_of(board), table.taken());
    let pages = area.place(&taken, (bytes as u64).div_ceil(page));
    let pages = pages.ok_or_else(|| {
        let free = area.free(&taken);
        let counts = || free.iter().map(|run| run.count * page);
        SegmentError::Full {
            asked: bytes,
            free: counts().sum(),
            largest: counts().max().unwrap_or(0),
            board: board.name.clone(),
        }
    })?;
    let own = own_identity();
    let now = SystemTime::now().duration_since(UNIX_EPOCH);
    let record = Record {
        state: State::Making,
        id: -1,
        key,
        pages,
        is_made_on_core: core.is_some(),
        bytes,
        order: table.next_order,
        creator: Process {
            pid: own.pid,
            start_time: own.start_time,
        },
        creator_name: core.map_or_else(own_name, str::to_owned),
        pid_namespace: own.pid_namespace,
        begun: now.map_or(0, |since| since.as_secs()),
        core_attached: 0,
        core: Process::default(),
        core_namespace: 0,
    };
    Ok((index, record))
}

pub(super) fn area_of(board: &Board) -> Area {
    let page = PAGE_BYTES as u64;
    Area {
        origin: board.place.offset / page,
        count: board.place.bytes / page,
        unit: page_size() as u64 / page,
    }
}

fn zero(segments: &Segments, board: &Board, pages: Pages) -> Result<(), SegmentError> {
    let (file, _) = segments.area_file(board, true)?;
    let mut at = board.place.offset + pages.first * PAGE_BYTES as u64;
    let end = at + pages.count * PAGE_BYTES as u64;
    while at < end {
        let piece = (end - at).min(ZEROES.len() as u64) as usize;
        let written = retry_on_intr(|| pwrite(file.as_fd(), &ZEROES[..piece], at));
        match written.map_err(|error| system("zeroing a segment")(error.into()))? {
            0 => return Err(segments.bad_table(board, "its area has no space".to_owned())),
            written => at += written as u64,
        }
    }
    Ok(())
}

/// A segment of that key that is in no table was made by a program that does not know of cores.
fn refused(key: i32, error: std::io::Error) -> SegmentError {
    if Errno::from_io_error(&error) == Some(Errno::EXIST) {
        let id = system_v::open(key, 0, 0).unwrap_or(-1);
        return SegmentError::PlainKey { key, id };
    }
    system("making the kernel's segment (shmget)")(error)
}

/// As `ps` shows it.
fn own_name() -> String {
    let name = std::fs::read_to_string("/proc/self/comm").unwrap_or_default();
    name.trim_end().to_owned()
}

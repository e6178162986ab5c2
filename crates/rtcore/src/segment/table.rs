//! The table of a core's segments, `segments.N` (`spec/segments.md`): read and written as a file,
//! under its lock. A record is written by one call inside a page, so no death leaves half of one.

use std::os::fd::{AsFd, BorrowedFd};
use std::path::Path;

use hythe_abi::segments::{
    FILE_BYTES, HEADER_BYTES, MAGIC, RECORD_BYTES, SEGMENTS_MAX, VERSION, header, record,
};
use rustix::io::{pread, pwrite, retry_on_intr};

use super::SegmentError;
use super::area::Pages;
use super::error::system;

/// What became of a segment so far.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum State {
    /// Its maker works on it, or has died over it.
    Making,
    /// It is there.
    Ready,
}

/// A segment in the table.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Record {
    pub(super) state: State,
    pub(super) id: i32,
    pub(super) key: i32,
    pub(super) pages: Pages,
    pub(super) is_made_on_core: bool,
    pub(super) bytes: usize,
    pub(super) order: u64,
    pub(super) creator: Process,
    pub(super) creator_name: String,
    pub(super) pid_namespace: u64,
    /// Seconds since 1970.
    pub(super) begun: u64,
    /// How many times the core has it attached.
    pub(super) core_attached: u32,
    /// Which core.
    pub(super) core: Process,
    /// Inode of its PID namespace.
    pub(super) core_namespace: u64,
}

/// A process, as far as two of one PID namespace are told apart.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Process {
    pub(super) pid: u32,
    pub(super) start_time: u64,
}

/// A table as it was read.
#[derive(Debug)]
pub(super) struct Table {
    /// The order of the next segment.
    pub(super) next_order: u64,
    /// The IPC namespace whose segments these are; 0: of none yet.
    pub(super) namespace: u64,
    pub(super) records: Vec<Option<Record>>,
}

impl Table {
    /// Reads and checks it. One of zeroes is empty.
    pub(super) fn read(file: impl AsFd, path: &Path) -> Result<Self, SegmentError> {
        let mut bytes = [0_u8; FILE_BYTES];
        read_whole(file.as_fd(), &mut bytes, path)?;
        let bad = |reason: String| SegmentError::BadTable {
            path: path.to_owned(),
            reason,
        };
        let magic = cell(&bytes, header::MAGIC);
        if magic != 0 && (magic != MAGIC || word(&bytes, header::VERSION) != VERSION) {
            let version = word(&bytes, header::VERSION);
            return Err(bad(format!(
                "it begins with {magic:#018x}, version {version}: this program knows \
                 version {VERSION}"
            )));
        }
        let records = bytes[HEADER_BYTES..].chunks_exact(RECORD_BYTES);
        let records = records
            .enumerate()
            .map(|(index, bytes)| {
                Record::decode(bytes).map_err(|why| bad(format!("record {index}: {why}")))
            })
            .collect::<Result<_, _>>()?;
        Ok(Self {
            next_order: cell(&bytes, header::NEXT_ORDER),
            namespace: cell(&bytes, header::NAMESPACE),
            records,
        })
    }

    /// Writes the header.
    pub(super) fn write_header(&self, file: impl AsFd, path: &Path) -> Result<(), SegmentError> {
        let mut bytes = [0; header::BYTES];
        put_cell(&mut bytes, header::MAGIC, MAGIC);
        put(&mut bytes, header::VERSION, VERSION);
        put(&mut bytes, header::CAPACITY, SEGMENTS_MAX as u32);
        put_cell(&mut bytes, header::NEXT_ORDER, self.next_order);
        put_cell(&mut bytes, header::NAMESPACE, self.namespace);
        write_at(file.as_fd(), &bytes, 0, path)
    }

    /// Writes one record, and keeps it as written.
    pub(super) fn write(
        &mut self,
        file: impl AsFd,
        path: &Path,
        index: usize,
        new: Option<Record>,
    ) -> Result<(), SegmentError> {
        let bytes = new
            .as_ref()
            .map_or([0; RECORD_BYTES], |record| record.encode());
        let at = HEADER_BYTES + index * RECORD_BYTES;
        write_at(file.as_fd(), &bytes, at as u64, path)?;
        self.records[index] = new;
        Ok(())
    }

    /// The records in use, with their numbers.
    pub(super) fn used(&self) -> impl Iterator<Item = (usize, &Record)> {
        let records = self.records.iter().enumerate();
        records.filter_map(|(index, record)| Some((index, record.as_ref()?)))
    }

    /// The first in use that is as wanted, and its number.
    pub(super) fn find(&self, wanted: impl Fn(&Record) -> bool) -> Option<(usize, Record)> {
        let mut used = self.used();
        let found = used.find(|(_, record)| wanted(record))?;
        Some((found.0, found.1.clone()))
    }

    /// Those that are there.
    pub(super) fn ready(&self) -> impl Iterator<Item = &Record> {
        let used = self.used().map(|(_, record)| record);
        used.filter(|record| record.state == State::Ready)
    }

    /// The pages that have owners.
    pub(super) fn taken(&self) -> Vec<Pages> {
        self.used().map(|(_, record)| record.pages).collect()
    }
}

impl Record {
    fn decode(bytes: &[u8]) -> Result<Option<Self>, String> {
        let state = match word(bytes, record::STATE) {
            0 => return Ok(None),
            1 => State::Making,
            2 => State::Ready,
            other => return Err(format!("unknown state {other}")),
        };
        let segment_bytes = cell(bytes, record::SEGMENT_BYTES);
        let pages = Pages {
            first: word(bytes, record::PAGE).into(),
            count: word(bytes, record::PAGES).into(),
        };
        let page_bytes = hythe_abi::segments::PAGE_BYTES as u64;
        if segment_bytes == 0 || segment_bytes.div_ceil(page_bytes) > pages.count {
            return Err(format!("{segment_bytes} bytes in {} pages", pages.count));
        }
        let name = &bytes[record::NAME..record::NAME + record::NAME_BYTES];
        let name = name.split(|byte| *byte == 0).next().unwrap_or_default();
        Ok(Some(Self {
            state,
            id: word(bytes, record::ID) as i32,
            key: word(bytes, record::KEY) as i32,
            pages,
            is_made_on_core: word(bytes, record::MADE_ON) == 1,
            bytes: usize::try_from(segment_bytes).map_err(|error| error.to_string())?,
            order: cell(bytes, record::ORDER),
            creator: Process {
                pid: word(bytes, record::CREATOR),
                start_time: cell(bytes, record::CREATOR_START),
            },
            creator_name: String::from_utf8_lossy(name).into_owned(),
            pid_namespace: cell(bytes, record::PID_NAMESPACE),
            begun: cell(bytes, record::BEGUN),
            core_attached: word(bytes, record::CORE_ATTACHED),
            core: Process {
                pid: word(bytes, record::CORE),
                start_time: cell(bytes, record::CORE_START),
            },
            core_namespace: cell(bytes, record::CORE_NAMESPACE),
        }))
    }

    fn encode(&self) -> [u8; RECORD_BYTES] {
        let mut bytes = [0; RECORD_BYTES];
        let state = match self.state {
            State::Making => 1,
            State::Ready => 2,
        };
        put(&mut bytes, record::STATE, state);
        put(&mut bytes, record::ID, self.id as u32);
        put(&mut bytes, record::KEY, self.key as u32);
        // An area is smaller than 16 TiB.
        put(&mut bytes, record::PAGE, self.pages.first as u32);
        put(&mut bytes, record::PAGES, self.pages.count as u32);
        put(&mut bytes, record::MADE_ON, self.is_made_on_core.into());
        put_cell(&mut bytes, record::SEGMENT_BYTES, self.bytes as u64);
        put_cell(&mut bytes, record::ORDER, self.order);
        put(&mut bytes, record::CREATOR, self.creator.pid);
        put_cell(&mut bytes, record::CREATOR_START, self.creator.start_time);
        put_cell(&mut bytes, record::BEGUN, self.begun);
        put_cell(&mut bytes, record::PID_NAMESPACE, self.pid_namespace);
        put(&mut bytes, record::CORE_ATTACHED, self.core_attached);
        put(&mut bytes, record::CORE, self.core.pid);
        put_cell(&mut bytes, record::CORE_START, self.core.start_time);
        put_cell(&mut bytes, record::CORE_NAMESPACE, self.core_namespace);
        let name = self.creator_name.as_bytes();
        let length = name.len().min(record::NAME_BYTES);
        bytes[record::NAME..record::NAME + length].copy_from_slice(&name[..length]);
        bytes
    }
}

fn read_whole(file: BorrowedFd<'_>, bytes: &mut [u8], path: &Path) -> Result<(), SegmentError> {
    let mut done = 0;
    while done < bytes.len() {
        let read = retry_on_intr(|| pread(file, &mut bytes[done..], done as u64));
        match read.map_err(|error| system(format!("reading {}", path.display()))(error.into()))? {
            0 => {
                return Err(SegmentError::BadTable {
                    path: path.to_owned(),
                    reason: format!("it has {done} bytes, not {}", bytes.len()),
                });
            }
            read => done += read,
        }
    }
    Ok(())
}

fn write_at(file: BorrowedFd<'_>, bytes: &[u8], at: u64, path: &Path) -> Result<(), SegmentError> {
    let written = retry_on_intr(|| pwrite(file, bytes, at));
    let written =
        written.map_err(|error| system(format!("writing {}", path.display()))(error.into()))?;
    if written == bytes.len() {
        return Ok(());
    }
    Err(SegmentError::BadTable {
        path: path.to_owned(),
        reason: format!("{written} of {} bytes were written at {at}", bytes.len()),
    })
}

fn word(bytes: &[u8], at: usize) -> u32 {
    let mut word = [0; 4];
    word.copy_from_slice(&bytes[at..at + 4]);
    u32::from_le_bytes(word)
}

fn cell(bytes: &[u8], at: usize) -> u64 {
    let mut cell = [0; 8];
    cell.copy_from_slice(&bytes[at..at + 8]);
    u64::from_le_bytes(cell)
}

fn put(bytes: &mut [u8], at: usize, value: u32) {
    bytes[at..at + 4].copy_from_slice(&value.to_le_bytes());
}

fn put_cell(bytes: &mut [u8], at: usize, value: u64) {
    bytes[at..at + 8].copy_from_slice(&value.to_le_bytes());
}

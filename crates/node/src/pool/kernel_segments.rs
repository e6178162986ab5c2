//! The kernel's segments that stand beside a pool's (`spec/segments.md`): they go with the pool.
//!
//! A table is written by all who may use the pool, and whoever removes the pool may be allowed
//! more than they. So a record is believed only of a segment that it describes exactly and whose
//! pages nobody has ever touched: a forged one costs nobody a byte.

use std::os::fd::OwnedFd;

use hythe_abi::segments::{FILE_BYTES, HEADER_BYTES, MAGIC, RECORD_BYTES, header, record};
use hythe_sys::system_v;
use rustix::fs::{self, Mode, OFlags};
use rustix::io::{pread, retry_on_intr};

use crate::pool::directory::entries;

/// What the names of tables begin with.
const TABLE: &str = "segments.";
const READY: u32 = 2;

/// Removes the kernel's segments of all tables in the directory, as far as it is permitted: at
/// once, or with their last attachment.
pub(crate) fn remove(directory: &OwnedFd) {
    for name in entries(directory)
        .iter()
        .filter(|name| name.starts_with(TABLE))
    {
        if let Some(table) = read(directory, name) {
            remove_those_of(&table);
        }
    }
}

/// One that is no table of this version says nothing.
fn read(directory: &OwnedFd, name: &str) -> Option<[u8; FILE_BYTES]> {
    let flags = OFlags::RDONLY | OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::CLOEXEC;
    let file = fs::openat(directory, name, flags, Mode::empty()).ok()?;
    let mut table = [0; FILE_BYTES];
    let length = retry_on_intr(|| pread(&file, &mut table, 0)).ok()?;
    let is_whole = length == FILE_BYTES && cell(&table, header::MAGIC) == MAGIC;
    is_whole.then_some(table)
}

fn remove_those_of(table: &[u8; FILE_BYTES]) {
    // Ids mean something in one IPC namespace only.
    if cell(table, header::NAMESPACE) != system_v::namespace() {
        return;
    }
    let records = table[HEADER_BYTES..].chunks_exact(RECORD_BYTES);
    for found in records.filter(|found| word(found, record::STATE) == READY) {
        let id = word(found, record::ID).cast_signed();
        let is_described = system_v::status(id).is_ok_and(|status| {
            let is_of_key = status.key == word(found, record::KEY).cast_signed();
            is_of_key && status.bytes as u64 == cell(found, record::SEGMENT_BYTES)
        });
        if is_described && system_v::is_untouched(id) {
            // Not permitted: its maker's user removes it.
            let _ = system_v::remove(id);
        }
    }
}

fn word(bytes: &[u8], at: usize) -> u32 {
    u32::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

fn cell(bytes: &[u8], at: usize) -> u64 {
    u64::from_le_bytes(std::array::from_fn(|index| bytes[at + index]))
}

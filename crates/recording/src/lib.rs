//! Recordings: the messages of a channel in a file, and back (`spec/recording.md`).
//!
//! [`Writer`] appends records. It writes an index after each [`INDEX_RECORDS`] of them, and an end
//! block. [`Reader`] reads them in order, or from a given time on; from a truncated or damaged file
//! it recovers the records that are whole. Both work on [`std::io`] traits, and the caller passes
//! the time. Payloads are not interpreted.
//!
//! ```
//! use std::io::Cursor;
//! use hythe_recording::{Header, Reader, Writer};
//!
//! # fn main() -> Result<(), hythe_recording::RecordingError> {
//! let mut file = Vec::new();
//! let mut writer = Writer::new(&mut file, &Header::raw("greetings"))?;
//! writer.append(1_500_000, b"good morning")?;
//! writer.finish(0)?;
//!
//! let mut reader = Reader::open(Cursor::new(file))?;
//! let record = reader.next()?.expect("one record");
//! let mut payload = vec![0; record.bytes as usize];
//! reader.read_payload(&record, &mut payload)?;
//! assert_eq!((record.time_ns, payload.as_slice()), (1_500_000, &b"good morning"[..]));
//! # Ok(())
//! # }
//! ```
//!
//! Never trusts a length or position in a file, never sizes memory by one, never panics over what a
//! file holds, never looks at a clock.

mod block;
mod error;
mod header;
mod reader;
mod scan;
mod writer;

pub use block::{BLOCK_HEAD_BYTES, INDEX_RECORDS};
pub use error::RecordingError;
pub use header::{HEADER_BYTES, Header};
pub use reader::{Reader, Record, Summary};
pub use writer::{Totals, Writer};

/// Adds more bytes to a CRC-32C that began with 0: to check a payload that is read in pieces
/// against [`Record::checksum`].
#[must_use]
pub fn checksum(so_far: u32, bytes: &[u8]) -> u32 {
    crc32c::crc32c_append(so_far, bytes)
}

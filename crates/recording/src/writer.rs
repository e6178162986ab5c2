//! Writing: a header, records with an index behind each group, an end block. Appends only.

use std::io::Write;

use crate::block::{END_BYTES, End, Entry, Head, INDEX_RECORDS, Index, Kind, padded};
use crate::header::{HEADER_BYTES, Header};
use crate::{BLOCK_HEAD_BYTES, RecordingError};

/// What a recording has come to.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Totals {
    /// Records written.
    pub records: u64,
    /// Bytes of their payloads.
    pub payload_bytes: u64,
    /// Size of the file.
    pub file_bytes: u64,
    /// Time of the last record, nanoseconds since the start.
    pub last_time_ns: u64,
}

/// Writes one recording. Dropped without [`Writer::finish`], it leaves a file that reads up to the
/// last whole record.
#[derive(Debug)]
pub struct Writer<W> {
    into: W,
    totals: Totals,
    index: Index,
}

impl<W: Write> Writer<W> {
    /// Writes the header. `into` is best buffered; [`Writer::flush`] says when what was appended
    /// must be out.
    ///
    /// # Errors
    /// [`RecordingError::BadName`]; what the system says.
    pub fn new(mut into: W, header: &Header) -> Result<Self, RecordingError> {
        into.write_all(&header.to_bytes()?)?;
        let totals = Totals {
            file_bytes: HEADER_BYTES as u64,
            ..Totals::default()
        };
        Ok(Self {
            into,
            totals,
            index: Index::default(),
        })
    }

    /// Appends one message. `time_ns` counts from the start; a time before that of the last record
    /// is taken as equal to it.
    ///
    /// # Errors
    /// [`RecordingError::TooLarge`]; what the system says.
    pub fn append(&mut self, time_ns: u64, payload: &[u8]) -> Result<(), RecordingError> {
        let time_ns = time_ns.max(self.totals.last_time_ns);
        let position = self.totals.file_bytes;
        self.block(Kind::Record, self.totals.records, time_ns, payload)?;
        self.totals.records += 1;
        self.totals.payload_bytes += payload.len() as u64;
        self.totals.last_time_ns = time_ns;
        self.index.entries.push(Entry { time_ns, position });
        if self.index.entries.len() >= INDEX_RECORDS {
            self.write_index()?;
        }
        Ok(())
    }

    /// Says at this place that the recorder missed so many messages since the last record.
    ///
    /// # Errors
    /// What the system says.
    pub fn append_missed(&mut self, messages: u64) -> Result<(), RecordingError> {
        let (records, time_ns) = (self.totals.records, self.totals.last_time_ns);
        self.block(Kind::Missed, records, time_ns, &messages.to_le_bytes())
    }

    /// Hands everything to the system.
    ///
    /// # Errors
    /// What the system says.
    pub fn flush(&mut self) -> Result<(), RecordingError> {
        Ok(self.into.flush()?)
    }

    /// What was written so far.
    pub const fn totals(&self) -> Totals {
        self.totals
    }

    /// Writes the end block and flushes. `dropped` says how many messages the recorder missed in
    /// all.
    ///
    /// # Errors
    /// What the system says.
    pub fn finish(mut self, dropped: u64) -> Result<Totals, RecordingError> {
        if !self.index.entries.is_empty() {
            self.write_index()?;
        }
        let end = End {
            last_index: self.index.previous,
            payload_bytes: self.totals.payload_bytes,
            dropped,
            position: self.totals.file_bytes,
        };
        let content: [u8; END_BYTES] = end.to_bytes();
        let (records, time_ns) = (self.totals.records, self.totals.last_time_ns);
        self.block(Kind::End, records, time_ns, &content)?;
        self.flush()?;
        Ok(self.totals)
    }

    fn write_index(&mut self) -> Result<(), RecordingError> {
        let position = self.totals.file_bytes;
        let content = self.index.to_bytes();
        let (records, time_ns) = (self.totals.records, self.totals.last_time_ns);
        self.block(Kind::Index, records, time_ns, &content)?;
        self.index.previous = position;
        self.index.entries.clear();
        Ok(())
    }

    fn block(
        &mut self,
        kind: Kind,
        number: u64,
        time_ns: u64,
        content: &[u8],
    ) -> Result<(), RecordingError> {
        let too_large = RecordingError::TooLarge {
            bytes: content.len(),
            limit: u32::MAX,
        };
        let bytes = u32::try_from(content.len()).map_err(|_| too_large)?;
        let head = Head {
            kind,
            bytes,
            number,
            time_ns,
            checksum: crc32c::crc32c(content),
        };
        let padding = padded(bytes) - u64::from(bytes);
        self.into.write_all(&head.to_bytes())?;
        self.into.write_all(content)?;
        // Less than 8.
        self.into.write_all(&[0; 8][..padding as usize])?;
        self.totals.file_bytes += BLOCK_HEAD_BYTES as u64 + padded(bytes);
        Ok(())
    }
}

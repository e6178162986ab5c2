//! Reading: records in order, from the start or from a moment on, past what is damaged.

use std::io::{Read, Seek, SeekFrom};

use crate::block::{Head, Index, Kind};
use crate::header::{HEADER_BYTES, Header};
use crate::scan::{self, Extent};
use crate::{BLOCK_HEAD_BYTES, INDEX_RECORDS, RecordingError, checksum};

/// Damaged places that are passed over in one pass, each with a walk through the indexes.
const DAMAGES_MAX: u32 = 1000;
/// An index stands behind at least as many bytes, but the last.
const INDEX_EVERY_BYTES: u64 = (INDEX_RECORDS * BLOCK_HEAD_BYTES) as u64;

/// Where a record stands, and what its head says. The payload itself is not checked yet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Record {
    /// Its number, from 0.
    pub number: u64,
    /// When it was taken from the channel, nanoseconds since the start.
    pub time_ns: u64,
    /// Size of the payload.
    pub bytes: u32,
    /// Where the payload begins in the file.
    pub position: u64,
    /// CRC-32C of the payload, see [`crate::checksum`].
    pub checksum: u32,
    /// Messages that the recorder missed between the record before and this one. 0 of the first
    /// record behind [`Reader::seek_time`].
    pub missed_before: u64,
}

/// What a recording holds.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Summary {
    /// Records.
    pub records: u64,
    /// Bytes of all payloads.
    pub payload_bytes: u64,
    /// Time of the last record, nanoseconds since the start.
    pub last_time_ns: u64,
    /// Messages that the recorder missed; `None`: the recording has no end block to tell.
    pub dropped: Option<u64>,
    /// Was it ended in order?
    pub is_complete: bool,
    /// Bytes behind the last whole record of a recording that was not.
    pub dropped_bytes: u64,
}

/// Reads one recording.
#[derive(Debug)]
pub struct Reader<R> {
    from: R,
    header: Header,
    extent: Extent,
    position: u64,
    /// Missed behind the last record that was read.
    missed: u64,
    skipped_bytes: u64,
    damages: u32,
}

impl<R: Read + Seek> Reader<R> {
    /// Reads the header, and finds the end: by the end block, or by checking every record of a
    /// recording that has none.
    ///
    /// # Errors
    /// [`RecordingError::NotARecording`], [`RecordingError::Version`]; what the system says.
    pub fn open(mut from: R) -> Result<Self, RecordingError> {
        let file_bytes = from.seek(SeekFrom::End(0))?;
        let mut header = [0; HEADER_BYTES];
        if !scan::read_at(&mut from, 0, &mut header)? {
            return Err(RecordingError::NotARecording(format!(
                "it has {file_bytes} bytes, and the header alone has {HEADER_BYTES}"
            )));
        }
        let header = Header::from_bytes(&header)?;
        let extent = match scan::by_end_block(&mut from, file_bytes)? {
            Some(extent) => extent,
            None => scan::by_walking(&mut from, file_bytes)?,
        };
        Ok(Self {
            from,
            header,
            extent,
            position: HEADER_BYTES as u64,
            missed: 0,
            skipped_bytes: 0,
            damages: 0,
        })
    }

    /// What was recorded, and when.
    pub const fn header(&self) -> &Header {
        &self.header
    }

    /// What the recording holds.
    pub const fn summary(&self) -> Summary {
        Summary {
            records: self.extent.records,
            payload_bytes: self.extent.payload_bytes,
            last_time_ns: self.extent.last_time_ns,
            dropped: self.extent.dropped,
            is_complete: self.extent.dropped.is_some(),
            dropped_bytes: self.extent.dropped_bytes,
        }
    }

    /// Bytes between records that [`Reader::next`] has passed over so far because they are no
    /// blocks.
    pub const fn skipped_bytes(&self) -> u64 {
        self.skipped_bytes
    }

    /// The next record; `None`: that was the last.
    ///
    /// # Errors
    /// What the system says. What is damaged is passed over and counted.
    #[allow(
        clippy::should_implement_trait,
        reason = "an iterator would have to hide the errors or borrow the reader"
    )]
    pub fn next(&mut self) -> Result<Option<Record>, RecordingError> {
        while self.position < self.extent.end {
            let position = self.position;
            let Some(head) = scan::head_at(&mut self.from, position, self.extent.end)? else {
                self.damages += 1;
                let named = if self.damages <= DAMAGES_MAX {
                    self.named_behind(position)?
                } else {
                    None
                };
                let next = named.unwrap_or(self.extent.end);
                self.skipped_bytes += next - position;
                self.position = next;
                continue;
            };
            self.position = head.next_position(position);
            match head.kind {
                Kind::Record => {
                    let missed_before = std::mem::take(&mut self.missed);
                    return Ok(Some(record(&head, position, missed_before)));
                }
                Kind::Missed => {
                    let missed = scan::missed_at(&mut self.from, position, &head)?;
                    self.missed = self.missed.saturating_add(missed.unwrap_or(0));
                }
                Kind::Index | Kind::End => {}
            }
        }
        Ok(None)
    }

    /// Goes to the first record at or behind a moment; to the end if there is none.
    ///
    /// # Errors
    /// What the system says.
    pub fn seek_time(&mut self, time_ns: u64) -> Result<(), RecordingError> {
        self.rewind();
        // The newest index that begins before the moment names the place, or all its records are
        // before it.
        let mut found = None;
        self.walk_indexes_back(|index| {
            let later = index.entries.iter().find(|entry| entry.time_ns >= time_ns);
            found = later.map(|entry| entry.position).or(found);
            let begins_before = index.entries.first();
            begins_before.is_some_and(|first| first.time_ns < time_ns)
        })?;
        if let Some(position) = found.filter(|position| self.is_inside(*position)) {
            self.position = position;
            return Ok(());
        }
        // No index knows it: it is behind the last of them, if at all.
        self.position = self.position.max(self.extent.last_index);
        while let Some(record) = self.next()? {
            if record.time_ns >= time_ns {
                self.position = record.position - BLOCK_HEAD_BYTES as u64;
                break;
            }
        }
        self.missed = 0;
        Ok(())
    }

    /// Back to the first record.
    pub const fn rewind(&mut self) {
        self.position = HEADER_BYTES as u64;
        self.missed = 0;
        self.skipped_bytes = 0;
        self.damages = 0;
    }

    /// Reads a record's payload and checks it.
    ///
    /// # Errors
    /// [`RecordingError::Damaged`]; what the system says, also if the file became shorter.
    ///
    /// # Panics
    /// If `into` is not as long as the payload.
    pub fn read_payload(&mut self, record: &Record, into: &mut [u8]) -> Result<(), RecordingError> {
        assert_eq!(
            into.len(),
            record.bytes as usize,
            "a payload goes into a buffer of its size"
        );
        self.from.seek(SeekFrom::Start(record.position))?;
        self.from.read_exact(into)?;
        record.check(checksum(0, into))
    }

    /// The first position behind `position` that an index names as a record's, and where one is.
    fn named_behind(&mut self, position: u64) -> Result<Option<u64>, RecordingError> {
        let mut found = None;
        self.walk_indexes_back(|index| {
            let behind = index.entries.iter().map(|entry| entry.position);
            let least = behind.filter(|named| *named > position).min();
            found = least.or(found);
            least.is_none()
        })?;
        Ok(found.filter(|named| self.is_inside(*named)))
    }

    /// Hands over index after index, the last first, until `is_enough`.
    fn walk_indexes_back(
        &mut self,
        mut is_enough: impl FnMut(&Index) -> bool,
    ) -> Result<(), RecordingError> {
        let (mut position, mut limit) = (self.extent.last_index, self.extent.end);
        // Each must stand in front of the one that names it, and there are not more than fit: the
        // walk ends, whatever the file says.
        let mut left = self.extent.end / INDEX_EVERY_BYTES + 1;
        while position > 0 && position < limit && left > 0 {
            left -= 1;
            let Some((_, index)) = scan::index_at(&mut self.from, position, limit)? else {
                return Ok(());
            };
            if is_enough(&index) {
                return Ok(());
            }
            limit = position;
            position = index.previous;
        }
        Ok(())
    }

    const fn is_inside(&self, position: u64) -> bool {
        crate::block::is_block_position(position) && position < self.extent.end
    }
}

impl Record {
    /// Compares the checksum of the payload as it was read with the one that was written.
    ///
    /// # Errors
    /// [`RecordingError::Damaged`].
    pub const fn check(&self, found: u32) -> Result<(), RecordingError> {
        if found == self.checksum {
            return Ok(());
        }
        Err(RecordingError::Damaged {
            number: self.number,
            bytes: self.bytes,
            found,
            expected: self.checksum,
        })
    }
}

const fn record(head: &Head, position: u64, missed_before: u64) -> Record {
    Record {
        number: head.number,
        time_ns: head.time_ns,
        bytes: head.bytes,
        position: position + BLOCK_HEAD_BYTES as u64,
        checksum: head.checksum,
        missed_before,
    }
}

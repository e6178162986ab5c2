//! What can go wrong with a recording.

use std::io;

/// Errors of writing and reading recordings.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RecordingError {
    /// The file could not be read or written.
    #[error("{0}")]
    Io(#[from] io::Error),
    /// The file does not begin as a recording does.
    #[error("it is not a recording: {0}")]
    NotARecording(String),
    /// The file is a recording that this program cannot read.
    #[error("it is a recording of version {found}; this program reads version {known}")]
    Version {
        /// Version in the file.
        found: u32,
        /// Version that is known here.
        known: u32,
    },
    /// A name that has no place in a header.
    #[error(
        "the name of the {what} has {bytes} bytes; it must have {least} to {most} and no zero byte"
    )]
    BadName {
        /// Whose name.
        what: &'static str,
        /// How long it is.
        bytes: usize,
        /// How long it must be.
        least: usize,
        /// How long it may be.
        most: usize,
    },
    /// A payload too large for a record.
    #[error("a payload of {bytes} bytes is more than the {limit} that a record takes")]
    TooLarge {
        /// Size of the payload.
        bytes: usize,
        /// Largest size.
        limit: u32,
    },
    /// A record's payload is not what was written.
    #[error(
        "record {number} is damaged: the checksum of its {bytes} bytes is {found:#010x}, not {expected:#010x}"
    )]
    Damaged {
        /// Number of the record.
        number: u64,
        /// Size of its payload.
        bytes: u32,
        /// Checksum of what is there.
        found: u32,
        /// Checksum of what was written.
        expected: u32,
    },
}

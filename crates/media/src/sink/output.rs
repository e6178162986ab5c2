//! The file behind a sink.

use std::fs::File;
use std::io::{self, BufWriter, Seek, SeekFrom, Write};
use std::path::{Path, PathBuf};

use hythe_sys::regular_file::create_output;

use crate::MediaError;

/// A file that is written from front to back, with errors that name it.
#[derive(Debug)]
pub(super) struct Output {
    file: BufWriter<File>,
    path: PathBuf,
}

impl Output {
    pub(super) fn create(path: &Path) -> Result<Self, MediaError> {
        let file = create_output(path).map_err(|source| MediaError::File {
            what: "write",
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            file: BufWriter::with_capacity(64 * 1024, file),
            path: path.to_owned(),
        })
    }

    pub(super) fn write(&mut self, bytes: &[u8]) -> Result<(), MediaError> {
        self.file
            .write_all(bytes)
            .map_err(|error| self.failed(error))
    }

    /// Overwrites what is at the front, and goes on at the end. Everything is with the kernel then.
    pub(super) fn overwrite_front(&mut self, bytes: &[u8]) -> Result<(), MediaError> {
        let file = &mut self.file;
        file.seek(SeekFrom::Start(0))
            .and_then(|_| file.write_all(bytes))
            .and_then(|()| file.seek(SeekFrom::End(0)))
            .map(drop)
            .map_err(|error| self.failed(error))
    }

    /// Hands everything to the kernel.
    pub(super) fn flush(&mut self) -> Result<(), MediaError> {
        self.file.flush().map_err(|error| self.failed(error))
    }

    pub(super) fn failed(&self, source: io::Error) -> MediaError {
        MediaError::File {
            what: "write",
            path: self.path.clone(),
            source,
        }
    }
}

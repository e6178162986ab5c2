//! Y4M files: pictures of 8-bit 4:2:0, each behind a line of text (the format of the MJPEG tools).

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};

use hythe_sys::regular_file::create_output;

use crate::error::PlayError;

/// What stands in front of each picture.
const FRAME: &[u8] = b"FRAME\n";

/// A file that is being written.
#[derive(Debug)]
pub(crate) struct Y4m {
    file: BufWriter<File>,
    path: PathBuf,
    /// Of the header; `None`: it is not written.
    size: Option<(u32, u32)>,
    /// Frames a second, as a fraction.
    rate: (u32, u32),
}

impl Y4m {
    /// Makes the file anew; its header comes with the first picture.
    pub(crate) fn create(path: &Path, rate: (u32, u32)) -> Result<Self, PlayError> {
        let file = create_output(path).map_err(|source| PlayError::File {
            action: "write",
            path: path.to_owned(),
            source,
        })?;
        Ok(Self {
            // Pictures are longer and pass by it.
            file: BufWriter::with_capacity(4096, file),
            path: path.to_owned(),
            size: None,
            rate,
        })
    }

    /// Writes a picture of this size, all planes.
    pub(crate) fn write(&mut self, size: (u32, u32), picture: &[u8]) -> Result<(), PlayError> {
        self.expect(size)?;
        self.put(FRAME)?;
        self.put(picture)
    }

    /// Hands everything to the kernel.
    pub(crate) fn finish(&mut self) -> Result<(), PlayError> {
        let flushed = self.file.flush();
        flushed.map_err(|source| self.failed(source))
    }

    fn expect(&mut self, size: (u32, u32)) -> Result<(), PlayError> {
        match self.size {
            Some(first) if first == size => Ok(()),
            Some((width, height)) => Err(PlayError::Mismatch {
                decoded: format!("a picture of {}x{}", size.0, size.1),
                expected: format!("{width}x{height}, which a Y4M file has to keep"),
            }),
            None => {
                self.size = Some(size);
                let (frames, seconds) = self.rate;
                let (width, height) = size;
                let header =
                    format!("YUV4MPEG2 W{width} H{height} F{frames}:{seconds} Ip A0:0 C420mpeg2\n");
                self.put(header.as_bytes())
            }
        }
    }

    fn put(&mut self, bytes: &[u8]) -> Result<(), PlayError> {
        self.file
            .write_all(bytes)
            .map_err(|source| self.failed(source))
    }

    fn failed(&self, source: std::io::Error) -> PlayError {
        PlayError::File {
            action: "write",
            path: self.path.clone(),
            source,
        }
    }
}

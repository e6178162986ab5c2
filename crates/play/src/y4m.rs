//! Y4M files: pictures of 8-bit 4:2:0, each behind a line of text (the format of the MJPEG tools).
//!
//! Such a file has one frame rate. A picture that lasts longer than a frame is repeated, so that
//! the file is as long as the movie; of two that fall into one frame the second is written. Both
//! are counted.

use std::fs::File;
use std::io::{BufWriter, Write};
use std::path::{Path, PathBuf};
use std::sync::Arc;

use hythe_screen::Picture as _;
use hythe_sys::regular_file::create_output;
use serde::Serialize;

use crate::error::PlayError;
use crate::viewer::Taken;

/// What stands in front of each picture.
const FRAME: &[u8] = b"FRAME\n";

/// A file that is being written.
pub(crate) struct Y4m {
    file: BufWriter<File>,
    path: PathBuf,
    /// Of the header; `None`: it is not written.
    size: Option<(u32, u32)>,
    written: Written,
    /// The picture that was shown last, which is not written.
    last: Option<Arc<Taken>>,
}

/// What came of a file of pictures.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Written {
    /// Frames in so many seconds.
    pub rate: (u32, u32),
    /// Frames in the file.
    pub frames: u64,
    /// Those of them that repeat the one before.
    pub repeated: u64,
    /// Pictures that are not in the file: the next fell into the same frame.
    pub left_out: u64,
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
            written: Written {
                rate,
                ..Written::default()
            },
            last: None,
        })
    }

    /// From `time_ns` on this picture is shown. It is written as soon as it is known how long.
    pub(crate) fn show(&mut self, picture: Arc<Taken>, time_ns: i64) -> Result<(), PlayError> {
        // The first stands in for what is missing before it.
        let Some(last) = self.last.replace(picture) else {
            return Ok(());
        };
        match self.frame_at(time_ns).saturating_sub(self.written.frames) {
            0 => self.written.left_out += 1,
            times => self.write(&last, times)?,
        }
        Ok(())
    }

    /// Writes the last picture, which is shown until `end_ns`, and hands everything to the kernel.
    pub(crate) fn finish(&mut self, end_ns: i64) -> Result<Written, PlayError> {
        if let Some(last) = self.last.take() {
            let times = self.frame_at(end_ns).saturating_sub(self.written.frames);
            self.write(&last, times.max(1))?;
        }
        let flushed = self.file.flush();
        flushed.map_err(|source| self.failed(source))?;
        Ok(self.written)
    }

    /// The frame that begins nearest.
    fn frame_at(&self, time_ns: i64) -> u64 {
        let (frames, seconds) = self.written.rate;
        let second = i128::from(seconds) * 1_000_000_000;
        let nearest = (i128::from(time_ns) * i128::from(frames) + second / 2).div_euclid(second);
        u64::try_from(nearest).unwrap_or(0)
    }

    fn write(&mut self, picture: &Taken, times: u64) -> Result<(), PlayError> {
        self.expect(picture.size())?;
        for _ in 0..times {
            self.put(FRAME)?;
            self.put(picture.bytes())?;
        }
        self.written.frames += times;
        self.written.repeated += times - 1;
        Ok(())
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
                let (frames, seconds) = self.written.rate;
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

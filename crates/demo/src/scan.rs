//! What a file holds, before anything is started: its format and how many buffers its frames will
//! make.

use std::fs::File;
use std::os::unix::fs::FileExt;
use std::path::Path;

use hythe::media::mp3::{FrameSplitter, Header, Step, TAIL_BYTES, Window, audio_end};
use hythe_sys::regular_file::open_regular;

use crate::error::DemoError;
use crate::storage::BUFFER_BYTES;

/// An MP3 file, looked through.
#[derive(Clone, Copy, Debug)]
pub(super) struct Scan {
    /// Samples a second, of each channel.
    pub(super) hz: u32,
    /// 1 or 2.
    pub(super) channels: u8,
    /// Buffers that the demultiplexer will forward.
    pub(super) parts: u64,
    /// Samples of each channel that the frames announce.
    pub(super) samples: u64,
    /// Where the audio ends, in front of tags.
    pub(super) audio_bytes: u64,
}

/// Looks through a file as storage and demultiplexer will.
pub(super) fn scan(path: &Path) -> Result<Scan, DemoError> {
    let unreadable = |source| DemoError::File {
        path: path.to_owned(),
        source,
    };
    let file = open_regular(path).map_err(unreadable)?;
    let bytes = file.metadata().map_err(unreadable)?.len();
    let tail_at = bytes.saturating_sub(TAIL_BYTES as u64);
    let mut tail = vec![0; usize::try_from(bytes - tail_at).unwrap_or(0)];
    file.read_exact_at(&mut tail, tail_at).map_err(unreadable)?;
    let audio_bytes = audio_end(&tail, bytes);
    let (mut walk, last_frame_end) = walk(&file, audio_bytes, path)?;
    let mut audio_bytes = audio_bytes;
    if let Some(end) = last_frame_end {
        // Cut off there, the stream has its last frame.
        audio_bytes = end;
        (walk, _) = self::walk(&file, audio_bytes, path)?;
    }
    let first = walk.first.ok_or_else(|| DemoError::NotMp3 {
        path: path.to_owned(),
        reason: format!("no frame of MPEG layer III in its {bytes} bytes"),
    })?;
    Ok(Scan {
        hz: first.samples_per_second(),
        channels: first.channels(),
        parts: walk.parts,
        samples: walk.samples,
        audio_bytes,
    })
}

/// Goes through the first `audio_bytes` of a file; also where its last frame ends, if something
/// else follows it.
fn walk(file: &File, audio_bytes: u64, path: &Path) -> Result<(Walk, Option<u64>), DemoError> {
    let unreadable = |source| DemoError::File {
        path: path.to_owned(),
        source,
    };
    let mut walk = Walk {
        parts: 0,
        samples: 0,
        first: None,
    };
    let mut splitter = FrameSplitter::new().without_info();
    let mut buffer = vec![0; BUFFER_BYTES];
    let mut position = 0;
    loop {
        let wanted =
            usize::try_from((audio_bytes - position).min(BUFFER_BYTES as u64)).unwrap_or(0);
        file.read_exact_at(&mut buffer[..wanted], position)
            .map_err(unreadable)?;
        let is_last = position + wanted as u64 == audio_bytes;
        let window = Window {
            offset: position,
            bytes: &buffer[..wanted],
            is_last,
        };
        match walk.through(&mut splitter, &window, path)? {
            Some(next) => position = next,
            None => return Ok((walk, splitter.last_frame_end())),
        }
    }
}

struct Walk {
    parts: u64,
    samples: u64,
    first: Option<Header>,
}

impl Walk {
    /// Goes through a window; returns where the next one starts, or `None` at the end.
    fn through(
        &mut self,
        splitter: &mut FrameSplitter,
        window: &Window<'_>,
        path: &Path,
    ) -> Result<Option<u64>, DemoError> {
        let broken = |reason: String| DemoError::NotMp3 {
            path: path.to_owned(),
            reason,
        };
        loop {
            let step = splitter
                .next(window)
                .map_err(|error| broken(error.to_string()))?;
            match step {
                Step::Frame(frame) => {
                    let first = *self.first.get_or_insert(frame.header);
                    let same = first.samples_per_second() == frame.header.samples_per_second()
                        && first.channels() == frame.header.channels();
                    if !same {
                        return Err(broken(format!(
                            "rate or channels change at byte {}; one RTP stream has one format",
                            frame.offset
                        )));
                    }
                    self.parts += 1;
                    self.samples += u64::from(frame.header.samples());
                }
                Step::Gap(_) if self.first.is_none() => {}
                Step::Gap(_) => self.parts += 1,
                Step::ReadFrom(0) if window.offset > 0 => {
                    *self = Self {
                        parts: 0,
                        samples: 0,
                        first: None,
                    };
                    return Ok(Some(0));
                }
                Step::ReadFrom(next) => return Ok(Some(next)),
                Step::End => return Ok(None),
            }
        }
    }
}

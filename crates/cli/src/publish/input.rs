//! The input of `hythe pub`, cut into messages, each in a leased buffer.

use std::fs::{File, OpenOptions};
use std::io::{self, BufRead, BufReader, Read, Seek};
use std::os::fd::AsFd;
use std::os::unix::fs::OpenOptionsExt;
use std::path::{Path, PathBuf};

use hythe::{Lease, Publisher};
use hythe_terminal::escaped;
use rustix::fs::{OFlags, fcntl_getfl, fcntl_setfl};

use crate::args::PublishArgs;
use crate::error::CliError;
use crate::stop::{Stop, StoppableReader};

/// A message: its buffer, and how much of it is filled.
pub(super) type Message = (Lease, usize);

/// What is published, and how it is cut.
#[derive(Debug)]
pub(super) struct Input<'a> {
    path: PathBuf,
    stop: &'a Stop,
    /// The largest payload that the pool takes at all.
    largest: usize,
    cut: Cut<'a>,
}

#[derive(Debug)]
enum Cut<'a> {
    /// A regular file, in pieces of `piece` bytes, from `position` on.
    File {
        file: File,
        bytes: u64,
        piece: usize,
        position: u64,
        ended: bool,
    },
    /// Something that cannot be read again from its start, in pieces of `piece` bytes.
    Stream { file: File, piece: usize },
    /// Lines.
    Lines {
        reader: BufReader<StoppableReader<'a, File>>,
        is_regular: bool,
    },
    /// The whole of a stream, read beforehand: its end decides the size of its buffer.
    Whole { bytes: Vec<u8>, ended: bool },
}

impl<'a> Input<'a> {
    pub(super) fn open(
        args: &PublishArgs,
        largest: usize,
        stop: &'a Stop,
    ) -> Result<Self, CliError> {
        let path = args.file.clone();
        let is_stdin = path == Path::new("-");
        let file = if is_stdin {
            let stdin = std::io::stdin().as_fd().try_clone_to_owned();
            stdin
                .map(File::from)
                .map_err(CliError::file("read", "standard input"))?
        } else {
            open_stream(&path).map_err(CliError::file("open", &path))?
        };
        let found = file.metadata().map_err(CliError::file("look at", &path))?;
        if found.is_dir() {
            return Err(CliError::WrongUse(format!(
                "{} is a directory; give a file, or - for standard input",
                escaped(&path)
            )));
        }
        let is_regular = found.is_file() && !is_stdin;
        if args.repeat != 1 && !is_regular && (args.lines || args.size.is_some()) {
            let name = if is_stdin {
                "standard input".to_owned()
            } else {
                escaped(&path).to_string()
            };
            return Err(CliError::WrongUse(format!(
                "{name} can be cut only once: give a regular file to --repeat it"
            )));
        }
        let path = if is_stdin {
            PathBuf::from("standard input")
        } else {
            path
        };
        let cut = if args.lines {
            Cut::Lines {
                reader: BufReader::new(StoppableReader { stop, from: file }),
                is_regular,
            }
        } else if is_regular {
            let bytes = found.len();
            let whole = usize::try_from(bytes).unwrap_or(usize::MAX);
            Cut::File {
                file,
                bytes,
                piece: args.size.unwrap_or(whole),
                position: 0,
                ended: false,
            }
        } else if let Some(piece) = args.size {
            Cut::Stream { file, piece }
        } else {
            Cut::Whole {
                bytes: read_whole(&path, file, largest, stop)?,
                ended: false,
            }
        };
        Ok(Self {
            path,
            stop,
            largest,
            cut,
        })
    }

    /// How many messages it makes, if that is known.
    pub(super) fn messages(&self) -> Option<u64> {
        match &self.cut {
            Cut::File { bytes, piece, .. } => Some(bytes.div_ceil((*piece).max(1) as u64).max(1)),
            Cut::Whole { .. } => Some(1),
            Cut::Stream { .. } | Cut::Lines { .. } => None,
        }
    }

    /// Back to the start. What cannot go back is read once only, as [`Input::open`] has checked.
    pub(super) fn rewind(&mut self) -> Result<(), CliError> {
        match &mut self.cut {
            Cut::File {
                position, ended, ..
            } => {
                *position = 0;
                *ended = false;
            }
            Cut::Whole { ended, .. } => *ended = false,
            Cut::Lines {
                reader,
                is_regular: true,
            } => {
                let from = &mut reader.get_mut().from;
                from.rewind()
                    .map_err(CliError::file("go back in", &self.path))?;
                // What was read ahead is of the last round; at its end nothing is left of it.
                reader.consume(reader.buffer().len());
            }
            Cut::Lines { .. } | Cut::Stream { .. } => {}
        }
        Ok(())
    }

    /// Passes over the message that no buffer was leased for. False: that was all.
    pub(super) fn skip(&mut self) -> Result<bool, CliError> {
        match &mut self.cut {
            Cut::File {
                bytes,
                piece,
                position,
                ended,
                ..
            } => {
                *position = position.saturating_add(*piece as u64).min(*bytes);
                *ended = *position >= *bytes;
                Ok(true)
            }
            Cut::Stream { file, piece } => {
                let mut reader = StoppableReader {
                    stop: self.stop,
                    from: &*file,
                };
                let passed = std::io::copy(
                    &mut reader.by_ref().take(*piece as u64),
                    &mut std::io::sink(),
                );
                Ok(passed.map_err(CliError::file("read", &self.path))? > 0)
            }
            // Read before a buffer was leased for it.
            Cut::Lines { .. } | Cut::Whole { .. } => Ok(true),
        }
    }

    /// The next message; `None`: that was all, or somebody asked to stop.
    pub(super) fn next(&mut self, publisher: &Publisher) -> Result<Option<Message>, CliError> {
        let path = &self.path;
        match &mut self.cut {
            Cut::File {
                file,
                bytes,
                piece,
                position,
                ended,
            } => {
                if *ended {
                    return Ok(None);
                }
                let left = usize::try_from(*bytes - *position).unwrap_or(usize::MAX);
                let lease = publisher.lease((*piece).min(left))?;
                let message = fill_from_file(lease, file, *position, (*piece).min(left), path)?;
                *position += message.1 as u64;
                *ended = *position >= *bytes;
                Ok(Some(message))
            }
            Cut::Stream { file, piece } => {
                fill_from_stream(publisher, file, *piece, self.stop, path)
            }
            Cut::Lines { reader, .. } => {
                let mut line = Vec::new();
                let limit = self.largest as u64 + 2;
                let read = reader.by_ref().take(limit).read_until(b'\n', &mut line);
                if read.map_err(CliError::file("read", path))? == 0 {
                    return Ok(None);
                }
                let bytes = line.strip_suffix(b"\n").unwrap_or(&line);
                copied(publisher, bytes).map(Some)
            }
            Cut::Whole { bytes, ended } => {
                if std::mem::replace(ended, true) {
                    return Ok(None);
                }
                copied(publisher, bytes).map(Some)
            }
        }
    }
}

/// Opens without waiting: what a pipe brings is waited for where a signal ends the wait.
fn open_stream(path: &Path) -> io::Result<File> {
    let without_waiting = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(without_waiting.bits().cast_signed())
        .open(path)?;
    let flags = fcntl_getfl(&file)?;
    fcntl_setfl(&file, flags - OFlags::NONBLOCK)?;
    Ok(file)
}

fn read_whole(path: &Path, file: File, largest: usize, stop: &Stop) -> Result<Vec<u8>, CliError> {
    let mut bytes = Vec::new();
    let mut reader = StoppableReader { stop, from: file }.take(largest as u64 + 1);
    reader
        .read_to_end(&mut bytes)
        .map_err(CliError::file("read", path))?;
    if bytes.len() > largest {
        return Err(CliError::Failed(format!(
            "{} has more than the {largest} bytes that the largest slot of the pool takes: cut it (--size 64K or --lines), or make the pool with larger slots (`hythe pool create --class`)",
            escaped(&path)
        )));
    }
    Ok(bytes)
}

fn copied(publisher: &Publisher, bytes: &[u8]) -> Result<Message, CliError> {
    let mut lease = publisher.lease(bytes.len())?;
    lease.write(0, bytes);
    Ok((lease, bytes.len()))
}

/// Straight from the page cache into the pool.
fn fill_from_file(
    mut lease: Lease,
    file: &File,
    position: u64,
    bytes: usize,
    path: &Path,
) -> Result<Message, CliError> {
    let mut filled = 0;
    while filled < bytes {
        let read = lease.read_file(file, position + filled as u64, filled, bytes - filled);
        match read.map_err(CliError::file("read", path))? {
            0 => {
                return Err(CliError::Failed(format!(
                    "{} became shorter while it was read: {} bytes are missing",
                    escaped(&path),
                    bytes - filled
                )));
            }
            some => filled += some,
        }
    }
    Ok((lease, bytes))
}

/// Straight from the pipe into the pool. What arrived before the end, or before somebody asked to
/// stop, is a message too.
fn fill_from_stream(
    publisher: &Publisher,
    file: &File,
    piece: usize,
    stop: &Stop,
    path: &Path,
) -> Result<Option<Message>, CliError> {
    let mut lease = publisher.lease(piece)?;
    let mut filled = 0;
    while filled < piece {
        if !stop
            .wait_readable(file.as_fd())
            .map_err(CliError::file("wait for", path))?
        {
            break;
        }
        match lease
            .read_stream(file, filled, piece - filled)
            .map_err(CliError::file("read", path))?
        {
            0 => break,
            some => filled += some,
        }
    }
    Ok((filled > 0).then_some((lease, filled)))
}

//! The guard: a process of its own that puts back what a recording changed, whatever ends the
//! recorder.
//!
//! The recorder starts it first, tells it by a pipe what it is *about to* change, and only then
//! changes it. When the pipe comes to its end, because the recorder closed it or because it was
//! killed, the guard undoes everything, last change first, and ends. It also holds the lock by
//! which there is one recording at a time: until everything is as before.
//!
//! Never changes anything but what it was told, never ends by the signals that ask a program to
//! stop: systemd and Ctrl-C send those to it as well.

use std::ffi::{OsStr, OsString};
use std::fs::{self, File};
use std::io::{self, BufRead, BufReader, Read, Write};
use std::os::fd::AsFd;
use std::os::unix::ffi::{OsStrExt, OsStringExt};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::Arc;
use std::sync::atomic::AtomicBool;
use std::time::{Duration, Instant};

use hythe_terminal::escaped;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{FlockOperation, flock};
use signal_hook::consts::{SIGHUP, SIGINT, SIGQUIT, SIGTERM};

use crate::PreloadError;

/// Locked by the guard of a recording. Every machine whose read-ahead can be switched off has it,
/// and nothing is left of a lock.
const LOCKED: &str = "/sys/class/bdi";
/// How long a guard may take to start and to answer, and to undo everything: it waits for nothing
/// but the processor and a disk.
const TIME_LIMIT: Duration = Duration::from_secs(30);

const READY: u8 = b'R';
const BUSY: u8 = b'B';

/// One change, and how it is undone.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Undo {
    /// Write this value into this file.
    Write { path: PathBuf, value: String },
    /// Remove this directory and what is in it.
    Remove(PathBuf),
    /// Remove this directory, whose content is the kernel's.
    RemoveInstance(PathBuf),
}

/// The recorder's end.
#[derive(Debug)]
pub(super) struct Guard {
    process: Child,
    pipe: Option<ChildStdin>,
    /// What was told, should the guard itself be killed.
    told: Vec<Undo>,
}

impl Guard {
    /// Starts `program` as guard: it calls [`stand_guard`].
    pub(super) fn start(program: &[OsString]) -> Result<Self, PreloadError> {
        let (name, arguments) = program
            .split_first()
            .ok_or_else(|| PreloadError::Guard("no program was named".to_owned()))?;
        let started = Command::new(name)
            .args(arguments)
            .process_group(0)
            .current_dir("/")
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn();
        let mut process =
            started.map_err(|error| PreloadError::Guard(format!("it does not start: {error}")))?;
        let answer = answer(&mut process);
        let pipe = process.stdin.take();
        let guard = Self {
            process,
            pipe,
            told: Vec::new(),
        };
        match answer {
            Some(READY) => Ok(guard),
            Some(BUSY) => Err(PreloadError::AnotherRecords),
            _ => Err(PreloadError::Guard("it does not answer".to_owned())),
        }
    }

    /// Its process.
    pub(super) fn process(&self) -> u32 {
        self.process.id()
    }

    /// Tells the guard about a change that is to be made next.
    pub(super) fn before(&mut self, undo: Undo) -> Result<(), PreloadError> {
        let line = undo.to_line();
        self.told.push(undo);
        let pipe = self.pipe.as_mut().ok_or(io::ErrorKind::BrokenPipe);
        pipe.map_err(io::Error::from)
            .and_then(|pipe| pipe.write_all(&line))
            .map_err(|error| PreloadError::Guard(format!("it does not listen: {error}")))
    }

    /// Everything is put back now, by the guard or, if somebody killed that, here.
    pub(super) fn finish(mut self) -> Result<(), PreloadError> {
        self.end()
    }

    fn end(&mut self) -> Result<(), PreloadError> {
        drop(self.pipe.take());
        let start = Instant::now();
        let done = loop {
            match self.process.try_wait() {
                Ok(Some(status)) => break status.success(),
                Ok(None) if start.elapsed() < TIME_LIMIT => {
                    std::thread::sleep(Duration::from_millis(2));
                }
                _ => break false,
            }
        };
        let told = std::mem::take(&mut self.told);
        if done {
            return Ok(());
        }
        let _ = self.process.kill();
        let _ = self.process.wait();
        undo_all(&told)
    }
}

impl Drop for Guard {
    fn drop(&mut self) {
        if self.pipe.is_some() {
            // Behind another error, which is told; the guard has its own voice.
            let _ = self.end();
        }
    }
}

/// The byte by which a guard says how it stands.
fn answer(process: &mut Child) -> Option<u8> {
    let mut from = process.stdout.take()?;
    let time_limit = Timespec {
        tv_sec: TIME_LIMIT.as_secs().cast_signed(),
        tv_nsec: 0,
    };
    let mut wait = [PollFd::from_borrowed_fd(from.as_fd(), PollFlags::IN)];
    rustix::io::retry_on_intr(|| poll(&mut wait, Some(&time_limit))).ok()?;
    let mut byte = [0];
    (!wait[0].revents().is_empty() && from.read_exact(&mut byte).is_ok()).then_some(byte[0])
}

/// The life of a guard process: `input` comes from the recorder, `output` goes to it.
///
/// Returns when the recorder has ended and everything is as it was before.
///
/// # Errors
/// Something could not be put back; the text says what, and what its value was.
pub fn stand_guard(input: impl Read, mut output: impl Write) -> Result<(), PreloadError> {
    for signal in [SIGHUP, SIGINT, SIGQUIT, SIGTERM] {
        // A flag that nobody reads: the signal is taken, and nothing comes of it.
        signal_hook::flag::register(signal, Arc::new(AtomicBool::new(false)))
            .map_err(|error| PreloadError::Guard(format!("it cannot ignore signals: {error}")))?;
    }
    let Ok(_lock) = lock() else {
        let _ = output.write_all(&[BUSY]).and_then(|()| output.flush());
        return Ok(());
    };
    output
        .write_all(&[READY])
        .and_then(|()| output.flush())
        .map_err(|error| PreloadError::Guard(format!("it cannot answer: {error}")))?;
    undo_all(&told_by(BufReader::new(input)))
}

/// What the recorder told until its end. A line that has no end is none: that change was not begun.
fn told_by(mut input: impl BufRead) -> Vec<Undo> {
    let mut told = Vec::new();
    let mut line = Vec::new();
    while input.read_until(b'\n', &mut line).is_ok() {
        match Undo::from_line(&line) {
            Some(undo) => told.push(undo),
            None => break,
        }
        line.clear();
    }
    told
}

/// None where the machine has nothing to lock: it has no read-ahead to switch off either.
fn lock() -> io::Result<Option<File>> {
    let Ok(directory) = File::open(LOCKED) else {
        return Ok(None);
    };
    flock(&directory, FlockOperation::NonBlockingLockExclusive)?;
    Ok(Some(directory))
}

/// Undoes the last change first; goes on behind one that cannot be undone.
fn undo_all(told: &[Undo]) -> Result<(), PreloadError> {
    let failed: Vec<String> = told
        .iter()
        .rev()
        .filter_map(|undo| undo.run().err())
        .collect();
    if failed.is_empty() {
        Ok(())
    } else {
        Err(PreloadError::NotPutBack(failed.join("; ")))
    }
}

impl Undo {
    fn run(&self) -> Result<(), String> {
        let (done, what) = match self {
            Self::Write { path, value } => (
                fs::write(path, value),
                format!("write {value} into {}", escaped(path)),
            ),
            Self::Remove(path) => (
                fs::remove_dir_all(path),
                format!("remove {}", escaped(path)),
            ),
            Self::RemoveInstance(path) => {
                (fs::remove_dir(path), format!("remove {}", escaped(path)))
            }
        };
        match done {
            // The device, or the directory, has gone by itself.
            Err(error) if error.kind() != io::ErrorKind::NotFound => {
                Err(format!("{what} ({error})"))
            }
            _ => Ok(()),
        }
    }

    /// `w VALUE PATH`, `r PATH` or `i PATH`, and the end of the line.
    fn to_line(&self) -> Vec<u8> {
        let (head, path) = match self {
            Self::Write { path, value } => (format!("w {value} "), path),
            Self::Remove(path) => ("r ".to_owned(), path),
            Self::RemoveInstance(path) => ("i ".to_owned(), path),
        };
        [head.as_bytes(), path.as_os_str().as_bytes(), b"\n"].concat()
    }

    fn from_line(line: &[u8]) -> Option<Self> {
        let whole = line.strip_suffix(b"\n")?;
        if let Some(path) = whole.strip_prefix(b"r ") {
            return Some(Self::Remove(path_from(path)));
        }
        if let Some(path) = whole.strip_prefix(b"i ") {
            return Some(Self::RemoveInstance(path_from(path)));
        }
        let rest = whole.strip_prefix(b"w ")?;
        let space = rest.iter().position(|byte| *byte == b' ')?;
        let value = String::from_utf8(rest[..space].to_vec()).ok()?;
        let path = path_from(&rest[space + 1..]);
        Some(Self::Write { path, value })
    }
}

fn path_from(bytes: &[u8]) -> PathBuf {
    Path::new(OsStr::from_bytes(bytes)).to_owned()
}

/// A path can stand in a line of the guard's.
pub(super) fn can_be_told(path: &Path) -> bool {
    !OsString::from(path).into_vec().contains(&b'\n')
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_read_as_they_were_written_and_cut_ones_are_not() {
        let write = Undo::Write {
            path: "/sys/class/bdi/7:0/read ahead.kb".into(),
            value: "128".to_owned(),
        };
        let instance = Undo::RemoveInstance("/sys/kernel/tracing/instances/x".into());
        for undo in [write, instance, Undo::Remove("/var/tmp/a b.".into())] {
            let line = undo.to_line();
            assert_eq!(
                told_by(&[&line[..], &line].concat()[..]),
                [undo.clone(), undo]
            );
            assert_eq!(told_by(&line[..line.len() - 1]), []);
        }
        assert_eq!(told_by(&b"x 1 /a\n"[..]), []);
    }

    #[test]
    fn changes_are_undone_last_first_and_what_cannot_be_is_named() {
        let directory = tempfile::tempdir().unwrap();
        let file = directory.path().join("value");
        let write = |value: &str| Undo::Write {
            path: file.clone(),
            value: value.to_owned(),
        };
        undo_all(&[write("first"), write("second")]).unwrap();
        assert_eq!(fs::read_to_string(&file).unwrap(), "first");
        let inside = directory.path().join("inside");
        fs::create_dir_all(inside.join("deep")).unwrap();
        let blocked = Undo::Remove(file.clone());
        let error = undo_all(&[Undo::Remove(inside.clone()), blocked]).unwrap_err();
        assert!(error.to_string().contains("remove"), "{error}");
        assert!(!inside.exists());
        undo_all(&[Undo::Remove(inside)]).unwrap();
    }
}

//! What a core says: kept in `log.BOARD` in the pool's directory, at most [`LIMIT`] bytes of it,
//! the newest.
//!
//! The open file is also the lock that keeps a second agent away: the kernel lets go of it when the
//! agent dies.

use std::collections::VecDeque;
use std::fs::File;
use std::io::{self, Read, Seek, SeekFrom, Write};
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hythe_sys::regular_file::read_regular;
use rustix::fs::{FlockOperation, Mode, OFlags, flock, open};

use crate::CoreError;
use crate::error::system;

/// Most bytes kept.
const LIMIT: u64 = 1 << 20;
/// How long a lock may outlive its agent: many times what starting a program takes.
const BRIEFLY: Duration = Duration::from_millis(200);
/// Lines that error messages show: the first ones, where emulators say why they give up, and the
/// last.
const FIRST_LINES: usize = 4;
const LAST_LINES: usize = 8;
/// What the last line begins with when a core is not started again.
const FOR_GOOD: &str = "agent: the core is not started again: ";
/// Longest line that they show.
const LINE_BYTES: usize = 200;

/// A log being written.
#[derive(Debug)]
pub(crate) struct Log {
    file: File,
    bytes: u64,
    first: Vec<String>,
    last: VecDeque<String>,
    unfinished: Vec<u8>,
}

/// Where the log of a board is.
pub(crate) fn path(pool: &Path, board: &str) -> PathBuf {
    pool.join(format!("log.{board}"))
}

/// Locks it; false: somebody else has it locked, and still has after [`BRIEFLY`]. An agent that
/// ended just now may have had a child of this process made meanwhile, which shares its lock until
/// it becomes another program.
fn lock(opened: &OwnedFd) -> rustix::io::Result<bool> {
    let begun = Instant::now();
    loop {
        match flock(opened, FlockOperation::NonBlockingLockExclusive) {
            Ok(()) => return Ok(true),
            Err(rustix::io::Errno::WOULDBLOCK) if begun.elapsed() < BRIEFLY => {
                std::thread::sleep(Duration::from_millis(2));
            }
            Err(rustix::io::Errno::WOULDBLOCK) => return Ok(false),
            Err(error) => return Err(error),
        }
    }
}

/// Why the board's core has died for good, if that is the last its agent noted. `None` also where
/// this user may not read the log.
pub(crate) fn death(pool: &Path, board: &str) -> Option<String> {
    let bytes = read_regular(&path(pool, board), 2 * LIMIT).ok()?;
    let text = String::from_utf8_lossy(&bytes);
    let last = text.trim_end().lines().next_back()?;
    Some(last.strip_prefix(FOR_GOOD)?.to_owned())
}

impl Log {
    /// Begins an empty log. `None`: another agent has it.
    pub(crate) fn begin(pool: &Path, board: &str) -> Result<Option<Self>, CoreError> {
        let path = path(pool, board);
        let flags = OFlags::CREATE | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened =
            open(&path, flags, Mode::from_raw_mode(0o600)).map_err(system("open", &path))?;
        if !lock(&opened).map_err(system("lock", &path))? {
            return Ok(None);
        }
        let file = File::from(opened);
        file.set_len(0).map_err(system("empty", &path))?;
        Ok(Some(Self {
            file,
            bytes: 0,
            first: Vec::new(),
            last: VecDeque::new(),
            unfinished: Vec::new(),
        }))
    }

    /// Adds what the core said. A log that cannot be written is not worth a core's life: only the
    /// last lines are kept then.
    pub(crate) fn add(&mut self, said: &[u8]) {
        if self.file.write_all(said).is_ok() {
            self.bytes += said.len() as u64;
        }
        if self.bytes > LIMIT {
            // Tried again with the next addition if it failed.
            let _ = self.forget_half();
        }
        for &byte in said {
            if byte == b'\n' {
                self.end_line();
            } else if self.unfinished.len() < LINE_BYTES {
                self.unfinished.push(byte);
            }
        }
    }

    /// A line of the agent's own.
    pub(crate) fn note(&mut self, line: &str) {
        self.add(format!("agent: {line}\n").as_bytes());
    }

    /// The last line: the core has died, and is not started again.
    pub(crate) fn note_death(&mut self, how: &str, restarts: u32) {
        let restarted = match restarts {
            0 => "no restart was asked for".to_owned(),
            1 => "it had been restarted once, the limit".to_owned(),
            times => format!("it had been restarted {times} times, the limit"),
        };
        self.add(format!("{FOR_GOOD}{how}; {restarted}\n").as_bytes());
    }

    /// Its first and last lines.
    pub(crate) fn excerpt(&self) -> Vec<String> {
        self.first.iter().chain(&self.last).cloned().collect()
    }

    fn end_line(&mut self) {
        let line = String::from_utf8_lossy(&self.unfinished)
            .trim_end()
            .to_owned();
        self.unfinished.clear();
        if self.first.len() < FIRST_LINES {
            self.first.push(line);
            return;
        }
        if self.last.len() == LAST_LINES {
            self.last.pop_front();
        }
        self.last.push_back(line);
    }

    fn forget_half(&mut self) -> io::Result<()> {
        let mut kept = Vec::new();
        self.file.seek(SeekFrom::Start(self.bytes - LIMIT / 2))?;
        self.file.read_to_end(&mut kept)?;
        let first_line = kept
            .iter()
            .position(|&byte| byte == b'\n')
            .map_or(0, |end| end + 1);
        self.file.set_len(0)?;
        self.file.seek(SeekFrom::Start(0))?;
        self.file.write_all(&kept[first_line..])?;
        self.bytes = (kept.len() - first_line) as u64;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn death_for_good_is_found_until_the_next_start() {
        let folder = std::env::temp_dir().join(format!("hythe-death-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("folder");
        let mut log = Log::begin(&folder, "b").expect("opened").expect("alone");
        log.note("the core ended: signal 9");
        assert_eq!(death(&folder, "b"), None, "it may be started again");
        log.note_death("signal 9", 2);
        drop(log);
        let found = death(&folder, "b").expect("noted");
        assert_eq!(found, "signal 9; it had been restarted 2 times, the limit");
        drop(Log::begin(&folder, "b").expect("opened").expect("alone"));
        assert_eq!(death(&folder, "b"), None);
        assert_eq!(death(&folder, "other"), None);
        std::fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn keeps_the_newest_and_one_agent() {
        let folder = std::env::temp_dir().join(format!("hythe-log-{}", std::process::id()));
        std::fs::create_dir_all(&folder).expect("folder");
        let mut log = Log::begin(&folder, "b").expect("opened").expect("alone");
        assert!(Log::begin(&folder, "b").expect("opened").is_none());
        for number in 0..60_000 {
            log.add(format!("line number {number:06} of many\n").as_bytes());
        }
        let kept = std::fs::read_to_string(path(&folder, "b")).expect("read");
        assert!(kept.len() as u64 <= LIMIT);
        assert!(kept.starts_with("line number ") && kept.ends_with("059999 of many\n"));
        let excerpt = log.excerpt();
        assert_eq!(excerpt.len(), FIRST_LINES + LAST_LINES);
        assert_eq!(excerpt[0], "line number 000000 of many");
        drop(log);
        assert!(Log::begin(&folder, "b").expect("opened").is_some());
        std::fs::remove_dir_all(&folder).expect("removed");
    }
}

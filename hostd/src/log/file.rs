//! A log that is standard error, too: panics and the words of libraries go there as well.
//!
//! Where it is full it becomes `NAME.1`, in the place of the one before, and a new one is begun, so
//! that both together take twice [`LOG_BYTES_MAX`] at most. Never fails: a log that cannot be
//! renamed is emptied.

use std::fs::{File, OpenOptions};
use std::io;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::{Path, PathBuf};

use rustix::fs::{fstat, ftruncate};
use rustix::stdio::dup2_stderr;

/// The most bytes of a log.
pub const LOG_BYTES_MAX: u64 = 1 << 20;

/// The log with this path, which standard error is.
#[derive(Debug)]
pub(super) struct LogFile {
    path: PathBuf,
}

/// Opens the log with this path, for what is to be started; a new one, if it is full.
pub(crate) fn open(path: &Path) -> io::Result<File> {
    let log = append(path)?;
    match log.metadata()?.len() < LOG_BYTES_MAX {
        true => Ok(log),
        false => renew(path).or_else(|_| {
            log.set_len(0)?;
            Ok(log)
        }),
    }
}

impl LogFile {
    pub(super) const fn at(path: PathBuf) -> Self {
        Self { path }
    }

    /// For so many bytes more.
    pub(super) fn make_room(&self, bytes: usize) {
        let taken = fstat(io::stderr()).map_or(0, |log| log.st_size);
        let taken = u64::try_from(taken).unwrap_or(u64::MAX);
        if taken == 0 || taken.saturating_add(bytes as u64) <= LOG_BYTES_MAX {
            return;
        }
        let renewed = renew(&self.path).and_then(|log| Ok(dup2_stderr(log)?));
        if renewed.is_err() {
            // There is nobody to tell.
            let _ = ftruncate(io::stderr(), 0);
        }
    }
}

fn renew(path: &Path) -> io::Result<File> {
    let mut before = path.to_owned().into_os_string();
    before.push(".1");
    std::fs::rename(path, before)?;
    append(path)
}

/// As all files of the hosts directory: nobody else reads it, and no link is followed.
fn append(path: &Path) -> io::Result<File> {
    let mut options = OpenOptions::new();
    options.create(true).append(true).read(true).mode(0o600);
    options.custom_flags(rustix::fs::OFlags::NOFOLLOW.bits().cast_signed());
    options.open(path)
}

#[cfg(test)]
mod tests {
    use std::io::Write as _;

    use super::*;

    #[test]
    fn full_log_is_kept_once_beside_the_new_one() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent.log");
        for round in 0..3_u8 {
            let mut log = open(&path).expect("opened");
            assert_eq!(log.metadata().expect("there").len(), 0);
            log.write_all(&[round; LOG_BYTES_MAX as usize])
                .expect("written");
        }
        let before = std::fs::read(folder.path().join("agent.log.1")).expect("there");
        assert!(before.iter().all(|byte| *byte == 1), "of the round before");
        let names = std::fs::read_dir(folder.path()).expect("read");
        assert_eq!(names.count(), 2);
    }

    #[test]
    fn log_is_not_written_through_a_link() {
        let folder = tempfile::tempdir().expect("a folder");
        let path = folder.path().join("agent.log");
        std::os::unix::fs::symlink("/etc/passwd", &path).expect("linked");
        assert!(open(&path).is_err());
    }
}

//! Files that are there whole or not at all, and whose place is taken before what they hold is
//! known.
//!
//! Called by whatever writes a file behind long work: packs, histories, marks, reports. The file is
//! made under another name first, which shows at once whether it can be made, and gets its own when
//! it is whole. Never leaves a half-written file behind, unless the program is killed or the
//! machine dies: then beside the old one, until the next one is written.

use std::fs::{self, File, OpenOptions, TryLockError};
use std::io::{self, ErrorKind, Write};
use std::os::unix::fs::{MetadataExt, OpenOptionsExt as _};
use std::path::{Path, PathBuf};

/// A file that is not whole yet.
#[derive(Debug)]
pub struct WholeFile {
    path: PathBuf,
    unfinished: PathBuf,
    file: File,
    is_finished: bool,
}

impl WholeFile {
    /// Makes the file for `path`, under another name until [`finish`](Self::finish). What is at
    /// `path` stays until then.
    ///
    /// # Errors
    /// What the system says; [`ErrorKind::InvalidInput`] if `path` leads to what is no regular
    /// file; [`ErrorKind::ResourceBusy`] if another program is about to write it.
    pub fn begin(path: &Path) -> io::Result<Self> {
        match fs::metadata(path) {
            Ok(found) if !found.is_file() => {
                let what = "it is there already, and no regular file";
                return Err(io::Error::new(ErrorKind::InvalidInput, what));
            }
            _ => {}
        }
        let mut unfinished = path.as_os_str().to_owned();
        unfinished.push(".unfinished");
        let unfinished = PathBuf::from(unfinished);
        remove_abandoned(&unfinished)?;
        // Whatever the umask: nobody else writes what is read later.
        let options = OpenOptions::new()
            .write(true)
            .create_new(true)
            .mode(0o644)
            .open(&unfinished);
        let file = options.map_err(|error| match error.kind() {
            ErrorKind::AlreadyExists => {
                let what = format!("{unfinished:?} is in the way");
                io::Error::new(ErrorKind::AlreadyExists, what)
            }
            _ => error,
        })?;
        // Where locks are not possible, two that write at once are not kept apart.
        let _ = file.try_lock();
        Ok(Self {
            path: path.to_owned(),
            unfinished,
            file,
            is_finished: false,
        })
    }

    /// Writes all of it, and gives it its name. Where its folder went meanwhile, or is covered by a
    /// mount, it is made anew.
    ///
    /// # Errors
    /// What the system says; then what was at the path is as before.
    pub fn finish(self, bytes: &[u8]) -> io::Result<()> {
        if self.is_in_place() {
            return self.write(bytes);
        }
        let path = self.path.clone();
        drop(self);
        Self::begin(&path)?.write(bytes)
    }

    fn write(mut self, bytes: &[u8]) -> io::Result<()> {
        self.file.write_all(bytes)?;
        self.file.sync_all()?;
        fs::rename(&self.unfinished, &self.path)?;
        self.is_finished = true;
        Ok(())
    }

    /// Does the other name still lead to the file?
    fn is_in_place(&self) -> bool {
        let named = fs::symlink_metadata(&self.unfinished);
        let (Ok(named), Ok(opened)) = (named, self.file.metadata()) else {
            return false;
        };
        (named.dev(), named.ino()) == (opened.dev(), opened.ino())
    }
}

impl Drop for WholeFile {
    fn drop(&mut self) {
        if !self.is_finished && self.is_in_place() {
            // What is not whole is of no use, and it may be what filled the file system.
            let _ = fs::remove_file(&self.unfinished);
        }
    }
}

/// Removes what a death left there, which is of no use. What somebody else put there, a link, is
/// not written through; what another program is writing has a lock.
fn remove_abandoned(unfinished: &Path) -> io::Result<()> {
    let is_file = fs::symlink_metadata(unfinished).is_ok_and(|found| found.is_file());
    if is_file
        && let Ok(file) = File::open(unfinished)
        && matches!(file.try_lock(), Err(TryLockError::WouldBlock))
    {
        let what = "another program is about to write it";
        return Err(io::Error::new(ErrorKind::ResourceBusy, what));
    }
    match fs::remove_file(unfinished) {
        // What else is wrong is said when the file is made.
        Ok(()) | Err(_) => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn folder(name: &str) -> PathBuf {
        let folder = std::env::temp_dir().join(format!("hythe-{name}-{}", std::process::id()));
        fs::create_dir_all(&folder).expect("made");
        folder
    }

    fn files(folder: &Path) -> Vec<String> {
        let entries = fs::read_dir(folder).expect("read");
        let name = |entry: io::Result<fs::DirEntry>| entry.expect("an entry").file_name();
        let mut names: Vec<String> = entries
            .map(|entry| name(entry).to_string_lossy().into_owned())
            .collect();
        names.sort();
        names
    }

    #[test]
    fn file_appears_whole_and_replaces_the_old_one() {
        let folder = folder("whole");
        let path = folder.join("f");
        fs::write(&path, "old").expect("written");
        let begun = WholeFile::begin(&path).expect("begun");
        assert_eq!(fs::read(&path).expect("read"), b"old");
        let busy = WholeFile::begin(&path).expect_err("another one writes it");
        assert_eq!(busy.kind(), ErrorKind::ResourceBusy);
        begun.finish(b"new").expect("finished");
        assert_eq!(fs::read(&path).expect("read"), b"new");
        assert_eq!(files(&folder), ["f"]);
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn unfinished_file_leaves_nothing_behind() {
        let folder = folder("unfinished");
        let path = folder.join("f");
        drop(WholeFile::begin(&path).expect("begun"));
        assert_eq!(files(&folder), [""; 0]);
        // What a killed one left is in nobody's way.
        fs::write(folder.join("f.unfinished"), "half").expect("written");
        WholeFile::begin(&path)
            .expect("begun")
            .finish(b"f")
            .expect("finished");
        assert_eq!(files(&folder), ["f"]);
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn folder_that_was_replaced_gets_the_file() {
        let folder = folder("replaced");
        let (inner, path) = (folder.join("in"), folder.join("in/f"));
        fs::create_dir(&inner).expect("made");
        let begun = WholeFile::begin(&path).expect("begun");
        fs::rename(&inner, folder.join("before")).expect("renamed");
        fs::create_dir(&inner).expect("made");
        begun.finish(b"f").expect("finished");
        assert_eq!(files(&inner), ["f"]);
        fs::remove_dir_all(&folder).expect("removed");
    }

    #[test]
    fn impossible_file_is_refused_when_it_is_begun() {
        let missing = WholeFile::begin(Path::new("/nonexistent/f")).expect_err("no folder");
        assert_eq!(missing.kind(), ErrorKind::NotFound);
        let device = WholeFile::begin(Path::new("/dev/null")).expect_err("a device");
        assert_eq!(device.kind(), ErrorKind::InvalidInput);
    }
}

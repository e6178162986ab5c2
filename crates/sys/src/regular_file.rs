//! Opening files that a user named, or that others may replace: regular ones, without waiting, and
//! no larger than expected.
//!
//! Opening a pipe waits for its other end, and opening a device may make it act. So the name is
//! looked at first, what it leads to is opened without waiting, and what was opened is looked at
//! again. Called wherever packs, recordings, results, media or lists are read by their names.
//! Standard input is not opened, so that `-` stays a way for streams. Never follows a name twice
//! without a second look, never reads more than the caller's bound.

use std::fs::{File, FileType, Metadata, OpenOptions};
use std::io::{self, ErrorKind, Read, Write};
use std::os::unix::fs::{FileTypeExt, OpenOptionsExt};
use std::path::Path;

use rustix::fs::OFlags;

/// Opens the regular file at `path` for reading. Symbolic links are followed.
///
/// # Errors
/// What the system says; [`ErrorKind::InvalidInput`], saying what it is, if it is no regular file.
pub fn open_regular(path: &Path) -> io::Result<File> {
    check(&std::fs::metadata(path)?)?;
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(path)?;
    // The name may lead elsewhere by now.
    check(&file.metadata()?)?;
    Ok(file)
}

/// All bytes of the regular file at `path`, if there are at most `bytes_max` of them.
///
/// # Errors
/// As [`open_regular`]; [`ErrorKind::FileTooLarge`], before anything is read, if it is larger.
pub fn read_regular(path: &Path, bytes_max: u64) -> io::Result<Vec<u8>> {
    let file = open_regular(path)?;
    let claimed = file.metadata()?.len();
    if claimed > bytes_max {
        return Err(too_large(claimed, bytes_max));
    }
    let mut bytes = Vec::new();
    // It may grow meanwhile.
    file.take(bytes_max.saturating_add(1))
        .read_to_end(&mut bytes)?;
    match bytes.len() as u64 {
        read if read > bytes_max => Err(too_large(read, bytes_max)),
        _ => Ok(bytes),
    }
}

/// As [`read_regular`], of text.
///
/// # Errors
/// As [`read_regular`]; [`ErrorKind::InvalidData`] if it is not UTF-8.
pub fn read_regular_text(path: &Path, bytes_max: u64) -> io::Result<String> {
    let bytes = read_regular(path, bytes_max)?;
    String::from_utf8(bytes)
        .map_err(|_| io::Error::new(ErrorKind::InvalidData, "it is not UTF-8 text"))
}

/// Makes the file at `path` for writing, or empties it. A character device, such as `/dev/null`,
/// and a pipe that somebody reads are opened as they are.
///
/// # Errors
/// What the system says; [`ErrorKind::InvalidInput`], saying what it is, if it is anything else, or
/// a pipe that nobody reads: opening it would wait for a reader.
pub fn create_output(path: &Path) -> io::Result<File> {
    match std::fs::metadata(path) {
        Ok(found) => check_output(&found)?,
        Err(error) if error.kind() == ErrorKind::NotFound => {}
        Err(error) => return Err(error),
    }
    let flags = OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .write(true)
        .create(true)
        .truncate(false)
        .custom_flags(flags.bits().cast_signed())
        .open(path)
        .map_err(|error| match error.raw_os_error() {
            Some(code) if code == rustix::io::Errno::NXIO.raw_os_error() => {
                io::Error::new(ErrorKind::InvalidInput, "it is a pipe that nobody reads")
            }
            _ => error,
        })?;
    // The name may lead elsewhere by now.
    let found = file.metadata()?;
    check_output(&found)?;
    if found.is_file() {
        file.set_len(0)?;
    } else {
        rustix::fs::fcntl_setfl(&file, OFlags::empty())?;
    }
    Ok(file)
}

/// Writes a regular file under another name first, so that whoever reads meanwhile finds the old
/// one or the new one. A symbolic link is followed.
///
/// # Errors
/// What the system says; [`ErrorKind::InvalidInput`], saying what it is, if there is something else
/// than a regular file.
pub fn replace_regular(path: &Path, bytes: &[u8]) -> io::Result<()> {
    let target = match std::fs::metadata(path) {
        Ok(found) => {
            check(&found)?;
            std::fs::canonicalize(path)?
        }
        Err(error) if error.kind() == ErrorKind::NotFound => path.to_owned(),
        Err(error) => return Err(error),
    };
    let mut draft = target.clone().into_os_string();
    draft.push(".unfinished");
    // What a death left there is of no use; and a link that somebody put there is not written
    // through.
    let _ = std::fs::remove_file(&draft);
    let written = File::create_new(&draft)
        .and_then(|mut file| file.write_all(bytes))
        .and_then(|()| std::fs::rename(&draft, &target));
    if written.is_err() {
        let _ = std::fs::remove_file(&draft);
    }
    written
}

fn check_output(found: &Metadata) -> io::Result<()> {
    if found.file_type().is_char_device() || found.file_type().is_fifo() {
        return Ok(());
    }
    check(found)
}

fn check(found: &Metadata) -> io::Result<()> {
    if found.is_file() {
        return Ok(());
    }
    let kind = kind(found.file_type());
    Err(io::Error::new(
        ErrorKind::InvalidInput,
        format!("it is {kind}, not a regular file"),
    ))
}

fn kind(found: FileType) -> &'static str {
    if found.is_dir() {
        "a directory"
    } else if found.is_fifo() {
        "a pipe"
    } else if found.is_socket() {
        "a socket"
    } else {
        "a device"
    }
}

fn too_large(bytes: u64, bytes_max: u64) -> io::Error {
    io::Error::new(
        ErrorKind::FileTooLarge,
        format!("it has {bytes} bytes, and at most {bytes_max} are possible"),
    )
}

#[cfg(test)]
mod tests {
    use std::os::unix::net::UnixListener;
    use std::path::PathBuf;

    use rustix::fs::{CWD, FileType, Mode, mknodat};

    use super::*;

    /// A directory of the test's own, removed at its end.
    struct Place(PathBuf);

    impl Place {
        fn new(name: &str) -> Self {
            let name = format!("hythe-regular-{name}-{}", std::process::id());
            let path = std::env::temp_dir().join(name);
            std::fs::create_dir(&path).unwrap();
            Self(path)
        }
    }

    impl Drop for Place {
        fn drop(&mut self) {
            let _ = std::fs::remove_dir_all(&self.0);
        }
    }

    #[test]
    fn what_is_no_regular_file_is_refused_without_waiting() {
        let place = Place::new("kinds");
        let (pipe, socket) = (place.0.join("pipe"), place.0.join("socket"));
        mknodat(CWD, &pipe, FileType::Fifo, Mode::RUSR, 0).unwrap();
        let _listener = UnixListener::bind(&socket).unwrap();
        let link = place.0.join("link");
        std::os::unix::fs::symlink(&pipe, &link).unwrap();
        for (path, kind) in [
            (place.0.as_path(), "a directory"),
            (&pipe, "a pipe"),
            (&link, "a pipe"),
            (&socket, "a socket"),
            (Path::new("/dev/zero"), "a device"),
        ] {
            let error = open_regular(path).unwrap_err();
            assert_eq!(error.kind(), ErrorKind::InvalidInput, "{path:?}");
            assert_eq!(
                error.to_string(),
                format!("it is {kind}, not a regular file")
            );
            assert!(read_regular(path, 1).is_err());
        }
        let missing = open_regular(&place.0.join("missing")).unwrap_err();
        assert_eq!(missing.kind(), ErrorKind::NotFound);
    }

    #[test]
    fn as_much_as_is_possible_is_read_and_no_byte_more() {
        let place = Place::new("sizes");
        let path = place.0.join("file");
        std::fs::write(&path, b"four").unwrap();
        assert_eq!(read_regular(&path, 4).unwrap(), b"four");
        assert_eq!(read_regular_text(&path, 9).unwrap(), "four");
        let error = read_regular(&path, 3).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::FileTooLarge);
        assert!(error.to_string().contains("4 bytes"), "{error}");
        // Without bytes behind it: were it read, the test would end for want of memory.
        File::create(&path).unwrap().set_len(1 << 42).unwrap();
        assert!(read_regular(&path, 1 << 20).is_err());
        std::fs::write(&path, b"\xff").unwrap();
        let error = read_regular_text(&path, 9).unwrap_err();
        assert_eq!(error.kind(), ErrorKind::InvalidData);
    }

    #[test]
    fn kernel_files_without_size_are_read_boundedly() {
        let path = Path::new("/proc/self/maps");
        assert!(!read_regular(path, 16 << 20).unwrap().is_empty());
        assert!(read_regular(path, 10).is_err());
    }
}

//! Opening the files of a pack, and only if they are still those that were recorded.
//!
//! Called once by the survey and once by the thread that loads: between the two a file may change.
//! Never opens anything but a regular file, and never follows a symbolic link at the end of a path:
//! paths are recorded resolved.

use std::fmt;
use std::fs::File;
use std::io;
use std::os::fd::OwnedFd;
use std::path::{Path, PathBuf};

use rustix::fs::{
    Access, AtFlags, CWD, FileType, Mode, OFlags, ResolveFlags, Stat, accessat, fstat, open,
    openat2,
};
use rustix::io::Errno;
use rustix::process::geteuid;

use crate::PreloadError;
use crate::pack::PackFile;

/// Where paths of a pack begin.
#[derive(Debug)]
pub(crate) struct Root(Option<(PathBuf, OwnedFd)>);

/// A file that is still the recorded one.
#[derive(Debug)]
pub(crate) struct Opened {
    pub(crate) file: File,
    /// Number of its file system.
    pub(crate) device: u64,
    /// Does the kernel tell this process which of its pages are in the page cache?
    pub(crate) residency_visible: bool,
}

/// Why a file is not read ahead.
#[derive(Debug)]
pub(crate) enum NotThat {
    Gone,
    NotRegular,
    Size { now: u64, recorded: u64 },
    Modified { now_ns: i128, recorded_ns: i64 },
    Inode { now: u64, recorded: u64 },
    Refused(io::Error),
}

impl fmt::Display for NotThat {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Gone => f.write_str("it is gone"),
            Self::NotRegular => f.write_str("it is no regular file any more"),
            Self::Size { now, recorded } => {
                write!(f, "it has {now} bytes, {recorded} were recorded")
            }
            Self::Modified {
                now_ns,
                recorded_ns,
            } => {
                let later_ns = *now_ns - i128::from(*recorded_ns);
                let order = if later_ns < 0 { "earlier" } else { "later" };
                let apart = apart(later_ns.unsigned_abs());
                write!(f, "it was modified {apart} {order} than recorded")
            }
            Self::Inode { now, recorded } => write!(
                f,
                "it is another file: inode {now}, {recorded} was recorded"
            ),
            Self::Refused(error) => write!(f, "it cannot be opened: {error}"),
        }
    }
}

/// A time between two, as people say it.
fn apart(ns: u128) -> String {
    let seconds = ns / 1_000_000_000;
    let counted = |count: u128, unit| {
        let plural = if count == 1 { "" } else { "s" };
        format!("{count} {unit}{plural}")
    };
    match seconds {
        0 => format!("{} ms", (ns / 1_000_000).max(1)),
        1..120 => counted(seconds, "second"),
        120..7_200 => counted(seconds / 60, "minute"),
        7_200..172_800 => counted(seconds / 3_600, "hour"),
        _ => counted(seconds / 86_400, "day"),
    }
}

impl Root {
    pub(crate) fn open(root: Option<&Path>) -> Result<Self, PreloadError> {
        let Some(path) = root else {
            return Ok(Self(None));
        };
        let flags = OFlags::PATH | OFlags::DIRECTORY | OFlags::CLOEXEC;
        let directory = open(path, flags, Mode::empty())
            .map_err(io::Error::from)
            .map_err(PreloadError::file("open", path))?;
        Ok(Self(Some((path.to_owned(), directory))))
    }

    /// The path as the process sees it, for messages.
    pub(crate) fn shown(&self, path: &Path) -> PathBuf {
        let Some((root, _)) = &self.0 else {
            return path.to_owned();
        };
        root.join(path.strip_prefix("/").unwrap_or(path))
    }

    /// Opens `wanted`, if it is still that file.
    pub(crate) fn open_unchanged(
        &self,
        wanted: &PackFile,
        any_inode: bool,
    ) -> Result<Opened, NotThat> {
        // Looked at before it is opened for reading: opening a device may make it act.
        let looked = self.at(&wanted.path, OFlags::PATH)?;
        check(&stat(&looked)?, wanted, any_inode)?;
        // A fifo that took its place must not hold us up.
        let reading = OFlags::RDONLY | OFlags::NONBLOCK | OFlags::NOCTTY;
        let opened = match self.at(&wanted.path, reading | OFlags::NOATIME) {
            // Only owners may leave the time of the last access alone.
            Err(NotThat::Refused(error))
                if error.raw_os_error() == Some(Errno::PERM.raw_os_error()) =>
            {
                self.at(&wanted.path, reading)?
            }
            other => other?,
        };
        let status = stat(&opened)?;
        check(&status, wanted, any_inode)?;
        Ok(Opened {
            device: status.st_dev,
            residency_visible: residency_visible(&opened, &status),
            file: opened.into(),
        })
    }

    fn at(&self, path: &Path, flags: OFlags) -> Result<OwnedFd, NotThat> {
        let flags = flags | OFlags::NOFOLLOW | OFlags::CLOEXEC;
        let opened = match &self.0 {
            None => open(path, flags, Mode::empty()),
            Some((_, directory)) => openat2(
                directory,
                path,
                flags,
                Mode::empty(),
                ResolveFlags::IN_ROOT | ResolveFlags::NO_MAGICLINKS,
            ),
        };
        opened.map_err(|error| match error {
            Errno::NOENT | Errno::NOTDIR => NotThat::Gone,
            Errno::LOOP => NotThat::NotRegular,
            other => NotThat::Refused(other.into()),
        })
    }
}

fn stat(file: &OwnedFd) -> Result<Stat, NotThat> {
    fstat(file).map_err(|error| NotThat::Refused(error.into()))
}

fn check(status: &Stat, wanted: &PackFile, any_inode: bool) -> Result<(), NotThat> {
    if FileType::from_raw_mode(status.st_mode) != FileType::RegularFile {
        return Err(NotThat::NotRegular);
    }
    let size = u64::try_from(status.st_size).unwrap_or(0);
    if size != wanted.size {
        return Err(NotThat::Size {
            now: size,
            recorded: wanted.size,
        });
    }
    let now_ns = i128::from(status.st_mtime) * 1_000_000_000 + status.st_mtime_nsec as i128;
    if !is_same_time(now_ns, wanted.mtime_ns, any_inode) {
        return Err(NotThat::Modified {
            now_ns,
            recorded_ns: wanted.mtime_ns,
        });
    }
    if !any_inode && status.st_ino != wanted.inode {
        return Err(NotThat::Inode {
            now: status.st_ino,
            recorded: wanted.inode,
        });
    }
    Ok(())
}

/// Of a file of an image, one of the two may be known in whole seconds only: SquashFS and JFFS2
/// keep no more.
fn is_same_time(now_ns: i128, recorded_ns: i64, any_inode: bool) -> bool {
    const SECOND: i128 = 1_000_000_000;
    let recorded_ns = i128::from(recorded_ns);
    let is_whole = |ns: i128| ns.rem_euclid(SECOND) == 0;
    let either_is_whole = is_whole(now_ns) || is_whole(recorded_ns);
    now_ns == recorded_ns
        || any_inode
            && either_is_whole
            && now_ns.div_euclid(SECOND) == recorded_ns.div_euclid(SECOND)
}

/// `mincore` tells the truth to the owner of a file and to whoever may write it, and everybody else
/// that all is there.
fn residency_visible(file: &OwnedFd, status: &Stat) -> bool {
    use std::os::fd::AsRawFd;
    let user = geteuid();
    let writable = || {
        let path = format!("/proc/self/fd/{}", file.as_raw_fd());
        accessat(CWD, path, Access::WRITE_OK, AtFlags::EACCESS).is_ok()
    };
    user.is_root() || user.as_raw() == status.st_uid || writable()
}

#[cfg(test)]
mod tests {
    use super::{NotThat, is_same_time};

    #[test]
    fn whole_seconds_stand_for_times_within_them_in_images_only() {
        for (now, recorded, in_image) in [
            (100_000_000_000, 100_700_000_000, true),
            (100_700_000_000, 100_000_000_000, true),
            (-2_000_000_000, -1_000_000_001, true),
            (100_200_000_000, 100_700_000_000, false),
            (101_000_000_000, 100_700_000_000, false),
            (100_700_000_000, 101_000_000_000, false),
            (i128::from(i64::MAX) * 2, i64::MAX, false),
        ] {
            assert_eq!(
                is_same_time(now, recorded, true),
                in_image,
                "{now} {recorded}"
            );
            assert!(!is_same_time(now, recorded, false), "{now} {recorded}");
        }
        assert!(is_same_time(5, 5, false) && is_same_time(5, 5, true));
    }

    #[test]
    fn times_between_changes_read_as_people_say_them() {
        let said = |now_ns, recorded_ns| {
            let modified = NotThat::Modified {
                now_ns,
                recorded_ns,
            };
            modified.to_string()
        };
        let (second, day) = (1_000_000_000, 86_400 * 1_000_000_000);
        let months = said(203 * day + 32_767_975_767_042, 0);
        assert_eq!(months, "it was modified 203 days later than recorded");
        assert_eq!(
            said(0, 1_000_000_000),
            "it was modified 1 second earlier than recorded"
        );
        assert!(said(1, 0).contains(" 1 ms later "));
        assert!(said(150 * second, 0).contains(" 2 minutes later "));
    }
}

//! What is mounted, as the calling thread sees it, and whether that has pages of a disk.
//!
//! Read from `/proc`, which must be mounted itself. Never mounts anything.

use std::ffi::OsString;
use std::fs::File;
use std::io::{Read, Seek};
use std::os::fd::{AsFd, BorrowedFd};
use std::os::unix::ffi::OsStringExt;
use std::path::{Path, PathBuf};

use crate::PreloadError;

/// File systems whose files are the kernel's own words, or are in memory anyway.
const PSEUDO: &[&str] = &[
    "autofs",
    "binder",
    "binfmt_misc",
    "bpf",
    "cgroup",
    "cgroup2",
    "configfs",
    "debugfs",
    "devpts",
    "devtmpfs",
    "efivarfs",
    "fusectl",
    "hugetlbfs",
    "mqueue",
    "nfsd",
    "nsfs",
    "pipefs",
    "proc",
    "pstore",
    "ramfs",
    "resctrl",
    "rootfs",
    "rpc_pipefs",
    "securityfs",
    "selinuxfs",
    "smackfs",
    "sockfs",
    "sysfs",
    "tmpfs",
    "tracefs",
];

const MOUNTS: &str = "/proc/thread-self/mountinfo";

/// One mount.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    /// The kernel's number for it.
    pub(super) number: u64,
    /// `MAJOR:MINOR` of its file system.
    pub(super) device: String,
    /// Where it is.
    pub(super) point: PathBuf,
    /// Mounts below it appear elsewhere, too.
    pub(super) shared: bool,
    /// What kind of file system.
    pub(super) kind: String,
}

impl Mount {
    /// Its files are somewhere that is slower than memory.
    pub(super) fn is_storage(&self) -> bool {
        !PSEUDO.contains(&self.kind.as_str())
    }
}

/// The mounts of the calling thread, and a descriptor that tells when they change.
#[derive(Debug)]
pub(super) struct Mounts {
    file: File,
    all: Vec<Mount>,
}

impl Mounts {
    /// Reads them.
    pub(super) fn read() -> Result<Self, PreloadError> {
        let file = File::open(MOUNTS).map_err(PreloadError::file("read", MOUNTS))?;
        let mut mounts = Self {
            file,
            all: Vec::new(),
        };
        mounts.again()?;
        Ok(mounts)
    }

    /// Reads them anew.
    pub(super) fn again(&mut self) -> Result<(), PreloadError> {
        let mut text = Vec::new();
        self.file
            .rewind()
            .and_then(|()| self.file.read_to_end(&mut text))
            .map_err(PreloadError::file("read", MOUNTS))?;
        let lines = text.split(|byte| *byte == b'\n');
        self.all = lines.filter_map(mount).collect();
        Ok(())
    }

    /// In the order in which they were mounted.
    pub(super) fn all(&self) -> &[Mount] {
        &self.all
    }

    /// The mount in which a path without symbolic links ends.
    pub(super) fn holding(&self, path: &Path) -> Option<&Mount> {
        let above = self
            .all
            .iter()
            .filter(|mount| path.starts_with(&mount.point));
        // Of several on one point, the last is the one that is seen: `max_by_key` takes the last.
        above.max_by_key(|mount| mount.point.as_os_str().len())
    }
}

impl AsFd for Mounts {
    /// Has an exceptional condition (`POLLPRI`) when the mounts changed.
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// One line: number, parent, device, root, point, options, optional fields up to a hyphen, kind,
/// source, options.
fn mount(line: &[u8]) -> Option<Mount> {
    let text = |field: &[u8]| String::from_utf8_lossy(field).into_owned();
    let mut fields = line.split(|byte| *byte == b' ');
    let number = text(fields.next()?).parse().ok()?;
    let device = text(fields.nth(1)?);
    let point = unescape(fields.nth(1)?);
    let mut rest = fields.skip(1);
    let mut shared = false;
    for field in rest.by_ref().take_while(|field| *field != b"-") {
        shared |= field.starts_with(b"shared:");
    }
    let kind = text(rest.next()?);
    Some(Mount {
        number,
        device,
        point,
        shared,
        kind,
    })
}

/// Paths in `/proc` have spaces and the like as a backslash and three octal digits.
pub(super) fn unescape(bytes: &[u8]) -> PathBuf {
    let mut plain = Vec::with_capacity(bytes.len());
    let mut rest = bytes;
    while let Some((first, behind)) = rest.split_first() {
        let digits = behind.get(..3).filter(|digits| {
            *first == b'\\' && digits.iter().all(|digit| (b'0'..=b'7').contains(digit))
        });
        match digits {
            Some(digits) => {
                let value = digits
                    .iter()
                    .fold(0_u32, |value, digit| value * 8 + u32::from(digit - b'0'));
                // Three octal digits of a byte.
                plain.push(value as u8);
                rest = &behind[3..];
            }
            None => {
                plain.push(*first);
                rest = behind;
            }
        }
    }
    OsString::from_vec(plain).into()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_are_understood() {
        let line = b"36 35 98:0 /mnt1 /mnt\\0402 rw,noatime master:1 shared:7 - ext3 /dev/root rw,errors=continue";
        let expected = Mount {
            number: 36,
            device: "98:0".to_owned(),
            point: "/mnt 2".into(),
            shared: true,
            kind: "ext3".to_owned(),
        };
        assert_eq!(mount(line), Some(expected));
        let plain = mount(b"22 27 0:21 / /proc rw - proc proc rw").unwrap();
        assert!(!plain.shared && !plain.is_storage());
        assert_eq!(mount(b""), None);
        assert_eq!(unescape(b"a\\134b\\"), Path::new("a\\b\\"));
    }

    #[test]
    fn path_is_in_the_deepest_mount_and_the_last_of_a_point() {
        let named = |number: u64, point: &str| Mount {
            number,
            device: "1:1".to_owned(),
            point: point.into(),
            shared: false,
            kind: "ext4".to_owned(),
        };
        let file = File::open("/proc/self/mountinfo").unwrap();
        let all = vec![
            named(1, "/"),
            named(2, "/usr"),
            named(3, "/usr"),
            named(4, "/us"),
        ];
        let mounts = Mounts { file, all };
        let number = |path: &str| mounts.holding(Path::new(path)).map(|mount| mount.number);
        assert_eq!(number("/usr/lib/a"), Some(3));
        assert_eq!(number("/used"), Some(1));
    }

    #[test]
    fn here_something_is_mounted() {
        let mounts = Mounts::read().unwrap();
        assert!(
            mounts
                .holding(Path::new("/proc/self"))
                .is_some_and(|mount| !mount.is_storage())
        );
        assert!(mounts.all().iter().any(|mount| mount.kind == "proc"));
    }
}

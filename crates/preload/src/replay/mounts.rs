//! Which file system a device number stands for, for messages and for the choice of a method.
//!
//! Never needed for reading ahead: without `/proc` file systems only have no names.

use std::fs;
use std::path::Path;

use rustix::fs::{major, minor};

/// Kind and place of a mounted file system.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mount {
    pub(super) kind: String,
    pub(super) place: String,
}

/// What is mounted now, as `/proc/self/mountinfo` tells it.
#[derive(Debug, Default)]
pub(super) struct Mounts(String);

impl Mounts {
    pub(super) fn read() -> Self {
        Self(fs::read_to_string("/proc/self/mountinfo").unwrap_or_default())
    }

    /// The first mount of `device`. Files of btrfs and overlayfs have numbers that no mount has:
    /// there, the last one that is on the way to `path`. A name made of the number where there is
    /// none.
    pub(super) fn find(&self, device: u64, path: &Path) -> Mount {
        let (major, minor) = (major(device), minor(device));
        let number = format!("{major}:{minor}");
        let mounts = || self.0.lines().filter_map(parse);
        let of_device = mounts().find(|(found, _)| *found == number);
        let found = of_device.map(|(_, mount)| mount).or_else(|| {
            let path = fs::canonicalize(path).ok()?;
            let on_the_way = mounts().map(|(_, mount)| mount);
            let on_the_way = on_the_way.filter(|mount| path.starts_with(&mount.place));
            // Of two at one place the later one covers the other.
            on_the_way.max_by_key(|mount| mount.place.len())
        });
        found.unwrap_or_else(|| Mount {
            kind: "unknown".to_owned(),
            place: format!("device {number}"),
        })
    }
}

/// `36 35 8:1 / /mnt\040x rw - ext4 /dev/sda1 rw`, with any number of optional fields before the
/// dash.
fn parse(line: &str) -> Option<(&str, Mount)> {
    let (head, tail) = line.split_once(" - ")?;
    let mut fields = head.split(' ').skip(2);
    let number = fields.next()?;
    let place = fields.nth(1)?;
    let mount = Mount {
        kind: tail.split(' ').next()?.to_owned(),
        place: place.replace("\\040", " "),
    };
    Some((number, mount))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_are_found_by_number() {
        let mounts = Mounts(
            "22 1 0:20 / /proc rw - proc proc rw\n\
             36 35 98:0 / /mnt\\040x rw,noatime master:1 - ext4 /dev/root rw\n"
                .to_owned(),
        );
        let found = mounts.find(rustix::fs::makedev(98, 0), Path::new("/"));
        assert_eq!(
            (found.kind.as_str(), found.place.as_str()),
            ("ext4", "/mnt x")
        );
        let unknown = mounts.find(rustix::fs::makedev(7, 9), Path::new("/"));
        assert_eq!(unknown.place, "device 7:9");
    }

    #[test]
    fn files_of_numberless_mounts_name_their_mount() {
        // btrfs(5): st_dev of a file is its subvolume's, which no line has.
        let mounts = Mounts(
            "22 1 0:20 / / rw - ext4 /dev/root rw\n\
             23 22 0:31 /@home /proc/self rw - btrfs /dev/sda2 rw\n\
             24 22 0:20 / /proc rw - proc proc rw\n"
                .to_owned(),
        );
        let own = fs::canonicalize("/proc/self").expect("a link to a folder");
        let mounts = Mounts(mounts.0.replace("/proc/self", &own.to_string_lossy()));
        let path = own.join("status");
        let found = mounts.find(rustix::fs::makedev(0, 40), &path);
        assert_eq!(found.kind, "btrfs");
        assert_eq!(Path::new(&found.place), own);
        let other = mounts.find(rustix::fs::makedev(0, 40), Path::new("/proc/stat"));
        assert_eq!(other.kind, "proc");
    }
}

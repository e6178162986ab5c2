//! Which file system a device number stands for, for messages and for the choice of a method.
//!
//! Never needed for reading ahead: without `/proc` file systems only have no names.

use std::fs;

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

    /// The first mount of `device`; a name made of its number where there is none.
    pub(super) fn find(&self, device: u64) -> Mount {
        let (major, minor) = (major(device), minor(device));
        let number = format!("{major}:{minor}");
        let found = self.0.lines().find_map(|line| parse(line, &number));
        found.unwrap_or_else(|| Mount {
            kind: "unknown".to_owned(),
            place: format!("device {number}"),
        })
    }
}

/// `36 35 8:1 / /mnt\040x rw - ext4 /dev/sda1 rw`, with any number of optional fields before the
/// dash.
fn parse(line: &str, number: &str) -> Option<Mount> {
    let (head, tail) = line.split_once(" - ")?;
    let mut fields = head.split(' ').skip(2);
    if fields.next()? != number {
        return None;
    }
    let place = fields.nth(1)?;
    Some(Mount {
        kind: tail.split(' ').next()?.to_owned(),
        place: place.replace("\\040", " "),
    })
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
        let found = mounts.find(rustix::fs::makedev(98, 0));
        assert_eq!(
            (found.kind.as_str(), found.place.as_str()),
            ("ext4", "/mnt x")
        );
        let unknown = mounts.find(rustix::fs::makedev(7, 9));
        assert_eq!(unknown.place, "device 7:9");
    }
}

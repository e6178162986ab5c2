//! What running processes have in use: the files that they map, and those that they have open.
//!
//! Asked before a command is recorded, because pages that are mapped stay in memory when the caches
//! are dropped, and at the start of the recording of a boot, because those files were used before
//! anybody looked. Processes that end meanwhile are passed by. Never opens what it finds: it
//! compares names and inodes.

use std::collections::HashMap;
use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use super::Inode;
use super::mounts::unescape;

/// A file that processes map.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Mapped {
    /// A name by which it is found.
    pub(super) path: PathBuf,
    pub(super) inode: Inode,
    /// How many processes.
    pub(super) processes: u32,
    /// A process may be changing it through a mapping.
    pub(super) written: bool,
}

/// Files that every program maps, or reads, for the moment in which it starts: at any instant
/// nobody may, and meanwhile somebody does.
const MAPPED_BY_ALL: [&str; 1] = ["/etc/ld.so.cache"];

/// [`MAPPED_BY_ALL`], as if all processes did at this moment; those in `mapped` already left out.
pub(super) fn mapped_by_all(mapped: &[Mapped]) -> Vec<Mapped> {
    let all = MAPPED_BY_ALL.iter().filter_map(|path| {
        let path = PathBuf::from(path);
        let inode = regular(&path)?;
        Some(Mapped {
            path,
            inode,
            processes: u32::MAX,
            written: false,
        })
    });
    all.filter(|found| mapped.iter().all(|known| known.inode != found.inode))
        .collect()
}

/// Every regular file that a process maps, those of `but` not asked; oldest process first.
pub(super) fn mapped_files(but: &[u32]) -> Vec<Mapped> {
    let mut found: Vec<Mapped> = Vec::new();
    // By what a line names: most lines name what another line named before.
    let mut known: HashMap<(PathBuf, u64), Option<usize>> = HashMap::new();
    let mut inodes: HashMap<Inode, usize> = HashMap::new();
    for process in processes(but) {
        let Ok(maps) = fs::read(process.join("maps")) else {
            continue;
        };
        let mut of_this: Vec<usize> = Vec::new();
        for (path, number, written) in maps.split(|byte| *byte == b'\n').filter_map(mapping) {
            let index = known
                .entry((path, number))
                .or_insert_with_key(|(path, number)| {
                    let inode = regular(path).filter(|inode| inode.number == *number)?;
                    Some(*inodes.entry(inode).or_insert_with(|| {
                        found.push(Mapped {
                            path: path.clone(),
                            inode,
                            processes: 0,
                            written: false,
                        });
                        found.len() - 1
                    }))
                });
            if let Some(index) = *index {
                found[index].written |= written;
                of_this.push(index);
            }
        }
        of_this.sort_unstable();
        of_this.dedup();
        for index in of_this {
            found[index].processes += 1;
        }
    }
    found
}

/// Names of the files that processes have open, those of `but` not asked; oldest process first. Not
/// all are regular files.
pub(super) fn open_files(but: &[u32]) -> Vec<PathBuf> {
    let open = processes(but)
        .into_iter()
        .filter_map(|process| fs::read_dir(process.join("fd")).ok());
    let links = open.flat_map(|directory| directory.flatten().map(|entry| entry.path()));
    links
        .filter_map(|link| fs::read_link(link).ok())
        .filter(|path| path.is_absolute())
        .collect()
}

/// The directories of the processes, in the order of their numbers.
fn processes(but: &[u32]) -> Vec<PathBuf> {
    let Ok(all) = fs::read_dir("/proc") else {
        return Vec::new();
    };
    let mut numbers: Vec<u32> = all
        .flatten()
        .filter_map(|entry| entry.file_name().to_str()?.parse().ok())
        .filter(|number| !but.contains(number))
        .collect();
    numbers.sort_unstable();
    numbers
        .iter()
        .map(|number| Path::new("/proc").join(number.to_string()))
        .collect()
}

fn regular(path: &Path) -> Option<Inode> {
    let metadata = fs::symlink_metadata(path).ok()?;
    metadata.is_file().then(|| Inode::of(&metadata))
}

/// File, inode number, and whether it may be written through it, of one line: addresses,
/// permissions, offset, device, inode, path.
///
/// The device is not compared: on btrfs and overlays, this is another number than `stat` tells.
fn mapping(line: &[u8]) -> Option<(PathBuf, u64, bool)> {
    let mut fields = line.splitn(6, |byte| *byte == b' ');
    let permissions = fields.nth(1)?;
    let number = std::str::from_utf8(fields.nth(2)?).ok()?.parse().ok()?;
    let path = fields.next()?.trim_ascii_start();
    if !path.starts_with(b"/") || path.ends_with(b" (deleted)") {
        return None;
    }
    let written = permissions.get(1) == Some(&b'w') && permissions.get(3) == Some(&b's');
    Some((unescape(path), number, written))
}

impl Inode {
    pub(super) fn of(metadata: &fs::Metadata) -> Self {
        Self {
            device: metadata.dev(),
            number: metadata.ino(),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_maps_are_understood() {
        let line = b"7f00-7f01 rw-s 00001000 fe:00 1234                       /usr/lib/a b.so";
        assert_eq!(mapping(line), Some(("/usr/lib/a b.so".into(), 1234, true)));
        let read_only = b"7f00-7f01 r--s 00001000 fe:00 1234 /usr/lib/gconv.cache";
        assert_eq!(
            mapping(read_only).map(|(_, _, written)| written),
            Some(false)
        );
        for line in [
            &b"7f00-7f01 rw-p 00000000 00:00 0 "[..],
            b"7ffc-7ffd rw-p 00000000 00:00 0                          [stack]",
            b"7f00-7f01 r-xp 00000000 fe:00 99                     /tmp/x (deleted)",
            b"",
        ] {
            assert_eq!(mapping(line), None);
        }
    }

    #[test]
    fn this_program_is_mapped_by_this_process() {
        let own = fs::canonicalize("/proc/self/exe").unwrap();
        assert!(
            mapped_files(&[std::process::id()])
                .iter()
                .all(|mapped| mapped.path != own)
        );
        let found = mapped_files(&[]);
        let this = found.iter().find(|mapped| mapped.path == own).unwrap();
        assert!(this.processes >= 1);
        assert_eq!(regular(&own), Some(this.inode));
    }
}

//! Whether a file system reads ahead when asked: tried on each that is mounted and writable.
//!
//! A file without a name is written, dropped from the page cache, asked for with
//! `posix_fadvise(WILLNEED)`, and its pages in the cache are counted. UBIFS and JFFS2 take the
//! request and load nothing; there, reading in a thread is the way.

use std::fs::{self, File};
use std::io::{self, Write};
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::os::unix::fs::MetadataExt;
use std::path::Path;
use std::time::{Duration, Instant};
use std::{env, process, thread};

use hythe_sys::probe::resident_pages;
use hythe_terminal::escaped;
use rustix::fs::{Advice, Mode, OFlags, fadvise, open};
use rustix::io::Errno;
use rustix::param::page_size;

use super::{Group, Probe};

/// Less than what one request may load anywhere (128 KiB is the least window in use).
const FILE_BYTES: usize = 128 << 10;
/// How long the pages may take to come; a slow flash delivers this in a tenth of it.
const TIMEOUT: Duration = Duration::from_secs(2);
const LOOK_INTERVAL: Duration = Duration::from_millis(2);
/// File systems that are on a disk, on flash or in memory, and hold files. Others (proc, cgroup and
/// the like) are not for data.
const KINDS: [&str; 13] = [
    "ext2", "ext3", "ext4", "xfs", "btrfs", "f2fs", "ubifs", "jffs2", "vfat", "exfat", "ntfs3",
    "tmpfs", "overlay",
];
/// Those measured to take the request and load nothing, should they not be writable here.
const KNOWN_TO_LOAD_NOTHING: [&str; 2] = ["ubifs", "jffs2"];
/// Those that live in memory.
const IN_MEMORY: [&str; 1] = ["tmpfs"];

const READ_INSTEAD: &str = "read in a thread instead (hythe preload does)";

pub(super) fn probe() -> Vec<Probe> {
    let mounts = fs::read_to_string("/proc/mounts").unwrap_or_default();
    let mut probes: Vec<Probe> = Vec::new();
    for (place, kind) in mounts.lines().filter_map(parse) {
        let name = format!("read ahead, {kind}");
        // One file system of a kind is enough; a later one counts if an earlier could not be tried.
        let position = probes.iter().position(|probe| probe.name == name);
        if position.is_some_and(|at| probes[at].status != super::Status::Unknown) {
            continue;
        }
        let probe = try_on(Path::new(&place), &kind)
            .unwrap_or_else(|error| not_tried(&name, &kind, &format!("{place}: {error}")));
        match position {
            Some(at) => probes[at] = probe,
            None => probes.push(probe),
        }
    }
    if probes.is_empty() {
        probes.push(Probe::unknown(
            Group::Storage,
            "read ahead",
            "no file system is mounted",
        ));
    }
    probes
}

fn not_tried(name: &str, kind: &str, why: &str) -> Probe {
    if KNOWN_TO_LOAD_NOTHING.contains(&kind) {
        let detail = format!("not tried ({why}), but {kind} is known to load nothing");
        return Probe::missing(Group::Storage, name, detail).enable(READ_INSTEAD);
    }
    Probe::unknown(Group::Storage, name, why)
        .enable("make a folder on it writable for this user, and run again")
}

/// Place and kind of a mount, if it is one for data. Blanks in places are written as `\040`.
fn parse(line: &str) -> Option<(String, String)> {
    let mut fields = line.split(' ').skip(1);
    let place = fields.next()?.replace("\\040", " ");
    let kind = fields.next()?;
    KINDS.contains(&kind).then(|| (place, kind.to_owned()))
}

fn try_on(place: &Path, kind: &str) -> io::Result<Probe> {
    let name = format!("read ahead, {kind}");
    let mut file = scratch_file(place)?;
    file.write_all(&[0x5a; FILE_BYTES])?;
    file.sync_all()?;
    fadvise(&file, 0, None, Advice::DontNeed)?;

    let pages = FILE_BYTES / page_size();
    let shown = escaped(&place);
    let left = resident_pages(&file, FILE_BYTES)?;
    if IN_MEMORY.contains(&kind) {
        return Ok(Probe::works(
            Group::Storage,
            name,
            format!("{shown} is in memory: nothing to load"),
        ));
    }
    if left > pages / 2 {
        let detail =
            format!("{shown}: {left} of {pages} pages could not be dropped from the cache");
        return Ok(Probe::unknown(Group::Storage, name, detail));
    }
    let loaded = load(&file, pages)?;
    let detail = format!("{shown}: {loaded} of {pages} pages came when asked for");
    if loaded == pages {
        return Ok(Probe::works(Group::Storage, name, detail));
    }
    Ok(Probe::missing(Group::Storage, name, detail).enable(READ_INSTEAD))
}

/// A file without a name on the file system that is mounted at `place`: gone when closed.
fn scratch_file(place: &Path) -> io::Result<File> {
    let device = fs::metadata(place)?.dev();
    // Not every user may write at the top; these folders are often writable, if on this device.
    let others = [
        env::temp_dir(),
        env::current_dir()?,
        env::home_dir().unwrap_or_default(),
    ];
    let others = others
        .into_iter()
        .filter(|folder| fs::metadata(folder).is_ok_and(|metadata| metadata.dev() == device));
    let mut tried = scratch_file_in(place);
    for folder in others {
        tried = tried.or_else(|_| scratch_file_in(&folder));
    }
    tried
}

fn scratch_file_in(folder: &Path) -> io::Result<File> {
    let flags = OFlags::RDWR | OFlags::CLOEXEC;
    let mode = Mode::RUSR | Mode::WUSR;
    match open(folder, flags | OFlags::TMPFILE, mode) {
        // Not every file system has files without names: there it loses it at once.
        Err(Errno::OPNOTSUPP | Errno::ISDIR) => {
            let path = folder.join(format!(".hythe-doctor-{}", process::id()));
            let file = open(&path, flags | OFlags::CREATE | OFlags::EXCL, mode)?;
            fs::remove_file(&path)?;
            Ok(file.into())
        }
        other => Ok(other?.into()),
    }
}

/// Asks for the whole file and waits until it is there, or for as long as it may take.
fn load(file: impl AsFd, pages: usize) -> io::Result<usize> {
    fadvise(
        &file,
        0,
        NonZeroU64::new(FILE_BYTES as u64),
        Advice::WillNeed,
    )?;
    let start = Instant::now();
    loop {
        let loaded = resident_pages(&file, FILE_BYTES)?;
        if loaded == pages || start.elapsed() > TIMEOUT {
            return Ok(loaded);
        }
        thread::sleep(LOOK_INTERVAL);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn mounts_for_data_are_told_from_others() {
        let line = "/dev/ubi0_0 /mnt/my\\040flash ubifs rw,relatime 0 0";
        assert_eq!(parse(line), Some(("/mnt/my flash".into(), "ubifs".into())));
        assert_eq!(parse("proc /proc proc rw 0 0"), None);
        assert_eq!(parse(""), None);
    }
}

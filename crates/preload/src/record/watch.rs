//! The events of a recording: which files are opened and written, by whomever or in one name space.
//!
//! The calling thread's mounts are marked, and those that come later as soon as they are seen.
//! Names are asked for at once, while they still hold. Never keeps a file open: that would hold up
//! whoever unmounts it.

use std::collections::HashSet;
use std::fs::File;
use std::os::fd::{AsFd, AsRawFd};
use std::path::{Path, PathBuf};
use std::time::Duration;

use hythe_sys::fanotify::{Event, Group, Queue, Scope};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::io::Errno;

use super::Inode;
use super::mounts::{Mount, Mounts};
use super::table::Table;
use crate::PreloadError;

/// Events that are taken before anything else is looked at again.
const AT_A_TIME: u64 = 1 << 14;
/// Events that are taken at the end at most. Only a machine that opens files faster than we read
/// has more.
const AT_THE_END: u64 = 1 << 22;

/// Marks, and counts of what they told.
#[derive(Debug)]
pub(super) struct Watch {
    group: Group,
    mounts: Mounts,
    scope: Scope,
    /// By the kernel's numbers of the mounts.
    marked: HashSet<u64>,
    /// Mounts of storage that cannot be watched.
    pub(super) unwatched: Vec<PathBuf>,
    /// Events that were told.
    pub(super) events: u64,
    /// How often the kernel said that events were lost.
    pub(super) lost: u64,
}

impl Watch {
    /// Watches all storage that is mounted.
    pub(super) fn begin(queue: Queue, scope: Scope) -> Result<Self, PreloadError> {
        let group = Group::new(queue).map_err(refused)?;
        let mut watch = Self {
            group,
            mounts: Mounts::read()?,
            scope,
            marked: HashSet::new(),
            unwatched: Vec::new(),
            events: 0,
            lost: 0,
        };
        watch.mark_new()?;
        Ok(watch)
    }

    /// Waits for events or new mounts, at most for `tick`. True: something was mounted or
    /// unmounted.
    pub(super) fn wait(&mut self, tick: Duration) -> Result<bool, PreloadError> {
        let timeout = Timespec {
            tv_sec: tick.as_secs().cast_signed(),
            tv_nsec: tick.subsec_nanos().into(),
        };
        let mut both = [
            PollFd::from_borrowed_fd(self.group.as_fd(), PollFlags::IN),
            PollFd::from_borrowed_fd(self.mounts.as_fd(), PollFlags::PRI),
        ];
        match poll(&mut both, Some(&timeout)) {
            Ok(_) | Err(Errno::INTR) => {}
            Err(error) => return Err(PreloadError::file("wait for events of", "/")(error.into())),
        }
        Ok(both[1].revents().contains(PollFlags::PRI))
    }

    /// Marks what was mounted since the last time. True: there was some.
    pub(super) fn mark_new(&mut self) -> Result<bool, PreloadError> {
        self.mounts.again()?;
        let before = self.marked.len();
        for mount in self.mounts.all() {
            if !mount.is_storage() || !self.marked.insert(mount.number) {
                continue;
            }
            let marked = self.group.mark(&mount.point, self.scope).or_else(|error| {
                // Before Linux 4.20 there are only mounts to be marked.
                match Errno::from_io_error(&error) {
                    Some(Errno::INVAL) => self.group.mark(&mount.point, Scope::Mount),
                    _ => Err(error),
                }
            });
            if marked.is_err() {
                self.unwatched.push(mount.point.clone());
            }
        }
        Ok(self.marked.len() > before)
    }

    /// Is this path one of storage, as far as was seen by now?
    pub(super) fn is_storage(&self, path: &Path) -> bool {
        self.mounts.holding(path).is_some_and(Mount::is_storage)
    }

    /// Enters what waits into the table, and returns in any case after some thousands.
    pub(super) fn take(&mut self, table: &mut Table) -> Result<(), PreloadError> {
        self.take_at_most(AT_A_TIME, table)
    }

    /// Enters all that waits.
    pub(super) fn take_rest(&mut self, table: &mut Table) -> Result<(), PreloadError> {
        self.take_at_most(AT_THE_END, table)
    }

    fn take_at_most(&mut self, limit: u64, table: &mut Table) -> Result<(), PreloadError> {
        let own = std::process::id();
        let end = self.events.saturating_add(limit);
        while self.events < end {
            let mut lost = 0;
            let count = self.group.read(|event| {
                lost += u64::from(event.lost);
                if event.process != own {
                    enter(event, table);
                }
            });
            let count = count.map_err(PreloadError::file("read events of", "/"))?;
            if count == 0 {
                break;
            }
            self.events += count as u64;
            self.lost += lost;
        }
        Ok(())
    }
}

/// Could we watch?
pub(super) fn is_possible() -> Result<(), PreloadError> {
    Group::new(Queue::Limited).map(drop).map_err(refused)
}

fn enter(event: Event, table: &mut Table) {
    let Some(file) = event.file.map(File::from) else {
        return;
    };
    let Ok(metadata) = file.metadata() else {
        return;
    };
    if !metadata.is_file() {
        return;
    }
    let inode = Inode::of(&metadata);
    if event.opened {
        let link = format!("/proc/thread-self/fd/{}", file.as_raw_fd());
        table.opened(&metadata, || std::fs::read_link(link).ok());
    }
    if event.modified {
        table.modified(inode);
    }
    if event.closed_after_writing {
        table.closed_after_writing(inode);
    }
}

fn refused(error: std::io::Error) -> PreloadError {
    match Errno::from_io_error(&error) {
        Some(Errno::PERM) => PreloadError::NotPermitted,
        Some(Errno::NOSYS) => PreloadError::NoFanotify,
        _ => PreloadError::file("watch", "/")(error),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashMap;
    use std::fs;

    /// Most files for which the test makes the queue run over.
    const MOST: u64 = 50_000;

    /// How many events may wait; before Linux 5.13 this is fixed.
    fn limit() -> u64 {
        let text = fs::read_to_string("/proc/sys/fs/fanotify/max_queued_events");
        text.map_or(16_384, |text| text.trim().parse().unwrap())
    }

    /// Opens so many files of their own in a thread with mounts of its own, unread by its watch.
    fn lost_of(files: u64, queue: Queue) -> (u64, usize) {
        let run = move || {
            hythe_sys::namespaces::unshare_mounts().unwrap();
            let directory = tempfile::tempdir_in(env!("CARGO_MANIFEST_DIR")).unwrap();
            let mut watch = Watch::begin(queue, Scope::Mount).unwrap();
            let mut table = Table::new(HashMap::new());
            // Own events do not count, so a child opens the files.
            let opened = std::process::Command::new("sh")
                .args([
                    "-c",
                    "i=0; while [ $i -lt $0 ]; do : > $i; i=$((i+1)); done",
                ])
                .arg(files.to_string())
                .current_dir(directory.path())
                .status()
                .unwrap();
            assert!(opened.success());
            watch.take_rest(&mut table).unwrap();
            (watch.lost, table.len())
        };
        std::thread::spawn(run).join().unwrap()
    }

    #[test]
    fn lost_events_are_noticed() {
        if let Err(error) = is_possible() {
            return println!("skipped: {error}");
        }
        let here = Path::new(env!("CARGO_MANIFEST_DIR"));
        let mounts = Mounts::read().unwrap();
        if !mounts.holding(here).is_some_and(Mount::is_storage) {
            return println!("skipped: {} is in memory", here.display());
        }
        let many = limit() + 100;
        if many > MOST {
            return println!("skipped: the queue takes {} events", limit());
        }
        let (lost, _) = lost_of(many, Queue::Limited);
        assert!(lost > 0);
        let few = 100;
        for queue in [Queue::Limited, Queue::Unlimited] {
            let (lost, found) = lost_of(few, queue);
            assert_eq!(lost, 0);
            // And those that `sh` itself opened.
            assert!(found as u64 >= few, "{found} of {few}");
        }
    }
}

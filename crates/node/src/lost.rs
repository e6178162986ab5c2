//! Is the pool still there? Asked where acts and waits end.
//!
//! A thread that touches a page without a byte behind it does not die (`hythe_memory::faults`): the
//! mapping becomes zeroes, and whatever was going on comes to some end on them, as it would on a
//! liar's words. Here that end becomes [`NodeError::PoolLost`].
//!
//! Files that were removed stay mapped as they are, and newcomers make another pool of that name.
//! So the watcher, and whoever opens a port, compare from time to time what the name leads to with
//! what is mapped ([`Pool::check_found`]); a process that is no longer taken for a participant
//! notices that, too. Once noted, a loss is found by each act. Never repairs anything.

use std::path::PathBuf;
use std::sync::atomic::Ordering;

use hythe_abi::RegionIndex;
use hythe_abi::pool::REGIONS_MAX;
use hythe_memory::{Mapped, faults};
use hythe_pool::ObjectTable;
use rustix::fs::{self, AtFlags};
use rustix::io::Errno;

use crate::NodeError;
use crate::error::{Loss, REMAKE, RESTART};
use crate::object::OBJECTS;
use crate::pool::Pool;
use crate::pool::directory::MEMBERS;
use crate::pool::files::Place;

const REMOVED: &str = "removed, by hand, by a clean-up, or at the end of its user's last session \
                       (RemoveIPC of systemd-logind, see `hythe doctor`)";

const CLOSED: &str = "closed by this program, with other descriptors that it had not opened; close \
                      only what the program opened, or close before joining (`closefrom`)";

/// What a call fails with whose descriptor, of the socket at `path`, the program has closed.
#[must_use]
pub fn descriptor_lost(path: PathBuf) -> NodeError {
    NodeError::PoolLost {
        path,
        what: CLOSED.to_owned(),
    }
}

impl Pool {
    /// Is every file of the pool that this process has touched still whole? One look at one word,
    /// nearly always.
    ///
    /// # Errors
    /// [`NodeError::PoolLost`] naming the file.
    #[inline]
    pub fn check_whole(&self) -> Result<(), NodeError> {
        let losses = faults::losses();
        if losses == 0 {
            return Ok(());
        }
        self.look_for_loss(losses)
    }

    /// The same, and of the file of semaphores and message queues, of which channels know nothing.
    #[inline]
    pub(crate) fn check_objects_whole(&self) -> Result<(), NodeError> {
        self.check_whole()?;
        let objects = self.objects_place().get().map(ObjectTable::memory);
        let lost = objects.filter(|map| map.is_lost());
        lost.map_or(Ok(()), |map| Err(self.lost(OBJECTS, map)))
    }

    /// What came of an act, if the pool is whole behind it; else nothing that it says can be
    /// believed.
    #[inline]
    pub(crate) fn unless_lost<T>(&self, outcome: Result<T, NodeError>) -> Result<T, NodeError> {
        self.check_whole()?;
        outcome
    }

    /// Does the pool's name still lead to the files that this process has mapped? Two system calls.
    ///
    /// # Errors
    /// [`NodeError::PoolLost`], also of all acts from then on.
    pub fn check_found(&self) -> Result<(), NodeError> {
        self.check_whole()?;
        let Some(what) = self.what_happened() else {
            return Ok(());
        };
        self.note_loss(Loss {
            path: self.path().join("control"),
            what: format!("{what}; {RESTART}"),
            misses_descriptors: false,
        });
        self.check_whole()
    }

    /// A file that is missing is a loss, if it is missing in a pool that was removed.
    pub(crate) fn unless_removed(&self, error: NodeError) -> NodeError {
        let NodeError::File { source, .. } = &error else {
            return error;
        };
        match source.kind() {
            std::io::ErrorKind::NotFound => self.check_found().err().unwrap_or(error),
            _ => error,
        }
    }

    /// Notes that this process has closed its liveness socket: newcomers cannot see that it lives.
    pub(crate) fn lose_descriptors(&self, session: u32) {
        let socket = self.path().join(MEMBERS).join(session.to_string());
        self.note_loss(Loss {
            path: socket,
            what: CLOSED.to_owned(),
            misses_descriptors: true,
        });
    }

    /// Notes that the record of this process, which lives, was given to another. Not where the file
    /// that it lies in is lost: there it reads as zeroes, which nobody wrote.
    pub(crate) fn lose_record(&self, session: u32) {
        if self.check_whole().is_err() {
            return;
        }
        self.note_loss(Loss {
            path: self.path().join(MEMBERS).join(session.to_string()),
            what: format!("taken for that of a dead process by another member; {RESTART}"),
            misses_descriptors: false,
        });
    }

    /// Did this process close descriptors of the pool? Their numbers may be other files' by now.
    pub(crate) fn is_missing_descriptors(&self) -> bool {
        let noted = self.noted_loss().get();
        noted.is_some_and(|loss| loss.misses_descriptors)
    }

    /// For all acts from now on.
    fn note_loss(&self, loss: Loss) {
        if self.noted_loss().set(loss).is_ok() {
            faults::count_loss();
        }
    }

    /// `None`: the files are there, or cannot be looked at, or the pool is private.
    fn what_happened(&self) -> Option<&'static str> {
        if self.is_private() {
            return None;
        }
        const REPLACED: &str = "replaced by that of another pool";
        let is_own = |found: &fs::Stat| Place::of(found) == self.control_place();
        // By its directory, which is the same in every mount namespace, and behind `chroot`.
        let in_directory = fs::statat(self.directory(), "control", AtFlags::SYMLINK_NOFOLLOW);
        match in_directory {
            Ok(found) if is_own(&found) => {}
            Ok(_) => return Some(REPLACED),
            Err(Errno::NOENT) => return Some(REMOVED),
            Err(_) => return None,
        }
        // By its name: the directory may have been renamed, and another be there.
        match fs::lstat(self.path().join("control")) {
            Ok(found) if !is_own(&found) => Some(REPLACED),
            _ => None,
        }
    }

    /// `losses` counts those of this process, of this pool's files or another's.
    #[cold]
    fn look_for_loss(&self, losses: u32) -> Result<(), NodeError> {
        if self.losses_seen().load(Ordering::Relaxed) == losses {
            return Ok(());
        }
        self.look_at_files()?;
        // What is lost is marked before it is counted: a loss since then shows as another count.
        self.losses_seen().store(losses, Ordering::Relaxed);
        Ok(())
    }

    fn look_at_files(&self) -> Result<(), NodeError> {
        if let Some(Loss { path, what, .. }) = self.noted_loss().get().cloned() {
            return Err(NodeError::PoolLost { path, what });
        }
        // Named only when one is lost: acts of pools that are whole pass here, too.
        let control = (("control", None), self.control().memory());
        let regions = self
            .mapped_regions()
            .map(|(index, map)| (("region", Some(index)), map));
        let links = (0..REGIONS_MAX as u8).filter_map(|index| {
            let map = self.link(RegionIndex(index))?;
            let place = self.regions().region(RegionIndex(index))?.link?;
            let file = if place.offset == 0 { "link" } else { "region" };
            Some(((file, Some(usize::from(index))), map))
        });
        let lost = std::iter::once(control)
            .chain(regions)
            .chain(links)
            .find(|(_, map)| map.is_lost());
        lost.map_or(Ok(()), |((file, index), map)| {
            let index = index.map_or_else(String::new, |index| format!(".{index}"));
            Err(self.lost(&format!("{file}{index}"), map))
        })
    }

    fn lost(&self, name: &str, map: &Mapped) -> NodeError {
        let needed = hythe_memory::Memory::bytes(map);
        let found = rustix::fs::statat(
            self.directory(),
            name,
            rustix::fs::AtFlags::SYMLINK_NOFOLLOW,
        );
        let what = match found.map(|found| found.st_size.unsigned_abs()) {
            Ok(bytes) if bytes < needed as u64 => {
                format!("cut to {bytes} bytes, and {needed} are in use; {REMAKE}")
            }
            Ok(_) => format!(
                "left without room: its file system was full when a page was needed; {REMAKE}"
            ),
            Err(error) => format!("removed, and cut ({error}); {REMAKE}"),
        };
        NodeError::PoolLost {
            path: self.path().join(name),
            what,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::PoolOptions;

    /// Its zeroes are read behind a look at which it was whole.
    #[test]
    fn cut_control_file_is_no_record_that_another_freed() {
        let name = format!("hythe-lost-{}", std::process::id());
        let root = std::env::temp_dir().join(name);
        let options = PoolOptions::new("cut").root(&root).bytes(16 << 20);
        let pool = Pool::open_or_create(&options).expect("made");
        let control = pool.path().join("control");
        pool.check_whole().expect("whole");
        let file = std::fs::OpenOptions::new().write(true).open(&control);
        file.and_then(|file| file.set_len(0)).expect("cut");
        assert_eq!(pool.control().tables().members().count(), 0);
        pool.lose_record(1);
        match pool.check_whole() {
            Err(NodeError::PoolLost { path, what }) => {
                assert_eq!(path, control);
                assert!(what.contains("cut to 0 bytes"), "{what}");
            }
            other => panic!("not lost: {other:?}"),
        }
        std::fs::remove_dir_all(root).expect("own");
    }
}

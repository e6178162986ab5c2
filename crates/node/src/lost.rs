//! Is the pool still there? Asked where acts and waits end.
//!
//! A thread that touches a page without a byte behind it does not die (`hythe_memory::faults`): the
//! mapping becomes zeroes, and whatever was going on comes to some end on them, as it would on a
//! liar's words. Here that end becomes [`NodeError::PoolLost`]. Never repairs anything: files of a
//! pool do not shrink unless somebody shrinks them.

use hythe_abi::RegionIndex;
use hythe_abi::pool::REGIONS_MAX;
use hythe_memory::{Mapped, faults};
use hythe_pool::ObjectTable;

use crate::NodeError;
use crate::object::OBJECTS;
use crate::pool::Pool;

impl Pool {
    /// Is every file of the pool that this process has touched still whole? One look at one word,
    /// nearly always.
    ///
    /// # Errors
    /// [`NodeError::PoolLost`] naming the file.
    #[inline]
    pub fn check_whole(&self) -> Result<(), NodeError> {
        if faults::losses() == 0 {
            return Ok(());
        }
        self.look_for_loss()
    }

    /// The same, and of the file of semaphores and message queues, of which channels know nothing.
    #[inline]
    pub(crate) fn check_objects_whole(&self) -> Result<(), NodeError> {
        if faults::losses() == 0 {
            return Ok(());
        }
        self.look_for_loss()?;
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

    #[cold]
    fn look_for_loss(&self) -> Result<(), NodeError> {
        let control = ("control".to_owned(), self.control().memory());
        let regions = self
            .mapped_regions()
            .map(|(index, map)| (format!("region.{index}"), map));
        let links = (0..REGIONS_MAX as u8).filter_map(|index| {
            let map = self.link(RegionIndex(index))?;
            let place = self.regions().region(RegionIndex(index))?.link?;
            let file = if place.offset == 0 { "link" } else { "region" };
            Some((format!("{file}.{index}"), map))
        });
        let lost = std::iter::once(control)
            .chain(regions)
            .chain(links)
            .find(|(_, map)| map.is_lost());
        lost.map_or(Ok(()), |(name, map)| Err(self.lost(&name, map)))
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
                format!("cut to {bytes} bytes, and {needed} are in use")
            }
            Ok(_) => {
                "left without room: its file system was full when a page was needed".to_owned()
            }
            Err(error) => format!("removed, and cut ({error})"),
        };
        NodeError::PoolLost {
            path: self.path().join(name),
            what,
        }
    }
}

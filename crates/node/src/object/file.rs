//! The file `objects` of a pool: made by the pool's owner with the first object.

use hythe_abi::objects::FILE_BYTES;
use hythe_memory::{Access, Mapped};
use hythe_pool::ObjectTable;

use super::SyncError;
use crate::pool::Pool;
use crate::{NodeError, error};

const NAME: &str = "objects";

impl Pool {
    /// The table of objects; `None`: there is no file, and it was not to be made.
    pub(crate) fn objects(&self, make: bool) -> Result<Option<&ObjectTable<Mapped>>, SyncError> {
        if let Some(table) = self.objects_place().get() {
            return Ok(Some(table));
        }
        let Some((file, bytes)) = self.objects_file(make)? else {
            return Ok(None);
        };
        let path = self.path().join(NAME);
        let mut bytes = bytes;
        if bytes < FILE_BYTES as u64 {
            // Whoever makes it has not got so far, or died over it: doing it again does no harm.
            let reserve = || {
                let none = rustix::fs::FallocateFlags::empty();
                rustix::fs::fallocate(&file, none, 0, FILE_BYTES as u64)
            };
            rustix::io::retry_on_intr(reserve)
                .map_err(|refused| error::file("reserve", path.clone())(refused.into()))?;
            bytes = FILE_BYTES as u64;
        }
        debug_assert!(bytes >= FILE_BYTES as u64);
        let memory =
            Mapped::file(&file, 0, FILE_BYTES, Access::Write).map_err(error::file("map", path))?;
        let table = ObjectTable::open(memory)?;
        Ok(Some(self.objects_place().get_or_init(|| table)))
    }

    fn objects_file(&self, make: bool) -> Result<Option<(std::os::fd::OwnedFd, u64)>, NodeError> {
        let open =
            || crate::pool::directory::open_file(self.directory(), NAME, true, self.options());
        let is_missing = |error: &NodeError| {
            matches!(error, NodeError::File { source, .. }
                if source.kind() == std::io::ErrorKind::NotFound)
        };
        match open() {
            Ok(found) => return Ok(Some(found)),
            Err(error) if !is_missing(&error) => return Err(error),
            Err(_) if !make => return Ok(None),
            Err(_) => {}
        }
        let (directory, options) = (self.directory(), self.options());
        let made = crate::pool::directory::make_file(directory, NAME, FILE_BYTES as u64, options);
        match made {
            Ok(_) => {}
            // Another was quicker.
            Err(NodeError::File { source, .. })
                if source.kind() == std::io::ErrorKind::AlreadyExists => {}
            Err(error) => return Err(error),
        }
        open().map(Some)
    }
}

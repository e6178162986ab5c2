//! The file `objects` of a pool: made by the pool's owner with the first object.

use std::io::ErrorKind;
use std::os::fd::OwnedFd;

use hythe_abi::objects::FILE_BYTES;
use hythe_memory::{Access, Mapped};
use hythe_pool::ObjectTable;
use rustix::fs::{self, RenameFlags};
use rustix::io::Errno;

use super::SyncError;
use crate::error::REMAKE;
use crate::pool::{Pool, directory};
use crate::{NodeError, error};

/// The name of the file.
pub(crate) const OBJECTS: &str = "objects";

impl Pool {
    /// The table of objects; `None`: there is no file, and it was not to be made.
    pub(crate) fn objects(&self, make: bool) -> Result<Option<&ObjectTable<Mapped>>, SyncError> {
        if let Some(table) = self.objects_place().get() {
            return Ok(Some(table));
        }
        let Some((file, bytes)) = self.objects_file(make)? else {
            return Ok(None);
        };
        let path = self.path().join(OBJECTS);
        if bytes < FILE_BYTES as u64 {
            let what = format!("cut away from its objects; {REMAKE}");
            return Err(NodeError::PoolLost { path, what }.into());
        }
        let memory = Mapped::file(&file, 0, FILE_BYTES, Access::Write)
            .map_err(error::map(path, FILE_BYTES))?;
        let table = ObjectTable::open(memory)?;
        Ok(Some(self.objects_place().get_or_init(|| table)))
    }

    fn objects_file(&self, make: bool) -> Result<Option<(OwnedFd, u64)>, NodeError> {
        match self.open_objects() {
            Err(error) if !make && is_missing(&error) => Ok(None),
            Err(error) if make && is_missing(&error) => {
                self.make_objects()?;
                self.open_objects().map(Some)
            }
            found => found.map(Some),
        }
    }

    fn open_objects(&self) -> Result<(OwnedFd, u64), NodeError> {
        directory::open_file(self.directory(), OBJECTS, true, self.options())
    }

    /// Makes it under another name, so that nobody opens half of it: who dies meanwhile leaves a
    /// file that nobody looks for, and that goes with the pool.
    fn make_objects(&self) -> Result<(), NodeError> {
        let hidden = format!("{OBJECTS}.{:016x}", directory::random());
        self.add_file(&hidden, FILE_BYTES as u64)?;
        let at = self.directory();
        match fs::renameat_with(at, &hidden, at, OBJECTS, RenameFlags::NOREPLACE) {
            Ok(()) => Ok(()),
            // Another was quicker.
            Err(Errno::EXIST) => {
                self.forget_file(&hidden);
                Ok(())
            }
            Err(refused) => {
                self.forget_file(&hidden);
                Err(error::file("name", self.path().join(OBJECTS))(
                    refused.into(),
                ))
            }
        }
    }
}

fn is_missing(error: &NodeError) -> bool {
    matches!(error, NodeError::File { source, .. } if source.kind() == ErrorKind::NotFound)
}

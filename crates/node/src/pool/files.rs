//! The files of a pool by their names, for who keeps neither descriptor nor mapping.
//!
//! A library in a program that does not know of it keeps no descriptor: programs close what they
//! find open. Each file is opened on the checked way of [`directory`], and only if the pool is
//! still the one that this was made for. Never makes or removes anything.

use std::os::fd::OwnedFd;
use std::time::Duration;

use rustix::fs::{self, Stat};

use crate::error::RESTART;
use crate::pool::directory::{self, open_file};
use crate::{NodeError, PoolOptions};

/// The files of one pool.
#[derive(Clone, Debug)]
pub struct PoolFiles {
    options: PoolOptions,
    place: Place,
}

/// Which directory or file it is, wherever its name leads.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Place {
    device: u64,
    inode: u64,
}

/// A pool as it was at one time: two are equal only if no file of it was made or removed between.
/// Participants that come and go change nothing.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct PoolStamp {
    place: Place,
    changed: Duration,
}

impl PoolStamp {
    /// When a file was made or removed last, since 1970.
    #[must_use]
    pub const fn changed(&self) -> Duration {
        self.changed
    }
}

impl PoolFiles {
    pub(crate) fn of(directory: &OwnedFd, options: &PoolOptions) -> Result<Self, NodeError> {
        Ok(Self {
            place: Place::of(&directory::stat(directory, &options.path())?),
            options: options.clone(),
        })
    }

    /// Opens a file, and says how long it is.
    ///
    /// # Errors
    /// No permission; it is not there, or not a file of the pool's owner; [`NodeError::PoolLost`]:
    /// the pool was removed, or another has its name.
    pub fn open(&self, name: &str, writable: bool) -> Result<(OwnedFd, u64), NodeError> {
        let user = directory::open_user_directory(&self.options, false)?;
        let directory = directory::open_pool(&user, &self.options)?;
        if Place::of(&directory::stat(&directory, &self.options.path())?) != self.place {
            return Err(NodeError::PoolLost {
                path: self.options.path(),
                what: format!("replaced by another pool; {RESTART}"),
            });
        }
        open_file(&directory, name, writable, &self.options)
    }

    /// Is the pool still the one that its name leads to?
    pub(crate) fn are_there(&self) -> bool {
        fs::lstat(self.options.path()).is_ok_and(|found| Place::of(&found) == self.place)
    }

    /// The pool's name and place.
    #[must_use]
    pub const fn options(&self) -> &PoolOptions {
        &self.options
    }

    /// What the pool's directory is now; `None`: it is not there, or cannot be looked at. Costs one
    /// system call.
    #[must_use]
    pub fn stamp(options: &PoolOptions) -> Option<PoolStamp> {
        let found = fs::lstat(options.path()).ok()?;
        let changed = Duration::new(
            u64::try_from(found.st_mtime).ok()?,
            u32::try_from(found.st_mtime_nsec).ok()?,
        );
        Some(PoolStamp {
            place: Place::of(&found),
            changed,
        })
    }
}

impl Place {
    pub(crate) const fn inode(self) -> u64 {
        self.inode
    }

    #[allow(clippy::useless_conversion, reason = "narrower on targets of 32 bits")]
    pub(crate) fn of(found: &Stat) -> Self {
        Self {
            device: u64::from(found.st_dev),
            inode: u64::from(found.st_ino),
        }
    }
}

//! Making a pool: its directory and files, filled before anybody finds them.
//!
//! A pool that has a name is seen whole or not at all; a private one is never seen. Called when a
//! pool is made, never on a data path. What belongs to a living maker is never removed by another.

use std::os::fd::OwnedFd;

use hythe_memory::{Access, Mapped};
use hythe_pool::{Control, Geometry, PrefaultOptions};

use crate::pool::hidden;
use crate::pool::size_limit::{self, SizeLimit};
use crate::pool::{directory, region_files};
use crate::{NodeError, Pool, PoolOptions};

impl Pool {
    /// Makes a pool. False: it exists already, and was left as it is.
    ///
    /// # Errors
    /// No permission, an unsafe directory, a geometry that does not work; [`NodeError::TooLarge`]:
    /// more memory than there is.
    pub fn create(options: &PoolOptions) -> Result<bool, NodeError> {
        let (user, hidden, _locked) = make(options, hidden::make_hidden)?;
        hidden::reveal(&user, &hidden, options)
    }

    /// Makes a pool for this process alone. No other can open it: its name is not one that is asked
    /// for. It goes with the last handle that refers to it ([`Pool`], [`crate::Node`], a port, a
    /// buffer). What is left by a process that was killed before is removed when this user makes
    /// the next pool.
    ///
    /// # Errors
    /// As [`Pool::create`].
    pub fn create_private(options: &PoolOptions) -> Result<Self, NodeError> {
        let (user, hidden, locked) = make(options, hidden::make_private)?;
        let options = options.named(hidden);
        let private = PrivateDirectory {
            user,
            options: options.clone(),
            process: std::process::id(),
        };
        Self::open_in(locked, &options, Some(private))
    }
}

/// The directory of a pool that goes with this value. That it is in use shows the lock on it, which
/// the pool's own descriptor of the directory keeps.
#[derive(Debug)]
pub(crate) struct PrivateDirectory {
    user: OwnedFd,
    options: PoolOptions,
    /// A forked child has a copy of this value, and leaves the directory to its parent.
    process: u32,
}

impl Drop for PrivateDirectory {
    fn drop(&mut self) {
        if self.process == std::process::id() {
            hidden::remove_directory(&self.user, &self.options.name, &self.options);
            hidden::remove_if_empty(&self.options);
        }
    }
}

/// The user's directory; name and descriptor of a hidden one in it, which is locked as long as the
/// descriptor is open.
type Made = (OwnedFd, String, OwnedFd);
type MakeDirectory = fn(&OwnedFd, &PoolOptions) -> Result<(String, OwnedFd), NodeError>;

fn make(options: &PoolOptions, directory: MakeDirectory) -> Result<Made, NodeError> {
    match make_once(options, directory) {
        // Somebody who removed the last pool took the directory away under us: once more.
        Err(NodeError::File { source, .. }) if source.kind() == std::io::ErrorKind::NotFound => {
            make_once(options, directory)
        }
        made => made,
    }
}

fn make_once(options: &PoolOptions, directory: MakeDirectory) -> Result<Made, NodeError> {
    options.check_name()?;
    options.check_maker()?;
    let user = directory::open_user_directory(options, true)?;
    // First: what a dead maker left may be what is lacking.
    hidden::sweep_hidden(&user, options);
    let geometry = planned(&user, options).inspect_err(|_| hidden::remove_if_empty(options))?;
    let (hidden, made) = directory(&user, options)?;
    if let Err(error) = fill(&made, options, &geometry) {
        hidden::remove_directory(&user, &hidden, options);
        return Err(error);
    }
    Ok((user, hidden, made))
}

/// The sizes of a pool that is to be made, if there is memory for it.
fn planned(user: &OwnedFd, options: &PoolOptions) -> Result<Geometry, NodeError> {
    let limit = SizeLimit::at(user);
    let geometry = size_limit::geometry(options, &limit)?;
    let control = geometry.layout()?.bytes() as u64;
    // Huge pages are another file system, and no memory that others could use.
    let slots = match options.huge_pages {
        None => geometry.region_bytes() as u64,
        Some(_) => 0,
    };
    limit.check(control.saturating_add(slots), || options.path())?;
    Ok(geometry)
}

fn fill(directory: &OwnedFd, options: &PoolOptions, geometry: &Geometry) -> Result<(), NodeError> {
    let bytes = geometry.layout()?.bytes();
    let control = directory::make_file(directory, "control", bytes as u64, options)?;
    region_files::make(directory, geometry.region_bytes() as u64, options)?;
    let memory = Mapped::file(&control, 0, bytes, Access::Write)
        .map_err(crate::error::map(options.path().join("control"), bytes))?;
    let mut id = [0; 8];
    // An id only tells pools apart in messages: whatever is there will do if the kernel gives no
    // random bytes.
    let _ = rustix::rand::getrandom(&mut id, rustix::rand::GetRandomFlags::empty());
    let control = Control::create(memory, geometry, u64::from_le_bytes(id))?;
    control.set_prefault_options(PrefaultOptions {
        prefault: options.prefault,
        lock: options.lock,
    });
    Ok(())
}

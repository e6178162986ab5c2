//! Directories of pools that nobody looks for: while a pool is made, while it is removed, and of
//! private ones.
//!
//! A maker keeps a lock on its directory; what is not locked was left by one that died, and is
//! removed.

use std::os::fd::OwnedFd;
use std::path::Path;

use rustix::fs::{self, AtFlags, CWD, FlockOperation, Mode, RenameFlags};
use rustix::io::Errno;

use crate::error::file;
use crate::pool::directory::{
    DIRECTORY, MEMBERS, entries, io, make_own, open_made, random, refused,
};
use crate::pool::options::DEFAULT_ROOT;
use crate::pool::{kernel_segments, region_files};
use crate::{NodeError, PoolOptions};

/// How often a maker starts again because another sweeps.
const SWEPT_MAX: u32 = 100;

/// What the names of directories begin with that nobody looks for: of pools in the making or going,
/// and of private ones.
const MAKING: &str = ".making.";
const PRIVATE: &str = ".private.";

/// Makes a directory that nobody looks for, empty but for the place of sockets, to be filled and
/// then given its name by [`reveal`]. It is locked for as long as the descriptor is open: that
/// tells it from what a dead maker left.
pub(crate) fn make_hidden(
    user: &OwnedFd,
    options: &PoolOptions,
) -> Result<(String, OwnedFd), NodeError> {
    make_locked(user, MAKING, options)
}

/// The same for a pool that never gets a name: it stays until its maker removes it, or is dead.
pub(crate) fn make_private(
    user: &OwnedFd,
    options: &PoolOptions,
) -> Result<(String, OwnedFd), NodeError> {
    make_locked(user, PRIVATE, options)
}

fn make_locked(
    user: &OwnedFd,
    prefix: &str,
    options: &PoolOptions,
) -> Result<(String, OwnedFd), NodeError> {
    let mut tries = 0;
    loop {
        let hidden = hidden_name(prefix, options);
        let error = match make_empty(user, &hidden, options) {
            Ok(made) => return Ok((hidden, made)),
            Err(error) => error,
        };
        remove_directory(user, &hidden, options);
        tries += 1;
        if tries == SWEPT_MAX || !was_swept(&error) {
            return Err(error);
        }
    }
}

/// Before it is locked, another maker may take it for what a dead one left, and remove it.
fn was_swept(error: &NodeError) -> bool {
    use std::io::ErrorKind::{NotFound, WouldBlock};
    let NodeError::File { source, .. } = error else {
        return false;
    };
    matches!(source.kind(), NotFound | WouldBlock)
}

fn make_empty(user: &OwnedFd, hidden: &str, options: &PoolOptions) -> Result<OwnedFd, NodeError> {
    let path = options.path();
    let made = make_own(user, hidden, options.directory_mode(), options, &path)?;
    fs::flock(&made, FlockOperation::NonBlockingLockExclusive).map_err(io(("lock", &path)))?;
    let members = path.join(MEMBERS);
    make_own(&made, MEMBERS, options.members_mode(), options, &members)?;
    Ok(made)
}

/// Gives a filled directory its name. False: a pool of that name appeared meanwhile.
pub(crate) fn reveal(
    user: &OwnedFd,
    hidden: &str,
    options: &PoolOptions,
) -> Result<bool, NodeError> {
    let rename = || fs::renameat_with(user, hidden, user, &options.name, RenameFlags::NOREPLACE);
    let renamed = match rename() {
        Err(Errno::EXIST) => {
            remove_half_made(user, options);
            rename()
        }
        renamed => renamed,
    };
    match renamed {
        Ok(()) => Ok(true),
        Err(Errno::EXIST) => {
            remove_directory(user, hidden, options);
            Ok(false)
        }
        Err(error) => {
            remove_directory(user, hidden, options);
            Err(file("name", options.path())(error.into()))
        }
    }
}

/// Removes the directory that the name leads to, if it has no control file. A pool gets its name
/// whole: that is what a clean-up left, and nobody can open it.
fn remove_half_made(user: &OwnedFd, options: &PoolOptions) {
    let Ok(directory) = fs::openat(user, &options.name, DIRECTORY, Mode::empty()) else {
        return;
    };
    let control = fs::statat(&directory, "control", AtFlags::SYMLINK_NOFOLLOW);
    if !control.is_err_and(|error| error == Errno::NOENT) {
        return;
    }
    empty(&directory, options);
    // Another maker may have been quicker: its pool is not empty, and stays.
    let _ = fs::unlinkat(user, &options.name, AtFlags::REMOVEDIR);
}

/// Takes the name from a pool, so that nobody finds it any more, then removes it: wholly or,
/// without permission, not at all.
pub(crate) fn remove_pool(user: &OwnedFd, options: &PoolOptions) -> Result<(), NodeError> {
    let hidden = hidden_name(MAKING, options);
    fs::renameat(user, &options.name, user, &hidden)
        .map_err(|error| refused("remove", &options.user_path(), error.into()))?;
    remove_directory(user, &hidden, options);
    if fs::statat(user, &hidden, AtFlags::SYMLINK_NOFOLLOW).is_err() {
        return Ok(());
    }
    let path = options.user_path().join(hidden);
    Err(NodeError::Unsafe {
        path,
        reason: "it could not be emptied; see what is in it".to_owned(),
    })
}

/// A name that nobody looks for, and nobody else uses: process ids are not enough, each container
/// has its own.
fn hidden_name(prefix: &str, options: &PoolOptions) -> String {
    format!("{prefix}{:016x}.{}", random(), options.name)
}

/// Removes a directory with what is in it, as far as possible.
pub(crate) fn remove_directory(user: &OwnedFd, name: &str, options: &PoolOptions) {
    let Ok(directory) = fs::openat(user, name, DIRECTORY, Mode::empty()) else {
        return;
    };
    empty(&directory, options);
    let _ = fs::unlinkat(user, name, AtFlags::REMOVEDIR);
}

fn empty(directory: &OwnedFd, options: &PoolOptions) {
    if let Ok(members) = fs::openat(directory, MEMBERS, DIRECTORY, Mode::empty()) {
        remove_entries(&members);
        let _ = fs::unlinkat(directory, MEMBERS, AtFlags::REMOVEDIR);
    }
    kernel_segments::remove(directory);
    if region_files::remove_elsewhere(directory, options) {
        remove_entries(directory);
    }
}

fn remove_entries(directory: &OwnedFd) {
    for entry in entries(directory) {
        // What cannot be removed makes the last step fail, and is found by `pool list`.
        let _ = fs::unlinkat(directory, &entry, AtFlags::empty());
    }
}

/// With one of these the root is made at boot, as root's, and is to stay.
const ROOT_MADE_AT_BOOT: [&str; 3] = [
    "/etc/tmpfiles.d/hythe.conf",
    "/usr/local/lib/tmpfiles.d/hythe.conf",
    "/usr/lib/tmpfiles.d/hythe.conf",
];

/// Removes the user's directory, and the default root, if they are empty: a machine without pools
/// has no trace of them.
pub(crate) fn remove_if_empty(options: &PoolOptions) {
    // Not empty, not ours, gone already: each is fine.
    let _ = fs::unlinkat(CWD, options.user_path(), AtFlags::REMOVEDIR);
    let is_made_at_boot = || {
        ROOT_MADE_AT_BOOT
            .iter()
            .any(|file| Path::new(file).exists())
    };
    if options.root == Path::new(DEFAULT_ROOT) && !is_made_at_boot() {
        let _ = fs::unlinkat(CWD, &options.root, AtFlags::REMOVEDIR);
    }
}

/// Removes what makers that died left behind, and private pools of the dead: what nobody holds
/// locked any more, in whichever container its maker was.
pub(crate) fn sweep_hidden(user: &OwnedFd, options: &PoolOptions) {
    for name in entries(user)
        .iter()
        .filter(|name| name.starts_with(MAKING) || name.starts_with(PRIVATE))
    {
        let Ok(left) = open_made(user, Path::new(name), &options.user_path().join(name)) else {
            continue;
        };
        // One that was made this moment and is not locked yet is made again by its maker
        // ([`make_hidden`]).
        if fs::flock(&left, FlockOperation::NonBlockingLockExclusive).is_ok() {
            remove_directory(user, name, options);
        }
    }
}

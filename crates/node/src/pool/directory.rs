//! The directory of a pool, made and opened so that nobody can slip something else in.
//!
//! `ROOT/<uid>/<pool>/` with the files `control`, `region.N`, `link.N`, and the directory
//! `members`. Every directory on the way is opened without following links and its owner checked. A
//! pool is made under another name and then renamed: it is seen whole or not at all.

use std::ffi::OsStr;
use std::io;
use std::os::fd::{AsFd, AsRawFd, OwnedFd};
use std::path::{Path, PathBuf};

use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags, Stat};

use crate::error::file;
use crate::pool::size_limit::SizeLimit;
use crate::{NodeError, PoolOptions};

/// Where participants have their sockets ([`crate::pool::liveness_socket`]).
pub(crate) const MEMBERS: &str = "members";

pub(super) const DIRECTORY: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::RDONLY);

/// Opens `ROOT/<uid>`, making what is missing if `make`.
pub(crate) fn open_user_directory(options: &PoolOptions, make: bool) -> Result<OwnedFd, NodeError> {
    let own = hythe_sys::identity::user();
    let root = open_or_make(
        CWD.as_fd(),
        &options.root,
        &options.root,
        make.then_some(0o1777),
    )?;
    let found = stat(&root, &options.root)?;
    let is_sticky = found.st_mode & 0o1000 != 0;
    // Whoever made a place for all, like /tmp, can take a user's directory away, but not pass off
    // another as that user's.
    let is_for_all = is_sticky && found.st_mode & 0o007 == 0o007;
    let foreign = ![0, own, options.owner].contains(&found.st_uid) && !is_for_all;
    let open_to_all = found.st_mode & 0o022 != 0 && !is_sticky;
    if foreign || open_to_all {
        let reason = format!(
            "owner {} and mode {:04o} would let somebody else replace pools; it must be sticky if others may write, and belong to root, you, the pools' owner or be open to all (mode 1777) (HYTHE_ROOT chooses another place)",
            found.st_uid,
            found.st_mode & 0o7777
        );
        return Err(NodeError::Unsafe {
            path: options.root.clone(),
            reason,
        });
    }
    let path = options.user_path();
    let user = PathBuf::from(options.owner.to_string());
    let make = make && options.owner == own;
    let mode = if options.is_private() { 0o700 } else { 0o711 };
    let opened = open_or_make(root.as_fd(), &user, &path, make.then_some(mode))?;
    check_owner(&opened, &path, options.owner)?;
    if make && stat(&opened, &path)?.st_mode & 0o777 & mode != mode {
        fs::fchmod(&opened, Mode::from_raw_mode(mode)).map_err(io(("open up", &path)))?;
    }
    Ok(opened)
}

fn open_or_make(
    at: impl AsFd,
    name: &Path,
    path: &Path,
    make: Option<u32>,
) -> Result<OwnedFd, NodeError> {
    match fs::openat(&at, name, DIRECTORY, Mode::empty()) {
        Ok(opened) => return Ok(opened),
        Err(rustix::io::Errno::NOENT) if make.is_some() => {}
        Err(rustix::io::Errno::ACCESS) if make.is_none() => {
            // Another user's directory may be searched without being readable; the names in it are
            // not our business.
            return fs::openat(&at, name, DIRECTORY | OFlags::PATH, Mode::empty())
                .map_err(|error| refused("open", path, error.into()));
        }
        Err(error) => return Err(refused("open", path, error.into())),
    }
    let mode = Mode::from_raw_mode(make.unwrap_or(0o700));
    match fs::mkdirat(&at, name, mode) {
        Ok(()) => {
            let made = open_made(&at, name, path)?;
            // The umask has had its say in mkdir; this is the mode that is wanted.
            fs::fchmod(&made, mode).map_err(io(("set the mode of", path)))?;
            Ok(made)
        }
        Err(rustix::io::Errno::EXIST) => open_made(&at, name, path),
        Err(error) => Err(refused("make", path, error.into())),
    }
}

/// Opens a directory that was made just now, also where the umask took its owner's own permissions
/// away.
pub(super) fn open_made(at: impl AsFd, name: &Path, path: &Path) -> Result<OwnedFd, NodeError> {
    match fs::openat(&at, name, DIRECTORY, Mode::empty()) {
        Err(rustix::io::Errno::ACCESS) => {}
        opened => return opened.map_err(io(("open", path))),
    }
    let place = fs::openat(&at, name, DIRECTORY | OFlags::PATH, Mode::empty())
        .map_err(io(("open", path)))?;
    // Ours, and not what somebody put there meanwhile.
    check_owner(&place, path, hythe_sys::identity::user())?;
    // By its descriptor, which `fchmod` does not take: it was opened without permission to do
    // anything.
    let itself = format!("/proc/self/fd/{}", place.as_raw_fd());
    fs::chmod(itself, Mode::RWXU).map_err(io(("open up", path)))?;
    fs::openat(&at, name, DIRECTORY, Mode::empty()).map_err(io(("open", path)))
}

/// Opens the directory of an existing pool.
pub(crate) fn open_pool(user: &OwnedFd, options: &PoolOptions) -> Result<OwnedFd, NodeError> {
    let path = options.path();
    match fs::openat(user, &options.name, DIRECTORY, Mode::empty()) {
        Ok(opened) => check_owner(&opened, &path, options.owner).map(|()| opened),
        Err(rustix::io::Errno::NOENT) => Err(options.no_such_pool()),
        Err(error) => Err(refused("open", &path, error.into())),
    }
}

/// Makes a directory with exactly this mode, of the pool's group.
pub(super) fn make_own(
    at: &OwnedFd,
    name: &str,
    mode: u32,
    options: &PoolOptions,
    path: &Path,
) -> Result<OwnedFd, NodeError> {
    fs::mkdirat(at, name, Mode::from_raw_mode(0o700)).map_err(io(("make", path)))?;
    let made = open_made(at, Path::new(name), path)?;
    set_access(&made, mode, options, path)?;
    Ok(made)
}

/// Group first: a change of it takes bits away from the mode.
pub(crate) fn set_access(
    made: &OwnedFd,
    mode: u32,
    options: &PoolOptions,
    path: &Path,
) -> Result<(), NodeError> {
    if let Some(group) = options.group {
        let wanted = rustix::process::Gid::from_raw(group);
        fs::fchown(made, None, Some(wanted)).map_err(|error| match error {
            rustix::io::Errno::PERM => NodeError::NotInGroup {
                group,
                user: hythe_sys::identity::effective_user(),
            },
            error => file("set the group of", path)(error.into()),
        })?;
    }
    fs::fchmod(made, Mode::from_raw_mode(mode)).map_err(io(("set the mode of", path)))
}

/// Opens the directory of the participants' sockets.
pub(crate) fn open_members(
    directory: &OwnedFd,
    options: &PoolOptions,
) -> Result<OwnedFd, NodeError> {
    let path = options.path().join(MEMBERS);
    let opened = fs::openat(directory, MEMBERS, DIRECTORY, Mode::empty())
        .map_err(|error| refused("open", &path, error.into()))?;
    check_owner(&opened, &path, options.owner).map(|()| opened)
}

/// Permissions of the control file, which those of sockets follow.
pub(crate) fn control_mode(directory: &OwnedFd) -> u32 {
    fs::statat(directory, "control", AtFlags::SYMLINK_NOFOLLOW)
        .map_or(0o600, |found| found.st_mode & 0o666)
}

/// A number that nobody else has.
pub(crate) fn random() -> u64 {
    let mut bytes = [0; 8];
    // Without random bytes the name may exist already; that is an error there, and nothing is
    // overwritten.
    let _ = rustix::rand::getrandom(&mut bytes, rustix::rand::GetRandomFlags::empty());
    u64::from_le_bytes(bytes)
}

/// Names of the pools in a user's directory.
pub(crate) fn pools(user: &OwnedFd, options: &PoolOptions) -> Result<Vec<String>, NodeError> {
    let path = options.user_path();
    let refuse = |error| match error {
        // Opened for searching only, because reading is not allowed.
        rustix::io::Errno::BADF => refused("list", &path, io::ErrorKind::PermissionDenied.into()),
        error => refused("list", &path, error.into()),
    };
    fs::Dir::read_from(user)
        .and_then(|mut listing| listing.next().transpose())
        .map_err(refuse)?;
    let mut names = entries(user);
    names.retain(|name| !name.starts_with('.'));
    names.sort();
    Ok(names)
}

/// Names in a directory, without `.` and `..`.
pub(crate) fn entries(directory: &OwnedFd) -> Vec<String> {
    let Ok(listing) = fs::Dir::read_from(directory) else {
        return Vec::new();
    };
    listing
        .filter_map(Result::ok)
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .filter(|name| name != "." && name != "..")
        .collect()
}

/// Makes a file with its space reserved.
pub(crate) fn make_file(
    directory: impl AsFd,
    name: &str,
    bytes: u64,
    options: &PoolOptions,
) -> Result<OwnedFd, NodeError> {
    let path = options.path().join(name);
    let flags = OFlags::CREATE | OFlags::EXCL | OFlags::RDWR | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let made = fs::openat(directory, name, flags, Mode::from_raw_mode(0o600))
        .map_err(|error| refused("make", &path, error.into()))?;
    set_access(&made, options.file_mode(name), options, &path)?;
    SizeLimit::at(&made).check(bytes, || path.clone())?;
    // Reserved, not sparse: a page that is missing later would kill whoever touches it.
    let reserve = || fs::fallocate(&made, fs::FallocateFlags::empty(), 0, bytes);
    match rustix::io::retry_on_intr(reserve) {
        Ok(()) => Ok(made),
        Err(error) => Err(NodeError::NoRoom {
            bytes,
            path,
            source: error.into(),
        }),
    }
}

/// Opens a file of a pool, and says how long it is.
pub(crate) fn open_file(
    directory: impl AsFd,
    name: &str,
    writable: bool,
    options: &PoolOptions,
) -> Result<(OwnedFd, u64), NodeError> {
    let path = options.path().join(name);
    open_checked(directory, OsStr::new(name), &path, writable, options)
}

/// Opens a file of a pool, wherever it is: a regular file of the pool's owner, or nothing.
pub(crate) fn open_checked(
    directory: impl AsFd,
    name: &OsStr,
    path: &Path,
    writable: bool,
    options: &PoolOptions,
) -> Result<(OwnedFd, u64), NodeError> {
    let access = if writable {
        OFlags::RDWR
    } else {
        OFlags::RDONLY
    };
    // Without waiting: for the other end of a pipe, say, that somebody put there.
    let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = fs::openat(directory, name, flags, Mode::empty())
        .map_err(|error| refused("open", path, error.into()))?;
    let found = stat(&opened, path)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(NodeError::Unsafe {
            path: path.to_owned(),
            reason: "it is not a regular file".to_owned(),
        });
    }
    check_owner(&opened, path, options.owner)?;
    Ok((opened, found.st_size.unsigned_abs()))
}

fn check_owner(opened: &OwnedFd, path: &Path, owner: u32) -> Result<(), NodeError> {
    let found = stat(opened, path)?;
    if found.st_uid == owner {
        return Ok(());
    }
    let reason = format!(
        "it belongs to user {}, not {owner}: somebody put it there",
        found.st_uid
    );
    Err(NodeError::Unsafe {
        path: path.to_owned(),
        reason,
    })
}

pub(super) fn stat(opened: &OwnedFd, path: &Path) -> Result<Stat, NodeError> {
    fs::fstat(opened).map_err(io(("look at", path)))
}

/// Names what permission is missing, if that is what is missing.
pub(crate) fn refused(action: &'static str, path: &Path, error: io::Error) -> NodeError {
    if error.kind() == io::ErrorKind::PermissionDenied {
        // The path itself, or the closest directory above it that can be looked at.
        for shown in path.ancestors() {
            if let Ok(found) = fs::statat(CWD, shown, AtFlags::SYMLINK_NOFOLLOW) {
                return NodeError::Permission {
                    path: shown.to_owned(),
                    mode: found.st_mode & 0o7777,
                    owner: found.st_uid,
                    group: found.st_gid,
                    user: hythe_sys::identity::effective_user(),
                };
            }
        }
    }
    file(action, path)(error)
}

pub(super) fn io(
    (action, path): (&'static str, &Path),
) -> impl FnOnce(rustix::io::Errno) -> NodeError {
    let path = path.to_owned();
    move |error| file(action, path)(error.into())
}

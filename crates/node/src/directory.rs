//! The directory of a pool, made and opened so that nobody can slip something else in.
//!
//! `ROOT/<uid>/<pool>/` with the files `control`, `region.N`, `link.N`. Every directory on the way is opened without following
//! links and its owner checked. A pool is made under another name and then renamed: it is seen whole or not at all.

use std::io;
use std::os::fd::{AsFd, OwnedFd};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};

use rustix::fs::{self, AtFlags, CWD, FileType, Mode, OFlags, RenameFlags, Stat};

use crate::NodeError;
use crate::error::file;

const DEFAULT_ROOT: &str = "/dev/shm/hythe";

/// Where pools live unless told otherwise: `HYTHE_ROOT`, else `/dev/shm/hythe`.
#[must_use]
pub fn default_root() -> PathBuf {
    std::env::var_os("HYTHE_ROOT").map_or_else(|| PathBuf::from(DEFAULT_ROOT), PathBuf::from)
}

/// Which pool, and how to make it.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    pub(crate) name: String,
    pub(crate) root: PathBuf,
    pub(crate) owner: u32,
    pub(crate) mode: u32,
    pub(crate) bytes: Option<usize>,
    pub(crate) geometry: Option<hythe_pool::Geometry>,
    pub(crate) prefault: bool,
}

impl PoolOptions {
    /// The pool of this user with that name. `UID/NAME` names another user's.
    #[must_use]
    pub fn new(name: &str) -> Self {
        let own = rustix::process::getuid().as_raw();
        let other = name
            .split_once('/')
            .and_then(|(uid, name)| Some((uid.parse().ok()?, name)));
        let (owner, name) = other.unwrap_or((own, name));
        Self {
            name: name.to_owned(),
            root: default_root(),
            owner,
            mode: 0o600,
            bytes: None,
            geometry: None,
            prefault: false,
        }
    }

    /// Another place than [`default_root`].
    #[must_use]
    pub fn root(mut self, root: &Path) -> Self {
        root.clone_into(&mut self.root);
        self
    }

    /// Size of the whole pool, if it has to be made; default: the smaller of 64 MiB and an eighth of the memory.
    #[must_use]
    pub const fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// Exact sizes, if it has to be made.
    #[must_use]
    pub fn geometry(mut self, geometry: hythe_pool::Geometry) -> Self {
        self.geometry = Some(geometry);
        self
    }

    /// Permissions of the files, if it has to be made; default 0600. The directory gets the matching search permission.
    #[must_use]
    pub const fn mode(mut self, mode: u32) -> Self {
        self.mode = mode & 0o666;
        self
    }

    /// Touch every page when opening, so that no first touch is paid on the data path.
    #[must_use]
    pub const fn prefault(mut self, prefault: bool) -> Self {
        self.prefault = prefault;
        self
    }

    /// The pool's name.
    #[must_use]
    pub fn name(&self) -> &str {
        &self.name
    }

    /// The pool's directory.
    #[must_use]
    pub fn path(&self) -> PathBuf {
        self.user_path().join(&self.name)
    }

    pub(crate) fn user_path(&self) -> PathBuf {
        self.root.join(self.owner.to_string())
    }

    /// Permissions of directories: whoever may read or write files may search.
    fn directory_mode(&self) -> u32 {
        0o700 | (self.mode & 0o044) | (self.mode & 0o044) >> 2 | (self.mode & 0o022)
    }

    pub(crate) fn check_name(&self) -> Result<(), NodeError> {
        let bad = |reason| {
            let name = self.name.clone();
            Err(NodeError::Pool(hythe_pool::PoolError::BadName {
                name,
                reason,
            }))
        };
        if self.name.is_empty() || self.name.len() > 64 {
            return bad("a pool's name has 1 to 64 bytes");
        }
        if self.name.starts_with('.')
            || self.name.contains('/')
            || self.name.contains(char::is_control)
        {
            return bad(
                "a pool's name is one path component without control characters, and does not start with a dot",
            );
        }
        Ok(())
    }
}

impl PoolOptions {
    /// What another makes in a user's directory, be it root, would be refused there as a squatter's.
    pub(crate) fn check_maker(&self) -> Result<(), NodeError> {
        let own = rustix::process::getuid().as_raw();
        if self.owner == own {
            return Ok(());
        }
        let reason = format!(
            "only user {} makes pools there, and you are {own}",
            self.owner
        );
        let path = self.path();
        Err(NodeError::Unsafe { path, reason })
    }
}

const DIRECTORY: OFlags = OFlags::DIRECTORY
    .union(OFlags::NOFOLLOW)
    .union(OFlags::CLOEXEC)
    .union(OFlags::RDONLY);

/// Opens `ROOT/<uid>`, making what is missing if `make`.
pub(crate) fn open_user_directory(options: &PoolOptions, make: bool) -> Result<OwnedFd, NodeError> {
    let own = rustix::process::getuid().as_raw();
    let root = open_or_make(
        CWD.as_fd(),
        &options.root,
        &options.root,
        make.then_some(0o1777),
    )?;
    let found = stat(&root, &options.root)?;
    let foreign = found.st_uid != 0 && found.st_uid != own;
    let open_to_all = found.st_mode & 0o022 != 0 && found.st_mode & 0o1000 == 0;
    if foreign || open_to_all {
        let reason = format!(
            "owner {} and mode {:04o} would let somebody else replace pools; it must belong to root or you, and be sticky if others may write (HYTHE_ROOT chooses another place)",
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
    let mode = if options.mode & 0o077 == 0 {
        0o700
    } else {
        0o711
    };
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
            // Another user's directory may be searched without being readable; the names in it are not our business.
            return fs::openat(&at, name, DIRECTORY | OFlags::PATH, Mode::empty())
                .map_err(|error| refused("open", path, error.into()));
        }
        Err(error) => return Err(refused("open", path, error.into())),
    }
    let mode = Mode::from_raw_mode(make.unwrap_or(0o700));
    match fs::mkdirat(&at, name, mode) {
        Ok(()) => {
            let made =
                fs::openat(&at, name, DIRECTORY, Mode::empty()).map_err(io(("open", path)))?;
            // The umask has had its say in mkdir; this is the mode that is wanted.
            fs::fchmod(&made, mode).map_err(io(("set the mode of", path)))?;
            Ok(made)
        }
        Err(rustix::io::Errno::EXIST) => {
            fs::openat(&at, name, DIRECTORY, Mode::empty()).map_err(io(("open", path)))
        }
        Err(error) => Err(refused("make", path, error.into())),
    }
}

/// Opens the directory of an existing pool.
pub(crate) fn open_pool(user: &OwnedFd, options: &PoolOptions) -> Result<OwnedFd, NodeError> {
    let path = options.path();
    match fs::openat(user, &options.name, DIRECTORY, Mode::empty()) {
        Ok(opened) => check_owner(&opened, &path, options.owner).map(|()| opened),
        Err(rustix::io::Errno::NOENT) => Err(NodeError::NoSuchPool {
            name: options.name.clone(),
            root: options.user_path(),
        }),
        Err(error) => Err(refused("open", &path, error.into())),
    }
}

/// Makes an empty directory that nobody looks for, to be filled and then given its name by [`reveal`].
pub(crate) fn make_hidden(
    user: &OwnedFd,
    options: &PoolOptions,
) -> Result<(String, OwnedFd), NodeError> {
    let hidden = hidden_name(options);
    // What a process of our id left behind is not in use: the id is ours now, and the number nobody else's.
    remove_directory(user, &hidden);
    let mode = Mode::from_raw_mode(options.directory_mode());
    let path = options.path();
    fs::mkdirat(user, &hidden, mode).map_err(io(("make", &path)))?;
    let made = fs::openat(user, &hidden, DIRECTORY, Mode::empty()).map_err(io(("open", &path)))?;
    fs::fchmod(&made, mode).map_err(io(("set the mode of", &path)))?;
    Ok((hidden, made))
}

/// Takes the name from a pool, so that nobody finds it any more, then removes it: wholly or, without permission, not at all.
pub(crate) fn remove_pool(user: &OwnedFd, options: &PoolOptions) -> Result<(), NodeError> {
    let hidden = hidden_name(options);
    fs::renameat(user, &options.name, user, &hidden)
        .map_err(|error| refused("remove", &options.user_path(), error.into()))?;
    remove_directory(user, &hidden);
    if fs::statat(user, &hidden, AtFlags::SYMLINK_NOFOLLOW).is_err() {
        return Ok(());
    }
    let path = options.user_path().join(hidden);
    Err(NodeError::Unsafe {
        path,
        reason: "it could not be emptied; see what is in it".to_owned(),
    })
}

/// A name that nobody looks for, and nobody else uses.
fn hidden_name(options: &PoolOptions) -> String {
    // Several threads may make pools at once, even of one name.
    static MADE: AtomicU32 = AtomicU32::new(0);
    let number = MADE.fetch_add(1, Ordering::Relaxed);
    format!(".making.{}.{number}.{}", std::process::id(), options.name)
}

/// Gives a filled directory its name. False: a pool of that name appeared meanwhile.
pub(crate) fn reveal(
    user: &OwnedFd,
    hidden: &str,
    options: &PoolOptions,
) -> Result<bool, NodeError> {
    match fs::renameat_with(user, hidden, user, &options.name, RenameFlags::NOREPLACE) {
        Ok(()) => Ok(true),
        Err(rustix::io::Errno::EXIST) => {
            remove_directory(user, hidden);
            Ok(false)
        }
        Err(error) => {
            remove_directory(user, hidden);
            Err(file("name", options.path())(error.into()))
        }
    }
}

/// Removes a directory with the files in it, as far as possible.
pub(crate) fn remove_directory(user: &OwnedFd, name: &str) {
    let Ok(directory) = fs::openat(user, name, DIRECTORY, Mode::empty()) else {
        return;
    };
    for entry in entries(&directory) {
        // What cannot be removed makes the last step fail, and is found by `pool list`.
        let _ = fs::unlinkat(&directory, &entry, AtFlags::empty());
    }
    let _ = fs::unlinkat(user, name, AtFlags::REMOVEDIR);
}

/// Removes the user's directory, and the default root, if they are empty: a machine without pools has no trace of them.
pub(crate) fn remove_if_empty(options: &PoolOptions) {
    // Not empty, not ours, gone already: each is fine.
    let _ = fs::unlinkat(CWD, options.user_path(), AtFlags::REMOVEDIR);
    if options.root == Path::new(DEFAULT_ROOT) {
        let _ = fs::unlinkat(CWD, &options.root, AtFlags::REMOVEDIR);
    }
}

/// Removes what makers that died left behind.
pub(crate) fn sweep_hidden(user: &OwnedFd) {
    for name in entries(user) {
        let maker = name
            .strip_prefix(".making.")
            .and_then(|rest| rest.split('.').next());
        let Some(maker) = maker.and_then(|pid| pid.parse::<u32>().ok()) else {
            continue;
        };
        if maker != std::process::id() && crate::process::identity_of(maker).is_none() {
            remove_directory(user, &name);
        }
    }
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
    let mode = Mode::from_raw_mode(options.mode);
    let made = fs::openat(directory, name, flags, mode).map_err(io(("make", &path)))?;
    fs::fchmod(&made, mode).map_err(io(("set the mode of", &path)))?;
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
    let access = if writable {
        OFlags::RDWR
    } else {
        OFlags::RDONLY
    };
    // Without waiting: for the other end of a pipe, say, that somebody put there.
    let flags = access | OFlags::NOFOLLOW | OFlags::CLOEXEC | OFlags::NONBLOCK;
    let opened = fs::openat(directory, name, flags, Mode::empty())
        .map_err(|error| refused("open", &path, error.into()))?;
    let found = stat(&opened, &path)?;
    if FileType::from_raw_mode(found.st_mode) != FileType::RegularFile {
        return Err(NodeError::Unsafe {
            path,
            reason: "it is not a regular file".to_owned(),
        });
    }
    check_owner(&opened, &path, options.owner)?;
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

fn stat(opened: &OwnedFd, path: &Path) -> Result<Stat, NodeError> {
    fs::fstat(opened).map_err(io(("look at", path)))
}

/// Names what permission is missing, if that is what is missing.
fn refused(action: &'static str, path: &Path, error: io::Error) -> NodeError {
    if error.kind() == io::ErrorKind::PermissionDenied {
        // The path itself, or the closest directory above it that can be looked at.
        for shown in path.ancestors() {
            if let Ok(found) = fs::statat(CWD, shown, AtFlags::SYMLINK_NOFOLLOW) {
                return NodeError::Permission {
                    path: shown.to_owned(),
                    mode: found.st_mode & 0o7777,
                    owner: found.st_uid,
                    group: found.st_gid,
                };
            }
        }
    }
    file(action, path)(error)
}

fn io((action, path): (&'static str, &Path)) -> impl FnOnce(rustix::io::Errno) -> NodeError {
    let path = path.to_owned();
    move |error| file(action, path)(error.into())
}

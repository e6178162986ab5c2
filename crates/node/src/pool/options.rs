//! Which pool, and how to make it.

use std::path::{Path, PathBuf};

use crate::NodeError;

pub(crate) const DEFAULT_ROOT: &str = "/dev/shm/hythe";

/// Where pools live unless told otherwise: `HYTHE_ROOT`, else `/dev/shm/hythe`. An empty variable
/// is not set.
#[must_use]
pub fn default_root() -> PathBuf {
    hythe_sys::environment::variable("HYTHE_ROOT")
        .map_or_else(|| PathBuf::from(DEFAULT_ROOT), PathBuf::from)
}

/// Which pool, and how to make it.
#[derive(Clone, Debug)]
pub struct PoolOptions {
    pub(crate) name: String,
    pub(crate) root: PathBuf,
    pub(crate) owner: u32,
    mode: u32,
    pub(crate) group: Option<u32>,
    pub(crate) bytes: Option<usize>,
    pub(crate) limits: Option<hythe_abi::pool::Limits>,
    pub(crate) geometry: Option<hythe_pool::Geometry>,
    pub(crate) classes: Vec<hythe_pool::ClassPlan>,
    pub(crate) prefault: bool,
    pub(crate) spin: Option<std::time::Duration>,
    pub(crate) lock: bool,
    pub(crate) huge_pages: Option<PathBuf>,
}

/// What the members of a group may do in a pool.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum GroupAccess {
    /// Subscribe, and read what is published. They take part in the control file, but cannot open
    /// regions for writing.
    Read,
    /// Everything but what the owner alone may: remove the pool, and run cores in it.
    Write,
}

impl PoolOptions {
    /// The pool of this user with that name. `USER/NAME` names another user's, the user by number
    /// or by name ([`crate::user_id`]).
    #[must_use]
    pub fn new(name: &str) -> Self {
        let own = hythe_sys::identity::user();
        let other = name
            .split_once('/')
            .and_then(|(user, name)| Some((crate::user_id(user)?, name)));
        let (owner, name) = other.unwrap_or((own, name));
        Self {
            name: name.to_owned(),
            root: default_root(),
            owner,
            mode: 0o600,
            group: None,
            bytes: None,
            limits: None,
            geometry: None,
            classes: Vec::new(),
            prefault: false,
            spin: None,
            lock: false,
            huge_pages: None,
        }
    }

    /// Another place than [`default_root`].
    #[must_use]
    pub fn root(mut self, root: &Path) -> Self {
        root.clone_into(&mut self.root);
        self
    }

    /// Size of the whole pool, if it has to be made; default: [`crate::default_bytes`], and at most
    /// half of what is free. More than there is, by file system, machine or control group, is
    /// refused ([`NodeError::TooLarge`]).
    #[must_use]
    pub const fn bytes(mut self, bytes: usize) -> Self {
        self.bytes = Some(bytes);
        self
    }

    /// The sizes of the control tables, if the pool has to be made; `limits.slots` counts the
    /// entries kept for later regions. Default: those of its size
    /// ([`hythe_pool::Geometry::default_limits_for`]), or where the default size is less than
    /// twice what these take, [`hythe_pool::Geometry::small_limits`].
    #[must_use]
    pub const fn limits(mut self, limits: hythe_abi::pool::Limits) -> Self {
        self.limits = Some(limits);
        self
    }

    /// Tables for a small device: at most 8 processes take part. A pool of 2 MiB is useful then.
    #[must_use]
    pub const fn small(self) -> Self {
        self.limits(hythe_pool::Geometry::small_limits())
    }

    /// One more class of slots, if the pool has to be made: `count` slots for payloads of up to
    /// `payload_bytes`. The usual classes share what these leave of the pool's size, which is as
    /// much larger than the default as they take, unless [`PoolOptions::bytes`] says it. A region
    /// has at most 8 classes in all.
    #[must_use]
    pub fn class(mut self, payload_bytes: usize, count: u32) -> Self {
        self.classes.push(hythe_pool::ClassPlan {
            payload_bytes,
            count,
        });
        self
    }

    /// Exact sizes, if it has to be made: neither [`PoolOptions::bytes`] nor
    /// [`PoolOptions::limits`] nor [`PoolOptions::class`] count then.
    #[must_use]
    pub fn geometry(mut self, geometry: hythe_pool::Geometry) -> Self {
        self.geometry = Some(geometry);
        self
    }

    /// Permissions of the regions, if the pool has to be made; default 0600. Exactly these,
    /// whatever the umask. Who may read regions may take part: the control file is writable for all
    /// of them, and the directory can be searched by them.
    #[must_use]
    pub const fn mode(mut self, mode: u32) -> Self {
        // Writing without reading makes no sense.
        self.mode = (mode & 0o666) | ((mode & 0o022) << 1) | 0o600;
        self
    }

    /// Gives the pool to a group, if it has to be made; default: the maker's own. Who makes it must
    /// be in the group, or root.
    #[must_use]
    pub const fn group(mut self, gid: u32) -> Self {
        self.group = Some(gid);
        self
    }

    /// What the group may do, if the pool has to be made; default: nothing. As
    /// [`PoolOptions::mode`] 0640 or 0660.
    #[must_use]
    pub const fn group_access(self, access: GroupAccess) -> Self {
        let bits = match access {
            GroupAccess::Read => 0o040,
            GroupAccess::Write => 0o060,
        };
        let others = self.mode & 0o606;
        self.mode(others | bits)
    }

    /// The pool of another user, by number. Only that user makes and removes it.
    #[must_use]
    pub const fn owner(mut self, uid: u32) -> Self {
        self.owner = uid;
        self
    }

    /// Touch every page when joining, so that no first touch is paid on the data path; those of a
    /// core's region and link when a port meets that core. Asked for when the pool is made, it
    /// holds for everybody who joins.
    #[must_use]
    pub const fn prefault(mut self, prefault: bool) -> Self {
        self.prefault = prefault;
        self
    }

    /// How long a wait looks at most before it sleeps, where the peer can run meanwhile: less where
    /// looking does not pay, nothing on a single CPU and under a real-time policy. At most 10 ms.
    /// Default: `HYTHE_SPIN_US` microseconds, else 50. Zero: always sleep at once.
    #[must_use]
    pub const fn spin(mut self, limit: std::time::Duration) -> Self {
        self.spin = Some(limit);
        self
    }

    /// Lock every page of the control file and of Linux's slots into memory when joining, and those
    /// of a core's region and link when a port meets that core: no page is ever fetched or swapped
    /// on the data path. Asked for when the pool is made, it holds for everybody who joins. Needs
    /// `RLIMIT_MEMLOCK`, or the capability to lock memory, for all of them. Slots for the wire are
    /// not locked: they get fresh pages with each lease.
    #[must_use]
    pub const fn lock(mut self, lock: bool) -> Self {
        self.lock = lock;
        self
    }

    /// Put the slots on huge pages, if the pool has to be made, and those of the region for network
    /// cards when that is added: `mount` is a hugetlbfs mount. When opening: the slots are on this
    /// mount, where it is not at the place that the maker saw (another container).
    #[must_use]
    pub fn huge_pages(mut self, mount: &Path) -> Self {
        self.huge_pages = Some(mount.to_owned());
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

    /// The same pool under another name.
    pub(crate) fn named(&self, name: String) -> Self {
        Self {
            name,
            ..self.clone()
        }
    }

    pub(crate) fn user_path(&self) -> PathBuf {
        self.root.join(self.owner.to_string())
    }

    /// Nobody but the owner takes part.
    pub(crate) const fn is_private(&self) -> bool {
        self.mode & 0o077 == 0
    }

    /// Permissions of a file of the pool: who may read slots writes its records in the control
    /// file.
    pub(crate) fn file_mode(&self, name: &str) -> u32 {
        let is_for_all = name == "control" || name.starts_with("objects");
        let writing = if is_for_all {
            (self.mode & 0o044) >> 1
        } else {
            0
        };
        self.mode | writing
    }

    /// Permissions of the pool's directory: only the owner makes and removes what is in it.
    pub(crate) const fn directory_mode(&self) -> u32 {
        0o700 | (self.mode & 0o044) | ((self.mode & 0o044) >> 2)
    }

    /// Permissions of the sockets' directory: everybody who takes part makes one, nobody removes
    /// another's, all get the group.
    pub(crate) const fn members_mode(&self) -> u32 {
        let taking_part = self.mode & 0o044;
        if taking_part == 0 {
            return 0o700;
        }
        0o3700 | taking_part | (taking_part >> 1) | (taking_part >> 2)
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
        // [`PoolOptions::new`] has taken a user that exists off the name.
        if let Some((user, name)) = self.name.split_once('/')
            && !user.is_empty()
            && !user.starts_with('.')
            && !name.is_empty()
            && !name.contains('/')
        {
            return Err(NodeError::NoSuchUser {
                user: user.to_owned(),
                name: name.to_owned(),
            });
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
    /// The pool is not there: who can make it depends on whose it would be.
    pub(crate) fn no_such_pool(&self) -> NodeError {
        let (name, root) = (self.name.clone(), self.user_path());
        if self.owner == hythe_sys::identity::user() {
            return NodeError::NoSuchPool { name, root };
        }
        NodeError::NoPoolOfUser {
            user: self.owner,
            name,
            root,
        }
    }

    /// What another makes in a user's directory, be it root, would be refused there as a
    /// squatter's.
    pub(crate) fn check_maker(&self) -> Result<(), NodeError> {
        let own = hythe_sys::identity::user();
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

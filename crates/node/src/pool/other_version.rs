//! A pool of another layout version: whether any process uses it, told without reading its tables.
//!
//! Opening and removing a pool call this where the control file is of another version. Two proofs
//! hold for every version: a process that takes part listens on a socket in `members`, and it has
//! the control file open for writing, or mapped so, which the kernel tells
//! ([`hythe_sys::file_lease`]), also of containers and of programs that closed their descriptors.
//! A core that runs on without its agent has a region or link file open. Never removes a pool that
//! holds what outlives its programs (semaphores, queues, segments).

use std::io::ErrorKind;
use std::os::fd::OwnedFd;

use hythe_pool::PoolError;
use hythe_sys::file_lease::ReadLease;
use rustix::fs::{FlockOperation, flock};

use crate::pool::directory::{self, MEMBERS, entries, open_file};
use crate::pool::files::PoolFiles;
use crate::pool::{hidden, liveness_socket, region_files};
use crate::{NodeError, PoolOptions};

/// What is in the way of removing such a pool.
#[derive(Debug)]
pub(crate) enum Obstacle {
    /// These processes take part.
    Members(Vec<String>),
    /// Some process has this file of it open, or another one removes it.
    Busy(String),
    /// It has a file that outlives the programs.
    Kept(String),
    /// It is not known whether it is used.
    Unknown(String),
}

/// The versions of such a pool and of this program, if the error is about that.
pub(crate) const fn versions(error: &NodeError) -> Option<(u32, u32)> {
    match error {
        NodeError::Pool(PoolError::OtherVersion { found, expected }) => Some((*found, *expected)),
        _ => None,
    }
}

/// Removes the pool if it is not used.
pub(crate) fn remove_unused(options: &PoolOptions) -> Result<(), Obstacle> {
    let user = hythe_sys::identity::user();
    if options.owner != user {
        let owner = options.owner;
        return Err(Obstacle::Unknown(format!(
            "it belongs to user {owner}, and you are user {user}"
        )));
    }
    let parent = directory::open_user_directory(options, false).map_err(unknown)?;
    let pool = directory::open_pool(&parent, options).map_err(unknown)?;
    // Of several that remove it, one continues. The next finds that the name leads elsewhere.
    if flock(&pool, FlockOperation::NonBlockingLockExclusive).is_err() {
        return Err(Obstacle::Busy("directory".to_owned()));
    }
    let files = PoolFiles::of(&pool, options).map_err(unknown)?;
    if !files.are_there() {
        return Err(Obstacle::Busy("directory".to_owned()));
    }
    // Held until its name is taken away: a process that opens the pool meanwhile is refused.
    let _leases = leases_if_unused(&pool, options)?;
    hidden::remove_pool(&parent, options).map_err(unknown)
}

/// Who is known to use the pool, for messages. Empty also where that is not known.
pub(crate) fn users(options: &PoolOptions) -> Vec<String> {
    let opened = directory::open_user_directory(options, false)
        .and_then(|parent| directory::open_pool(&parent, options));
    match opened.map(|pool| leases_if_unused(&pool, options)) {
        Ok(Err(Obstacle::Members(members))) => members,
        Ok(Err(Obstacle::Busy(file))) => vec![format!("a process that has its file {file} open")],
        _ => Vec::new(),
    }
}

/// A lease of each file of the pool: the proof that no process uses it.
fn leases_if_unused(pool: &OwnedFd, options: &PoolOptions) -> Result<Vec<ReadLease>, Obstacle> {
    let members = liveness_socket::listeners(pool, options);
    if !members.is_empty() {
        return Err(Obstacle::Members(members));
    }
    let mut names = entries(pool);
    names.retain(|name| name != MEMBERS);
    if let Some(kept) = names.iter().find(|name| !goes_with_programs(name)) {
        return Err(Obstacle::Kept(kept.clone()));
    }
    let leases = names.iter().map(|name| {
        let (file, _) = open_file(pool, name, false, options).map_err(unknown)?;
        ReadLease::take(file).map_err(|error| match error.kind() {
            ErrorKind::WouldBlock => Obstacle::Busy(name.clone()),
            _ => Obstacle::Unknown(format!(
                "the kernel does not tell who has its file {name} open ({error})"
            )),
        })
    });
    let leases = leases.collect::<Result<Vec<ReadLease>, Obstacle>>()?;
    // Elsewhere a lease that is granted proves less: what is mapped from overlayfs is another
    // inode, and other machines may use a network file system.
    match region_files::is_on_tmpfs(pool) {
        Ok(true) => Ok(leases),
        _ => Err(Obstacle::Unknown(
            "it is not on a tmpfs, where alone the kernel tells whether it is used".to_owned(),
        )),
    }
}

/// Is it a file of a pool that nothing needs behind the last participant? Not the records of
/// regions on huge pages: those files have no leases.
fn goes_with_programs(name: &str) -> bool {
    let number = |prefix| {
        let rest: Option<&str> = name.strip_prefix(prefix);
        rest.is_some_and(|rest| rest.parse::<u8>().is_ok())
    };
    name == "control" || number("region.") || number("link.")
}

fn unknown(error: NodeError) -> Obstacle {
    match error {
        // Another program has just removed it, and may be making it anew.
        NodeError::NoSuchPool { .. } => Obstacle::Busy("directory".to_owned()),
        error => Obstacle::Unknown(error.to_string()),
    }
}

impl Obstacle {
    /// May it be gone a moment later? Another program that looks at the pool has its files open for
    /// as long.
    pub(crate) const fn may_pass(&self) -> bool {
        matches!(self, Self::Busy(_))
    }

    /// The error of a program that wanted the pool.
    pub(crate) fn into_error(
        self,
        (found, expected): (u32, u32),
        options: &PoolOptions,
    ) -> NodeError {
        let name = &options.name;
        let path = options.path();
        let reason = match self {
            Self::Members(members) => format!(
                "it is in use by {}: stop them, and start this program again",
                members.join(", ")
            ),
            Self::Busy(file) => format!(
                "a process has its file {file} open: `fuser -v {}/*` shows it; stop it, and start this program again",
                path.display()
            ),
            Self::Kept(file) => format!(
                "it has `{file}`, which outlives its programs: `hythe pool remove {name}` removes all of it"
            ),
            Self::Unknown(why) => {
                format!("{why}: once no process uses it, `hythe pool remove {name}` removes it")
            }
        };
        NodeError::OtherVersion {
            name: name.clone(),
            found,
            expected,
            reason,
        }
    }
}

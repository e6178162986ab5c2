//! Stand-ins: fresh copies of files whose pages are in memory and cannot be thrown out of it.
//!
//! A page that a running process maps stays when the caches are dropped: those of the C library
//! always. Whether the recorded command needed it cannot be seen, since it was there before. So the
//! command runs with mounts of its own, in which a copy, of which nothing is in memory, stands in
//! the place of each such file. What is in memory of the copy afterwards was needed.
//!
//! The copies are read-only mounts: a change is refused, never lost. Files that somebody may be
//! changing through a mapping are never copied. The guard removes the copies, whatever happens.

use std::collections::HashMap;
use std::fs::{self, File, Permissions};
use std::os::unix::ffi::OsStrExt;
use std::os::unix::fs::{MetadataExt, PermissionsExt, fchown};
use std::path::{Path, PathBuf};

use rustix::fs::{
    Advice, StatVfsMountFlags, XattrFlags, fadvise, fsetxattr, lgetxattr, llistxattr, statvfs,
};
use rustix::mount::{MountFlags, MountPropagationFlags, mount_bind, mount_change, mount_remount};

use super::Inode;
use super::guard::{Guard, Undo, can_be_told};
use super::mounts::{Mount, Mounts};
use super::sweep::Mapped;
use super::table::Identity;
use crate::PreloadError;

/// Where copies go, and how much of them.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Scratch {
    /// Directories; the first on storage that takes files is used.
    pub directories: Vec<PathBuf>,
    /// Bytes of all copies at most; never more than half of what is free there.
    pub limit: u64,
}

/// Room for attributes of a file, all of which are small.
const ATTRIBUTE_BYTES: usize = 64 << 10;

#[derive(Debug)]
struct StandIn {
    path: PathBuf,
    copy: PathBuf,
    inode: Inode,
    original: Identity,
}

/// The copies of one recording.
#[derive(Debug, Default)]
pub(super) struct StandIns {
    made: Vec<StandIn>,
    /// Bytes that were written for them.
    pub(super) bytes: u64,
}

impl StandIns {
    /// Copies of those of `mapped` that can be copied, most used first. Few or none where there is
    /// no room.
    pub(super) fn make(
        mapped: &[Mapped],
        scratch: &Scratch,
        guard: &mut Guard,
    ) -> Result<Self, PreloadError> {
        let mounts = Mounts::read()?;
        let Some(directory) = usable(scratch, &mounts, guard)? else {
            return Ok(Self::default());
        };
        let free = statvfs(&directory).map_or(0, |at| at.f_bavail.saturating_mul(at.f_frsize));
        let limit = scratch.limit.min(free / 2);
        let stays = |mapped: &&Mapped| {
            let storage = mounts.holding(&mapped.path).is_some_and(Mount::is_storage);
            storage && !mapped.written
        };
        let mut wanted: Vec<(&Mapped, fs::Metadata)> = mapped
            .iter()
            .filter(stays)
            .filter_map(|mapped| Some((mapped, fs::symlink_metadata(&mapped.path).ok()?)))
            .filter(|(mapped, metadata)| Inode::of(metadata) == mapped.inode)
            .collect();
        wanted.sort_by_key(|(mapped, metadata)| (u32::MAX - mapped.processes, metadata.size()));
        let mut made = Self::default();
        for (mapped, metadata) in wanted {
            if made.bytes.saturating_add(metadata.size()) > limit {
                continue;
            }
            let copy = directory.join(made.made.len().to_string());
            // What cannot be copied is as if there were no room for it: it is told as in memory
            // before.
            let Ok(inode) = copy_to(&copy, &mapped.path, &metadata) else {
                continue;
            };
            made.bytes += metadata.size();
            made.made.push(StandIn {
                path: mapped.path.clone(),
                copy,
                inode,
                original: Identity::of(&metadata),
            });
        }
        Ok(made)
    }

    /// Puts the copies into the place of their files, in the mounts of the calling thread, which
    /// nobody else may see.
    pub(super) fn mount(&self) {
        for stand_in in &self.made {
            // Whatever of this fails, the command finds the file itself.
            let Ok(at) = statvfs(&stand_in.path) else {
                continue;
            };
            if mount_bind(&stand_in.copy, &stand_in.path).is_err() {
                continue;
            }
            let flags = MountFlags::BIND | MountFlags::RDONLY | kept(at.f_flag);
            if mount_remount(&stand_in.path, flags, "").is_err() {
                let _ = rustix::mount::unmount(&stand_in.path, rustix::mount::UnmountFlags::DETACH);
            }
        }
    }

    /// What each copy stands for.
    pub(super) fn identities(&self) -> HashMap<Inode, Identity> {
        let all = self.made.iter();
        all.map(|stand_in| (stand_in.inode, stand_in.original))
            .collect()
    }

    /// The copies themselves.
    pub(super) fn copies(&self) -> impl Iterator<Item = (&Path, Inode)> {
        self.made
            .iter()
            .map(|stand_in| (stand_in.copy.as_path(), stand_in.inode))
    }

    /// How many there are.
    pub(super) fn count(&self) -> u64 {
        self.made.len() as u64
    }
}

/// From now on, what the calling thread mounts is seen by nobody else. It has mounts of its own
/// already.
pub(super) fn keep_mounts_to_ourselves() -> Result<(), PreloadError> {
    let inwards = MountPropagationFlags::DOWNSTREAM | MountPropagationFlags::REC;
    if mount_change("/", inwards).is_ok() {
        return Ok(());
    }
    // The root of a `chroot` is no mount.
    let mounts = Mounts::read()?;
    for mount in mounts.all().iter().filter(|mount| mount.shared) {
        mount_change(&mount.point, MountPropagationFlags::DOWNSTREAM).map_err(|error| {
            PreloadError::file("keep to ourselves the mount", &mount.point)(error.into())
        })?;
    }
    Ok(())
}

/// A new directory of ours, in the first place that is good for it.
fn usable(
    scratch: &Scratch,
    mounts: &Mounts,
    guard: &mut Guard,
) -> Result<Option<PathBuf>, PreloadError> {
    if scratch.limit == 0 {
        return Ok(None);
    }
    for place in &scratch.directories {
        let Ok(place) = fs::canonicalize(place) else {
            continue;
        };
        let storage = mounts.holding(&place).is_some_and(Mount::is_storage);
        if !storage || !can_be_told(&place) {
            continue;
        }
        let name = tempfile::Builder::new()
            .prefix("hythe-record-")
            .make_in(&place, |path| {
                guard
                    .before(Undo::Remove(path.to_owned()))
                    .map_err(std::io::Error::other)?;
                fs::create_dir(path)
            });
        if let Ok(directory) = name {
            let (_, path) = directory
                .keep()
                .map_err(|error| PreloadError::file("keep", &place)(error.error))?;
            fs::set_permissions(&path, Permissions::from_mode(0o711))
                .map_err(PreloadError::file("set the mode of", &path))?;
            return Ok(Some(path));
        }
    }
    Ok(None)
}

/// A copy that programs cannot tell from the file but by its inode number. Nothing of it stays in
/// memory.
fn copy_to(copy: &Path, path: &Path, metadata: &fs::Metadata) -> std::io::Result<Inode> {
    fs::copy(path, copy)?;
    let file = File::options().read(true).write(true).open(copy)?;
    fchown(&file, Some(metadata.uid()), Some(metadata.gid()))?;
    // Behind the change of the owner, which takes set-user-ID bits and capabilities away.
    file.set_permissions(metadata.permissions())?;
    copy_attributes(path, &file);
    file.set_modified(metadata.modified()?)?;
    file.sync_all()?;
    fadvise(&file, 0, None, Advice::DontNeed)?;
    Ok(Inode::of(&file.metadata()?))
}

/// Labels, capabilities, access lists. A file system that has none of them has none to copy.
fn copy_attributes(path: &Path, file: &File) {
    let mut names = vec![0_u8; ATTRIBUTE_BYTES];
    let Ok(length) = llistxattr(path, &mut names[..]) else {
        return;
    };
    for name in names[..length]
        .split(|byte| *byte == 0)
        .filter(|name| !name.is_empty())
    {
        let name = std::ffi::OsStr::from_bytes(name);
        let mut value = vec![0_u8; ATTRIBUTE_BYTES];
        if let Ok(length) = lgetxattr(path, name, &mut value[..]) {
            let _ = fsetxattr(file, name, &value[..length], XattrFlags::empty());
        }
    }
}

/// What else the mount forbids, the stand-in forbids, too.
fn kept(flags: StatVfsMountFlags) -> MountFlags {
    let pairs = [
        (StatVfsMountFlags::NOSUID, MountFlags::NOSUID),
        (StatVfsMountFlags::NODEV, MountFlags::NODEV),
        (StatVfsMountFlags::NOEXEC, MountFlags::NOEXEC),
        (StatVfsMountFlags::NOATIME, MountFlags::NOATIME),
    ];
    pairs
        .into_iter()
        .filter(|(has, _)| flags.contains(*has))
        .fold(MountFlags::empty(), |all, (_, flag)| all | flag)
}

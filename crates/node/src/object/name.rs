//! Names of objects, and who may use them.

use hythe_abi::objects::NAME_BYTES;
use hythe_pool::ObjectInfo;

use super::SyncError;

/// What a user wants to do with an object, as bits of a mode.
pub(super) const READ: u32 = 4;
pub(super) const WRITE: u32 = 2;

/// The name without its slash, if it is one.
pub(super) fn checked(name: &str) -> Result<&str, SyncError> {
    let refused = |reason| {
        Err(SyncError::BadName {
            name: name.to_owned(),
            reason,
        })
    };
    // A slash at its start is POSIX's way, and not part of what tells names apart.
    let bare = name.strip_prefix('/').unwrap_or(name);
    if name.len() >= NAME_BYTES {
        return Err(SyncError::NameTooLong {
            bytes: name.len(),
            limit: NAME_BYTES - 1,
        });
    }
    match bare {
        "" => refused("it is empty"),
        _ if bare.contains('/') => refused("it has a slash in it"),
        _ if bare.chars().any(char::is_control) => refused("it has control characters"),
        _ => Ok(bare),
    }
}

/// May this user do `wanted` with the object?
pub(super) fn check_rights(info: &ObjectInfo, name: &str, wanted: u32) -> Result<(), SyncError> {
    let user = hythe_sys::identity::effective_user();
    let allowed = allowed(info, user, || is_in_group(info.gid));
    if allowed & wanted == wanted {
        return Ok(());
    }
    Err(SyncError::Permission {
        name: name.to_owned(),
        mode: info.mode,
        owner: info.uid,
        user,
    })
}

/// What a user may do, as with a file: by the first that applies of owner, group and others.
fn allowed(info: &ObjectInfo, user: u32, is_in_group: impl FnOnce() -> bool) -> u32 {
    if user == 0 {
        READ | WRITE
    } else if user == info.uid {
        info.mode >> 6
    } else if is_in_group() {
        info.mode >> 3
    } else {
        info.mode
    }
}

/// Only its owner takes an object's name away.
pub(super) fn check_owner(info: &ObjectInfo, name: &str) -> Result<(), SyncError> {
    let user = hythe_sys::identity::effective_user();
    if user == 0 || user == info.uid {
        return Ok(());
    }
    Err(SyncError::Permission {
        name: name.to_owned(),
        mode: info.mode,
        owner: info.uid,
        user,
    })
}

fn is_in_group(group: u32) -> bool {
    let own = rustix::process::getegid().as_raw();
    let others = || rustix::process::getgroups().unwrap_or_default();
    own == group || others().iter().any(|other| other.as_raw() == group)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe_memory::Mapped;
    use hythe_pool::{ObjectKind, ObjectTable};

    #[test]
    fn rights_are_those_of_a_file() {
        let index = ObjectTable::<Mapped>::indices().next().expect("one of 64");
        let info = ObjectInfo {
            index,
            kind: ObjectKind::Semaphore,
            generation: 1,
            mode: 0o642,
            uid: 7,
            gid: 8,
            messages_limit: 0,
            message_bytes: 0,
        };
        let may = |user, group: bool| allowed(&info, user, || group) & (READ | WRITE);
        assert_eq!(may(0, false), READ | WRITE, "root");
        assert_eq!(may(7, true), READ | WRITE, "its owner");
        assert_eq!(may(9, true), READ, "its group");
        assert_eq!(may(9, false), WRITE, "others");
    }

    #[test]
    fn slash_in_front_is_no_part_of_a_name() {
        assert_eq!(checked("/a").expect("a name"), "a");
        assert_eq!(checked("a").expect("a name"), "a");
        assert!(matches!(checked("//a"), Err(SyncError::BadName { .. })));
    }
}

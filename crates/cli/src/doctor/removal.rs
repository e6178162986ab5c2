//! What removes pools under the programs that use them: systemd-logind, at the end of a user's last
//! session (RemoveIPC of logind.conf(5)).
//!
//! It is the default, and deletes what belongs to that user below `/dev/shm`, at any depth. It
//! leaves out users of the system, and users that linger. It looks into folders of others, too
//! (systemd 252; early versions did not): that the folder of all pools is root's keeps that folder,
//! and no pool in it.

use std::fs;
use std::os::unix::fs::MetadataExt as _;
use std::path::Path;

use super::{Group, Probe};

const NAME: &str = "pools outlive sessions";
const FOLDER: &str = "/dev/shm/hythe";
/// Users below this are of the system (`SYS_UID_MAX`), and keep their files.
const FIRST_USER: u32 = 1000;

/// Where logind is configured, as it reads it: the first of these that is there, and behind it the
/// drop-ins of all by their names.
const FOLDERS: [&str; 4] = [
    "etc/systemd",
    "run/systemd",
    "usr/local/lib/systemd",
    "usr/lib/systemd",
];

pub(super) fn probe() -> Vec<Probe> {
    let user = rustix::process::getuid().as_raw();
    vec![judge(Path::new("/"), user), folder(Path::new("/"))]
}

/// Of a machine whose files are below `root`.
fn judge(root: &Path, user: u32) -> Probe {
    let group = Group::Memory;
    if !root.join("run/systemd/seats").exists() {
        return Probe::works(group, NAME, "systemd-logind does not run here");
    }
    if !removes(root) {
        return Probe::works(group, NAME, "logind.conf has RemoveIPC=no");
    }
    if user < FIRST_USER {
        let detail = format!("logind removes no files of user {user}, which is the system's");
        return Probe::works(group, NAME, detail);
    }
    if lingers(root, user) {
        let detail = format!("user {user} lingers, so logind removes nothing of theirs");
        return Probe::works(group, NAME, detail);
    }
    let detail = format!(
        "logind removes the pools of user {user} when their last session ends (RemoveIPC=yes, \
         the default), under programs that still use them"
    );
    Probe::missing(group, NAME, detail).enable(
        "`loginctl enable-linger USER`, or a system user for the service, or RemoveIPC=no in \
         /etc/systemd/logind.conf",
    )
}

/// The folder of all pools: made by the first who makes a pool, unless the system did.
fn folder(root: &Path) -> Probe {
    let group = Group::Memory;
    let how = "`systemd-tmpfiles --create hythe.conf`, of the packages, makes it root's at boot";
    let Ok(found) = root.join("dev/shm/hythe").symlink_metadata() else {
        let detail = "is not there: the first who makes a pool makes it, and owns it";
        return Probe::missing(group, FOLDER, detail).enable(how);
    };
    let (owner, mode) = (found.uid(), found.mode() & 0o7777);
    if owner == 0 && mode == 0o1777 && found.is_dir() {
        return Probe::works(group, FOLDER, "is root's, and open to all users");
    }
    let detail = format!("belongs to user {owner} with mode {mode:04o}, and not to root with 1777");
    Probe::missing(group, FOLDER, detail).enable(how)
}

fn lingers(root: &Path, user: u32) -> bool {
    let passwd = fs::read_to_string(root.join("etc/passwd")).unwrap_or_default();
    let name = passwd.lines().find_map(|line| {
        let mut fields = line.split(':');
        let name = fields.next()?;
        (fields.nth(1)?.parse() == Ok(user)).then_some(name)
    });
    name.is_some_and(|name| root.join("var/lib/systemd/linger").join(name).exists())
}

/// What is set last counts.
fn removes(root: &Path) -> bool {
    let mut files = Vec::new();
    let main = FOLDERS.map(|folder| root.join(folder).join("logind.conf"));
    files.extend(main.into_iter().find(|file| file.exists()));
    let mut drop_ins: Vec<_> = FOLDERS
        .iter()
        // A name in an earlier folder hides the same in a later one.
        .rev()
        .flat_map(|folder| fs::read_dir(root.join(folder).join("logind.conf.d")))
        .flat_map(|entries| entries.flatten().map(|entry| entry.path()))
        .filter(|path| {
            path.extension()
                .is_some_and(|extension| extension == "conf")
        })
        .map(|path| (path.file_name().map(ToOwned::to_owned), path))
        .collect::<std::collections::BTreeMap<_, _>>()
        .into_values()
        .collect();
    files.append(&mut drop_ins);
    let texts = files
        .iter()
        .map(|file| fs::read_to_string(file).unwrap_or_default());
    let set = texts.filter_map(|text| removal_set_in(&text)).next_back();
    set.unwrap_or(true)
}

fn removal_set_in(text: &str) -> Option<bool> {
    let mut values = text
        .lines()
        .filter_map(|line| line.trim().strip_prefix("RemoveIPC"))
        .filter_map(|rest| rest.trim_start().strip_prefix('='));
    let value = values.next_back()?.trim().to_ascii_lowercase();
    match value.as_str() {
        "yes" | "y" | "true" | "t" | "on" | "1" => Some(true),
        "no" | "n" | "false" | "f" | "off" | "0" => Some(false),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::doctor::Status;

    fn write(root: &Path, file: &str, text: &str) {
        let path = root.join(file);
        fs::create_dir_all(path.parent().unwrap()).unwrap();
        fs::write(path, text).unwrap();
    }

    #[test]
    fn drop_ins_count_behind_the_file_by_their_names() {
        let machine = tempfile::tempdir().unwrap();
        let root = machine.path();
        assert!(removes(root), "the default");
        write(
            root,
            "usr/lib/systemd/logind.conf",
            "[Login]\nRemoveIPC=no\n",
        );
        assert!(!removes(root));
        write(root, "etc/systemd/logind.conf", "[Login]\n#RemoveIPC=no\n");
        assert!(removes(root), "it hides the vendor's");
        write(
            root,
            "usr/lib/systemd/logind.conf.d/50-a.conf",
            "[Login]\nRemoveIPC = off\n",
        );
        assert!(!removes(root));
        write(
            root,
            "run/systemd/logind.conf.d/60-b.conf",
            "RemoveIPC=true\n",
        );
        assert!(removes(root));
        write(root, "etc/systemd/logind.conf.d/60-b.conf", "");
        assert!(!removes(root), "it hides that of the same name");
    }

    #[test]
    fn folder_of_pools_is_roots_and_open_to_all() {
        use std::os::unix::fs::PermissionsExt as _;
        let machine = tempfile::tempdir().unwrap();
        let root = machine.path();
        assert_eq!(folder(root).status, Status::Missing);
        let pools = root.join("dev/shm/hythe");
        fs::create_dir_all(&pools).unwrap();
        fs::set_permissions(&pools, fs::Permissions::from_mode(0o755)).unwrap();
        assert_eq!(folder(root).status, Status::Missing, "closed to others");
        fs::set_permissions(&pools, fs::Permissions::from_mode(0o1777)).unwrap();
        let is_root = rustix::process::getuid().is_root();
        assert_eq!(folder(root).status == Status::Works, is_root);
    }

    #[test]
    fn user_without_protection_is_warned() {
        let machine = tempfile::tempdir().unwrap();
        let root = machine.path();
        let status = |user| judge(root, user).status;
        assert_eq!(status(1234), Status::Works, "no logind");
        fs::create_dir_all(root.join("run/systemd/seats")).unwrap();
        assert_eq!(status(1234), Status::Missing);
        assert_eq!(status(33), Status::Works, "a user of the system");
        write(
            root,
            "etc/passwd",
            "root:x:0:0::/:/bin/sh\ncam:x:1234:1234::/:/bin/sh\n",
        );
        write(root, "var/lib/systemd/linger/cam", "");
        assert_eq!(status(1234), Status::Works, "lingers");
        assert_eq!(status(1235), Status::Missing);
        write(
            root,
            "etc/systemd/logind.conf.d/hythe.conf",
            "RemoveIPC=no\n",
        );
        assert_eq!(status(1235), Status::Works);
    }
}

//! Processes that a runner or a part may still start: its user has a limit of them
//! (`RLIMIT_NPROC`), and so has each control group that it is in (`pids.max`). Tasks that would be
//! too many are refused before any of them is started. What cannot be read limits nothing here: the
//! kernel refuses then. Never changes a limit.

use std::fs;
use std::path::Path;

use rustix::process::{Resource, getrlimit, getuid};

use crate::tasks::error::TaskError;

/// Whoever has one of these in effect, as in the kernel's `copy_process`, has no limit of a user.
const CAP_SYS_ADMIN: u64 = 1 << 21;
const CAP_SYS_RESOURCE: u64 = 1 << 24;

/// A limit, and what counts towards it.
#[derive(Clone, Debug, PartialEq, Eq)]
struct Limit {
    of: String,
    taken: u64,
    limit: u64,
    raised_by: &'static str,
}

/// May so many more tasks be started?
pub(super) fn provide_for(tasks: usize, host: &str) -> Result<(), TaskError> {
    let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
    let of_group = of_group(Path::new("/sys/fs/cgroup"), &groups);
    let more = tasks as u64;
    let mut limits = of_user(more).into_iter().chain(of_group);
    match limits.find(|found| found.taken.saturating_add(more) > found.limit) {
        Some(found) if more > 0 => Err(TaskError::TooFewProcesses {
            host: host.to_owned(),
            tasks,
            limit_of: found.of,
            taken: found.taken,
            limit: found.limit,
            raised_by: found.raised_by,
        }),
        _ => Ok(()),
    }
}

/// `None`: this user has none, or it suffices for `more` whatever runs on this host.
fn of_user(more: u64) -> Option<Limit> {
    let limit = getrlimit(Resource::Nproc).current?;
    let own = fs::read_to_string("/proc/self/status").ok()?;
    let effective = u64::from_str_radix(field(&own, "CapEff:")?, 16).ok()?;
    let uid = getuid();
    if uid.is_root() || effective & (CAP_SYS_ADMIN | CAP_SYS_RESOURCE) != 0 {
        return None;
    }
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    if threads_of_host(&load).is_some_and(|all| all.saturating_add(more) <= limit) {
        return None;
    }
    let uid = uid.as_raw().to_string();
    Some(Limit {
        of: format!("user {uid}"),
        taken: threads_of_user(&uid),
        limit,
        raised_by: "`ulimit -u`, as root beyond the hard limit, or `nproc` in \
                    /etc/security/limits.conf",
    })
}

/// As the kernel counts: threads, by the real user.
fn threads_of_user(uid: &str) -> u64 {
    let processes = fs::read_dir("/proc").into_iter().flatten().flatten();
    let statuses =
        processes.filter_map(|process| fs::read_to_string(process.path().join("status")).ok());
    let own = statuses.filter(|status| field(status, "Uid:") == Some(uid));
    own.filter_map(|status| field(&status, "Threads:")?.parse::<u64>().ok())
        .sum()
}

/// The first word of a line of `/proc/PID/status`.
fn field<'s>(status: &'s str, name: &str) -> Option<&'s str> {
    let mut lines = status.lines();
    let values = lines.find_map(|line| line.strip_prefix(name))?;
    values.split_whitespace().next()
}

/// From `/proc/loadavg`: `0.00 0.01 0.05 1/123 4567`.
fn threads_of_host(load: &str) -> Option<u64> {
    load.split_whitespace()
        .nth(3)?
        .split_once('/')?
        .1
        .parse()
        .ok()
}

/// The tightest limit of the control group of version 2 that `groups`, the text of
/// `/proc/self/cgroup`, names, and of those above it.
fn of_group(mount: &Path, groups: &str) -> Option<Limit> {
    let path = groups.lines().find_map(|line| line.strip_prefix("0::/"))?;
    // It is outside of what is mounted here.
    if path.starts_with("../") {
        return None;
    }
    let number = |file: std::path::PathBuf| {
        let text = fs::read_to_string(file).ok()?;
        text.trim().parse::<u64>().ok()
    };
    let folders = Path::new(path).ancestors();
    let limits = folders.filter_map(|folder| {
        let at = mount.join(folder);
        Some(Limit {
            of: format!("control group /{}", folder.display()),
            taken: number(at.join("pids.current"))?,
            limit: number(at.join("pids.max"))?,
            raised_by: "its `pids.max` (`TasksMax=` of a service, `--pids-limit` of a container)",
        })
    });
    limits.min_by_key(|found| found.limit.saturating_sub(found.taken))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tightest_group_above_limits() {
        let mount = tempfile::tempdir().expect("a directory");
        let write = |folder: &str, current: &str, max: &str| {
            let at = mount.path().join(folder);
            fs::create_dir_all(&at).expect("own");
            fs::write(at.join("pids.current"), current).expect("own");
            fs::write(at.join("pids.max"), max).expect("own");
        };
        write("a/b/c", "2\n", "max\n");
        write("a/b", "90\n", "100\n");
        write("a", "95\n", "1000\n");
        let found = of_group(mount.path(), "1:cpu:/other\n0::/a/b/c\n").expect("limited");
        assert_eq!(
            (found.of.as_str(), found.taken, found.limit),
            ("control group /a/b", 90, 100)
        );
        assert_eq!(of_group(mount.path(), "0::/elsewhere\n"), None);
        assert_eq!(
            of_group(mount.path(), "0::/../../a\n"),
            None,
            "outside of our namespace"
        );
    }

    #[test]
    fn fields_of_the_kernel_are_read() {
        let status = "Name:\tx\nUid:\t1000\t0\t0\t0\nThreads:\t7\n";
        assert_eq!(field(status, "Uid:"), Some("1000"));
        assert_eq!(field(status, "Threads:"), Some("7"));
        assert_eq!(threads_of_host("0.00 0.01 0.05 1/123 4567\n"), Some(123));
        let own = fs::read_to_string("/proc/self/status").expect("there");
        let uid = field(&own, "Uid:").expect("there");
        assert!(threads_of_user(uid) > 0);
    }
}

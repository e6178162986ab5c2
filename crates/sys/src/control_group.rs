//! The memory limits of this process's control groups, v1 and v2, as their files state them.
//!
//! The node asks when a pool is made, the storage hop for its budget. A group's limit holds for all
//! groups below it, so that the limits of all ancestors count. Decides nothing by them, and never
//! writes.

use std::fs;
use std::path::{Path, PathBuf};

/// A control group with a limit.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GroupMemory {
    /// The directory of the group.
    pub group: PathBuf,
    /// Bytes that its processes may use together. Beyond, the kernel reclaims, then kills one of
    /// them.
    pub limit_bytes: u64,
    /// Bytes in use that cannot be reclaimed at once: what is in use, less the page cache of files
    /// that the kernel would give up first, as it counts for `MemAvailable`.
    pub used_bytes: u64,
}

impl GroupMemory {
    /// Bytes that are left.
    #[must_use]
    pub const fn left_bytes(&self) -> u64 {
        self.limit_bytes.saturating_sub(self.used_bytes)
    }
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Version {
    One,
    Two,
}

/// The groups of this process that bound its memory, its own first in each hierarchy.
#[derive(Clone, Debug, Default)]
pub struct ControlGroups(Vec<(Version, PathBuf)>);

/// From here up a limit of v1 is none: it says "unlimited" by the largest multiple of a page.
const UNLIMITED_BYTES: u64 = 1 << 62;

impl ControlGroups {
    /// As `proc` (`/proc`) tells it. What is missing or cannot be understood there bounds nothing.
    #[must_use]
    pub fn of_this_process(proc: &Path) -> Self {
        let read = |name: &str| fs::read_to_string(proc.join("self").join(name));
        let (Ok(groups), Ok(mounts)) = (read("cgroup"), read("mountinfo")) else {
            return Self::default();
        };
        Self(directories(&groups, &mounts))
    }

    /// Those that have a limit, with what is used of it now.
    #[must_use]
    pub fn limits(&self) -> Vec<GroupMemory> {
        let groups = self.0.iter();
        groups
            .filter_map(|(version, group)| limit(*version, group))
            .collect()
    }
}

/// The directories of the groups and of all their ancestors, by `/proc/self/cgroup` and
/// `/proc/self/mountinfo`.
fn directories(groups: &str, mounts: &str) -> Vec<(Version, PathBuf)> {
    let mut found = Vec::new();
    for line in groups.lines() {
        // number:controllers:path
        let mut parts = line.splitn(3, ':').skip(1);
        let (Some(controllers), Some(path)) = (parts.next(), parts.next()) else {
            continue;
        };
        let version = match controllers {
            "" => Version::Two,
            listed if listed.split(',').any(|name| name == "memory") => Version::One,
            _ => continue,
        };
        let path = Path::new(path);
        let mounts = mounts.lines().filter_map(|line| mount(line, version));
        let mounts: Vec<(PathBuf, PathBuf)> = mounts.collect();
        let showing = mounts.iter().find(|(root, _)| path.starts_with(root));
        if let Some((root, place)) = showing.or(mounts.first()) {
            found.extend(lineage(path, root, place).map(|group| (version, group)));
        }
    }
    found
}

/// Root and place of a mount, if it is one of this hierarchy.
fn mount(line: &str, version: Version) -> Option<(PathBuf, PathBuf)> {
    let (front, behind) = line.split_once(" - ")?;
    let mut behind = behind.split(' ');
    let (kind, options) = (behind.next()?, behind.nth(1)?);
    let is_it = match version {
        Version::One => kind == "cgroup" && options.split(',').any(|option| option == "memory"),
        Version::Two => kind == "cgroup2",
    };
    let mut front = front.split(' ').skip(3);
    let (root, place) = (front.next()?, front.next()?);
    is_it.then(|| (unescaped(root).into(), unescaped(place).into()))
}

/// The group at `path` and its ancestors, as far as the mount of `root` at `place` shows them.
fn lineage(path: &Path, root: &Path, place: &Path) -> impl Iterator<Item = PathBuf> + use<> {
    // Outside of what is mounted here, the mount's own root is the nearest ancestor that is known.
    let below = path.strip_prefix(root).unwrap_or(Path::new(""));
    let is_plain = |path: &Path| !path.components().any(|part| part.as_os_str() == "..");
    let below = if is_plain(below) {
        below
    } else {
        Path::new("")
    };
    let (own, top) = (place.join(below), place.to_owned());
    let mut next = Some(own);
    std::iter::from_fn(move || {
        let group = next.take()?;
        next = (group != top)
            .then(|| group.parent().map(Path::to_owned))
            .flatten();
        Some(group)
    })
}

/// Spaces, tabs, line ends and backslashes stand in octal there.
fn unescaped(text: &str) -> String {
    let codes = [
        ("\\040", " "),
        ("\\011", "\t"),
        ("\\012", "\n"),
        ("\\134", "\\"),
    ];
    codes.iter().fold(text.to_owned(), |text, (code, plain)| {
        text.replace(code, plain)
    })
}

fn limit(version: Version, group: &Path) -> Option<GroupMemory> {
    let number = |name: &str| number(&fs::read_to_string(group.join(name)).ok()?);
    let stat = fs::read_to_string(group.join("memory.stat")).unwrap_or_default();
    let (limits, usage, prefix) = match version {
        // The second holds for what lies above the mount as well.
        Version::One => (
            [
                number("memory.limit_in_bytes"),
                figure(&stat, "hierarchical_memory_limit"),
            ],
            number("memory.usage_in_bytes"),
            "total_",
        ),
        // Beyond the second nobody is killed, but everybody stopped until enough is reclaimed.
        Version::Two => (
            [number("memory.max"), number("memory.high")],
            number("memory.current"),
            "",
        ),
    };
    let limit_bytes = limits.into_iter().flatten().min()?;
    if limit_bytes >= UNLIMITED_BYTES {
        return None;
    }
    let cached = |state| figure(&stat, &format!("{prefix}{state}_file")).unwrap_or(0);
    let reclaimable = cached("inactive").saturating_add(cached("active") / 2);
    Some(GroupMemory {
        group: group.to_owned(),
        limit_bytes,
        used_bytes: usage.unwrap_or(0).saturating_sub(reclaimable),
    })
}

/// A limit or a use; `max` is none.
fn number(text: &str) -> Option<u64> {
    text.trim().parse().ok()
}

/// A line of `memory.stat`.
fn figure(stat: &str, name: &str) -> Option<u64> {
    let mut lines = stat.lines().filter_map(|line| line.split_once(' '));
    lines.find_map(|(found, value)| (found == name).then(|| number(value))?)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// A directory in place of `/`, with `proc/self` and mounts in it.
    struct Tree(tempfile::TempDir);

    impl Tree {
        fn new(groups: &str, mounts: &[(&str, &str, &str)]) -> Self {
            let tree = Self(tempfile::tempdir().expect("a place"));
            let root = tree.0.path().display().to_string();
            let line = |(number, (root_of, place, kind)): (usize, &(&str, &str, &str))| {
                format!("{number} 1 0:{number} {root_of} {root}{place} rw shared:5 - {kind}\n")
            };
            let other = (&"/", &"/data", &"ext4 /dev/vda rw,memory");
            let mounts: String = std::iter::once(&(*other.0, *other.1, *other.2))
                .chain(mounts)
                .enumerate()
                .map(line)
                .collect();
            tree.write("proc/self/cgroup", groups);
            tree.write("proc/self/mountinfo", &mounts);
            tree
        }

        fn write(&self, path: &str, text: &str) {
            let path = self.0.path().join(path);
            fs::create_dir_all(path.parent().expect("inside")).expect("room");
            fs::write(path, text).expect("room");
        }

        /// A group of v2 with its limit and use in MiB, without page cache.
        fn group(&self, path: &str, limit: &str, used_mib: u64) {
            self.write(&format!("{path}/memory.max"), limit);
            let used = format!("{}\n", used_mib * MIB);
            self.write(&format!("{path}/memory.current"), &used);
        }

        fn limits(&self) -> Vec<(String, u64, u64)> {
            let found = ControlGroups::of_this_process(&self.0.path().join("proc")).limits();
            let root = self.0.path();
            let found = found.into_iter().map(|found| {
                let group = found.group.strip_prefix(root).expect("inside").display();
                (group.to_string(), found.limit_bytes, found.used_bytes)
            });
            found.collect()
        }
    }

    const V2: &str = "cgroup2 cgroup2 rw,nsdelegate";
    const V1: &str = "cgroup cgroup rw,memory";

    #[test]
    fn every_ancestor_counts_and_max_is_no_limit() {
        let tree = Tree::new("0::/a.slice/b/c\n", &[("/", "/sys/fs/cgroup", V2)]);
        tree.group("sys/fs/cgroup/a.slice", "104857600\n", 40);
        tree.group("sys/fs/cgroup/a.slice/b", "max\n", 30);
        tree.group("sys/fs/cgroup/a.slice/b/c", "50331648\n", 20);
        let expected = [
            ("sys/fs/cgroup/a.slice/b/c".to_owned(), 48 * MIB, 20 * MIB),
            ("sys/fs/cgroup/a.slice".to_owned(), 100 * MIB, 40 * MIB),
        ];
        assert_eq!(tree.limits(), expected);
        // What slows everybody down is a limit as well.
        tree.write("sys/fs/cgroup/a.slice/b/memory.high", "33554432\n");
        assert_eq!(tree.limits()[1].1, 32 * MIB);
    }

    #[test]
    fn page_cache_that_can_go_is_not_in_use() {
        let tree = Tree::new("0::/\n", &[("/", "/cg", V2)]);
        tree.group("cg", "50331648", 40);
        let stat = format!(
            "anon 1\ninactive_file {}\nactive_file {}\nworkingset_refault_file 7\n",
            10 * MIB,
            8 * MIB
        );
        tree.write("cg/memory.stat", &stat);
        assert_eq!(tree.limits(), [("cg".to_owned(), 48 * MIB, 26 * MIB)]);
        let group = GroupMemory {
            group: "x".into(),
            limit_bytes: 5,
            used_bytes: 7,
        };
        assert_eq!(group.left_bytes(), 0);
    }

    #[test]
    fn version_one_is_found_by_its_controller() {
        let groups =
            "9:name=systemd:/x\n4:memory,hugetlb:/docker/77/inner\n3:cpuset:/y\n0::/none\n";
        let tree = Tree::new(
            groups,
            &[
                ("/", "/sys/fs/cgroup/cpuset", "cgroup cgroup rw,cpuset"),
                ("/", "/sys/fs/cgroup/memory", V1),
                ("/", "/sys/fs/cgroup/unified", V2),
            ],
        );
        let own = "sys/fs/cgroup/memory/docker/77/inner";
        tree.write(
            &format!("{own}/memory.limit_in_bytes"),
            "9223372036854771712\n",
        );
        tree.write(&format!("{own}/memory.usage_in_bytes"), "8388608\n");
        assert_eq!(tree.limits(), [], "unlimited");
        tree.write(&format!("{own}/memory.limit_in_bytes"), "50331648\n");
        let stat = "inactive_file 9\nhierarchical_memory_limit 9223372036854771712\n\
                    total_inactive_file 1048576\ntotal_active_file 2097152\n";
        tree.write(&format!("{own}/memory.stat"), stat);
        assert_eq!(tree.limits(), [(own.to_owned(), 48 * MIB, 6 * MIB)]);
        // Of a group above that is not mounted here.
        tree.write(
            &format!("{own}/memory.stat"),
            "hierarchical_memory_limit 33554432\n",
        );
        assert_eq!(tree.limits()[0].1, 32 * MIB);
    }

    #[test]
    fn container_sees_its_own_group_as_the_root_of_the_mount() {
        // Without a namespace of its own for groups: the path is the host's, the mount a part of
        // it.
        let tree = Tree::new(
            "4:memory:/docker/77/x\n",
            &[("/docker/77", "/my\\040groups/memory", V1)],
        );
        tree.write("my groups/memory/x/memory.limit_in_bytes", "10485760");
        tree.write("my groups/memory/memory.limit_in_bytes", "20971520");
        let limits: Vec<u64> = tree.limits().into_iter().map(|limit| limit.1).collect();
        assert_eq!(limits, [10 * MIB, 20 * MIB]);
        // With one, and a process from outside of it.
        for path in ["/../other", "/elsewhere"] {
            let tree = Tree::new(&format!("0::{path}\n"), &[("/docker/77", "/cg", V2)]);
            tree.group("cg", "20971520", 1);
            tree.group("other", "5", 1);
            assert_eq!(tree.limits(), [("cg".to_owned(), 20 * MIB, MIB)], "{path}");
        }
        let tree = Tree::new("0::/../other\n", &[("/", "/cg", V2)]);
        tree.group("cg", "20971520", 1);
        tree.group("other", "5", 1);
        assert_eq!(tree.limits(), [("cg".to_owned(), 20 * MIB, MIB)]);
    }

    #[test]
    fn what_is_missing_or_nonsense_bounds_nothing() {
        let nothing = tempfile::tempdir().expect("a place");
        assert_eq!(ControlGroups::of_this_process(nothing.path()).limits(), []);
        for groups in [
            "",
            "\n",
            "4:memory\n",
            "memory",
            "0::/a\n5:::\n",
            "4:memory:/a",
        ] {
            let tree = Tree::new(groups, &[("/", "/cg", V2)]);
            assert_eq!(tree.limits(), [], "{groups:?}");
        }
        let tree = Tree::new("0::/a\n", &[]);
        assert_eq!(tree.limits(), [], "no mount");
        for limit in ["", "-5", "x", "99999999999999999999999"] {
            let tree = Tree::new("0::/a\n", &[("/", "/cg", V2)]);
            tree.write("cg/a/memory.max", limit);
            assert_eq!(tree.limits(), [], "{limit:?}");
        }
        // A limit without a use: all of it may be left.
        let tree = Tree::new("0::/a\n", &[("/", "/cg", V2)]);
        tree.write("cg/a/memory.max", "4096");
        assert_eq!(tree.limits(), [("cg/a".to_owned(), 4096, 0)]);
    }
}

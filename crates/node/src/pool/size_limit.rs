//! How large a pool can be: by its file system, by the memory of the machine, by the limits of
//! control groups.
//!
//! Asked before memory is reserved. A file system in memory takes what it is asked for until the
//! kernel kills somebody: the refusal has to come before. Reads files of `/proc` and of the control
//! groups, reserves nothing, keeps nothing.

use std::os::fd::AsFd;
use std::path::{Path, PathBuf};

use hythe_pool::Geometry;
use hythe_sys::control_group::{ControlGroups, GroupMemory};
use rustix::fs::{StatFs, fstatfs};

use crate::error::SizeBound;
use crate::{NodeError, PoolOptions};

/// The most that can be reserved at a place.
#[derive(Clone, Debug)]
pub(crate) struct SizeLimit {
    bytes: u64,
    bound: SizeBound,
}

/// `f_type` of file systems whose files are in memory (linux/magic.h): tmpfs and ramfs.
const IN_MEMORY: [u64; 2] = [0x0102_1994, 0x8584_58F6];
/// Left to others is a sixteenth of the memory, within these: for page tables, and for what the
/// processes need besides.
const LEFT_SHARE: u64 = 16;
const LEFT_MIN_BYTES: u64 = 4 << 20;
const LEFT_MAX_BYTES: u64 = 64 << 20;
/// Most of a default pool.
const DEFAULT_MAX_BYTES: u64 = 64 << 20;
/// The least of it: small tables, and slots for a few messages.
const DEFAULT_MIN_BYTES: usize = 1 << 20;
/// Of the memory, a default pool takes this part.
const DEFAULT_SHARE: u64 = 8;

impl SizeLimit {
    /// What can be reserved in the file system of `place`.
    pub(crate) fn at(place: impl AsFd) -> Self {
        let by_files = |bytes| Self {
            bytes,
            bound: SizeBound::FileSystem,
        };
        // Where it does not tell, reserving does.
        let Ok(found) = fstatfs(place) else {
            return by_files(u64::MAX);
        };
        let free = by_files(free_bytes(&found));
        if !IN_MEMORY.contains(&(found.f_type as u64 & 0xFFFF_FFFF)) {
            return free;
        }
        let memory = Memory::now();
        let less = |least: Self, next: Self| {
            if next.bytes < least.bytes {
                next
            } else {
                least
            }
        };
        memory.limits().fold(free, less)
    }

    /// Refuses more than that.
    pub(crate) fn check(
        self,
        wanted: u64,
        path: impl FnOnce() -> PathBuf,
    ) -> Result<(), NodeError> {
        if wanted <= self.bytes {
            return Ok(());
        }
        Err(NodeError::TooLarge {
            path: path(),
            wanted,
            possible: self.bytes,
            bound: self.bound,
        })
    }
}

fn free_bytes(found: &StatFs) -> u64 {
    // A tmpfs without a limit says that it has no blocks at all.
    if found.f_blocks == 0 {
        return u64::MAX;
    }
    let block = u64::try_from(found.f_bsize).unwrap_or(1);
    found.f_bavail.saturating_mul(block)
}

/// The sizes of the pool that the options ask for, where the pool may be so large.
pub(crate) fn geometry(options: &PoolOptions, limit: &SizeLimit) -> Result<Geometry, NodeError> {
    if let Some(geometry) = &options.geometry {
        return Ok(geometry.clone());
    }
    if let Some(bytes) = options.bytes {
        // Before it is laid out: what is far too large has too many slots as well, which says less.
        limit.clone().check(bytes as u64, || options.path())?;
    }
    let half = usize::try_from(limit.bytes / 2).unwrap_or(usize::MAX);
    let own = &options.classes;
    let default = || {
        let bytes = default_bytes().min(half).max(DEFAULT_MIN_BYTES);
        bytes.saturating_add(Geometry::classes_bytes(own))
    };
    let bytes = options.bytes.unwrap_or_else(default);
    let limits = options.limits;
    let limits = limits.unwrap_or_else(|| Geometry::default_limits_for(bytes));
    let found = Geometry::for_bytes_and(limits, bytes, own);
    if options.bytes.is_some() || options.limits.is_some() {
        return Ok(found?);
    }
    // Nobody chose anything: where memory is small, tables that leave some of it for slots.
    let is_useful = |geometry: &Geometry| {
        let control = geometry
            .layout()
            .map_or(usize::MAX, |layout| layout.bytes());
        control <= (bytes - Geometry::classes_bytes(own).min(bytes)) / 2
    };
    match found {
        Ok(geometry) if is_useful(&geometry) => Ok(geometry),
        _ => Ok(Geometry::for_bytes_and(
            Geometry::small_limits(),
            bytes,
            own,
        )?),
    }
}

/// Size of a pool if nobody says: the smaller of 64 MiB and an eighth of the memory, that of the
/// machine or that which control groups leave this process. A pool that is made gets at most half
/// of what is free there, besides.
#[must_use]
pub fn default_bytes() -> usize {
    let memory = Memory::now();
    let limits = memory.groups.iter().map(|group| group.limit_bytes);
    let least = limits.fold(memory.total_bytes, u64::min);
    // Fits: it is at most 64 MiB.
    (least / DEFAULT_SHARE).min(DEFAULT_MAX_BYTES) as usize
}

/// The memory of the machine and of the control groups of this process.
#[derive(Debug)]
struct Memory {
    total_bytes: u64,
    /// What could be had, by swapping as well.
    available_bytes: u64,
    groups: Vec<GroupMemory>,
}

impl Memory {
    fn now() -> Self {
        let proc = Path::new("/proc");
        let meminfo = std::fs::read_to_string(proc.join("meminfo")).unwrap_or_default();
        Self::by(&meminfo, ControlGroups::of_this_process(proc).limits())
    }

    fn by(meminfo: &str, groups: Vec<GroupMemory>) -> Self {
        let swap = kibibytes(meminfo, "SwapFree:").unwrap_or(0);
        let total = kibibytes(meminfo, "MemTotal:");
        let available = kibibytes(meminfo, "MemAvailable:");
        // Without the file: what is free at least. Asked for only then, since rustix panics where
        // a filter refuses the call.
        let asked = || (total.is_none() || available.is_none()).then(of_kernel);
        let (total_bytes, free_bytes) = asked().unwrap_or_default();
        Self {
            total_bytes: total.unwrap_or(total_bytes),
            available_bytes: available.unwrap_or(free_bytes).saturating_add(swap),
            groups,
        }
    }

    fn limits(&self) -> impl Iterator<Item = SizeLimit> {
        let machine = SizeLimit {
            bytes: less_reserve(self.available_bytes, self.total_bytes),
            bound: SizeBound::Machine,
        };
        let groups = self.groups.iter().map(|group| SizeLimit {
            bytes: less_reserve(group.left_bytes(), group.limit_bytes),
            bound: SizeBound::ControlGroup {
                group: group.group.clone(),
                limit_bytes: group.limit_bytes,
                used_bytes: group.used_bytes,
            },
        });
        std::iter::once(machine).chain(groups)
    }
}

/// Total and free bytes of the machine's memory.
#[allow(
    clippy::useless_conversion,
    reason = "the kernel's unsigned long has 32 bits on other machines"
)]
fn of_kernel() -> (u64, u64) {
    let asked = rustix::system::sysinfo();
    // In 64 bits: a 32-bit process may run where there is more memory than it can address.
    let unit = u64::from(asked.mem_unit).max(1);
    let bytes = |units| u64::from(units).saturating_mul(unit);
    (bytes(asked.totalram), bytes(asked.freeram))
}

fn less_reserve(left: u64, total: u64) -> u64 {
    left.saturating_sub((total / LEFT_SHARE).clamp(LEFT_MIN_BYTES, LEFT_MAX_BYTES))
}

fn kibibytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with(name))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    fn group(limit_mib: u64, used_mib: u64) -> GroupMemory {
        GroupMemory {
            group: "/cg/x".into(),
            limit_bytes: limit_mib * MIB,
            used_bytes: used_mib * MIB,
        }
    }

    #[test]
    fn least_of_machine_and_groups_is_possible() {
        let meminfo = "MemTotal: 9 kB\nMemAvailable:  102400 kB\nSwapFree:  51200 kB\n";
        let memory = Memory {
            total_bytes: 128 * MIB,
            ..Memory::by(meminfo, vec![group(100, 20), group(48, 6)])
        };
        let found: Vec<u64> = memory.limits().map(|limit| limit.bytes / MIB).collect();
        // Less 8, 6 (a sixteenth of 100) and 4 MiB that stay.
        assert_eq!(found, [150 - 8, 73, 38]);
        assert_eq!(
            memory.limits().next().expect("one").bound,
            SizeBound::Machine
        );
    }

    #[test]
    fn refusal_says_what_bounds_and_what_is_possible() {
        let memory = Memory::by("", vec![group(48, 47)]);
        let limit = memory.limits().last().expect("the group");
        limit
            .clone()
            .check(0, PathBuf::new)
            .expect("nothing fits always");
        let refused = limit.check(1, || "/dev/shm/x".into()).expect_err("full");
        let message = refused.to_string();
        for word in [
            "1 byte",
            "at most 0",
            "/cg/x",
            "50331648",
            "/dev/shm/x",
            "make the pool smaller",
        ] {
            assert!(message.contains(word), "no {word} in {message}");
        }
    }

    #[test]
    fn small_memory_gets_small_tables_unless_somebody_chose() {
        let limit = |mebibytes: u64| SizeLimit {
            bytes: mebibytes * MIB,
            bound: SizeBound::Machine,
        };
        let options = PoolOptions::new("test");
        let participants = |options: &PoolOptions, mebibytes| {
            let found = geometry(options, &limit(mebibytes));
            found.map(|geometry| geometry.limits.participants)
        };
        // At most half of what is possible.
        assert_eq!(participants(&options, 12).expect("fits"), 8);
        let usual = Geometry::default_limits().participants;
        let chosen = options.clone().bytes(12 << 20);
        assert_eq!(participants(&chosen, 12).expect("fits"), usual);
        assert_eq!(participants(&chosen.small(), 12).expect("fits"), 8);
        let refused = participants(&options.bytes(13 << 20), 12).expect_err("too large");
        assert!(matches!(refused, NodeError::TooLarge { .. }), "{refused:?}");
        // Where not even that can be had, whoever reserves it is refused with the reason.
        assert_eq!(
            participants(&PoolOptions::new("test"), 0).expect("laid out"),
            8
        );
    }
}

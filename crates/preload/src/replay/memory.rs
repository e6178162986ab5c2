//! How much may be read ahead, and when it must end: the memory as the kernel tells it.
//!
//! The page cache may fill all memory, so that reading ahead too much costs nobody an error, but
//! throws out what was read before. Hence a budget, taken of what is available, and a look at the
//! pressure before every step. What is read counts for the control group of whoever reads it: where
//! its limit leaves less than the machine, that is what is available. Never waits, never asks for
//! memory itself.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};
use std::str::FromStr;

use hythe_sys::control_group::{ControlGroups, GroupMemory};

use crate::PreloadError;

/// How much may be read ahead.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Budget {
    /// So many bytes.
    Bytes(u64),
    /// So many hundredths of the memory that is available.
    Percent(u8),
}

impl Default for Budget {
    /// Half of it: the program that is to start needs the other.
    fn default() -> Self {
        Self::Percent(50)
    }
}

impl Budget {
    /// In bytes; never more than can be taken without reclaiming.
    pub(super) fn bytes(self, memory: &mut dyn Memory) -> Result<u64, PreloadError> {
        match (self, memory.available()) {
            (Self::Bytes(bytes), Ok(free)) => Ok(bytes.min(free.above_floor())),
            // Whoever names a number needs no other.
            (Self::Bytes(bytes), Err(_)) => Ok(bytes),
            (Self::Percent(share), Ok(free)) => {
                let bytes = u128::from(free.available) * u128::from(share) / 100;
                // Fits: at most the available bytes, for a share of at most 100.
                Ok((bytes as u64).min(free.above_floor()))
            }
            (Self::Percent(_), Err(error)) => Err(error),
        }
    }
}

impl FromStr for Budget {
    type Err = String;

    /// `50%`, or bytes.
    fn from_str(text: &str) -> Result<Self, String> {
        let wrong = || {
            "a budget is a number of bytes, or a share of the available memory from 1% to 100%"
                .to_owned()
        };
        match text.strip_suffix('%') {
            Some(share) => {
                let share = share.parse().ok().filter(|share| (1..=100).contains(share));
                share.map(Self::Percent).ok_or_else(wrong)
            }
            None => text.parse().map(Self::Bytes).map_err(|_| wrong()),
        }
    }
}

/// Bytes of memory.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Free {
    /// What could be had without swapping.
    pub available: u64,
    /// What must be left.
    pub floor: u64,
}

impl Free {
    fn of(available: u64, total: u64) -> Self {
        Self {
            available,
            floor: (total / FLOOR_SHARE).clamp(FLOOR_MIN_BYTES, FLOOR_MAX_BYTES),
        }
    }

    fn above_floor(self) -> u64 {
        self.available.saturating_sub(self.floor)
    }
}

/// What says how much memory there is, and when it becomes scarce.
pub trait Memory: Send {
    /// How much is free.
    ///
    /// # Errors
    /// It does not say.
    fn available(&mut self) -> Result<Free, PreloadError>;

    /// Has it become scarce since the first look? The text says by which figure.
    fn pressure(&mut self) -> Option<String>;
}

/// The memory of this machine, as far as the control groups of this process let it have some.
#[derive(Debug)]
pub struct SystemMemory {
    meminfo: PathBuf,
    groups: ControlGroups,
    /// Pressure stall information, where the kernel keeps it.
    stalls: PathBuf,
    stalled_before_us: Option<u64>,
}

/// Growth of the time in which somebody waited for memory that is more than chance: reclaim has
/// begun.
const STALL_US: u64 = 1_000;
/// What must be left is a sixteenth of the memory, within these.
const FLOOR_SHARE: u64 = 16;
const FLOOR_MIN_BYTES: u64 = 4 << 20;
const FLOOR_MAX_BYTES: u64 = 64 << 20;

impl SystemMemory {
    /// As `proc` tells it: `/proc`.
    #[must_use]
    pub fn new(proc: &Path) -> Self {
        let stalls = proc.join("pressure/memory");
        Self {
            meminfo: proc.join("meminfo"),
            groups: ControlGroups::of_this_process(proc),
            stalled_before_us: stalled_us(&stalls),
            stalls,
        }
    }
}

impl Memory for SystemMemory {
    fn available(&mut self) -> Result<Free, PreloadError> {
        let path = &self.meminfo;
        let text = fs::read_to_string(path).map_err(PreloadError::file("read", path))?;
        let total = kibibytes(&text, "MemTotal:");
        let (Some(total), Some(available)) = (total, kibibytes(&text, "MemAvailable:")) else {
            let source = io::Error::other(
                "it does not tell MemTotal and MemAvailable; give a budget in bytes",
            );
            return Err(PreloadError::file("use", path)(source));
        };
        let of_group = |group: &GroupMemory| Free::of(group.left_bytes(), group.limit_bytes);
        let limits = self.groups.limits();
        let all = limits
            .iter()
            .map(of_group)
            .chain([Free::of(available, total)]);
        let least = all.min_by_key(|free| free.above_floor());
        Ok(least.unwrap_or(Free::of(available, total)))
    }

    fn pressure(&mut self) -> Option<String> {
        if let Some(before) = self.stalled_before_us {
            let grown = stalled_us(&self.stalls)?.saturating_sub(before);
            return (grown >= STALL_US).then(|| {
                format!("others waited {grown} us for memory since reading ahead began (PSI)")
            });
        }
        let free = self.available().ok()?;
        (free.available < free.floor).then(|| {
            format!(
                "{} bytes of memory are available, {} must be left",
                free.available, free.floor
            )
        })
    }
}

/// How long anybody has waited for memory, in all.
fn stalled_us(path: &Path) -> Option<u64> {
    let text = fs::read_to_string(path).ok()?;
    let some = text.lines().find(|line| line.starts_with("some "))?;
    some.rsplit_once("total=")?.1.trim().parse().ok()
}

fn kibibytes(meminfo: &str, name: &str) -> Option<u64> {
    let line = meminfo.lines().find(|line| line.starts_with(name))?;
    let kib: u64 = line.split_whitespace().nth(1)?.parse().ok()?;
    kib.checked_mul(1024)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn proc(available_kib: u64, stalled_us: Option<u64>) -> tempfile::TempDir {
        let proc = tempfile::tempdir().expect("a place");
        write(&proc, available_kib, stalled_us);
        proc
    }

    fn write(proc: &tempfile::TempDir, available_kib: u64, stalled_us: Option<u64>) {
        let meminfo = format!("MemTotal:  131072 kB\nMemAvailable: {available_kib} kB\n");
        fs::write(proc.path().join("meminfo"), meminfo).expect("room");
        if let Some(total) = stalled_us {
            let _ = fs::create_dir(proc.path().join("pressure"));
            let text = format!(
                "some avg10=0.00 avg60=0.00 avg300=0.00 total={total}\nfull avg10=0.00 avg60=0.00 avg300=0.00 total=9999999\n"
            );
            fs::write(proc.path().join("pressure/memory"), text).expect("room");
        }
    }

    #[test]
    fn budget_is_bytes_or_a_share_and_leaves_the_floor() {
        let proc = proc(100 << 10, None);
        let mut memory = SystemMemory::new(proc.path());
        let mut bytes = |text: &str| {
            let budget: Budget = text.parse().expect("good");
            budget.bytes(&mut memory).expect("told")
        };
        assert_eq!(bytes("50%"), 50 << 20);
        assert_eq!(bytes("4096"), 4096);
        // A sixteenth of 128 MiB stays.
        assert_eq!(bytes("100%"), 92 << 20);
        assert_eq!(bytes("999999999999"), 92 << 20);
        for wrong in ["0%", "101%", "%", "-5", "x", ""] {
            assert!(wrong.parse::<Budget>().is_err(), "{wrong}");
        }
    }

    /// A control group with a limit in MiB, of which so many are in use.
    fn limit(proc: &tempfile::TempDir, limit: u64, used: u64) {
        let group = proc.path().join("group");
        for directory in [&proc.path().join("self"), &group] {
            fs::create_dir_all(directory).expect("room");
        }
        let mounted = format!("1 0 0:1 / {} rw - cgroup2 none rw\n", group.display());
        for (name, text) in [
            ("self/cgroup", "0::/\n".to_owned()),
            ("self/mountinfo", mounted),
            ("group/memory.max", (limit << 20).to_string()),
            ("group/memory.current", (used << 20).to_string()),
        ] {
            fs::write(proc.path().join(name), text).expect("room");
        }
    }

    #[test]
    fn control_group_bounds_the_budget() {
        let proc = proc(100 << 10, None);
        limit(&proc, 48, 20);
        let mut memory = SystemMemory::new(proc.path());
        let bytes = |memory: &mut SystemMemory, text: &str| {
            let budget: Budget = text.parse().expect("good");
            budget.bytes(memory).expect("told")
        };
        assert_eq!(bytes(&mut memory, "50%"), 14 << 20);
        assert_eq!(bytes(&mut memory, "100%"), 24 << 20);
        assert_eq!(bytes(&mut memory, "999999999"), 24 << 20);
        // It becomes full while reading.
        assert_eq!(memory.pressure(), None);
        limit(&proc, 48, 45);
        assert!(memory.pressure().expect("scarce").contains("3145728 bytes"));
        // One that leaves more than the machine bounds nothing.
        limit(&proc, 4096, 0);
        assert_eq!(bytes(&mut memory, "100%"), 92 << 20);
    }

    #[test]
    fn without_meminfo_only_bytes_are_a_budget() {
        let nothing = tempfile::tempdir().expect("a place");
        let mut memory = SystemMemory::new(nothing.path());
        assert_eq!(Budget::Bytes(5).bytes(&mut memory).expect("a number"), 5);
        let error = Budget::default().bytes(&mut memory).expect_err("no share");
        assert!(error.to_string().contains("meminfo"), "{error}");
        assert_eq!(memory.pressure(), None);
    }

    #[test]
    fn stalls_that_grow_are_pressure() {
        let proc = proc(100 << 10, Some(7_000_000));
        let mut memory = SystemMemory::new(proc.path());
        assert_eq!(memory.pressure(), None);
        write(&proc, 100 << 10, Some(7_000_999));
        assert_eq!(memory.pressure(), None);
        // Where stalls are counted, they alone decide.
        write(&proc, 1, Some(7_001_000));
        assert!(memory.pressure().expect("scarce").contains("1000 us"));
    }

    #[test]
    fn without_stall_information_the_floor_is_what_counts() {
        let proc = proc(8 << 10, None);
        let mut memory = SystemMemory::new(proc.path());
        assert_eq!(memory.pressure(), None);
        write(&proc, (8 << 10) - 1, None);
        assert!(memory.pressure().expect("scarce").contains("8387584 bytes"));
    }
}

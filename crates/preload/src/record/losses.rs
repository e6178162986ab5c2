//! What throws pages out of memory while a recording runs: they were needed, and are not there any
//! more when it is measured.
//!
//! The kernel counts both ways since it was started; a recorder compares. Never throws out anything
//! itself.

use std::fs;

use rustix::param::page_size;

use crate::pack::PAGE_BYTES;

/// Counts, since the kernel was started or between two moments.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Losses {
    /// Pages, of [`PAGE_BYTES`] each, that the kernel threw out because it needed room.
    pub(super) reclaimed: u64,
    /// How often somebody had the caches dropped.
    pub(super) dropped: u64,
}

/// Kinds of reclaim. Older kernels have one line for each zone of memory. Reclaim for the limit of
/// a control group is in none.
const RECLAIM: &[&str] = &[
    "pgsteal_kswapd",
    "pgsteal_direct",
    "pgsteal_khugepaged",
    "pgsteal_proactive",
];

impl Losses {
    /// Until now. Nothing where the kernel does not count.
    pub(super) fn now() -> Self {
        Self::of(&fs::read_to_string("/proc/vmstat").unwrap_or_default())
    }

    /// Since `earlier`.
    pub(super) fn since(self, earlier: Self) -> Self {
        Self {
            reclaimed: self.reclaimed.saturating_sub(earlier.reclaimed),
            dropped: self.dropped.saturating_sub(earlier.dropped),
        }
    }

    fn of(vmstat: &str) -> Self {
        // It counts those of the machine.
        let units = page_size() as u64 / PAGE_BYTES;
        let mut counts = Self::default();
        for line in vmstat.lines() {
            let Some((name, value)) = line.split_once(' ') else {
                continue;
            };
            let value: u64 = value.parse().unwrap_or(0);
            if RECLAIM.iter().any(|kind| name.starts_with(kind)) {
                counts.reclaimed += value * units;
            } else if name == "drop_pagecache" {
                counts.dropped += value;
            }
        }
        counts
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn counts_of_new_and_old_kernels_are_read() {
        let new =
            "pgsteal_kswapd 5\npgsteal_direct 2\npgsteal_anon 9\ndrop_pagecache 3\ndrop_slab 8\n";
        let old =
            "pgsteal_kswapd_dma 1\npgsteal_kswapd_normal 4\npgsteal_direct_normal 2\npgsteal_x\n";
        let units = page_size() as u64 / PAGE_BYTES;
        let counts = |pages, dropped| Losses {
            reclaimed: pages * units,
            dropped,
        };
        assert_eq!(Losses::of(new), counts(7, 3));
        assert_eq!(Losses::of(old), counts(7, 0));
        assert_eq!(counts(9, 4).since(counts(7, 3)), counts(2, 1));
    }
}

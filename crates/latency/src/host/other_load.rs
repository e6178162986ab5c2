//! What other programs and other virtual machines took from this one during a run: the load average
//! and the steal time.
//!
//! Called at the start and the end of a run. Holds the counters of the start between the two. Never
//! fails: what the kernel does not say is null.

use std::fs;

use serde_json::{Value, json};

/// The kernel's figures at the start of a run.
pub(super) struct Start {
    load_average: Option<f64>,
    cpu_time: Option<CpuTime>,
}

/// Time of all CPUs since the boot, in ticks of the kernel's statistics (proc_stat(5)).
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct CpuTime {
    total: u64,
    steal: u64,
}

impl Start {
    pub(super) fn now() -> Self {
        Self {
            load_average: load_average(&text("/proc/loadavg")),
            cpu_time: CpuTime::of(&text("/proc/stat")),
        }
    }

    /// Of the run that ends now: the load average of the minute before it, since later ones have
    /// the run's own threads in them, and the share of steal time in all time of all CPUs.
    pub(super) fn conditions(&self) -> [(String, Value); 2] {
        let now = CpuTime::of(&text("/proc/stat"));
        let steal = self.cpu_time.zip(now);
        let steal = steal.and_then(|(start, end)| end.steal_percent_since(start));
        [
            ("load_average".to_owned(), json!(self.load_average)),
            ("steal_percent".to_owned(), json!(steal)),
        ]
    }
}

impl CpuTime {
    /// The first line of `/proc/stat`: user, nice, system, idle, iowait, irq, softirq, steal. What
    /// follows, the time of guests, is part of user and nice.
    fn of(stat: &str) -> Option<Self> {
        let ticks = stat.lines().next()?.strip_prefix("cpu ")?;
        let ticks: Vec<u64> = ticks
            .split_whitespace()
            .take(8)
            .map(|word| word.parse().ok())
            .collect::<Option<_>>()?;
        let steal = *ticks.get(7)?;
        let total = ticks
            .iter()
            .fold(0, |sum: u64, one| sum.saturating_add(*one));
        Some(Self { total, steal })
    }

    /// In hundredths of a percent, rounded. `None`: no tick has passed.
    fn steal_percent_since(self, start: Self) -> Option<f64> {
        let total = self
            .total
            .checked_sub(start.total)
            .filter(|total| *total > 0)?;
        let share = self.steal.saturating_sub(start.steal) as f64 / total as f64;
        Some((share * 1e4).round() / 1e2)
    }
}

/// The first figure of `/proc/loadavg`.
fn load_average(loadavg: &str) -> Option<f64> {
    loadavg.split_whitespace().next()?.parse().ok()
}

fn text(path: &str) -> String {
    fs::read_to_string(path).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn steal_is_its_share_of_all_time_without_that_of_guests() {
        let start = CpuTime::of("cpu  10 0 10 70 0 0 0 10 9 9\ncpu0 1 1\n").expect("read");
        assert_eq!(
            start,
            CpuTime {
                total: 100,
                steal: 10
            }
        );
        let end = CpuTime::of("cpu  20 0 20 145 0 0 0 15 9 9\n").expect("read");
        assert_eq!(end.steal_percent_since(start), Some(5.0));
        assert_eq!(start.steal_percent_since(start), None);
        assert_eq!(start.steal_percent_since(end), None);
    }

    #[test]
    fn what_the_kernel_does_not_say_is_null() {
        for stat in [
            "",
            "cpu 1 2 3",
            "cpu0 1 2 3 4 5 6 7 8",
            "cpu a b c d e f g h",
        ] {
            assert_eq!(CpuTime::of(stat), None, "{stat}");
        }
        assert_eq!(load_average("0.68 1.89 2.73 1/200 9\n"), Some(0.68));
        assert_eq!(load_average(""), None);
        let unknown = Start {
            load_average: None,
            cpu_time: None,
        };
        assert!(
            unknown
                .conditions()
                .iter()
                .all(|(_, value)| value.is_null())
        );
    }
}

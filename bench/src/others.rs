//! How much of the CPUs of a run others used meanwhile: they take cache and time from both sides,
//! and not equally.

use std::time::Instant;

use crate::error::BenchError;

/// Ticks of `/proc`: 10 ms on every Linux.
const TICKS_PER_SECOND: f64 = 100.0;
/// Of the time of the CPUs, what others may use.
pub(crate) const SHARE_MAX: f64 = 0.05;

/// The CPUs and this process at one time.
#[derive(Debug)]
pub(crate) struct Others {
    cpus: Vec<usize>,
    busy: u64,
    own: u64,
    /// Processes of ours that are no children.
    beside: Vec<u32>,
    since: Instant,
}

impl Others {
    /// From now on, on these CPUs. The processes `beside` this one, which live as long, are no
    /// others, either.
    pub(crate) fn watch(cpus: &[usize], beside: &[u32]) -> Result<Self, BenchError> {
        let stat = std::fs::read_to_string("/proc/stat")?;
        Ok(Self {
            cpus: cpus.to_vec(),
            busy: busy(&stat, cpus),
            own: own(beside)?,
            beside: beside.to_vec(),
            since: Instant::now(),
        })
    }

    /// What share of these CPUs others used: not this process, nor its children that have ended.
    pub(crate) fn share(&self) -> Result<f64, BenchError> {
        let stat = std::fs::read_to_string("/proc/stat")?;
        let busy = busy(&stat, &self.cpus).saturating_sub(self.busy);
        let ours = own(&self.beside)?.saturating_sub(self.own);
        let all = self.since.elapsed().as_secs_f64() * TICKS_PER_SECOND * self.cpus.len() as f64;
        Ok(busy.saturating_sub(ours) as f64 / all)
    }
}

/// Ticks that this process, those beside it and their children have used; of what children left
/// behind, too, where this process has adopted and ended it (`descendants`).
fn own(beside: &[u32]) -> Result<u64, BenchError> {
    let beside = beside.iter().map(u32::to_string);
    let processes = beside.chain(["self".to_owned()]);
    processes
        .map(|process| {
            Ok(used(&std::fs::read_to_string(format!(
                "/proc/{process}/stat"
            ))?))
        })
        .sum()
}

/// Fields 14 to 17 of proc(5), behind the name, which may have spaces and brackets in it.
fn used(stat: &str) -> u64 {
    let fields = stat.rsplit_once(')').map_or("", |(_, fields)| fields);
    let fields = fields.split_whitespace().skip(11).take(4);
    fields.filter_map(|field| field.parse::<u64>().ok()).sum()
}

/// Everything but idle and waiting for I/O, which are the fourth and fifth; what a hypervisor took
/// away counts. The last two, of guests, are part of the first two.
fn busy(stat: &str, cpus: &[usize]) -> u64 {
    let is_wanted = |name: &str| cpus.iter().any(|cpu| name == format!("cpu{cpu}"));
    let lines = stat.lines().filter_map(|line| line.split_once(' '));
    let wanted = lines.filter(|(name, _)| is_wanted(name));
    wanted
        .map(|(_, fields)| {
            let fields = fields.split_whitespace().take(8).enumerate();
            let busy = fields.filter(|(index, _)| !matches!(index, 3 | 4));
            busy.filter_map(|(_, field)| field.parse::<u64>().ok())
                .sum::<u64>()
        })
        .sum()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn idle_is_not_busy_and_other_cpus_are_not_asked() {
        let stat = "cpu  9 9 9 9 9 9 9 9 9 9\n\
                    cpu0 1 2 3 400 500 6 7 8 900 1000\n\
                    cpu1 10 20 30 0 0 0 0 0 0 0\ncpu10 7 0 0 0 0 0 0 0 0 0\n";
        assert_eq!(busy(stat, &[0]), 27);
        assert_eq!(busy(stat, &[0, 1]), 87);
        assert_eq!(busy(stat, &[1, 10]), 67);
    }

    #[test]
    fn name_with_brackets_is_no_field() {
        let stat = "7 (a) b) S 1 2 3 4 5 6 7 8 9 10 100 20 3 0 20 0";
        assert_eq!(used(stat), 123);
    }
}

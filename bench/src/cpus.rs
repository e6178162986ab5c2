//! On which CPUs the two sides run.

use std::io;

use rustix::io::Errno;
use rustix::process::Pid;
use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::error::BenchError;

/// A CPU for each side; none if this process may use one CPU only.
pub(crate) fn choose() -> Result<Option<[usize; 2]>, BenchError> {
    let allowed = sched_getaffinity(None)?;
    let allowed: Vec<usize> = (0..CpuSet::MAX_CPU)
        .filter(|&cpu| allowed.is_set(cpu))
        .collect();
    Ok(pair(&allowed, siblings_of))
}

/// The first two that are not threads of one core, else the first two.
fn pair(allowed: &[usize], siblings_of: impl Fn(usize) -> Vec<usize>) -> Option<[usize; 2]> {
    let (&first, others) = allowed.split_first()?;
    let siblings = siblings_of(first);
    let other = others.iter().find(|cpu| !siblings.contains(cpu));
    other.or(others.first()).map(|&other| [first, other])
}

/// CPUs that are threads of the same core. Unknown counts as none.
fn siblings_of(cpu: usize) -> Vec<usize> {
    let path = format!("/sys/devices/system/cpu/cpu{cpu}/topology/thread_siblings_list");
    parse_list(&std::fs::read_to_string(path).unwrap_or_default())
}

/// The kernel's lists: `0,4` or `0-1`.
fn parse_list(text: &str) -> Vec<usize> {
    let ranges = text.trim().split(',').filter_map(|part| {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        Some(first.parse::<usize>().ok()?..=last.parse::<usize>().ok()?)
    });
    ranges.flatten().collect()
}

/// Binds the calling thread, and the threads it starts from now on.
pub(crate) fn pin(cpu: usize) -> Result<(), BenchError> {
    pin_to(&[cpu])
}

/// The same to any of several CPUs, which processes inherit, too.
pub(crate) fn pin_to(cpus: &[usize]) -> Result<(), BenchError> {
    let mut set = CpuSet::new();
    cpus.iter().for_each(|&cpu| set.set(cpu));
    Ok(sched_setaffinity(None, &set)?)
}

/// Binds all threads of another process that there are now, and those they start from now on. False
/// if it has ended: threads may do that at any time.
pub(crate) fn pin_process(process: u32, cpu: usize) -> Result<bool, BenchError> {
    let mut set = CpuSet::new();
    set.set(cpu);
    let mut is_there = false;
    for thread in threads(process)? {
        match sched_setaffinity(Some(thread), &set) {
            Ok(()) => is_there = true,
            Err(Errno::SRCH) => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(is_there)
}

/// The threads of another process; none if it has ended.
fn threads(process: u32) -> io::Result<Vec<Pid>> {
    let has_ended = |error: &io::Error| {
        matches!(
            Errno::from_io_error(error),
            Some(Errno::NOENT | Errno::SRCH)
        )
    };
    let mut found = Vec::new();
    let entries = match std::fs::read_dir(format!("/proc/{process}/task")) {
        Err(error) if has_ended(&error) => return Ok(found),
        entries => entries?,
    };
    for entry in entries {
        let name = match entry {
            Err(error) if has_ended(&error) => break,
            entry => entry?.file_name(),
        };
        let id = name.to_str().and_then(|name| name.parse().ok());
        found.extend(id.and_then(Pid::from_raw));
    }
    Ok(found)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::process::Command;

    #[test]
    fn process_is_bound_until_it_ends() {
        let mut child = Command::new("sleep").arg("600").spawn().expect("sleep");
        let id = child.id();
        let [cpu, _] = choose().expect("allowed").unwrap_or_default();
        assert!(pin_process(id, cpu).expect("ours"));
        let set = sched_getaffinity(Some(Pid::from_child(&child))).expect("ours");
        assert!(set.count() == 1 && set.is_set(cpu));
        child.kill().expect("ours");
        child.wait().expect("ours");
        assert!(!pin_process(id, cpu).expect("no error"));
    }

    #[test]
    fn two_cores_are_better_than_two_threads_of_one() {
        let siblings = |cpu: usize| vec![cpu & !1, cpu | 1];
        assert_eq!(pair(&[0, 1, 2, 3], siblings), Some([0, 2]));
        assert_eq!(pair(&[2, 3], siblings), Some([2, 3]));
        assert_eq!(pair(&[5], siblings), None);
        assert_eq!(pair(&[], siblings), None);
    }

    #[test]
    fn lists_are_read_as_the_kernel_writes_them() {
        assert_eq!(parse_list("0-1,4\n"), [0, 1, 4]);
        assert!(parse_list("").is_empty());
    }
}

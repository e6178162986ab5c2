//! Which CPUs there are, and lists of them.

use std::path::Path;

use rustix::thread::{CpuSet, sched_getaffinity, sched_setaffinity};

use crate::LatencyError;

const ONLINE: &str = "/sys/devices/system/cpu/online";

/// CPUs that are switched on, ascending.
///
/// # Errors
/// [`LatencyError::Host`]: the kernel does not say.
pub(super) fn online() -> Result<Vec<usize>, LatencyError> {
    let text = match std::fs::read_to_string(Path::new(ONLINE)) {
        Ok(text) => text,
        // A machine without sysfs: those that this process may use.
        Err(_) => return allowed(),
    };
    parse(text.trim()).map_err(|what| LatencyError::Host {
        what: format!("{ONLINE}: {what}"),
    })
}

/// CPUs that this process may use at the moment, ascending.
///
/// # Errors
/// [`LatencyError::Host`]: the kernel does not say.
pub fn allowed() -> Result<Vec<usize>, LatencyError> {
    let set = sched_getaffinity(None).map_err(|error| LatencyError::Host {
        what: format!("the CPUs of this process are unknown: {error}"),
    })?;
    Ok((0..CpuSet::MAX_CPU)
        .filter(|&cpu| set.is_set(cpu))
        .collect())
}

/// Reads a list as the kernel and `taskset` write it: `0,2-3`.
///
/// # Errors
/// What is wrong with it, with the part.
pub fn parse(text: &str) -> Result<Vec<usize>, String> {
    let mut cpus = Vec::new();
    for part in text.split(',') {
        let (first, last) = part.split_once('-').unwrap_or((part, part));
        let number = |text: &str| {
            let number = text.trim().parse().ok();
            number
                .filter(|cpu| *cpu < CpuSet::MAX_CPU)
                .ok_or_else(|| format!("`{part}` is no CPU or range of CPUs such as 2 or 0-3"))
        };
        let (first, last): (usize, usize) = (number(first)?, number(last)?);
        if first > last {
            return Err(format!("`{part}` ends before it begins"));
        }
        cpus.extend(first..=last);
    }
    cpus.sort_unstable();
    cpus.dedup();
    Ok(cpus)
}

/// Writes a list as [`parse`] reads it.
#[must_use]
pub fn render(cpus: &[usize]) -> String {
    let mut parts: Vec<(usize, usize)> = Vec::new();
    for &cpu in cpus {
        match parts.last_mut() {
            Some((_, last)) if *last + 1 == cpu => *last = cpu,
            _ => parts.push((cpu, cpu)),
        }
    }
    let part = |(first, last): &(usize, usize)| match first == last {
        true => first.to_string(),
        false => format!("{first}-{last}"),
    };
    parts.iter().map(part).collect::<Vec<_>>().join(",")
}

/// Binds the calling thread to one CPU.
pub(super) fn bind(cpu: usize) -> rustix::io::Result<()> {
    let mut set = CpuSet::new();
    set.set(cpu);
    sched_setaffinity(None, &set)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lists_are_read_and_written() {
        for (text, cpus) in [
            ("0", vec![0]),
            ("0,2-3", vec![0, 2, 3]),
            ("3,0-1,1", vec![0, 1, 3]),
        ] {
            assert_eq!(parse(text).as_ref(), Ok(&cpus), "{text}");
            assert_eq!(parse(&render(&cpus)), Ok(cpus));
        }
        assert_eq!(render(&[0, 1, 2, 5]), "0-2,5");
        for wrong in ["", ",", "-1", "2-", "3-1", "x", "0-99999999"] {
            assert!(parse(wrong).is_err(), "{wrong}");
        }
    }

    #[test]
    fn what_may_be_used_is_switched_on() {
        let online = online().expect("Linux");
        for cpu in allowed().expect("Linux") {
            assert!(online.contains(&cpu), "{cpu} of {online:?}");
        }
    }
}

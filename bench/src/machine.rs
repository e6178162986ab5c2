//! On what the figures were measured.

use std::process::Command;
use std::sync::LazyLock;

use crate::document::Machine;

/// This machine.
pub(crate) fn describe() -> Machine {
    let cpus = std::fs::read_to_string("/proc/cpuinfo").unwrap_or_default();
    Machine {
        cpu: cpu_name(&cpus).unwrap_or(std::env::consts::ARCH).to_owned(),
        cpus: cpus
            .lines()
            .filter(|line| line.starts_with("processor"))
            .count(),
        kernel: rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned(),
        // Both sides run on the machine itself, not on a board.
        emulated: false,
    }
}

/// x86 has a model name, Arm only a part number.
fn cpu_name(cpuinfo: &str) -> Option<&str> {
    let field = |name| {
        let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        lines.find_map(|(key, value)| (key.trim() == name).then_some(value.trim()))
    };
    field("model name").or_else(|| field("CPU part"))
}

/// Today, UTC, as ISO 8601 writes it.
pub(crate) fn date() -> String {
    let now: chrono::DateTime<chrono::Utc> = std::time::SystemTime::now().into();
    now.date_naive().to_string()
}

/// The sources that are checked out where this runs.
struct Sources {
    commit: Option<String>,
    changed: Option<bool>,
}

/// As they were at the first look: somebody may commit while a long run goes on.
static SOURCES: LazyLock<Sources> = LazyLock::new(|| Sources {
    commit: git(&["rev-parse", "HEAD"]),
    changed: git(&["status", "--porcelain", "--untracked-files=no"])
        .map(|changes| !changes.is_empty()),
});

/// Call before a run begins.
pub(crate) fn look_at_sources() {
    LazyLock::force(&SOURCES);
}

/// The commit that is checked out.
pub(crate) fn commit() -> String {
    let commit = SOURCES.commit.clone();
    commit.unwrap_or_else(|| "unknown".to_owned())
}

/// Do files that git knows differ from that commit?
pub(crate) fn is_changed() -> Option<bool> {
    SOURCES.changed
}

fn git(arguments: &[&str]) -> Option<String> {
    let asked = Command::new("git").args(arguments).output();
    let answer = asked.ok().filter(|output| output.status.success())?;
    Some(String::from_utf8_lossy(&answer.stdout).trim().to_owned())
}

/// The command line, without the path of the program.
pub(crate) fn command() -> String {
    let mut words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    if let Some(program) = words.first_mut() {
        *program = "hythe-bench".to_owned();
    }
    words.join(" ")
}

/// How many processes ran or wanted to, in the minute before.
pub(crate) fn load() -> f64 {
    let text = std::fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let first = text.split_ascii_whitespace().next();
    first.and_then(|load| load.parse().ok()).unwrap_or(f64::NAN)
}

/// What all CPUs did since they were started, in the kernel's ticks.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct CpuTimes {
    all: u64,
    idle: u64,
    stolen: u64,
}

/// What all CPUs did for a while, as shares of their time.
#[derive(Clone, Copy, Debug, PartialEq)]
pub(crate) struct Use {
    /// Neither idle nor given away.
    pub(crate) busy: f64,
    /// What a hypervisor gave to others.
    pub(crate) stolen: f64,
}

impl CpuTimes {
    /// Until now; nothing where the kernel does not say.
    pub(crate) fn now() -> Self {
        Self::parse(&std::fs::read_to_string("/proc/stat").unwrap_or_default())
    }

    /// The first line (proc_stat(5)): user, nice, system, idle, iowait, irq, softirq, steal, and
    /// two that user and nice contain.
    fn parse(stat: &str) -> Self {
        let line = stat.lines().next().unwrap_or_default();
        let ticks = line.split_ascii_whitespace().skip(1).take(8);
        let ticks: Vec<u64> = ticks.filter_map(|text| text.parse().ok()).collect();
        let at = |place: usize| ticks.get(place).copied().unwrap_or(0);
        Self {
            all: ticks.iter().sum(),
            idle: at(3) + at(4),
            stolen: at(7),
        }
    }

    /// Between the two.
    pub(crate) fn since(self, before: Self) -> Use {
        let all = self.all.saturating_sub(before.all);
        let idle = self.idle.saturating_sub(before.idle);
        let stolen = self.stolen.saturating_sub(before.stolen);
        let share = |ticks: u64| ticks as f64 / all.max(1) as f64;
        Use {
            busy: share(all.saturating_sub(idle + stolen)),
            stolen: share(stolen),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn shares_are_of_the_time_of_all_cpus() {
        let before = CpuTimes::parse("cpu  10 0 10 100 0 0 0 0 0 0\ncpu0 1\n");
        let after = CpuTimes::parse("cpu  30 0 30 140 10 0 0 10 5 0\n");
        let found = after.since(before);
        assert_eq!(found.busy, 0.4);
        assert_eq!(found.stolen, 0.1);
        assert_eq!(after.since(after).busy, 0.0);
        assert_eq!(CpuTimes::parse("").all, 0);
    }

    #[test]
    fn cpu_is_named_on_x86_and_on_arm() {
        let x86 = "processor\t: 0\nmodel name\t: A CPU @ 3 GHz\n";
        assert_eq!(cpu_name(x86), Some("A CPU @ 3 GHz"));
        assert_eq!(
            cpu_name("processor\t: 0\nCPU part\t: 0xd08\n"),
            Some("0xd08")
        );
        assert_eq!(cpu_name(""), None);
    }

    #[test]
    fn this_machine_has_a_cpu_and_a_kernel() {
        let date = date();
        let parts: Vec<usize> = date.split('-').map(str::len).collect();
        assert_eq!(parts, [4, 2, 2], "{date}");
        let machine = describe();
        assert!(machine.cpus > 0);
        assert!(!machine.kernel.is_empty());
    }
}

//! On what a run was: for the result document.

use std::process::Command;

use crate::result::Machine;

/// This machine. `emulated`: the times are not its own, but an emulator's.
#[must_use]
pub fn describe(emulated: bool) -> Machine {
    let told = |path: &str| std::fs::read_to_string(path).unwrap_or_default();
    let cpus = told("/proc/cpuinfo");
    Machine {
        cpu: cpu_name(&cpus).unwrap_or(std::env::consts::ARCH).to_owned(),
        cpus: cpus
            .lines()
            .filter(|line| line.starts_with("processor"))
            .count(),
        kernel: told("/proc/sys/kernel/osrelease").trim().to_owned(),
        emulated,
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

/// The commit that is checked out in the working directory; "unknown" where there is none.
#[must_use]
pub fn commit() -> String {
    let asked = Command::new("git").args(["rev-parse", "HEAD"]).output();
    let answer = asked.ok().filter(|output| output.status.success());
    answer.map_or_else(
        || "unknown".to_owned(),
        |output| String::from_utf8_lossy(&output.stdout).trim().to_owned(),
    )
}

/// The command line, without the path of the program.
#[must_use]
pub fn command() -> String {
    let words = std::env::args_os().skip(1);
    let words = words.map(|word| word.to_string_lossy().into_owned());
    std::iter::once("hythe".to_owned())
        .chain(words)
        .collect::<Vec<_>>()
        .join(" ")
}

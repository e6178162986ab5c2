//! Where and from which sources a run was made.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};

use crate::result::Machine;

/// This machine. `emulated`: the times are not its own, but an emulator's.
#[must_use]
pub fn describe(emulated: bool) -> Machine {
    let cpus = cpuinfo();
    let processors = cpus.lines().filter(|line| line.starts_with("processor"));
    Machine {
        cpu: cpu_name(&cpus).unwrap_or(std::env::consts::ARCH).to_owned(),
        cpus: processors.count(),
        kernel: rustix::system::uname()
            .release()
            .to_string_lossy()
            .into_owned(),
        emulated,
    }
}

/// Is this machine itself an emulator's, by the name of its CPU? QEMU says so of its own.
#[must_use]
pub fn is_emulated() -> bool {
    cpu_name(&cpuinfo()).is_some_and(|name| name.starts_with("QEMU TCG"))
}

fn cpuinfo() -> String {
    fs::read_to_string("/proc/cpuinfo").unwrap_or_default()
}

/// x86 has a model name, Arm only a part number.
fn cpu_name(cpuinfo: &str) -> Option<&str> {
    let field = |name| {
        let mut lines = cpuinfo.lines().filter_map(|line| line.split_once(':'));
        lines.find_map(|(key, value)| (key.trim() == name).then_some(value.trim()))
    };
    field("model name").or_else(|| field("CPU part"))
}

/// The commit of the sources in which this program lies, or is started; else "unknown".
#[must_use]
pub fn commit() -> String {
    let program = std::env::current_exe().ok();
    let folder = program.and_then(|path| path.parent().map(Path::to_owned));
    let folders = folder.into_iter().chain([PathBuf::from(".")]);
    let found = folders.into_iter().find_map(|folder| commit_in(&folder));
    found.unwrap_or_else(|| "unknown".to_owned())
}

fn commit_in(folder: &Path) -> Option<String> {
    // Of other sources the second name is unknown, and there is no answer.
    let asked = Command::new("git")
        .arg("-C")
        .arg(folder)
        .args(["rev-parse", "HEAD", "HEAD:crates/latency/src/machine.rs"])
        .stdin(Stdio::null())
        .output();
    let answer = asked.ok().filter(|output| output.status.success())?;
    let answer = String::from_utf8_lossy(&answer.stdout).into_owned();
    answer.lines().next().map(str::to_owned)
}

/// The command line, without the path of the program.
#[must_use]
pub fn command() -> String {
    let mut words: Vec<String> = std::env::args_os()
        .map(|word| word.to_string_lossy().into_owned())
        .collect();
    if let Some(program) = words.first_mut() {
        *program = "hythe".to_owned();
    }
    words.join(" ")
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn cpu_is_named_on_x86_and_on_arm() {
        let x86 = "processor\t: 0\nmodel name\t: A CPU @ 3 GHz\n";
        assert_eq!(cpu_name(x86), Some("A CPU @ 3 GHz"));
        let arm = "processor\t: 0\nCPU part\t: 0xd08\n";
        assert_eq!(cpu_name(arm), Some("0xd08"));
        assert_eq!(cpu_name(""), None);
    }

    #[test]
    fn commit_is_that_of_these_sources_alone() {
        let elsewhere = tempfile::tempdir().expect("a folder");
        assert_eq!(commit_in(elsewhere.path()), None);
        let sources = Path::new(env!("CARGO_MANIFEST_DIR"));
        // Sources without a repository have none, either.
        if let Some(commit) = commit_in(sources) {
            assert!(commit.len() >= 40, "{commit}");
            assert_eq!(commit_in(&sources.join("src")), Some(commit));
        }
    }

    #[test]
    fn this_machine_has_a_cpu_and_a_kernel() {
        let machine = describe(false);
        assert!(
            machine.cpus > 0 && !machine.kernel.is_empty(),
            "{machine:?}"
        );
    }
}

//! PVM 3.4.6 on the two hosts: its daemons, which meet by a remote shell.

use std::os::unix::fs::PermissionsExt as _;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use rustix::process::{Pid, Signal, kill_process};
use tempfile::TempDir;

use super::hosts::{Hosts, LONG, fed};
use crate::network::agent::{Host, eventually};

/// Where Debian has what PVM starts by itself: its group server, and what it asks for elsewhere.
const FOLDERS: &str = "/usr/bin:/usr/lib/pvm3/bin/LINUX64";
const DAEMON: &str = "/usr/bin/pvmd";

/// A machine of PVM's own on both hosts, which ends with the value.
pub(crate) struct Daemons<'a> {
    first: &'a Host,
    program: String,
    folder: TempDir,
    daemon: Child,
}

impl<'a> Daemons<'a> {
    /// `program` is the one of this test, compiled.
    pub(crate) fn start(hosts: &'a Hosts, program: &str) -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let place = |name: &str| {
            let path = folder.path().join(name);
            std::fs::create_dir(&path).expect("made");
            path
        };
        let (near, far) = (place("near"), place("far"));
        let shell = remote_shell(folder.path(), &hosts.b, &far);
        let [own, other] = [&hosts.a, &hosts.b].map(|host| host.plug.address());
        let list = folder.path().join("hosts");
        let work = hosts.a.folder.path().display();
        let lines = format!("* ep={FOLDERS} wd={work} dx={DAEMON}\n{own}\n{other}\n");
        std::fs::write(&list, lines).expect("written");
        let mut command = hosts.a.space.command(DAEMON);
        command.arg(format!("-n{own}")).arg(&list);
        set(&mut command, &near);
        command.env("PVM_RSH", shell).stdin(Stdio::null());
        command.stdout(Stdio::null()).stderr(Stdio::null());
        let started = Self {
            first: &hosts.a,
            program: program.to_owned(),
            daemon: command.spawn().expect("PVM's daemon"),
            folder,
        };
        eventually("PVM's daemons have met", || {
            let mut asking = started.command(&[program, "size"]);
            let said = asking.output().expect("it runs").stdout;
            String::from_utf8_lossy(&said).contains("2 hosts")
        });
        started
    }

    /// Runs a program as a task of it, on host a.
    pub(crate) fn run(&self, words: &[&str], input: &str) -> Output {
        fed(self.command(words), input)
    }

    /// The same, not started.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.first.space.command("timeout");
        command.arg(LONG).args(words);
        set(&mut command, &self.near());
        command.current_dir(self.first.folder.path());
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    /// What it has logged: what tasks print that were spawned is there.
    pub(crate) fn log(&self) -> String {
        let entries = std::fs::read_dir(self.near()).expect("a folder");
        let mut names = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let log = names.find(|path| path.to_string_lossy().contains("/pvml."));
        let log = log.and_then(|path| std::fs::read(path).ok());
        String::from_utf8_lossy(&log.unwrap_or_default()).into_owned()
    }

    /// Processes of host b: its daemon, and tasks.
    pub(crate) fn far_processes(&self) -> Vec<u32> {
        processes_with(&self.far_assignment())
    }

    /// Stops the daemon of host b, and waits until the other has taken that host out.
    pub(crate) fn stop_far(&self) {
        for process in self.far_processes() {
            signal(process, Signal::TERM);
        }
        eventually("PVM's machine has one host", || {
            let asked = self.command(&[&self.program, "size"]).output();
            String::from_utf8_lossy(&asked.expect("it runs").stdout).contains("1 hosts")
        });
    }

    /// What processes of host a have in their environment.
    pub(crate) fn near_assignment(&self) -> String {
        format!("PVM_TMP={}", self.near().display())
    }

    /// And those of host b.
    pub(crate) fn far_assignment(&self) -> String {
        format!("PVM_TMP={}", self.folder.path().join("far").display())
    }

    fn near(&self) -> PathBuf {
        self.folder.path().join("near")
    }
}

impl Drop for Daemons<'_> {
    fn drop(&mut self) {
        // Who halts is lost with the machine; what is left after that has to go all the same.
        let _ = self.command(&[&self.program, "halt"]).output();
        let _ = self.daemon.kill();
        let _ = self.daemon.wait();
        for process in self.far_processes() {
            end(process);
        }
    }
}

/// Processes whose environment has an assignment.
pub(crate) fn processes_with(assignment: &str) -> Vec<u32> {
    let processes = std::fs::read_dir("/proc").expect("it is there").flatten();
    let found = processes.filter_map(|process| {
        let number = process.file_name().to_str()?.parse().ok()?;
        let environment = std::fs::read(process.path().join("environ")).ok()?;
        let mut variables = environment.split(|byte| *byte == 0);
        variables
            .any(|variable| variable == assignment.as_bytes())
            .then_some(number)
    });
    found.collect()
}

/// What its daemons and tasks find each other by.
fn set(command: &mut Command, files: &Path) {
    command.env("PVM_TMP", files).env("PVM_ALLOW_ROOT", "1");
    command.env_remove("PVM_ROOT").env_remove("PVM_RSH");
}

/// A program in place of a remote shell: `remote-shell HOST WORDS...` runs the words on host b.
fn remote_shell(folder: &Path, host: &Host, files: &Path) -> PathBuf {
    let path = folder.join("remote-shell");
    let more = host.environment.iter();
    let more = more.map(|(name, value)| format!("export {name}='{}'\n", value.display()));
    let more: String = more.collect();
    let script = format!(
        "#!/bin/sh\nshift\nexport PVM_TMP='{}' PVM_ALLOW_ROOT=1\nunset PVM_RSH\n{more}\
         exec nsenter --net=/proc/{}/ns/net sh -c \"$*\"\n",
        files.display(),
        host.space.id(),
    );
    std::fs::write(&path, script).expect("written");
    let mode = std::fs::Permissions::from_mode(0o700);
    std::fs::set_permissions(&path, mode).expect("permitted");
    path
}

/// Ends a process that may have ended.
pub(crate) fn end(process: u32) {
    signal(process, Signal::KILL);
}

fn signal(process: u32, signal: Signal) {
    let process = i32::try_from(process).ok().and_then(Pid::from_raw);
    let _ = kill_process(process.expect("a process"), signal);
}

//! A place for one test: its own pool root, its own temporary files, the real program. Used by the
//! tests of `hythe demo` and of `hythe play`.

#![allow(dead_code, reason = "each test program uses a part of it")]

use crate::support;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::Duration;

use hythe_testing::eventually_or_show;
use serde_json::Value;

/// How long anything may take before the test gives up.
const BOUND: Duration = Duration::from_secs(300);

pub(crate) struct World {
    directory: tempfile::TempDir,
}

impl World {
    pub(crate) fn new() -> Self {
        Self {
            directory: tempfile::tempdir().expect("a temporary directory"),
        }
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    /// Where this test's pools are.
    pub(crate) fn root(&self) -> PathBuf {
        self.path("pools")
    }

    /// Encodes Debian's spoken samples with ffmpeg; `options` say how.
    pub(crate) fn recording(&self, name: &str, options: &[&str]) -> String {
        let path = self.path(name);
        let spoken = |word: &str| format!("/usr/share/sounds/alsa/{word}.wav");
        let encoded = Command::new("ffmpeg")
            .args(["-nostdin", "-loglevel", "error", "-y"])
            .args([
                "-i",
                &spoken("Front_Left"),
                "-i",
                &spoken("Rear_Right"),
                "-i",
                &spoken("Side_Left"),
            ])
            .args(["-filter_complex", "concat=n=3:v=0:a=1"])
            .args(options)
            .arg(&path)
            .status()
            .expect("ffmpeg runs: `make setup` installs it");
        assert!(encoded.success(), "ffmpeg {options:?}");
        path.to_str().expect("a plain path").to_owned()
    }

    /// The program with this test's root.
    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        let mut command = Command::new(support::HYTHE);
        command
            .args(arguments)
            .env("HYTHE_ROOT", self.root())
            .env("TMPDIR", self.directory.path());
        command.env("HYTHE_BOARDS", boards()).stdin(Stdio::null());
        // Whoever runs the tests sees no window of theirs.
        command.env_remove("DISPLAY").env_remove("WAYLAND_DISPLAY");
        command
    }

    /// Runs the demo to its end; it must succeed.
    pub(crate) fn demo(&self, arguments: &[&str]) -> Value {
        let output = self.run(&[&["demo", "--json"], arguments].concat());
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        serde_json::from_slice(&output.stdout).expect("one JSON document and nothing else")
    }

    pub(crate) fn demo_text(&self, arguments: &[&str]) -> String {
        let output = self.run(&[&["demo"], arguments].concat());
        assert!(
            output.status.success(),
            "{}",
            String::from_utf8_lossy(&output.stderr)
        );
        String::from_utf8(output.stdout).expect("text")
    }

    /// Runs the demo; it must refuse with exit code 1 and say why.
    pub(crate) fn refusal(&self, arguments: &[&str]) -> String {
        let output = self.run(&[&["demo"], arguments].concat());
        assert_eq!(output.status.code(), Some(1), "{output:?}");
        assert!(output.stdout.is_empty(), "{output:?}");
        String::from_utf8(output.stderr).expect("text")
    }

    pub(crate) fn run(&self, arguments: &[&str]) -> Output {
        self.command(arguments).output().expect("the program runs")
    }

    /// Starts the demo and leaves it running.
    pub(crate) fn start(&self, arguments: &[&str]) -> Child {
        let mut command = self.command(&[&["demo"], arguments].concat());
        command
            .stdout(Stdio::piped())
            .stderr(Stdio::piped())
            .spawn()
            .expect("the program runs")
    }

    /// Nothing of the command is left: no pool, no temporary file, no process.
    pub(crate) fn is_clean(&self) {
        let pools = self
            .root()
            .join(rustix::process::getuid().as_raw().to_string());
        let left = || {
            let mut left = names_in(&pools);
            left.extend(
                names_in(self.directory.path())
                    .into_iter()
                    .filter(|name| name.starts_with("hythe-")),
            );
            left.extend(self.processes());
            left
        };
        eventually_or_show(
            "nothing is left behind",
            || left().is_empty(),
            || format!("{:?}", left()),
        );
    }

    /// Processes that work with this test's files, by their command lines.
    pub(crate) fn processes(&self) -> Vec<String> {
        let mine = self
            .directory
            .path()
            .to_str()
            .expect("a plain path")
            .to_owned();
        let all = std::fs::read_dir("/proc").expect("proc").flatten();
        all.filter_map(|entry| {
            let pid: u32 = entry.file_name().to_str()?.parse().ok()?;
            let line = std::fs::read(entry.path().join("cmdline")).ok()?;
            let environment = std::fs::read(entry.path().join("environ")).unwrap_or_default();
            let line = String::from_utf8_lossy(&line).replace('\0', " ");
            let ours =
                line.contains(&mine) || String::from_utf8_lossy(&environment).contains(&mine);
            (ours && pid != std::process::id()).then(|| format!("{pid} {line}"))
        })
        .collect()
    }

    /// The process whose command line has this word, once it runs.
    pub(crate) fn process_with(&self, word: &str) -> u32 {
        let find = || {
            self.processes()
                .into_iter()
                .find(|line| line.contains(word))
        };
        eventually_or_show(
            word,
            || find().is_some(),
            || format!("{:?}", self.processes()),
        );
        let line = find().expect("just seen");
        line.split(' ')
            .next()
            .and_then(|pid| pid.parse().ok())
            .expect("a process id")
    }
}

/// Sends a signal to a process that this test's demo started.
pub(crate) fn signal(pid: u32, signal: rustix::process::Signal) {
    let pid = rustix::process::Pid::from_raw(pid.cast_signed()).expect("a process id");
    rustix::process::kill_process(pid, signal).expect("the process is there");
}

/// Waits for a child, bounded.
pub(crate) fn end_of(child: Child) -> Output {
    let pid = child.id();
    let (done, ended) = std::sync::mpsc::channel();
    std::thread::spawn(move || done.send(child.wait_with_output()));
    match ended.recv_timeout(BOUND) {
        Ok(output) => output.expect("its output"),
        Err(_) => {
            // The core ends with it.
            signal(pid, rustix::process::Signal::KILL);
            panic!("process {pid} still runs after {BOUND:?}");
        }
    }
}

/// The verdict says that everything adds up.
pub(crate) fn exact(verdict: &Value) {
    assert_eq!(
        verdict["pcm_sha256"], verdict["reference_sha256"],
        "{verdict}"
    );
    assert_eq!(
        verdict["packets_sent"], verdict["packets_received"],
        "{verdict}"
    );
    assert_eq!(verdict["slots_leaked"], 0, "{verdict}");
    assert!(
        verdict["samples"].as_u64().expect("samples") > 10_000,
        "{verdict}"
    );
}

fn names_in(directory: &Path) -> Vec<String> {
    let Ok(entries) = std::fs::read_dir(directory) else {
        return Vec::new();
    };
    entries
        .flatten()
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect()
}

/// The boards that `make setup` built: beside the folder with this test's program.
pub(crate) fn boards() -> PathBuf {
    let program = Path::new(support::HYTHE);
    program
        .parent()
        .and_then(Path::parent)
        .map(|target| target.join("boards"))
        .expect("target")
}

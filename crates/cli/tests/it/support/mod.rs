//! The real `hythe` binary, run in a root of its own for each test.
//!
//! Every wait is bounded, everything started is ended with the value that stands for it.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod streams;
pub(crate) mod terminal;

use std::io::{Read, Write};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::sync::atomic::{AtomicU32, Ordering};
use std::sync::{Arc, Mutex, Once};
use std::thread::JoinHandle;
use std::time::Duration;

use hythe::{Pool, PoolOptions};
pub(crate) use hythe_testing::eventually;
use hythe_testing::eventually_some;
use serde_json::Value;

/// The command.
pub(crate) const HYTHE: &str = env!("CARGO_BIN_EXE_hythe");
/// The programs that it becomes.
const PROGRAMS: [&str; 9] = [
    "hythe-core",
    "hythe-demo",
    "hythe-hosts",
    "hythe-jobs",
    "hythe-latency",
    "hythe-media",
    "hythe-play",
    "hythe-preload",
    "hythe-report",
];

/// Cargo builds them with the workspace, and not with the tests of this package.
pub(crate) fn check_programs() {
    static CHECKED: Once = Once::new();
    CHECKED.call_once(|| {
        for name in PROGRAMS {
            hythe_testing::assert_is_built_of_its_sources(&beside(name));
        }
    });
}

/// A program beside the command.
pub(crate) fn beside(name: &str) -> PathBuf {
    Path::new(HYTHE).with_file_name(name)
}

/// Copies the command into a folder, with some programs that it becomes.
pub(crate) fn copy_hythe(folder: &Path, programs: &[&str]) -> PathBuf {
    check_programs();
    for name in ["hythe"].iter().chain(programs) {
        hythe_testing::copy_program(beside(name), folder.join(name));
    }
    folder.join("hythe")
}

/// No wait of a test is longer. It only ends tests that have failed.
pub(crate) const BOUND: Duration = Duration::from_secs(120);

/// Sends a signal to a process that this test has started.
pub(crate) fn send(pid: &Value, signal: rustix::process::Signal) {
    let pid = i32::try_from(pid.as_i64().expect("a process")).expect("a process");
    deliver(
        rustix::process::Pid::from_raw(pid).expect("a process"),
        signal,
    );
}

/// Sends a signal to a process that lives. One that is to stop has stopped then: on a busy machine
/// it runs on until its turn comes.
fn deliver(pid: rustix::process::Pid, signal: rustix::process::Signal) {
    rustix::process::kill_process(pid, signal).expect("it lives");
    if signal == rustix::process::Signal::STOP {
        let stat = format!("/proc/{pid}/stat");
        eventually("it is stopped", || {
            let stat = std::fs::read_to_string(&stat).expect("it lives");
            stat.rsplit(')').next().expect("a state").starts_with(" T")
        });
    }
}

/// A root for pools, and a place for files.
#[derive(Debug)]
pub(crate) struct Root(PathBuf);

impl Root {
    pub(crate) fn new() -> Self {
        Self::under(&std::env::temp_dir())
    }

    /// In shared memory, where there is any: else says what is left out.
    pub(crate) fn on_shared_memory(left_out: &str) -> Option<Self> {
        let place = Path::new("/dev/shm");
        if !place.is_dir() {
            eprintln!("SKIPPED (no /dev/shm): {left_out}");
            return None;
        }
        Some(Self::under(place))
    }

    fn under(place: &Path) -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let path = loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let path = place.join(format!("hythe-cli-test-{}-{number}", std::process::id()));
            match std::fs::create_dir(&path) {
                Ok(()) => break path,
                // A test that was killed left it behind, and had the same process id.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("{}: {error}", path.display()),
            }
        };
        std::fs::create_dir(path.join("pools")).expect("a fresh directory");
        Self(path)
    }

    /// Where the test's own files go.
    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// Where the pools go.
    pub(crate) fn pools(&self) -> PathBuf {
        self.0.join("pools")
    }

    /// Names under the root of the pools, at any depth.
    pub(crate) fn traces(&self) -> Vec<PathBuf> {
        let mut found = Vec::new();
        let mut left = vec![self.pools()];
        while let Some(directory) = left.pop() {
            for entry in std::fs::read_dir(directory)
                .expect("own")
                .map(|entry| entry.expect("read"))
            {
                if entry.file_type().expect("read").is_dir() {
                    left.push(entry.path());
                }
                found.push(entry.path());
            }
        }
        found
    }

    /// Those of them that nobody looks for: private pools, and what is in the making.
    pub(crate) fn hidden(&self) -> Vec<PathBuf> {
        let mut found = self.traces();
        found.retain(|path| {
            let name = path.file_name().unwrap_or_default();
            name.to_string_lossy().starts_with('.')
        });
        found
    }

    pub(crate) fn command(&self, arguments: &[&str]) -> Command {
        check_programs();
        self.command_by(Command::new(HYTHE), arguments)
    }

    /// The same, started by another command that takes it from there.
    pub(crate) fn command_by(&self, mut command: Command, arguments: &[&str]) -> Command {
        command
            .args(arguments)
            .env("HYTHE_ROOT", self.pools())
            .env("HYTHE_BOARDS", boards())
            .env_remove("HYTHE_POOL")
            .env_remove("RUST_LOG")
            .stdin(Stdio::null())
            .stdout(Stdio::piped())
            .stderr(Stdio::piped());
        command
    }

    /// Starts it and lets it run.
    pub(crate) fn start(&self, arguments: &[&str]) -> Running {
        Running::new(self.command(arguments))
    }

    /// Runs it to its end.
    pub(crate) fn run(&self, arguments: &[&str]) -> Ended {
        self.start(arguments).end()
    }

    /// Runs it to its end with something on its standard input.
    pub(crate) fn feed(&self, arguments: &[&str], input: &[u8]) -> Ended {
        let mut command = self.command(arguments);
        command.stdin(Stdio::piped());
        let mut running = Running::new(command);
        let mut stdin = running.child.stdin.take().expect("piped");
        // Whoever fails early does not read to the end.
        let _ = stdin.write_all(input);
        drop(stdin);
        running.end()
    }

    /// Runs it to its end, which must be a good one.
    pub(crate) fn ok(&self, arguments: &[&str]) -> String {
        let ended = self.run(arguments);
        assert_eq!(ended.code, Some(0), "{arguments:?}: {}", ended.errors);
        ended.text()
    }

    /// The one document that it prints, and nothing else.
    pub(crate) fn json(&self, arguments: &[&str]) -> Value {
        let text = self.ok(&[arguments, &["--json"]].concat());
        serde_json::from_str(&text)
            .unwrap_or_else(|error| panic!("{arguments:?}: {error} in {text}"))
    }

    /// How many subscribers a channel of the default pool has.
    pub(crate) fn subscribers(&self, channel: &str) -> usize {
        let ended = self.run(&["list", "--json"]);
        let list: Value = serde_json::from_slice(&ended.output).unwrap_or_default();
        let channels = list["channels"].as_array().cloned().unwrap_or_default();
        let ports = channels
            .iter()
            .filter(|found| found["name"] == channel)
            .flat_map(|found| found["ports"].as_array());
        ports
            .flatten()
            .filter(|port| port["kind"] == "subscriber")
            .count()
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        // With the kernel's segments of those that a test left; the rest, wherever that got.
        let _ = Pool::remove_by_force(&PoolOptions::new("default").root(&self.pools()));
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// The boards that `make setup` built: beside the folder with the program.
fn boards() -> PathBuf {
    let program = Path::new(env!("CARGO_BIN_EXE_hythe"));
    program
        .parent()
        .and_then(Path::parent)
        .expect("target")
        .join("boards")
}

/// A `hythe` that runs.
#[derive(Debug)]
pub(crate) struct Running {
    pub(crate) child: Child,
    output: Option<JoinHandle<()>>,
    errors: Option<JoinHandle<()>>,
    printed: Arc<Mutex<Vec<u8>>>,
    said: Arc<Mutex<Vec<u8>>>,
}

/// A `hythe` that has ended.
#[derive(Debug)]
pub(crate) struct Ended {
    /// Its exit code; none if a signal ended it.
    pub(crate) code: Option<i32>,
    pub(crate) output: Vec<u8>,
    pub(crate) errors: String,
}

impl Running {
    pub(crate) fn new(mut command: Command) -> Self {
        let mut child = command.spawn().expect("started");
        let (printed, said) = <(Arc<Mutex<Vec<u8>>>, Arc<Mutex<Vec<u8>>>)>::default();
        let output = child.stdout.take().map(|from| collect(from, &printed));
        let errors = child.stderr.take().map(|from| collect(from, &said));
        Self {
            child,
            output,
            errors,
            printed,
            said,
        }
    }

    /// What it has said on standard error so far.
    pub(crate) fn said(&self) -> String {
        let said = self.said.lock().expect("no reader fails");
        String::from_utf8_lossy(&said).into_owned()
    }

    /// What it has printed so far.
    pub(crate) fn printed(&self) -> String {
        let printed = self.printed.lock().expect("no reader fails");
        String::from_utf8_lossy(&printed).into_owned()
    }

    /// Waits until it has said that on standard error.
    pub(crate) fn wait_until_said(&self, what: &str) {
        eventually(what, || self.said().contains(what));
    }

    pub(crate) fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Asks it to stop, as Ctrl-C does.
    pub(crate) fn interrupt(&self) {
        self.signal(rustix::process::Signal::INT);
    }

    pub(crate) fn signal(&self, signal: rustix::process::Signal) {
        deliver(rustix::process::Pid::from_child(&self.child), signal);
    }

    /// Waits for its end.
    pub(crate) fn end(mut self) -> Ended {
        let status = self.wait();
        for reader in [self.output.take(), self.errors.take()] {
            reader.map_or(Ok(()), JoinHandle::join).expect("read");
        }
        let output = std::mem::take(&mut *self.printed.lock().expect("no reader fails"));
        Ended {
            code: status.code(),
            output,
            errors: self.said(),
        }
    }

    fn wait(&mut self) -> ExitStatus {
        eventually_some("its end", || self.child.try_wait().expect("own child"))
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

impl Ended {
    pub(crate) fn text(&self) -> String {
        String::from_utf8_lossy(&self.output).into_owned()
    }

    pub(crate) fn succeeded(&self) {
        assert_eq!(self.code, Some(0), "{}", self.errors);
    }

    /// It failed with this code, said each of `words`, and printed nothing on standard output.
    pub(crate) fn failed(&self, code: i32, words: &[&str]) {
        self.failed_naming(code, words);
        assert_eq!(self.text(), "", "an error is no result");
    }

    /// It failed with this code, and said each of `words`.
    pub(crate) fn failed_naming(&self, code: i32, words: &[&str]) {
        assert_eq!(self.code, Some(code), "{}", self.errors);
        for word in words {
            assert!(
                self.errors.contains(word),
                "no `{word}` in: {}",
                self.errors
            );
        }
    }
}

/// Reads to the end, into what others look at meanwhile.
fn collect(mut from: impl Read + Send + 'static, into: &Arc<Mutex<Vec<u8>>>) -> JoinHandle<()> {
    let into = Arc::clone(into);
    std::thread::spawn(move || {
        let mut part = [0; 4096];
        while let Ok(bytes @ 1..) = from.read(&mut part) {
            let mut all = into.lock().expect("no test fails while it has it");
            all.extend_from_slice(&part[..bytes]);
        }
    })
}

//! PVM's console as a test talks to it.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;
use std::time::{Duration, Instant};

use super::{BOUND, text};

/// The console waits for input by then.
const QUIET: Duration = Duration::from_millis(200);
/// A line is lost if nothing has come of it.
const SAY_AGAIN: Duration = Duration::from_secs(20);

/// PVM's console, whose words come one after the other.
pub(crate) struct Console {
    child: Child,
    input: Option<ChildStdin>,
    /// What was said to it.
    pub(crate) said: Vec<String>,
    printed: Arc<Mutex<String>>,
    reader: Option<JoinHandle<()>>,
}

impl Console {
    pub(crate) fn start(mut command: Command) -> Self {
        command.stdin(Stdio::piped()).stdout(Stdio::piped());
        let mut child = command.stderr(Stdio::null()).spawn().expect("it starts");
        let printed = Arc::new(Mutex::new(String::new()));
        let (mut from, into) = (child.stdout.take().expect("a pipe"), Arc::clone(&printed));
        let reader = std::thread::spawn(move || {
            let mut bytes = [0; 4096];
            while let Ok(read @ 1..) = from.read(&mut bytes) {
                into.lock().expect("sound").push_str(&text(&bytes[..read]));
            }
        });
        let input = child.stdin.take();
        Self {
            child,
            input,
            said: Vec::new(),
            printed,
            reader: Some(reader),
        }
    }

    /// Says it once the console is quiet: it may lose a line that comes while it prints.
    pub(crate) fn say(&mut self, line: &str) {
        let length = || self.printed.lock().expect("sound").len();
        let mut before = 0;
        while before < length() {
            before = length();
            std::thread::sleep(QUIET);
        }
        let input = self.input.as_mut().expect("it is open");
        writeln!(input, "{line}").expect("it reads");
        self.said.push(line.to_owned());
    }

    /// Says it until the console has answered.
    pub(crate) fn ask(&mut self, line: &str, answer: &str) {
        let before = self.printed.lock().expect("sound").len();
        let start = Instant::now();
        loop {
            self.say(line);
            let said = Instant::now();
            while said.elapsed() < SAY_AGAIN {
                let printed = self.printed.lock().expect("sound").clone();
                if printed[before..].contains(answer) {
                    return;
                }
                assert!(
                    start.elapsed() < BOUND,
                    "{line}: no {answer:?} in:\n{printed}"
                );
                std::thread::sleep(Duration::from_millis(20));
            }
        }
    }

    /// Until something has come of what it prints: that.
    fn wait_for<T>(&self, what: &str, found: impl Fn(&str) -> Option<T>) -> T {
        let start = Instant::now();
        loop {
            let printed = self.printed.lock().expect("sound").clone();
            if let Some(found) = found(&printed) {
                return found;
            }
            assert!(start.elapsed() < BOUND, "no {what} in:\n{printed}");
            std::thread::sleep(Duration::from_millis(20));
        }
    }

    /// Spawns waiters, and waits until all wait: their numbers.
    pub(crate) fn spawn(&mut self, job: usize, count: usize, waiter: &str) -> Vec<String> {
        self.say(&format!("spawn -{count} -> {waiter}"));
        let begin = format!("[{job}:");
        self.wait_for("waiters", |printed| {
            let lines = printed
                .lines()
                .filter_map(|line| line.strip_suffix("] waits"));
            let lines = lines.map(|line| line.trim_start_matches("pvm> "));
            let tasks: Vec<String> = lines
                .filter_map(|line| line.strip_prefix(&begin).map(str::to_owned))
                .collect();
            (tasks.len() == count).then_some(tasks)
        })
    }

    /// Waits until it has ended: all that it printed, and its exit code.
    pub(crate) fn end(mut self) -> (String, Option<i32>) {
        let start = Instant::now();
        let status = loop {
            if let Some(status) = self.child.try_wait().expect("a child") {
                break status;
            }
            assert!(start.elapsed() < BOUND, "it does not end");
            std::thread::sleep(Duration::from_millis(20));
        };
        let reader = self.reader.take().expect("it reads still");
        reader.join().expect("read");
        let printed = self.printed.lock().expect("sound").clone();
        (printed, status.code())
    }
}

impl Drop for Console {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

//! PVM's console as a test talks to it.

use std::io::{Read as _, Write as _};
use std::process::{Child, ChildStdin, Command, Stdio};
use std::sync::{Arc, Mutex};
use std::thread::JoinHandle;

use super::text;
use hythe_testing::{Polling, eventually_some};

/// What the console prints whenever it begins to read a line.
pub(crate) const PROMPT: &str = "pvm> ";

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

    /// Says it once the console reads: it has prompted for each line before, and for this one.
    pub(crate) fn say(&mut self, line: &str) {
        let prompts = self.said.len() + 1;
        self.wait_for("prompt", |printed| {
            (printed.matches(PROMPT).count() >= prompts).then_some(())
        });
        let input = self.input.as_mut().expect("it is open");
        // In one write: it takes for a line what it reads at once, and may end before the rest.
        let whole = format!("{line}\n");
        input.write_all(whole.as_bytes()).expect("it reads");
        self.said.push(line.to_owned());
    }

    /// Says it, and waits until the console has answered.
    pub(crate) fn ask(&mut self, line: &str, answer: &str) {
        let before = self.printed.lock().expect("sound").len();
        self.say(line);
        self.wait_for(answer, |printed| {
            printed[before..].contains(answer).then_some(())
        });
    }

    /// Until something has come of what it prints: that.
    fn wait_for<T>(&self, what: &str, found: impl Fn(&str) -> Option<T>) -> T {
        let mut polling = Polling::new(what);
        loop {
            let printed = self.printed.lock().expect("sound").clone();
            if let Some(found) = found(&printed) {
                return found;
            }
            polling.pause_or_show(|| printed);
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
            let lines = lines.map(|line| line.trim_start_matches(PROMPT));
            let tasks: Vec<String> = lines
                .filter_map(|line| line.strip_prefix(&begin).map(str::to_owned))
                .collect();
            (tasks.len() == count).then_some(tasks)
        })
    }

    /// Waits until it has ended: all that it printed, and its exit code.
    pub(crate) fn end(mut self) -> (String, Option<i32>) {
        let status = eventually_some("its end", || self.child.try_wait().expect("a child"));
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

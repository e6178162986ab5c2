//! One process of a run: a test program, or a command that runs tests of its own.
//!
//! Called by the workers of [`super::run_all`]. What it prints goes to files, not through pipes:
//! a process that a test leaves behind could hold a pipe open for ever. Never judges a test by its
//! time: only a process that has printed nothing for [`SILENCE_MAX`] is taken for hung.

use super::libtest::{self, Counts, Program, Test};
use std::fs::{self, File};
use std::io;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

/// Ends what hangs. The longest test takes some minutes, and a busy machine several times as long.
const SILENCE_MAX: Duration = Duration::from_secs(1800);
/// How often the process is looked after.
const LOOK_EVERY: Duration = Duration::from_millis(20);

/// Something to run.
#[derive(Debug)]
pub(super) struct Job {
    pub(super) name: String,
    command: Command,
    /// It prints events of libtest.
    has_events: bool,
}

/// What came of it.
#[derive(Debug)]
pub(super) struct Outcome {
    pub(super) name: String,
    pub(super) took: Duration,
    pub(super) counts: Counts,
    /// With the time of each, where that is known.
    pub(super) tests: Vec<Test>,
    /// What was skipped, as tests say it.
    pub(super) skipped: Vec<String>,
    /// What to show of it if it failed.
    pub(super) failure: Option<String>,
}

/// How a process ended.
enum End {
    Exited(ExitStatus),
    Hung,
    NotStarted(io::Error),
}

impl Job {
    /// All tests of a program, but the slow ones. One with a module for each matter is a process
    /// for each of them: tests of one module are used to each other, and processes run at once.
    pub(super) fn test_program(program: &Program) -> Result<Vec<Self>, String> {
        let modules = libtest::modules(program)?.into_iter();
        let jobs = modules.map(|(source, tests)| Self::some_tests(program, &source, &[], &tests));
        Ok(jobs.collect())
    }

    /// Slow tests of one module of a program.
    pub(super) fn slow_tests(program: &Program, source: &str, tests: &[String]) -> Self {
        Self::some_tests(program, source, &["--ignored"], tests)
    }

    fn some_tests(program: &Program, source: &str, options: &[&str], tests: &[String]) -> Self {
        let options = options.iter().copied().chain(["--exact"]);
        let arguments = options.map(str::to_owned).chain(tests.iter().cloned());
        let arguments: Vec<String> = arguments.collect();
        Self::libtest(program, source, &arguments)
    }

    fn libtest(program: &Program, name: &str, arguments: &[String]) -> Self {
        let mut command = libtest::command(program);
        command.args(arguments);
        Self {
            name: name.to_owned(),
            command,
            has_events: true,
        }
    }

    /// A command, which counts as one test unless it prints results of `cargo test`.
    pub(super) fn command(name: &str, command: Command) -> Self {
        Self {
            name: name.to_owned(),
            command,
            has_events: false,
        }
    }

    /// With a variable of its environment.
    pub(super) fn with(mut self, variable: &str, value: &Path) -> Self {
        self.command.env(variable, value);
        self
    }

    /// Runs it to its end, with what it prints in files in `logs`.
    pub(super) fn run(self, logs: &Path) -> Outcome {
        let file = |extension| logs.join(self.name.replace(['/', ' ', ':'], "-") + extension);
        let files = [file(".out"), file(".err")];
        let begun = Instant::now();
        let end = match self.start(&files) {
            Ok(child) => wait(child, &files),
            Err(error) => End::NotStarted(error),
        };
        let took = begun.elapsed();
        let [out, err] = files.map(|path| {
            let bytes = fs::read(path).unwrap_or_default();
            String::from_utf8_lossy(&bytes).into_owned()
        });
        self.outcome(&end, took, &out, &err)
    }

    fn start(&self, [out, err]: &[PathBuf; 2]) -> io::Result<Child> {
        with_usual_umask(&self.command)
            .stdin(Stdio::null())
            .stdout(File::create(out)?)
            .stderr(File::create(err)?)
            .spawn()
    }

    fn outcome(self, end: &End, took: Duration, out: &str, err: &str) -> Outcome {
        let is_good = matches!(end, End::Exited(status) if status.success());
        let (mut counts, tests) = if self.has_events {
            (Counts::default(), libtest::tests(out))
        } else {
            (libtest::results(out), Vec::new())
        };
        for test in &tests {
            counts.add(test);
        }
        // A command with no results is one test. One that was ended, or that ended itself, failed.
        if counts == Counts::default() && !self.has_events && is_good {
            counts.passed = 1;
        }
        if counts.failed == 0 && !is_good {
            counts.failed = 1;
        }
        let has_failed = counts.failed > 0;
        let why = match end {
            End::Exited(status) => status.to_string(),
            End::Hung => format!("ended, having printed nothing for {SILENCE_MAX:?}"),
            End::NotStarted(error) => format!("not started: {error}"),
        };
        let said = if self.has_events {
            libtest::failures(&tests)
        } else {
            out.to_owned()
        };
        Outcome {
            took,
            counts,
            skipped: skipped(tests.iter().map(|test| &*test.said).chain([out, err])),
            failure: has_failed.then(|| format!("{said}{err}{}: {why}", self.name)),
            name: self.name,
            tests,
        }
    }
}

/// The same command, where only the owner may write what it makes: pools are refused in folders
/// that others may write, and tests make such folders for theirs.
fn with_usual_umask(command: &Command) -> Command {
    let mut shell = Command::new("sh");
    shell.args(["-c", "umask 022 && exec \"$@\"", "sh"]);
    shell.arg(command.get_program()).args(command.get_args());
    for (name, value) in command.get_envs() {
        match value {
            Some(value) => shell.env(name, value),
            None => shell.env_remove(name),
        };
    }
    if let Some(folder) = command.get_current_dir() {
        shell.current_dir(folder);
    }
    shell
}

/// Waits for its end. What it prints shows that it lives.
fn wait(mut child: Child, files: &[PathBuf; 2]) -> End {
    let lengths = || {
        files
            .each_ref()
            .map(|path| fs::metadata(path).map_or(0, |data| data.len()))
    };
    let mut last = (lengths(), Instant::now());
    loop {
        match child.try_wait() {
            Ok(Some(status)) => return End::Exited(status),
            Err(error) => return End::NotStarted(error),
            Ok(None) => std::thread::sleep(LOOK_EVERY),
        }
        let now = lengths();
        if now != last.0 {
            last = (now, Instant::now());
        } else if last.1.elapsed() > SILENCE_MAX {
            // Its own children end with it or are reported by those who look for them.
            let _ = child.kill();
            let _ = child.wait();
            return End::Hung;
        }
    }
}

/// Lines in which tests say what they leave out, and why.
fn skipped<'t>(texts: impl Iterator<Item = &'t str>) -> Vec<String> {
    let lines = texts.flat_map(str::lines);
    let said = lines.filter_map(|line| {
        let begins = line.get(.."skipped".len())?;
        begins
            .eq_ignore_ascii_case("skipped")
            .then(|| line.to_owned())
    });
    said.collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shell(script: &str) -> Outcome {
        let mut command = Command::new("sh");
        command.args(["-c", script]);
        let folder = format!("hythe-suite-{}-{}", std::process::id(), script.len());
        let logs = std::env::temp_dir().join(folder);
        fs::create_dir_all(&logs).expect("made");
        let outcome = Job::command("sh: some script", command).run(&logs);
        fs::remove_dir_all(&logs).expect("own");
        outcome
    }

    #[test]
    fn command_is_one_test_and_says_why_it_failed() {
        let good = shell("echo fine");
        assert_eq!((good.counts.passed, good.counts.failed), (1, 0));
        assert!(good.failure.is_none());
        let bad = shell("echo out; echo err >&2; exit 3");
        assert_eq!((bad.counts.passed, bad.counts.failed), (0, 1));
        let failure = bad.failure.expect("it failed");
        assert_eq!(failure, "out\nerr\nsh: some script: exit status: 3");
    }

    #[test]
    fn job_has_the_usual_umask_its_variables_and_folder() {
        let mut command = Command::new("sh");
        let script = "test $(umask) = 0022 && test \"$ONE\" = 'a b' && test $(pwd -P) = /";
        command.args(["-c", script]).env("ONE", "a b");
        command.current_dir("/");
        let logs = std::env::temp_dir().join(format!("hythe-umask-{}", std::process::id()));
        fs::create_dir_all(&logs).expect("made");
        let outcome = Job::command("sh: umask", command).run(&logs);
        fs::remove_dir_all(&logs).expect("own");
        assert_eq!(outcome.counts.passed, 1, "{:?}", outcome.failure);
    }

    /// A process that is left behind has what was a pipe; its parent has ended all the same.
    #[test]
    fn what_is_left_behind_is_not_waited_for() {
        let name = format!("hythe-left-behind-{}", std::process::id());
        let flag = std::env::temp_dir().join(name);
        std::fs::write(&flag, "").expect("own");
        // It stays as long as the file does, and 60 s at most.
        let stays = "i=0; while [ -e $flag ] && [ $i -lt 600 ]; do sleep 0.1; i=$((i+1)); done";
        let script = format!(
            "flag={}; echo SKIPPED no board; ({stays}) &",
            flag.display()
        );
        let outcome = shell(&script);
        std::fs::remove_file(&flag).expect("own");
        assert_eq!(outcome.counts.passed, 1);
        assert_eq!(outcome.skipped, ["SKIPPED no board"]);
        assert!(outcome.took < Duration::from_secs(60), "it waited");
    }

    #[test]
    fn results_of_cargo_test_are_counted() {
        let line = "test result: ok. 5 passed; 0 failed; 2 ignored; 0 measured; 0 filtered out";
        let counts = shell(&format!("echo '{line}'; echo '{line}'")).counts;
        assert_eq!((counts.passed, counts.failed, counts.ignored), (10, 0, 4));
        let failed = shell(&format!(
            "echo '{}'; false",
            line.replace("0 failed", "3 failed")
        ));
        assert_eq!(failed.counts.failed, 3);
    }
}

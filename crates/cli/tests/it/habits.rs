//! `hythe run` keeps more habits of `mpirun`: job control, terminals, long lines, options, limits.

use crate::support;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::{Ended, Root, Running, eventually, send};
use rustix::process::Signal;

/// The state of a process, as `ps` shows it; `X` if it is gone.
fn state(pid: u32) -> char {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat.rsplit_once(") ").map(|(_, rest)| rest.chars().next());
    state.flatten().unwrap_or('X')
}

/// What a shell wrote into that file with `echo $$`, once it has.
fn pid_in(file: &Path) -> u32 {
    let read = || std::fs::read_to_string(file).ok()?.trim().parse().ok();
    eventually("its number is written", || read().is_some());
    read().expect("written")
}

/// Sockets of runners that lie in the pools of this root.
fn sockets(below: &Path) -> Vec<PathBuf> {
    let entries = std::fs::read_dir(below).into_iter().flatten().flatten();
    let mut found = Vec::new();
    for path in entries.map(|entry| entry.path()) {
        let name = path.file_name().unwrap_or_default().to_string_lossy();
        if path.is_dir() {
            found.extend(sockets(&path));
        } else if name.starts_with("tasks.") && name != "tasks.last" {
            found.push(path);
        }
    }
    found
}

#[test]
fn aborting_task_loses_nothing_that_it_printed() {
    let root = Root::new();
    // Perl keeps what is printed as the C library does: until a line's end on a terminal only.
    let script = r#"print "seen\n"; kill "KILL", $$; sleep 600"#;
    let ended = root.run(&["run", "-n", "2", "--", "perl", "-e", script]);
    ended.failed_naming(137, &["SIGKILL"]);
    assert!(ended.text().contains("seen\n"), "{}", ended.text());
    let ended = root.run(&["run", "--no-pty", "--", "perl", "-e", script]);
    ended.failed_naming(137, &["SIGKILL"]);
    assert_eq!(ended.text(), "");
}

#[test]
fn terminal_of_a_task_changes_no_byte() {
    let root = Root::new();
    // All bytes, those among them that mean something to a terminal.
    let all: Vec<u8> = (0..=255).cycle().take(100_000).collect();
    let file = root.path().join("all");
    std::fs::write(&file, &all).expect("own");
    let file = file.display().to_string();
    let ended = root.run(&["run", "cat", &file]);
    ended.succeeded();
    assert!(ended.output == all);
    let script = "test -t 1 && echo out; test -t 2 || echo aside >&2; printf end";
    let ended = root.run(&["run", "sh", "-c", script]);
    ended.succeeded();
    assert_eq!(
        (ended.text().as_str(), ended.errors.contains("aside")),
        ("out\nend", true)
    );
    let ended = root.run(&["run", "--no-pty", "sh", "-c", script]);
    assert_eq!(ended.text(), "end");
}

#[test]
fn task_that_leaves_its_terminal_open_ends() {
    let root = Root::new();
    let ended = root.run(&["run", "sh", "-c", "setsid sleep 600 & echo done"]);
    ended.succeeded();
    assert_eq!(ended.text(), "done\n");
}

#[test]
fn ignored_signal_stays_ignored() {
    let root = Root::new();
    let place = root.path().display().to_string();
    let script = format!("echo $$ > {place}/pid; while [ ! -e {place}/go ]; do sleep 0.05; done");
    let mut command = Command::new("sh");
    command.args(["-c", "trap '' HUP; exec \"$@\"", "sh", support::HYTHE]);
    let command = root.command_by(command, &["run", "--", "sh", "-c", &script]);
    let job = Running::new(command);
    let task = pid_in(&root.path().join("pid"));
    job.signal(Signal::HUP);
    send(&task.into(), Signal::HUP);
    std::fs::write(root.path().join("go"), "").expect("own");
    job.end().succeeded();
}

#[test]
fn stopped_job_continues() {
    let root = Root::new();
    let place = root.path().display().to_string();
    // No shell that starts programs: between vfork and exec of one it is not shown as stopped.
    let script = format!("echo $$ > {place}/$HYTHE_RANK; exec sleep 600");
    let job = root.start(&["run", "-n", "2", "--", "sh", "-c", &script]);
    let pids = [0, 1].map(|rank: u32| pid_in(&root.path().join(rank.to_string())));
    let command = job.child.id();
    let all = |wanted: char| {
        let states = pids.iter().chain([&command]).map(|pid| state(*pid));
        states.map(|state| state == 'T').collect::<Vec<_>>() == vec![wanted == 'T'; 3]
    };
    for _ in 0..3 {
        job.signal(Signal::TSTP);
        eventually("tasks and command are stopped", || all('T'));
        job.signal(Signal::CONT);
        eventually("tasks and command run", || all('R'));
    }
    job.signal(Signal::TSTP);
    eventually("tasks and command are stopped", || all('T'));
    // As a shell ends a job that is stopped.
    job.signal(Signal::TERM);
    job.signal(Signal::CONT);
    job.end().failed_naming(143, &["SIGTERM"]);
}

#[test]
fn lines_of_a_megabyte_stay_whole() {
    let root = Root::new();
    let script = "for i in 1 2 3; do head -c 1000000 /dev/zero | tr '\\0' $HYTHE_RANK; echo; done";
    let ended = root.run(&["run", "-n", "4", "--", "sh", "-c", script]);
    ended.succeeded();
    let text = ended.text();
    assert_eq!(text.lines().count(), 12);
    for line in text.lines() {
        let first = &line[..1];
        assert!(line.len() == 1_000_000 && line.replace(first, "").is_empty());
    }
}

#[test]
fn options_of_mpirun_are_understood() {
    let root = Root::new();
    assert_eq!(root.ok(&["run", "-n2", "echo", "hi"]), "hi\nhi\n");
    assert_eq!(root.ok(&["run", "-np", "2", "echo", "-np"]), "-np\n-np\n");
    assert_eq!(
        root.ok(&["run", "-H", "localhost:2", "echo", "hi"]),
        "hi\nhi\n"
    );
    let folder = root.path().join("folder");
    std::fs::create_dir(&folder).expect("own");
    let folder = folder.display().to_string();
    assert_eq!(
        root.ok(&["run", "--wdir", &folder, "pwd"]),
        format!("{folder}\n")
    );
    root.run(&["run", "--wdir", "/no/such", "pwd"])
        .failed(1, &["/no/such", "directory"]);
    root.run(&["run", "--oversubscribe", "echo"])
        .failed(2, &["--oversubscribe"]);
}

#[test]
fn tasks_without_a_place_are_refused_before_the_first() {
    let root = Root::new();
    root.ok(&["pool", "create", "default", "--small"]);
    let place = root.path().display().to_string();
    let script = format!("echo > {place}/$HYTHE_RANK.ran");
    let run = ["run", "-n", "9", "--", "sh", "-c", &script];
    let enough = "--limit participants=10";
    root.run(&run)
        .failed(1, &["participants", "hythe pool remove default", enough]);
    assert!(!root.path().join("0.ran").exists());
    root.ok(&["pool", "remove", "default"]);
    root.ok(&["pool", "create", "default", "--limit", "participants=10"]);
    root.ok(&run);
    assert!(root.path().join("8.ran").exists());
}

/// `hythe run`, of at most so many open files.
fn run_with_files(root: &Root, files: u32, arguments: &[&str]) -> Ended {
    let mut shell = Command::new("sh");
    let script = format!("ulimit -n {files}; exec \"$@\"");
    shell.args(["-c", &script, "sh", support::HYTHE, "run"]);
    Running::new(root.command_by(shell, arguments)).end()
}

#[test]
fn tasks_without_open_files_are_refused_before_the_first() {
    let root = Root::new();
    root.ok(&[
        "pool",
        "create",
        "default",
        "--small",
        "--limit",
        "participants=64",
    ]);
    let place = root.path().display().to_string();
    let script = format!("echo > {place}/$HYTHE_RANK.ran");
    let tasks = |count| ["-n", count, "--", "sh", "-c", &script];
    run_with_files(&root, 64, &tasks("32"))
        .failed(1, &["32 more tasks", "open files", "64", "`ulimit -n 384`"]);
    // Files for all that comes before the tasks are missing, too.
    for files in [6, 8, 12, 16] {
        run_with_files(&root, files, &tasks("32")).failed(1, &["`ulimit -n"]);
    }
    assert!(!root.path().join("0.ran").exists());
    assert!(sockets(root.path()).is_empty());
    let few = run_with_files(&root, 64, &tasks("4"));
    assert_eq!(few.code, Some(0), "{}", few.errors);
    let enough = run_with_files(&root, 384, &tasks("32"));
    assert_eq!(enough.code, Some(0), "{}", enough.errors);
    assert!(root.path().join("31.ran").exists());
}

#[test]
fn tasks_without_processes_are_refused_before_the_first() {
    if !rustix::process::getuid().is_root() {
        eprintln!("SKIPPED (needs root): a user of few processes");
        return;
    }
    // Of nobody else.
    const USER: u32 = 64_321;
    let root = Root::new();
    let place = root.path().join("of user");
    std::fs::create_dir(&place).expect("own");
    std::os::unix::fs::chown(&place, Some(USER), Some(USER)).expect("root may");
    let binary = support::copy_hythe(root.path(), &["hythe-jobs"]);
    let script = format!("echo > '{}'/$HYTHE_RANK.ran", place.display());
    let run = |processes: u32| {
        let mut command = Command::new("setpriv");
        let user = [format!("--reuid={USER}"), format!("--regid={USER}")];
        let limited = format!("ulimit -u {processes}; exec \"$@\"");
        command
            .args(user)
            .args(["--clear-groups", "bash", "-c", &limited, "bash"]);
        command.arg(&binary);
        let mut command = root.command_by(command, &["run", "-n", "40", "--", "sh", "-c", &script]);
        command.env("HYTHE_ROOT", &place);
        Running::new(command).end()
    };
    run(40).failed(
        1,
        &["40 more tasks", "user 64321", "may have 40", "`ulimit -u`"],
    );
    assert!(!place.join("0.ran").exists());
    let enough = run(200);
    assert_eq!(enough.code, Some(0), "{}", enough.errors);
    assert!(place.join("39.ran").exists());
}

#[test]
fn socket_of_a_killed_runner_goes_with_the_next_listing() {
    let root = Root::new();
    let job = root.start(&["run", "sleep", "600"]);
    let tasks = || {
        root.json(&["tasks"])["tasks"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    eventually("it runs", || !tasks().is_empty());
    send(&tasks()[0]["runner_pid"], Signal::KILL);
    job.end().failed_naming(1, &["killed"]);
    assert_eq!(sockets(root.path()).len(), 1);
    assert!(tasks().is_empty());
    assert!(sockets(root.path()).is_empty());
}

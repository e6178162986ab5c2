//! `hythe run`, `hythe tasks` and `hythe kill`: the habits of `mpirun` on one host.

use crate::support;
use std::path::PathBuf;
use std::process::Command;

use crate::support::{Root, Running, eventually, send};
use hythe_testing::until_process_sleeps;
use rustix::process::Signal;
use serde_json::Value;

/// Runs until it is killed, each process of it writing its number into a file first.
fn holding(place: &str) -> String {
    format!(
        "echo $$ > {place}/$HYTHE_RANK.shell; setsid sh -c 'echo $$ > {place}/$HYTHE_RANK.away; \
         exec sleep 600' & sh -c 'echo $$ > {place}/$HYTHE_RANK.below; exec sleep 600'"
    )
}

struct Held {
    files: Vec<PathBuf>,
}

impl Held {
    fn of(root: &Root, ranks: u32) -> Self {
        let names = ["shell", "away", "below"];
        let of_rank = |rank| names.map(|name| root.path().join(format!("{rank}.{name}")));
        Self {
            files: (0..ranks).flat_map(of_rank).collect(),
        }
    }

    fn pids(&self) -> Vec<u32> {
        let read = |file: &PathBuf| std::fs::read_to_string(file).ok()?.trim().parse().ok();
        self.files.iter().filter_map(read).collect()
    }

    fn wait_until_running(&self) -> Vec<u32> {
        eventually("all processes run", || {
            self.pids().len() == self.files.len()
        });
        self.pids()
    }
}

/// A zombie that nobody has waited for yet does not run.
fn runs(pid: u32) -> bool {
    let stat = std::fs::read_to_string(format!("/proc/{pid}/stat")).unwrap_or_default();
    let state = stat
        .rsplit_once(") ")
        .and_then(|(_, rest)| rest.chars().next());
    state.is_some_and(|state| state != 'Z' && state != 'X')
}

fn wait_until_gone(pids: &[u32]) {
    eventually("nothing is left running", || {
        !pids.iter().any(|pid| runs(*pid))
    });
}

#[test]
fn tasks_know_their_ranks_and_lines_do_not_mix() {
    let root = Root::new();
    let script = "printf 'rank %s ' $HYTHE_RANK; printf 'of %s in %s\n' $HYTHE_SIZE $HYTHE_POOL; \
                  printf last";
    let output = root.ok(&["run", "-n", "4", "--label", "--", "sh", "-c", script]);
    let mut lines: Vec<&str> = output.lines().collect();
    lines.sort_unstable();
    let expected: Vec<String> = (0..4)
        .flat_map(|rank| {
            [
                format!("[{rank}] last"),
                format!("[{rank}] rank {rank} of 4 in default"),
            ]
        })
        .collect();
    assert_eq!(lines, expected);
}

#[test]
fn single_task_prints_byte_for_byte() {
    let root = Root::new();
    let ended = root.run(&["run", "head", "-c", "3000000", "/dev/zero"]);
    ended.succeeded();
    assert!(ended.output == vec![0; 3_000_000]);
}

#[test]
fn standard_input_goes_to_the_first_task_alone() {
    let root = Root::new();
    let ended = root.feed(&["run", "-n", "3", "--label", "cat"], b"one\ntwo\n");
    ended.succeeded();
    assert_eq!(ended.text(), "[0] one\n[0] two\n");
}

#[test]
fn first_failure_ends_the_others_and_is_the_exit_code() {
    let root = Root::new();
    let place = root.path().display().to_string();
    // One fails when all run; what the others left elsewhere ends, too.
    let script = format!(
        "[ $HYTHE_RANK = 1 ] && {{ while [ ! -e {place}/go ]; do sleep 0.05; done; exit 7; }}; {}",
        holding(&place)
    );
    let held = Held {
        files: Held::of(&root, 1).files,
    };
    let job = root.start(&["run", "-n", "2", "--", "sh", "-c", &script]);
    let pids = held.wait_until_running();
    std::fs::write(root.path().join("go"), "").expect("own");
    job.end().failed_naming(
        7,
        &["task 1.1 (rank 1) exited with 7", "the others were ended"],
    );
    wait_until_gone(&pids);
}

#[test]
fn job_that_keeps_going_ends_with_the_code_of_the_failure() {
    let root = Root::new();
    let script = "[ $HYTHE_RANK = 0 ] && exit 3; echo went on";
    let ended = root.run(&["run", "-n", "2", "--keep-going", "--", "sh", "-c", script]);
    ended.failed_naming(3, &["rank 0", "the others went on"]);
    assert_eq!(ended.text(), "went on\n");
}

#[test]
fn program_that_is_missing_is_named_with_its_host() {
    let root = Root::new();
    let host = rustix::system::uname()
        .nodename()
        .to_string_lossy()
        .into_owned();
    let missing = root.run(&["run", "-n", "2", "no-such-program"]);
    missing.failed(1, &[&host, "`no-such-program`", "PATH"]);
    let missing = root.run(&["run", "-n", "2", "/no/such/program"]);
    missing.failed(1, &[&host, "/no/such/program", "No such file"]);
    let document: Value = {
        let ended = root.run(&["run", "--json", "/no/such/program"]);
        serde_json::from_slice(&ended.output).expect("one document")
    };
    assert_eq!(document["exit_code"], 1);
    root.run(&["run", "-x", "NOT_SET_ANYWHERE", "true"])
        .failed(2, &["NOT_SET_ANYWHERE", "NAME=VALUE"]);
    assert_eq!(
        root.ok(&["run", "-x", "A=b=c", "sh", "-c", "echo $A"]),
        "b=c\n"
    );
}

#[test]
fn machines_get_one_document() {
    let root = Root::new();
    let script = "echo out; echo error >&2; [ $HYTHE_RANK = 0 ] || kill -9 $$";
    let arguments = [
        "run",
        "-n",
        "2",
        "--keep-going",
        "--json",
        "--",
        "sh",
        "-c",
        script,
    ];
    let ended = root.run(&arguments);
    let document: Value = serde_json::from_slice(&ended.output).expect("one document");
    assert_eq!(
        (&document["count"], &document["exit_code"]),
        (&2.into(), &137.into())
    );
    assert_eq!(document["output"].as_array().expect("a list").len(), 4);
    let tasks = document["tasks"].as_array().expect("a list");
    let killed = tasks.iter().find(|task| task["rank"] == 1).expect("listed");
    assert_eq!(killed["signal"], 9);
    assert!(tasks.iter().any(|task| task["code"] == 0));
}

#[test]
fn signals_reach_all_tasks() {
    let root = Root::new();
    let place = root.path().display().to_string();
    let script = format!(
        "trap 'echo > {place}/$HYTHE_RANK.usr1' USR1; trap 'echo ended; exit 0' TERM; \
         echo > {place}/$HYTHE_RANK.ready; while :; do sleep 0.05; done"
    );
    let job = root.start(&["run", "-n", "2", "--", "sh", "-c", &script]);
    let all = |end: &str| {
        let there = |rank| root.path().join(format!("{rank}.{end}")).exists();
        (0..2).all(there)
    };
    eventually("both are ready", || all("ready"));
    job.signal(Signal::USR1);
    eventually("both got the signal", || all("usr1"));
    job.signal(Signal::TERM);
    let ended = job.end();
    ended.succeeded();
    assert_eq!(ended.text(), "ended\nended\n");
}

#[test]
fn second_interrupt_kills_who_does_not_end() {
    let root = Root::new();
    let place = root.path().display().to_string();
    let script = format!("trap '' INT; echo > {place}/ready; while :; do sleep 0.05; done");
    // A shell that runs the tests in the background has the signal ignored.
    let mut command = Command::new("env");
    command.args(["--default-signal=INT", support::HYTHE]);
    let command = root.command_by(command, &["run", "--", "sh", "-c", &script]);
    let job = Running::new(command);
    eventually("it is ready", || root.path().join("ready").exists());
    job.interrupt();
    // The handler of the first wakes a thread; it sleeps again when it is handled.
    until_process_sleeps(job.pid());
    job.interrupt();
    // By the second, or, where both came as one, after the grace.
    job.end().failed_naming(137, &["SIGKILL"]);
}

#[test]
fn nothing_is_left_when_either_process_is_killed() {
    let root = Root::new();
    let place = root.path().display().to_string();
    for kills_runner in [false, true] {
        let job = root.start(&["run", "-n", "2", "--", "sh", "-c", &holding(&place)]);
        let held = Held::of(&root, 2);
        let pids = held.wait_until_running();
        let tasks = root.json(&["tasks"]);
        let runner = tasks["tasks"][0]["runner_pid"].clone();
        if kills_runner {
            send(&runner, Signal::KILL);
            job.end()
                .failed_naming(1, &["the runner of the job was killed"]);
        } else {
            job.signal(Signal::KILL);
            drop(job.end());
        }
        wait_until_gone(&pids);
        eventually("no task is listed", || {
            root.json(&["tasks"])["tasks"]
                .as_array()
                .is_some_and(Vec::is_empty)
        });
        for file in held.files {
            std::fs::remove_file(file).expect("own");
        }
    }
    assert!(!root.ok(&["run", "echo", "again"]).is_empty());
}

#[test]
fn tasks_are_listed_and_killed_by_number() {
    let root = Root::new();
    let place = root.path().display().to_string();
    let arguments = ["run", "-n", "2", "--keep-going", "--", "sh", "-c"];
    let job = root.start(&[&arguments[..], &[&holding(&place)]].concat());
    let held = Held::of(&root, 2);
    held.wait_until_running();
    let listed = root.json(&["tasks"]);
    let tasks = listed["tasks"].as_array().expect("a list");
    assert_eq!(tasks.len(), 2);
    let pid = std::fs::read_to_string(root.path().join("1.shell")).expect("own");
    assert_eq!(tasks[1]["pid"].to_string(), pid.trim());
    assert_eq!(tasks[1]["task"], "1.1");
    assert!(root.ok(&["tasks"]).contains("1.1"));

    let killed = root.json(&["kill", "1.1", "--signal", "KILL"]);
    assert_eq!(
        (&killed["task"], &killed["signal"]),
        (&"1.1".into(), &9.into())
    );
    eventually("it is no longer listed", || {
        root.json(&["tasks"])["tasks"]
            .as_array()
            .is_some_and(|tasks| tasks.len() == 1)
    });
    root.run(&["kill", "1.1"]).failed(1, &["no task 1.1"]);
    root.run(&["kill", "9.9"]).failed(1, &["no task 9.9"]);
    root.run(&["kill", "x"]).failed(2, &["JOB.INDEX"]);
    root.ok(&["kill", "1.0"]);
    job.end()
        .failed_naming(137, &["task 1.1 (rank 1) was killed by SIGKILL"]);
}

#[test]
fn reader_that_stands_still_keeps_nothing_running() {
    let root = Root::new();
    let mut command = root.command(&["run", "-n", "2", "--", "yes"]);
    let mut job = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("starts");
    let running = || {
        root.json(&["tasks"])["tasks"]
            .as_array()
            .cloned()
            .unwrap_or_default()
    };
    eventually("both run", || running().len() == 2);
    let pids: Vec<u32> = running()
        .iter()
        .filter_map(|task| u32::try_from(task["pid"].as_u64()?).ok())
        .collect();
    // Nobody reads what it prints, so it is held up by then, or soon.
    job.kill().expect("it lives");
    job.wait().expect("ended");
    wait_until_gone(&pids);
}

#[test]
fn reader_that_has_seen_enough_ends_the_job() {
    let root = Root::new();
    let mut command = root.command(&["run", "-n", "2", "--", "yes"]);
    let mut job = command
        .stdout(std::process::Stdio::piped())
        .spawn()
        .expect("starts");
    let output = job.stdout.take().expect("piped");
    let head = Command::new("head")
        .arg("-1")
        .stdin(output)
        .output()
        .expect("head");
    assert_eq!(head.stdout, b"y\n");
    assert!(job.wait().expect("ended").success());
}

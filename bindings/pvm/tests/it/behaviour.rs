//! What holds whatever tasks do: sending never waits, what is kept has a limit, ends are noticed,
//! and nobody waits for one that is gone.

use std::io::Read as _;
use std::os::unix::net::UnixStream;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output};
use std::time::{Duration, Instant};

use crate::support::{BOUND, Fixture, Pvm, finish, has_pvm, text};
use hythe_testing::{eventually, until_process_sleeps};

/// How often the server is found asleep.
const SLEEPS: usize = 20;

/// One program for all cases, which its first argument names; it spawns itself.
const SOURCE: &str = include_str!("../behaviour.c");

fn program() -> Option<(Fixture, PathBuf)> {
    let fixture = Fixture::new();
    if !has_pvm() {
        return None;
    }
    let program = fixture.compile(SOURCE, "behaviour");
    Some((fixture, program))
}

fn run(case: &str, variables: &[(&str, &str)]) -> Option<Output> {
    let (fixture, program) = program()?;
    let mut command = fixture.hythe();
    command.args(["run", "--pvm", "--"]).arg(program).arg(case);
    for (name, value) in variables {
        command.env(name, value);
    }
    Some(finish(command, b""))
}

fn check(case: &str, variables: &[(&str, &str)], wanted: &str) {
    let Some(output) = run(case, variables) else {
        return;
    };
    let said = text(&output.stdout);
    assert_eq!(said, wanted, "{case}\n{}", text(&output.stderr));
    assert!(output.status.success(), "{case}: {}", output.status);
}

#[test]
fn two_tasks_send_100_mb_to_each_other_before_either_receives() {
    check(
        "both",
        &[],
        "sent 0 received 100000000\nsent 0 received 100000000\n",
    );
}

#[test]
fn messages_kept_for_silent_receiver_are_bounded() {
    let limit = [("HYTHE_PVM_KEPT_BYTES", "4000000")];
    check("limit", &limit, "some sent, then -27\n");
}

#[test]
fn full_inbox_refuses_what_is_behind_it_and_loses_nothing() {
    let limit = [("HYTHE_PVM_PASSED_BY_BYTES", "100000")];
    let wanted = "behind a full inbox: -27\nunwanted 2000, wanted 5\n";
    check("unwanted", &limit, wanted);
}

#[test]
fn end_of_a_killed_task_is_noticed_once() {
    check("notice", &[], "notice of the child: 1\nno more: 0\n");
}

#[test]
fn barrier_ends_without_killed_member() {
    check("barrier", &[], "barrier -19\n");
}

#[test]
fn frozen_group_ends_wait_for_killed_member() {
    check("frozen", &[], "barrier 0 then -19\n");
}

#[test]
fn reduction_with_a_killed_member_ends() {
    check("reduce", &[], "reduce -31\n");
}

#[test]
fn mailbox_is_waited_for_and_its_entries_go_with_their_owner() {
    check("mailbox", &[], "waited for 5\ngone -32\nstays 6 owner 0\n");
}

#[test]
fn program_chooses_by_a_matching_function() {
    check("match", &[], "greatest tag 953\nnext tag 951\n");
}

#[test]
fn output_of_a_killed_task_is_caught_to_its_end() {
    check(
        "output",
        &[],
        "[TASK] BEGIN\n[TASK] before the end\n[TASK] EOF\n",
    );
}

#[test]
fn signal_handler_sends_while_its_program_waits() {
    check(
        "signal",
        &[],
        "in the handler: 0\nreceived 1\nthe value is 3\n",
    );
}

#[test]
fn signals_at_any_step_of_a_call_make_no_thread_wait_for_itself() {
    check("storm", &[], "refused in calls: 1, else: 0\n");
}

#[test]
fn signal_handler_uses_session_during_any_wait() {
    // Only what asks the machine itself is refused while a reply of that is waited for.
    check(
        "visited",
        &[],
        "recvf 0 refused 0\n\
         barrier 0 refused 0\n\
         asking meanwhile -14\n\
         freeze 2 refused 0\n\
         frozen barrier 0 refused 0\n\
         reduce 0 refused 0\n\
         mailbox 0 refused 0\n",
    );
}

#[test]
fn event_loop_sleeps_until_messages_of_tasks_come() {
    let round = |number: u32| format!("round {number}: came 1\nthen quiet 1\n");
    let wanted: String = (0..3).map(round).collect();
    check("events", &[], &(wanted + "its end: came 1\n"));
}

#[test]
fn process_that_a_task_forked_does_not_hide_its_end() {
    check("forked", &[], "barrier -19\nthe other runs: 1\n");
}

#[test]
fn task_without_descriptors_leaves_files_alone() {
    let refused = "to itself: 0\nto itself: -14\nto another: -14\na question: -14\n\
                   a message: -14\nin a forked process: 0\n";
    let untouched = "files untouched: 1\n";
    check("closed", &[], &format!("{refused}{untouched}"));
    check(
        "closed-left",
        &[],
        &format!("{refused}left: -14\n{untouched}"),
    );
}

#[test]
fn server_without_descriptors_refuses_and_goes_on() {
    let fixture = Fixture::new();
    let script = "touch started; exec sleep 1000";
    let serving = fixture.command(&["sh", "-c", script]).spawn();
    let serving = Ended(serving.expect("it starts"));
    let started = fixture.folder.path().join("started");
    eventually("it starts", || started.exists());
    let pid = runner_of(serving.0.id());
    // What it closes once its task runs is not below the limit.
    let mut next = free_descriptor(pid);
    limit_descriptors(pid, next);
    while free_descriptor(pid) < next {
        next = free_descriptor(pid);
        limit_descriptors(pid, next);
    }
    // The machine has no descriptor for it; the runner of its job may have what that then spares.
    let _taken = until_refused(&fixture.socket());
    let runner = fixture.socket().with_file_name("tasks.1");
    let _other = UnixStream::connect(runner).expect("it listens");
    // A server that spins on the refused connection never sleeps for several polls in a row.
    for _ in 0..SLEEPS {
        until_process_sleeps(pid);
    }
    limit_descriptors(pid, 1024);
    let output = fixture.run(&["hello.pvm"], b"");
    drop(serving);
    let said = text(&output.stdout);
    assert!(
        said.contains("hello, world"),
        "{said}\n{}",
        text(&output.stderr)
    );
}

/// Connects until a connection is closed: descriptors that the server had for a moment only may be
/// free again. Returns those that it took.
fn until_refused(socket: &Path) -> Vec<UnixStream> {
    let mut taken: Vec<UnixStream> = Vec::new();
    let start = Instant::now();
    while start.elapsed() < BOUND {
        let next = UnixStream::connect(socket).expect("it listens");
        next.set_read_timeout(Some(Duration::from_secs(1)))
            .expect("set");
        match (&next).read(&mut [0]) {
            Ok(0) => return taken,
            _ => taken.push(next),
        }
    }
    panic!("{} connections were taken", taken.len());
}

/// A program that ends with its test, however that ends.
struct Ended(Child);

impl Drop for Ended {
    fn drop(&mut self) {
        let _ = Command::new("kill").arg(self.0.id().to_string()).status();
        let _ = self.0.wait();
    }
}

/// The process that serves, which `hythe run` starts.
fn runner_of(pid: u32) -> u32 {
    let children = std::fs::read_to_string(format!("/proc/{pid}/task/{pid}/children"));
    let children = children.expect("it runs");
    children.trim().parse().expect("one process")
}

/// The number of the next one that a process gets.
fn free_descriptor(pid: u32) -> u32 {
    let is_open = |number: &u32| Path::new(&format!("/proc/{pid}/fd/{number}")).exists();
    (0..).find(|number| !is_open(number)).expect("a number")
}

fn limit_descriptors(pid: u32, limit: u32) {
    let mut command = Command::new("prlimit");
    command.args(["--pid", &pid.to_string(), &format!("--nofile={limit}:")]);
    assert!(command.status().expect("it runs").success());
}

#[test]
fn without_a_machine_the_first_call_says_so() {
    let Some((fixture, program)) = program() else {
        return;
    };
    let mut command = Command::new(program);
    command
        .arg("alone")
        .env_remove("HYTHE_TASK")
        .env_remove("HYTHE_POOL");
    command.env("LD_LIBRARY_PATH", fixture.folder.path().join("libraries"));
    let output = finish(command, b"");
    assert_eq!(text(&output.stdout), "-14\n");
    let said = text(&output.stderr);
    assert!(
        said.contains("pvm_mytid(): Can't contact local daemon"),
        "{said}"
    );
}

#[test]
fn calls_return_the_same_as_on_pvm() {
    let fixture = Fixture::new();
    if !has_pvm() {
        return;
    }
    let program = fixture.compile(include_str!("../calls.c"), "calls");
    let program = program.to_str().expect("a plain path");
    let place = tempfile::tempdir().expect("a folder");
    let theirs = Pvm::start(place.path()).run(&[program], b"");
    let ours = fixture.run(&[program], b"");
    let (ours_said, theirs_said) = (text(&ours.stdout), text(&theirs.stdout));
    for (ours, theirs) in ours_said.lines().zip(theirs_said.lines()) {
        assert_eq!(ours, theirs);
    }
    assert_eq!(ours_said.lines().count(), theirs_said.lines().count());
    assert!(theirs_said.lines().count() > 200);
    assert_eq!(ours.status.code(), theirs.status.code());
}

#[test]
fn all_kinds_of_data_come_as_they_were_sent() {
    let fixture = Fixture::new();
    if !has_pvm() {
        return;
    }
    // `make arm` runs it with one of the tasks emulated.
    let program = fixture.compile(include_str!("../formats.c"), "formats");
    let program = program.to_str().expect("a plain path");
    let output = fixture.run(&[program, program], b"");
    let said = text(&output.stdout);
    assert_eq!(said, "long of 8 and 8 bytes: 0 and 0 wrong\n");
    assert!(output.status.success(), "{}", output.status);
}

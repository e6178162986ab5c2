//! Programs for PVM on a machine of two and three hosts: those of Debian's packages as they are,
//! and one of this test, which is compiled against PVM's own header.

mod beside;
mod daemons;
mod hosts;

use std::fs::Permissions;
use std::os::unix::fs::PermissionsExt as _;
use std::path::Path;
use std::process::Output;

use hosts::Hosts;

use crate::network::agent::{eventually, send};
use rustix::process::Signal;

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn said(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout)
}

#[test]
fn tasks_are_spawned_where_they_are_wanted_and_meet() {
    let Some(hosts) = Hosts::new() else { return };
    let program = hosts.compile();
    for what in ["places", "ends", "hosts"] {
        let output = hosts.run(&["--hosts", "a,b", "--", &program, what], "");
        assert!(output.status.success(), "{what}: {output:#?}");
    }
}

#[test]
fn output_of_another_host_is_caught() {
    let Some(hosts) = Hosts::new() else { return };
    let program = hosts.compile();
    let output = hosts.run(&["--hosts", "a,b", "--", &program, "caught"], "");
    let said = said(&output);
    // Each line has the number of the task in front, which is one of host b.
    let caught = said.lines().find(|line| line.ends_with("child on 2"));
    assert!(caught.is_some_and(|line| line.starts_with("[t8")), "{said}");
    assert!(said.contains("EOF"), "{said}");
}

#[test]
fn host_that_is_lost_is_told_and_the_machine_goes_on() {
    let Some(hosts) = Hosts::new() else { return };
    let program = hosts.compile();
    let words = ["--hosts", "a,b", "--keep-going", "--", &program, "lose"];
    let (job, mut said, lines) = hosts.waiting(&words);
    hosts.b.signal(Signal::KILL);
    said.extend(lines);
    let output = job.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{said:?} {output:?}");
}

#[test]
fn tasks_on_three_hosts_reach_late_host_too() {
    let Some(hosts) = Hosts::new() else { return };
    let program = hosts.compile();
    let _c = hosts.third();
    // By PVM's own file: the first host need not be in it, the third is added later.
    let file = hosts.a.path("pvm-hosts");
    std::fs::write(&file, "* ep=/opt/bin sp=500\nb wd=/tmp\n& c\n").expect("written");
    let file = file.to_str().expect("text");
    let output = hosts.run(&["--hostfile", file, "--", &program, "three"], "");
    assert!(output.status.success(), "{output:#?}");
}

#[test]
fn message_to_task_of_other_job_arrives_or_is_refused() {
    let Some(hosts) = Hosts::new() else { return };
    let program = hosts.compile();
    let (job, mut said, lines) = hosts.waiting(&["--hosts", "a,b", "--", &program, "serve"]);
    for has_task in ["0", "1"] {
        let output = hosts.run(&["--", &program, "ask", has_task], "");
        assert!(output.status.success(), "{has_task}: {output:#?}");
    }
    said.extend(lines);
    let output = job.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{said:?} {output:?}");
}

#[test]
fn hostfile_says_where_a_host_has_programs_and_where_they_begin() {
    // The folder of a variable that only the agent of b has.
    let root = |folder: &Path| vec![("PVM_ROOT", folder.join("of-b"))];
    let Some(hosts) = Hosts::with(root) else {
        return;
    };
    let program = hosts.compile();
    let [programs, work] = ["of-b/bin", "of-b/work"].map(|name| hosts.a.path(name));
    for folder in [&programs, &work] {
        std::fs::create_dir_all(folder).expect("made");
    }
    let script = programs.join("only-on-b");
    std::fs::write(&script, "#!/bin/sh\necho begins in \"$(pwd)\"\n").expect("written");
    std::fs::set_permissions(&script, Permissions::from_mode(0o755)).expect("set");
    let file = hosts.a.path("pvm-hosts");
    let run = |line: &str, is_there: &str| {
        std::fs::write(&file, format!("* sp=500 {line}\nb\n")).expect("written");
        let file = file.to_str().expect("text");
        let words = ["--hostfile", file, "--", &program, "hostfile", is_there];
        let output = hosts.run(&words, "");
        assert!(output.status.success(), "{output:#?}");
        (text(&output.stdout), text(&output.stderr))
    };
    let (said, _) = run("ep=/nowhere:$PVM_ROOT/bin wd=$PVM_ROOT/work", "1");
    let begins = format!(
        "begins in {}",
        work.canonicalize().expect("there").display()
    );
    assert!(said.lines().any(|line| line.ends_with(&begins)), "{said}");
    let (_, refused) = run("ep=$PVM_ROOT/bin wd=$PVM_ROOT/gone", "0");
    let missing = "host b: there is no directory `$PVM_ROOT/gone`";
    assert!(refused.contains(missing), "{refused}");
    // What leads elsewhere no rule permits, and what one takes away is not started.
    let (_, refused) = run("ep=$PVM_ROOT/work/../bin", "0");
    assert!(refused.contains("of-b/work/../bin/only-on-b"), "{refused}");
    let closed = script.to_str().expect("text");
    hosts.b.said(&["allow", "a", closed, "none"]);
    let (_, refused) = run("ep=$PVM_ROOT/bin", "0");
    assert!(refused.contains(closed), "{refused}");
}

/// Does a process with this word among its arguments run?
fn runs(what: impl Fn(&str, &str) -> bool) -> bool {
    let processes = std::fs::read_dir("/proc").expect("it is there");
    processes.flatten().any(|process| {
        let line = std::fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
        // One that has ended has none.
        !line.is_empty() && what(&process.file_name().to_string_lossy(), &line)
    })
}

#[test]
fn first_host_without_its_agent_is_alone_and_nothing_is_left() {
    let Some(hosts) = Hosts::new() else { return };
    let program = hosts.compile();
    let c = hosts.third();
    let (job, mut said, lines) = hosts.waiting(&["--hosts", "a,b,c", "--", &program, "alone"]);
    let processes = said.iter().filter_map(|line| line.strip_prefix("process "));
    let processes: Vec<String> = processes.map(str::to_owned).collect();
    assert_eq!(processes.len(), 2, "{said:?}");
    hosts.a.signal(Signal::KILL);
    said.extend(lines);
    let output = job.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{said:?} {output:?}");
    eventually("tasks elsewhere have ended", || {
        !runs(|process, _| processes.iter().any(|one| one == process))
    });
    for host in [&hosts.a, &hosts.b, &c] {
        let pool = host.path("pools").join("default");
        let files = std::fs::read_dir(&pool).into_iter().flatten().flatten();
        let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        // The agent of host a was killed.
        let is_left = |name: &String| {
            ["pvm", "tasks.", "service."]
                .iter()
                .any(|what| name.starts_with(what))
                && !["pvm.lock", "tasks.agent"].contains(&name.as_str())
        };
        assert_eq!(
            names.filter(is_left).collect::<Vec<_>>(),
            [""; 0],
            "{pool:?}"
        );
    }
}

#[test]
fn host_that_goes_while_tasks_are_spawned_there_keeps_none() {
    let Some(hosts) = Hosts::new() else { return };
    let program = hosts.compile();
    let number = std::process::id().to_string();
    let (mut job, said, lines) =
        hosts.waiting(&["--hosts", "a,b", "--", &program, "race", &number]);
    assert_eq!(
        said.last().map(String::as_str),
        Some("0 failures"),
        "{said:?}"
    );
    let seconds = format!("600.{number}");
    eventually("what was spawned has ended", || {
        !runs(|_, line| line.starts_with("sleep") && line.contains(&seconds))
    });
    // The job ends with it, and all that is left of that.
    send(job.id(), Signal::TERM);
    lines.for_each(drop);
    job.wait().expect("it ends");
}

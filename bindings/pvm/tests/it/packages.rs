//! Other programs of Debian's packages for PVM, as they are: NetPIPE, and a solver of timetables
//! that spreads over tasks.

use std::path::Path;
use std::process::Command;

use crate::support::{Fixture, finish, has_pvm, text};
use hythe_testing::{eventually, eventually_some, until_process_sleeps};

/// A program of a package; false: it is not there, which is said.
fn has(program: &str, package: &str) -> bool {
    let is_there = Path::new("/usr/bin").join(program).exists();
    if !is_there {
        eprintln!("SKIPPED: apt-get install {package} installs {program}");
    }
    is_there
}

#[test]
fn netpipe_measures_between_two_jobs() {
    let fixture = Fixture::new();
    if !has_pvm() || !has("NPpvm", "netpipe-pvm") {
        return;
    }
    let first = fixture.command(&["NPpvm", "-u", "64"]);
    let first = std::thread::spawn(move || finish(first, b""));
    eventually("the machine is served", || fixture.is_served());
    let host = text(
        &Command::new("uname")
            .arg("-n")
            .output()
            .expect("a name")
            .stdout,
    );
    let words = ["NPpvm", "-h", host.trim(), "-u", "64"];
    // The first has to be there: it is looked for among the tasks. To ask for them needs a third,
    // which is too many; but once it has enrolled it waits for a message.
    until_process_sleeps(eventually_some("the first runs", || {
        process_called("NPpvm")
    }));
    let second = fixture.run(&words, b"");
    let first = first.join().expect("it ends");
    let said = text(&second.stdout) + &text(&second.stderr);
    assert!(said.contains("64 bytes"), "{said}");
    assert!(second.status.success() && first.status.success(), "{said}");
}

/// A process that executes a program of this name.
fn process_called(name: &str) -> Option<u32> {
    let processes = std::fs::read_dir("/proc").expect("procfs").flatten();
    let mut pids = processes.filter_map(|process| process.file_name().to_str()?.parse().ok());
    pids.find(|pid: &u32| {
        std::fs::read_to_string(format!("/proc/{pid}/comm")).is_ok_and(|comm| comm.trim() == name)
    })
}

/// Two teachers with three lessons each, and two rooms.
const LESSONS: &str = r#"<?xml version="1.0" encoding="iso-8859-1"?>
<ttm version="0.2.0">
<info><title>Two teachers</title></info>
<modules>
<module name="sametime" weight="60" mandatory="yes"><option name="resourcetype">teacher</option></module>
<module name="sametime" weight="60" mandatory="yes"><option name="resourcetype">class</option></module>
<module name="sametime" weight="60" mandatory="yes"><option name="resourcetype">room</option></module>
</modules>
<resources>
<constant>
<resourcetype type="teacher"><resource name="A"/><resource name="B"/></resourcetype>
<resourcetype type="class"><resource name="1"/><resource name="2"/></resourcetype>
</constant>
<variable>
<resourcetype type="time"><matrix width="5" height="4"/></resourcetype>
<resourcetype type="room"><resource name="x"/><resource name="y"/></resourcetype>
</variable>
</resources>
<events>
<event name="e1" repeats="3"><resource type="teacher" name="A"/><resource type="class" name="1"/></event>
<event name="e2" repeats="3"><resource type="teacher" name="B"/><resource type="class" name="2"/></event>
</events>
</ttm>
"#;

#[test]
fn timetable_is_solved_by_three_tasks() {
    let fixture = Fixture::new();
    if !has_pvm() || !has("tablix2", "tablix2") {
        return;
    }
    std::fs::write(fixture.folder.path().join("lessons.xml"), LESSONS).expect("written");
    let output = fixture.run(&["tablix2", "-n", "3", "lessons.xml"], b"");
    let said = text(&output.stdout) + &text(&output.stderr);
    assert!(output.status.success(), "{said}");
    let result = std::fs::read_to_string(fixture.folder.path().join("result0.xml"));
    let result = result.expect("a result");
    assert!(result.contains("<event name=\"e1\""), "{result}");
}

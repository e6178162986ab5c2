//! Other programs of Debian's packages for PVM, as they are: NetPIPE, and a solver of timetables
//! that spreads over tasks.

#[allow(dead_code, reason = "the other tests use the rest")]
mod support;

use std::path::Path;
use std::process::Command;
use std::time::{Duration, Instant};

use support::{BOUND, Fixture, finish, has_pvm, text};

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
    let start = Instant::now();
    while !fixture.is_served() {
        assert!(start.elapsed() < BOUND, "nobody serves the machine");
        std::thread::sleep(Duration::from_millis(20));
    }
    let host = text(
        &Command::new("uname")
            .arg("-n")
            .output()
            .expect("a name")
            .stdout,
    );
    let words = ["NPpvm", "-h", host.trim(), "-u", "64"];
    // The first has to be there: it is looked for among the tasks. Who asks for them is one itself,
    // and a third is too many.
    std::thread::sleep(Duration::from_secs(3));
    let second = fixture.run(&words, b"");
    let first = first.join().expect("it ends");
    let said = text(&second.stdout) + &text(&second.stderr);
    assert!(said.contains("64 bytes"), "{said}");
    assert!(second.status.success() && first.status.success(), "{said}");
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
fn a_timetable_is_solved_by_three_tasks() {
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

//! The same programs on two hosts with PVM 3.4.6 and with Hythe: what they print, but for the
//! numbers of tasks, times and the order of lines, and their exit codes.

use std::io::{BufRead as _, BufReader};
use std::path::Path;
use std::process::Command;

use rustix::process::Signal;

use super::daemons::{Daemons, end, processes_with};
use super::hosts::{Hosts, compile};
use crate::network::agent::{LONG, send};
use crate::printed::{Compare, assert_same};

const SHAPE: Compare = Compare::Shape;
const LINES: Compare = Compare::Lines;

#[test]
fn debians_programs_print_on_two_hosts_what_they_do_on_pvm() {
    let Some(hosts) = Hosts::new() else { return };
    let own = hosts.compile();
    let hello = hosts.run(&["--hosts", "a,b", "--", "hello.pvm"], "");
    let said = super::text(&hello.stdout);
    // The other one is spawned on the next host, whose number is in front of its own.
    assert!(
        said.contains("i'm t4") && said.contains("from t8"),
        "{said}"
    );
    for (words, input, compare_by) in [
        (&["hello.pvm"][..], "", LINES),
        (&["master1"], "", LINES),
        // Its slaves look for themselves one place behind the list of them.
        (&["fmaster1"], "", SHAPE),
        (&["hitc"], "", LINES),
        (&["gexample"], "50 3\n", LINES),
        (&["fgexample"], "50 3\n", LINES),
        (&["timing"], "", SHAPE),
        (&["gs.pvm", "3"], "", LINES),
        (&["ge", "3"], "", LINES),
        (&["gexamp", "4"], "", LINES),
        (&["thb", "3"], "", LINES),
        (&["joinleave", "300"], "", LINES),
        (&["trsg"], "4 10\n", LINES),
        (&["tjf"], "", LINES),
        (&["tjl"], "", LINES),
        (&["tst"], "", LINES),
        // One of its sums begins with what was there.
        (&["frsg"], "4\n5\n", SHAPE),
        (&["inherit1"], "", LINES),
        (&["inherita", "inherit1"], "", LINES),
        (&["inherita", "inherit3"], "", LINES),
        (&["inheritb"], "", LINES),
        (&[&own, "others", "4", "spmd"], "", LINES),
        (&[&own, "others", "4", "fspmd"], "", LINES),
        (&[&own, "others", "2", "dbwtest"], "", SHAPE),
        (&[&own, "others", "2", "ibwtest"], "", SHAPE),
        (&[&own, "others", "2", "pbwtest"], "", SHAPE),
        (&[&own, "others", "2", "rbwtest"], "", SHAPE),
    ] {
        compare(&hosts, &own, words, input, compare_by);
    }
}

#[test]
fn clocks_are_as_far_apart_as_on_pvm() {
    let ahead = |folder: &Path| {
        let library = folder.join("clock.so");
        compile("clock.c", &library, &["-shared", "-fPIC"]);
        vec![("LD_PRELOAD", library)]
    };
    let Some(hosts) = Hosts::with(ahead) else {
        return;
    };
    let own = hosts.compile();
    let said = compare(&hosts, &own, &[&own, "clocks"], "", LINES);
    // Its own is 20 minutes before that of b, and the other way round.
    for line in [
        "from 1 to 1: 0 minutes, 0",
        "from 1 to 2: -20 minutes, -20",
        "[TASK] from 2 to 1: 20 minutes, 20",
        "[TASK] from 2 to 2: 0 minutes, 0",
    ] {
        assert!(said.iter().any(|one| one == line), "{said:#?}");
    }
}

/// What a program prints in both systems.
fn compare(hosts: &Hosts, own: &str, words: &[&str], input: &str, compare: Compare) -> Vec<String> {
    // A machine for each, as each job has: what is in mailboxes and groups is not the next's.
    let pvm = Daemons::start(hosts, own);
    let theirs = pvm.run(words, input);
    let ours = hosts.run(&[&["--hosts", "a,b", "--"], words].concat(), input);
    let log = (|| pvm.log(), LONG);
    assert_same(words, [&theirs, &ours], log, compare)
}

const NODES: usize = 4;
/// What it says of a node that has ended.
const MISSED: &str = "has unexpectedly quit";
/// Of teachers, and of classes: each meets each in [`LESSONS`] lessons.
const TEACHERS: usize = 8;
const LESSONS: usize = 5;

/// So many lessons that solving takes minutes: all rooms are used in all hours.
fn timetable() -> String {
    let each = |text: &dyn Fn(usize) -> String| (0..TEACHERS).map(text).collect::<String>();
    let resources = |letter: char| each(&|n| format!("<resource name=\"{letter}{n}\"/>"));
    let event = |teacher: usize, class: usize| {
        format!(
            "<event name=\"e{teacher}-{class}\" repeats=\"{LESSONS}\">\
             <resource type=\"teacher\" name=\"T{teacher}\"/>\
             <resource type=\"class\" name=\"C{class}\"/></event>\n"
        )
    };
    let events = each(&|teacher| each(&|class| event(teacher, class)));
    format!(
        "<?xml version=\"1.0\" encoding=\"iso-8859-1\"?>\n<ttm version=\"0.2.0\">\
         <info><title>A full week</title></info><modules>\
         <module name=\"sametime\" weight=\"60\" mandatory=\"yes\"/>\
         <module name=\"timeplace\" weight=\"60\" mandatory=\"yes\"/></modules>\n\
         <resources><constant>\
         <resourcetype type=\"teacher\">{}</resourcetype>\
         <resourcetype type=\"class\">{}</resourcetype></constant>\n<variable>\
         <resourcetype type=\"time\"><matrix width=\"5\" height=\"{TEACHERS}\"/></resourcetype>\
         <resourcetype type=\"room\">{}</resourcetype></variable></resources>\n\
         <events>\n{events}</events></ttm>\n",
        resources('T'),
        resources('C'),
        resources('R'),
    )
}

/// What a solver of timetables says of its nodes on both hosts, of which some are ended in the
/// middle. What runs
/// on host a has `assignment` in its environment.
fn solve(
    mut command: Command,
    (folder, assignment): (&Path, &str),
    end_some: &dyn Fn(),
    ended: usize,
) -> Vec<String> {
    std::fs::create_dir(folder).expect("made");
    std::fs::write(folder.join("week.xml"), timetable()).expect("written");
    let mut job = command.current_dir(folder).spawn().expect("nsenter");
    let lines = BufReader::new(job.stdout.take().expect("piped")).lines();
    let mut lines = lines.map(|line| line.expect("text"));
    let mut said = Vec::new();
    let all = format!("{NODES}/{NODES} running");
    read_to(&mut lines, &mut said, |line| line.contains(&all));
    end_some();
    for _ in 0..ended {
        read_to(&mut lines, &mut said, |line| line.contains(MISSED));
    }
    // Those that are left get on.
    let left = format!("{}/{NODES} running", NODES - ended);
    read_to(&mut lines, &mut said, |line| line.contains(&left));
    let master = processes_with(assignment);
    let mut master = master.into_iter().filter(|one| is_called(*one, "tablix2"));
    send(master.next().expect("it runs"), Signal::KILL);
    said.extend(lines);
    job.wait().expect("it ends");
    let of_nodes = said.iter().filter(|line| line.starts_with("[tablix]"));
    let of_nodes = of_nodes.map(|one| crate::printed::line(one, LINES));
    crate::printed::sorted(of_nodes)
}

/// Reads up to the line that is looked for, and returns that one.
#[track_caller]
fn read_to(
    lines: &mut impl Iterator<Item = String>,
    said: &mut Vec<String>,
    is_it: impl Fn(&str) -> bool,
) -> String {
    for line in lines {
        said.push(line.clone());
        if is_it(&line) {
            return line;
        }
    }
    panic!("it ended: {said:#?}");
}

fn is_called(process: u32, name: &str) -> bool {
    let said = std::fs::read_to_string(format!("/proc/{process}/comm"));
    said.is_ok_and(|said| said.trim_end() == name)
}

/// Kernels of the solver on host b, which has this assignment in its environment.
fn far_kernels(assignment: &str) -> Vec<u32> {
    let there = processes_with(assignment).into_iter();
    // As much of the name as the system keeps.
    there
        .filter(|one| is_called(*one, "tablix2_kernel"))
        .collect()
}

const SOLVER: [&str; 3] = [
    "sh",
    "-c",
    // Both streams are one, so that nothing has to be read beside it.
    "exec stdbuf -oL tablix2 -n 4 -d 3 week.xml 2>&1",
];

/// Ends something on host b in both systems, and so many nodes with it.
fn compare_solvers(ended: usize, end_theirs: &dyn Fn(&Daemons<'_>), end_ours: &dyn Fn(&Hosts)) {
    if !Path::new("/usr/bin/tablix2").exists() {
        eprintln!("SKIPPED: apt-get install tablix2 installs what is compared");
        return;
    }
    let Some(hosts) = Hosts::new() else { return };
    let own = hosts.compile();
    let pvm = Daemons::start(&hosts, &own);
    let theirs = solve(
        pvm.command(&SOLVER),
        (&hosts.a.path("theirs"), &pvm.near_assignment()),
        &|| end_theirs(&pvm),
        ended,
    );
    drop(pvm);
    let ours = solve(
        // At a terminal it would draw its progress within one line.
        hosts.command(&[&["--no-pty", "--hosts", "a,b", "--"][..], &SOLVER].concat()),
        (
            &hosts.a.path("ours"),
            &format!("HYTHE_ROOT={}", hosts.a.path("pools").display()),
        ),
        &|| end_ours(&hosts),
        ended,
    );
    let is_missed = |said: &String| said.contains(MISSED);
    assert!(theirs.iter().any(is_missed), "{theirs:#?}");
    assert_eq!(ours, theirs);
}

#[test]
fn solver_goes_on_without_a_task_as_on_pvm() {
    compare_solvers(
        1,
        &|pvm| end(far_kernels(&pvm.far_assignment())[0]),
        &|hosts| end(far_kernels(&hosts.far_assignment())[0]),
    );
}

#[test]
fn solver_goes_on_without_a_host_as_on_pvm() {
    compare_solvers(
        NODES / 2,
        // Its daemons miss one that says nothing after minutes only: this one says that it goes.
        &|pvm| pvm.stop_far(),
        &|hosts| hosts.b.signal(Signal::KILL),
    );
}

//! Programs of Debian's package `pvm-examples`, as they are, on PVM 3.4.6 and on Hythe: what they
//! print, but for the numbers of tasks and the order of lines, and their exit codes.

use std::path::Path;
use std::process::{Command, ExitStatus, Output};

use crate::support::console::{Console, PROMPT};
use crate::support::printed::{Compare, assert_same, line, printed, sorted};
use crate::support::{BOUND, Fixture, Pvm, finish, has_pvm, text};
use hythe_testing::eventually;

/// A program with its arguments, and what it reads.
struct Case {
    words: &'static [&'static str],
    input: &'static str,
    compare: Compare,
}

const fn case(words: &'static [&'static str], input: &'static str) -> Case {
    Case {
        words,
        input,
        compare: Compare::Lines,
    }
}

/// The numbers of which are another's in each run: times, or what it reads of memory that it never
/// wrote.
const fn shape(words: &'static [&'static str], input: &'static str) -> Case {
    Case {
        words,
        input,
        compare: Compare::Shape,
    }
}

fn compare(cases: &[Case]) {
    let fixture = Fixture::new();
    if !has_pvm() {
        return;
    }
    let spawner = fixture.compile(SPAWNER, "spawner");
    let spawner = spawner.to_str().expect("a plain path").to_owned();
    for case in cases {
        // A machine for each, as each job has: what is in mailboxes and groups is not the next's.
        let place = tempfile::tempdir().expect("a folder");
        let pvm = Pvm::start(place.path());
        let words: Vec<&str> = case
            .words
            .iter()
            .map(|word| match *word {
                "SPAWN" => spawner.as_str(),
                word => word,
            })
            .collect();
        let theirs = pvm.run(&words, case.input.as_bytes());
        let ours = fixture.run(&words, case.input.as_bytes());
        let log = (|| pvm.log(), BOUND);
        assert_same(&words, [&theirs, &ours], log, case.compare);
    }
}

/// Spawns tasks and prints what they print.
const SPAWNER: &str = r#"
#include <stdio.h>
#include <stdlib.h>
#include <pvm3.h>
int main(int argc, char **argv)
{
    int tasks[64];
    pvm_catchout(stdout);
    printf("%d\n", pvm_spawn(argv[2], argv + 3, PvmTaskDefault, "", atoi(argv[1]), tasks));
    fflush(stdout);
    return pvm_exit();
}
"#;

#[test]
fn masters_and_their_workers_print_the_same() {
    compare(&[
        case(&["hello.pvm"], ""),
        case(&["master1"], ""),
        // Its slaves look for themselves one place behind the list of them.
        shape(&["fmaster1"], ""),
        case(&["hitc"], ""),
        case(&["gexample"], "50 3\n"),
        case(&["fgexample"], "50 3\n"),
        shape(&["timing"], ""),
    ]);
}

#[test]
fn groups_print_the_same() {
    compare(&[
        case(&["gs.pvm", "3"], ""),
        case(&["ge", "3"], ""),
        case(&["gexamp", "4"], ""),
        case(&["thb", "3"], ""),
        case(&["joinleave", "300"], ""),
        case(&["trsg"], "4 10\n"),
        case(&["tjf"], ""),
        case(&["tjl"], ""),
        case(&["tst"], ""),
        // One of its sums begins with what was there.
        shape(&["frsg"], "4\n5\n"),
    ]);
}

#[test]
fn sums_of_unwritten_memory_are_not_compared() {
    let is_right = "/ Test OK: Sum of Squares of first           20  integers is         2870\n";
    let is_wrong = "/ ERROR: The Sum of Squares of the first           20\n \
        integers / was calculated by Sum1 as        68213  and by Sum2 as         2870\n \
        for both it should have been         2870\n";
    let [right, wrong] = [is_right, is_wrong].map(|sums| {
        let output = Output {
            status: ExitStatus::default(),
            stdout: format!("{sums}  Test Ok: Received (   5.0 ,   2.0 )\n").into_bytes(),
            stderr: Vec::new(),
        };
        printed(&output, Compare::Shape)
    });
    assert_eq!(right, wrong);
    assert_eq!(right.len(), 1, "{right:?}");
}

#[test]
fn contexts_and_mailboxes_print_the_same() {
    compare(&[
        case(&["gmbi", "*"], ""),
        case(&["lmbi", "3", "d", "e"], ""),
        case(&["rme", "name", "1"], ""),
        case(&["inherit1"], ""),
        case(&["inherita", "inherit1"], ""),
        case(&["inherita", "inherit3"], ""),
        case(&["inheritb"], ""),
    ]);
}

#[test]
fn tasks_of_output_catcher_print_the_same() {
    compare(&[
        case(&["SPAWN", "4", "spmd"], ""),
        case(&["SPAWN", "4", "fspmd"], ""),
        case(&["SPAWN", "1", "no-such-program"], ""),
        shape(&["SPAWN", "2", "dbwtest"], ""),
        shape(&["SPAWN", "2", "ibwtest"], ""),
        shape(&["SPAWN", "2", "pbwtest"], ""),
        shape(&["SPAWN", "2", "rbwtest"], ""),
    ]);
}

/// Debian's sources, as the packages' archives have them, and the names of its own programs.
const FORTRAN: [(&str, &str); 7] = [
    ("examples/master1.f", "fmaster1"),
    ("examples/slave1.f", "fslave1"),
    ("examples/spmd.f", "fspmd"),
    ("examples/hitc.f", "hitc"),
    ("examples/hitc_slave.f", "hitc_slave"),
    ("examples/gexample.f", "fgexample"),
    ("gexamples/frsg.f", "frsg"),
];

#[test]
fn fortran_is_linked_to_our_library_and_prints_the_same() {
    let archive = Path::new("/usr/lib/x86_64-linux-gnu/libfpvm3.a");
    if !has_pvm() || !archive.exists() || Command::new("gfortran").output().is_err() {
        eprintln!("SKIPPED: apt-get install gfortran pvm-dev pvm-examples installs what is linked");
        return;
    }
    let fixture = Fixture::new();
    let folder = fixture.folder.path();
    let run = |command: &mut Command| {
        let output = command.current_dir(folder).output().expect("it runs");
        assert!(output.status.success(), "{}", text(&output.stderr));
    };
    for name in ["examples", "gexamples"] {
        let archive = format!("/usr/share/doc/pvm-examples/{name}.tar.gz");
        run(Command::new("tar").args(["xzf", &archive]));
    }
    for (source, name) in FORTRAN {
        let mut compiler = Command::new("gfortran");
        compiler.args(["-std=legacy", "-w", "-I/usr/include", "-o", name, source]);
        // All of PVM's glue, so that each of its functions finds ours.
        compiler.args(["-Wl,--whole-archive", "-lfpvm3", "-Wl,--no-whole-archive"]);
        compiler.args(["libraries/libgpvm3.so.3", "libraries/libpvm3.so.3"]);
        run(&mut compiler);
    }
    for Case {
        words,
        input,
        compare,
    } in [
        shape(&["fmaster1"], ""),
        case(&["-n", "4", "fspmd"], ""),
        case(&["hitc"], ""),
        case(&["fgexample"], "50 3\n"),
        shape(&["frsg"], "4\n5\n"),
    ] {
        let (name, before) = words.split_last().expect("a program");
        let run = |program: &str, path: &Path| {
            let mut command = fixture.hythe();
            command
                .args(["run", "--pvm"])
                .args(before)
                .args(["--", program]);
            command.env("PVM_PATH", path);
            finish(command, input.as_bytes())
        };
        let own = folder.join(name);
        let ours = run(own.to_str().expect("a plain path"), folder);
        let theirs = run(name, Path::new("/usr/bin"));
        let wanted = printed(&theirs, compare);
        assert!(!wanted.is_empty(), "{name}");
        assert_eq!(printed(&ours, compare), wanted, "{name}");
        assert_eq!(ours.status.code(), theirs.status.code(), "{name}");
    }
}

/// A program that serves, until the last of those tells it to end that run one after the other
/// while it does. What all of them print, and how they end.
fn meet(
    command: impl Fn(&[&str]) -> Command,
    is_served: impl Fn() -> bool,
    server: &[&str],
    name: &str,
    clients: &[Case],
) -> (Vec<String>, Vec<Option<i32>>) {
    let serving = command(server);
    let serving = std::thread::spawn(move || finish(serving, b""));
    // Of several jobs the first serves the machine, until it ends.
    eventually(&format!("{name} is served"), is_served);
    eventually(
        &format!("the mailbox of {name} shows that it is ready"),
        || {
            let listed = finish(command(&["gmbi", name]), b"");
            text(&listed.stdout).contains("1 mbox entries")
        },
    );
    let clients = clients
        .iter()
        .map(|client| finish(command(client.words), client.input.as_bytes()));
    let mut outputs: Vec<Output> = clients.collect();
    outputs.push(serving.join().expect("the server ends"));
    // How PVM keeps handlers is shown by one of them.
    let is_inside = |line: &String| {
        ["handles[", "isplaymhfinfo", "Display Message Handler"]
            .iter()
            .any(|inside| line.contains(inside))
    };
    let all = outputs
        .iter()
        .flat_map(|output| printed(output, Compare::Lines));
    let mut lines: Vec<String> = all.filter(|line| !is_inside(line)).collect();
    lines.sort();
    let codes = outputs.iter().map(|output| output.status.code()).collect();
    (lines, codes)
}

fn compare_meetings(server: &[&str], name: &str, clients: &[Case]) {
    let fixture = Fixture::new();
    if !has_pvm() {
        return;
    }
    let place = tempfile::tempdir().expect("a folder");
    let pvm = Pvm::start(place.path());
    let theirs = meet(|words| pvm.command(words), || true, server, name, clients);
    let is_served = || fixture.is_served();
    let ours = meet(
        |words| fixture.command(words),
        is_served,
        server,
        name,
        clients,
    );
    assert!(ours.0.len() > 10, "{ours:#?}");
    assert_eq!(ours, theirs);
}

#[test]
fn programs_that_find_each_other_by_a_mailbox_print_the_same() {
    compare_meetings(
        &["task0", "service", "d"],
        "service",
        &[
            case(&["task1", "service", "0", "d"], ""),
            case(&["task1", "service", "0", "f"], ""),
            case(&["task1", "other", "0", "d"], ""),
            case(&["rme", "service", "0"], ""),
            case(&["task_end", "service", "0"], ""),
        ],
    );
}

/// Adds a handler for strings, sends it one, looks, and ends the server, whose context is the
/// machine's first.
const TICKLE: &str = "0\n1\n5\n262145\n1\n4\n5\n262145\n1\nhello there\n0\n9\n";

#[test]
fn handlers_that_another_program_adds_print_the_same() {
    compare_meetings(
        &["mhf_server"],
        "mhf_server",
        &[case(&["mhf_tickle"], TICKLE)],
    );
}

/// Says that it runs, with an entry in a mailbox, and waits for a signal.
const WAITER: &str = r#"
#include <stdio.h>
#include <unistd.h>
#include <pvm3.h>
int main(void)
{
    pvm_mytid();
    pvm_initsend(PvmDataDefault);
    pvm_putinfo("waiter", pvm_getsbuf(), PvmMboxMultiInstance);
    printf("waits\n");
    fflush(stdout);
    for (;;)
        pause();
}
"#;

/// A session with each word of the console that says the same on both.
fn talk(command: Command, waiter: &str, host: &str) -> (Vec<String>, Option<i32>) {
    let mut console = Console::start(command);
    for (line, answer) in [
        ("version", "3.4.6"),
        ("conf", "LINUX"),
        ("id", "\nt4"),
        ("mstat nohost", "No such host"),
        ("mstat", "wrong #args"),
        ("setopt", "wrong #args"),
        ("setopt nothing 1", "Unknown"),
        ("delete nohost", "No such host"),
        (format!("mstat {host}").as_str(), " ok"),
        (format!("delete {host}").as_str(), "Bad parameter"),
    ] {
        console.ask(line, answer);
    }
    let killed = console.spawn(1, 2, waiter);
    console.ask("ps", &format!("{}     6/c,f", &killed[1][1..]));
    console.ask("names waiter", "index=1");
    console.ask("jobs", " 1:");
    console.ask(&format!("kill {}", killed[0]), "] EOF");
    console.ask(&format!("sig 15 {}", killed[1]), "[1] finished");
    console.spawn(2, 1, waiter);
    console.ask("reset", "[2] finished");
    console.ask("ps", "COMMAND");
    console.ask("spawn -4 -> spmd", "[3] finished");
    console.say("quit");
    let said = std::mem::take(&mut console.said);
    let (printed, code) = console.end();
    // Output comes behind a prompt, or a prompt behind output; what is said is not always repeated.
    let lines = printed.lines().map(|line| line.trim_start_matches(PROMPT));
    let lines = lines.filter(|line| !said.iter().any(|one| one == line));
    // What PVM's own daemon makes the console say.
    let lines = lines.filter(|line| !line.contains("exit handler"));
    // A host's name stands in a column, and PVM's is another's.
    let unnamed = |text: &str| {
        let words = text.split_whitespace();
        let words = words.map(|word| if word == host { "HOST" } else { word });
        words.collect::<Vec<_>>().join(" ")
    };
    let lines = lines.map(|one| line(&unnamed(one), Compare::Lines));
    (sorted(lines), code)
}

#[test]
fn console_says_the_same() {
    if !has_pvm() {
        return;
    }
    let fixture = Fixture::new();
    let waiter = fixture.compile(WAITER, "waiter");
    let waiter = waiter.to_str().expect("a plain path");
    let place = tempfile::tempdir().expect("a folder");
    let pvm = Pvm::start(place.path());
    let host = text(
        &finish(
            {
                let mut command = Command::new("uname");
                command.arg("-n");
                command
            },
            b"",
        )
        .stdout,
    );
    // Else what it prints comes at its end.
    let words = ["stdbuf", "-o0", "pvm"];
    let ours = talk(fixture.command(&words), waiter, host.trim());
    let theirs = talk(pvm.command(&words), waiter, Pvm::HOST);
    assert!(ours.0.len() > 30, "{ours:#?}");
    assert_eq!(ours.0, theirs.0);
    assert_eq!(ours.1, theirs.1);
    // What PVM says of its own host depends on the host's name; `halt` ends the console, too.
    drop(pvm);
    let mut console = Console::start(fixture.command(&words));
    console.ask(&format!("add {}", host.trim()), "Duplicate host");
    console.spawn(1, 1, waiter);
    console.say("halt");
    assert_eq!(console.end().1, Some(143), "as killed by SIGTERM");
    assert!(!fixture.is_served());
}

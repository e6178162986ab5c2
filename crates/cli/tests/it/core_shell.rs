//! `hythe core shell`: sessions from an argument, a pipe and a terminal, refused, interrupted and
//! killed; what they leave behind is nothing.

use std::io::Write as _;
use std::process::Stdio;

use crate::support::terminal::Terminal;
use crate::support::{Ended, Root, Running, eventually, send};
use rustix::process::Signal;
use serde_json::Value;

const HOSTED: &str = "hosted";
const SESSION: &str = "open; run; test 1000 4096; shutdown; stop; quit";
const ENDLESS: &str = "test 1000000000 64";

fn shell(root: &Root, board: &str, commands: &str) -> Ended {
    root.run(&["core", "shell", board, "-c", commands])
}

/// The one document of a session, whether its last step failed or not.
fn document(root: &Root, commands: &str) -> (Option<i32>, Value) {
    let ended = root.run(&["core", "shell", HOSTED, "-c", commands, "--json"]);
    let read = serde_json::from_slice(&ended.output);
    let document = read.unwrap_or_else(|error| panic!("{error} in {}", ended.text()));
    (ended.code, document)
}

/// A session that goes on until its input ends.
fn piped(root: &Root, commands: &str) -> (Running, std::process::ChildStdin) {
    let mut command = root.command(&["core", "shell", HOSTED]);
    command.stdin(Stdio::piped());
    let mut running = Running::new(command);
    let mut input = running.child.stdin.take().expect("piped");
    input.write_all(commands.as_bytes()).expect("it reads");
    (running, input)
}

fn core_pid(root: &Root) -> Option<Value> {
    let ended = root.run(&["core", "status", "--json"]);
    let status: Value = serde_json::from_slice(&ended.output).unwrap_or_default();
    let core = status["cores"].get(0)?;
    (core["up"] == true).then(|| core["core_pid"].clone())
}

fn lives(pid: &Value) -> bool {
    std::path::Path::new(&format!("/proc/{pid}")).exists()
}

fn whole_session(board: &str) {
    let root = Root::new();
    let document = root.json(&["core", "shell", board, "-c", SESSION]);
    let steps = document["steps"].as_array().expect("a list");
    let commands: Vec<&str> = steps
        .iter()
        .map(|step| step["command"].as_str().expect("a command"))
        .collect();
    assert_eq!(commands, SESSION.split("; ").collect::<Vec<_>>());
    assert!(steps.iter().all(|step| step["ok"] == true), "{document}");
    assert_eq!(document["board"], board);
    let run = &steps[1]["result"];
    assert_eq!(
        (&run["started"], &run["program"]),
        (&true.into(), &"decoder".into()),
        "{run}"
    );
    assert_eq!(run["emulated"], board != HOSTED);
    let tested = &steps[2]["result"];
    assert_eq!(
        (&tested["messages"], &tested["size_bytes"], &tested["wait"]),
        (&1000.into(), &4096.into(), &"bell".into())
    );
    // Each was forwarded, and none was copied.
    assert_eq!(tested["in_place"], 1000, "{tested}");
    let number = |name: &str| tested[name].as_f64().expect("a number");
    assert!(number("messages_per_second") > 0.0 && number("p50_ns") > 0.0);
    assert!(number("p50_ns") <= number("p99_ns") && number("p99_ns") <= number("max_ns"));
    assert_eq!(steps[3]["result"]["held_by_core"], 0);
    assert!(!lives(&run["core_pid"]), "its core lives on");
    assert!(root.traces().is_empty(), "{:?}", root.traces());
}

#[test]
fn session_tests_a_core_and_leaves_nothing() {
    whole_session(HOSTED);
}

#[test]
#[ignore = "slow: make test-slow runs it"]
fn session_tests_every_emulated_core() {
    let root = Root::new();
    let listed = root.json(&["core", "boards"]);
    let boards = listed["boards"].as_array().expect("a list");
    let emulated = |board: &&Value| {
        let apps = board["apps"].as_array().cloned().unwrap_or_default();
        board["emulated"] == true && apps.contains(&"decoder".into())
    };
    let boards: Vec<&Value> = boards.iter().filter(emulated).collect();
    assert!(!boards.is_empty(), "`make setup` builds them");
    for board in boards {
        let name = board["name"].as_str().expect("a name");
        if board["runnable"] == true {
            whole_session(name);
        } else {
            eprintln!("SKIPPED: board {name} lacks {}", board["missing"]);
        }
    }
}

#[test]
fn pipe_brings_commands_until_it_ends() {
    let root = Root::new();
    let commands = b"open\n\n run decoder ; test 10 1\ntest 10 1M poll\nstate\nhelp";
    let ended = root.feed(&["core", "shell", HOSTED], commands);
    ended.succeeded();
    let text = ended.text();
    for word in [
        "board hosted can run decoder",
        "10 messages of 1 bytes came back unchanged",
        "10 messages of 1048576 bytes came back unchanged",
        "by poll",
        "fill ring",
        "given back",
        "hythe core shell (pid",
        "test N SIZE [poll|bell]",
    ] {
        assert!(text.contains(word), "no `{word}` in {text}");
    }
    assert!(root.traces().is_empty(), "{:?}", root.traces());
}

#[test]
fn registers_follow_what_is_sent() {
    let root = Root::new();
    let (code, document) = document(
        &root,
        "open; run; state; test 5 100; state; shutdown; state",
    );
    assert_eq!(code, Some(0), "{document}");
    let port = |step: usize, channel: &str| {
        let core = &document["steps"][step]["result"];
        let endpoints = core["endpoints"].as_array().expect("a list");
        let endpoint = endpoints.iter().find(|end| end["channel"] == channel);
        endpoint.expect("there")["ports"][0].clone()
    };
    for (step, sent) in [(2, 0), (4, 5)] {
        let (ping, pong) = (port(step, "ping"), port(step, "pong"));
        assert_eq!(ping["to_core"]["tail"], sent, "{ping}");
        assert_eq!(pong["from_core"]["tail"], sent, "{pong}");
        assert!(ping["session"] != 0 && ping["session"] == ping["echo"]);
    }
    assert_eq!(port(6, "ping")["session"], 0, "its port is gone");
    let link = &document["steps"][6]["result"]["link"];
    assert_eq!(link["echo"], link["linux_session"]);
}

#[test]
fn what_is_wrong_use_names_what_is_possible_and_ends_the_list() {
    let root = Root::new();
    shell(&root, HOSTED, "test 1 1; open").failed(2, &["while closed", "open, help, quit"]);
    shell(&root, HOSTED, "launch").failed(2, &["no command `launch`", "open, help, quit"]);
    let wrong = [
        (
            "open; shutdown",
            "while opened; possible now: run, stop, help, quit",
        ),
        ("open; run; open", "while running"),
        ("open; run; shutdown; test 1 1", "while shut"),
        ("open; run; test 1", "test N SIZE [poll|bell]"),
        ("open; run; test 1 2M", "more than `ping` takes: 1048576"),
    ];
    for (commands, word) in wrong {
        shell(&root, HOSTED, commands).failed_naming(2, &[word]);
    }
    let (code, document) = document(&root, "open; run; tset; stop");
    assert_eq!(code, Some(2));
    assert_eq!(
        (&document["ok"], &document["steps"][3]),
        (&false.into(), &Value::Null)
    );
    let failed = &document["steps"][2];
    assert_eq!(
        (&failed["command"], &failed["ok"]),
        (&"tset".into(), &false.into())
    );
    let error = failed["error"].as_str().expect("a text");
    assert!(
        error.contains("no command `tset`; possible now (running)"),
        "{error}"
    );
    let long = vec![b'x'; 10_000];
    root.feed(&["core", "shell", HOSTED], &long)
        .failed(1, &["a line is longer than 4096 bytes"]);
    root.run(&["core", "shell"]).failed(2, &["BOARD"]);
    assert!(root.traces().is_empty(), "{:?}", root.traces());
}

#[test]
fn step_that_fails_ends_the_list() {
    let root = Root::new();
    shell(&root, "no-such-board", "open; run").failed(1, &["no board `no-such-board`", HOSTED]);
    shell(&root, HOSTED, "open; run nothing; stop").failed_naming(1, &["cannot run here"]);
    // Nobody has started one.
    shell(&root, HOSTED, "open; stop").failed_naming(1, &["does not run in this pool"]);
    assert!(root.traces().is_empty(), "{:?}", root.traces());
}

#[test]
fn core_that_ran_before_runs_on_unless_it_is_stopped() {
    let root = Root::new();
    let up = root.json(&["core", "run", HOSTED, "--detach"]);
    let (code, looked) = document(&root, "open; run; test 10 64");
    assert_eq!(code, Some(0), "{looked}");
    assert_eq!(looked["steps"][0]["result"]["program"], "decoder");
    let run = &looked["steps"][1]["result"];
    assert_eq!(
        (&run["started"], &run["core_pid"]),
        (&false.into(), &up["core_pid"])
    );
    shell(&root, HOSTED, "open; run bench")
        .failed_naming(1, &["runs decoder", "`stop; open; run bench` replaces it"]);
    assert_eq!(core_pid(&root), Some(up["core_pid"].clone()));

    let (code, replaced) = document(&root, "open; stop; open; run bench; run");
    assert_eq!(code, Some(2), "{replaced}");
    assert_eq!(replaced["steps"][3]["result"]["program"], "bench");
    assert!(!lives(&up["core_pid"]));
    assert_eq!(core_pid(&root), None, "what it started is gone");
    let shown = root.json(&["pool", "show"]);
    assert_eq!(
        shown["slots"]["free"], shown["slots"]["total"],
        "the pool stays"
    );
}

#[test]
fn core_that_is_started_anew_is_waited_for() {
    let root = Root::new();
    root.ok(&["core", "run", HOSTED, "--detach", "--restart"]);
    for _ in 0..3 {
        let mut core = None;
        eventually("it is up", || {
            core = core_pid(&root);
            core.is_some()
        });
        send(core.as_ref().expect("up"), Signal::KILL);
        // On a busy machine it lives on for a moment, and could die during the test.
        eventually("it is dead", || core_pid(&root) != core);
        shell(&root, HOSTED, "open; run; test 10 64").succeeded();
    }
    // Its agent is there, and does nothing.
    let status = root.json(&["core", "status"]);
    let core = &status["cores"][0];
    send(&core["agent_pid"], Signal::STOP);
    send(&core["core_pid"], Signal::KILL);
    root.run(&[
        "core",
        "shell",
        HOSTED,
        "-c",
        "open; run",
        "--start-timeout",
        "0.3",
    ])
    .failed_naming(1, &["agent-hosted", "is not up after 0.3 s"]);
    send(&core["agent_pid"], Signal::KILL);
}

#[test]
fn core_with_a_name_of_its_own_is_tested_by_it() {
    let root = Root::new();
    root.ok(&["core", "run", HOSTED, "--as", "left", "--detach"]);
    let ended = shell(&root, "left", "open; run; test 10 64; stop");
    ended.succeeded();
    assert!(ended.text().contains("left/ping"), "{}", ended.text());
    assert!(root.ok(&["core", "status"]).contains("no core runs"));
}

#[test]
fn what_comes_of_somebody_else_is_no_echo() {
    let root = Root::new();
    root.ok(&["core", "run", HOSTED, "--detach"]);
    let other = root.start(&["pub", "ping", "/dev/zero", "--size", "1", "--rate", "20"]);
    eventually("it publishes", || {
        root.ok(&["core", "status"]).contains("hythe pub (pid")
    });
    shell(&root, HOSTED, "open; run; test 10 64")
        .failed_naming(1, &["`ping` is used by hythe pub (pid"]);
    drop(other);
    // Beside the core, in front of the echo.
    for (size, what) in [
        // The first byte that was not 0 when it was sent.
        ("64", ["came back changed: byte", "is 0x00, not 0x"]),
        ("63", ["with 63 bytes, not 64", "may use this echo"]),
    ] {
        let other = root.start(&["pub", "pong", "/dev/zero", "--size", size, "--rate", "2000"]);
        eventually("it publishes", || root.ok(&["list"]).contains("hythe pub"));
        shell(&root, HOSTED, "open; run; test 100000 64").failed_naming(1, &what);
        drop(other);
        eventually("it is gone", || !root.ok(&["list"]).contains("hythe pub"));
    }
    shell(&root, HOSTED, "open; run; test 10 64; stop").succeeded();
}

#[test]
fn core_that_dies_ends_a_test() {
    let root = Root::new();
    for signal in [Signal::KILL, Signal::STOP] {
        let (running, input) = piped(&root, "open; run;\n");
        let mut core = None;
        eventually("it is up", || {
            core = core_pid(&root);
            core.is_some()
        });
        let mut input = input;
        writeln!(input, "{ENDLESS}").expect("it reads");
        let core = core.expect("up");
        // Whether before the first message or behind it: it ends.
        send(&core, signal);
        let ended = running.end();
        assert_eq!(ended.code, Some(1), "{}", ended.errors);
        assert!(!lives(&core));
        assert!(root.traces().is_empty(), "{:?}", root.traces());
    }
}

#[test]
fn interrupt_leaves_nothing() {
    let root = Root::new();
    for (commands, signal, code) in [
        // While it waits for a command, or in the middle of one.
        ("open; run\n", Signal::INT, 0),
        ("open; run\n", Signal::TERM, 0),
        ("open; run; test 1000000000 64\n", Signal::INT, 1),
        ("open; run; test 1000000000 64 poll\n", Signal::TERM, 1),
    ] {
        let (running, input) = piped(&root, commands);
        let mut core = None;
        eventually("it is up, and our ports with it", || {
            core = core_pid(&root);
            let ended = root.run(&["core", "status", "--json"]);
            let status: Value = serde_json::from_slice(&ended.output).unwrap_or_default();
            let ping = &status["cores"][0]["endpoints"][2];
            let sent = ping["ports"][0]["to_core"]["tail"].as_u64();
            core.is_some()
                && ping["attached"][0].is_string()
                && (code == 0 || sent.is_some_and(|sent| sent > 0))
        });
        running.signal(signal);
        let ended = running.end();
        assert_eq!(ended.code, Some(code), "{commands}: {}", ended.errors);
        if code == 1 {
            assert!(ended.errors.contains("interrupted"), "{}", ended.errors);
        }
        drop(input);
        assert!(!lives(&core.expect("up")));
        assert!(root.traces().is_empty(), "{:?}", root.traces());
    }
}

#[test]
fn killed_session_takes_its_core_along() {
    let root = Root::new();
    let (running, _input) = piped(&root, "open; run\n");
    let mut core = None;
    eventually("it is up", || {
        core = core_pid(&root);
        core.is_some()
    });
    running.signal(Signal::KILL);
    assert_eq!(running.end().code, None);
    let core = core.expect("up");
    eventually("the core dies with it", || !lives(&core));
    shell(&root, HOSTED, SESSION).succeeded();
}

/// While a command runs, the terminal is plain: what is typed then, it edits itself, or drops.
fn reads_keys(terminal: &Terminal) {
    eventually("it reads keys again", || !terminal.is_plain());
}

#[test]
fn terminal_edits_lines_and_remembers_them() {
    let root = Root::new();
    let mut terminal = Terminal::new();
    let running = terminal.start(&root, &["core", "shell", HOSTED]);
    eventually("it asks", || terminal.shows("closed> "));
    assert!(!terminal.is_plain());
    // A mistake, which a person may correct: one word back, and what is wrong is said.
    terminal.types("opne\r");
    running.wait_until_said("there is no command `opne`; possible now (closed): open");
    reads_keys(&terminal);
    // The line of before, its last two letters taken away.
    terminal.types("\x1b[A\x7f\x7fen; run\r");
    eventually("it runs", || terminal.shows("running> "));
    terminal.types("test 10 64\r");
    eventually("it has tested", || {
        terminal.shows("10 messages of 64 bytes")
    });
    reads_keys(&terminal);
    // A letter in front of the last two.
    terminal.types("\x1b[A\x1b[D\x1b[Dx\r");
    running.wait_until_said("`x64`: a size is a whole number");
    reads_keys(&terminal);
    terminal.types("shutdown\r");
    eventually("it is shut", || terminal.shows("shut> "));
    terminal.types("\x04");
    let ended = running.end();
    assert_eq!(ended.code, Some(1), "{}", ended.errors);
    assert!(
        ended.errors.ends_with("2 commands failed\n"),
        "{}",
        ended.errors
    );
    assert!(terminal.is_plain() && root.traces().is_empty());
}

#[test]
fn keys_and_signals_that_end_it_give_the_terminal_back() {
    let root = Root::new();
    for end in ["\x03", "\x04", "quit\r", "TERM", "INT"] {
        let mut terminal = Terminal::new();
        let running = terminal.start(&root, &["core", "shell", HOSTED]);
        eventually("it asks", || terminal.shows("closed> "));
        terminal.types("open; run\r");
        eventually("it runs", || {
            terminal.shows("running> ") && !terminal.is_plain()
        });
        match end {
            "TERM" => running.signal(Signal::TERM),
            "INT" => running.signal(Signal::INT),
            keys => terminal.types(keys),
        }
        let ended = running.end();
        assert_eq!(ended.code, Some(0), "{end:?}: {}", ended.errors);
        assert!(terminal.is_plain(), "{end:?}");
        assert!(root.traces().is_empty(), "{end:?}: {:?}", root.traces());
    }
}

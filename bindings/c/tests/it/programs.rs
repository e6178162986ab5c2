//! C programs against the installed library: compiled strictly by two compilers, linked both ways,
//! run, and their output read.

use std::os::unix::process::ExitStatusExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::stage::{COMPILERS, Linking, Stage, hythe_command, is_installed, repository, run, text};
use hythe_testing::eventually;

const EVENTS: &str = "1 told\ndoor\nwindow\nnothing\n";
const REPLIES: &str = "\"hello\": HELLO\n\"\": no answer\n\"good bye\": GOOD BYE\n";

const BATCHES: &str = "\
8 delivered, 0 dropped
8 delivered, 0 dropped
0 delivered, 8 dropped
0a 1b 2c 3d 4e 5f 6g 7h - 8 taken
8i 9j 10k 11l 12m 13n 14o 15p - 8 taken
- 0 taken
";

const READY: &str = "message of 5 bytes\nevents 0x11\nbyte x\n1 detached\n";

/// Results of the core's library, and the replies.
const ASKED: &str = "\
0 \"that\"
0 \"same\"
-10 \"\"
the core behind the channel cannot take this
-10 \"\"
";

fn messages(count: u32) -> String {
    (0..count).map(|n| format!("message {n}\n")).collect()
}

fn started(command: &mut Command) -> Child {
    command
        .stdout(Stdio::piped())
        .stderr(Stdio::piped())
        .spawn()
        .expect("a program")
}

fn ended(child: Child) -> Output {
    let output = child.wait_with_output().expect("its end");
    let said = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{}: {said}", output.status);
    output
}

#[test]
#[ignore = "slow: make test-slow runs it"]
fn every_example_with_every_compiler_and_both_libraries() {
    let stage = Stage::install();
    for compiler in COMPILERS {
        for linking in [Linking::Shared, Linking::Static] {
            let build = |name| stage.example(compiler, linking, name);
            let events = run(stage.command(&build("events")).arg("events"));
            assert_eq!(text(&events), EVENTS, "{compiler} {linking:?}");
            let replies = run(stage.command(&build("request_reply")).arg("requests"));
            assert_eq!(text(&replies), REPLIES, "{compiler} {linking:?}");
            let ready = run(stage.command(&build("wait_set")).arg("ready"));
            assert_eq!(text(&ready), READY, "{compiler} {linking:?}");
            let batches = run(stage.command(&build("batches")).arg("batches"));
            assert_eq!(text(&batches), BATCHES, "{compiler} {linking:?}");
            let both = build("publish_subscribe");
            let role = |role| {
                let mut command = stage.command(&both);
                command.args([role, "messages", "greetings", "100"]);
                command
            };
            let subscriber = started(&mut role("subscribe"));
            run(&mut role("publish"));
            assert_eq!(text(&ended(subscriber)), messages(100));
        }
    }
}

#[test]
fn c_program_takes_what_the_command_publishes() {
    let Some(hythe) = hythe_command() else { return };
    let stage = Stage::install();
    let program = stage.example("gcc", Linking::Shared, "publish_subscribe");
    run(stage
        .command(&hythe)
        .args(["pool", "create", "mixed", "--size", "16M"]));
    let mut subscribe = stage.command(&program);
    let subscriber = started(subscribe.args(["subscribe", "mixed", "greetings", "3"]));
    eventually("the subscriber is there", || {
        let list = run(stage
            .command(&hythe)
            .args(["--pool", "mixed", "list", "--json"]));
        text(&list).contains("greetings")
    });
    let mut publish = stage.command(&hythe);
    publish.args(["--pool", "mixed", "pub", "greetings", "--lines"]);
    let mut publisher = started(publish.stdin(Stdio::piped()));
    let mut lines = publisher.stdin.take().expect("its input");
    std::io::Write::write_all(&mut lines, messages(3).as_bytes()).expect("it reads");
    drop(lines);
    ended(publisher);
    assert_eq!(text(&ended(subscriber)), messages(3));
}

#[test]
fn c_program_serves_a_core() {
    let Some(hythe) = hythe_command() else { return };
    let stage = Stage::install();
    let mut boards = stage.command(&hythe);
    let boards = text(&run(boards.args(["core", "boards", "--json"])));
    if !boards.contains("hosted") {
        return eprintln!("SKIPPED: board hosted is not built; cargo xtask boards builds it");
    }
    let source = repository().join("bindings/c/tests/core_asks.c");
    let program = stage.compile("gcc", Linking::Shared, &source);
    let hythe = |arguments: &[&str]| {
        let mut command = stage.command(&hythe);
        run(command.args(["--pool", "asked"]).args(arguments));
    };
    hythe(&["pool", "create", "asked", "--size", "16M"]);
    hythe(&["core", "run", "hosted", "--detach"]);
    let said = stage.command(&program).arg("asked").output();
    hythe(&["core", "stop", "hosted"]);
    let said = said.expect("it runs");
    assert!(said.status.success(), "{said:?}");
    assert_eq!(text(&said), ASKED);
}

#[test]
fn refusals_are_codes_with_messages() {
    let stage = Stage::install();
    let source = repository().join("bindings/c/tests/refusals.c");
    let program = stage.compile("gcc", Linking::Shared, &source);
    let said = run(&mut stage.command(&program));
    assert_eq!(text(&said), "all refused\n");
}

/// A method that throws, or jumps, is one that has not answered; and what a static destructor calls
/// says why it fails.
#[test]
fn methods_that_do_not_return_end_their_calls() {
    if !is_installed("g++") {
        return;
    }
    let stage = Stage::install();
    let program = stage.prefix().join("leaving");
    let mut compile = Command::new("g++");
    compile.args(["-std=c++17", "-Wall", "-Wextra", "-Werror"]);
    compile.args(["-Wold-style-cast", "-pedantic", "-g", "-pthread"]);
    compile.arg(repository().join("bindings/c/tests/leaving.cpp"));
    compile.arg("-o").arg(&program);
    run(compile.args(stage.flags(&["--cflags", "--libs"])));
    for way in ["exception", "longjmp"] {
        let said = run(stage.command(&program).arg(way));
        let wanted = "40 ended, 1 answered\nat exit: the place for the node is NULL\n";
        assert_eq!(text(&said), wanted, "{way}");
    }
    let said = run(stage.command(&program).arg("thread"));
    let wanted = "2 notified\nat exit: the place for the node is NULL\n";
    assert_eq!(text(&said), wanted);
    let ended = stage.command(&program).arg("uncaught").output();
    let ended = ended.expect("it runs");
    assert_eq!(ended.status.signal(), Some(libc::SIGABRT), "{ended:?}");
    let said = String::from_utf8_lossy(&ended.stderr);
    assert!(said.contains("no such message"), "{said}");
}

/// With the library's handler for SIGBUS, with the program's own, and with one that was there
/// before.
#[test]
fn pool_that_is_cut_away_is_a_code() {
    let stage = Stage::install();
    let source = repository().join("bindings/c/tests/lost.c");
    let program = stage.compile("gcc", Linking::Shared, &source);
    for handler in ["library", "program", "passed"] {
        let said = run(stage.command(&program).arg(handler));
        assert_eq!(text(&said), "told\n", "{handler}");
    }
}

#[test]
fn program_that_closes_all_descriptors_keeps_its_buffers() {
    let stage = Stage::install();
    let source = repository().join("bindings/c/tests/closed.c");
    let program = stage.compile("gcc", Linking::Shared, &source);
    let said = run(&mut stage.command(&program));
    assert_eq!(text(&said), "told\n");
}

#[test]
fn task_without_descriptors_leaves_files_alone() {
    let Some(hythe) = hythe_command() else { return };
    let stage = Stage::install();
    let source = repository().join("bindings/c/tests/closed_task.c");
    let program = stage.compile("gcc", Linking::Shared, &source);
    for way in ["close", "leave", "exit"] {
        let mut job = stage.command(&hythe);
        let said = run(job.args(["run", "-n", "2", "--"]).arg(&program).arg(way));
        assert_eq!(text(&said), "told\n", "{way}");
        std::fs::remove_file(stage.root().join("done")).expect("its file");
    }
}

#[test]
fn signal_handler_ends_waits() {
    let stage = Stage::install();
    let source = repository().join("bindings/c/tests/interrupts.c");
    let program = stage.compile("gcc", Linking::Shared, &source);
    let said = run(&mut stage.command(&program));
    assert_eq!(text(&said), "ended\n");
}

/// Valgrind's machine has no vDSO. The library once looked for it all the same, and crashed at its
/// first look at the clock.
#[test]
fn valgrind_runs_programs_and_finds_nothing_wrong() {
    if !is_installed("valgrind") {
        return;
    }
    let stage = Stage::install();
    for (name, linking, wanted) in [
        ("events", Linking::Shared, EVENTS),
        ("request_reply", Linking::Static, REPLIES),
    ] {
        let program = stage.example("gcc", linking, name);
        let mut watched = stage.command(Path::new("valgrind"));
        watched.args(["--quiet", "--error-exitcode=9", "--leak-check=full"]);
        let said = run(watched.arg(&program).arg("watched"));
        assert_eq!(text(&said), wanted, "{name} {linking:?}");
    }
}

#[test]
fn address_sanitizer_finds_nothing_wrong_and_nothing_lost() {
    let stage = Stage::install();
    let checked = ["-fsanitize=address", "-fno-omit-frame-pointer"];
    let replies = repository().join("examples/c/request_reply.c");
    let program = stage.compile_with("gcc", Linking::Shared, &replies, &checked);
    assert_eq!(text(&run(stage.command(&program).arg("watched"))), REPLIES);
    let refusals = repository().join("bindings/c/tests/refusals.c");
    let program = stage.compile_with("gcc", Linking::Shared, &refusals, &checked);
    assert_eq!(text(&run(&mut stage.command(&program))), "all refused\n");
}

/// The library's atomic operations are not compiled for the sanitizer: without the suppressions it
/// reports each copy of a message that another thread wrote.
#[test]
fn suppressions_of_guide_satisfy_thread_sanitizer() {
    let stage = Stage::install();
    let guide = std::fs::read_to_string(repository().join("docs/guide/c.md")).expect("there");
    let is_suppression =
        |line: &&str| line.starts_with("called_from_lib:") || line.starts_with("race:");
    let lines: Vec<&str> = guide.lines().filter(is_suppression).collect();
    assert_eq!(lines.len(), 2, "{lines:?}");
    let file = stage.prefix().join("hythe.supp");
    std::fs::write(&file, lines.join("\n")).expect("own");
    let replies = repository().join("examples/c/request_reply.c");
    for compiler in COMPILERS {
        let program =
            stage.compile_with(compiler, Linking::Shared, &replies, &["-fsanitize=thread"]);
        // Older sanitizers refuse the addresses that newer kernels choose at random.
        let mut watched = stage.command(Path::new("setarch"));
        watched.env("TSAN_OPTIONS", format!("suppressions={}", file.display()));
        let output = run(watched.arg("-R").arg(&program).arg("watched"));
        assert_eq!(text(&output), REPLIES, "{compiler}");
    }
}

#[test]
fn cmake_finds_the_package() {
    if !is_installed("cmake") {
        return;
    }
    let stage = Stage::install();
    let build = stage.prefix().join("build");
    let examples = repository().join("examples/c");
    let mut configure = Command::new("cmake");
    configure
        .arg("-S")
        .arg(repository().join("bindings/c/tests/cmake"));
    configure.arg("-B").arg(&build);
    configure.arg(format!("-DCMAKE_PREFIX_PATH={}", stage.prefix().display()));
    run(configure.arg(format!("-DEXAMPLES={}", examples.display())));
    run(Command::new("cmake").arg("--build").arg(&build));
    for (program, wanted) in [
        ("events", EVENTS),
        ("events_static", EVENTS),
        ("request_reply", REPLIES),
    ] {
        let output = run(stage.command(&build.join(program)).arg("cmake"));
        assert_eq!(text(&output), wanted);
    }
}

#[test]
fn header_is_also_for_cpp() {
    let stage = Stage::install();
    let source = stage.prefix().join("header.cpp");
    let program = "#include <hythe.h>\nint main() { return hythe_version() == nullptr; }\n";
    std::fs::write(&source, program).expect("a file");
    for compiler in ["g++", "clang++"] {
        let mut compile = Command::new(compiler);
        compile.args(["-std=c++11", "-Wall", "-Wextra", "-Werror", "-pedantic"]);
        compile
            .arg("-o")
            .arg(stage.prefix().join("header"))
            .arg(&source);
        run(compile.args(stage.flags(&["--cflags", "--libs"])));
        run(&mut stage.command(&stage.prefix().join("header")));
    }
}

#[test]
fn nothing_but_the_interface_is_visible() {
    let stage = Stage::install();
    let library: PathBuf = stage.prefix().join("lib/libhythe.so");
    let symbols = run(Command::new("nm")
        .args(["-D", "--defined-only"])
        .arg(&library));
    let symbols = text(&symbols);
    let names: Vec<&str> = symbols
        .lines()
        .filter_map(|line| line.split(' ').next_back())
        .collect();
    assert!(names.contains(&"hythe_pool_open"));
    let others: Vec<&&str> = names
        .iter()
        .filter(|name| !name.starts_with("hythe_"))
        .collect();
    assert!(others.is_empty(), "{others:?}");
    let dynamic = run(Command::new("readelf").arg("-d").arg(&library));
    assert!(
        text(&dynamic).contains("[libhythe.so.0.1]"),
        "{}",
        text(&dynamic)
    );
}

#[test]
fn manual_names_every_function() {
    let folder = repository().join("bindings/c");
    let read = |name| std::fs::read_to_string(folder.join(name)).expect("readable");
    let (header, manual) = (read("include/hythe.h"), read("man/hythe.3"));
    let declarations = header
        .lines()
        .filter(|line| !line.starts_with([' ', '/', '#']));
    let names =
        declarations.filter_map(|line| line.split_once('(')?.0.split([' ', '*']).next_back());
    let (mut count, mut missing) = (0, Vec::new());
    for name in names.filter(|name| name.starts_with("hythe_")) {
        count += 1;
        if !manual.lines().any(|line| line == format!(".Fn {name}")) {
            missing.push(name);
        }
    }
    assert!(count > 60, "only {count} functions found");
    assert!(missing.is_empty(), "man/hythe.3 lacks {missing:?}");
    if !is_installed("groff") {
        return;
    }
    let page = folder.join("man/hythe.3");
    let checked = run(Command::new("groff")
        .args(["-mandoc", "-ww", "-z", "-Tutf8"])
        .arg(page));
    assert_eq!(String::from_utf8_lossy(&checked.stderr), "");
}

const OBJECTS: &str = "\
posted by a handler: 0
interrupted: -1 1
timed out: -1 1
child: 0, value 1
-1: Connection timed out
-1: Owner died
empty: 0
sent: 0
waits: 1
received: 6 hello
again: -1 1
closed: 0 0 -1
";

#[test]
fn semaphores_and_message_queues_from_c() {
    assert_eq!(said_with_a_pool("objects.c"), OBJECTS);
}

#[test]
fn child_forked_amid_calls_of_other_threads_makes_its_own() {
    let said = said_with_a_pool("forks.c");
    assert_eq!(said, "children: 60 of 60\nfailures: 0\n");
}

#[test]
fn tasks_in_c_send_spawn_and_meet() {
    let Some(hythe) = hythe_command() else { return };
    let stage = Stage::install();
    let source = repository().join("bindings/c/tests/tasks.c");
    for linking in [Linking::Shared, Linking::Static] {
        let program = stage.compile("gcc", linking, &source);
        let mut job = stage.command(&hythe);
        let said = text(&run(job.args(["run", "-n", "3", "--"]).arg(&program)));
        let mut lines: Vec<&str> = said.lines().collect();
        lines.sort_unstable();
        let expected = ["task 0 is done", "task 1 is done", "task 2 is done"];
        assert_eq!(lines, expected, "{linking:?}");
        let mut alone = stage.command(&program);
        let said = run(alone.arg("alone").env_remove("HYTHE_TASK"));
        assert_eq!(text(&said), "alone\n");
    }
}

#[test]
fn example_of_tasks_adds_up() {
    let Some(hythe) = hythe_command() else { return };
    let stage = Stage::install();
    let source = repository().join("examples/c/tasks.c");
    let program = stage.compile("gcc", Linking::Shared, &source);
    let said = run(stage.command(&hythe).args(["run", "-n", "4"]).arg(&program));
    let expected = "the squares add up to 14\nthe shares are 1 together\n";
    assert_eq!(text(&said), expected);
}

/// What a program of this folder says, beside a pool.
fn said_with_a_pool(source: &str) -> String {
    let stage = Stage::install();
    let source = repository().join("bindings/c/tests").join(source);
    let program = stage.compile("gcc", Linking::Shared, &source);
    let options = hythe::PoolOptions::new("default")
        .root(&stage.root())
        .bytes(16 << 20);
    hythe::Pool::open_or_create(&options).expect("a pool");
    text(&run(&mut stage.command(&program)))
}

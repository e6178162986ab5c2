//! The example of `examples/rpc`: messages of one `.proto` file between a C program and a core of
//! the board `hosted`, encoded and decoded by nanopb with the same C on both sides.

use std::path::{Path, PathBuf};
use std::process::Command;

use crate::stage::{Linking, Stage, hythe_command, repository, run, text};

const SUMMARIES: &str = "\
core: window 32: 32 samples, -210 to 100, sum -1760
core: window 1: 1 samples, 100 to 100, sum 100
core: failed with 2
linux: window 7: 3 samples, -1000000 to 5, sum -999995
";

/// Where the packages of Debian put the generator and the library.
const GENERATOR: &str = "/usr/bin/nanopb_generator.py";
const HEADER: &str = "/usr/include/pb_decode.h";
const LIBRARY: &str = "-lprotobuf-nanopb";

/// The example's folder.
fn example() -> PathBuf {
    repository().join("examples/rpc")
}

/// Makes `telemetry.pb.c` and `.h` there.
fn generate(folder: &Path) {
    let mut generate = Command::new(GENERATOR);
    generate.current_dir(example());
    generate.arg("--output-dir").arg(folder);
    run(generate.arg("telemetry.proto"));
}

/// Links the program `p1` of the board with the example's methods in the place of its own, into a
/// folder of boards there.
fn build_core(board: &Path, folder: &Path) {
    let words = |file: &str| {
        let command = std::fs::read_to_string(board.join(file)).expect("how it was made");
        let words = command.split_whitespace().map(str::to_owned);
        words.collect::<Vec<String>>()
    };
    // Behind them the flags stand once more, as a text for programs that measure.
    let flags = words("objects/p1/p1-main.o.command");
    let flags = flags
        .iter()
        .take_while(|word| !word.starts_with("-DBOARD_"));
    let sizes = flags.filter(|word| word.starts_with("-DHYTHE_"));
    let rtos = repository().join("rtos");
    let mut object = Vec::new();
    for source in [
        example().join("core.c"),
        example().join("summary.c"),
        folder.join("telemetry.pb.c"),
    ] {
        let name = source.with_extension("o");
        let made = folder.join(name.file_name().expect("a name"));
        let mut compile = Command::new("gcc");
        compile.args(["-std=gnu99", "-O2", "-g", "-pthread", "-flto"]);
        compile.args(["-Wall", "-Wextra", "-Werror"]);
        compile.args(sizes.clone());
        for include in ["include", "port", "apps/p1"] {
            compile.arg("-I").arg(rtos.join(include));
        }
        compile.arg("-I").arg(folder).arg("-I").arg(example());
        run(compile.arg("-c").arg(source).arg("-o").arg(&made));
        object.push(made);
    }
    let boards = folder.join("boards/hosted");
    std::fs::create_dir_all(&boards).expect("a folder");
    std::fs::copy(board.join("board.toml"), boards.join("board.toml")).expect("a board");
    let words = words("p1.elf.command");
    let (program, arguments) = words.split_first().expect("a compiler");
    let mut link = Command::new(program);
    let mut names_image = false;
    for word in arguments {
        if std::mem::replace(&mut names_image, word == "-o") {
            link.arg(boards.join("p1.elf"));
        } else if word.ends_with("/p1-methods.o") {
            link.args(&object);
        } else {
            link.arg(word);
        }
    }
    run(link.arg(LIBRARY));
}

#[test]
fn program_and_a_core_exchange_messages_of_one_proto_file() {
    let Some(hythe) = hythe_command() else { return };
    if !Path::new(GENERATOR).is_file() || !Path::new(HEADER).is_file() {
        eprintln!(
            "SKIPPED: nanopb and libnanopb-dev are not installed; scripts/setup.sh installs them"
        );
        return;
    }
    let board = hythe.with_file_name("../boards/hosted");
    if !board.join("p1.elf").is_file() {
        eprintln!("SKIPPED: board hosted is not built; cargo xtask boards builds it");
        return;
    }
    let stage = Stage::install();
    let folder = tempfile::tempdir().expect("a folder");
    generate(folder.path());
    build_core(&board, folder.path());
    let generated = folder.path().join("telemetry.pb.c");
    let (include, common) = (folder.path().join("."), example().join("summary.c"));
    let flags = [
        "-I",
        include.to_str().expect("text"),
        generated.to_str().expect("text"),
        common.to_str().expect("text"),
        LIBRARY,
    ];
    let source = example().join("linux.c");
    let program = stage.compile_with("gcc", Linking::Shared, &source, &flags);

    let core = |arguments: &[&str]| {
        let mut command = stage.command(&hythe);
        command.env("HYTHE_BOARDS", folder.path().join("boards"));
        command.arg("core").args(arguments).output()
    };
    let started = core(&["run", "hosted", "--app", "p1", "--detach"]).expect("it runs");
    assert!(started.status.success(), "{started:?}");
    let said = stage.command(&program).output();
    core(&["stop", "hosted"]).expect("it runs");
    let said = said.expect("it runs");
    assert!(said.status.success(), "{said:?}");
    assert_eq!(text(&said), SUMMARIES);
}

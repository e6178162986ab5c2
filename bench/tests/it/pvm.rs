//! Scenario `pvm` as a person runs it, and the parallel programs of `bench/programs`.

use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use hythe_testing::eventually;
use serde_json::Value;
use tempfile::TempDir;

const PROGRAMS: [(&str, [&str; 2]); 4] = [
    ("jacobi", ["33", "7"]),
    ("matrix", ["31", "2"]),
    ("sort", ["5", "2"]),
    ("gradients", ["500", "9"]),
];
const STRICT: [&str; 6] = ["-std=c11", "-O2", "-Wall", "-Wextra", "-Wshadow", "-Werror"];
const PVM: [&str; 3] = ["-lgpvm3", "-lpvm3", "-lm"];

fn sources(of: &str) -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join(of)
}

fn is_installed(program: &str) -> bool {
    let path = std::env::var_os("PATH").unwrap_or_default();
    let found = std::env::split_paths(&path).any(|folder| folder.join(program).is_file());
    if !found {
        eprintln!("SKIPPED: {program} is not installed");
    }
    found
}

fn has_pvm() -> bool {
    ["pvmd", "pvm", "pvmgs", "cc", "aimk"]
        .into_iter()
        .all(is_installed)
}

fn compile(compiler: &str, source: &Path, to: &Path, options: &[&str]) {
    let mut command = Command::new(compiler);
    command.args(STRICT).arg("-I").arg(sources("programs"));
    command.arg("-o").arg(to).arg(source).args(options);
    let output = command.output().expect("a compiler");
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(
        output.status.success(),
        "{compiler} {}: {complaint}",
        source.display()
    );
}

fn printed(output: &Output) -> Value {
    let complaint = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "{complaint}");
    serde_json::from_slice(&output.stdout).expect("one line of JSON")
}

/// What a program says of itself.
fn check(found: &Value, name: &str, tasks: u64) {
    assert_eq!(found["program"], name);
    assert_eq!(found["tasks"], tasks, "{found}");
    let number = |key: &str| found[key].as_u64().unwrap_or_else(|| panic!("{key}"));
    assert!(number("total_ns") > 0 && number("serial_ns") > 0, "{found}");
    assert!(
        number("communication_ns") <= number("total_ns"),
        "part of it: {found}"
    );
    assert_eq!(number("messages") > 0, tasks > 1, "{found}");
}

/// A daemon in a folder of its own.
struct Daemon {
    folder: TempDir,
    process: Child,
}

impl Daemon {
    fn start() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let hosts = folder.path().join("hosts");
        let place = folder.path().display();
        let line = format!("* ep={place}:/usr/bin wd={place}\n");
        std::fs::write(&hosts, line).expect("a list of hosts");
        let mut command = Command::new("pvmd");
        command.arg("-n127.0.0.1").arg(&hosts);
        command.stdin(Stdio::null()).stdout(Stdio::null());
        command.stderr(Stdio::null());
        let process = surround(&mut command, folder.path()).spawn();
        let daemon = Self {
            process: process.expect("a daemon"),
            folder,
        };
        eventually("pvmd has started", || {
            daemon.names().iter().any(|name| name.starts_with("pvmd."))
        });
        daemon
    }

    fn names(&self) -> Vec<String> {
        let files = std::fs::read_dir(self.folder.path()).expect("it is there");
        let names = files.map(|file| file.expect("a name").file_name());
        names
            .map(|name| name.to_string_lossy().into_owned())
            .collect()
    }

    fn run(&self, program: &Path, words: &[&str]) -> Output {
        let mut command = Command::new(program);
        command.args(words);
        let output = surround(&mut command, self.folder.path()).output();
        output.expect("it runs")
    }

    /// As a person does it.
    fn halt(&mut self) {
        let mut console = Command::new("pvm");
        console.stdin(Stdio::piped()).stdout(Stdio::null());
        console.stderr(Stdio::null());
        let started = surround(&mut console, self.folder.path()).spawn();
        let mut console = started.expect("a console");
        if let Some(mut input) = console.stdin.take() {
            let _ = input.write_all(b"halt\n");
        }
        let _ = console.wait();
        let mut has_ended = || self.process.try_wait().expect("its end").is_some();
        eventually("pvmd has halted", &mut has_ended);
    }
}

impl Drop for Daemon {
    fn drop(&mut self) {
        // Where a test failed before it was halted; its tasks end with it.
        let _ = self.process.kill();
        let _ = self.process.wait();
    }
}

fn surround<'a>(command: &'a mut Command, folder: &Path) -> &'a mut Command {
    command.env("PVM_TMP", folder).env("PVM_ALLOW_ROOT", "1");
    command.env("PVM_ROOT", "/usr/lib/pvm3")
}

#[test]
fn programs_compile_without_warnings() {
    let folder = tempfile::tempdir().expect("a folder");
    let to = folder.path().join("program");
    for compiler in ["gcc", "clang"].into_iter().filter(|it| is_installed(it)) {
        for (name, _) in PROGRAMS {
            let source = sources("programs").join(format!("{name}.c"));
            if has_pvm() {
                compile(compiler, &source, &to, &PVM);
            }
        }
    }
    if is_installed("mpicc.openmpi") {
        for (name, _) in PROGRAMS {
            let source = sources("programs").join(format!("{name}.c"));
            compile("mpicc.openmpi", &source, &to, &["-DMESSAGE_MPI", "-lm"]);
        }
    }
}

#[test]
fn with_pvm_results_are_the_serial_ones_and_others_are_refused() {
    if !has_pvm() {
        return;
    }
    let mut daemon = Daemon::start();
    for (name, [size, rounds]) in PROGRAMS {
        let source = sources("programs").join(format!("{name}.c"));
        let program = daemon.folder.path().join(name);
        compile("cc", &source, &program, &PVM);
        for tasks in [1, 2, 3, 4] {
            let count = tasks.to_string();
            let words = ["--tasks", &count, "--size", size, "--rounds", rounds];
            check(&printed(&daemon.run(&program, &words)), name, tasks);
        }
    }
    // The border of another row is sent: only the parallel run is wrong.
    let right = std::fs::read_to_string(sources("programs/jacobi.c")).expect("a source");
    let wrong = right.replace("below, last, width", "below, first, width");
    assert_ne!(right, wrong);
    let source = daemon.folder.path().join("wrong.c");
    std::fs::write(&source, wrong).expect("a source");
    let program = daemon.folder.path().join("wrong");
    compile("cc", &source, &program, &PVM);
    let words = ["--tasks", "2", "--size", "33", "--rounds", "7"];
    let refused = daemon.run(&program, &words);
    let complaint = String::from_utf8_lossy(&refused.stderr);
    assert_eq!(refused.status.code(), Some(1), "{complaint}");
    assert!(complaint.contains("differs from the serial one"));
    assert!(refused.stdout.is_empty());
    daemon.halt();
}

#[test]
fn with_open_mpi_results_are_the_serial_ones() {
    if !["mpicc.openmpi", "mpirun.openmpi"]
        .into_iter()
        .all(is_installed)
    {
        return;
    }
    let folder = tempfile::tempdir().expect("a folder");
    for (name, [size, rounds]) in PROGRAMS {
        let source = sources("programs").join(format!("{name}.c"));
        let program = folder.path().join(name);
        compile(
            "mpicc.openmpi",
            &source,
            &program,
            &["-DMESSAGE_MPI", "-lm"],
        );
        for tasks in [1, 2, 4] {
            let mut command = Command::new("mpirun.openmpi");
            command.args(["--allow-run-as-root", "--oversubscribe", "-n"]);
            command.arg(tasks.to_string()).arg(&program);
            command.args(["--size", size, "--rounds", rounds]);
            command.env("TMPDIR", folder.path());
            check(&printed(&command.output().expect("it runs")), name, tasks);
        }
    }
}

/// What is installed runs, what is not is named; Hythe's library is given to nobody here.
#[test]
fn document_has_its_shape() {
    if !rustix::process::geteuid().is_root() {
        eprintln!("SKIPPED: the two networks of scenario pvm need root");
        return;
    }
    if !has_pvm() {
        return;
    }
    // Ours may lie beside the bench.
    let empty = tempfile::tempdir().expect("a folder");
    let mut command = Command::new(env!("CARGO_BIN_EXE_hythe-bench"));
    command.args(["pvm", "--json", "--quick", "--sizes", "64", "--library"]);
    command.arg(empty.path());
    command.args(["--count", "20", "--systems", "pvm,hythe", "--seconds", "1"]);
    let output = command.output().expect("it runs");
    let complaint = String::from_utf8_lossy(&output.stderr);
    // On a busy machine the figures are not valid, and there all the same.
    let document: Value = serde_json::from_slice(&output.stdout).expect(&complaint);
    assert_eq!(document["schema"], "hythe.result/1");
    assert_eq!(document["bench"], "pvm");
    let results = document["results"].as_array().expect("results");
    for (case, metric, size) in [
        ("pvm/local/direct/raw", "round_trip", 64),
        ("pvm/remote/direct/default", "round_trip", 64),
        ("pvm/remote/daemon/raw", "round_trip", 64),
        ("pvm/local/direct/inplace", "pack", 64),
        ("pvm/local/direct/default", "unpack", 64),
        ("pvm/remote/spawn", "spawn", 0),
        ("pvm/group/4x2", "barrier", 0),
        ("pvm/group/2x1", "reduce", 8),
        ("pvm/jacobi/1x1", "total", 0),
        ("pvm/matrix/2x2", "communication", 0),
        ("pvm/sort/4x1", "total", 0),
        ("pvm/gradients/4x2", "communication", 0),
    ] {
        let is_it = |row: &&Value| {
            row["case"] == case && row["metric"] == metric && row["size_bytes"] == size
        };
        let row = results.iter().find(is_it);
        let row = row.unwrap_or_else(|| panic!("{case} {metric}: {complaint}"));
        assert!(row["p50"].as_u64() > Some(0) && row["count"].as_u64() > Some(0));
    }
    assert!(!results.iter().any(|row| {
        let case = row["case"].as_str().expect("a case");
        case.starts_with("hythe/")
    }));
    let skipped = document["conditions"]["skipped"].to_string();
    assert!(skipped.contains("hythe") && skipped.contains("not available"));
}

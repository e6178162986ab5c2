//! The examples as they are shipped, in Rust and in C, with one side on another host: the same
//! programs, unchanged.

use std::path::{Path, PathBuf};
use std::process::{Child, Command, Stdio};

use crate::network::agent::{Host, eventually, patient_pair};
use crate::network::{Lan, is_skipped};
use tempfile::TempDir;

/// The pool that an agent carries over unless told otherwise.
const POOL: &str = "default";

fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("..")
}

/// Where cargo puts what it builds for this test.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    test.parent().expect("a folder").to_owned()
}

fn of_rust(name: &str) -> PathBuf {
    let target = built();
    let folder = target.parent().expect("a folder").join("examples");
    folder.join(name)
}

/// Examples of C, compiled against the library as it is installed.
struct OfC {
    folder: TempDir,
}

impl OfC {
    fn install() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let mut install = Command::new(repository().join("bindings/c/install.sh"));
        run(install.arg(folder.path()).arg(built()));
        Self { folder }
    }

    fn compile(&self, name: &str) -> PathBuf {
        let program = self.folder.path().join(name);
        let mut compile = Command::new("gcc");
        compile.args(["-std=c99", "-pthread", "-D_POSIX_C_SOURCE=200809L"]);
        compile.arg("-I").arg(self.folder.path().join("include"));
        let source = repository().join("examples/c").join(name);
        compile.arg(source.with_extension("c"));
        compile.arg("-L").arg(self.library()).arg("-lhythe");
        run(compile.arg("-o").arg(&program));
        program
    }

    fn library(&self) -> PathBuf {
        self.folder.path().join("lib")
    }
}

fn run(command: &mut Command) {
    let output = command.output().expect("it starts");
    assert!(output.status.success(), "{command:?}: {output:?}");
}

/// A program on a host. What it prints is read when it has ended.
fn start(host: &Host, library: Option<&Path>, program: &Path, words: &[&str]) -> Child {
    let mut command = host.space.command(program.to_str().expect("text"));
    command.env("HYTHE_ROOT", host.path("pools"));
    if let Some(library) = library {
        command.env("LD_LIBRARY_PATH", library);
    }
    command.args(words).stdin(Stdio::null());
    command.stdout(Stdio::piped()).stderr(Stdio::piped());
    command.spawn().expect("nsenter")
}

fn printed(program: Child) -> String {
    let output = program.wait_with_output().expect("its end");
    assert!(output.status.success(), "{output:?}");
    String::from_utf8(output.stdout).expect("text")
}

/// Waits until the agent of a host has a channel with the other one: its program has begun.
fn until_spanned(host: &Host, channel: &str) {
    eventually("the channel reaches the other host", || {
        host.channels().iter().any(|one| one == channel)
    });
}

#[test]
fn examples_in_rust() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(1);
    let [a, b] = patient_pair(&lan);
    let start = |host, name, words: &[&str]| start(host, None, &of_rust(name), words);

    let subscriber = start(&b, "publish_subscribe", &["subscribe", POOL, "50"]);
    let publisher = start(&a, "publish_subscribe", &["publish", POOL, "50"]);
    printed(publisher);
    let poses = (0..50).map(|number| {
        let step = f64::from(number);
        format!("{:?} {}\n", [step, 2.0 * step, 0.5], step / 4.0)
    });
    assert_eq!(printed(subscriber), poses.collect::<String>());

    let server = start(&b, "request_reply", &["serve", POOL, "2"]);
    for (text, answer) in [("hello", "HELLO\n"), ("good bye", "GOOD BYE\n")] {
        let client = start(&a, "request_reply", &["ask", POOL, text]);
        assert_eq!(printed(client), answer);
    }
    printed(server);

    let listener = start(&b, "events", &["listen", POOL]);
    until_spanned(&a, "house");
    printed(start(&a, "events", &["raise", POOL]));
    let heard = printed(listener);
    assert!(heard.starts_with("door\n"), "{heard}");
}

#[test]
fn examples_in_c() {
    if is_skipped() {
        return;
    }
    let examples = OfC::install();
    let library = examples.library();
    let lan = Lan::new(1);
    let [a, b] = patient_pair(&lan);
    let start = |host, program: &Path, words: &[&str]| start(host, Some(&library), program, words);

    let both = examples.compile("publish_subscribe");
    let subscriber = start(&b, &both, &["subscribe", POOL, "greetings", "100"]);
    let publisher = start(&a, &both, &["publish", POOL, "greetings", "100"]);
    printed(publisher);
    let messages = (0..100).map(|number| format!("message {number}\n"));
    assert_eq!(printed(subscriber), messages.collect::<String>());

    let both = examples.compile("request_reply");
    let server = start(&b, &both, &["serve", POOL]);
    let client = start(&a, &both, &["ask", POOL]);
    assert_eq!(
        printed(client),
        "\"hello\": HELLO\n\"\": no answer\n\"good bye\": GOOD BYE\n"
    );
    printed(server);

    let both = examples.compile("events");
    let listener = start(&b, &both, &["listen", POOL]);
    until_spanned(&a, "house");
    assert_eq!(printed(start(&a, &both, &["raise", POOL])), "1 told\n");
    let heard = printed(listener);
    assert_eq!(heard, "door\nwindow\n");
}

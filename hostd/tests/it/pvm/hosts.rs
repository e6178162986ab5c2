//! Two and three hosts with agents, on which jobs for PVM run.

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use crate::network::agent::{Host, eventually, first, have_patience, programs};
use crate::network::{Lan, is_skipped};

/// After so many seconds, far more than any program takes, one that stands still is ended.
pub(crate) const LONG: &str = "120";

/// Ours, without the number that their names end with.
const LIBRARIES: [&str; 2] = ["libpvm3.so", "libgpvm3.so"];

/// Where cargo puts a library first, and last where somebody has copied it, beside the command.
fn library(hythe: &Path, name: &str) -> Option<PathBuf> {
    let places = [format!("deps/{name}"), name.to_owned()];
    let mut places = places.map(|place| hythe.with_file_name(place)).into_iter();
    places.find(|place| place.is_file())
}

/// `hythe`, which the workspace builds beside our libraries: `make test-hosts` names it.
fn hythe() -> Option<PathBuf> {
    let skipped = |reason: &str| eprintln!("SKIPPED ({reason}): PVM on two hosts");
    let Some(program) = std::env::var("HYTHE_COMMAND").ok().map(PathBuf::from) else {
        skipped("no HYTHE_COMMAND; `make test-hosts` builds it");
        return None;
    };
    if LIBRARIES
        .iter()
        .any(|name| library(&program, name).is_none())
    {
        skipped("cargo build -p hythe-libpvm3 -p hythe-libgpvm3 builds what is missing");
        return None;
    }
    if ["/usr/include/pvm3.h", "/usr/bin/pvmd", "/usr/bin/hello.pvm"]
        .iter()
        .any(|path| !Path::new(path).exists())
    {
        skipped("apt-get install pvm pvm-dev pvm-examples installs what is run");
        return None;
    }
    (!is_skipped()).then_some(program)
}

/// Two connected hosts, which let each other start programs.
pub(crate) struct Hosts {
    hythe: PathBuf,
    libraries: PathBuf,
    pub(crate) a: Host,
    pub(crate) b: Host,
    lan: Lan,
}

impl Hosts {
    pub(crate) fn new() -> Option<Self> {
        Self::with(|_| Vec::new())
    }

    /// Host b has more in its environment, which may be made in the folder of host a.
    pub(crate) fn with(more: impl FnOnce(&Path) -> Vec<(&'static str, PathBuf)>) -> Option<Self> {
        let hythe = hythe()?;
        let lan = Lan::new(1);
        let (a, mut b) = (first(&lan), Host::on(&lan, 2));
        let libraries = a.path("libraries");
        std::fs::create_dir(&libraries).expect("made");
        for name in LIBRARIES {
            let to = libraries.join(format!("{name}.3"));
            let from = library(&hythe, name).expect("it was there");
            std::os::unix::fs::symlink(from, to).expect("linked");
        }
        let folder = hythe.parent().expect("a folder").to_owned();
        let folders = [folder, programs(), "/usr/bin".into(), "/bin".into()];
        let path = std::env::join_paths(folders).expect("no colon in it");
        b.environment = vec![
            ("PATH", path.into()),
            ("HYTHE_PVM_LIBRARIES", libraries.clone()),
        ];
        b.environment.extend(more(a.folder.path()));
        a.take_in(&b, "b");
        have_patience(&[&a, &b]);
        eventually("a and b are connected", || {
            a.is_connected_with("b") && b.is_connected_with("a")
        });
        b.said(&["allow", "a", "*", "spawn"]);
        // Tasks on b spawn on a, too.
        a.said(&["allow", "b", "*", "spawn"]);
        Some(Self {
            hythe,
            libraries,
            a,
            b,
            lan,
        })
    }

    /// A third one, like host b.
    pub(crate) fn third(&self) -> Host {
        let mut c = Host::on(&self.lan, 3);
        c.environment.clone_from(&self.b.environment);
        self.a.take_in(&c, "c");
        have_patience(&[&c]);
        eventually("all are connected", || {
            let all = [
                (&self.a, ["b", "c"]),
                (&self.b, ["a", "c"]),
                (&c, ["a", "b"]),
            ];
            let mut all = all.into_iter();
            all.all(|(host, others)| others.iter().all(|other| host.is_connected_with(other)))
        });
        c.said(&["allow", "a", "*", "spawn"]);
        self.a.said(&["allow", "c", "*", "spawn"]);
        c
    }

    /// A program that says when it waits: what it has said until then, and what it says later.
    pub(crate) fn waiting(
        &self,
        words: &[&str],
    ) -> (Child, Vec<String>, impl Iterator<Item = String> + use<>) {
        let mut job = self.command(words).spawn().expect("nsenter");
        let lines = BufReader::new(job.stdout.take().expect("piped")).lines();
        let mut lines = lines.map(|line| line.expect("text"));
        let said = lines.by_ref().take_while(|line| line != "waiting");
        let said = said.collect();
        (job, said, lines)
    }

    /// `hythe run --pvm` on host a.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.a.space.command("timeout");
        command.arg(LONG).arg(&self.hythe);
        command.env("HYTHE_HOSTS_DIR", self.a.path("hosts"));
        command.env("HYTHE_ROOT", self.a.path("pools"));
        command.env("HYTHE_PVM_LIBRARIES", &self.libraries);
        command.env_remove("HYTHE_POOL");
        command.current_dir(self.a.folder.path());
        command.args(["run", "--pvm"]).args(words);
        command.stdin(Stdio::null());
        command.stdout(Stdio::piped()).stderr(Stdio::piped());
        command
    }

    pub(crate) fn run(&self, words: &[&str], input: &str) -> Output {
        fed(self.command(words), input)
    }

    /// What its tasks on host b have in their environment.
    pub(crate) fn far_assignment(&self) -> String {
        format!("HYTHE_ROOT={}", self.b.path("pools").display())
    }

    /// The program of this test, compiled.
    pub(crate) fn compile(&self) -> String {
        let program = self.a.path("machine");
        compile("machine.c", &program, &["-lgpvm3", "-lpvm3"]);
        program.to_str().expect("text").to_owned()
    }
}

/// What a program does with this input.
pub(crate) fn fed(mut command: Command, input: &str) -> Output {
    let mut job = command.stdin(Stdio::piped()).spawn().expect("nsenter");
    let mut to = job.stdin.take().expect("piped");
    // Who does not read it may be gone.
    let _ = to.write_all(input.as_bytes());
    drop(to);
    job.wait_with_output().expect("it ends")
}

/// Compiles a source of these tests.
pub(crate) fn compile(source: &str, to: &Path, options: &[&str]) {
    let sources = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/it/pvm");
    let mut compiler = Command::new("cc");
    compiler.args(["-Wall", "-Werror", "-o"]).arg(to);
    compiler.arg(sources.join(source)).args(options);
    let output = compiler.output().expect("a compiler");
    assert!(output.status.success(), "{output:?}");
}

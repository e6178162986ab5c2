//! Programs for PVM on a machine of two and three hosts: those of Debian's package `pvm-examples`
//! as they are, and one of this test, which is compiled against PVM's own header.

mod network;

use std::io::{BufRead as _, BufReader, Write as _};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};

use network::agent::{Host, eventually, first, programs, send};
use network::{Lan, is_skipped};
use rustix::process::Signal;

/// After so many seconds, far more than any program takes, one that stands still is ended.
const LONG: &str = "120";

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
    if !Path::new("/usr/include/pvm3.h").exists() || !Path::new("/usr/bin/hello.pvm").exists() {
        skipped("apt-get install pvm-dev pvm-examples installs what is run");
        return None;
    }
    (!is_skipped()).then_some(program)
}

/// Two connected hosts, which let each other start programs.
struct Hosts {
    hythe: PathBuf,
    libraries: PathBuf,
    a: Host,
    b: Host,
    lan: Lan,
}

impl Hosts {
    fn new() -> Option<Self> {
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
        a.take_in(&b, "b");
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
    fn third(&self) -> Host {
        let mut c = Host::on(&self.lan, 3);
        c.environment.clone_from(&self.b.environment);
        self.a.take_in(&c, "c");
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
    fn waiting(
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
    fn command(&self, words: &[&str]) -> Command {
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

    fn run(&self, words: &[&str], input: &str) -> Output {
        let mut command = self.command(words);
        let mut job = command.stdin(Stdio::piped()).spawn().expect("nsenter");
        let mut to = job.stdin.take().expect("piped");
        // Who does not read it may be gone.
        let _ = to.write_all(input.as_bytes());
        drop(to);
        job.wait_with_output().expect("it ends")
    }

    /// The program of this test, compiled.
    fn compile(&self) -> String {
        let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/pvm/machine.c");
        let program = self.a.path("machine");
        let mut compiler = Command::new("cc");
        compiler.args(["-Wall", "-Werror", "-o"]).arg(&program);
        compiler.arg(&source).args(["-lgpvm3", "-lpvm3"]);
        let output = compiler.output().expect("a compiler");
        assert!(output.status.success(), "{output:?}");
        program.to_str().expect("text").to_owned()
    }
}

fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

#[track_caller]
fn printed(output: &Output) -> String {
    assert!(output.status.success(), "{output:?}");
    text(&output.stdout)
}

/// Without numbers, those of tasks and of times among them, and without the order of lines and how
/// often each comes.
fn shape(output: &Output) -> Vec<String> {
    let all = text(&output.stdout) + &text(&output.stderr);
    let is_number = |word: &&str| {
        let digits = word.strip_prefix('t').unwrap_or(word);
        let digits = digits.strip_prefix("0x").unwrap_or(digits);
        let is_hex = digits.chars().all(|one| one.is_ascii_hexdigit());
        is_hex && digits.contains(|one: char| one.is_ascii_digit())
    };
    let line = |line: &str| {
        let words = line.split(|one: char| !one.is_ascii_alphanumeric());
        let words = words.filter(|word| !word.is_empty() && !is_number(word));
        words.collect::<Vec<_>>().join(" ")
    };
    // Said where one task is slower than another.
    let races = [
        "Group Server already running",
        "still running",
        "No such instance",
        "Not in group",
        "match up!",
    ];
    let lines = all
        .lines()
        .filter(|line| !races.iter().any(|race| line.contains(race)));
    let mut lines: Vec<String> = lines.map(line).filter(|line| !line.is_empty()).collect();
    lines.sort();
    lines.dedup();
    lines
}

#[test]
fn debians_programs_print_on_two_hosts_what_they_do_on_one() {
    let Some(hosts) = Hosts::new() else { return };
    let own = hosts.compile();
    let said = printed(&hosts.run(&["--hosts", "a,b", "--", "hello.pvm"], ""));
    // The other one is spawned on the next host, whose number is in front of its own.
    assert!(
        said.contains("i'm t4") && said.contains("from t8"),
        "{said}"
    );
    for (words, input) in [
        (&["hello.pvm"][..], ""),
        (&["master1"], ""),
        (&["fmaster1"], ""),
        (&["hitc"], ""),
        (&["gexample"], "50 3\n"),
        (&["fgexample"], "50 3\n"),
        (&["timing"], ""),
        (&["gs.pvm", "3"], ""),
        (&["ge", "3"], ""),
        (&["gexamp", "4"], ""),
        (&["thb", "3"], ""),
        (&["joinleave", "300"], ""),
        (&["inherit1"], ""),
        (&["inherita", "inherit1"], ""),
        (&[&own, "others", "4", "spmd"], ""),
        (&[&own, "others", "2", "dbwtest"], ""),
    ] {
        let run = |options: &[&str]| hosts.run(&[options, words].concat(), input);
        let (one, two) = (run(&["--"]), run(&["--hosts", "a,b", "--"]));
        assert_eq!(shape(&two), shape(&one), "{words:?}: {two:#?}");
        assert!(!shape(&one).is_empty(), "{words:?}");
        assert_eq!(two.status.code(), one.status.code(), "{words:?}: {two:#?}");
    }
}

#[test]
fn tasks_are_spawned_where_they_are_wanted_and_meet() {
    let Some(hosts) = Hosts::new() else { return };
    let program = hosts.compile();
    for what in ["places", "ends", "hosts"] {
        let output = hosts.run(&["--hosts", "a,b", "--", &program, what], "");
        assert!(output.status.success(), "{what}: {output:#?}");
    }
}

#[test]
fn output_of_another_host_is_caught() {
    let Some(hosts) = Hosts::new() else { return };
    let program = hosts.compile();
    let output = hosts.run(&["--hosts", "a,b", "--", &program, "caught"], "");
    let said = printed(&output);
    // Each line has the number of the task in front, which is one of host b.
    let caught = said.lines().find(|line| line.ends_with("child on 2"));
    assert!(caught.is_some_and(|line| line.starts_with("[t8")), "{said}");
    assert!(said.contains("EOF"), "{said}");
}

#[test]
fn a_host_that_is_lost_is_told_and_the_machine_goes_on() {
    let Some(hosts) = Hosts::new() else { return };
    let program = hosts.compile();
    let words = ["--hosts", "a,b", "--keep-going", "--", &program, "lose"];
    let (job, mut said, lines) = hosts.waiting(&words);
    hosts.b.signal(Signal::KILL);
    said.extend(lines);
    let output = job.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{said:?} {output:?}");
}

#[test]
fn tasks_on_three_hosts_reach_each_other_also_on_one_that_came_later() {
    let Some(hosts) = Hosts::new() else { return };
    let program = hosts.compile();
    let _c = hosts.third();
    // By PVM's own file: the first host need not be in it, the third is added later.
    let file = hosts.a.path("pvm-hosts");
    std::fs::write(&file, "* ep=/opt/bin sp=500\nb wd=/tmp\n& c\n").expect("written");
    let file = file.to_str().expect("text");
    let output = hosts.run(&["--hostfile", file, "--", &program, "three"], "");
    assert!(output.status.success(), "{output:#?}");
}

/// Does a process with this word among its arguments run?
fn runs(what: impl Fn(&str, &str) -> bool) -> bool {
    let processes = std::fs::read_dir("/proc").expect("it is there");
    processes.flatten().any(|process| {
        let line = std::fs::read_to_string(process.path().join("cmdline")).unwrap_or_default();
        // One that has ended has none.
        !line.is_empty() && what(&process.file_name().to_string_lossy(), &line)
    })
}

#[test]
fn a_first_host_without_its_agent_is_alone_and_nothing_is_left() {
    let Some(hosts) = Hosts::new() else { return };
    let program = hosts.compile();
    let c = hosts.third();
    let (job, mut said, lines) = hosts.waiting(&["--hosts", "a,b,c", "--", &program, "alone"]);
    let processes = said.iter().filter_map(|line| line.strip_prefix("process "));
    let processes: Vec<String> = processes.map(str::to_owned).collect();
    assert_eq!(processes.len(), 2, "{said:?}");
    hosts.a.signal(Signal::KILL);
    said.extend(lines);
    let output = job.wait_with_output().expect("it ends");
    assert!(output.status.success(), "{said:?} {output:?}");
    eventually("tasks elsewhere have ended", || {
        !runs(|process, _| processes.iter().any(|one| one == process))
    });
    for host in [&hosts.a, &hosts.b, &c] {
        let pool = host.path("pools").join("default");
        let files = std::fs::read_dir(&pool).into_iter().flatten().flatten();
        let names = files.map(|file| file.file_name().to_string_lossy().into_owned());
        // The agent of host a was killed.
        let is_left = |name: &String| {
            ["pvm", "tasks.", "service."]
                .iter()
                .any(|what| name.starts_with(what))
                && !["pvm.lock", "tasks.agent"].contains(&name.as_str())
        };
        assert_eq!(
            names.filter(is_left).collect::<Vec<_>>(),
            [""; 0],
            "{pool:?}"
        );
    }
}

#[test]
fn a_host_that_goes_while_tasks_are_spawned_there_keeps_none() {
    let Some(hosts) = Hosts::new() else { return };
    let program = hosts.compile();
    let number = std::process::id().to_string();
    let (mut job, said, lines) =
        hosts.waiting(&["--hosts", "a,b", "--", &program, "race", &number]);
    assert_eq!(
        said.last().map(String::as_str),
        Some("0 failures"),
        "{said:?}"
    );
    let seconds = format!("600.{number}");
    eventually("what was spawned has ended", || {
        !runs(|_, line| line.starts_with("sleep") && line.contains(&seconds))
    });
    // The job ends with it, and all that is left of that.
    send(job.id(), Signal::TERM);
    lines.for_each(drop);
    job.wait().expect("it ends");
}

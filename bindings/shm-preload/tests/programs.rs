//! Programs that know System V only, on segments in the area of a core of board `hosted`: our own
//! with the flag, and Debian's, which know nothing.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};
use std::time::Duration;

use hythe::request::ClientOptions;
use hythe::rpc::Caller;
use hythe::{Node, Pool, PoolOptions};

/// Where cargo puts what it built for these tests: beside the test itself.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    test.parent().expect("a folder").to_owned()
}

/// A pool with a core, which go with the value.
struct Fixture {
    folder: tempfile::TempDir,
    hythe: PathBuf,
}

impl Fixture {
    /// `None` where command or board are not built, which is said.
    fn start() -> Option<Self> {
        let hythe = built().parent().expect("a folder").join("hythe");
        if !hythe.is_file() {
            eprintln!("SKIPPED: the command is not built; cargo build --workspace builds it");
            return None;
        }
        let folder = tempfile::tempdir().expect("a folder");
        let fixture = Self { folder, hythe };
        let boards = run(&mut fixture.hythe(&["core", "boards", "--json"]));
        if !text(&boards).contains("\"hosted\"") {
            eprintln!("SKIPPED: board hosted is not built; cargo xtask boards builds it");
            return None;
        }
        run(&mut fixture.hythe(&["core", "run", "hosted", "--app", "p1", "--detach"]));
        Some(fixture)
    }

    fn hythe(&self, arguments: &[&str]) -> Command {
        let mut command = self.plain(&self.hythe);
        command.args(arguments);
        command
    }

    /// A program in the pool's surroundings.
    fn plain(&self, program: impl AsRef<Path>) -> Command {
        let mut command = Command::new(program.as_ref());
        // What it says of errors is compared.
        command.env("LC_ALL", "C");
        command.env("HYTHE_ROOT", self.folder.path());
        command
    }

    /// The same with the library, and what `HYTHE_SHM` says.
    fn preloaded(&self, program: impl AsRef<Path>, keys: &str) -> Command {
        let mut command = self.plain(program);
        command.env("LD_PRELOAD", built().join("libhythe_shm.so"));
        command.env("HYTHE_SHM", keys);
        command
    }

    /// What `hythe core segments` lists.
    fn segments(&self) -> String {
        text(&run(&mut self.hythe(&["core", "segments", "--json"])))
    }
}

/// Far longer than a call takes on a busy machine.
const LONG: Duration = Duration::from_secs(60);
/// Methods of `p1` (`rtos/apps/p1/README.md`).
const ATTACH: u32 = 21;
const DETACH: u32 = 22;
const READ: u32 = 23;
const WRITE: u32 = 24;
const REFUSE: u32 = 27;

impl Fixture {
    /// Calls a method of the core with these words and bytes; what it returned.
    fn ask(&self, method: u32, words: &[u32], bytes: &[u8]) -> Vec<u8> {
        let options = PoolOptions::new("default").root(self.folder.path());
        let pool = Pool::open(&options).expect("the core's pool");
        let node = Node::join(&pool, "asks").expect("joined");
        let client = node.client("core/calls", &ClientOptions::default());
        let mut client = client.expect("a client");
        let mut argument: Vec<u8> = words.iter().flat_map(|word| word.to_le_bytes()).collect();
        argument.extend_from_slice(bytes);
        let result = Caller::new(&mut client).call(method, &argument, LONG);
        result.expect("a result").to_vec()
    }

    /// The core attaches a segment; its place in the core's table.
    fn attach(&self, id: &str) -> u32 {
        let result = self.ask(ATTACH, &[id.parse().expect("an id"), 0], &[]);
        let words: Vec<u32> = result
            .as_chunks()
            .0
            .iter()
            .map(|&word| u32::from_le_bytes(word))
            .collect();
        assert_eq!(words[0], 0, "{words:?}");
        words[1]
    }
}

impl Drop for Fixture {
    fn drop(&mut self) {
        let _ = self.hythe(&["core", "stop", "hosted"]).output();
        let _ = self.hythe(&["pool", "remove", "--force"]).output();
    }
}

/// Runs to the end, which must be a good one.
fn run(command: &mut Command) -> Output {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} did not start: {error}"));
    let (out, err) = (text(&output), String::from_utf8_lossy(&output.stderr));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{out}{err}",
        output.status
    );
    output
}

fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

/// A key that no other test of this machine has: below 32 bits, and this process's number in it.
fn key(which: u32) -> String {
    format!(
        "{:#010x}",
        0x3100_0000 | which << 22 | std::process::id() & 0x3f_ffff
    )
}

/// The id in what ipcmk prints.
fn made(output: &Output) -> String {
    let said = text(output);
    let id = said.trim().rsplit(' ').next().expect("a word");
    id.to_owned()
}

#[test]
fn program_with_the_flag_runs_as_with_our_functions() {
    let Some(fixture) = Fixture::start() else {
        return;
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("../c/tests/segments.c");
    let program = fixture.folder.path().join("segments");
    run(Command::new("gcc")
        .args([
            "-std=c99",
            "-Wall",
            "-Wextra",
            "-Werror",
            "-DSYSTEM_V_NAMES",
        ])
        .arg(source)
        .arg("-o")
        .arg(&program));
    let said = run(&mut fixture.preloaded(&program, ""));
    assert_eq!(text(&said), "all as the system's\n");
    assert!(fixture.segments().contains("\"segments\": []"));
    // Without the library it says so.
    let alone = fixture.plain(&program).output().expect("it starts");
    assert_eq!(alone.status.code(), Some(1), "{alone:?}");
}

const PERL: &str = r#"
my ($id, $what) = @ARGV;
if ($what eq "write") { shmwrite($id, "from perl", 4, 9) or die "shmwrite: $!"; }
else { shmread($id, my $got, 4, 9) or die "shmread: $!"; print $got; }
"#;

#[test]
fn debians_programs_make_use_and_remove_segments_of_a_core() {
    let Some(fixture) = Fixture::start() else {
        return;
    };
    let made_id = made(&run(fixture
        .preloaded("ipcmk", "all")
        .args(["-M", "10000"])));
    let listed = fixture.segments();
    assert!(listed.contains(&format!("\"id\": {made_id},")), "{listed}");
    assert!(listed.contains("\"size_bytes\": 10000,"), "{listed}");

    // One Perl writes, another reads: neither needs the environment to say which.
    let perl = |what: &str| {
        text(&run(fixture
            .preloaded("perl", "")
            .args(["-e", PERL, &made_id, what])))
    };
    perl("write");
    assert_eq!(perl("read"), "from perl");
    // The core has the same bytes, under an address of its own.
    let place = fixture.attach(&made_id);
    assert_eq!(fixture.ask(READ, &[place, 4, 9], &[]), b"from perl");
    assert_eq!(fixture.ask(WRITE, &[place, 4], b"from core"), b"");
    assert_eq!(perl("read"), "from core");
    // Without the library there are the kernel's own bytes, which nobody has touched.
    let mut plain = fixture.plain("perl");
    let read = run(plain.args(["-e", PERL, &made_id, "read"]));
    assert_eq!(text(&read), "\0".repeat(9));

    // Removed, it stays for as long as the core has it attached.
    run(fixture.preloaded("ipcrm", "").args(["-m", &made_id]));
    assert_eq!(fixture.ask(READ, &[place, 4, 9], &[]), b"from core");
    assert!(fixture.segments().contains("\"attached_core\": 1,"));
    assert_eq!(fixture.ask(DETACH, &[place], &[]), [0; 4]);
    assert!(fixture.segments().contains("\"segments\": []"));
}

#[test]
fn only_the_keys_that_the_environment_names_are_a_cores() {
    let Some(fixture) = Fixture::start() else {
        return;
    };
    let [named, other] = [key(1), key(2)];
    let make = "shmget(hex($ARGV[0]), 5000, 0600 | 01000) // die $!; ";
    let both = format!("{make} @ARGV = ($ARGV[1]); {make}");
    let keys = format!(" 0x1,{named}");
    run(fixture
        .preloaded("perl", &keys)
        .args(["-e", &both, &named, &other]));
    let listed = fixture.segments();
    assert!(
        listed.contains(&format!("\"key\": \"{named}\"")),
        "{listed}"
    );
    assert!(!listed.contains(&other), "{listed}");
    // A key that the kernel's own segment has stays that segment's, whatever the environment says.
    run(fixture.preloaded("ipcrm", "all").args(["-M", &other]));
    run(fixture.preloaded("ipcrm", "all").args(["-M", &named]));
    assert!(fixture.segments().contains("\"segments\": []"));
    let gone = fixture.plain("ipcrm").args(["-M", &other]).output();
    assert!(!gone.expect("it starts").status.success(), "removed above");
}

#[test]
fn segments_on_huge_pages_are_the_systems() {
    let Some(fixture) = Fixture::start() else {
        return;
    };
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/huge_pages.c");
    let program = fixture.folder.path().join("huge_pages");
    let flags = ["-std=gnu11", "-Wall", "-Wextra", "-Werror"];
    run(Command::new("gcc")
        .args(flags)
        .arg(source)
        .arg("-o")
        .arg(&program));
    let alone = text(&run(&mut fixture.plain(&program)));
    assert_eq!(text(&run(&mut fixture.preloaded(&program, "all"))), alone);
}

#[test]
fn refusal_is_the_systems_and_the_log_says_why() {
    let Some(fixture) = Fixture::start() else {
        return;
    };
    let mut large = fixture.preloaded("ipcmk", "all");
    let refused = large
        .env("HYTHE_SHM_LOG", "1")
        .args(["-M", "1000000000"])
        .output();
    let refused = refused.expect("it starts");
    let said = String::from_utf8_lossy(&refused.stderr);
    assert!(!refused.status.success());
    assert!(said.contains("Invalid argument"), "{said}");
    assert!(
        said.contains("hythe_shm: a segment of 1000000000 bytes"),
        "{said}"
    );

    // Two of five of eight MiB have a place in its area, the other three not.
    let mut full = fixture.preloaded("perl", "all");
    let script = "$SIG{__WARN__} = sub {}; for (1 .. 9) { $id[$_] = \
                  shmget(0, 1 << 20, 0600 | 01000) // print 0 + $!, q( ) } \
                  shmctl($_, 0, 0) for grep { $_ } @id";
    let output = run(full.env("HYTHE_SHM_LOG", "1").args(["-e", script]));
    let said = String::from_utf8_lossy(&output.stderr);
    assert_eq!(text(&output), "28 ", "ENOSPC: {said}");
    assert!(said.contains("bytes free, the largest piece"), "{said}");
    assert!(fixture.segments().contains("\"segments\": []"));

    let wrong = fixture
        .preloaded("ipcrm", "0x12,twelve")
        .args(["-m", "-1"])
        .output();
    let said = wrong.expect("it starts");
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(!said.contains("twelve"), "nothing asked for a key: {said}");
    let wrong = run(fixture
        .preloaded("perl", "0x12,twelve")
        .args(["-e", "shmget(7, 1, 0)"]));
    let said = String::from_utf8_lossy(&wrong.stderr);
    assert!(
        said.contains("HYTHE_SHM has `twelve`, which is no key"),
        "{said}"
    );
}

/// A process that does nothing until this value goes.
struct Paused(String);

impl Paused {
    fn new(pid: &str) -> Self {
        run(Command::new("kill").args(["-STOP", pid]));
        Self(pid.to_owned())
    }
}

impl Drop for Paused {
    fn drop(&mut self) {
        let _ = Command::new("kill").args(["-CONT", &self.0]).status();
    }
}

#[test]
fn core_that_is_to_make_a_segment_and_does_not_is_named() {
    let Some(fixture) = Fixture::start() else {
        return;
    };
    let asked = || {
        let mut perl = fixture.preloaded("perl", "");
        let script = "shmget(0, 100, 0x20000 | 0600 | 01000) // print 0 + $!";
        let output = run(perl.env("HYTHE_SHM_LOG", "1").args(["-e", script]));
        let said = String::from_utf8_lossy(&output.stderr).into_owned();
        (text(&output), said)
    };
    let (number, said) = asked();
    assert_eq!(number, "", "{said}");
    assert!(fixture.segments().contains("\"made_on\": \"core\""));
    fixture.ask(REFUSE, &[1], &[]);
    let (number, said) = asked();
    assert_eq!(number, "13", "EACCES: {said}");
    assert!(said.contains("core `hosted` made no segment"), "{said}");
    let status = text(&run(&mut fixture.hythe(&["core", "status", "--json"])));
    let pid = status.split("\"core_pid\": ").nth(1).expect("a core");
    let pid: String = pid.chars().take_while(char::is_ascii_digit).collect();
    let paused = Paused::new(&pid);
    let (number, said) = asked();
    drop(paused);
    assert_eq!(number, "28", "ENOSPC: {said}");
    assert!(said.contains("core `hosted` has not answered"), "{said}");
    assert!(
        said.contains(&format!("its process {pid} is stopped")),
        "{said}"
    );
}

#[test]
fn without_a_pool_all_is_as_without_the_library() {
    let Some(fixture) = Fixture::start() else {
        return;
    };
    let none = |program: &str, keys: &str| {
        let mut command = fixture.preloaded(program, keys);
        command.env("HYTHE_POOL", "none");
        command
    };
    let id = made(&run(none("ipcmk", "").args(["-M", "10"])));
    run(none("ipcrm", "all").args(["-m", &id]));
    let refused = none("ipcmk", "all").args(["-M", "10"]).output();
    let said = refused.expect("it starts");
    let said = String::from_utf8_lossy(&said.stderr).into_owned();
    assert!(said.contains("No space left on device"), "{said}");
}

/// A daemon closes what it did not open, and outlives pools.
const OUTLIVES: &str = r#"
use POSIX ();
sub made { my $id = shmget(0, 4096, 0600 | 01000) // die "shmget: $!";
           shmwrite($id, "x", 0, 1) or die "shmwrite: $!"; shmctl($id, 0, 0) or die "shmctl: $!"; }
sub hythe { delete local $ENV{LD_PRELOAD}; system($ARGV[0], @_) == 0 or die "hythe @_"; }
made();
POSIX::close($_) for 3 .. 64;
made();
hythe("core", "stop", "hosted");
hythe("pool", "remove", "default");
shmget(0, 4096, 0600 | 01000) and die "there is no pool";
hythe("core", "run", "hosted", "--app", "p1", "--detach");
made();
print "outlived";
"#;

#[test]
fn program_outlives_pools_and_closes_all_descriptors() {
    let Some(fixture) = Fixture::start() else {
        return;
    };
    let hythe = fixture.hythe.to_str().expect("text");
    let mut daemon = fixture.preloaded("perl", "all");
    let said = text(&run(daemon.args(["-e", OUTLIVES, hythe])));
    assert!(said.ends_with("outlived"), "{said}");
}

#[test]
fn stress_ng_finds_nothing_wrong() {
    let Some(fixture) = Fixture::start() else {
        return;
    };
    if Command::new("stress-ng").arg("--version").output().is_err() {
        eprintln!("SKIPPED: stress-ng is not installed; scripts/setup.sh installs it");
        return;
    }
    let mut stress = fixture.preloaded("stress-ng", "all");
    let output = run(stress
        .args([
            "--shm-sysv",
            "1",
            "--shm-sysv-bytes",
            "1M",
            "--shm-sysv-segs",
            "4",
        ])
        .args([
            "--shm-sysv-ops",
            "60",
            "--timeout",
            "120",
            "--verify",
            "--metrics-brief",
        ])
        .current_dir(fixture.folder.path()));
    let said = text(&output) + &String::from_utf8_lossy(&output.stderr);
    assert!(said.contains("successful run completed"), "{said}");
    assert!(fixture.segments().contains("\"segments\": []"), "{said}");
}

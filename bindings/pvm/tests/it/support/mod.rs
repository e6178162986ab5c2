//! What tests of programs for PVM share: where things were built, a pool, a machine of PVM's own.

pub(crate) mod console;
pub(crate) mod printed;

use hythe_testing::{Polling, eventually_or_show};
use std::path::{Path, PathBuf};
use std::process::{Child, Command, Output, Stdio};
use std::time::{Duration, Instant};

/// Far longer than what is waited for takes on a busy machine.
pub(crate) const BOUND: Duration = Duration::from_secs(120);

/// Where cargo puts what it built for these tests: beside the test itself.
pub(crate) fn built() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    test.parent().expect("a folder").to_owned()
}

/// Debian's packages with PVM, whose programs are run. False: they are not there, which is said.
pub(crate) fn has_pvm() -> bool {
    let has_all = ["/usr/include/pvm3.h", "/usr/bin/pvmd", "/usr/bin/hello.pvm"]
        .iter()
        .all(|path| Path::new(path).exists());
    if !has_all {
        eprintln!("SKIPPED: apt-get install pvm pvm-dev pvm-examples installs what is compared");
    }
    has_all
}

/// A folder with a pool's surroundings and our libraries under their names.
pub(crate) struct Fixture {
    pub(crate) folder: tempfile::TempDir,
    hythe: PathBuf,
}

impl Fixture {
    /// The command is another package's, so that cargo builds it for these tests only with the
    /// whole workspace.
    pub(crate) fn new() -> Self {
        let hythe = built().parent().expect("a folder").join("hythe");
        assert!(
            hythe.is_file(),
            "{} is not built: cargo build --workspace builds it",
            hythe.display()
        );
        let folder = tempfile::tempdir().expect("a folder");
        let libraries = folder.path().join("libraries");
        std::fs::create_dir(&libraries).expect("made");
        std::fs::create_dir(folder.path().join("pools")).expect("made");
        for name in ["libpvm3", "libgpvm3"] {
            let from = built().join(format!("{name}.so"));
            let to = libraries.join(format!("{name}.so.3"));
            std::os::unix::fs::symlink(from, to).expect("linked");
        }
        Self { folder, hythe }
    }

    /// The command, with what is set for it.
    pub(crate) fn hythe(&self) -> Command {
        let mut command = Command::new(&self.hythe);
        command.env("HYTHE_ROOT", self.folder.path().join("pools"));
        command.env("HYTHE_PVM_LIBRARIES", self.folder.path().join("libraries"));
        command.env_remove("HYTHE_POOL");
        command.current_dir(self.folder.path());
        command
    }

    /// `hythe run --pvm` with these words behind it.
    pub(crate) fn run(&self, words: &[&str], input: &[u8]) -> Output {
        finish(self.command(words), input)
    }

    /// The same, not started.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = self.hythe();
        command.args(["run", "--pvm", "--"]).args(words);
        command
    }

    /// Does a job serve the machine?
    pub(crate) fn is_served(&self) -> bool {
        self.socket().exists()
    }

    /// Where it does.
    pub(crate) fn socket(&self) -> PathBuf {
        let users = std::fs::read_dir(self.folder.path().join("pools")).expect("a folder");
        let user = users.filter_map(|entry| Some(entry.ok()?.path())).next();
        user.unwrap_or_default().join("default/pvm")
    }

    /// Compiles a program against PVM's own header and library.
    pub(crate) fn compile(&self, source: &str, name: &str) -> PathBuf {
        let file = self.folder.path().join(format!("{name}.c"));
        std::fs::write(&file, source).expect("written");
        let program = self.folder.path().join(name);
        let mut compiler = Command::new("cc");
        compiler.arg("-o").arg(&program).arg(&file);
        compiler.args(["-lgpvm3", "-lpvm3"]);
        let output = compiler.output().expect("a compiler");
        assert!(output.status.success(), "{}", text(&output.stderr));
        program
    }
}

/// A machine of PVM's own, which ends with the value.
pub(crate) struct Pvm {
    folder: PathBuf,
    daemon: Child,
}

impl Pvm {
    /// The name of its one host: an address, as the daemon ends where the machine's own name has
    /// none.
    pub(crate) const HOST: &str = "127.0.0.1";

    pub(crate) fn start(folder: &Path) -> Self {
        let folder = folder.join("pvm");
        std::fs::create_dir(&folder).expect("made");
        let hosts = folder.join("hosts");
        let line = format!("* ep=/usr/bin wd={}\n", folder.display());
        std::fs::write(&hosts, line).expect("written");
        let mut command = Command::new("/usr/bin/pvmd");
        command.arg(format!("-n{}", Self::HOST)).arg(&hosts);
        command.env("PVM_ALLOW_ROOT", "1");
        command.env("PVM_TMP", &folder).env_remove("PVM_ROOT");
        command.stdin(Stdio::null()).stdout(Stdio::null());
        let daemon = command.stderr(Stdio::null()).spawn().expect("PVM's daemon");
        let started = Self { folder, daemon };
        let is_ready = || started.log().contains("ready");
        eventually_or_show("PVM's daemon is ready", is_ready, || started.log());
        started
    }

    /// Runs a program as a task of it.
    pub(crate) fn run(&self, words: &[&str], input: &[u8]) -> Output {
        finish(self.command(words), input)
    }

    /// The same, not started.
    pub(crate) fn command(&self, words: &[&str]) -> Command {
        let mut command = Command::new(words[0]);
        command.args(&words[1..]).env("PVM_ALLOW_ROOT", "1");
        command.env("PVM_TMP", &self.folder);
        command.current_dir(self.folder.parent().expect("it has one"));
        command
    }

    /// What it has logged: what tasks print that were spawned is there.
    pub(crate) fn log(&self) -> String {
        let entries = std::fs::read_dir(&self.folder).expect("a folder");
        let mut names = entries.filter_map(|entry| Some(entry.ok()?.path()));
        let is_log = |path: &PathBuf| {
            let name = path
                .file_name()
                .map(|name| name.to_string_lossy().into_owned());
            name.is_some_and(|name| name.starts_with("pvml."))
        };
        let log = names.find(is_log).and_then(|path| std::fs::read(path).ok());
        text(&log.unwrap_or_default())
    }
}

impl Drop for Pvm {
    fn drop(&mut self) {
        // It ends its tasks, and removes its files.
        let _ = Command::new("kill")
            .arg(self.daemon.id().to_string())
            .status();
        let _ = self.daemon.wait();
    }
}

/// Waits for the end of a command, and ends it if that does not come.
pub(crate) fn finish(mut command: Command, input: &[u8]) -> Output {
    use std::io::{Read as _, Write as _};

    command.stdin(Stdio::piped()).stdout(Stdio::piped());
    let mut child = command.stderr(Stdio::piped()).spawn().expect("it starts");
    // Who does not read it may be gone.
    let _ = child.stdin.take().expect("a pipe").write_all(input);
    let (mut out, mut error) = (child.stdout.take(), child.stderr.take());
    let read_out = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        out.as_mut().map(|from| from.read_to_end(&mut bytes));
        bytes
    });
    let read_error = std::thread::spawn(move || {
        let mut bytes = Vec::new();
        error.as_mut().map(|from| from.read_to_end(&mut bytes));
        bytes
    });
    let (start, mut polling) = (Instant::now(), Polling::new("the end of a program"));
    let status = loop {
        if let Some(status) = child.try_wait().expect("a child") {
            break status;
        }
        if start.elapsed() > BOUND {
            let _ = child.kill();
            panic!("{command:?} does not end");
        }
        polling.pause();
    };
    Output {
        status,
        stdout: read_out.join().expect("read"),
        stderr: read_error.join().expect("read"),
    }
}

pub(crate) fn text(bytes: &[u8]) -> String {
    String::from_utf8_lossy(bytes).into_owned()
}

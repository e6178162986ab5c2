//! A staged installation and what is compiled against it, for the tests. Never touches the system's
//! folders.

use std::path::{Path, PathBuf};
use std::process::{Command, Output};

/// An installed library in a folder that goes with the value, and a place for pools.
pub(crate) struct Stage {
    folder: tempfile::TempDir,
}

/// How a program gets the library.
#[derive(Clone, Copy, Debug)]
pub(crate) enum Linking {
    Shared,
    Static,
}

pub(crate) const COMPILERS: [&str; 2] = ["gcc", "clang"];
const STRICT: [&str; 5] = ["-std=c99", "-Wall", "-Wextra", "-Werror", "-pedantic"];

pub(crate) fn repository() -> PathBuf {
    Path::new(env!("CARGO_MANIFEST_DIR")).join("../..")
}

/// Where cargo puts the libraries that it built for these tests: beside the test itself.
fn built() -> PathBuf {
    let test = std::env::current_exe().expect("the path of this test");
    test.parent().expect("a folder").to_owned()
}

impl Stage {
    pub(crate) fn install() -> Self {
        let folder = tempfile::tempdir().expect("a folder");
        let stage = Self { folder };
        let mut install = Command::new(repository().join("bindings/c/install.sh"));
        run(install.arg(stage.prefix()).arg(built()));
        std::fs::create_dir(stage.root()).expect("a place for pools");
        stage
    }

    pub(crate) fn prefix(&self) -> PathBuf {
        self.folder.path().join("usr")
    }

    pub(crate) fn root(&self) -> PathBuf {
        self.folder.path().join("pools")
    }

    /// What pkg-config says about the installed library.
    pub(crate) fn flags(&self, arguments: &[&str]) -> Vec<String> {
        let mut ask = Command::new("pkg-config");
        ask.env("PKG_CONFIG_PATH", self.prefix().join("lib/pkgconfig"));
        let said = run(ask.args(arguments).arg("hythe"));
        let said = String::from_utf8(said.stdout).expect("text");
        said.split_whitespace().map(str::to_owned).collect()
    }

    /// Compiles one file of C and returns the program.
    pub(crate) fn compile(&self, compiler: &str, linking: Linking, source: &Path) -> PathBuf {
        self.compile_with(compiler, linking, source, &[])
    }

    pub(crate) fn compile_with(
        &self,
        compiler: &str,
        linking: Linking,
        source: &Path,
        flags: &[&str],
    ) -> PathBuf {
        let name = source.file_stem().expect("a name").to_string_lossy();
        let program = self
            .folder
            .path()
            .join(format!("{name}.{compiler}.{linking:?}"));
        let mut compile = Command::new(compiler);
        compile
            .args(STRICT)
            .args(["-g", "-pthread", "-D_POSIX_C_SOURCE=200809L"]);
        compile.args(flags).arg(source).arg("-o").arg(&program);
        match linking {
            Linking::Shared => compile.args(self.flags(&["--cflags", "--libs"])),
            // Only this library: the system's stay shared.
            Linking::Static => {
                compile.args(self.flags(&["--cflags"]));
                compile.arg(self.prefix().join("lib/libhythe.a"));
                let libraries = self.flags(&["--static", "--libs-only-l"]);
                compile.args(libraries.iter().filter(|library| *library != "-lhythe"))
            }
        };
        run(&mut compile);
        program
    }

    pub(crate) fn example(&self, compiler: &str, linking: Linking, name: &str) -> PathBuf {
        let source = repository()
            .join("examples/c")
            .join(name)
            .with_extension("c");
        self.compile(compiler, linking, &source)
    }

    /// A program with its library and its place for pools.
    pub(crate) fn command(&self, program: &Path) -> Command {
        let mut command = Command::new(program);
        command.env("HYTHE_ROOT", self.root());
        command.env("LD_LIBRARY_PATH", self.prefix().join("lib"));
        command
    }
}

/// Runs to the end, which must be a good one.
pub(crate) fn run(command: &mut Command) -> Output {
    let output = command.output();
    let output = output.unwrap_or_else(|error| panic!("{command:?} did not start: {error}"));
    assert!(
        output.status.success(),
        "{command:?}: {}\n{}{}",
        output.status,
        String::from_utf8_lossy(&output.stdout),
        String::from_utf8_lossy(&output.stderr)
    );
    output
}

pub(crate) fn text(output: &Output) -> String {
    String::from_utf8_lossy(&output.stdout).into_owned()
}

pub(crate) fn is_installed(tool: &str) -> bool {
    let found = Command::new(tool).arg("--version").output().is_ok();
    if !found {
        eprintln!("SKIPPED: {tool} is not installed; scripts/setup.sh installs it");
    }
    found
}

/// The command `hythe`, if cargo has built it.
pub(crate) fn hythe_command() -> Option<PathBuf> {
    let command = built().parent().map(|folder| folder.join("hythe"));
    let command = command.filter(|command| command.is_file());
    if command.is_none() {
        eprintln!("SKIPPED: the command is not built; cargo build --workspace builds it");
    }
    command
}

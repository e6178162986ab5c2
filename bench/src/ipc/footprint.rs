//! What hythe takes without any message: bytes of a pool's tables, of an idle participant, and of a
//! C program that publishes. A row each; nothing here is a time.

use std::fmt;
use std::io::Write;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::{Command, Stdio};
use std::time::Duration;

use clap::Args;
use hythe_node::{Node, Pool, PoolOptions};

use crate::error::BenchError;
use crate::pool::{self, BenchPool};
use crate::starter::{self, Program};

/// Of the pool: the default's.
const POOL_BYTES: usize = 64 << 20;
/// The watcher has looked for peers several times.
const IDLE: Duration = Duration::from_millis(300);
/// For a process that joins and idles, and for a compiler.
const BOUND: Duration = Duration::from_secs(60);
const PUBLISHES: &str = include_str!("../../peers/publishes.c");
const HEADER: &str = include_str!("../../../bindings/c/include/hythe.h");
/// What Rust's standard library needs of the system.
const SYSTEM_LIBRARIES: [&str; 4] = ["-lgcc_s", "-lpthread", "-lm", "-ldl"];

/// One figure.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Footprint {
    /// `hythe_pool`'s tables: the control file of a default pool.
    Tables,
    /// Private resident memory that a process has more once it takes part: a node and its watcher.
    IdleNode,
    /// A stripped C program that publishes, with the static library in it.
    StaticProgram,
    /// The same with the shared library beside it.
    SharedProgram,
    /// That library, stripped.
    Library,
}

pub(super) const FOOTPRINTS: [Footprint; 5] = [
    Footprint::Tables,
    Footprint::IdleNode,
    Footprint::StaticProgram,
    Footprint::SharedProgram,
    Footprint::Library,
];

impl Footprint {
    pub(super) const fn metric(self) -> &'static str {
        match self {
            Self::Tables => "tables",
            Self::IdleNode => "private_memory",
            Self::StaticProgram | Self::SharedProgram | Self::Library => "file_size",
        }
    }

    pub(super) const fn size_bytes(self) -> usize {
        match self {
            Self::Tables => POOL_BYTES,
            _ => 0,
        }
    }

    /// Why it cannot be measured here.
    pub(super) fn why_not(self) -> Option<String> {
        match self {
            Self::Tables | Self::IdleNode => None,
            _ if cfg!(debug_assertions) => {
                Some("a development build says nothing about sizes".to_owned())
            }
            Self::StaticProgram => library("libhythe_c.a").err(),
            Self::SharedProgram | Self::Library => library("libhythe_c.so").err(),
        }
    }

    /// Bytes.
    pub(super) fn measure(self) -> Result<u64, BenchError> {
        let found = match self {
            Self::Tables => return tables(),
            Self::IdleNode => return idle_node(),
            Self::StaticProgram => library("libhythe_c.a")
                .and_then(|library| program_bytes(PUBLISHES, &library, &SYSTEM_LIBRARIES)),
            Self::SharedProgram => {
                library("libhythe_c.so").and_then(|library| program_bytes(PUBLISHES, &library, &[]))
            }
            Self::Library => library("libhythe_c.so").and_then(|library| stripped_bytes(&library)),
        };
        found.map_err(BenchError::Unable)
    }
}

impl fmt::Display for Footprint {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        out.write_str(match self {
            Self::Tables => "hythe/pool-tables",
            Self::IdleNode => "hythe/idle-node",
            Self::StaticProgram => "hythe/c-program-static",
            Self::SharedProgram => "hythe/c-program-shared",
            Self::Library => "hythe/c-library",
        })
    }
}

fn tables() -> Result<u64, BenchError> {
    let name = format!("{}-tables", pool::pool_name());
    let pool = BenchPool::make_with(&PoolOptions::new(&name).bytes(POOL_BYTES))?;
    let control = pool.pool().path().join("control");
    Ok(std::fs::metadata(control)?.size())
}

/// A process of its own, which has no memory of other participants.
fn idle_node() -> Result<u64, BenchError> {
    let pool = BenchPool::make_plain(&format!("{}-idle", pool::pool_name()))?;
    let mut command = Command::new(std::env::current_exe()?);
    command.args(["idle-node", "--pool", pool.name()]);
    let printed = starter::output(&mut command, BOUND)?;
    let number = printed.trim().parse();
    number.map_err(|_| BenchError::PeerLost(format!("it printed {printed:?}, which is no number")))
}

/// What the process that idles is told.
#[derive(Debug, Args)]
pub(crate) struct IdleNodeArguments {
    /// The pool to join
    #[arg(long)]
    pool: String,
}

/// Joins, idles, and prints how much more private memory the process has then.
pub(crate) fn idle(arguments: &IdleNodeArguments) -> Result<(), BenchError> {
    let root = hythe_node::default_root();
    // The first look has costs of its own.
    private_bytes(&root)?;
    let before = private_bytes(&root)?;
    let pool = Pool::open(&PoolOptions::new(&arguments.pool))?;
    let node = Node::join(&pool, "idle")?;
    std::thread::sleep(IDLE);
    let after = private_bytes(&root)?;
    drop(node);
    writeln!(std::io::stdout(), "{}", after.saturating_sub(before))?;
    Ok(())
}

/// Resident memory of this process that no other shares, without what lies below `shared`: a page
/// of a pool counts as private while nobody else has touched it.
fn private_bytes(shared: &Path) -> Result<u64, BenchError> {
    let mappings = std::fs::read_to_string("/proc/self/smaps")?;
    Ok(private_of(&mappings, &shared.to_string_lossy()))
}

/// As proc_pid_smaps(5) says.
fn private_of(mappings: &str, shared: &str) -> u64 {
    let (mut kib, mut counts) = (0, false);
    for line in mappings.lines() {
        let mut words = line.split_ascii_whitespace();
        match words.next() {
            Some("Private_Clean:" | "Private_Dirty:") if counts => {
                kib += words.next().and_then(|kib| kib.parse().ok()).unwrap_or(0);
            }
            // A line of a mapping begins with its addresses and ends with its path.
            Some(first) if !first.ends_with(':') => {
                counts = !words.nth(4).is_some_and(|path| path.starts_with(shared));
            }
            _ => {}
        }
    }
    kib * 1024
}

/// The library that was built with this program.
fn library(name: &str) -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let found = own.with_file_name(name);
    match found.is_file() {
        true => Ok(found),
        false => Err(format!(
            "no {name} beside this program: `cargo build --release -p hythe-c`"
        )),
    }
}

/// A stripped program of this source, linked with a library of ours and these of the system.
fn program_bytes(source: &str, library: &Path, system: &[&str]) -> Result<u64, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let files = [("publishes.c", source), ("hythe.h", HEADER)];
    let include = format!("-I{}", folder.path().display());
    let library = library.to_string_lossy();
    let mut options = vec![include.as_str(), "-Wl,--gc-sections", "-s", &library];
    options.extend(system);
    let program = Program {
        name: "publishes",
        files: &files,
        options: &options,
    };
    starter::compile("cc", &program, folder.path())?;
    size_of(&folder.path().join(program.name))
}

fn stripped_bytes(library: &Path) -> Result<u64, String> {
    let folder = tempfile::tempdir().map_err(|error| error.to_string())?;
    let stripped = folder.path().join("stripped");
    let mut strip = Command::new("strip");
    strip.arg("-o").arg(&stripped).arg(library);
    let status = strip.stdin(Stdio::null()).status();
    match status {
        Ok(status) if status.success() => size_of(&stripped),
        Ok(status) => Err(format!("strip: {status}")),
        Err(error) => Err(format!("strip: {error}")),
    }
}

fn size_of(path: &Path) -> Result<u64, String> {
    let found = std::fs::metadata(path).map_err(|error| error.to_string())?;
    Ok(found.size())
}

#[cfg(test)]
mod tests {
    use super::*;

    const SMAPS: &str = "\
5590dec7b000-5590dec7d000 r--p 00000000 fe:00 247026                     /usr/bin/cat
Size:                  8 kB
Private_Clean:         8 kB
Private_Dirty:         4 kB
VmFlags: rd mr mw me
7f0000000000-7f0000100000 rw-s 00000000 00:19 12                         /dev/shm/hythe/0/p/control
Private_Clean:         0 kB
Private_Dirty:       400 kB
7f1000000000-7f1000100000 rw-p 00000000 00:00 0
Private_Clean:         0 kB
Private_Dirty:        20 kB
";

    #[test]
    fn pages_of_pools_are_nobodys_private_memory() {
        assert_eq!(private_of(SMAPS, "/dev/shm/hythe"), 32 << 10);
        assert_eq!(private_of(SMAPS, "/elsewhere"), 432 << 10);
    }

    #[test]
    fn private_memory_is_seen_once_it_is_touched() {
        let before = private_bytes(Path::new("/dev/shm")).expect("looked");
        let touched = vec![1_u8; 8 << 20];
        let after = private_bytes(Path::new("/dev/shm")).expect("looked");
        assert!(touched.iter().all(|&byte| byte == 1));
        assert!(after >= before + (4 << 20), "{before} {after}");
    }

    #[test]
    fn program_reports_file_size_or_reason() {
        let own = std::env::current_exe().expect("this");
        let nothing = own.with_file_name("no-such-library.a");
        assert!(program_bytes("int main(void) { return 0; }", &nothing, &[]).is_err());
        let folder = tempfile::tempdir().expect("a folder");
        let empty = folder.path().join("libempty.a");
        let made = Command::new("ar").arg("rc").arg(&empty).status();
        assert!(made.expect("ar runs").success());
        let bytes = program_bytes("int main(void) { return 0; }", &empty, &[]);
        assert!((1_000..100_000).contains(&bytes.expect("built")));
    }
}

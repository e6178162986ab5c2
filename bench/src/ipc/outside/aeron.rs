//! Aeron IPC, which is Java: two virtual machines, the media driver in that which measures.

use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::Duration;

use super::{Exchange, Pair, pattern_word};
use crate::error::BenchError;
use crate::starter::{self, installed};

const CLASS: &str = "AeronPeer";
const SOURCE: &str = include_str!("../../../peers/AeronPeer.java");
/// Where `scripts/bench-peers.sh` puts it, beside the folder of this program.
const LIBRARY: &str = "peers/aeron-all.jar";
const COMPILING: Duration = Duration::from_secs(60);
/// What the library asks for, and what its own benchmarks switch off.
const OPTIONS: [&str; 6] = [
    "--add-opens",
    "java.base/sun.nio.ch=ALL-UNNAMED",
    "--add-opens",
    "java.base/jdk.internal.misc=ALL-UNNAMED",
    "-Dagrona.disable.bounds.checks=true",
    "-XX:+UseSerialGC",
];

/// Compiles the peer.
pub(super) fn prepare(folder: &Path) -> Result<(), String> {
    let compiler = installed("javac", "openjdk-17-jdk-headless")?;
    let library = library()?;
    let source = folder.join(CLASS).with_extension("java");
    std::fs::write(&source, SOURCE).map_err(|error| error.to_string())?;
    let mut command = Command::new(compiler);
    command.arg("-cp").arg(library).arg("-d").arg(folder);
    let done = starter::output(command.arg(source), COMPILING);
    done.map(drop).map_err(|error| error.to_string())
}

fn library() -> Result<PathBuf, String> {
    let own = std::env::current_exe().map_err(|error| error.to_string())?;
    let mut folders = own.ancestors().skip(2);
    let found = folders.next().map(|folder| folder.join(LIBRARY));
    found
        .filter(|path| path.is_file())
        .ok_or_else(|| format!("{LIBRARY} is missing (scripts/bench-peers.sh fetches it)"))
}

/// `shared`: in memory, where the library keeps its files by default.
pub(super) fn commands(
    folder: &Path,
    shared: &Path,
    exchange: &Exchange,
) -> Result<Pair, BenchError> {
    let library = library().map_err(BenchError::Unable)?;
    let class_path = format!("{}:{}", library.display(), folder.display());
    let place = shared.join("aeron");
    let sides = [("near", 0), ("far", 1)].map(|(side, index)| {
        let mut command = match exchange.cpus {
            Some(cpus) => {
                let mut command = Command::new("taskset");
                command.args(["-c", &cpus[index].to_string(), "java"]);
                command
            }
            None => Command::new("java"),
        };
        command
            .args(OPTIONS)
            .args(["-cp", &class_path, CLASS, side]);
        command.arg(pattern_word(exchange)).args(exchange.plan());
        command.arg(&place);
        command
    });
    Ok(sides)
}

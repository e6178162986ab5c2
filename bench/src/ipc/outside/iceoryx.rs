//! iceoryx, the C++ library, and Cyclone DDS, whose shared memory is iceoryx': two processes each,
//! and RouDi.

use std::path::{Path, PathBuf};
use std::process::Command;

use super::{Exchange, Pair, pattern_word};
use crate::lookout::SILENCE_BOUND;
use crate::starter::{self, EXCHANGE, Program, installed};

const HEADERS: &str = "/usr/include/iceoryx";
const PEER: &str = "iceoryx-peer";
const SOURCE: (&str, &str) = (
    "iceoryx_peer.cpp",
    include_str!("../../../peers/iceoryx_peer.cpp"),
);
const LIBRARIES: [&str; 3] = ["-liceoryx_posh", "-liceoryx_hoofs", "-liceoryx_platform"];
const DDS_SOURCE: (&str, &str) = ("dds_peer.c", include_str!("../../../peers/dds_peer.c"));
const DDS_MESSAGE: (&str, &str) = (
    "dds_message.idl",
    include_str!("../../../peers/dds_message.idl"),
);
/// Shared memory, and no network but this host's own.
const DDS_CONFIGURATION: &str = "<CycloneDDS><Domain>\
    <General><Interfaces><NetworkInterface name=\"lo\"/></Interfaces>\
    <AllowMulticast>false</AllowMulticast></General>\
    <Discovery><ParticipantIndex>auto</ParticipantIndex>\
    <Peers><Peer address=\"127.0.0.1\"/></Peers></Discovery>\
    <SharedMemory><Enable>true</Enable><LogLevel>fatal</LogLevel></SharedMemory>\
    </Domain></CycloneDDS>";
/// A domain's ports are 250 apart, and the last of them must be one.
const DDS_DOMAINS: u32 = 200;

/// Compiles the peer.
pub(super) fn prepare(folder: &Path) -> Result<(), String> {
    let headers = headers()?;
    let include = format!("-I{}", headers.display());
    let mut options = vec![include.as_str()];
    options.extend(LIBRARIES);
    let program = Program {
        name: PEER,
        files: &[SOURCE, EXCHANGE],
        options: &options,
    };
    starter::compile("g++", &program, folder)
}

/// They lie below the version's name.
fn headers() -> Result<PathBuf, String> {
    let versions = std::fs::read_dir(HEADERS).into_iter().flatten().flatten();
    let mut found = versions
        .map(|version| version.path())
        .filter(|path| path.join("iceoryx_posh").is_dir());
    found
        .next()
        .ok_or_else(|| format!("{HEADERS} is not there (package libiceoryx-posh-dev)"))
}

pub(super) fn commands(folder: &Path, exchange: &Exchange) -> Pair {
    let [near_cpu, far_cpu] = exchange.cpu_words();
    [("near", near_cpu), ("far", far_cpu)].map(|(side, cpu)| {
        let mut command = Command::new(folder.join(PEER));
        command.arg(side).arg(pattern_word(exchange));
        command.args(exchange.plan()).arg(cpu);
        command
    })
}

/// Compiles the peer for messages of this size, unless that is done: only samples of a fixed size
/// are loaned.
pub(super) fn prepare_dds(folder: &Path, size: usize) -> Result<(), String> {
    let compiler = installed("idlc", "cyclonedds-tools")?;
    if !Path::new("/usr/include/dds/dds.h").is_file() {
        return Err("dds.h is not installed (package cyclonedds-dev)".to_owned());
    }
    let folder = dds_folder(folder, size);
    let written = std::fs::create_dir_all(&folder)
        .and_then(|()| std::fs::write(folder.join(DDS_MESSAGE.0), DDS_MESSAGE.1));
    written.map_err(|error| error.to_string())?;
    if !folder.join("dds_message.h").is_file() {
        let mut translate = Command::new(compiler);
        translate.arg(format!("-DSIZE={size}")).arg(DDS_MESSAGE.0);
        translate.current_dir(&folder);
        starter::output(&mut translate, SILENCE_BOUND).map_err(|error| error.to_string())?;
    }
    let message = folder.join("dds_message.c");
    let message = message.to_string_lossy();
    let program = Program {
        name: "dds-peer",
        files: &[DDS_SOURCE, EXCHANGE],
        options: &[&message, "-lddsc"],
    };
    starter::compile("cc", &program, &folder)
}

fn dds_folder(folder: &Path, size: usize) -> PathBuf {
    folder.join(format!("dds-{size}"))
}

pub(super) fn dds_commands(folder: &Path, exchange: &Exchange) -> Pair {
    let [near_cpu, far_cpu] = exchange.cpu_words();
    let domain = std::process::id() % DDS_DOMAINS;
    [("near", near_cpu), ("far", far_cpu)].map(|(side, cpu)| {
        let mut command = Command::new(dds_folder(folder, exchange.size).join("dds-peer"));
        command.arg(side).arg(pattern_word(exchange));
        command.args(exchange.plan()).arg(cpu);
        command.arg(domain.to_string());
        command.env("CYCLONEDDS_URI", DDS_CONFIGURATION);
        command
    })
}

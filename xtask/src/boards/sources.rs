//! What an image is made of: which files, in whose name, with which flags.
//!
//! Our own code is compiled with warnings as errors, third-party code without warnings: it is not
//! ours to change.

use super::codecs::Codecs;
use super::compile::{LINK_TIME, Unit};
use super::folders::{c_paths, folder_of, include, system_include, text};
use super::manifest::Board;
use crate::metadata::Metadata;
use std::path::{Path, PathBuf};

/// Files of the FreeRTOS kernel that every image needs; mutexes are in `queue.c`.
const KERNEL: [&str; 3] = ["tasks.c", "list.c", "queue.c"];

/// Both sides of an exact comparison of samples are built with these
/// (`rtos/apps/decoder/README.md`).
const EXACT: &str = "-ffp-contract=off";

/// For programs that run on Linux, whatever they read: an overflow ends them, addresses are chosen
/// anew at each start, and what the linker fills in is read-only from then on. Debian builds its
/// own programs so.
const HARDENED: [&str; 5] = [
    "-fstack-protector-strong",
    "-fstack-clash-protection",
    "-U_FORTIFY_SOURCE",
    "-D_FORTIFY_SOURCE=2",
    "-fPIE",
];
/// The same for linking them.
const HARDENED_LINK: [&str; 5] = [
    "-pie",
    "-Wl,-z,relro",
    "-Wl,-z,now",
    "-Wl,-z,noexecstack",
    "-O2",
];

/// The program that decodes sound and picture.
const PLAYER: &str = "player";
/// A decoder between endpoints.
const MP3_OVER_HYTHE: &str = "codecs/mp3/decode.c";

/// Programs that are built with `rtos/transports/vring`: what Hythe is compared with.
const COPYING: [&str; 2] = ["bench", PLAYER];
const VRING: &str = "transports/vring";

/// A program that decodes MP3 and nothing else, as the reference decoder does.
const MP3_PROGRAM: &str = "decoder";

/// Where the pinned crates were unpacked.
pub(super) struct Vendor {
    kernel: PathBuf,
    codecs: Codecs,
}

impl Vendor {
    /// Finds the third-party sources among the packages of `rtos/vendor`.
    pub(super) fn find(metadata: &Metadata) -> Result<Self, String> {
        Ok(Self {
            kernel: folder_of(metadata, "freertos-next", "FreeRTOS-Kernel")?,
            codecs: Codecs::find(metadata)?,
        })
    }

    /// What is built names no directory of the machine it is built on.
    fn path_maps(&self, root: &Path) -> Vec<String> {
        // Where cargo unpacks crates, this one among them.
        let crates = self.kernel.ancestors().nth(2).unwrap_or(&self.kernel);
        let map = |from: &Path, to: &str| format!("-ffile-prefix-map={}={to}", text(from));
        vec![map(root, "rtos"), map(crates, "vendor")]
    }
}

/// Flags behind the objects when a program for Linux is linked.
pub(super) fn hardened_link_flags() -> Vec<String> {
    HARDENED_LINK.map(String::from).into()
}

/// Flags for compiling any file of an image; `more` are those of a variant.
pub(super) fn board_flags(
    root: &Path,
    vendor: &Vendor,
    folder: &Path,
    board: &Board,
    app: &str,
    more: &[String],
) -> Vec<String> {
    let mut flags = board.build.flags.clone();
    flags.extend_from_slice(more);
    if !board.build.freestanding {
        flags.extend(HARDENED.map(String::from));
    }
    let said = flags.join(" ");
    if board.build.freestanding {
        flags.push("-ffreestanding".into());
        flags.extend(system_include(&root.join("freestanding")));
    }
    for ours in ["boards", "include", "port", "port/freertos"] {
        flags.extend(include(&root.join(ours)));
    }
    flags.extend(include(folder));
    for shared in &board.build.include {
        flags.extend(include(&folder.join(shared)));
    }
    flags.extend(include(&root.join("apps").join(app)));
    flags.extend(system_include(&vendor.kernel.join("include")));
    for port in &board.build.freertos.include {
        flags.extend(system_include(&vendor.kernel.join(port)));
    }
    flags.extend(vendor.codecs.flags(root, app));
    if COPYING.contains(&app) {
        flags.extend(include(&root.join(VRING)));
    }
    flags.extend(vendor.path_maps(root));
    // Programs that measure say on what, and with which flags they were built.
    flags.push(format!("-DBOARD_NAME=\"{}\"", board.name));
    flags.push(format!("-DBOARD_FLAGS=\"{said}\""));
    flags
}

/// Flags for compiling a file of the library alone, as small as can be, as for the board.
pub(super) fn library_flags(root: &Path, board: &Board) -> Vec<String> {
    let mut flags = board.build.flags.clone();
    flags.extend(["-Os".into(), "-ffreestanding".into()]);
    flags.extend(system_include(&root.join("freestanding")));
    for ours in ["include", "port"] {
        flags.extend(include(&root.join(ours)));
    }
    flags
}

/// Flags for compiling a file of the port for FreeRTOS alone, as small as can be.
pub(super) fn port_flags(root: &Path, vendor: &Vendor, board: &Board) -> Vec<String> {
    let folder = root.join("boards").join(&board.name);
    let app = board.build.apps.first().map_or("", String::as_str);
    board_flags(root, vendor, &folder, board, app, &["-Os".into()])
}

/// Flags behind the objects when an image is linked.
pub(super) fn board_link_flags(folder: &Path, board: &Board) -> Vec<String> {
    let mut flags = board.build.flags.clone();
    flags.push(LINK_TIME.into());
    if board.build.freestanding {
        flags.push("-nostdlib".into());
        flags.push("-nostartfiles".into());
    } else {
        flags.extend(HARDENED_LINK.map(String::from));
    }
    if let Some(script) = &board.build.linker_script {
        flags.push("-T".into());
        flags.push(text(&folder.join(script)));
    }
    flags.extend(board.build.link_flags.iter().cloned());
    flags
}

/// All files of an image.
pub(super) fn board_units(
    root: &Path,
    vendor: &Vendor,
    folder: &Path,
    board: &Board,
    app: &str,
) -> Result<Vec<Unit>, String> {
    let mut units = Vec::new();
    for source in &board.build.sources {
        units.push(Unit::ours(folder.join(source)));
    }
    let own = format!("apps/{app}");
    let mut folders = vec!["src", "port/freertos", &own];
    if COPYING.contains(&app) {
        folders.push(VRING);
    }
    for folder in folders {
        let files = c_files(&root.join(folder))?;
        units.extend(files.into_iter().map(Unit::at_link_time));
    }
    units.extend(vendor.codecs.units(root, app)?);
    if board.build.freestanding {
        units.extend(c_files(&root.join("freestanding"))?);
    }
    for file in KERNEL {
        units.push(Unit::third_party(vendor.kernel.join(file)));
    }
    for file in &board.build.freertos.sources {
        units.push(Unit::third_party(vendor.kernel.join(file)));
    }
    Ok(units)
}

/// Flags for the reference decoder.
pub(super) fn reference_flags(root: &Path, vendor: &Vendor) -> Vec<String> {
    let mut flags: Vec<String> = ["-std=c11", "-O2", "-g", EXACT].map(String::from).into();
    flags.extend(HARDENED.map(String::from));
    flags.extend(vendor.path_maps(root));
    flags.extend(vendor.codecs.flags(root, MP3_PROGRAM));
    flags
}

/// Files of the reference decoder; it shares minimp3's translation unit with the image.
pub(super) fn reference_units(root: &Path) -> Result<Vec<Unit>, String> {
    let mut units = c_files(&root.join("apps/reference"))?;
    units.push(Unit::ours(root.join("codecs/mp3/mp3.c")));
    Ok(units)
}

/// Flags for the program that decodes on Linux what `player` does on a core.
pub(super) fn host_player_flags(root: &Path, vendor: &Vendor) -> Vec<String> {
    let mut flags: Vec<String> = ["-std=c11", "-O2", "-g", EXACT].map(String::from).into();
    flags.extend(HARDENED.map(String::from));
    flags.extend(vendor.path_maps(root));
    flags.extend(vendor.codecs.flags(root, PLAYER));
    flags
}

/// Files of that program: of the decoders those that know nothing of Hythe.
pub(super) fn host_player_units(root: &Path, vendor: &Vendor) -> Result<Vec<Unit>, String> {
    let mut units = c_files(&root.join("apps/host-player"))?;
    let decoders = vendor.codecs.units(root, PLAYER)?.into_iter();
    units.extend(decoders.filter(|unit| !unit.is(&root.join(MP3_OVER_HYTHE))));
    Ok(units)
}

/// The C files of a folder.
fn c_files(folder: &Path) -> Result<Vec<Unit>, String> {
    Ok(c_paths(folder)?.into_iter().map(Unit::ours).collect())
}

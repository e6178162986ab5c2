//! `cargo xtask boards [BOARD…]`: builds the images of `rtos/boards/*/board.toml` into
//! `<target>/boards/<board>/`, and what decodes on this host: the reference decoder into
//! `<target>/boards/reference/`, `host-player` into `<target>/boards/host/`.
//!
//! Called by the Makefile before anything runs a core. A second run finds everything fresh and
//! compiles nothing. Third-party sources (FreeRTOS, minimp3, h264bsd) come from the crates that
//! `rtos/vendor/Cargo.toml` pins; they are never changed. Never runs a board: that is the agent's
//! work.

mod codecs;
mod compile;
mod folders;
mod manifest;
pub(crate) mod sizes;
mod sources;

use crate::metadata::Metadata;
use compile::{Compiler, Program};
use manifest::Board;
use sources::Vendor;
use std::fs;
use std::path::{Path, PathBuf};
use std::sync::Mutex;

/// What is built by itself.
type Job<'a> = Box<dyn FnOnce() -> Result<(), String> + Send + 'a>;

/// Name of the folder, beside those of the boards, that takes the reference decoder.
const REFERENCE: &str = "reference";
/// The same for `host-player`.
const HOST: &str = "host";

/// Builds the named boards, or all, and what decodes on this host.
pub(crate) fn run(names: &[String]) -> Result<(), String> {
    let root = Path::new(env!("CARGO_MANIFEST_DIR")).with_file_name("rtos");
    let vendor = Vendor::find(&Metadata::load_manifest(&root.join("vendor/Cargo.toml"))?)?;
    let out = target_directory(&root).join("boards");
    let known = board_names(&root)?;
    if let Some(unknown) = names
        .iter()
        .find(|name| !known.contains(name) && ![REFERENCE, HOST].contains(&name.as_str()))
    {
        return Err(format!(
            "there is no board {unknown}; rtos/boards has: {}",
            known.join(", ")
        ));
    }
    let (root, vendor, out) = (&root, &vendor, &out);
    let chosen = known
        .iter()
        .filter(|name| names.is_empty() || names.contains(name));
    let boards =
        chosen.map(|name| -> Job<'_> { Box::new(|| build_board(root, vendor, out, name)) });
    let mut jobs: Vec<Job<'_>> = boards.collect();
    jobs.push(Box::new(|| build_reference(root, vendor, out)));
    jobs.push(Box::new(|| build_host_player(root, vendor, out)));
    side_by_side(jobs)
}

/// As many at once as there are CPUs. After a failure no more are begun where it was.
fn side_by_side(jobs: Vec<Job<'_>>) -> Result<(), String> {
    let cpus = std::thread::available_parallelism().map_or(1, usize::from);
    let queue = Mutex::new(jobs.into_iter());
    let next = || queue.lock().expect("nothing panics with it").next();
    std::thread::scope(|scope| {
        let work = || std::iter::from_fn(next).try_for_each(|job| job());
        let workers: Vec<_> = (0..cpus).map(|_| scope.spawn(work)).collect();
        let mut ended = workers.into_iter().map(|worker| worker.join());
        ended.try_for_each(|outcome| outcome.expect("nothing panics"))
    })
}

/// Folders of `rtos/boards` that hold a `board.toml`, sorted.
fn board_names(root: &Path) -> Result<Vec<String>, String> {
    let boards = root.join("boards");
    let entries =
        fs::read_dir(&boards).map_err(|error| format!("{}: {error}", boards.display()))?;
    let mut names: Vec<String> = entries
        .filter_map(Result::ok)
        .filter(|entry| entry.path().join("board.toml").is_file())
        .map(|entry| entry.file_name().to_string_lossy().into_owned())
        .collect();
    names.sort();
    Ok(names)
}

/// Where cargo puts what it builds, so that images lie beside programs.
fn target_directory(root: &Path) -> PathBuf {
    std::env::var_os("CARGO_TARGET_DIR")
        .map_or_else(|| root.with_file_name("target"), PathBuf::from)
}

fn build_board(root: &Path, vendor: &Vendor, out: &Path, name: &str) -> Result<(), String> {
    let folder = root.join("boards").join(name);
    let manifest = folder.join("board.toml");
    let board = Board::read(&manifest)?;
    if board.name != name {
        return Err(format!(
            "{}: name is {}, the folder is {name}",
            manifest.display(),
            board.name
        ));
    }
    let images = out.join(name);
    let compiler = Compiler::new(&board.build.prefix, &board.build.package)?;
    for app in &board.build.apps {
        let program = |name: &str, more: &[String]| {
            Ok::<_, String>(Program {
                objects: images.join("objects").join(name),
                image: images.join(format!("{name}.elf")),
                flags: sources::board_flags(root, vendor, &folder, &board, app, more),
                link_flags: sources::board_link_flags(&folder, &board),
                units: sources::board_units(root, vendor, &folder, &board, app)?,
            })
        };
        compiler.build(&program(app, board.build.flags_of(app))?)?;
        if let Some(flags) = board.build.guest_flags_of(app) {
            let program = program(&format!("{app}-guest"), &flags)?;
            compiler.build(&program)?;
            compile::flatten(&board.build.prefix, &program.image)?;
        }
    }
    let copy = images.join("board.toml");
    fs::copy(&manifest, &copy)
        .map(drop)
        .map_err(|error| format!("{}: {error}", copy.display()))
}

fn build_reference(root: &Path, vendor: &Vendor, out: &Path) -> Result<(), String> {
    let folder = out.join(REFERENCE);
    let program = Program {
        objects: folder.join("objects"),
        image: folder.join("decode-reference"),
        flags: sources::reference_flags(root, vendor),
        link_flags: sources::hardened_link_flags(),
        units: sources::reference_units(root)?,
    };
    Compiler::new("", "gcc")?.build(&program)
}

fn build_host_player(root: &Path, vendor: &Vendor, out: &Path) -> Result<(), String> {
    let folder = out.join(HOST);
    // Its decoders are compiled as for a core, to be optimised when they are linked.
    let mut link_flags = sources::hardened_link_flags();
    link_flags.push(compile::LINK_TIME.into());
    let program = Program {
        objects: folder.join("objects"),
        image: folder.join("host-player"),
        flags: sources::host_player_flags(root, vendor),
        link_flags,
        units: sources::host_player_units(root, vendor)?,
    };
    Compiler::new("", "gcc")?.build(&program)
}

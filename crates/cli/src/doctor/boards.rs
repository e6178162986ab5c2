//! RTOS cores and other programs that commands start: emulators, compilers, built boards, ffmpeg,
//! and the library of the player's window.

use std::fs;
use std::path::{Path, PathBuf};

use hythe_terminal::escaped;

use super::command::{Outcome, run};
use super::{Group, Probe};
use crate::program::find;

/// A program, what it is for, its Debian package, and how it is asked for its version.
struct Program {
    name: &'static str,
    purpose: &'static str,
    package: &'static str,
    version: &'static str,
    group: Group,
}

const fn board_program(
    name: &'static str,
    purpose: &'static str,
    package: &'static str,
) -> Program {
    Program {
        name,
        purpose,
        package,
        version: "--version",
        group: Group::Boards,
    }
}

const PROGRAMS: [Program; 9] = [
    board_program(
        "qemu-system-arm",
        "Cortex-M and Cortex-A9 boards",
        "qemu-system-arm",
    ),
    board_program(
        "qemu-system-aarch64",
        "64-bit Arm boards",
        "qemu-system-arm",
    ),
    board_program("qemu-system-riscv64", "RISC-V boards", "qemu-system-misc"),
    board_program("qemu-system-i386", "x86 boards", "qemu-system-x86"),
    board_program("gcc", "the hosted board", "gcc"),
    board_program(
        "arm-none-eabi-gcc",
        "images for Cortex-M and Cortex-A9",
        "gcc-arm-none-eabi",
    ),
    board_program(
        "aarch64-linux-gnu-gcc",
        "images for 64-bit Arm",
        "gcc-aarch64-linux-gnu",
    ),
    board_program(
        "riscv64-unknown-elf-gcc",
        "images for RISC-V",
        "gcc-riscv64-unknown-elf",
    ),
    Program {
        name: "ffmpeg",
        purpose: "receives the stream of the demo",
        package: "ffmpeg",
        version: "-version",
        group: Group::Programs,
    },
];

pub(super) fn probe() -> Vec<Probe> {
    let mut probes = images();
    probes.extend(PROGRAMS.iter().map(program));
    probes.push(window());
    probes
}

/// The library of the player's window, opened as the player does, and the display.
fn window() -> Probe {
    let (group, name) = (Group::Programs, "SDL2");
    match hythe_screen::version() {
        Ok(version) => {
            let display = hythe_screen::display();
            let display = display.unwrap_or_else(|| "no display is named".to_owned());
            let detail = format!("{version} (the player's window; {})", escaped(&display));
            Probe::works(group, name, detail)
        }
        Err(error) => {
            let detail = format!("the player opens no window: {error}");
            Probe::missing(group, name, detail).enable("apt-get install libsdl2-2.0-0")
        }
    }
}

fn program(program: &Program) -> Probe {
    let Program {
        name,
        purpose,
        package,
        version,
        group,
    } = *program;
    let how = format!("apt-get install {package}");
    let Some(path) = find(name) else {
        return Probe::missing(group, name, format!("not installed ({purpose})")).enable(how);
    };
    // By its full path: what was found is what is asked.
    let path = path.to_string_lossy();
    match run(&path, &[version]) {
        Outcome::Succeeded(line) => Probe::works(group, name, format!("{line} ({purpose})")),
        Outcome::Failed(line) => {
            Probe::missing(group, name, format!("{path} fails: {line}")).enable(how)
        }
        Outcome::NotStarted => {
            Probe::missing(group, name, format!("{path} does not start")).enable(how)
        }
        Outcome::TimedOut => Probe::unknown(group, name, format!("{path} does not end in time")),
    }
}

/// The boards that were built.
fn images() -> Vec<Probe> {
    let group = Group::Boards;
    let how = "cargo xtask boards";
    let Some(folder) = folder() else {
        return vec![
            Probe::missing(
                group,
                "board images",
                "no folder boards/ beside this program",
            )
            .enable(how),
        ];
    };
    let found = images_in(&folder);
    if found.is_empty() {
        let detail = format!("none in {}", escaped(&folder));
        return vec![Probe::missing(group, "board images", detail).enable(how)];
    }
    found
}

/// Where built boards lie: the first folder there is of those that `hythe core` looks into.
fn folder() -> Option<PathBuf> {
    if let Some(folder) = hythe_sys::environment::variable("HYTHE_BOARDS") {
        return Some(folder.into());
    }
    let places = hythe::core::search_path();
    places.into_iter().find(|path| path.is_dir())
}

fn images_in(folder: &Path) -> Vec<Probe> {
    let mut probes: Vec<Probe> = entries(folder)
        .into_iter()
        .filter(|board| board.join("board.toml").is_file())
        .filter_map(|board| {
            let name = format!("board {}", board.file_name()?.to_str()?);
            let images = entries(&board).into_iter().filter(|file| {
                file.extension().is_some_and(|extension| extension == "elf") && file.is_file()
            });
            let images: Vec<String> = images
                .filter_map(|image| Some(image.file_stem()?.to_str()?.to_owned()))
                .collect();
            Some(if images.is_empty() {
                Probe::missing(
                    Group::Boards,
                    name,
                    format!("no image in {}", escaped(&board)),
                )
                .enable("cargo xtask boards")
            } else {
                Probe::works(Group::Boards, name, format!("built: {}", images.join(", ")))
            })
        })
        .collect();
    probes.sort_by(|one, other| one.name.cmp(&other.name));
    probes
}

/// What lies in `folder`; nothing if it cannot be read.
fn entries(folder: &Path) -> Vec<PathBuf> {
    let Ok(entries) = fs::read_dir(folder) else {
        return Vec::new();
    };
    entries
        .filter_map(|entry| Some(entry.ok()?.path()))
        .collect()
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn built_and_unbuilt_boards_are_told_apart() {
        let folder = std::env::temp_dir().join(format!("hythe-boards-{}", std::process::id()));
        for file in [
            "built/board.toml",
            "built/decoder.elf",
            "unbuilt/board.toml",
            "other/x",
        ] {
            let path = folder.join(file);
            fs::create_dir_all(path.parent().unwrap()).unwrap();
            fs::write(path, "").unwrap();
        }
        let probes = images_in(&folder);
        fs::remove_dir_all(&folder).unwrap();
        let found: Vec<_> = probes
            .iter()
            .map(|probe| (probe.name.as_str(), probe.status))
            .collect();
        assert_eq!(
            found,
            [
                ("board built", Status::Works),
                ("board unbuilt", Status::Missing)
            ]
        );
    }

    #[test]
    fn program_that_is_not_there_names_its_package() {
        let absent = board_program("hythe-no-such-program", "nothing", "hythe-none");
        let probe = program(&absent);
        assert_eq!(probe.status, Status::Missing);
        assert_eq!(probe.enable.as_deref(), Some("apt-get install hythe-none"));
    }
}

//! The emulated board: QEMU's command line, and what the kernel's command line tells the programs
//! in `bench/guest`.
//!
//! Stands for the board of the paper: one CPU, 128 MB, NAND from which about 2 MB/s reach memory
//! while the CPU waits. Times on it are for comparing ways with each other, never a claim about
//! hardware.

use std::path::Path;
use std::process::Command;

use super::case::{FileSystem, Way};
use super::guest::Guest;
use super::image::{Content, FILE, Image, MOUNT, PACK};
use crate::error::BootError;

const EMULATOR: &str = "qemu-system-x86_64";
/// As the paper's.
pub(crate) const MEMORY: &str = "128M";
/// Microseconds until a page of the chip can be read, and nanoseconds for each of its bytes: 2 MB/s
/// through UBIFS.
const ACCESS_DELAY_US: u32 = 25;
const INPUT_CYCLE_NS: u32 = 150;
/// What the virtual disk gives.
const DISK_BYTES_PER_SECOND: u32 = 2 << 20;
/// Reads of the bound in one boot, each from an empty page cache. The first is the bound; the next
/// show what the file system itself has to do once per boot.
pub(crate) const BOUND_READS: usize = 2;

/// The real program, and its one argument: it loads some thirty shared libraries, says who it is,
/// and ends.
const PROGRAM: [&str; 2] = ["/usr/bin/curl", "--version"];

/// One boot.
#[derive(Debug)]
pub(crate) struct Boot<'a> {
    pub(crate) guest: &'a Guest,
    pub(crate) image: &'a Image,
    pub(crate) way: Way,
    /// Instead of a run: what the program needs is recorded.
    pub(crate) recorder: Option<Recorder<'a>>,
}

/// The disks of a recording.
#[derive(Debug)]
pub(crate) struct Recorder<'a> {
    /// The program that records.
    pub(crate) program: &'a Path,
    /// Where it puts the pack.
    pub(crate) output: &'a Path,
}

impl Boot<'_> {
    /// From `AAA` to `BBB`, how often?
    pub(crate) const fn runs(&self) -> usize {
        match (&self.recorder, self.way) {
            (Some(_), _) => 0,
            (None, Way::Bound) => BOUND_READS,
            (None, _) => 1,
        }
    }

    /// Bytes that each run reads, if it says so.
    pub(crate) const fn bytes(&self) -> Option<u64> {
        match self.image.content {
            Content::File(bytes) => Some(bytes as u64),
            Content::Application => None,
        }
    }

    /// QEMU, its serial line on standard output.
    pub(crate) fn command(&self) -> Result<Command, BootError> {
        let mut command = Command::new(EMULATOR);
        command
            // Without KVM everywhere, so that figures are of one kind. This machine has a timer
            // (HPET) with which Linux finds the speed of the CPU's clock also when the host is
            // busy; without one it hangs then.
            .args(["-accel", "tcg,thread=single", "-machine", "pc"])
            .args(["-m", MEMORY, "-smp", "1", "-nodefaults", "-no-user-config"])
            .args(["-display", "none", "-monitor", "none", "-nic", "none"])
            .args(["-serial", "stdio", "-no-reboot"])
            .arg("-kernel")
            .arg(&self.guest.kernel)
            .arg("-initrd")
            .arg(path_for_qemu(&self.guest.initramfs)?)
            .args(["-drive", &self.drive()?])
            // Neighbouring requests are not made one, which would pass the throttle at once as long
            // as nothing was read before.
            .args(["-device", "virtio-blk-pci,drive=flash,request-merging=off"])
            .args(["-append", &self.kernel_arguments()]);
        if let Some(Recorder { program, output }) = &self.recorder {
            // In this order: they are the second and the third disk.
            let program = path_for_qemu(program)?;
            let output = path_for_qemu(output)?;
            command
                .arg("-drive")
                .arg(format!(
                    "if=none,id=program,format=raw,readonly=on,file={program}"
                ))
                .args(["-device", "virtio-blk-pci,drive=program", "-drive"])
                .arg(format!("if=none,id=output,format=raw,file={output}"))
                .args(["-device", "virtio-blk-pci,drive=output"]);
        }
        Ok(command)
    }

    fn drive(&self) -> Result<String, BootError> {
        let path = path_for_qemu(&self.image.path)?;
        let drive = format!("if=none,id=flash,format=raw,readonly=on,file={path}");
        Ok(if self.image.file_system.is_on_nand() {
            drive
        } else {
            format!("{drive},throttling.bps-read={DISK_BYTES_PER_SECOND}")
        })
    }

    /// What the kernel does not know itself becomes the environment of the first program, and of
    /// those in its place.
    fn kernel_arguments(&self) -> String {
        let Self { image, way, .. } = self;
        let file_system = image.file_system;
        let way_on_board = match self.recorder {
            Some(_) => "record",
            None => way.on_board(),
        };
        let mut words = vec![
            "console=ttyS0 quiet panic=-1 nokaslr".to_owned(),
            format!("fs={file_system} way={way_on_board} reads={BOUND_READS}"),
            format!("preload_pack={PACK} preload_init=/bin/start"),
        ];
        if file_system.is_on_nand() {
            let blocks = image.content.blocks();
            words.push(format!(
                "access_delay={ACCESS_DELAY_US} input_cycle={INPUT_CYCLE_NS} blocks={blocks}"
            ));
        }
        match image.content {
            Content::File(bytes) => {
                words.push(format!("program=/bin/read-file file={FILE}"));
                if *way == Way::Budget {
                    words.push(format!("preload_budget={}", bytes / 2));
                }
            }
            Content::Application => {
                let [program, argument] = PROGRAM;
                words.push(format!("program={program} file={argument} below={MOUNT}"));
            }
        }
        words.join(" ")
    }
}

/// For people and documents: what was emulated.
pub(crate) fn describe(file_system: FileSystem) -> String {
    let storage = if file_system.is_on_nand() {
        format!(
            "NAND of 2 KiB pages by nandsim: do_delays=1 access_delay={ACCESS_DELAY_US} input_cycle={INPUT_CYCLE_NS}, the CPU waits"
        )
    } else {
        format!("virtio disk throttled to {DISK_BYTES_PER_SECOND} B/s, the CPU is free")
    };
    format!("QEMU pc (TCG), 1 CPU, {MEMORY}; {storage}")
}

fn path_for_qemu(path: &Path) -> Result<&str, BootError> {
    let refused = || BootError::Path(path.to_owned());
    let text = path.to_str().ok_or_else(refused)?;
    (!text.contains(',')).then_some(text).ok_or_else(refused)
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;

    fn words(file_system: FileSystem, way: Way, image: &str) -> Result<Vec<String>, BootError> {
        let guest = Guest {
            kernel: PathBuf::from("/g/kernel"),
            initramfs: PathBuf::from("/g/initramfs"),
            ..Guest::default()
        };
        let image = Image {
            path: PathBuf::from(image),
            file_system,
            content: if way.is_of_application() {
                Content::Application
            } else {
                Content::File(1 << 20)
            },
        };
        let boot = Boot {
            guest: &guest,
            image: &image,
            way,
            recorder: None,
        };
        let command = boot.command()?;
        let words = command
            .get_args()
            .map(|word| word.to_string_lossy().into_owned());
        Ok(words.collect())
    }

    #[test]
    fn nand_is_slow_by_itself_and_a_disk_by_throttling() {
        let nand = words(FileSystem::Ubifs, Way::Plain, "/i").expect("a command");
        let nand = nand.join(" ");
        assert!(nand.contains("fs=ubifs way=plain") && nand.contains("input_cycle=150"));
        assert!(!nand.contains("throttling") && !nand.contains("preload_budget"));
        let disk = words(FileSystem::Ext4, Way::Budget, "/i").expect("a command");
        let disk = disk.join(" ");
        assert!(disk.contains("throttling.bps-read=2097152") && !disk.contains("input_cycle"));
        assert!(disk.contains("preload_budget=524288"), "{disk}");
    }

    #[test]
    fn real_program_lives_on_the_flash() {
        let words = words(FileSystem::Ubifs, Way::ApplicationPreload, "/i").expect("a command");
        let words = words.join(" ");
        assert!(words.contains("way=preload ") && words.contains("below=/flash"));
        assert!(!words.contains("read-file"), "{words}");
    }

    #[test]
    fn path_with_a_comma_is_refused() {
        let refused = words(FileSystem::Ubifs, Way::Plain, "/a,b");
        assert!(matches!(refused, Err(BootError::Path(_))), "{refused:?}");
    }
}

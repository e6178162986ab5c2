//! A core as a guest of Xen beside Linux, on an emulated board: what is booted, how, and until
//! when.
//!
//! Xen boots first and starts both guests itself (dom0less): Linux as dom0, and the RTOS image, to
//! which it hands the board's only UART, so that edges of the pin leave the machine as they do
//! without a hypervisor. Xen has no console then. Called by `hythe latency board --under`; the
//! files come from `scripts/xen-tools.sh`. Never judges the figures.

mod device_tree;
mod emulator_log;
mod exits;
mod guest_cpu_instructions;
mod machine;
mod programs;
mod settings;
mod watch;

use std::path::{Path, PathBuf};

pub use exits::Exits;
pub use guest_cpu_instructions::GuestCpuInstructions;
pub use machine::{Clock, Ended, run};
pub use settings::{Hypervisor, Setting};

use crate::LatencyError;

/// Of a board, at most.
const CPUS_MAX: usize = 2;

/// How CPUs are given to the guests.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Partition {
    /// Both guests on one CPU.
    Shared,
    /// A CPU each.
    Partitioned,
}

impl Partition {
    /// Of the board.
    #[must_use]
    pub const fn cpus(self) -> u32 {
        match self {
            Self::Shared => 1,
            Self::Partitioned => 2,
        }
    }
}

/// What Linux does beside the core.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Load {
    /// It sleeps.
    Idle,
    /// A program computes.
    Hog,
    /// A program reads a disk, block by block.
    Io,
}

impl Load {
    /// As it is said on the command line.
    #[must_use]
    pub const fn name(self) -> &'static str {
        match self {
            Self::Idle => "idle",
            Self::Hog => "hog",
            Self::Io => "io",
        }
    }
}

/// What is booted.
#[derive(Clone, Debug)]
pub struct Setup {
    /// Where `scripts/xen-tools.sh` has put Xen, Linux and its initramfs.
    pub tools: PathBuf,
    /// Which Xen of those.
    pub hypervisor: Hypervisor,
    /// The RTOS image, a flat binary with the header of a Linux image.
    pub image: PathBuf,
    /// The board's CPU, as QEMU calls it.
    pub cpu: String,
    /// Who runs where.
    pub partition: Partition,
    /// What Linux does.
    pub load: Load,
    /// What helps a core with a CPU of its own; nothing of it where both share one.
    pub settings: Vec<Setting>,
    /// More words for Xen's command line.
    pub options: Vec<String>,
    /// How many samples of each measure are counted by the instructions of the core's own CPU,
    /// where instructions are counted.
    pub guest_cpu_instruction_samples: u64,
}

/// The files in [`Setup::tools`].
#[derive(Clone, Debug)]
struct Files {
    hypervisor: PathBuf,
    kernel: PathBuf,
    initramfs: PathBuf,
}

impl Setup {
    /// Xen's command line.
    #[must_use]
    pub fn command_line(&self) -> String {
        let mut words = settings::words(self.partition, &self.settings);
        for option in &self.options {
            words += " ";
            words += option;
        }
        words
    }

    /// Is everything there?
    ///
    /// # Errors
    /// [`LatencyError::Tools`] with what is missing.
    pub fn check(&self) -> Result<(), LatencyError> {
        self.files().map(drop)
    }

    fn files(&self) -> Result<Files, LatencyError> {
        let find = |name: &str| {
            let path = self.tools.join(name);
            match path.is_file() {
                true => Ok(path),
                false => Err(LatencyError::Tools { path }),
            }
        };
        Ok(Files {
            hypervisor: find(self.hypervisor.file())?,
            kernel: find("linux")?,
            initramfs: find("initramfs")?,
        })
    }
}

fn bytes_of(path: &Path) -> Result<u64, LatencyError> {
    let found = std::fs::metadata(path).map_err(LatencyError::file("look at", path))?;
    Ok(found.len())
}

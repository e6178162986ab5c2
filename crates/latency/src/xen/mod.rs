//! A core as a guest of Xen beside Linux, on an emulated board: what is booted, how, and until when.
//!
//! Xen boots first and starts both guests itself (dom0less): Linux as dom0, and the RTOS image, to which it hands the board's only
//! UART, so that edges of the pin leave the machine as they do without a hypervisor. Xen has no console then. Called by
//! `hythe latency board --under`; the files come from `scripts/xen-tools.sh`. Never judges the figures.

mod device_tree;
pub mod exits;
mod machine;

use std::path::{Path, PathBuf};

pub use machine::{Clock, Ended, run};

use crate::LatencyError;

/// How CPUs are given to the guests. Debian's Xen has neither the null scheduler nor pools of CPUs at boot; it takes `sched=null` without a
/// word and goes on with credit2. With as many CPUs as guests have, and Linux pinned to one, that leaves the core alone, too.
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

    /// Words of Xen's command line.
    const fn words(self) -> &'static str {
        match self {
            Self::Shared => "sched=credit2",
            Self::Partitioned => "sched=credit2 dom0_vcpus_pin",
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
    /// The RTOS image, a flat binary with the header of a Linux image.
    pub image: PathBuf,
    /// The board's CPU, as QEMU calls it.
    pub cpu: String,
    /// Who runs where.
    pub partition: Partition,
    /// What Linux does.
    pub load: Load,
    /// More words for Xen's command line.
    pub options: Vec<String>,
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
        let partition = self.partition.words();
        // One CPU of Linux: it shall not need that of the core.
        let mut words = format!("dom0_mem=512M dom0_max_vcpus=1 console=none {partition}");
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
            hypervisor: find("xen")?,
            kernel: find("linux")?,
            initramfs: find("initramfs")?,
        })
    }
}

fn bytes_of(path: &Path) -> Result<u64, LatencyError> {
    let found = std::fs::metadata(path).map_err(LatencyError::file("look at", path))?;
    Ok(found.len())
}

//! What is compared: file systems, ways to a file that is read, and the names that cases have in results.

use std::fmt;

use clap::ValueEnum;

/// Where the file lies.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum FileSystem {
    /// On simulated NAND, over UBI
    Ubifs,
    /// On simulated NAND
    Jffs2,
    /// On a virtual disk of the same speed, which moves its data without the CPU
    Ext4,
}

impl FileSystem {
    /// Reads the CPU each byte out of a NAND chip?
    pub(crate) const fn is_on_nand(self) -> bool {
        matches!(self, Self::Ubifs | Self::Jffs2)
    }
}

impl fmt::Display for FileSystem {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Ubifs => "ubifs",
            Self::Jffs2 => "jffs2",
            Self::Ext4 => "ext4",
        })
    }
}

/// What happens between `AAA` and `BBB`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
pub(crate) enum Way {
    /// Nothing is read ahead
    Plain,
    /// `preload-init` reads ahead before multitasking starts
    Preload,
    /// The same with a budget of half the file
    Budget,
    /// A loop of readahead(2) in place of `preload-init`
    Readahead,
    /// `vmtouch -t` in place of `preload-init`
    Vmtouch,
    /// The same file, read on the idle board: the bound
    Bound,
}

impl Way {
    /// In the order in which they run: what is compared most stands next to each other.
    pub(crate) const ALL: [Self; 6] = [
        Self::Plain,
        Self::Preload,
        Self::Bound,
        Self::Readahead,
        Self::Vmtouch,
        Self::Budget,
    ];

    /// Is something read ahead, so that the pages resident afterwards say what came of it?
    pub(crate) const fn reads_ahead(self) -> bool {
        !matches!(self, Self::Plain | Self::Bound)
    }
}

impl fmt::Display for Way {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Plain => "plain",
            Self::Preload => "preload",
            Self::Budget => "budget",
            Self::Readahead => "readahead",
            Self::Vmtouch => "vmtouch",
            Self::Bound => "bound",
        })
    }
}

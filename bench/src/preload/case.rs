//! What is compared: file systems, ways to a file that is read, and the names that cases have in
//! results.

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
    /// A program with many shared libraries starts; nothing is read ahead
    ApplicationPlain,
    /// The same, and `preload-init` reads ahead what `hythe preload record` found on the same board
    ApplicationPreload,
}

impl Way {
    /// In the order in which they run: what is compared most stands next to each other.
    pub(crate) const ALL: [Self; 8] = [
        Self::Plain,
        Self::Preload,
        Self::Bound,
        Self::Readahead,
        Self::Vmtouch,
        Self::Budget,
        Self::ApplicationPlain,
        Self::ApplicationPreload,
    ];

    /// Starts a real program, instead of one that reads a file?
    pub(crate) const fn is_of_application(self) -> bool {
        matches!(self, Self::ApplicationPlain | Self::ApplicationPreload)
    }

    /// What the board does, whatever it starts then.
    pub(crate) const fn on_board(self) -> &'static str {
        match self {
            Self::Plain | Self::ApplicationPlain => "plain",
            Self::Preload | Self::Budget | Self::ApplicationPreload => "preload",
            Self::Readahead => "readahead",
            Self::Vmtouch => "vmtouch",
            Self::Bound => "bound",
        }
    }
}

impl fmt::Display for Way {
    fn fmt(&self, to: &mut fmt::Formatter<'_>) -> fmt::Result {
        to.write_str(match self {
            Self::Budget => "budget",
            Self::ApplicationPlain => "application-plain",
            Self::ApplicationPreload => "application-preload",
            way => way.on_board(),
        })
    }
}

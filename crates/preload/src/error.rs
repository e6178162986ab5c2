//! What can go wrong with recording and reading ahead.

use std::io;
use std::path::PathBuf;

use hythe_terminal::escaped;

/// Errors of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PreloadError {
    /// The system refused something about a file.
    #[error("cannot {action} {}: {source}", escaped(path))]
    File {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// The bytes are not a pack.
    #[error("it is not a pack: {0}")]
    NotAPack(String),
    /// The pack is one that this program cannot read.
    #[error("it is a pack of version {found}; this program reads version {known}")]
    Version {
        /// Version in the pack.
        found: u32,
        /// Version that is known here.
        known: u32,
    },
    /// What was recorded has no place in a pack.
    #[error("a pack takes {limit} {what}, not {found}: record less")]
    TooLarge {
        /// Files, extents or bytes of paths.
        what: &'static str,
        /// How many there are.
        found: u64,
        /// How many there may be.
        limit: u64,
    },
    /// Two packs name one path and recorded different files.
    #[error(
        "{} has another {what} there: {now} instead of {before}; the packs are of different systems, or the file was changed between the recordings: record them again on one",
        escaped(path)
    )]
    OtherFile {
        /// The path.
        path: PathBuf,
        /// What differs.
        what: &'static str,
        /// As the packs before have it.
        before: String,
        /// As this pack has it.
        now: String,
    },
    /// Of two packs one compares inode numbers and one does not.
    #[error(
        "it {} inode numbers, the packs before it {}: record all of them the same way",
        if *any_before { "compares" } else { "does not compare" },
        if *any_before { "do not" } else { "do" }
    )]
    InodesDiffer {
        /// The packs before do not compare them.
        any_before: bool,
    },
    /// There is no start-up to finish.
    #[error(
        "no start-up with {} is under way ({looked}): replay that pack, or boot with preload-init, first",
        escaped(pack),
        looked = escaped(looked)
    )]
    NoRun {
        /// The pack.
        pack: PathBuf,
        /// Where it was looked for, and what was there.
        looked: String,
    },
    /// A path that cannot stand in a pack.
    #[error(
        "the path {path:?} cannot stand in a pack: it must be absolute, of at most {limit} bytes, without a zero byte"
    )]
    BadPath {
        /// The path.
        path: PathBuf,
        /// Most bytes of a path.
        limit: usize,
    },
    /// A path with a line break in it.
    #[error(
        "{path:?} has a line break in its name, which a sort list of mksquashfs cannot hold: rename it, or leave it out of the pack"
    )]
    Unlisted {
        /// The path.
        path: PathBuf,
    },
    /// Recording needs privilege.
    #[error("recording is not permitted: it takes CAP_SYS_ADMIN; run it as root")]
    NotPermitted,
    /// Recording needs a part of the kernel that this one has not.
    #[error("this kernel has no fanotify: record on one that is built with CONFIG_FANOTIFY=y")]
    NoFanotify,
    /// There is one recording at a time, since it switches the kernel's read-ahead off.
    #[error("another recording runs on this machine: wait for its end, or end it")]
    AnotherRecords,
    /// The process that puts back what a recording changes.
    #[error(
        "cannot use the process that is to put everything back after the recording: {0}; nothing was changed without it"
    )]
    Guard(String),
    /// Something is not as it was before the recording.
    #[error(
        "the recording has ended, and something could not be put back: {0}; do so by hand, or restart the machine"
    )]
    NotPutBack(String),
    /// Nothing to run.
    #[error("no command to record was named")]
    NoCommand,
    /// A pattern for what to leave out makes no sense.
    #[error("{pattern:?} is no pattern: {reason}", reason = escaped(reason))]
    BadPattern {
        /// The pattern.
        pattern: String,
        /// What is wrong with it.
        reason: String,
    },
}

impl PreloadError {
    /// Names path and action of an I/O error.
    pub(crate) fn file(
        action: &'static str,
        path: impl Into<PathBuf>,
    ) -> impl FnOnce(io::Error) -> Self {
        move |source| Self::File {
            action,
            path: path.into(),
            source,
        }
    }
}

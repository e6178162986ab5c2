//! What can go wrong, with the values that a person needs.

use std::io;
use std::path::PathBuf;

use hythe_terminal::escaped;

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LatencyError {
    /// A core's histogram is not what `spec/histogram.md` says.
    #[error(
        "cannot parse a histogram from the core: {what}; the image and this command may be of different versions, or the data was truncated",
        what = escaped(what)
    )]
    Histogram {
        /// What is wrong, with its value.
        what: String,
    },
    /// A core's conditions are not what `spec/histogram.md` says.
    #[error(
        "cannot parse the conditions from the core: {what}; the image and this command may be of different versions, or the data was truncated",
        what = escaped(what)
    )]
    Conditions {
        /// What is wrong, with its value.
        what: String,
    },
    /// QEMU's record of a run cannot be used.
    #[error("cannot parse QEMU's record of the run: {what}", what = escaped(what))]
    RecordLog {
        /// What is wrong, with its value.
        what: String,
    },
    /// QEMU's log of a run does not tell what is to be counted.
    #[error("cannot count instructions in QEMU's log: {what}", what = escaped(what))]
    EmulatorLog {
        /// What is wrong, with its value.
        what: String,
    },
    /// A histogram of a result document cannot be read or written.
    #[error(
        "cannot decode the histogram of {metric}: {what}; another version may have written it",
        what = escaped(what)
    )]
    Encoding {
        /// Of which metric.
        metric: String,
        /// What is wrong.
        what: String,
    },
    /// Xen, or the Linux beside it, was not fetched or built.
    #[error(
        "{} is missing: `scripts/xen-tools.sh` fetches and builds Xen, and fetches a Linux for it (`make test-latency` calls it)",
        escaped(path)
    )]
    Tools {
        /// The file.
        path: PathBuf,
    },
    /// A program could not be started, or failed.
    #[error("{program}: {what}", what = escaped(what))]
    Program {
        /// Its name.
        program: &'static str,
        /// What it said, or the system.
        what: String,
    },
    /// The core did not tell its figures.
    #[error(
        "the core under Xen did not finish its report: {why}; {bytes} bytes arrived on its UART",
        why = escaped(why)
    )]
    Silent {
        /// What happened instead.
        why: String,
        /// How far it got.
        bytes: u64,
    },
    /// A path that QEMU cannot be given.
    #[error(
        "{} cannot be used: QEMU's options are separated by commas",
        escaped(path)
    )]
    Path {
        /// The path.
        path: PathBuf,
    },
    /// Something about a file failed.
    #[error("cannot {action} {}: {source}", escaped(path))]
    File {
        /// What was tried.
        action: &'static str,
        /// On which path.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// Lines of a record on a serial line are not what `spec/histogram.md` says.
    #[error(
        "line {line} of the core's console is no line of a record: {what}",
        what = escaped(what)
    )]
    Serial {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
    /// This machine could not be measured.
    #[error("this machine cannot be measured: {what}", what = escaped(what))]
    Host {
        /// What is wrong, with its value.
        what: String,
    },
    /// What would fail a run is not what a threshold says.
    #[error(
        "the threshold `{text}` cannot be used: {what}",
        text = escaped(text),
        what = escaped(what)
    )]
    Threshold {
        /// As it was given.
        text: String,
        /// What is wrong, and what would not be.
        what: String,
    },
    /// A report for another program could not be written.
    #[error("the JUnit report cannot be made: {what}", what = escaped(what))]
    Junit {
        /// What the writer said.
        what: String,
    },
    /// A file is no result that can be compared.
    #[error("{file}: {what}", what = escaped(what), file = escaped(file))]
    Compare {
        /// Which.
        file: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// Results that would mislead if they were put side by side.
    #[error(
        "these results are not comparable: {what}",
        what = escaped(what)
    )]
    NotComparable {
        /// All reasons.
        what: String,
    },
}

impl LatencyError {
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

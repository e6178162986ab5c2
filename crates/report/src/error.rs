//! Why there is no page.

use std::io;
use std::path::PathBuf;

use hythe_terminal::escaped;

/// Every error of this crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum ReportError {
    /// A file cannot be read.
    #[error("cannot read {}: {source}", escaped(path))]
    Read {
        /// The file.
        path: PathBuf,
        /// What the system says.
        source: io::Error,
    },
    /// A file is a JSON document that does not say of what kind.
    #[error("{}: it names no schema: a result says `{expected}`", escaped(path))]
    NoSchema {
        /// The file.
        path: PathBuf,
        /// The schema that is read.
        expected: &'static str,
    },
    /// A file is no result, or holds figures that cannot be.
    #[error("{}: {reason}", escaped(path))]
    Document {
        /// The file.
        path: PathBuf,
        /// What is wrong in it.
        reason: String,
    },
    /// A figure cannot be drawn.
    #[error("cannot draw `{title}`: {reason}")]
    Drawing {
        /// The figure's title.
        title: String,
        /// What the drawing library says.
        reason: String,
    },
}

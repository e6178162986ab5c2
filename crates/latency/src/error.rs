//! What can go wrong, with the values that a person needs.

/// Why there is no figure.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum LatencyError {
    /// A core's histogram is not what `spec/histogram.md` says.
    #[error(
        "a core's histogram cannot be read: {what}; image and command are of different versions, or it was cut on its way"
    )]
    Histogram {
        /// What is wrong, with its value.
        what: String,
    },
    /// Lines of a record on a serial line are not what `spec/histogram.md` says.
    #[error("line {line} of the core's console is no line of a record: {what}")]
    Serial {
        /// Counted from 1.
        line: usize,
        /// What is wrong with it.
        what: String,
    },
}

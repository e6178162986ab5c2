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
    /// A core's conditions are not what `spec/histogram.md` says.
    #[error(
        "a core's conditions cannot be read: {what}; image and command are of different versions, or they were cut on their way"
    )]
    Conditions {
        /// What is wrong, with its value.
        what: String,
    },
    /// QEMU's record of a run cannot be used.
    #[error("QEMU's record of the run cannot be read: {what}")]
    RecordLog {
        /// What is wrong, with its value.
        what: String,
    },
    /// A histogram of a result document cannot be read or written.
    #[error("the histogram of {metric} cannot be used: {what}; it may be of another version")]
    Encoding {
        /// Of which metric.
        metric: String,
        /// What is wrong.
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
    /// This machine could not be measured.
    #[error("this machine cannot be measured: {what}")]
    Host {
        /// What is wrong, with its value.
        what: String,
    },
    /// What would fail a run is not what a threshold says.
    #[error("the threshold `{text}` cannot be used: {what}")]
    Threshold {
        /// As it was given.
        text: String,
        /// What is wrong, and what would not be.
        what: String,
    },
    /// A report for another program could not be written.
    #[error("the JUnit report cannot be made: {what}")]
    Junit {
        /// What the writer said.
        what: String,
    },
    /// A file is no result that can be compared.
    #[error("{file}: {what}")]
    Compare {
        /// Which.
        file: String,
        /// What is wrong, and what to do.
        what: String,
    },
    /// Results that would mislead if they were put side by side.
    #[error("these results are not comparable: {what}; --force compares them all the same")]
    NotComparable {
        /// All reasons.
        what: String,
    },
}

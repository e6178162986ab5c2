//! Which of the two processes.

/// Near is the one that measures.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Side {
    /// Sends first, and holds the clock.
    Near = 0,
    /// Answers.
    Far = 1,
}

impl Side {
    pub(crate) const fn other(self) -> Self {
        match self {
            Self::Near => Self::Far,
            Self::Far => Self::Near,
        }
    }
}

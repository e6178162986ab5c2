//! The question whether a program wants its waits to end, which a program asks that a signal ends.
//!
//! Set once by the program through its node, asked by the ports that wait for long. Never waits.

use std::fmt;
use std::sync::OnceLock;

type Question = Box<dyn Fn() -> bool + Send + Sync>;

/// Whether the waits of a participant are to end.
#[derive(Default)]
pub(crate) struct Interrupt(OnceLock<Question>);

impl Interrupt {
    /// The first question stays.
    pub(crate) fn set(&self, is_asked: Question) {
        let _ = self.0.set(is_asked);
    }

    pub(crate) fn is_asked(&self) -> bool {
        self.0.get().is_some_and(|is_asked| is_asked())
    }
}

impl fmt::Debug for Interrupt {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Interrupt")
            .field(&self.0.get().is_some())
            .finish()
    }
}

//! Lines that clients can cause: a few at a time, and how many were left out.

use std::fmt::Display;
use std::sync::{Mutex, PoisonError};

use crate::instant::now_ns;

/// So many lines in so long.
const LINES: u32 = 10;
const WINDOW_NS: u64 = 10_000_000_000;

/// What was written lately.
#[derive(Debug, Default)]
pub(super) struct Log {
    window: Mutex<Window>,
}

#[derive(Clone, Copy, Debug, Default)]
struct Window {
    began_ns: u64,
    lines: u32,
    left_out: u64,
}

impl Log {
    /// Something failed.
    pub(super) fn warn(&self, line: impl Display) {
        if self.takes() {
            tracing::warn!("{line}");
        }
    }

    /// Something happened.
    pub(super) fn info(&self, line: impl Display) {
        if tracing::enabled!(tracing::Level::INFO) && self.takes() {
            tracing::info!("{line}");
        }
    }

    fn takes(&self) -> bool {
        let mut window = self.window.lock().unwrap_or_else(PoisonError::into_inner);
        let (takes, left_out) = window.take(now_ns());
        drop(window);
        if left_out > 0 {
            tracing::warn!("{left_out} lines about clients were left out");
        }
        takes
    }
}

impl Window {
    /// May one more line be written, and how many were left out before?
    fn take(&mut self, now_ns: u64) -> (bool, u64) {
        let mut left_out = 0;
        if now_ns.saturating_sub(self.began_ns) >= WINDOW_NS {
            left_out = self.left_out;
            *self = Self {
                began_ns: now_ns,
                ..Self::default()
            };
        }
        if self.lines >= LINES {
            self.left_out += 1;
            return (false, 0);
        }
        self.lines += 1;
        (true, left_out)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_of_lines_is_cut_short_and_counted() {
        let mut window = Window::default();
        let mut at = |now_ns| window.take(now_ns);
        let written = (0..1000).filter(|tick| at(WINDOW_NS + tick).0).count();
        assert_eq!(written, LINES as usize);
        assert_eq!(at(2 * WINDOW_NS), (true, 990));
        assert_eq!(at(2 * WINDOW_NS + 1), (true, 0));
    }
}

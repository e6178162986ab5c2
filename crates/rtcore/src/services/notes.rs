//! Lines for the log of a core, from the thread that serves it to the one that keeps the log.
//!
//! A core can have as many calls refused as it likes, and its log keeps a bounded number of bytes:
//! so there are no more than [`BURST`] lines at once, and then one for each [`PAUSE`].

use std::sync::mpsc::{Receiver, SyncSender, sync_channel};
use std::time::{Duration, Instant};

const BURST: u32 = 20;
const PAUSE: Duration = Duration::from_secs(1);

/// The end that lines go in by.
#[derive(Debug)]
pub(super) struct Notes {
    lines: SyncSender<String>,
    left: u32,
    since: Instant,
}

impl Notes {
    pub(super) fn begin() -> (Self, Receiver<String>) {
        let (lines, out) = sync_channel(BURST as usize);
        let notes = Self {
            lines,
            left: BURST,
            since: Instant::now(),
        };
        (notes, out)
    }

    /// Adds a line, if there may be one now.
    pub(super) fn add(&mut self, line: &str) {
        let earned = self.since.elapsed().as_secs() / PAUSE.as_secs();
        if earned > 0 {
            self.left = BURST.min(
                self.left
                    .saturating_add(earned.min(u64::from(BURST)) as u32),
            );
            self.since = Instant::now();
        }
        tracing::debug!(line, "for the log of a core");
        if let Some(left) = self.left.checked_sub(1) {
            self.left = left;
            // Full, or nobody reads it any more: it is lost, as the line behind the last would be.
            let _ = self.lines.try_send(line.to_owned());
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn flood_is_cut() {
        let (mut notes, lines) = Notes::begin();
        for _ in 0..10 * BURST {
            notes.add("again");
        }
        let count = lines.try_iter().count() as u32;
        assert!((BURST..3 * BURST).contains(&count), "{count}");
    }
}

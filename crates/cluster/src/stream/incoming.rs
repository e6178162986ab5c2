//! The receiver's side of a stream.

use super::Violation;
use crate::frame::Window;

/// Which part of a window is used before the sender hears of it, where more keeps coming.
const WINDOW_PART: u32 = 4;
/// So many bytes are acknowledged at once, whatever the window: a sender runs out of large slots
/// long before it does of window, and an acknowledgement costs little beside them.
const LARGE_BYTES: u64 = 256 << 10;

/// Checks frames as they come, and says when to acknowledge.
#[derive(Debug)]
pub struct Incoming {
    window: Window,
    payload_bytes_max: u32,
    taken: u64,
    acknowledged: u64,
    /// Of frames that are not acknowledged.
    bytes: u64,
}

impl Incoming {
    /// A new stream.
    #[must_use]
    pub const fn new(window: Window, payload_bytes_max: u32) -> Self {
        Self {
            window,
            payload_bytes_max,
            taken: 0,
            acknowledged: 0,
            bytes: 0,
        }
    }

    /// The header of a frame has come. [`taken`](Self::taken) follows when all of it is taken over;
    /// a connection that breaks in between has brought nothing.
    ///
    /// # Errors
    /// What the sender must not do.
    pub fn begin(&self, sequence: u64, bytes: u32) -> Result<(), Violation> {
        let expected = self.taken + 1;
        if sequence != expected {
            return Err(Violation::OutOfOrder { sequence, expected });
        }
        if bytes > self.payload_bytes_max {
            return Err(Violation::PayloadTooLong {
                bytes,
                most: self.payload_bytes_max,
            });
        }
        let frames = sequence - self.acknowledged;
        let all = self.bytes + u64::from(bytes);
        let fits = frames <= u64::from(self.window.frames) && all <= self.window.bytes;
        if frames > 1 && !fits {
            return Err(Violation::BeyondWindow { frames, bytes: all });
        }
        Ok(())
    }

    /// The frame that was begun is taken over.
    pub const fn taken(&mut self, bytes: u32) {
        self.taken += 1;
        self.bytes += bytes as u64;
    }

    /// What is to be acknowledged now, if anything: with `is_idle` all that is taken, else only
    /// when a part of the window is used. The caller sends it.
    pub fn acknowledgement(&mut self, is_idle: bool) -> Option<u64> {
        let frames = self.taken - self.acknowledged;
        let part = Window {
            frames: self.window.frames / WINDOW_PART,
            bytes: LARGE_BYTES.min(self.window.bytes / u64::from(WINDOW_PART)),
        };
        let is_due = is_idle || frames >= u64::from(part.frames) || self.bytes >= part.bytes;
        (frames > 0 && is_due).then(|| {
            self.acknowledged = self.taken;
            self.bytes = 0;
            self.taken
        })
    }

    /// Is anything taken and not acknowledged?
    #[must_use]
    pub const fn owes(&self) -> bool {
        self.taken > self.acknowledged
    }

    /// A new connection carries the stream on: what is told its sender.
    pub const fn resume(&mut self) -> u64 {
        self.acknowledged = self.taken;
        self.bytes = 0;
        self.taken
    }

    /// What the sender was granted.
    #[must_use]
    pub const fn window(&self) -> Window {
        self.window
    }

    /// The longest payload that it was granted.
    #[must_use]
    pub const fn payload_bytes_max(&self) -> u32 {
        self.payload_bytes_max
    }
}

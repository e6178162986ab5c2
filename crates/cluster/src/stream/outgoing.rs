//! The sender's side of a stream.

use std::collections::VecDeque;

use super::Violation;
use crate::frame::Window;

/// Frames on their way, each with what is held for it (`T`) until it is acknowledged.
///
/// A frame is begun, sent by the caller, and finished. It may be acknowledged before it is
/// finished: the receiver has it before the sender's call returns.
#[derive(Debug)]
pub struct Outgoing<T> {
    window: Window,
    /// Number of the last frame begun.
    last: u64,
    acknowledged: u64,
    /// What the last acknowledgement said. The answer to a new connection may have overtaken it.
    told: u64,
    /// Of frames begun and not acknowledged.
    bytes: u64,
    /// Sent, or being sent when the connection broke; in order.
    sent: VecDeque<Entry<T>>,
    /// To be sent again before any other; in order, and after all in `sent`.
    again: VecDeque<Entry<T>>,
    /// The bytes of the frame between its begin and its finish.
    sending: Option<u32>,
}

#[derive(Debug)]
struct Entry<T> {
    sequence: u64,
    bytes: u32,
    held: T,
}

/// A frame that is to be sent now.
#[derive(Debug)]
pub struct Ready<T> {
    /// Its number.
    pub sequence: u64,
    /// What is held for it.
    pub held: T,
}

impl<T> Outgoing<T> {
    /// A new stream, with that window.
    #[must_use]
    pub const fn new(window: Window) -> Self {
        Self {
            window,
            last: 0,
            acknowledged: 0,
            told: 0,
            bytes: 0,
            sent: VecDeque::new(),
            again: VecDeque::new(),
            sending: None,
        }
    }

    /// May a frame with so many bytes be begun now?
    #[must_use]
    pub fn is_open_for(&self, bytes: u32) -> bool {
        let frames = self.last - self.acknowledged;
        let fits = frames < u64::from(self.window.frames)
            && self.bytes + u64::from(bytes) <= self.window.bytes;
        self.again.is_empty() && (fits || frames == 0)
    }

    /// May a frame of any size be begun now, as far as their number goes?
    #[must_use]
    pub fn is_open(&self) -> bool {
        let frames = self.last - self.acknowledged;
        self.again.is_empty()
            && (frames == 0
                || (frames < u64::from(self.window.frames) && self.bytes < self.window.bytes))
    }

    /// Begins the next frame and returns its number. [`finish`](Self::finish) follows.
    ///
    /// # Panics
    /// If the last one is not finished, or frames are to be sent again.
    pub fn begin(&mut self, bytes: u32) -> u64 {
        assert!(
            self.sending.is_none() && self.again.is_empty(),
            "one frame after another"
        );
        self.last += 1;
        self.bytes += u64::from(bytes);
        self.sending = Some(bytes);
        self.last
    }

    /// The next frame that is to be sent again, if there is one: as if it had been begun.
    pub fn begin_again(&mut self) -> Option<Ready<T>> {
        let Entry {
            sequence,
            bytes,
            held,
        } = self.again.pop_front()?;
        self.sending = Some(bytes);
        Some(Ready { sequence, held })
    }

    /// The frame was sent, or its connection broke over it. Gives back what was held for it if it
    /// is acknowledged already.
    ///
    /// # Panics
    /// If none was begun.
    pub fn finish(&mut self, sequence: u64, held: T) -> Option<T> {
        #[allow(clippy::expect_used, reason = "proof: the caller's duty, stated above")]
        let bytes = self.sending.take().expect("a frame was begun");
        if sequence <= self.acknowledged {
            self.bytes -= u64::from(bytes);
            return Some(held);
        }
        self.sent.push_back(Entry {
            sequence,
            bytes,
            held,
        });
        None
    }

    /// The receiver has taken all frames up to this one. What was held for them goes to `release`.
    /// Acknowledgements come in order, but over another connection than what
    /// [`resume`](Self::resume) is told: one that says less than that was under way before.
    ///
    /// # Errors
    /// [`Violation::NotSent`].
    pub fn acknowledge(&mut self, through: u64, release: impl FnMut(T)) -> Result<(), Violation> {
        // Frames that are to be sent again are not underway on this connection.
        let sent = self
            .again
            .front()
            .map_or(self.last, |next| next.sequence - 1);
        if through < self.told || through > sent {
            return Err(Violation::NotSent {
                through,
                sent,
                acknowledged: self.told,
            });
        }
        self.told = through;
        if through > self.acknowledged {
            self.settle(through, release);
        }
        Ok(())
    }

    /// A new connection carries the stream on; the receiver has taken all up to `taken`. The rest
    /// is to be sent again.
    ///
    /// # Errors
    /// [`Violation::NotSent`].
    pub fn resume(
        &mut self,
        taken: u64,
        window: Window,
        release: impl FnMut(T),
    ) -> Result<(), Violation> {
        if taken < self.acknowledged || taken > self.last {
            return Err(Violation::NotSent {
                through: taken,
                sent: self.last,
                acknowledged: self.acknowledged,
            });
        }
        let earlier = std::mem::take(&mut self.sent);
        let later = std::mem::take(&mut self.again);
        self.sent = earlier.into_iter().chain(later).collect();
        self.settle(taken, release);
        self.again = std::mem::take(&mut self.sent);
        self.window = window;
        Ok(())
    }

    fn settle(&mut self, through: u64, mut release: impl FnMut(T)) {
        self.acknowledged = through;
        while self
            .sent
            .front()
            .is_some_and(|first| first.sequence <= through)
        {
            if let Some(first) = self.sent.pop_front() {
                self.bytes -= u64::from(first.bytes);
                release(first.held);
            }
        }
    }

    /// Frames and bytes of payload that are not acknowledged.
    #[must_use]
    pub const fn in_use(&self) -> Window {
        Window {
            // Fits: never more than the window, or one.
            frames: (self.last - self.acknowledged) as u32,
            bytes: self.bytes,
        }
    }

    /// Number of the last frame begun.
    #[must_use]
    pub const fn last(&self) -> u64 {
        self.last
    }

    /// Number of the last frame acknowledged.
    #[must_use]
    pub const fn acknowledged(&self) -> u64 {
        self.acknowledged
    }

    /// The receiver's window.
    #[must_use]
    pub const fn window(&self) -> Window {
        self.window
    }

    /// Is all acknowledged?
    #[must_use]
    pub const fn is_settled(&self) -> bool {
        self.last == self.acknowledged
    }

    /// Ends the stream: what was held for frames that are not acknowledged.
    pub fn end(self) -> impl Iterator<Item = T> {
        let entries = self.sent.into_iter().chain(self.again);
        entries.map(|entry| entry.held)
    }
}

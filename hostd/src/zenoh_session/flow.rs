//! What the two ends of a tunnel know: positions, credit, and what is to be sent again.
//!
//! Zenoh loses a message whose sending it did not refuse where a link or a router on the way ends.
//! So what is not known to have arrived is kept, and sent again from the first byte that is
//! missing. Pure state: never sends, waits or reads a clock.

use std::collections::VecDeque;
use std::io::Read as _;

/// Bytes of a tunnel that are on their way and not consumed.
pub(super) const WINDOW_BYTES: usize = 256 << 10;
/// Credit is granted when so much was consumed.
const GRANT_BYTES: u64 = WINDOW_BYTES as u64 / 4;
/// Bytes of a message: less than a batch of Zenoh, so that it is never put together from parts.
pub(super) const CHUNK_BYTES: usize = 32 << 10;

/// What a receiver says: how far it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Taken {
    pub(super) received: u64,
    pub(super) consumed: u64,
    /// Something after `received` has come, or was announced: it is to be sent again from there.
    pub(super) is_missing: bool,
}

/// Why a tunnel is over.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum End {
    Here,
    There,
    Broken,
}

/// Both directions of one end.
#[derive(Debug, Default)]
pub(super) struct Flow {
    buffer: VecDeque<u8>,
    received: u64,
    granted: u64,
    /// The gap is known there.
    has_asked: bool,
    /// Says nothing of its own accord: the callback must not send.
    owes: Option<bool>,
    /// Sent, and not known to have arrived; the last byte is the one before `sent`.
    kept: VecDeque<u8>,
    sent: u64,
    consumed_there: u64,
    /// Where sending again is, while it goes on.
    again: Option<u64>,
    /// Whether the other end has said anything new since the last look.
    has_moved: bool,
    pub(super) end: Option<End>,
}

impl Flow {
    /// The part of `bytes` for which there is credit, now sent as far as this end goes, and its
    /// position. Nothing new goes out while old bytes are sent again: they would be a gap there.
    pub(super) fn send<'a>(&mut self, bytes: &'a [u8]) -> Option<(u64, &'a [u8])> {
        // Fits: the difference is never more than the window.
        let used = self.sent.saturating_sub(self.consumed_there) as usize;
        let most = WINDOW_BYTES.saturating_sub(used).min(CHUNK_BYTES);
        if most == 0 || self.again.is_some() {
            return None;
        }
        let chunk = &bytes[..bytes.len().min(most)];
        let position = self.sent;
        self.kept.extend(chunk);
        self.sent += chunk.len() as u64;
        self.has_moved = true;
        Some((position, chunk))
    }

    /// The next part that is to be sent again.
    pub(super) fn send_again(&mut self) -> Option<(u64, Vec<u8>)> {
        let first = self.sent - self.kept.len() as u64;
        let position = self.again?.max(first);
        // Fits: it is within what is kept.
        let skipped = (position - first) as usize;
        let chunk: Vec<u8> = self
            .kept
            .iter()
            .skip(skipped)
            .take(CHUNK_BYTES)
            .copied()
            .collect();
        let next = position + chunk.len() as u64;
        self.again = (!chunk.is_empty()).then_some(next);
        (!chunk.is_empty()).then_some((position, chunk))
    }

    /// Where to announce that this end is, if the other has not consumed all and says nothing.
    pub(super) fn probe(&mut self) -> Option<u64> {
        let has_moved = std::mem::take(&mut self.has_moved);
        (self.consumed_there < self.sent && !has_moved).then_some(self.sent)
    }

    /// Bytes of the other end; none: it announces how far it is. Says whether it kept to its
    /// credit.
    pub(super) fn take(&mut self, position: u64, bytes: &[u8]) -> bool {
        if position > self.received {
            if !self.has_asked || bytes.is_empty() {
                self.has_asked = true;
                self.owes = Some(true);
            }
            return true;
        }
        let known = usize::try_from(self.received - position).unwrap_or(usize::MAX);
        let Some(new) = bytes.get(known..).filter(|new| !new.is_empty()) else {
            // It does not know how far this end is, or it would not say this.
            self.owes.get_or_insert(false);
            return true;
        };
        if self.buffer.len() + new.len() > WINDOW_BYTES {
            return false;
        }
        self.buffer.extend(new);
        self.received += new.len() as u64;
        self.has_asked = false;
        true
    }

    /// How far the other end is. Says whether it can be true.
    pub(super) fn taken(&mut self, there: Taken) -> bool {
        if there.received > self.sent || there.consumed > there.received {
            return false;
        }
        let first = self.sent - self.kept.len() as u64;
        if there.received > first {
            // Fits: no more than what is kept.
            self.kept.drain(..(there.received - first) as usize);
        }
        self.has_moved |= there.consumed > self.consumed_there || there.received > first;
        self.consumed_there = self.consumed_there.max(there.consumed);
        // Else it is old: more has arrived since.
        if there.is_missing && there.received >= first && there.received < self.sent {
            self.again.get_or_insert(there.received);
        }
        true
    }

    /// Takes what has come, and says how far this end is if the other should know.
    pub(super) fn consume(&mut self, into: &mut [u8]) -> (usize, Option<Taken>) {
        // Reading from memory does not fail.
        let taken = self.buffer.read(into).unwrap_or(0);
        let is_due = self.consumed() - self.granted >= GRANT_BYTES;
        (taken, is_due.then(|| self.state(false)))
    }

    /// What this end has to say, if anything.
    pub(super) fn owed(&mut self) -> Option<Taken> {
        let is_missing = self.owes.take()?;
        Some(self.state(is_missing))
    }

    /// Is there anything for the thread that mends?
    pub(super) fn wants_mending(&self) -> bool {
        self.owes.is_some() || self.again.is_some() || self.end == Some(End::Broken)
    }

    pub(super) fn is_empty(&self) -> bool {
        self.buffer.is_empty()
    }

    fn consumed(&self) -> u64 {
        self.received - self.buffer.len() as u64
    }

    fn state(&mut self, is_missing: bool) -> Taken {
        self.granted = self.consumed();
        Taken {
            received: self.received,
            consumed: self.granted,
            is_missing,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const PART: usize = 30_000;

    fn bytes(count: usize) -> Vec<u8> {
        (0..count).map(|index| (index % 251) as u8).collect()
    }

    fn consume_all(flow: &mut Flow) -> Vec<u8> {
        let mut into = vec![0; WINDOW_BYTES];
        let (count, _) = flow.consume(&mut into);
        into.truncate(count);
        into
    }

    /// Sends again until nothing is left to say.
    fn mend(here: &mut Flow, there: &mut Flow) {
        while let Some(owed) = there.owed() {
            assert!(here.taken(owed));
            while let Some((position, chunk)) = here.send_again() {
                assert!(there.take(position, &chunk));
            }
        }
    }

    #[test]
    fn what_was_lost_is_sent_again_and_nothing_twice() {
        let data = bytes(6 * PART);
        for lost in 0..6 {
            let (mut here, mut there) = (Flow::default(), Flow::default());
            for (index, part) in data.chunks(PART).enumerate() {
                let (position, chunk) = here.send(part).expect("credit");
                if index != lost {
                    assert!(there.take(position, chunk));
                    // Whatever comes twice is the same.
                    assert!(there.take(position, chunk));
                }
            }
            assert_eq!(here.probe(), None, "it was just sent");
            let announced = here.probe().expect("nothing was said");
            assert!(there.take(announced, &[]));
            mend(&mut here, &mut there);
            assert_eq!(consume_all(&mut there), data, "without part {lost}");
        }
    }

    #[test]
    fn lost_grant_is_said_again() {
        let (mut here, mut there) = (Flow::default(), Flow::default());
        let data = bytes(CHUNK_BYTES);
        while let Some((position, chunk)) = here.send(&data) {
            assert!(there.take(position, chunk));
        }
        let mut into = vec![0; WINDOW_BYTES];
        let (count, grant) = there.consume(&mut into);
        assert_eq!(count, WINDOW_BYTES);
        assert!(grant.is_some(), "it is due, and lost");
        assert_eq!(here.probe(), None);
        let announced = here.probe().expect("nothing was said");
        assert!(there.take(announced, &[]));
        mend(&mut here, &mut there);
        assert!(here.send(&data).is_some());
        assert_eq!(there.owed(), None);
    }

    #[test]
    fn nobody_is_believed_what_cannot_be() {
        let (mut here, mut there) = (Flow::default(), Flow::default());
        let said = |received, consumed| Taken {
            received,
            consumed,
            is_missing: true,
        };
        assert!(!here.taken(said(1, 0)), "it was not sent");
        assert!(here.send(&[1, 2]).is_some());
        assert!(!here.taken(said(1, 2)), "consumed and not received");
        assert!(there.take(0, &bytes(WINDOW_BYTES)));
        assert!(!there.take(WINDOW_BYTES as u64, &[1]), "no credit");
    }
}

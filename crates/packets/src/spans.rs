//! Pieces of messages in order, none touching another: what a receiver has of messages that are
//! not whole, and what a sender has to repeat. Never larger than `SPANS_MAX`.

use crate::settings::SPANS_MAX;
use std::collections::VecDeque;

/// Bytes `start` to `end` of a message, `end` not included. Empty for a message without bytes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct Span {
    pub(crate) message: u64,
    pub(crate) start: u32,
    pub(crate) end: u32,
}

impl Span {
    fn bytes(&self) -> u32 {
        self.end - self.start
    }
}

#[derive(Debug)]
pub(crate) struct Spans(VecDeque<Span>);

impl Spans {
    pub(crate) fn new() -> Self {
        Self(VecDeque::with_capacity(SPANS_MAX + 1))
    }

    pub(crate) fn first(&self) -> Option<Span> {
        self.0.front().copied()
    }

    /// How many of the bytes of `span` are there already; none where it could not be added,
    /// since there would be more than `pieces_max` pieces.
    pub(crate) fn overlap(&self, span: Span, pieces_max: usize) -> Option<u32> {
        let (first, behind) = self.touched(span);
        let there = (first..behind).map(|at| {
            let piece = self.0[at];
            piece.end.min(span.end) - piece.start.max(span.start)
        });
        let is_free = first < behind || self.0.len() < pieces_max;
        is_free.then(|| there.sum())
    }

    /// Adds a piece for which `overlap` found a place; a piece that touches others becomes one
    /// with them.
    pub(crate) fn insert(&mut self, span: Span) {
        let (first, behind) = self.touched(span);
        if first == behind {
            debug_assert!(self.0.len() <= SPANS_MAX);
            self.0.insert(first, span);
            return;
        }
        let (start, end) = (self.0[first].start, self.0[behind - 1].end);
        self.0[first].start = start.min(span.start);
        self.0[first].end = end.max(span.end);
        if behind - first > 1 {
            self.0.drain(first + 1..behind);
        }
    }

    /// Adds a piece, and where there is no place, the bytes between two pieces of one message
    /// too: repeating more than necessary is correct.
    pub(crate) fn insert_or_widen(&mut self, span: Span) {
        if self.overlap(span, SPANS_MAX).is_none() {
            // There are two places for each message that may be underway, all are taken, and none
            // is by `span`, so that some message has two.
            let at = (1..self.0.len())
                .find(|&at| self.0[at].message == self.0[at - 1].message)
                .expect("two pieces of one message");
            self.0[at - 1].end = self.0[at].end;
            self.0.remove(at);
        }
        self.insert(span);
    }

    /// Takes up to `bytes_max` bytes from the first piece.
    pub(crate) fn take_first(&mut self, bytes_max: u32) -> Option<Span> {
        let first = self.0.front_mut()?;
        if first.bytes() <= bytes_max {
            return self.0.pop_front();
        }
        let taken = Span {
            end: first.start + bytes_max,
            ..*first
        };
        first.start = taken.end;
        Some(taken)
    }

    /// Removes the pieces of messages below `message`.
    pub(crate) fn remove_below(&mut self, message: u64) {
        while self.0.front().is_some_and(|first| first.message < message) {
            self.0.pop_front();
        }
    }

    /// Removes the pieces of `message`.
    pub(crate) fn remove(&mut self, message: u64) {
        let first = self.0.partition_point(|piece| piece.message < message);
        while self
            .0
            .get(first)
            .is_some_and(|piece| piece.message == message)
        {
            self.0.remove(first);
        }
    }

    /// Indices of the pieces that `span` overlaps or touches: from the first on, to the second.
    fn touched(&self, span: Span) -> (usize, usize) {
        let is_before = |piece: &Span| (piece.message, piece.end) < (span.message, span.start);
        // Mostly it continues the last piece.
        let first = match self.0.back() {
            Some(back) if !is_before(back) => self.0.partition_point(is_before),
            _ => self.0.len(),
        };
        let mut behind = first;
        while self.0.get(behind).is_some_and(|piece| {
            (piece.message, piece.start) <= (span.message, span.end)
                && piece.message == span.message
        }) {
            behind += 1;
        }
        (first, behind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn span(message: u64, start: u32, end: u32) -> Span {
        Span {
            message,
            start,
            end,
        }
    }

    #[test]
    fn pieces_join_and_their_overlap_is_counted() {
        let mut spans = Spans::new();
        for (piece, there) in [
            (span(2, 0, 10), 0),
            (span(1, 20, 30), 0),
            (span(1, 0, 10), 0),
            (span(1, 5, 25), 10),
            (span(1, 3, 4), 1),
            (span(2, 10, 12), 0),
            (span(3, 0, 0), 0),
        ] {
            assert_eq!(spans.overlap(piece, SPANS_MAX), Some(there), "{piece:?}");
            spans.insert(piece);
        }
        assert_eq!(spans.0, [span(1, 0, 30), span(2, 0, 12), span(3, 0, 0)]);
        assert_eq!(spans.take_first(7), Some(span(1, 0, 7)));
        assert_eq!(spans.take_first(90), Some(span(1, 7, 30)));
        spans.remove(2);
        assert_eq!(spans.take_first(9), Some(span(3, 0, 0)));
        assert_eq!(spans.take_first(9), None);
    }

    #[test]
    fn full_it_takes_what_touches_and_widens_within_a_message() {
        let mut spans = Spans::new();
        for at in 0..SPANS_MAX as u64 {
            spans.insert(span(at / 2, at as u32 % 2 * 100, at as u32 % 2 * 100 + 10));
        }
        assert_eq!(spans.overlap(span(5, 50, 60), SPANS_MAX), None);
        assert_eq!(spans.overlap(span(5, 105, 120), SPANS_MAX), Some(5));
        spans.insert_or_widen(span(5, 50, 60));
        assert_eq!(spans.0.len(), SPANS_MAX);
        assert_eq!(spans.first(), Some(span(0, 0, 110)));
        assert_eq!(spans.overlap(span(5, 50, 60), SPANS_MAX), Some(10));
        spans.remove_below(1_000);
        assert_eq!(spans.first(), Some(span(1_000, 0, 10)));
    }
}

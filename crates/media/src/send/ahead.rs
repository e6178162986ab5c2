//! Media on its way from a source into packets: read, cut, numbered, given an instant, built with
//! their headers.
//!
//! What goes wrong is found out ahead, too, while good media in front of it still waits to be sent.
//! So an error of the source is kept until then: it ends the stream, or names what was passed over,
//! when its turn comes.

use std::collections::VecDeque;

use hythe_rtp::format::StreamFormat;
use hythe_rtp::payload::{Packetize, Payload};
use hythe_rtp::{HEADER_BYTES, Identity};

use crate::MediaError;
use crate::pace::{Limit, Pace, Schedule};
use crate::source::{InPlace, Source};
use crate::wire::header::Headers;
use crate::wire::layout::Head;

use super::store::Store;

/// Lays out one unit of a source after the other.
pub(super) struct Ahead {
    source: Box<dyn Source + Send>,
    packetizer: Box<dyn Packetize + Send>,
    headers: Headers,
    schedule: Schedule,
    payload_bytes_max: usize,
    has_ended: bool,
    /// What the source ended with.
    failure: Option<MediaError>,
    /// Packets that were built.
    packets: u64,
    /// What was passed over, and how many packets were built before it.
    skipped: VecDeque<(u64, MediaError)>,
}

impl std::fmt::Debug for Ahead {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        let mut shown = formatter.debug_struct("Ahead");
        shown.field("format", self.source.format());
        shown
            .field("has_ended", &self.has_ended)
            .finish_non_exhaustive()
    }
}

impl Ahead {
    pub(super) fn new(
        source: Box<dyn Source + Send>,
        packetizer: Box<dyn Packetize + Send>,
        identity: &Identity,
        (pace, limit): (Pace, Limit),
        payload_bytes_max: usize,
    ) -> Self {
        let format = source.format();
        Self {
            headers: Headers::new(format.payload_type, identity),
            schedule: Schedule::new(pace, format.clock_hz, limit),
            source,
            packetizer,
            payload_bytes_max,
            has_ended: false,
            failure: None,
            packets: 0,
            skipped: VecDeque::new(),
        }
    }

    pub(super) fn format(&self) -> &StreamFormat {
        self.source.format()
    }

    /// The headers, as far as they are given out.
    pub(super) fn headers(&self) -> &Headers {
        &self.headers
    }

    /// Was the last unit built?
    pub(super) fn has_ended(&self) -> bool {
        self.has_ended
    }

    /// Bytes that were copied because the end of a message cut them in two.
    pub(super) fn joined_bytes(&self) -> u64 {
        self.source.joined_bytes()
    }

    /// Damaged places of the input that were passed over.
    pub(super) fn damaged(&self) -> u64 {
        self.source.damaged()
    }

    /// Bytes in front of the first whole packet or frame of an input that begins within one.
    pub(super) fn skipped_at_start(&self) -> u64 {
        self.source.skipped_at_start()
    }

    /// The error that the source ended with, if that is why it ended. It is the caller's then.
    pub(super) fn take_failure(&mut self) -> Option<MediaError> {
        self.failure.take()
    }

    /// The next part of the input that was passed over, once all packets in front of it are among
    /// the `sent`.
    pub(super) fn take_skipped(&mut self, sent: u64) -> Option<MediaError> {
        let is_next = self.skipped.front().is_some_and(|next| next.0 <= sent);
        let next = is_next.then(|| self.skipped.pop_front()).flatten()?;
        Some(next.1)
    }

    /// Lays out the next unit; `false`: there is none, or none yet.
    pub(super) fn lay_out(&mut self, store: &mut Store) -> Result<bool, MediaError> {
        if self.has_ended {
            return Ok(false);
        }
        let before = self.packets;
        let outcome = self.lay_out_unit(store);
        while let Some(error) = self.source.skipped() {
            self.skipped.push_back((before, error));
        }
        match outcome {
            // What waits lies in the pool, or needs it.
            Err(error @ MediaError::Pool(_)) => Err(error),
            Err(error) => {
                self.has_ended = true;
                self.failure = Some(error);
                Ok(false)
            }
            laid_out => laid_out,
        }
    }

    fn lay_out_unit(&mut self, store: &mut Store) -> Result<bool, MediaError> {
        if !self.source.is_ready()? {
            return Ok(false);
        }
        let Some(InPlace { unit, messages }) = self.source.next_in_place()? else {
            self.has_ended = true;
            return Ok(false);
        };
        // Cut twice, because how many packets a unit becomes decides when each of them is due; that
        // costs no copy.
        let mut packets = 0;
        let limit = self.payload_bytes_max;
        self.packetizer
            .packetize(&unit, limit, &mut |_| packets += 1);
        self.schedule.begin(&unit, packets);
        self.packets += packets as u64;
        let (headers, schedule) = (&mut self.headers, &mut self.schedule);
        let mut outcome = Ok(());
        self.packetizer
            .packetize(&unit, limit, &mut |payload: &Payload<'_>| {
                if outcome.is_ok() {
                    let head = Head {
                        header: headers.next(payload.marker, payload.time),
                        due_ns: schedule.next_ns(HEADER_BYTES + payload.len()),
                    };
                    outcome = store.push(&head, payload, messages);
                }
            });
        outcome.map(|()| true)
    }
}

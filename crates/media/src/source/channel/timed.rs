//! Samples in messages whose times are known, as a player has them: what does not come leaves a
//! gap, which a receiver hears as silence.

use std::sync::mpsc::{Receiver, TryRecvError};

use hythe_rtp::format::StreamFormat;
use hythe_rtp::unit::Unit;

use super::message::Message;
use crate::MediaError;
use crate::source::pieces::Pieces;
use crate::source::raw::PcmFormat;
use crate::source::{InPlace, Source};

/// Samples, and when they are heard.
#[derive(Clone, Debug)]
pub struct TimedMessage {
    /// Whole samples of all channels, in network byte order.
    pub message: Message,
    /// Samples of a channel since the start of the stream. Never less than those of the message
    /// before end at: what is less is taken for that.
    pub time: u64,
}

/// What another thread leaves in a queue, until it has gone. Each message is a unit.
#[derive(Debug)]
pub struct TimedSource {
    format: StreamFormat,
    frame_bytes: usize,
    messages: Receiver<TimedMessage>,
    next: Option<TimedMessage>,
    /// The message that the caller has.
    lent: Option<Message>,
    pieces: Pieces,
    /// Where the last one ended.
    end: u64,
    damaged: u64,
}

impl TimedSource {
    /// Of samples as `format` says.
    ///
    /// # Errors
    ///
    /// [`MediaError::Rtp`] as [`PcmFormat::stream`].
    pub fn new(format: PcmFormat, messages: Receiver<TimedMessage>) -> Result<Self, MediaError> {
        Ok(Self {
            format: format.stream()?,
            frame_bytes: format.frame_bytes(),
            messages,
            next: None,
            lent: None,
            pieces: Pieces::default(),
            end: 0,
            damaged: 0,
        })
    }

    /// Keeps a message that can be sent; what is cut off in the middle of a sample is damage.
    fn keep(&mut self, timed: TimedMessage) {
        let TimedMessage { message, time } = timed;
        let whole = message.len() - message.len() % self.frame_bytes;
        self.damaged += u64::from(whole < message.len());
        if whole > 0 {
            let message = message.part(0..whole);
            self.next = Some(TimedMessage { message, time });
        }
    }
}

impl Source for TimedSource {
    fn format(&self) -> &StreamFormat {
        &self.format
    }

    fn next(&mut self) -> Result<Option<Unit<'_>>, MediaError> {
        Ok(self.next_in_place()?.map(|found| found.unit))
    }

    fn is_in_place(&self) -> bool {
        true
    }

    fn next_in_place(&mut self) -> Result<Option<InPlace<'_>>, MediaError> {
        self.lent = None;
        while self.next.is_none() {
            match self.messages.recv() {
                Ok(message) => self.keep(message),
                Err(_) => return Ok(None),
            }
        }
        let Some(TimedMessage { message, time }) = self.next.take() else {
            return Ok(None);
        };
        let frames = message.len() / self.frame_bytes;
        let time = time.max(self.end);
        let is_start = time > self.end;
        self.end = time.saturating_add(frames as u64);
        let message = self.lent.insert(message);
        Ok(Some(InPlace {
            unit: Unit {
                pieces: self.pieces.list(&[message.bytes()]),
                time,
                due: time,
                duration: u32::try_from(frames).unwrap_or(u32::MAX),
                is_start,
            },
            messages: std::slice::from_ref(message),
        }))
    }

    /// A queue whose other end has gone is ready, too: to say that it is at its end.
    fn is_ready(&mut self) -> Result<bool, MediaError> {
        // Its slot goes back as soon as its packets have left, also where nothing follows.
        self.lent = None;
        while self.next.is_none() {
            match self.messages.try_recv() {
                Ok(message) => self.keep(message),
                Err(TryRecvError::Empty) => return Ok(false),
                Err(TryRecvError::Disconnected) => return Ok(true),
            }
        }
        Ok(true)
    }

    fn damaged(&self) -> u64 {
        self.damaged
    }
}

#[cfg(test)]
mod tests {
    use std::sync::mpsc::sync_channel;

    use hythe_rtp::format::Encoding;

    use super::*;

    #[test]
    fn what_is_missing_is_a_gap_and_nothing_goes_back() {
        let format = PcmFormat {
            encoding: Encoding::L16,
            samples_per_second: 44_100,
            channels: 2,
        };
        let (sender, messages) = sync_channel(8);
        let mut source = TimedSource::new(format, messages).unwrap();
        assert!(!source.is_ready().unwrap());
        for (bytes, time) in [(8, 0), (9, 2), (3, 4), (8, 10), (4, 11)] {
            let message = Message::on_heap(&vec![7; bytes]);
            sender.send(TimedMessage { message, time }).unwrap();
        }
        drop(sender);
        let mut units = Vec::new();
        while let Some(found) = source.next_in_place().unwrap() {
            let unit = found.unit;
            assert_eq!(found.messages.len(), 1);
            units.push((unit.time, unit.duration, unit.len(), unit.is_start));
        }
        let expected = [
            (0, 2, 8, false),
            (2, 2, 8, false),
            (10, 2, 8, true),
            (12, 1, 4, false),
        ];
        assert_eq!((units, source.damaged()), (expected.to_vec(), 2));
        assert!(source.is_ready().unwrap());
    }
}

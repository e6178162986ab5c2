//! A source of live media: read in a thread of its own, so that whoever sends never waits for it.
//!
//! Standard input gives media when there is some, and so do channels whose messages cannot be sent
//! from where they lie. The thread parses it and leaves whole units in a queue with limits; if the
//! queue is full it waits, and then so does whoever produces the media.

use std::collections::VecDeque;
use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::thread;

use hythe_rtp::format::StreamFormat;
use hythe_rtp::unit::Unit;

use super::Source;
use super::owned::Owned;
use super::pieces::Pieces;
use crate::MediaError;

/// Units that wait, at most.
const UNITS_MAX: usize = 512;
/// Bytes that wait, at most, beside one unit that may be larger.
const BYTES_MAX: usize = 8 << 20;

#[derive(Debug, Default)]
struct Queue {
    units: VecDeque<Owned>,
    bytes: usize,
    damaged: u64,
    skipped_at_start: u64,
    /// The source has ended, or failed.
    end: Option<Option<MediaError>>,
    /// Nobody takes units any more.
    is_left: bool,
}

#[derive(Debug, Default)]
struct Shared {
    queue: Mutex<Queue>,
    changed: Condvar,
}

impl Shared {
    /// A thread that panicked left the queue whole: each change of it is one statement.
    fn queue(&self) -> MutexGuard<'_, Queue> {
        self.queue.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

/// The units of another source, as they come.
#[derive(Debug)]
pub struct Live {
    format: StreamFormat,
    shared: Arc<Shared>,
    /// The unit that the caller has.
    given: Option<Owned>,
    pieces: Pieces,
}

impl Live {
    /// Reads `source` in a thread from now on. The thread ends with the source, or after the unit
    /// at which this value is dropped: a source that waits for ever keeps its thread.
    ///
    /// # Errors
    ///
    /// [`MediaError::System`] if there is no thread to be had.
    pub fn start(source: Box<dyn Source + Send>) -> Result<Self, MediaError> {
        let shared = Arc::new(Shared::default());
        let format = source.format().clone();
        let reader = Arc::clone(&shared);
        let named = thread::Builder::new().name("live source".into());
        let started = named.spawn(move || read(source, &reader));
        started.map_err(|source| MediaError::System {
            what: "start a thread",
            source,
        })?;
        Ok(Self {
            format,
            shared,
            given: None,
            pieces: Pieces::default(),
        })
    }
}

impl Drop for Live {
    fn drop(&mut self) {
        self.shared.queue().is_left = true;
        self.shared.changed.notify_all();
    }
}

impl Source for Live {
    fn format(&self) -> &StreamFormat {
        &self.format
    }

    fn is_ready(&mut self) -> Result<bool, MediaError> {
        let queue = self.shared.queue();
        Ok(!queue.units.is_empty() || queue.end.is_some())
    }

    fn next(&mut self) -> Result<Option<Unit<'_>>, MediaError> {
        let mut queue = self.shared.queue();
        while queue.units.is_empty() && queue.end.is_none() {
            let woken = self.shared.changed.wait(queue);
            queue = woken.unwrap_or_else(PoisonError::into_inner);
        }
        let Some(unit) = queue.units.pop_front() else {
            // The error is reported once; afterwards the source is at its end.
            return match queue.end.replace(None).flatten() {
                Some(error) => Err(error),
                None => Ok(None),
            };
        };
        queue.bytes -= unit.len();
        drop(queue);
        self.shared.changed.notify_all();
        Ok(Some(self.given.insert(unit).lend(&mut self.pieces)))
    }

    fn damaged(&self) -> u64 {
        self.shared.queue().damaged
    }

    fn skipped_at_start(&self) -> u64 {
        self.shared.queue().skipped_at_start
    }
}

/// The thread: from the source into the queue.
fn read(mut source: Box<dyn Source + Send>, shared: &Shared) {
    loop {
        let outcome = source.next().map(|unit| unit.as_ref().map(Owned::of));
        let (damaged, skipped_at_start) = (source.damaged(), source.skipped_at_start());
        let mut queue = shared.queue();
        (queue.damaged, queue.skipped_at_start) = (damaged, skipped_at_start);
        match outcome {
            Ok(Some(unit)) => {
                while !queue.is_left && is_full(&queue) {
                    let woken = shared.changed.wait(queue);
                    queue = woken.unwrap_or_else(PoisonError::into_inner);
                }
                queue.bytes += unit.len();
                queue.units.push_back(unit);
            }
            Ok(None) => queue.end = Some(None),
            Err(error) => queue.end = Some(Some(error)),
        }
        let is_over = queue.is_left || queue.end.is_some();
        drop(queue);
        shared.changed.notify_all();
        if is_over {
            return;
        }
    }
}

fn is_full(queue: &Queue) -> bool {
    queue.units.len() >= UNITS_MAX || queue.bytes >= BYTES_MAX
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::source::Input;
    use crate::source::raw::{PcmFormat, PcmSource};
    use hythe_rtp::format::Encoding;
    use std::io::Read;

    fn source(input: impl Read + Send + 'static) -> Box<dyn Source + Send> {
        let format = PcmFormat {
            encoding: Encoding::Pcmu,
            samples_per_second: 8000,
            channels: 1,
        };
        Box::new(PcmSource::new(Input::new("test", input), format, 20).unwrap())
    }

    #[test]
    fn units_come_as_the_source_has_them_and_then_the_end() {
        let bytes: Vec<u8> = (0..160_000_u32).map(|byte| byte as u8).collect();
        let mut plain = source(std::io::Cursor::new(bytes.clone()));
        let mut live = Live::start(source(std::io::Cursor::new(bytes))).unwrap();
        while let Some(expected) = plain.next().unwrap() {
            let unit = live.next().unwrap().unwrap();
            assert_eq!(unit.pieces, expected.pieces);
            assert_eq!(
                (unit.time, unit.duration),
                (expected.time, expected.duration)
            );
        }
        assert!(live.next().unwrap().is_none());
        assert!(live.is_ready().unwrap() && live.next().unwrap().is_none());
    }

    #[test]
    fn it_is_ready_only_when_something_came() {
        let (reader, mut writer) = std::io::pipe().unwrap();
        let mut live = Live::start(source(reader)).unwrap();
        assert!(!live.is_ready().unwrap());
        std::io::Write::write_all(&mut writer, &[7; 160]).unwrap();
        assert_eq!(live.next().unwrap().unwrap().len(), 160);
        assert!(!live.is_ready().unwrap());
        drop(writer);
        assert!(live.next().unwrap().is_none());
    }

    #[test]
    fn error_is_told_once_behind_what_came_before() {
        struct Broken(usize);
        impl Read for Broken {
            fn read(&mut self, into: &mut [u8]) -> std::io::Result<usize> {
                let bytes = self.0.min(into.len());
                self.0 -= bytes;
                match bytes {
                    0 => Err(std::io::ErrorKind::ConnectionReset.into()),
                    some => Ok(some),
                }
            }
        }
        let mut live = Live::start(source(Broken(160))).unwrap();
        assert_eq!(live.next().unwrap().unwrap().len(), 160);
        assert!(live.next().is_err());
        assert!(live.next().unwrap().is_none());
    }
}

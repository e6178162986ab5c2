//! The messages of a Hythe channel as one stream of bytes.

use std::io::{self, Read};
use std::time::Duration;

use hythe_node::{Sample, Subscriber};

/// How often a reader that waits looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);

/// Reads what is published on a channel, message behind message. Ends when `is_wanted` says so.
pub struct ChannelReader {
    subscriber: Subscriber,
    is_wanted: Box<dyn Fn() -> bool + Send>,
    sample: Option<Sample>,
    /// Bytes of it that were read.
    read: usize,
}

impl ChannelReader {
    /// A reader of what arrives from now on.
    #[must_use]
    pub fn new(subscriber: Subscriber, is_wanted: impl Fn() -> bool + Send + 'static) -> Self {
        Self {
            subscriber,
            is_wanted: Box::new(is_wanted),
            sample: None,
            read: 0,
        }
    }
}

impl Read for ChannelReader {
    fn read(&mut self, into: &mut [u8]) -> io::Result<usize> {
        loop {
            if let Some(sample) = self
                .sample
                .as_ref()
                .filter(|sample| sample.len() > self.read)
            {
                let bytes = into.len().min(sample.len() - self.read);
                sample.read(self.read, &mut into[..bytes]);
                self.read += bytes;
                return Ok(bytes);
            }
            self.sample = None;
            self.read = 0;
            if !(self.is_wanted)() {
                return Ok(0);
            }
            self.sample = self.subscriber.take(LOOK).map_err(io::Error::other)?;
        }
    }
}

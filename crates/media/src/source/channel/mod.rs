//! Media from a Hythe channel, sent from the very slots that its publisher wrote.
//!
//! A `Cutter` finds units in messages; what it yields are slices of them, and the messages
//! themselves, so that whoever sends can hold their slots until the last packet has left. No byte
//! of media is copied, with two exceptions: what the end of a message cuts in two is joined in a
//! slot of our own and counted, and containers whose bytes have to change (WAV: samples in another
//! order) or stand between others (Ogg, M2TS) are read as a stream of bytes, as from a pipe.
//!
//! Sending in place reads what its publisher may still write. Lengths and places come from checked
//! descriptors, so whoever scribbles over a message that it has published has garbage sent, and
//! nothing else.

mod bytes;
mod change;
mod message;
mod mpeg_audio;
mod nals;
mod pcm;
mod timed;
mod ts;
mod watch;

use std::sync::mpsc::{Receiver, TryRecvError};
use std::time::Duration;

use hythe_node::{Node, Sample, Subscriber, TrustPeers};

pub use self::message::Message;
pub use self::timed::{TimedMessage, TimedSource};
pub use self::watch::Watch;

use hythe_rtp::format::StreamFormat;
use hythe_rtp::unit::Unit;

use self::bytes::ChannelReader;
use self::message::join;
use super::open::Container;
use super::{InPlace, Input, Live, OpenOptions, Source, open_input};
use crate::MediaError;

/// How often who waits for a message looks whether it is still wanted.
const LOOK: Duration = Duration::from_millis(100);
/// Messages that are held because what follows them has to be seen first (the next clock reference,
/// the next picture), at most.
const AHEAD_MAX: usize = 256;

/// Where messages come from.
enum Arrivals {
    Channel(Box<Subscriber>, Box<dyn Fn() -> bool + Send>),
    Watched(Watch, Box<dyn Fn() -> bool + Send>),
    Queue(Receiver<Sample>),
}

/// Takes the messages of a channel.
pub struct Messages {
    node: Node,
    arrivals: Arrivals,
    trust: TrustPeers,
}

/// What there is at this moment.
enum Next {
    Here(Message),
    NotYet,
    Over,
}

impl Messages {
    /// What arrives from now on, until `is_wanted` says no. The `trust` is that nobody writes what
    /// it has published.
    #[must_use]
    pub fn new(
        node: &Node,
        subscriber: Subscriber,
        trust: TrustPeers,
        is_wanted: impl Fn() -> bool + Send + 'static,
    ) -> Self {
        Self {
            node: node.clone(),
            arrivals: Arrivals::Channel(Box::new(subscriber), Box::new(is_wanted)),
            trust,
        }
    }

    /// What arrives on a watched channel, until `is_wanted` says no, or another format begins.
    #[must_use]
    pub fn watched(
        node: &Node,
        watch: &Watch,
        trust: TrustPeers,
        is_wanted: impl Fn() -> bool + Send + 'static,
    ) -> Self {
        Self {
            node: node.clone(),
            arrivals: Arrivals::Watched(watch.clone(), Box::new(is_wanted)),
            trust,
        }
    }

    /// What another thread takes and leaves in a queue, until it has gone.
    #[must_use]
    pub fn queued(node: &Node, samples: Receiver<Sample>, trust: TrustPeers) -> Self {
        Self {
            node: node.clone(),
            arrivals: Arrivals::Queue(samples),
            trust,
        }
    }

    fn poll(&mut self) -> Result<Next, MediaError> {
        let sample = match &mut self.arrivals {
            Arrivals::Channel(subscriber, is_wanted) => match subscriber.try_take()? {
                None if !is_wanted() => return Ok(Next::Over),
                sample => sample,
            },
            Arrivals::Watched(watch, is_wanted) => match watch.next(None)? {
                Next::NotYet if !is_wanted() => return Ok(Next::Over),
                next => return Ok(next),
            },
            Arrivals::Queue(samples) => match samples.try_recv() {
                Ok(sample) => Some(sample),
                Err(TryRecvError::Empty) => None,
                Err(TryRecvError::Disconnected) => return Ok(Next::Over),
            },
        };
        Ok(match sample {
            Some(sample) => Next::Here(Message::new(sample, self.trust)),
            None => Next::NotYet,
        })
    }

    /// The next message; `None`: there will be none.
    fn wait(&mut self) -> Result<Option<Message>, MediaError> {
        let sample = match &mut self.arrivals {
            Arrivals::Channel(subscriber, is_wanted) => loop {
                match subscriber.take(LOOK)? {
                    None if is_wanted() => {}
                    sample => break sample,
                }
            },
            Arrivals::Watched(watch, is_wanted) => loop {
                match watch.next(Some(LOOK))? {
                    Next::Here(message) => return Ok(Some(message)),
                    Next::NotYet if is_wanted() => {}
                    Next::NotYet | Next::Over => return Ok(None),
                }
            },
            Arrivals::Queue(samples) => samples.recv().ok(),
        };
        Ok(sample.map(|sample| Message::new(sample, self.trust)))
    }
}

/// Finds units in messages of one container. Pure: it is handed messages and says what is in them.
trait Cutter: Send {
    fn format(&self) -> &StreamFormat;

    /// How many of the first bytes of a message can be taken without those that follow.
    fn whole(&self, bytes: &[u8]) -> usize;

    /// How many of the first bytes of a message complete what was left of the one before; `None`:
    /// not even all of them.
    fn completing(&self, left: &[u8], bytes: &[u8]) -> Option<usize>;

    /// Takes what is whole, in order.
    fn take(&mut self, message: Message) -> Result<(), MediaError>;

    /// Lets go of the unit that was given last. Can another be told from what was taken? `is_over`:
    /// nothing will follow; else something has to be told without waiting any longer if `AHEAD_MAX`
    /// messages are held.
    fn is_ready(&mut self, is_over: bool) -> Result<bool, MediaError>;

    /// The next unit, for which [`Self::is_ready`] said yes.
    fn next(&mut self) -> Result<Option<InPlace<'_>>, MediaError>;

    fn damaged(&self) -> u64;

    /// As [`Source::says_frame_rate`].
    fn says_frame_rate(&self) -> bool {
        false
    }
}

/// The units in the messages of a channel, where they lie.
pub struct ChannelSource {
    messages: Messages,
    cutter: Box<dyn Cutter>,
    /// What the end of the last message cut off.
    left: Option<Message>,
    is_over: bool,
    joined_bytes: u64,
    /// Places that could not be joined.
    unjoined: u64,
}

/// Opens a channel: waits for its first message, whose first bytes tell what it carries. Units are
/// sent from where they lie if the container allows it, else copied by a thread.
///
/// # Errors
///
/// [`MediaError::Input`] for what cannot be sent, and why, or if no message came;
/// [`MediaError::Pool`].
pub fn open(
    name: &str,
    mut messages: Messages,
    options: &OpenOptions,
) -> Result<Box<dyn Source + Send>, MediaError> {
    let Some(first) = messages.wait()? else {
        return Err(nothing(name, "no message came"));
    };
    let Some(cutter) = cutter(name, &first, options)? else {
        let input = Input::new(name, ChannelReader::new(messages, first));
        return Ok(Box::new(Live::start(open_input(input, options)?)?));
    };
    let mut source = ChannelSource::new(messages, cutter);
    source.take(first)?;
    // What a stream carries is known with its first unit: parameter sets, clock references.
    if source.fill()? {
        Ok(Box::new(source))
    } else {
        Err(nothing(name, "no media that can be sent came"))
    }
}

fn nothing(name: &str, reason: &str) -> MediaError {
    MediaError::Input {
        input: name.to_owned(),
        position: 0,
        reason: reason.to_owned(),
    }
}

/// Who finds the units in messages that begin with `first`; `None` where they cannot be sent from
/// where they lie.
fn cutter(
    name: &str,
    first: &Message,
    options: &OpenOptions,
) -> Result<Option<Box<dyn Cutter>>, MediaError> {
    let bytes = first.bytes();
    if let Some(format) = options.raw {
        return Ok(Some(Box::new(pcm::PcmCutter::new(
            format,
            options.block_ms,
        )?)));
    }
    Ok(match Container::of(bytes, true) {
        Some(Container::TransportStream) if ts::begins(bytes) => {
            Some(Box::new(ts::TsCutter::new(name, options.bits_per_second)))
        }
        Some(Container::ByteStream) => {
            Some(Box::new(nals::NalCutter::new(name, options.frame_rate)))
        }
        Some(Container::MpegAudio) => {
            mpeg_audio::MpegAudioCutter::new(bytes, options.payload_limit)
                .map(|cutter| Box::new(cutter) as Box<dyn Cutter>)
        }
        _ => None,
    })
}

impl ChannelSource {
    fn new(messages: Messages, cutter: Box<dyn Cutter>) -> Self {
        Self {
            messages,
            cutter,
            left: None,
            is_over: false,
            joined_bytes: 0,
            unjoined: 0,
        }
    }

    /// Takes a message: what of it is whole, and what completes what was left of the one before.
    fn take(&mut self, message: Message) -> Result<(), MediaError> {
        let mut begin = 0;
        if let Some(left) = self.left.take() {
            let completing = self.cutter.completing(left.bytes(), message.bytes());
            begin = completing.unwrap_or(message.len());
            let joined = self.join(left, &message.bytes()[..begin]);
            match (joined, completing) {
                (Some(joined), Some(_)) => self.cutter.take(joined)?,
                (joined, None) => {
                    self.left = joined;
                    return Ok(());
                }
                (None, Some(_)) => {}
            }
        }
        let end = begin + self.cutter.whole(&message.bytes()[begin..]);
        if end > begin {
            self.cutter.take(message.part(begin..end))?;
        }
        if end < message.len() {
            self.left = Some(message.part(end..message.len()));
        }
        Ok(())
    }

    /// What was left with what completes it. `None`: there is no slot for it, or none as large;
    /// then that unit is lost, and the stream goes on. A lost pool is told by the next call.
    fn join(&mut self, left: Message, behind: &[u8]) -> Option<Message> {
        if behind.is_empty() {
            return Some(left);
        }
        let (node, trust) = (&self.messages.node, self.messages.trust);
        let joined = join(node, trust, left.bytes(), behind).ok();
        match &joined {
            Some(joined) => self.joined_bytes += joined.len() as u64,
            None => self.unjoined += 1,
        }
        joined
    }

    /// Waits until a unit can be told; `false`: there will be none.
    fn fill(&mut self) -> Result<bool, MediaError> {
        while !self.cutter.is_ready(self.is_over)? {
            if self.is_over {
                return Ok(false);
            }
            match self.messages.wait()? {
                Some(message) => self.take(message)?,
                None => self.end()?,
            }
        }
        Ok(true)
    }

    fn end(&mut self) -> Result<(), MediaError> {
        self.is_over = true;
        match self.left.take() {
            Some(left) => self.cutter.take(left),
            None => Ok(()),
        }
    }
}

impl Source for ChannelSource {
    fn format(&self) -> &StreamFormat {
        self.cutter.format()
    }

    fn next(&mut self) -> Result<Option<Unit<'_>>, MediaError> {
        Ok(self.next_in_place()?.map(|found| found.unit))
    }

    fn is_in_place(&self) -> bool {
        true
    }

    fn next_in_place(&mut self) -> Result<Option<InPlace<'_>>, MediaError> {
        if !self.fill()? {
            return Ok(None);
        }
        self.cutter.next()
    }

    fn is_ready(&mut self) -> Result<bool, MediaError> {
        while !self.cutter.is_ready(self.is_over)? {
            if self.is_over {
                return Ok(true);
            }
            match self.messages.poll()? {
                Next::Here(message) => self.take(message)?,
                Next::NotYet => return Ok(false),
                Next::Over => self.end()?,
            }
        }
        Ok(true)
    }

    fn says_frame_rate(&self) -> bool {
        self.cutter.says_frame_rate()
    }

    fn damaged(&self) -> u64 {
        self.cutter.damaged() + self.unjoined
    }

    fn joined_bytes(&self) -> u64 {
        self.joined_bytes
    }
}

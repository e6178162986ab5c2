//! How bytes cross between Linux and a decoder, one way for each flow (sound, picture).
//!
//! The player's threads know the traits alone: `feed` leases memory, reads a sample of the movie
//! into it and sends it; `show` and `sound` take what was decoded. One file for each method.

mod copy;
mod process;
mod slots;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hythe::{Lease, Node, Sample, TrustPeers};
use serde::Serialize;

use crate::error::PlayError;
use crate::ports::{Channels, INFO_BYTES, INFO_WORDS};
use crate::stage::locked;

pub(crate) use process::DecoderProcess;

/// Who decodes, and how bytes cross the boundary to the decoder.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// A core; slots are filled by the kernel and read in place.
    #[default]
    Hythe,
    /// A core; everything is copied in fragments by both sides, as over RPMsg.
    Copy,
    /// Linux: a process for each of sound and picture, over pipes.
    Linux,
}

/// Copies of each payload byte over the boundary, those within the decoder's side included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copies {
    pub(crate) compressed: u32,
    pub(crate) picture: u32,
    pub(crate) samples: u32,
}

impl Method {
    /// Copies of the code that runs. `hythe`: descriptors move nothing, and both decoders read in
    /// place; a picture is copied out of the decoder's reference pictures. `copy`: into fragments
    /// and out of them, a picture straight from the reference pictures. `linux`: into a pipe and
    /// out of it, by the kernel.
    pub(crate) const fn copies(self) -> Copies {
        let (compressed, picture, samples) = match self {
            Self::Hythe => (0, 1, 0),
            Self::Copy | Self::Linux => (2, 2, 2),
        };
        Copies {
            compressed,
            picture,
            samples,
        }
    }

    /// Does a core decode?
    pub(crate) fn needs_core(self) -> bool {
        self != Self::Linux
    }
}

/// Opens the way to a decoder of the core, and back.
pub(crate) fn open_core(
    node: &Node,
    channels: &Channels,
    method: Method,
) -> Result<Flow, PlayError> {
    match method {
        Method::Copy => copy::open(node, channels),
        Method::Hythe | Method::Linux => slots::open(node, channels),
    }
}

/// Memory for a message to a decoder, of the way that it was leased from.
#[derive(Debug)]
pub(crate) enum Message {
    Slot(Lease),
    Own(Vec<u8>),
}

impl Message {
    /// Writes at `at` of the payload.
    pub(crate) fn write(&mut self, at: usize, bytes: &[u8]) {
        match self {
            Self::Slot(lease) => lease.write(at, bytes),
            Self::Own(own) => own[at..at + bytes.len()].copy_from_slice(bytes),
        }
    }

    /// Reads up to `range.len()` bytes of a file from `offset` on; 0: it ends there.
    pub(crate) fn read_file(
        &mut self,
        file: &File,
        offset: u64,
        range: Range<usize>,
    ) -> io::Result<usize> {
        use std::os::unix::fs::FileExt as _;
        match self {
            Self::Slot(lease) => lease.read_file(file, offset, range.start, range.len()),
            Self::Own(own) => file.read_at(&mut own[range], offset),
        }
    }

    /// Memory of this process; a slot is none.
    fn into_own(self) -> Vec<u8> {
        match self {
            Self::Slot(_) => Vec::new(),
            Self::Own(own) => own,
        }
    }

    /// What was written there, to be changed in place.
    pub(crate) fn in_place<T>(
        &mut self,
        range: Range<usize>,
        change: impl FnOnce(&mut [u8]) -> T,
    ) -> T {
        match self {
            Self::Slot(lease) => {
                // Nobody else has the slot before it is published.
                let trust = TrustPeers::i_trust_every_writer_of_this_pool();
                change(&mut lease.as_mut_slice(trust)[range])
            }
            Self::Own(own) => change(&mut own[range]),
        }
    }
}

/// What was decoded: words that describe it, and a picture or samples.
#[derive(Debug)]
pub(crate) struct Decoded {
    pub(crate) words: [u32; INFO_WORDS],
    payload: Payload,
}

#[derive(Debug)]
enum Payload {
    Slot(Sample),
    Own(Own),
}

impl Decoded {
    /// A message that begins with its words, in memory that goes back to `spare`.
    fn of_own(message: Vec<u8>, spare: &Spare) -> Result<Self, PlayError> {
        let Some((front, _)) = message.split_first_chunk::<INFO_BYTES>() else {
            return Err(PlayError::Mismatch {
                decoded: format!("a message of {} bytes", message.len()),
                expected: format!("{INFO_BYTES} bytes and a picture or samples"),
            });
        };
        Ok(Self {
            words: words(front),
            payload: Payload::Own(Own {
                message,
                spare: spare.clone(),
            }),
        })
    }

    /// In place.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.payload {
            Payload::Slot(sample) => {
                let trust = TrustPeers::i_trust_every_writer_of_this_pool();
                sample.as_slice(trust)
            }
            Payload::Own(own) => &own.message[INFO_BYTES..],
        }
    }

    /// Its slot; none: it is in memory of this process.
    pub(crate) fn into_sample(self) -> Option<Sample> {
        match self.payload {
            Payload::Slot(sample) => Some(sample),
            Payload::Own(_) => None,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.payload {
            Payload::Slot(sample) => sample.len(),
            Payload::Own(own) => own.message.len() - INFO_BYTES,
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Little endian.
fn words(bytes: &[u8; INFO_BYTES]) -> [u32; INFO_WORDS] {
    let mut words = [0; INFO_WORDS];
    for (word, bytes) in words.iter_mut().zip(bytes.chunks_exact(4)) {
        *word = bytes
            .iter()
            .rev()
            .fold(0, |word, byte| word << 8 | u32::from(*byte));
    }
    words
}

/// A message in memory of this process; dropped, the memory is used again.
#[derive(Debug)]
struct Own {
    message: Vec<u8>,
    spare: Spare,
}

impl Drop for Own {
    fn drop(&mut self) {
        self.spare.back(std::mem::take(&mut self.message));
    }
}

/// Memory that was used before: no message pays for new pages.
#[derive(Clone, Debug, Default)]
struct Spare(Arc<Mutex<Vec<Vec<u8>>>>);

impl Spare {
    fn take(&self) -> Vec<u8> {
        locked(&self.0).pop().unwrap_or_default()
    }

    fn back(&self, memory: Vec<u8>) {
        locked(&self.0).push(memory);
    }

    /// At least so many bytes, with whatever is in them.
    fn message(&self, bytes: usize) -> Message {
        let mut own = self.take();
        if own.len() < bytes {
            own.resize(bytes, 0);
        }
        Message::Own(own)
    }
}

/// The way to a decoder.
pub(crate) trait Sender: Send {
    /// Memory for a message of so many bytes; `None`: there is none now.
    fn lease(&mut self, bytes: usize) -> Result<Option<Message>, PlayError>;

    /// Sends the first `bytes` of the message; false: as long as one attempt lasts the decoder had
    /// no place for it, and nothing was sent. Where sending takes longer than an attempt,
    /// `is_worth` is asked now and then whether to go on.
    fn send(
        &mut self,
        message: Message,
        bytes: usize,
        is_worth: &dyn Fn() -> Result<bool, PlayError>,
    ) -> Result<bool, PlayError>;
}

/// The way back.
pub(crate) trait Receiver: Send {
    /// Waits for what is decoded next.
    fn take(&mut self, bound: Duration) -> Result<Option<Decoded>, PlayError>;

    /// Sleeps that a bell ended.
    fn wakes(&self) -> u64;
}

/// Both ends of a decoder.
pub(crate) struct Flow {
    pub(crate) to_decoder: Box<dyn Sender>,
    pub(crate) from_decoder: Box<dyn Receiver>,
}

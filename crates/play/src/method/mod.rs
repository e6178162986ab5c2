//! How bytes cross between Linux and a decoder, one way for each flow (sound, picture).
//!
//! The player's threads know the traits alone: `feed` leases memory, reads a sample of the movie
//! into it and sends it; `show` and `sound` take what was decoded. One file for each method.

mod slots;

use std::fs::File;
use std::io;
use std::ops::Range;
use std::sync::{Arc, Mutex};
use std::time::Duration;

use hythe::{Lease, NodeError, Sample, TrustPeers};
use serde::Serialize;

use crate::error::PlayError;
use crate::ports::INFO_WORDS;
use crate::stage::locked;

pub(crate) use slots::open as open_slots;

/// The way over the boundary, on the side of Linux.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub enum Method {
    /// Slots are filled by the kernel and read in place.
    #[default]
    Hythe,
    /// Everything goes through memory of this process, and is copied to and from the slot in
    /// fragments, as over RPMsg.
    Copy,
}

/// Copies of each payload byte over the boundary, those within the decoder's side included.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Copies {
    pub(crate) compressed: u32,
    pub(crate) picture: u32,
    pub(crate) samples: u32,
}

impl Method {
    pub(crate) const fn copies(self) -> Copies {
        let (compressed, picture, samples) = match self {
            Self::Hythe => (0, 1, 0),
            Self::Copy => (1, 2, 1),
        };
        Copies {
            compressed,
            picture,
            samples,
        }
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
    /// In place.
    pub(crate) fn bytes(&self) -> &[u8] {
        match &self.payload {
            Payload::Slot(sample) => {
                let trust = TrustPeers::i_trust_every_writer_of_this_pool();
                sample.as_slice(trust)
            }
            Payload::Own(own) => &own.bytes,
        }
    }

    pub(crate) fn len(&self) -> usize {
        match &self.payload {
            Payload::Slot(sample) => sample.len(),
            Payload::Own(own) => own.bytes.len(),
        }
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Memory of this process; dropped, it is used again.
#[derive(Debug)]
struct Own {
    bytes: Vec<u8>,
    spare: Spare,
}

/// Memory that was used before: no message pays for new pages.
#[derive(Clone, Debug, Default)]
struct Spare(Arc<Mutex<Vec<Vec<u8>>>>);

impl Spare {
    fn take(&self) -> Own {
        Own {
            bytes: locked(&self.0).pop().unwrap_or_default(),
            spare: self.clone(),
        }
    }
}

impl Drop for Own {
    fn drop(&mut self) {
        locked(&self.spare.0).push(std::mem::take(&mut self.bytes));
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

/// Is this refusal one that goes by?
const fn is_full(error: &NodeError) -> bool {
    error.is_pool_full() || matches!(error, NodeError::CoreFull { .. })
}

//! Gathers NAL units to access units and puts them in display order.

use std::collections::VecDeque;

use hythe_rtp::video::headers::Headers;
use hythe_rtp::video::order::{DisplayOrder, Placed};
use hythe_rtp::video::parameters::is_set;
use hythe_rtp::video::slice::{Picture, Slice, Trouble};
use hythe_rtp::video::units::{NalUnits, SETS_MAX};
use hythe_rtp::video::{Codec, FrameRate, Role};

use super::{WAITING_BYTES_MAX, WAITING_MAX};

/// Where the NAL units of an access unit are kept; empty at first, with memory that is used again.
pub(in crate::source) trait Keep: Default {
    /// What has to be known of a NAL unit to keep it, besides its bytes.
    type Place;

    /// Keeps one more.
    ///
    /// # Errors
    ///
    /// The limit that it would break.
    fn keep(&mut self, nal: &[u8], place: Self::Place) -> Result<(), &'static str>;

    /// Bytes of all.
    fn bytes(&self) -> usize;

    /// Forgets all of them.
    fn forget(&mut self);
}

/// A copy of them.
impl Keep for NalUnits {
    type Place = ();

    fn keep(&mut self, nal: &[u8], (): ()) -> Result<(), &'static str> {
        self.push(nal)
    }

    fn bytes(&self) -> usize {
        self.len()
    }

    fn forget(&mut self) {
        self.clear();
    }
}

/// An access unit that waits for its place in display order, or for its turn.
pub(in crate::source) struct Waiting<K> {
    pub(super) nals: K,
    pub(in crate::source) picture: Picture,
    is_start: bool,
    display_index: Option<u64>,
}

/// An access unit whose turn it is.
pub(in crate::source) struct Next<K> {
    pub(in crate::source) nals: K,
    pub(in crate::source) decoding_index: u64,
    pub(in crate::source) display_index: u64,
    pub(in crate::source) is_start: bool,
}

/// Takes NAL units one at a time.
pub(in crate::source) struct Gatherer<K> {
    stream: Option<(Codec, Headers)>,
    /// All different parameter sets up to the first picture.
    sets: Vec<Vec<u8>>,
    /// The access unit that grows, and what its first slice says once that has come.
    nals: K,
    picture: Option<Picture>,
    is_start: bool,
    order: DisplayOrder,
    /// In decoding order.
    waiting: VecDeque<Waiting<K>>,
    waiting_bytes: usize,
    /// Decoding index of the first that waits.
    given: u64,
    /// Memory to use again.
    spare: Vec<K>,
    damaged: u64,
}

/// Why display order cannot be told.
pub(in crate::source) type Refused = &'static str;

impl<K: Keep> Gatherer<K> {
    pub(in crate::source) fn new(codec: Option<Codec>) -> Self {
        Self {
            stream: codec.map(|codec| (codec, Headers::new(codec))),
            sets: Vec::new(),
            nals: K::default(),
            picture: None,
            is_start: false,
            order: DisplayOrder::default(),
            waiting: VecDeque::new(),
            waiting_bytes: 0,
            given: 0,
            spare: Vec::new(),
            damaged: 0,
        }
    }

    pub(in crate::source) fn codec(&self) -> Option<Codec> {
        self.stream.as_ref().map(|(codec, _)| *codec)
    }

    pub(in crate::source) fn sets(&self) -> &[Vec<u8>] {
        &self.sets
    }

    pub(in crate::source) fn frame_rate(&self) -> Option<FrameRate> {
        self.stream.as_ref()?.1.frame_rate()
    }

    pub(in crate::source) fn waiting(&self) -> usize {
        self.waiting.len()
    }

    pub(in crate::source) fn first(&self) -> Option<&Waiting<K>> {
        self.waiting.front()
    }

    /// NAL units that were passed over.
    pub(in crate::source) fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Has the next access unit its place?
    pub(in crate::source) fn is_ready(&self) -> bool {
        self.first()
            .is_some_and(|first| first.display_index.is_some())
    }

    /// The next access unit, if it has its place. Its memory comes back by [`Self::release`].
    pub(in crate::source) fn next(&mut self) -> Option<Next<K>> {
        let display_index = self.first()?.display_index?;
        let next = self.waiting.pop_front()?;
        self.waiting_bytes -= next.nals.bytes();
        self.given += 1;
        Some(Next {
            nals: next.nals,
            decoding_index: self.given - 1,
            display_index,
            is_start: next.is_start,
        })
    }

    pub(in crate::source) fn release(&mut self, mut nals: K) {
        nals.forget();
        self.spare.push(nals);
    }

    pub(in crate::source) fn take(&mut self, nal: &[u8], place: K::Place) -> Result<(), Refused> {
        if self.stream.is_none() {
            self.stream = recognised(nal).map(|codec| (codec, Headers::new(codec)));
        }
        let Some((codec, headers)) = &mut self.stream else {
            self.damaged += 1;
            return Ok(());
        };
        let codec = *codec;
        let role = codec.role(nal);
        let read = match role {
            Role::Slice => return self.take_slice(codec, nal, place),
            Role::Unspecified => Err(Trouble::Damaged),
            Role::SequenceSet => headers.sequence_set(nal),
            Role::PictureSet => headers.picture_set(nal),
            _ => Ok(()),
        };
        if self.passes_over(read)? {
            return Ok(());
        }
        let is_in_front = matches!(role, Role::Delimiter | Role::Prefix) || is_set(codec, nal);
        if is_in_front && self.picture.is_some() {
            self.complete()?;
        }
        if is_set(codec, nal) && self.waiting.is_empty() && self.given == 0 {
            self.remember(nal);
        }
        self.push(nal, place);
        if let (Role::SequenceEnd, Some((_, headers))) = (role, &mut self.stream) {
            headers.end_sequence();
        }
        Ok(())
    }

    fn take_slice(&mut self, codec: Codec, nal: &[u8], place: K::Place) -> Result<(), Refused> {
        let Some((_, headers)) = &mut self.stream else {
            return Ok(());
        };
        let slice = match headers.slice(nal) {
            Ok(slice) => slice,
            Err(trouble) => return self.passes_over(Err(trouble)).map(|_| ()),
        };
        if let Slice::Begins(picture) = slice {
            if self.picture.is_some() {
                self.complete_before_slice()?;
            }
            self.picture = Some(picture);
            self.is_start = codec.is_start(nal);
        }
        if self.picture.is_some() {
            self.push(nal, place);
        } else {
            self.damaged += 1; // the first slice of its picture is missing
        }
        Ok(())
    }

    /// Damage is passed over and counted; `true`: do so.
    fn passes_over(&mut self, read: Result<(), Trouble>) -> Result<bool, Refused> {
        match read {
            Ok(()) => Ok(false),
            Err(Trouble::Damaged) => {
                self.damaged += 1;
                Ok(true)
            }
            Err(Trouble::Unsupported(reason)) => Err(reason),
        }
    }

    fn remember(&mut self, set: &[u8]) {
        let is_known = self.sets.iter().any(|known| known == set);
        if !is_known && self.sets.len() < SETS_MAX {
            self.sets.push(set.to_vec());
        }
    }

    fn push(&mut self, nal: &[u8], place: K::Place) {
        self.damaged += u64::from(self.nals.keep(nal, place).is_err());
    }

    /// The stream has ended.
    pub(in crate::source) fn finish(&mut self) -> Result<(), Refused> {
        self.complete()?;
        let (waiting, given) = (&mut self.waiting, self.given);
        self.order
            .finish(&mut |placed| place(waiting, given, placed));
        Ok(())
    }

    /// The access unit ends in front of something that is no slice: whichever slice comes next
    /// begins a picture.
    fn complete(&mut self) -> Result<(), Refused> {
        if let Some((_, headers)) = &mut self.stream {
            headers.end_picture();
        }
        self.complete_before_slice()
    }

    fn complete_before_slice(&mut self) -> Result<(), Refused> {
        let Some(picture) = self.picture.take() else {
            return Ok(());
        };
        let nals = std::mem::replace(&mut self.nals, self.spare.pop().unwrap_or_default());
        self.waiting_bytes += nals.bytes();
        self.waiting.push_back(Waiting {
            nals,
            picture,
            is_start: self.is_start,
            display_index: None,
        });
        let (waiting, given) = (&mut self.waiting, self.given);
        self.order
            .take(&picture, &mut |placed| place(waiting, given, placed));
        let is_full = self.waiting.len() > WAITING_MAX || self.waiting_bytes > WAITING_BYTES_MAX;
        if is_full && !self.is_ready() {
            return Err("too many pictures are shown before one that is decoded before them");
        }
        Ok(())
    }
}

fn place<K>(waiting: &mut VecDeque<Waiting<K>>, given: u64, placed: Placed) {
    let index = placed.decoding_index - given;
    if let Some(waiting) = waiting.get_mut(index as usize) {
        waiting.display_index = Some(placed.display_index);
    }
}

/// Which stream begins so: with a delimiter, a parameter set or a message that no other has with
/// this header.
fn recognised(nal: &[u8]) -> Option<Codec> {
    const FIRST_SUB_LAYER: u8 = 1;
    match (nal.first()?, nal.get(1)) {
        // Types 32 to 35 and 39 of layer 0; as H.264 these are unspecified, or messages marked as
        // referenced (7.4.1 forbids that).
        (0x40 | 0x42 | 0x44 | 0x46 | 0x4e, Some(&FIRST_SUB_LAYER)) => Some(Codec::H265),
        (header, _) if header & 0x80 == 0 && matches!(header & 0x1f, 6..=9) => Some(Codec::H264),
        _ => None,
    }
}

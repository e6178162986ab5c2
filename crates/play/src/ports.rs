//! The channels of the core's program `player`, and what stands in its slots
//! (`rtos/apps/player/README.md`).

use std::time::Duration;

use hythe::core::LinkTimeouts;
use hythe::media::source::mp4::movie::SAMPLES_MAX;
use hythe::{Node, Pool, PortPolicy, Publisher, PublisherOptions, Subscriber, SubscriberOptions};

use crate::error::PlayError;

/// The program that the core runs.
pub(crate) const PROGRAM: &str = "player";
/// The channels of a decoder of the core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Channels {
    /// What is decoded, as the decoder on Linux is told it, too.
    pub(crate) to_core: &'static str,
    pub(crate) from_core: &'static str,
    /// Over which the core gets the memory of a copying transfer, and the most bytes of a message.
    pub(crate) copy: &'static str,
    pub(crate) copy_bytes_max: usize,
}
/// Access units, and pictures.
pub(crate) const PICTURE: Channels = Channels {
    to_core: "h264",
    from_core: "picture",
    copy: "h264/copy",
    copy_bytes_max: 256 << 10,
};
/// MP3 frames, and samples.
pub(crate) const SOUND: Channels = Channels {
    to_core: "mp3",
    from_core: "pcm",
    copy: "mp3/copy",
    copy_bytes_max: 4096,
};
/// Bytes in front of an access unit: its tag.
pub(crate) const TAG_BYTES: usize = 4;
/// Words that describe what was decoded.
pub(crate) const INFO_WORDS: usize = 6;
/// Their bytes.
pub(crate) const INFO_BYTES: usize = 4 * INFO_WORDS;
/// The longest message with its words: a picture that fits into a slot of any board.
pub(crate) const MESSAGE_BYTES_MAX: usize = (1 << 20) + INFO_BYTES;
/// The number of the unit that ends a stream; no movie has as many.
pub(crate) const LAST_NUMBER: u32 = (1 << NUMBER_BITS) - 1;
/// Of a tag; the bits above are the pass.
const NUMBER_BITS: u32 = 23;
const _: () = assert!(SAMPLES_MAX < LAST_NUMBER as usize);

/// How long one attempt to send to a full queue lasts: the sender looks between two whether to go
/// on.
pub(crate) const SEND_TIMEOUT: Duration = Duration::from_millis(200);
/// How long a core may take to subscribe.
const SUBSCRIBE_TIMEOUT: Duration = Duration::from_secs(10);
/// Messages that may wait to be taken.
const DEPTH: u32 = 32;
/// Longer than any movie stands still: a core waits with what it has decoded.
const HOLD_MS: u32 = 3_600_000;

/// What stands in front of an access unit, and comes back with what it decodes to.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) struct UnitTag {
    /// How often units were sent again from a key frame on. It wraps: only answers that are under
    /// way are compared.
    pub(crate) pass: u32,
    /// Of the unit, in decoding order from 0, or [`LAST_NUMBER`].
    pub(crate) number: u32,
}

impl UnitTag {
    /// Passes that can be told apart.
    pub(crate) const PASSES: u32 = 1 << (u32::BITS - NUMBER_BITS);

    pub(crate) const fn to_word(self) -> u32 {
        self.pass << NUMBER_BITS | self.number
    }

    const fn of_word(word: u32) -> Self {
        Self {
            pass: word >> NUMBER_BITS,
            number: word & LAST_NUMBER,
        }
    }
}

/// Both ends of a decoder.
#[derive(Debug)]
pub(crate) struct Ports {
    pub(crate) to_core: Publisher,
    pub(crate) from_core: Subscriber,
}

impl Ports {
    pub(crate) fn open(node: &Node, channels: &Channels) -> Result<Self, PlayError> {
        let hold = PortPolicy::Block {
            timeout_ms: HOLD_MS,
        };
        // First, so that nothing is decoded for nobody.
        let options = SubscriberOptions::default().depth(DEPTH).policy(hold);
        let from_core = node.subscriber(channels.from_core, &options)?;
        Ok(Self {
            to_core: publisher(node, channels.to_core)?,
            from_core,
        })
    }
}

/// A publisher of a channel that the core takes from.
pub(crate) fn publisher(node: &Node, channel: &'static str) -> Result<Publisher, PlayError> {
    let options = PublisherOptions::default().send_timeout(SEND_TIMEOUT);
    let mut publisher = node.publisher(channel, &options)?;
    match publisher.wait_for_subscribers(1, SUBSCRIBE_TIMEOUT)? {
        true => Ok(publisher),
        false => Err(PlayError::NoCore { channel }),
    }
}

/// Joins the pool as a participant whose sends to a full core return soon.
pub(crate) fn join(pool: &Pool) -> Result<Node, PlayError> {
    let timeouts = LinkTimeouts::default().window(SEND_TIMEOUT);
    Ok(Node::join_with(pool, "play", timeouts)?)
}

/// What the core says of a picture.
#[derive(Clone, Copy, Debug)]
pub(crate) struct PictureInfo {
    pub(crate) size: (u32, u32),
    pub(crate) tag: UnitTag,
    pub(crate) decode_ns: u64,
    status: u32,
}

impl PictureInfo {
    pub(crate) fn of(words: [u32; INFO_WORDS]) -> Self {
        let [width, height, tag, _, decode_us, status] = words;
        Self {
            size: (width, height),
            tag: UnitTag::of_word(tag),
            decode_ns: u64::from(decode_us) * 1000,
            status,
        }
    }

    /// A picture of as many bytes as came?
    pub(crate) fn is_picture_of(&self, bytes: usize) -> bool {
        let (width, height) = (u64::from(self.size.0), u64::from(self.size.1));
        let whole = width * height + 2 * (width / 2) * (height / 2);
        bytes > 0 && whole == bytes as u64
    }

    /// Has the decoder no parameter sets? Its task began anew, or it cannot use those it was sent.
    pub(crate) fn lacks_sets(&self) -> bool {
        self.status == 3
    }

    /// Why no other picture will do better; `None`: a later one may.
    pub(crate) fn hopeless(&self) -> Option<&'static str> {
        match self.status {
            4 => Some(
                "it takes more memory than the decoder has: smaller pictures, or fewer reference \
                 pictures (ffmpeg -i FILE -vf scale=320:-2 -c:v libx264 -profile:v baseline \
                 -refs 1 -c:a copy OUT.mp4)",
            ),
            5 => Some(
                "it is larger than a slot: \
                 ffmpeg -i FILE -vf scale=320:-2 -c:v libx264 -profile:v baseline -c:a copy \
                 OUT.mp4 makes it smaller",
            ),
            _ => None,
        }
    }
}

/// What the core says of samples.
#[derive(Clone, Copy, Debug)]
pub(crate) struct SoundInfo {
    pub(crate) samples_per_second: u32,
    pub(crate) channels: u32,
    /// Frames taken since its port attached, from 0.
    pub(crate) sequence: u32,
}

impl SoundInfo {
    pub(crate) fn of(words: [u32; INFO_WORDS]) -> Self {
        let [samples_per_second, channels, _, sequence, ..] = words;
        Self {
            samples_per_second,
            channels,
            sequence,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn tags_are_told_apart_in_one_word() {
        for pass in [0, 1, UnitTag::PASSES - 1] {
            for number in [0, 7, LAST_NUMBER] {
                let tag = UnitTag { pass, number };
                assert_eq!(UnitTag::of_word(tag.to_word()), tag);
            }
        }
    }
}

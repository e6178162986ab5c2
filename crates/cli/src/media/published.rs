//! What `hythe media recv --channel` says of the messages that it published.

use hythe::media::slots::Counts;
use serde::Serialize;

/// What became of the messages of the channel.
#[derive(Serialize)]
pub(crate) struct Published {
    /// Published where they were received, or put together.
    in_place: u64,
    /// Copied into slots of their own.
    copied: u64,
    /// Not published: no slot was free.
    dropped: u64,
    /// Not published: longer than any slot.
    too_large: u64,
    /// How often there was no slot to receive into, or to put a unit together in, because readers
    /// held all that may be.
    none_back: u64,
    /// The same, because the pool had none left.
    none_free: u64,
}

impl Published {
    pub(crate) fn new(counts: Counts) -> Self {
        Self {
            in_place: counts.in_place,
            copied: counts.copied,
            dropped: counts.dropped,
            too_large: counts.too_large,
            none_back: counts.none_back,
            none_free: counts.none_free,
        }
    }

    /// What went onto the channel, and what kept it from doing so without a copy.
    pub(crate) fn text(&self) -> String {
        let mut line = format!(
            "published {} messages: {} where they lay, {} copied\n",
            self.in_place + self.copied,
            self.in_place,
            self.copied
        );
        let reasons = [
            (
                self.none_back,
                "times readers held all slots that may be received into: they are slow, or keep what they read",
            ),
            (
                self.none_free,
                "times the pool had no slot to receive into: `hythe who` says who has them",
            ),
            (
                self.dropped,
                "messages were not published because the pool had no slot: make it larger, or its readers faster",
            ),
            (
                self.too_large,
                "messages were not published because no slot is that large: `hythe pool create --class` makes larger ones",
            ),
        ];
        for (count, reason) in reasons {
            if count > 0 {
                line += &format!("{count} {reason}\n");
            }
        }
        line
    }
}

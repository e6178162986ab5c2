//! What `hythe media recv --channel` says of the messages that it published.

use hythe::media::slots::Counts;
use hythe_command::units::counted;
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
            "published {}: {} in place, {} copied\n",
            counted(self.in_place + self.copied, "message"),
            self.in_place,
            self.copied
        );
        let reasons = [
            (
                self.none_back,
                "time",
                "readers held all slots that may be received into: they are slow, or keep what they read",
            ),
            (
                self.none_free,
                "time",
                "the pool had no slot to receive into: `hythe who` says who has them",
            ),
            (
                self.dropped,
                "message",
                "not published because the pool had no slot: make it larger, or its readers faster",
            ),
            (
                self.too_large,
                "message",
                "not published because no slot is that large: `hythe pool create --class` makes larger ones",
            ),
        ];
        for (count, thing, reason) in reasons {
            if count > 0 {
                line += &format!("{} {reason}\n", counted(count, thing));
            }
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn one_of_a_kind_is_printed_in_the_singular() {
        let published = Published::new(Counts {
            in_place: 1,
            none_back: 1,
            none_free: 2,
            dropped: 1,
            ..Counts::default()
        });
        let text = published.text();
        for line in [
            "published 1 message: 1 in place, 0 copied\n",
            "1 time readers held",
            "2 times the pool",
            "1 message not published",
        ] {
            assert!(text.contains(line), "{line}: {text}");
        }
    }
}

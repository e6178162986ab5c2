//! `hythe media send --burst --early --catch-up`: how many packets leave together.

use clap::Args;
use hythe::media::pace::{CATCH_UP, Limit};

/// How much may leave at once.
#[derive(Args, Debug)]
pub(super) struct LimitArgs {
    /// Packets that leave back to back, at most [default: 64 of a file to hosts, 8 of live media,
    /// to groups and with --pace kernel]
    #[arg(long, value_name = "PACKETS", value_parser = clap::value_parser!(u16).range(1..=64))]
    burst: Option<u16>,
    /// How early a packet may leave to go together with others, in milliseconds [default: 20 of a
    /// file to hosts, 2 of live media, to groups and with --pace kernel]
    #[arg(long, value_name = "MS", value_parser = clap::value_parser!(u16).range(0..=10_000))]
    early: Option<u16>,
    /// How many times as fast as the media packets leave that are late, until they are on time
    /// again [default: 4]
    #[arg(long, value_name = "TIMES", value_parser = clap::value_parser!(u16).range(1..=1000))]
    catch_up: Option<u16>,
}

impl LimitArgs {
    /// How fast packets that are late leave.
    pub(super) fn catch_up(&self) -> u32 {
        self.catch_up.map_or(CATCH_UP, u32::from)
    }

    /// An option that was given and means nothing for packets without a pace.
    pub(super) fn without_pace(&self) -> Option<&'static str> {
        let early = self.early.map(|_| "--early");
        early.or(self.catch_up.map(|_| "--catch-up"))
    }

    /// What was asked for, and what is usual for the rest.
    pub(super) fn limit(&self, is_stored: bool) -> Limit {
        let usual = match is_stored {
            true => Limit::STORED,
            false => Limit::LIVE,
        };
        Limit {
            burst: self.burst.map_or(usual.burst, usize::from),
            early_ns: self
                .early
                .map_or(usual.early_ns, |early| u64::from(early) * 1_000_000),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn args(burst: Option<u16>, early: Option<u16>) -> LimitArgs {
        LimitArgs {
            burst,
            early,
            catch_up: None,
        }
    }

    #[test]
    fn what_is_not_asked_for_is_as_usual() {
        assert_eq!(args(None, None).limit(true), Limit::STORED);
        assert_eq!(args(None, None).limit(false), Limit::LIVE);
        let half = args(Some(3), None).limit(true);
        assert_eq!((half.burst, half.early_ns), (3, 20_000_000));
        let half = args(None, Some(0)).limit(false);
        assert_eq!((half.burst, half.early_ns), (8, 0));
    }
}

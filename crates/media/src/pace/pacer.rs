//! When a group leaves, how many packets are in it, and how well that was kept.

use hdrhistogram::Histogram;

use super::bucket::TokenBucket;
use super::schedule::Limit;
use crate::wire::run::PacketPlace;

/// How many times as fast as the media packets leave that are late, unless another number is asked
/// for: a second is made up for in a third of a second, and a link with bandwidth for the stream's
/// peaks mostly has capacity for it.
pub const CATCH_UP: u32 = 4;
/// A source that kept us waiting for longer than this moves the plan; what is less is its jitter.
const SOURCE_LATE_NS: u64 = 100_000_000;
/// Errors are recorded up to this; two significant digits.
const ERROR_NS_MAX: u64 = 10_000_000_000;

/// Turns instants of the stream into instants of the system's clock, and keeps account of the
/// spacing and of how late packets leave.
///
/// Ask [`instant`](Self::instant) when the next packets are to leave, wait until then, send as many
/// as [`group`](Self::group) says, and tell [`sent`](Self::sent) when that was.
///
/// The plan moves when it is told to, by [`resume`](Self::resume) after a pause and by
/// [`waited`](Self::waited) for a source that was late, and never else: whoever was kept from
/// sending catches up.
#[derive(Clone, Debug)]
pub struct Pacer {
    limit: Limit,
    bucket: TokenBucket,
    start: Option<Start>,
    previous: Option<Previous>,
    errors: Histogram<u64>,
    late_ns: u64,
    late_max_ns: u64,
    moves: u64,
    source: SourceLateness,
}

#[derive(Clone, Copy, Debug)]
struct Start {
    due_ns: u64,
    ns: u64,
}

#[derive(Clone, Copy, Debug)]
struct Previous {
    planned_ns: u64,
    sent_ns: u64,
}

/// How late packets are because their source was.
#[derive(Clone, Copy, Debug, Default)]
struct SourceLateness {
    /// Of the lateness at the last wait, what the source is the reason of.
    owed_ns: u64,
    /// The lateness at the last wait.
    late_ns: u64,
}

/// How well the plan was kept, in nanoseconds.
///
/// The errors are those of the distances between groups: the absolute difference to what was
/// planned. That the packets of a group leave back to back was asked for and is no error.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Spacing {
    /// Distances measured.
    pub count: u64,
    /// Half of the errors are no larger.
    pub p50_ns: u64,
    /// 99 % are no larger.
    pub p99_ns: u64,
    /// 99.9 % are no larger.
    pub p999_ns: u64,
    /// The largest.
    pub max_ns: u64,
    /// How much later than planned the last group left.
    pub late_ns: u64,
    /// The same of the group that was latest.
    pub late_max_ns: u64,
    /// Times that the plan was moved, after a pause or because the source was late.
    pub moves: u64,
}

impl Pacer {
    /// At the start of a stream. Late packets leave at most `catch_up` times as fast as the media,
    /// at least 1.
    #[must_use]
    pub fn new(limit: Limit, catch_up: u32) -> Self {
        #[allow(
            clippy::expect_used,
            reason = "proof: 1 < the bound, and two digits are between 0 and 5"
        )]
        let errors = Histogram::new_with_bounds(1, ERROR_NS_MAX, 2).expect("sound bounds");
        Self {
            limit,
            bucket: TokenBucket::new(limit.burst, catch_up),
            start: None,
            previous: None,
            errors,
            late_ns: 0,
            late_max_ns: 0,
            moves: 0,
            source: SourceLateness::default(),
        }
    }

    /// When the first of `packets` are to leave: as planned, the first of the stream at once. If
    /// they are late, as soon as the burst before them has been spread enough for all that were
    /// late then. Without packets, `now_ns`.
    pub fn instant(&mut self, packets: &[PacketPlace], now_ns: u64) -> u64 {
        let Some(first) = packets.first() else {
            return now_ns;
        };
        let planned_ns = self.planned(first.due_ns, now_ns);
        let Some(taken_ns) = self.bucket.taken_ns() else {
            return planned_ns;
        };
        // Not those that are late by now: they become more, and would put it off again and again.
        let late = self.due(packets, planned_ns.max(taken_ns));
        planned_ns.max(self.bucket.ready_ns(first.due_ns, late))
    }

    /// How many of `packets`, from the first on, leave together at `at_ns`, which is their
    /// [instant](Self::instant) or later: all that are due by then, and those that may leave as
    /// early, as far as a burst goes. At least one if there are any.
    pub fn group(&mut self, packets: &[PacketPlace], at_ns: u64) -> usize {
        let Some(first) = packets.first() else {
            return 0;
        };
        self.planned(first.due_ns, at_ns);
        let tokens = self.bucket.tokens(first.due_ns, at_ns).max(1);
        self.due(packets, at_ns).min(tokens)
    }

    /// The `group` left at `sent_ns`.
    pub fn sent(&mut self, group: &[PacketPlace], sent_ns: u64) {
        let Some(first) = group.first() else {
            return;
        };
        let planned_ns = self.planned(first.due_ns, sent_ns);
        self.late_ns = sent_ns.saturating_sub(planned_ns);
        self.late_max_ns = self.late_max_ns.max(self.late_ns);
        self.bucket.take(first.due_ns, group.len(), sent_ns);
        if let Some(previous) = self.previous {
            let planned = planned_ns.saturating_sub(previous.planned_ns);
            let actual = sent_ns.saturating_sub(previous.sent_ns);
            self.errors.saturating_record(planned.abs_diff(actual));
        }
        self.previous = Some(Previous {
            planned_ns,
            sent_ns,
        });
    }

    /// A packet that is due at `due_ns` came from its source at `now_ns`, after it was waited for
    /// `waited_ns` with nothing left to send.
    ///
    /// What is late by that is not caught up with: the media that follows comes as late. Once it is
    /// more than 0.1 s the plan is moved by it; what is late for another reason stays late.
    pub fn waited(&mut self, due_ns: u64, waited_ns: u64, now_ns: u64) {
        if self.start.is_none() {
            return;
        }
        let late_ns = now_ns.saturating_sub(self.planned(due_ns, now_ns));
        let grown_ns = late_ns.saturating_sub(self.source.late_ns);
        let owed_ns = self.source.owed_ns + grown_ns.min(waited_ns);
        self.source = SourceLateness {
            owed_ns: owed_ns.min(late_ns),
            late_ns,
        };
        if self.source.owed_ns > SOURCE_LATE_NS {
            self.move_by(self.source.owed_ns);
        }
    }

    /// After a pause: the packet that is next leaves at once, and those behind it follow as
    /// planned.
    pub fn resume(&mut self) {
        self.moves += u64::from(self.start.is_some());
        self.start = None;
        self.begin_anew();
    }

    /// How much later than planned the last group left.
    #[must_use]
    pub fn late_ns(&self) -> u64 {
        self.late_ns
    }

    /// How well the plan was kept so far.
    #[must_use]
    pub fn spacing(&self) -> Spacing {
        Spacing {
            count: self.errors.len(),
            p50_ns: self.errors.value_at_quantile(0.5),
            p99_ns: self.errors.value_at_quantile(0.99),
            p999_ns: self.errors.value_at_quantile(0.999),
            max_ns: self.errors.max(),
            late_ns: self.late_ns,
            late_max_ns: self.late_max_ns,
            moves: self.moves,
        }
    }

    /// The errors themselves, for those who merge or plot them.
    #[must_use]
    pub fn errors(&self) -> &Histogram<u64> {
        &self.errors
    }

    fn move_by(&mut self, late_ns: u64) {
        if let Some(start) = &mut self.start {
            start.ns = start.ns.saturating_add(late_ns);
            self.moves += 1;
        }
        self.begin_anew();
    }

    /// What comes next is compared with nothing that was before.
    fn begin_anew(&mut self) {
        self.previous = None;
        self.source = SourceLateness::default();
        self.bucket.fill();
    }

    /// How many of `packets` may leave at `at_ns` by their times, at most a burst.
    fn due(&self, packets: &[PacketPlace], at_ns: u64) -> usize {
        let Some((first, start)) = packets.first().zip(self.start) else {
            return 0;
        };
        let elapsed_ns = at_ns.saturating_sub(start.ns);
        let position_ns = start.due_ns.saturating_add(elapsed_ns);
        let latest_ns = position_ns.max(first.due_ns);
        let latest_ns = latest_ns.saturating_add(self.limit.early_ns);
        let near = packets.iter().take(self.limit.burst.max(1));
        near.take_while(|packet| packet.due_ns <= latest_ns).count()
    }

    fn planned(&mut self, due_ns: u64, now_ns: u64) -> u64 {
        let start = *self.start.get_or_insert(Start { due_ns, ns: now_ns });
        start.ns.saturating_add(due_ns.saturating_sub(start.due_ns))
    }
}

#[cfg(test)]
mod tests;

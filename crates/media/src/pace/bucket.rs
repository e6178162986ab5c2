//! A token bucket: how many packets may leave at once by a sender that is late.
//!
//! The bucket holds the tokens of one burst and is refilled at a multiple of the media's rate: with
//! the media time that lies between two packets, divided by that multiple. So packets that are
//! on time never wait for tokens, and late ones leave in bursts that are no longer than was asked
//! for, faster than the media by no more than the multiple. Pure: the time is handed in.

/// The tokens of one stream.
#[derive(Clone, Debug)]
pub(super) struct TokenBucket {
    /// What it holds, at least 1.
    burst: usize,
    /// How many times the rate of the media it is refilled with, at least 1.
    multiple: u64,
    last: Option<Last>,
}

/// The group that was taken from it last.
#[derive(Clone, Copy, Debug)]
struct Last {
    /// Of the group's first packet, in the stream.
    due_ns: u64,
    /// When it was taken, on the system's clock.
    taken_ns: u64,
    /// Tokens that were missing then, the group's own included.
    missing: usize,
    /// When those that were missing before the group are refilled.
    refilled_ns: u64,
}

impl TokenBucket {
    /// A full one.
    pub(super) fn new(burst: usize, multiple: u32) -> Self {
        Self {
            burst: burst.max(1),
            multiple: u64::from(multiple.max(1)),
            last: None,
        }
    }

    /// Full again: what is next has nothing to do with what was taken.
    pub(super) fn fill(&mut self) {
        self.last = None;
    }

    /// When the last group was taken.
    pub(super) fn taken_ns(&self) -> Option<u64> {
        self.last.map(|last| last.taken_ns)
    }

    /// Tokens that are there at `at_ns` for packets of which the first is due at `due_ns`.
    pub(super) fn tokens(&self, due_ns: u64, at_ns: u64) -> usize {
        self.burst.saturating_sub(self.missing(due_ns, at_ns))
    }

    /// When there are tokens for `packets`, at most a burst, of which the first is due at `due_ns`.
    pub(super) fn ready_ns(&self, due_ns: u64, packets: usize) -> u64 {
        let Some(last) = self.last else {
            return 0;
        };
        let may_miss = self.burst.saturating_sub(packets);
        if last.missing <= may_miss {
            return last.taken_ns;
        }
        let full_ns = self.full_ns(&last, due_ns);
        let early_ns = share(full_ns - last.taken_ns, may_miss, last.missing);
        full_ns - early_ns
    }

    /// Takes the tokens of a group of which the first is due at `due_ns`.
    pub(super) fn take(&mut self, due_ns: u64, packets: usize, at_ns: u64) {
        let missing = self.missing(due_ns, at_ns) + packets;
        let refilled_ns = self.last.map_or(at_ns, |last| self.full_ns(&last, due_ns));
        self.last = Some(Last {
            due_ns,
            taken_ns: at_ns,
            missing,
            refilled_ns: refilled_ns.max(at_ns),
        });
    }

    fn missing(&self, due_ns: u64, at_ns: u64) -> usize {
        let Some(last) = self.last else {
            return 0;
        };
        let full_ns = self.full_ns(&last, due_ns);
        let left_ns = full_ns.saturating_sub(at_ns.max(last.taken_ns));
        let whole_ns = full_ns - last.taken_ns;
        if left_ns == 0 {
            return 0;
        }
        let product = last.missing as u128 * u128::from(left_ns);
        // No more than was missing.
        product.div_ceil(u128::from(whole_ns)) as usize
    }

    /// When all that was missing behind `last` is refilled, if what follows is due at `due_ns`.
    /// Never before `last` was taken.
    fn full_ns(&self, last: &Last, due_ns: u64) -> u64 {
        let media_ns = due_ns.saturating_sub(last.due_ns);
        last.refilled_ns.saturating_add(media_ns / self.multiple)
    }
}

/// `part` of `whole` of a time.
fn share(time_ns: u64, part: usize, whole: usize) -> u64 {
    let product = u128::from(time_ns) * part as u128;
    u64::try_from(product / whole.max(1) as u128).unwrap_or(u64::MAX)
}

#[cfg(test)]
mod tests {
    use super::*;

    const MS: u64 = 1_000_000;

    #[test]
    fn full_bucket_allows_burst_then_multiple_of_rate() {
        let mut bucket = TokenBucket::new(8, 4);
        assert_eq!((bucket.tokens(0, 0), bucket.ready_ns(0, 8)), (8, 0));
        bucket.take(0, 8, 100 * MS);
        // The next packets are due 16 ms behind those: four times as fast is 4 ms.
        let due_ns = 16 * MS;
        assert_eq!(bucket.tokens(due_ns, 100 * MS), 0);
        assert_eq!(bucket.tokens(due_ns, 102 * MS), 4);
        assert_eq!(bucket.ready_ns(due_ns, 4), 102 * MS);
        assert_eq!(bucket.ready_ns(due_ns, 8), 104 * MS);
        assert_eq!(bucket.tokens(due_ns, 104 * MS), 8);
    }

    #[test]
    fn what_was_not_taken_is_still_there() {
        let mut bucket = TokenBucket::new(64, 4);
        // 50 packets of 20 ms each, late together; the next one is due and has tokens at once.
        bucket.take(0, 50, 1000 * MS);
        assert_eq!(bucket.ready_ns(1000 * MS, 1), 1000 * MS);
        assert_eq!(bucket.tokens(1000 * MS, 1000 * MS), 14);
        bucket.take(1000 * MS, 1, 1020 * MS);
        assert_eq!(bucket.tokens(1020 * MS, 1020 * MS), 64 - 47);
        bucket.fill();
        assert_eq!(bucket.tokens(1020 * MS, 1020 * MS), 64);
    }

    #[test]
    fn packets_of_one_instant_never_wait() {
        let mut bucket = TokenBucket::new(1, 4);
        for _ in 0..3 {
            assert_eq!(
                (bucket.ready_ns(5, 1), bucket.tokens(5, 7)),
                (bucket.taken_ns().unwrap_or(0), 1)
            );
            bucket.take(5, 1, 7);
        }
    }

    #[test]
    fn hostile_times_saturate() {
        let mut bucket = TokenBucket::new(0, 0);
        bucket.take(u64::MAX, usize::MAX >> 1, u64::MAX);
        assert_eq!(bucket.ready_ns(0, 9), u64::MAX);
        assert_eq!(bucket.tokens(u64::MAX, 0), 1);
        let mut bucket = TokenBucket::new(1, 1);
        bucket.take(0, 1, 0);
        assert_eq!(bucket.ready_ns(u64::MAX, 1), u64::MAX);
        assert_eq!(bucket.tokens(u64::MAX, u64::MAX - 1), 0);
    }
}

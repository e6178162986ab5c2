//! How much may be sent again: a bucket of bytes that fills at a share of the stream's rate.
//!
//! One for each destination, used by [`nack`](super::nack). It is what keeps feedback, which
//! anybody can write, from turning a stream into a flood. Never counts on the clock going forward.

const NS_PER_SECOND: u128 = 1_000_000_000;

/// A token bucket in bytes.
#[derive(Clone, Debug)]
pub struct Budget {
    bytes_per_second: u64,
    burst_bytes: u64,
    /// Parts of a byte, `NS_PER_SECOND` of them each, so that frequent small refills are not
    /// rounded away.
    parts: u128,
    filled_ns: u64,
}

impl Budget {
    /// A full bucket.
    #[must_use]
    pub fn new(bytes_per_second: u64, burst_bytes: u64, now_ns: u64) -> Self {
        Self {
            bytes_per_second,
            burst_bytes,
            parts: u128::from(burst_bytes) * NS_PER_SECOND,
            filled_ns: now_ns,
        }
    }

    /// Goes on at another rate: the stream's has changed.
    pub fn set_rate(&mut self, bytes_per_second: u64, now_ns: u64) {
        self.fill(now_ns);
        self.bytes_per_second = bytes_per_second;
    }

    /// Takes `bytes` where there are as many; `false`: nothing was taken.
    #[must_use]
    pub fn take(&mut self, bytes: u64, now_ns: u64) -> bool {
        self.fill(now_ns);
        let left = self.parts.checked_sub(u128::from(bytes) * NS_PER_SECOND);
        self.parts = left.unwrap_or(self.parts);
        left.is_some()
    }

    fn fill(&mut self, now_ns: u64) {
        let elapsed = now_ns.saturating_sub(self.filled_ns);
        // Both factors are 64 bits: the product fits, and so does the sum with what is at most 94
        // bits.
        let gained = u128::from(elapsed) * u128::from(self.bytes_per_second);
        let full = u128::from(self.burst_bytes) * NS_PER_SECOND;
        self.parts = self.parts.saturating_add(gained).min(full);
        self.filled_ns = self.filled_ns.max(now_ns);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn burst_then_the_rate_and_never_more() {
        let mut budget = Budget::new(1000, 300, 0);
        assert!(budget.take(300, 0));
        assert!(!budget.take(1, 0));
        // A millisecond is worth a byte, however often one asks.
        let taken = (1..=100_000_u64).filter(|step| budget.take(1, step * 10_000));
        assert_eq!(taken.count(), 1000);
        assert!(!budget.take(301, 60_000_000_000));
        assert!(budget.take(300, 60_000_000_000));
    }

    #[test]
    fn clock_that_steps_back_or_far_ahead_gives_nothing_extra() {
        let mut budget = Budget::new(u64::MAX, 10, 1_000_000_000);
        assert!(budget.take(10, 1_000_000_000));
        assert!(!budget.take(1, 0));
        assert!(!budget.take(1, 1_000_000_000));
        assert!(budget.take(10, u64::MAX));
        assert!(!budget.take(1, u64::MAX));
        let mut slow = Budget::new(0, 10, 0);
        assert!(slow.take(10, 0));
        assert!(!slow.take(1, u64::MAX));
        slow.set_rate(1, u64::MAX);
        assert!(!slow.take(1, u64::MAX));
    }
}

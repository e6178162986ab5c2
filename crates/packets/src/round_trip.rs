//! The measured round trip: RFC 9002, section 5, and the times that follow from it.

/// How long a receiver may wait with an acknowledgement.
pub(crate) const ACKNOWLEDGEMENT_DELAY_NS: u64 = 1_000_000;
/// RFC 9002, section 6.1.2: a timer's granularity.
pub(crate) const GRANULARITY_NS: u64 = 1_000_000;
/// Longest sample that counts: the products of times and windows stay within 64 bits.
const SAMPLE_NS_MAX: u64 = 8_000_000_000;

#[derive(Debug)]
pub(crate) struct RoundTrip {
    smoothed_ns: u64,
    variation_ns: u64,
    least_ns: u64,
    latest_ns: u64,
    /// When the first sample was taken.
    first_sample_at_ns: Option<u64>,
}

impl RoundTrip {
    pub(crate) fn new(initial_ns: u64) -> Self {
        Self {
            smoothed_ns: initial_ns.min(SAMPLE_NS_MAX),
            variation_ns: initial_ns.min(SAMPLE_NS_MAX) / 2,
            least_ns: 0,
            latest_ns: initial_ns.min(SAMPLE_NS_MAX),
            first_sample_at_ns: None,
        }
    }

    pub(crate) fn smoothed_ns(&self) -> u64 {
        self.smoothed_ns.max(1)
    }

    pub(crate) fn first_sample_at_ns(&self) -> Option<u64> {
        self.first_sample_at_ns
    }

    /// RFC 9002, section 5.3. The first sample begins anew.
    pub(crate) fn sample(&mut self, now_ns: u64, sample_ns: u64, delay_ns: u64) {
        let latest_ns = sample_ns.min(SAMPLE_NS_MAX);
        self.latest_ns = latest_ns;
        if self.first_sample_at_ns.is_none() {
            self.first_sample_at_ns = Some(now_ns);
            self.least_ns = latest_ns;
            self.smoothed_ns = latest_ns;
            self.variation_ns = latest_ns / 2;
            return;
        }
        self.least_ns = self.least_ns.min(latest_ns);
        let delay_ns = delay_ns.min(ACKNOWLEDGEMENT_DELAY_NS);
        let adjusted_ns = if latest_ns >= self.least_ns + delay_ns {
            latest_ns - delay_ns
        } else {
            latest_ns
        };
        let difference_ns = self.smoothed_ns.abs_diff(adjusted_ns);
        self.variation_ns = (3 * self.variation_ns + difference_ns) / 4;
        self.smoothed_ns = (7 * self.smoothed_ns + adjusted_ns) / 8;
    }

    /// RFC 9002, section 6.2.1.
    pub(crate) fn probe_timeout_ns(&self) -> u64 {
        self.spread_ns() + ACKNOWLEDGEMENT_DELAY_NS
    }

    /// RFC 9002, section 6.1.2: how long after a later packet was acknowledged one is lost.
    pub(crate) fn loss_delay_ns(&self) -> u64 {
        let longest_ns = self.latest_ns.max(self.smoothed_ns);
        (longest_ns * 9 / 8).max(GRANULARITY_NS)
    }

    /// RFC 9002, section 7.6.1.
    pub(crate) fn persistent_ns(&self) -> u64 {
        3 * self.probe_timeout_ns()
    }

    /// RFC 9002, section 5.2: after persistent congestion the least round trip begins anew.
    pub(crate) fn forget_least(&mut self) {
        self.least_ns = self.latest_ns;
    }

    fn spread_ns(&self) -> u64 {
        self.smoothed_ns + (4 * self.variation_ns).max(GRANULARITY_NS)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn samples_are_smoothed_as_rfc_9002_says() {
        let mut round_trip = RoundTrip::new(333_000_000);
        assert_eq!(round_trip.probe_timeout_ns(), 1_000_000_000);
        round_trip.sample(5, 8_000_000, 700_000);
        // The first counts in full, whatever the delay.
        assert_eq!(round_trip.smoothed_ns(), 8_000_000);
        assert_eq!(
            round_trip.probe_timeout_ns(),
            8_000_000 + 16_000_000 + 1_000_000
        );
        assert_eq!(round_trip.first_sample_at_ns(), Some(5));
        // 17 ms, of which 1 ms at most is the receiver's delay.
        round_trip.sample(6, 17_000_000, 9_000_000);
        assert_eq!(round_trip.smoothed_ns(), (7 * 8_000_000 + 16_000_000) / 8);
        assert_eq!(round_trip.loss_delay_ns(), 17_000_000 * 9 / 8);
        // The delay would make it less than the least.
        round_trip.sample(7, 8_500_000, 1_000_000);
        assert_eq!(round_trip.smoothed_ns(), (7 * 9_000_000 + 8_500_000) / 8);
        assert_eq!(round_trip.loss_delay_ns(), round_trip.smoothed_ns() * 9 / 8);
    }
}

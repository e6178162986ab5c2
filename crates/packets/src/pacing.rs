//! When the next packet may leave: RFC 9002, section 7.7, a leaky bucket.
//!
//! It holds what the pace permits within the granularity of a timer: whoever sleeps until the next
//! packet may leave wakes up late, and would be behind the pace for good. So within a local network
//! the window alone limits what leaves at once, as with TCP.

use crate::round_trip::GRANULARITY_NS;
use crate::settings::initial_window;

#[derive(Debug)]
pub(crate) struct Pacing {
    /// Asked for by the settings.
    burst_bytes: u64,
    capacity_bytes: u64,
    /// Bytes that may leave now.
    allowed_bytes: u64,
    refilled_ns: u64,
}

impl Pacing {
    pub(crate) fn new(burst_bytes: u32, datagram_bytes: u64) -> Self {
        let capacity_bytes = initial_window(datagram_bytes).max(u64::from(burst_bytes));
        Self {
            burst_bytes: u64::from(burst_bytes),
            capacity_bytes,
            allowed_bytes: capacity_bytes,
            refilled_ns: 0,
        }
    }

    pub(crate) fn set_datagram_bytes(&mut self, datagram_bytes: u64) {
        self.capacity_bytes = initial_window(datagram_bytes).max(self.burst_bytes);
    }

    /// May `bytes` leave? If not, when.
    pub(crate) fn allow(
        &mut self,
        now_ns: u64,
        bytes: u64,
        window: u64,
        round_trip_ns: u64,
    ) -> Result<(), u64> {
        self.refill(now_ns, window, round_trip_ns);
        if self.allowed_bytes >= bytes {
            return Ok(());
        }
        let missing = bytes - self.allowed_bytes;
        // The inverse of `refill`, rounded up.
        Err(now_ns + (missing * round_trip_ns * 4).div_ceil(window * 5))
    }

    pub(crate) fn on_packet_sent(&mut self, bytes: u64) {
        self.allowed_bytes = self.allowed_bytes.saturating_sub(bytes);
    }

    /// 5/4 of a window for each round trip: `N` of section 7.7 is 1.25.
    fn refill(&mut self, now_ns: u64, window: u64, round_trip_ns: u64) {
        let elapsed_ns = now_ns.saturating_sub(self.refilled_ns);
        // More than a round trip's is a window, and the window limits all that leaves. So 33 bits
        // of time by 26 of window stay within 64.
        let within = |ns: u64| ns.min(round_trip_ns) * window * 5 / (4 * round_trip_ns);
        let capacity_bytes = self.capacity_bytes.max(within(GRANULARITY_NS));
        if self.allowed_bytes >= capacity_bytes {
            self.allowed_bytes = capacity_bytes;
            self.refilled_ns = now_ns;
            return;
        }
        let more = within(elapsed_ns);
        if more > 0 {
            self.allowed_bytes = (self.allowed_bytes + more).min(capacity_bytes);
            self.refilled_ns = now_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pacing_allows_burst_then_five_quarters_of_window() {
        let mut pacing = Pacing::new(0, 1_200);
        let mut now_ns = 1_000_000_000;
        let allow = |pacing: &mut Pacing, now_ns| {
            let allowed = pacing.allow(now_ns, 1_200, 48_000, 10_000_000);
            if allowed.is_ok() {
                pacing.on_packet_sent(1_200);
            }
            allowed
        };
        (0..10).for_each(|_| assert_eq!(allow(&mut pacing, now_ns), Ok(())));
        // 48,000 bytes x 1.25 in 10 ms: 1,200 bytes each 200 us.
        for _ in 0..50 {
            let next_ns = now_ns + 200_000;
            assert_eq!(allow(&mut pacing, now_ns), Err(next_ns));
            now_ns = next_ns;
            assert_eq!(allow(&mut pacing, now_ns), Ok(()));
        }
        now_ns += 10_000_000_000;
        assert!(pacing.allow(now_ns, 12_000, 48_000, 10_000_000).is_ok());
        assert!(pacing.allow(now_ns, 12_001, 48_000, 10_000_000).is_err());
    }

    #[test]
    fn what_leaves_within_the_granularity_of_a_timer_leaves_at_once() {
        // 5/4 of the window in 4 ms: 300,000 bytes in one.
        let mut pacing = Pacing::new(0, 1_200);
        let mut now_ns = 1_000_000_000;
        for _ in 0..3 {
            now_ns += 4_000_000;
            assert_eq!(pacing.allow(now_ns, 300_000, 960_000, 4_000_000), Ok(()));
            pacing.on_packet_sent(300_000);
            assert!(pacing.allow(now_ns, 1_200, 960_000, 4_000_000).is_err());
        }
        // A sender that wakes up late does not fall behind for that.
        for _ in 0..50 {
            now_ns += 1_000_000;
            assert_eq!(pacing.allow(now_ns, 300_000, 960_000, 4_000_000), Ok(()));
            pacing.on_packet_sent(300_000);
        }
        // Of a window that comes back sooner it is not more than a window.
        now_ns += 1_000_000_000;
        assert!(pacing.allow(now_ns, 1_200_000, 960_000, 50_000).is_ok());
        assert!(pacing.allow(now_ns, 1_200_001, 960_000, 50_000).is_err());
    }

    #[test]
    fn path_that_takes_more_is_given_more() {
        let mut pacing = Pacing::new(65_536, 1_200);
        assert_eq!(pacing.allow(1, 65_536, 12_000, 1_000_000), Ok(()));
    }
}

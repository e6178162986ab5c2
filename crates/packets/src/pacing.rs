//! When the next packet may leave: RFC 9002, section 7.7, a leaky bucket.

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
        if self.allowed_bytes == self.capacity_bytes {
            self.refilled_ns = now_ns;
            return;
        }
        // More than a round trip's is a window, and the window limits all that leaves. So 33 bits
        // of time by 26 of window stay within 64.
        let counted_ns = elapsed_ns.min(round_trip_ns);
        let more = counted_ns * window * 5 / (4 * round_trip_ns);
        if more > 0 {
            self.allowed_bytes = (self.allowed_bytes + more).min(self.capacity_bytes);
            self.refilled_ns = now_ns;
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_burst_leaves_at_once_and_then_five_quarters_of_a_window_in_a_round_trip() {
        let mut pacing = Pacing::new(0, 1_200);
        let mut now_ns = 1_000_000_000;
        for _ in 0..10 {
            assert_eq!(pacing.allow(now_ns, 1_200, 48_000, 1_000_000), Ok(()));
            pacing.on_packet_sent(1_200);
        }
        // 48,000 bytes x 1.25 in 1 ms: 1,200 bytes each 20 us.
        for _ in 0..50 {
            let next_ns = now_ns + 20_000;
            let allowed = pacing.allow(now_ns, 1_200, 48_000, 1_000_000);
            assert_eq!(allowed, Err(next_ns));
            now_ns = next_ns;
            assert_eq!(pacing.allow(now_ns, 1_200, 48_000, 1_000_000), Ok(()));
            pacing.on_packet_sent(1_200);
        }
        now_ns += 10_000_000_000;
        assert!(pacing.allow(now_ns, 12_000, 48_000, 1_000_000).is_ok());
        assert!(pacing.allow(now_ns, 12_001, 48_000, 1_000_000).is_err());
    }

    #[test]
    fn a_path_that_takes_more_is_given_more() {
        let mut pacing = Pacing::new(65_536, 1_200);
        assert_eq!(pacing.allow(1, 65_536, 12_000, 1_000_000), Ok(()));
    }
}

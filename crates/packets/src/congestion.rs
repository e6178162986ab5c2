//! `NewReno`: RFC 9002, section 7 and appendix B. The names are those of the appendix.

use crate::settings::initial_window;

#[derive(Debug)]
pub(crate) struct Congestion {
    max_datagram_bytes: u64,
    congestion_window: u64,
    bytes_in_flight: u64,
    slow_start_threshold: u64,
    recovery_start_ns: Option<u64>,
    /// Acknowledged in congestion avoidance since the window grew last (RFC 3465, section 2.1,
    /// which appendix B.5 permits: no remainder of a division is lost).
    acknowledged_bytes: u64,
}

/// What one acknowledgement newly acknowledged.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Progress {
    pub(crate) bytes: u64,
    /// Of them, in packets sent since the last recovery period began.
    pub(crate) bytes_since_recovery: u64,
}

/// What one acknowledgement or timer showed to be lost.
#[derive(Clone, Copy, Debug, Default)]
pub(crate) struct Loss {
    pub(crate) bytes: u64,
    /// When the newest of the lost packets was sent; none: nothing was lost.
    pub(crate) newest_sent_ns: Option<u64>,
    pub(crate) is_persistent: bool,
}

impl Congestion {
    pub(crate) fn new(max_datagram_bytes: u64) -> Self {
        Self {
            max_datagram_bytes,
            congestion_window: initial_window(max_datagram_bytes),
            bytes_in_flight: 0,
            slow_start_threshold: u64::MAX,
            recovery_start_ns: None,
            acknowledged_bytes: 0,
        }
    }

    pub(crate) fn window(&self) -> u64 {
        self.congestion_window
    }

    pub(crate) fn in_flight(&self) -> u64 {
        self.bytes_in_flight
    }

    pub(crate) fn set_max_datagram_bytes(&mut self, bytes: u64) {
        self.max_datagram_bytes = bytes;
        self.congestion_window = self.congestion_window.max(self.minimum_window());
    }

    pub(crate) fn on_packet_sent(&mut self, bytes: u64) {
        self.bytes_in_flight += bytes;
    }

    pub(crate) fn in_recovery(&self, sent_ns: u64) -> bool {
        self.recovery_start_ns.is_some_and(|start| sent_ns <= start)
    }

    /// `OnPacketsLost`, then `OnPacketsAcked`. True where a recovery period began: one packet may
    /// leave beyond the window then.
    pub(crate) fn on_acknowledgement(
        &mut self,
        now_ns: u64,
        progress: Progress,
        loss: Loss,
        is_limited: bool,
    ) -> bool {
        self.bytes_in_flight -= progress.bytes + loss.bytes;
        let begins = loss
            .newest_sent_ns
            .is_some_and(|sent_ns| !self.in_recovery(sent_ns));
        if begins {
            self.recovery_start_ns = Some(now_ns);
            self.slow_start_threshold = self.congestion_window / 2;
            self.congestion_window = self.slow_start_threshold.max(self.minimum_window());
            self.acknowledged_bytes = 0;
        }
        if loss.is_persistent {
            self.congestion_window = self.minimum_window();
            self.recovery_start_ns = None;
            self.acknowledged_bytes = 0;
        }
        // All that is acknowledged was sent before the period that began now.
        let growing = match (loss.is_persistent, begins) {
            (true, _) => progress.bytes,
            (false, true) => 0,
            (false, false) => progress.bytes_since_recovery,
        };
        if !is_limited {
            self.grow(growing);
        }
        begins
    }

    fn grow(&mut self, bytes: u64) {
        let until_threshold = self
            .slow_start_threshold
            .saturating_sub(self.congestion_window);
        let slow_start = bytes.min(until_threshold);
        self.congestion_window += slow_start;
        self.acknowledged_bytes += bytes - slow_start;
        if self.acknowledged_bytes >= self.congestion_window {
            self.acknowledged_bytes -= self.congestion_window;
            self.congestion_window += self.max_datagram_bytes;
        }
    }

    fn minimum_window(&self) -> u64 {
        2 * self.max_datagram_bytes
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const NOTHING: Loss = Loss {
        bytes: 0,
        newest_sent_ns: None,
        is_persistent: false,
    };

    fn all(bytes: u64) -> Progress {
        Progress {
            bytes,
            bytes_since_recovery: bytes,
        }
    }

    fn lost(bytes: u64, sent_ns: u64) -> Loss {
        Loss {
            bytes,
            newest_sent_ns: Some(sent_ns),
            is_persistent: false,
        }
    }

    #[test]
    fn slow_start_recovery_and_avoidance_are_those_of_appendix_b() {
        let mut congestion = Congestion::new(1_200);
        assert_eq!(congestion.window(), 12_000);
        congestion.on_packet_sent(12_000);
        congestion.on_acknowledgement(10, all(12_000), NOTHING, false);
        assert_eq!(congestion.window(), 24_000);
        // An acknowledgement of a window that was not used does not widen it.
        congestion.on_packet_sent(1_200);
        congestion.on_acknowledgement(11, all(1_200), NOTHING, true);
        assert_eq!(congestion.window(), 24_000);
        // Halved once in a round trip.
        congestion.on_packet_sent(24_000);
        assert!(congestion.on_acknowledgement(20, all(2_400), lost(1_200, 15), false));
        assert!(!congestion.on_acknowledgement(21, all(0), lost(1_200, 19), false));
        assert_eq!(congestion.window(), 12_000);
        assert!(congestion.in_recovery(20) && !congestion.in_recovery(21));
        // Then one packet for each window.
        let before = Progress {
            bytes: 10_000,
            bytes_since_recovery: 0,
        };
        congestion.on_acknowledgement(30, before, NOTHING, false);
        assert_eq!(congestion.window(), 12_000);
        congestion.on_packet_sent(12_000);
        congestion.on_acknowledgement(40, all(11_000), NOTHING, false);
        assert_eq!(congestion.window(), 12_000);
        congestion.on_acknowledgement(41, all(1_000), NOTHING, false);
        assert_eq!(congestion.window(), 13_200);
    }

    #[test]
    fn persistent_congestion_begins_again_with_two_packets() {
        let mut congestion = Congestion::new(1_200);
        congestion.on_packet_sent(12_000);
        let loss = Loss {
            is_persistent: true,
            ..lost(9_600, 5)
        };
        congestion.on_acknowledgement(9, all(1_200), loss, true);
        assert_eq!(
            (congestion.window(), congestion.in_flight()),
            (2_400, 1_200)
        );
        assert!(!congestion.in_recovery(5));
        // Slow start up to half of the window before.
        congestion.on_packet_sent(4_800);
        congestion.on_acknowledgement(10, all(4_800), NOTHING, false);
        assert_eq!(congestion.window(), 6_000);
        congestion.set_max_datagram_bytes(4_000);
        assert_eq!(congestion.window(), 8_000);
    }
}

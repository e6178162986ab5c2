//! How long a session does without flows after some that failed.

use std::time::{Duration, Instant};

/// The first pause.
const PAUSE_MIN: Duration = Duration::from_secs(1);
/// The longest pause after flows that failed, one after the other.
const PAUSE_MAX: Duration = Duration::from_secs(256);

/// The pause of a session after flows that failed: where a firewall is in the way, each attempt
/// costs time.
#[derive(Clone, Debug, Default)]
pub(crate) struct Pause {
    failures: u32,
    until: Option<Instant>,
    reason: String,
}

impl Pause {
    pub(super) fn failed(&mut self, reason: &str) {
        let pause = PAUSE_MIN
            .saturating_mul(1 << self.failures.min(16))
            .min(PAUSE_MAX);
        self.failures += 1;
        self.until = Some(Instant::now() + pause);
        reason.clone_into(&mut self.reason);
    }

    /// Why no flow is begun now.
    pub(crate) fn why(&self) -> Option<String> {
        let left = self.until?.checked_duration_since(Instant::now())?;
        let (seconds, reason) = (left.as_secs() + 1, &self.reason);
        Some(format!(
            "a flow failed ({reason}); tried again in {seconds} s"
        ))
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn pauses_become_longer_and_say_why() {
        let mut pause = Pause::default();
        assert_eq!(pause.why(), None);
        pause.failed("nobody answers");
        let why = pause.why().expect("a pause");
        assert!(
            why.contains("nobody answers") && why.contains("in 1 s"),
            "{why}"
        );
        (0..40).for_each(|_| pause.failed("again"));
        assert!(pause.why().expect("a pause").contains("in 256 s"));
    }
}

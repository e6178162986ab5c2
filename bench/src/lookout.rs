//! What bounds every wait: the other process ends, somebody asks to stop, or the time is over.

use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::time::{Duration, Instant};

use signal_hook::consts::{SIGINT, SIGTERM};

use crate::error::BenchError;

/// A peer that is silent for so long is lost.
pub(crate) const SILENCE_BOUND: Duration = Duration::from_secs(10);
/// How long a sleep may last before its sleeper looks up.
pub(crate) const NAP: Duration = Duration::from_millis(100);
/// Looking at the clock costs tens of nanoseconds: a spinning wait does it this seldom.
const SPINS_PER_LOOK: u32 = 1 << 14;

/// The signs that waiting has no sense any more. Clones share them.
#[derive(Clone, Debug, Default)]
pub(crate) struct Lookout {
    peer_gone: Arc<AtomicBool>,
    stop: Arc<AtomicBool>,
}

impl Lookout {
    /// From now on signals ask to stop instead of killing; a second one kills.
    pub(crate) fn on_signals() -> Result<Self, BenchError> {
        let lookout = Self::default();
        for signal in [SIGINT, SIGTERM] {
            // In this order: only a signal that finds the flag set ends the process.
            signal_hook::flag::register_conditional_shutdown(signal, 1, lookout.stop.clone())?;
            signal_hook::flag::register(signal, lookout.stop.clone())?;
        }
        Ok(lookout)
    }

    /// The same signals, for a new peer, and the flag to raise when it is gone.
    pub(crate) fn for_peer(&self) -> (Self, Arc<AtomicBool>) {
        let peer_gone = Arc::new(AtomicBool::new(false));
        let lookout = Self {
            peer_gone: Arc::clone(&peer_gone),
            stop: Arc::clone(&self.stop),
        };
        (lookout, peer_gone)
    }

    /// Has a signal asked to stop?
    pub(crate) fn check_stop(&self) -> Result<(), BenchError> {
        if self.stop.load(Ordering::Relaxed) {
            return Err(BenchError::Stopped);
        }
        Ok(())
    }

    fn check(&self, since: Instant) -> Result<(), BenchError> {
        self.check_for(since.elapsed())
    }

    /// Has it sense to wait on, after so long?
    pub(crate) fn check_for(&self, waited: Duration) -> Result<(), BenchError> {
        self.check_stop()?;
        if self.peer_gone.load(Ordering::Relaxed) {
            return Err(BenchError::PeerLost("it has ended".to_owned()));
        }
        if waited > SILENCE_BOUND {
            return Err(BenchError::silent(SILENCE_BOUND));
        }
        Ok(())
    }
}

/// One wait. Made anew for each message; costs nothing until it has lasted.
#[derive(Debug)]
pub(crate) struct BoundedWait<'a> {
    lookout: &'a Lookout,
    spins: u32,
    since: Option<Instant>,
}

impl<'a> BoundedWait<'a> {
    pub(crate) const fn new(lookout: &'a Lookout) -> Self {
        Self {
            lookout,
            spins: 0,
            since: None,
        }
    }

    /// Call after each look that found nothing, before the next one.
    #[inline]
    pub(crate) fn spin(&mut self) -> Result<(), BenchError> {
        std::hint::spin_loop();
        self.spins += 1;
        if self.spins == SPINS_PER_LOOK {
            self.spins = 0;
            return self.look_up();
        }
        Ok(())
    }

    /// Call after each sleep that ended with nothing.
    #[cold]
    pub(crate) fn look_up(&mut self) -> Result<(), BenchError> {
        let since = *self.since.get_or_insert_with(Instant::now);
        self.lookout.check(since)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn spinning_wait_ends_when_the_peer_does() {
        let (lookout, gone) = Lookout::default().for_peer();
        let mut bounded_wait = BoundedWait::new(&lookout);
        for _ in 0..SPINS_PER_LOOK * 2 {
            bounded_wait.spin().expect("the peer is there");
        }
        gone.store(true, Ordering::Relaxed);
        let ended = (0..SPINS_PER_LOOK).find_map(|_| bounded_wait.spin().err());
        assert!(matches!(ended, Some(BenchError::PeerLost(_))), "{ended:?}");
    }

    #[test]
    fn silence_has_a_bound() {
        let lookout = Lookout::default();
        let long_ago = Instant::now().checked_sub(SILENCE_BOUND + NAP);
        let checked = lookout.check(long_ago.expect("the clock began earlier"));
        assert!(matches!(checked, Err(BenchError::PeerLost(_))));
    }
}

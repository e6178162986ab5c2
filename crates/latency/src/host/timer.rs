//! Timer latency, as cyclictest takes it: a thread asks to be woken at an absolute time, and looks how late it is.

use super::clock::{now_ns, sleep_until};
use super::crew::{Found, Start};
use super::cycle::Cycle;
use super::recorder::Recorder;

/// The work of the thread of one CPU.
pub(super) fn measure(mut recorder: Recorder, cycle: Cycle, start: &Start) -> Found {
    let mut cycles = cycle.begin(start.at_ns);
    while let Some(at_ns) = cycles.next(start) {
        sleep_until(at_ns);
        let now = now_ns();
        // The clock never goes back, and the sleep never ends early.
        recorder.record(now.saturating_sub(at_ns));
        cycles.done(now);
    }
    recorder.missed = cycles.missed;
    Ok(Some(recorder))
}

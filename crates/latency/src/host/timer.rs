//! Timer latency, as cyclictest takes it: a thread asks to be woken at an absolute time, and looks
//! how late it is.

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
        recorder.record(at_ns, now.saturating_sub(at_ns));
        cycles.done(now);
    }
    recorder.missed = cycles.missed;
    Ok(Some(recorder))
}

#[cfg(test)]
mod tests {
    use allocation_counter::measure as count_allocations;

    use super::super::plan::tests::plan;
    use super::*;

    #[test]
    fn nothing_is_allocated_while_measuring() {
        let (recorder, start) = (Recorder::new().expect("small"), Start::now());
        let (cycle, mut found) = (Cycle::new(&plan(), 0, 1), Ok(None));
        let counted = count_allocations(|| found = measure(recorder, cycle, &start));
        assert_eq!(counted.count_total, 0);
        let control = count_allocations(|| drop(std::hint::black_box(Box::new(7))));
        assert_eq!(control.count_total, 1, "it counts");
        let samples = found
            .expect("no failure")
            .map(|recorder| recorder.histogram.len());
        assert_eq!(samples, Some(20));
    }
}

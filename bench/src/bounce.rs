//! What this machine asks for moving one cache line to another CPU and back: no way between two
//! processes can be quicker.

use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hdrhistogram::Histogram;

use crate::cpus;
use crate::error::BenchError;
use crate::lookout::{BoundedWait, Lookout};
use crate::statistics;

/// Alone in its line, and in the one that a prefetcher brings along.
#[repr(align(128))]
struct Line(AtomicU32);

/// Round trips of one line between two threads pinned to `cpus`; the caller is on the first of them
/// already.
pub(crate) fn measure(
    cpus: [usize; 2],
    count: u32,
    lookout: &Lookout,
) -> Result<Histogram<u64>, BenchError> {
    let line = Line(AtomicU32::new(0));
    let mut histogram = statistics::histogram();
    // Its wait ends when ours has failed, not only at the bound.
    let (lookout_of_other, we_are_gone) = lookout.for_peer();
    std::thread::scope(|scope| {
        let other = scope.spawn(|| {
            cpus::pin(cpus[1])?;
            (0..count).try_for_each(|number| answer(&line, number, &lookout_of_other))
        });
        let asked = (0..count).try_for_each(|number| {
            let start = Instant::now();
            ask(&line, number, lookout)?;
            statistics::record(&mut histogram, start.elapsed());
            Ok(())
        });
        we_are_gone.store(asked.is_err(), Ordering::Relaxed);
        let answered = other.join();
        asked.and(answered.unwrap_or_else(|_| {
            Err(BenchError::PeerLost(
                "the answering thread panicked".to_owned(),
            ))
        }))
    })?;
    Ok(histogram)
}

fn ask(line: &Line, number: u32, lookout: &Lookout) -> Result<(), BenchError> {
    // Pairs with the acquire load in `answer`.
    line.0.store(number * 2 + 1, Ordering::Release);
    wait_for(line, number * 2 + 2, lookout)
}

fn answer(line: &Line, number: u32, lookout: &Lookout) -> Result<(), BenchError> {
    wait_for(line, number * 2 + 1, lookout)?;
    // Pairs with the acquire load in `ask`.
    line.0.store(number * 2 + 2, Ordering::Release);
    Ok(())
}

fn wait_for(line: &Line, value: u32, lookout: &Lookout) -> Result<(), BenchError> {
    let mut bounded_wait = BoundedWait::new(lookout);
    while line.0.load(Ordering::Acquire) != value {
        bounded_wait.spin()?;
    }
    Ok(())
}

/// What one reading of the clock costs: a part of every round trip measured here.
pub(crate) fn clock_cost() -> Duration {
    const READINGS: u32 = 1000;
    let start = Instant::now();
    for _ in 0..READINGS {
        std::hint::black_box(Instant::now());
    }
    start.elapsed() / READINGS
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn line_goes_there_and_back() {
        let Some(cpus) = cpus::choose().expect("CPUs") else {
            eprintln!("skipped: one CPU only");
            return;
        };
        let found = measure(cpus, 100, &Lookout::default()).expect("measured");
        assert_eq!(found.len(), 100);
        assert!(found.min() > 0);
    }
}

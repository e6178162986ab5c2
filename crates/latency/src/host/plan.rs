//! What shall be measured, and under which conditions.

use std::ops::RangeInclusive;
use std::path::PathBuf;
use std::time::Duration;

use super::cpus;
use super::load::Load;

/// Real-time priorities that a thread may have.
pub const PRIORITIES: RangeInclusive<u8> = 1..=99;
/// Time between two wake-ups. Below, a real-time thread would leave nothing of its CPU to others;
/// above, a measurement could not be ended in reasonable time.
pub const INTERVALS_US: RangeInclusive<u64> = 20..=1_000_000;

/// One kind of latency.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Measure {
    /// A sleeper's lateness against the time it asked to be woken at.
    Timer,
    /// From before `FUTEX_WAKE` to the running of the thread that waited.
    FutexWake,
    /// From before the write to an eventfd to the end of the read behind `poll`.
    EventfdWake,
    /// From before the sending on a channel of Hythe to the sample in the receiver's hands.
    ChannelWake,
}

impl Measure {
    /// All of them.
    pub const ALL: [Self; 4] = [
        Self::Timer,
        Self::FutexWake,
        Self::EventfdWake,
        Self::ChannelWake,
    ];

    /// What results call it.
    #[must_use]
    pub const fn metric(self) -> &'static str {
        match self {
            Self::Timer => "timer",
            Self::FutexWake => "futex_wake",
            Self::EventfdWake => "eventfd_wake",
            Self::ChannelWake => "channel_wake",
        }
    }
}

/// When one measure ends.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Until {
    /// After this time.
    Elapsed(Duration),
    /// After so many cycles on each CPU.
    Loops(u64),
}

/// What shall be measured, and how.
#[derive(Clone, Debug)]
pub struct Plan {
    /// On which CPUs: a thread on each.
    pub cpus: Vec<usize>,
    /// One after the other.
    pub measures: Vec<Measure>,
    /// Of `SCHED_FIFO`; none: as ordinary threads are scheduled.
    pub priority: Option<u8>,
    /// Between two wake-ups.
    pub interval: Duration,
    /// When each of the measures ends.
    pub until: Until,
    /// What the machine does meanwhile.
    pub load: Load,
    /// Where a load that uses storage puts its file, which has no name.
    pub load_directory: PathBuf,
    /// Keep the memory of the process from being paged out.
    pub lock_memory: bool,
    /// Keep the CPUs from idle states that take long to leave.
    pub hold_dma_latency: bool,
    /// End, with the results so far, before a measure for which something is refused that was
    /// granted before.
    pub is_strict: bool,
}

impl Plan {
    /// Refuses what cannot be.
    ///
    /// # Errors
    /// What is wrong, with the value and what is possible.
    pub fn check(&self) -> Result<(), String> {
        if let Some(priority) = self.priority
            && !PRIORITIES.contains(&priority)
        {
            return Err(format!(
                "a real-time priority is from {} to {}, not {priority}",
                PRIORITIES.start(),
                PRIORITIES.end()
            ));
        }
        let interval_us = u64::try_from(self.interval.as_micros()).unwrap_or(u64::MAX);
        if !INTERVALS_US.contains(&interval_us) {
            return Err(format!(
                "an interval is from {} to {} us, not {interval_us}",
                INTERVALS_US.start(),
                INTERVALS_US.end()
            ));
        }
        match self.until {
            Until::Loops(0) => return Err("0 loops measure nothing: 1 or more".to_owned()),
            Until::Elapsed(time) if time < self.interval => {
                return Err(format!(
                    "a measurement of {time:?} does not hold one interval of {:?}: ask for a longer time or a shorter interval",
                    self.interval
                ));
            }
            _ => {}
        }
        let online = cpus::online().map_err(|error| error.to_string())?;
        let unknown: Vec<usize> = self
            .cpus
            .iter()
            .copied()
            .filter(|cpu| !online.contains(cpu))
            .collect();
        if !unknown.is_empty() {
            return Err(format!(
                "there is no CPU {} that is switched on; this machine has {}",
                cpus::render(&unknown),
                cpus::render(&online)
            ));
        }
        if self.cpus.is_empty() || self.measures.is_empty() {
            return Err("nothing to measure: it takes a CPU and a measure".to_owned());
        }
        Ok(())
    }
}

#[cfg(test)]
pub(super) mod tests {
    use super::*;

    /// Short and harmless.
    pub(in crate::host) fn plan() -> Plan {
        Plan {
            cpus: cpus::allowed().expect("Linux"),
            measures: Measure::ALL.to_vec(),
            priority: None,
            interval: Duration::from_micros(500),
            until: Until::Loops(20),
            load: Load::Idle,
            load_directory: std::env::temp_dir(),
            lock_memory: false,
            hold_dma_latency: false,
            is_strict: false,
        }
    }

    #[test]
    fn what_cannot_be_is_refused_with_what_can() {
        let refused = |change: fn(&mut Plan)| {
            let mut plan = plan();
            change(&mut plan);
            plan.check().expect_err("refused")
        };
        assert_eq!(plan().check(), Ok(()));
        for (said, word) in [
            (
                refused(|plan| plan.priority = Some(100)),
                "1 to 99, not 100",
            ),
            (refused(|plan| plan.priority = Some(0)), "1 to 99, not 0"),
            (
                refused(|plan| plan.interval = Duration::ZERO),
                "20 to 1000000 us, not 0",
            ),
            (
                refused(|plan| plan.interval = Duration::MAX),
                "20 to 1000000",
            ),
            (refused(|plan| plan.until = Until::Loops(0)), "1 or more"),
            (
                refused(|plan| plan.until = Until::Elapsed(Duration::ZERO)),
                "longer time",
            ),
            (refused(|plan| plan.cpus = vec![0, 1023]), "no CPU 1023"),
            (refused(|plan| plan.cpus = vec![]), "takes a CPU"),
            (refused(|plan| plan.measures = vec![]), "a measure"),
        ] {
            assert!(said.contains(word), "no `{word}` in {said}");
        }
    }
}

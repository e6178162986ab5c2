//! How often a guest was left for the hypervisor while it was being measured: from the emulator's
//! log of exceptions.
//!
//! QEMU writes each exception (`-d int`) and each byte that the guest sends (`trace:pl011_write`)
//! into one log, in order: between the two edges of a sample stand the exceptions that it met with.

use std::collections::BTreeMap;

use super::emulator_log::Line;

/// What a measure's samples met with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exits {
    /// Samples.
    pub samples: u64,
    /// Of them all: how often the CPU went from the guest (EL1) to the hypervisor (EL2).
    pub exits: u64,
}

impl Exits {
    /// For each sample, on average.
    #[must_use]
    pub fn per_sample(&self) -> f64 {
        self.exits as f64 / self.samples.max(1) as f64
    }
}

/// Counts line by line, for each CPU of the board: which of them is the core's shows at the end.
#[derive(Debug, Default)]
pub(super) struct Counter {
    counted: BTreeMap<u8, Vec<Exits>>,
    open: Option<Sample>,
    /// Whose exception the log is telling of.
    cpu: usize,
    /// The edges have ended, and text began.
    has_ended: bool,
}

/// One that has begun.
#[derive(Clone, Copy, Debug)]
struct Sample {
    letter: u8,
    exits: [u64; super::CPUS_MAX],
}

impl Counter {
    pub(super) fn line(&mut self, line: Line) {
        match line {
            Line::Pin(b'\n') => self.has_ended = true,
            Line::Pin(letter) if !self.has_ended => self.edge(letter),
            Line::Exception { cpu, .. } => self.cpu = cpu,
            Line::Levels { from: 1, to: 2 } => {
                let exits = self.open.as_mut().map(|sample| &mut sample.exits);
                if let Some(exits) = exits.and_then(|exits| exits.get_mut(self.cpu)) {
                    *exits += 1;
                }
            }
            _ => {}
        }
    }

    fn edge(&mut self, letter: u8) {
        if letter.is_ascii_uppercase() {
            self.open = Some(Sample {
                letter,
                exits: [0; super::CPUS_MAX],
            });
        } else if let Some(sample) = self
            .open
            .take_if(|open| open.letter.eq_ignore_ascii_case(&letter))
        {
            let counted = self.counted.entry(sample.letter).or_default();
            counted.resize(super::CPUS_MAX, Exits::default());
            for (counted, exits) in counted.iter_mut().zip(sample.exits) {
                counted.samples += 1;
                counted.exits += exits;
            }
        }
    }

    /// By the letter that begins a sample, of the core's CPU: it is the one with most exits between
    /// edges.
    pub(super) fn finish(self) -> BTreeMap<u8, Exits> {
        let of = |cpu: usize| {
            self.counted
                .iter()
                .map(move |(letter, all)| (*letter, all[cpu]))
        };
        let sum = |cpu: &usize| of(*cpu).map(|(_, exits)| exits.exits).sum::<u64>();
        let cpu = (0..super::CPUS_MAX).max_by_key(sum).unwrap_or(0);
        of(cpu).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// As QEMU 7.2.22 wrote it.
    const LOG: &str = "\
Taking exception 5 [IRQ] on CPU 0
...from EL1 to EL2
pl011_write addr 0x00000000 value 0x00000043
Taking exception 1 [Undefined Instruction] on CPU 0
...from EL1 to EL2
...with ESR 0x18/0x623a3016
Exception return from AArch64 EL2 to AArch64 EL1 PC 0x40081264
Taking exception 14 [Virtual IRQ] on CPU 0
...from EL1 to EL1
Taking exception 5 [IRQ] on CPU 0
...from EL1 to EL2
Taking exception 5 [IRQ] on CPU 1
...from EL1 to EL2
pl011_write addr 0x00000000 value 0x00000063
pl011_write addr 0x00000030 value 0x00000301
pl011_write addr 0x00000000 value 0x00000043
pl011_write addr 0x00000000 value 0x00000041
pl011_write addr 0x00000000 value 0x00000061
pl011_write addr 0x00000000 value 0x0000000a
pl011_write addr 0x00000000 value 0x00000041
pl011_write addr 0x00000000 value 0x00000061
";

    fn counted(log: &str) -> BTreeMap<u8, Exits> {
        let mut counter = Counter::default();
        for line in log.lines() {
            counter.line(Line::read(line));
        }
        counter.finish()
    }

    #[test]
    fn exits_are_those_between_the_edges_on_the_guests_cpu() {
        let one = |exits| Exits { samples: 1, exits };
        let expected = BTreeMap::from([(b'A', one(0)), (b'C', one(2))]);
        assert_eq!(counted(LOG), expected);
        assert!((expected[&b'C'].per_sample() - 2.0).abs() < f64::EPSILON);
        // The other one is the core's.
        let swapped = LOG.replace("CPU 0", "CPU 2").replace("CPU 1", "CPU 0");
        assert_eq!(counted(&swapped.replace("CPU 2", "CPU 1")), expected);
        assert_eq!(counted(""), BTreeMap::new());
    }
}

//! How often a guest was left for the hypervisor while it was being measured, and in which samples the emulator ran another CPU
//! meanwhile: from its log of exceptions.
//!
//! QEMU writes each exception (`-d int`) and each byte that the guest sends (`trace:pl011_write`) into one log, in order: between the
//! two edges of a sample stand the exceptions that it met with.

use std::collections::BTreeMap;
use std::io::BufRead;

/// What a measure's samples met with.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Exits {
    /// Samples.
    pub samples: u64,
    /// Of them all: how often the CPU went from the guest (EL1) to the hypervisor (EL2).
    pub exits: u64,
    /// Samples in which another CPU took an exception. Where instructions are counted, CPUs run in turns: these samples waited for
    /// the emulator, not for the hypervisor.
    pub interleaved: u64,
}

impl Exits {
    /// For each sample, on average.
    #[must_use]
    pub fn per_sample(&self) -> f64 {
        self.exits as f64 / self.samples.max(1) as f64
    }
}

/// Counts, by the letter that begins a sample. Exceptions of
/// other CPUs than the guest's are left out.
///
/// # Errors
/// The log cannot be read.
pub fn count(log: impl BufRead, cpu: u32) -> std::io::Result<BTreeMap<u8, Exits>> {
    let mut counted: BTreeMap<u8, Exits> = BTreeMap::new();
    let mut open: Option<Sample> = None;
    let mut is_ours = false;
    for line in log.lines() {
        let line = line?;
        if let Some(letter) = sent(&line) {
            if letter == b'\n' {
                // The edges have ended, and text begins.
                break;
            }
            open = match open {
                _ if letter.is_ascii_uppercase() => Some(Sample::begun(letter)),
                Some(sample) if sample.letter.eq_ignore_ascii_case(&letter) => {
                    let counted = counted.entry(sample.letter).or_default();
                    counted.samples += 1;
                    counted.exits += sample.exits;
                    counted.interleaved += u64::from(sample.is_interleaved);
                    None
                }
                other => other,
            };
        } else if line.starts_with("Taking exception") {
            is_ours = line.ends_with(&format!("on CPU {cpu}"));
            if let Some(sample) = &mut open {
                sample.is_interleaved |= !is_ours;
            }
        } else if is_ours
            && line == "...from EL1 to EL2"
            && let Some(sample) = &mut open
        {
            sample.exits += 1;
        }
    }
    Ok(counted)
}

/// One that has begun.
#[derive(Clone, Copy)]
struct Sample {
    letter: u8,
    exits: u64,
    is_interleaved: bool,
}

impl Sample {
    const fn begun(letter: u8) -> Self {
        Self {
            letter,
            exits: 0,
            is_interleaved: false,
        }
    }
}

/// The byte that was written to the UART's data register, if the line tells of one.
fn sent(line: &str) -> Option<u8> {
    let rest = line.strip_prefix("pl011_write addr 0x00000000 value 0x")?;
    let digits = rest.get(..8)?;
    u32::from_str_radix(digits, 16).ok().map(|word| word as u8)
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
Taking exception 5 [IRQ] on CPU 1
...from EL1 to EL2
pl011_write addr 0x00000000 value 0x00000063
pl011_write addr 0x00000030 value 0x00000301
pl011_write addr 0x00000000 value 0x00000043
pl011_write addr 0x00000000 value 0x00000041
pl011_write addr 0x00000000 value 0x00000061
pl011_write addr 0x00000000 value 0x0000000a
pl011_write addr 0x00000000 value 0x00000041
";

    #[test]
    fn exits_are_those_between_the_edges_on_the_guests_cpu() {
        let counted = count(LOG.as_bytes(), 0).expect("memory");
        let one = |exits, interleaved| Exits {
            samples: 1,
            exits,
            interleaved,
        };
        let expected = BTreeMap::from([(b'A', one(0, 0)), (b'C', one(1, 1))]);
        assert_eq!(counted, expected);
        assert!((counted[&b'C'].per_sample() - 1.0).abs() < f64::EPSILON);
        let other = count(LOG.as_bytes(), 1).expect("memory");
        assert_eq!(other[&b'C'], one(1, 1));
    }
}

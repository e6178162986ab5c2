//! How often a guest was left for the hypervisor while it was being measured: from the emulator's log of exceptions.
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
    // The sample that has begun, and the exits since.
    let mut open: Option<(u8, u64)> = None;
    let mut is_ours = false;
    for line in log.lines() {
        let line = line?;
        if let Some(letter) = sent(&line) {
            if letter == b'\n' {
                // The edges have ended, and text begins.
                break;
            }
            open = match open {
                _ if letter.is_ascii_uppercase() => Some((letter, 0)),
                Some((begun, exits)) if begun.eq_ignore_ascii_case(&letter) => {
                    let counted = counted.entry(begun).or_default();
                    counted.samples += 1;
                    counted.exits += exits;
                    None
                }
                other => other,
            };
        } else if line.starts_with("Taking exception") {
            is_ours = line.ends_with(&format!("on CPU {cpu}"));
        } else if is_ours
            && line == "...from EL1 to EL2"
            && let Some((_, exits)) = &mut open
        {
            *exits += 1;
        }
    }
    Ok(counted)
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
        let one = |exits| Exits { samples: 1, exits };
        assert_eq!(counted, BTreeMap::from([(b'A', one(0)), (b'C', one(1))]));
        assert!((counted[&b'C'].per_sample() - 1.0).abs() < f64::EPSILON);
        assert_eq!(count(LOG.as_bytes(), 1).expect("memory")[&b'C'], one(1));
    }
}

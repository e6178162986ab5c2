//! Times from outside of the guest: edges on its pin, by the emulator's count of instructions.
//!
//! An emulator that counts instructions (`-icount`) and records (`rr=record`) writes down at which
//! instruction each byte left a serial port. That is an oscilloscope on the port which the guest
//! cannot influence: its clock takes no part. Instructions are time as long as the CPU runs: a
//! record of one that slept between two edges is refused. Never asks the emulator or the guest
//! anything.

mod alarms;
mod record_log;
mod samples;

use std::collections::BTreeMap;

use crate::LatencyError;
use samples::Gathering;

pub use alarms::{Alarms, Period, alarms};
pub use samples::Samples;

/// One edge: a byte that left the port, and the instruction at which it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Counted since the machine started.
    pub instruction: u64,
    /// What was written: an upper-case letter begins a sample of a measure, the lower-case one ends
    /// it.
    pub letter: u8,
}

/// The edges of a run.
///
/// `log` is QEMU's record, `bytes` what came out of the pin. The record does not tell ports from
/// each other: whoever measures writes to no other before it has done with the pin, so the pin's
/// bytes are the first.
///
/// # Errors
/// [`LatencyError::RecordLog`]: written by another version of QEMU, cut off, or not of the same run
/// as the bytes; or the CPU slept between two edges.
pub fn edges(log: &[u8], bytes: &[u8]) -> Result<Vec<Edge>, LatencyError> {
    let mut edges: Vec<Edge> = Vec::with_capacity(bytes.len());
    for write in record_log::writes(log)? {
        let left = &bytes[edges.len()..];
        if write.has_slept && !edges.is_empty() && !left.is_empty() {
            let what = format!(
                "the CPU slept before instruction {}, between two edges: what it slept is in no count of instructions, so nothing tells the time; the host's clock measures without it",
                write.instruction
            );
            return Err(LatencyError::RecordLog { what });
        }
        let taken = left.iter().take(write.bytes as usize);
        edges.extend(taken.map(|&letter| Edge {
            instruction: write.instruction,
            letter,
        }));
    }
    if edges.len() < bytes.len() {
        let what = format!(
            "it tells of {} bytes, the pin of {}",
            edges.len(),
            bytes.len()
        );
        return Err(LatencyError::RecordLog { what });
    }
    Ok(edges)
}

/// Pairs edges: for each letter the nanoseconds from its upper to its lower case, at so many of
/// them an instruction.
///
/// A beginning that is followed by another one of its measure has no end, and an end without
/// beginning is none: neither is a sample, as on the core itself.
#[must_use]
pub fn intervals(edges: &[Edge], instruction_ns: u32) -> BTreeMap<u8, Samples> {
    let mut measures: BTreeMap<u8, Measure> = BTreeMap::new();
    for edge in edges {
        let letter = edge.letter.to_ascii_uppercase();
        let now_ns = edge.instruction.saturating_mul(instruction_ns.into());
        if edge.letter == letter {
            let measure = measures.entry(letter).or_insert_with(|| Measure {
                began_ns: None,
                samples: Gathering::new(now_ns),
            });
            measure.began_ns = Some(now_ns);
        } else if let Some(measure) = measures.get_mut(&letter)
            && let Some(began_ns) = measure.began_ns.take()
        {
            measure.samples.add(began_ns, now_ns - began_ns);
        }
    }
    let measured = measures.into_iter();
    let measured = measured.map(|(letter, measure)| (letter, measure.samples.end()));
    measured
        .filter(|(_, samples)| !samples.histogram.is_empty())
        .collect()
}

/// One whose first edge was seen.
struct Measure {
    /// When the sample began that has no end yet.
    began_ns: Option<u64>,
    samples: Gathering,
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edge(instruction: u64, letter: char) -> Edge {
        Edge {
            instruction,
            letter: letter as u8,
        }
    }

    #[test]
    fn interval_is_from_upper_to_lower_case() {
        let edges = [
            edge(10, 'A'),
            edge(12, 'B'),
            edge(15, 'a'),
            edge(20, 'b'),
            edge(30, 'A'),
            edge(31, 'a'),
        ];
        let intervals = intervals(&edges, 8);
        assert_eq!(intervals.keys().copied().collect::<Vec<_>>(), *b"AB");
        let first = &intervals[&b'A'].histogram;
        assert_eq!((first.len(), first.min(), first.max()), (2, 8, 40));
        assert_eq!(intervals[&b'B'].histogram.max(), 64);
    }

    #[test]
    fn largest_have_the_time_since_the_first_edge_of_their_measure() {
        let mut edges = vec![edge(3, 'A'), edge(4, 'a'), edge(5, 'B')];
        // Half of them as usual, half of them one larger than the one before.
        for at in 0..200 {
            edges.push(edge(100 * at + 10, 'B'));
            edges.push(edge(100 * at + 20, 'b'));
            edges.push(edge(100 * at + 30, 'B'));
            edges.push(edge(100 * at + 51 + at / 4, 'b'));
        }
        let found = intervals(&edges, 8);
        let outliers = &found[&b'B'].outliers;
        assert_eq!(outliers.len(), 200, "none of those that are as usual");
        for (at, outlier) in outliers.iter().enumerate() {
            let at = at as u64;
            // The first edge began no sample: another followed it.
            let expected = [(100 * at + 25) * 8, (21 + at / 4) * 8];
            assert_eq!([outlier.at_ns, outlier.value], expected);
        }
        let first = crate::result::Outlier { at_ns: 0, value: 8 };
        assert_eq!(found[&b'A'].outliers, [first]);
        assert_eq!(found[&b'A'].lasted_ns, 8);
        let last = outliers.last().map(|last| last.at_ns + last.value);
        assert_eq!(Some(found[&b'B'].lasted_ns), last);
    }

    #[test]
    fn what_has_no_beginning_or_no_end_is_no_sample() {
        let edges = [
            edge(1, 'a'),
            edge(2, 'A'),
            edge(5, 'A'),
            edge(6, 'a'),
            edge(9, 'a'),
            edge(10, 'A'),
        ];
        let found = intervals(&edges, 1);
        let histogram = &found[&b'A'].histogram;
        assert_eq!((histogram.len(), histogram.max()), (1, 1));
        assert!(intervals(&edges[..2], 1).is_empty());
    }

    /// A record with one byte at each of these instructions; before one of them the CPU sleeps.
    fn record(instructions: &[u32], sleeps_before: usize) -> Vec<u8> {
        let mut log = vec![0x00, 0xe0, 0x20, 0x0c, 0, 0, 0, 0, 0, 0, 0, 0];
        for (at, instructions) in instructions.iter().enumerate() {
            if at == sleeps_before {
                log.extend([0x1e, 0x1d, 0, 0, 0, 1, 0xc4, 0xab, 0xb0, 0x6f, 0x22]);
            }
            log.push(0);
            log.extend(instructions.to_be_bytes());
            log.extend([0x16, 0, 0, 0, 1, 0, 0, 0, 1]);
        }
        log.push(0x27);
        log
    }

    #[test]
    fn cpu_that_slept_between_two_edges_tells_no_time() {
        let instructions = [5, 1, 1, 1, 1];
        for sleeps_before in [0, 3, 4, 5] {
            let log = record(&instructions, sleeps_before);
            let found = edges(&log, b"Aab").expect("it slept before or after");
            assert_eq!(found, [edge(5, 'A'), edge(6, 'a'), edge(7, 'b')]);
        }
        for sleeps_before in [1, 2] {
            let error = edges(&record(&instructions, sleeps_before), b"Aab");
            let error = error.expect_err("slept").to_string();
            let instruction = format!("slept before instruction {}", 5 + sleeps_before);
            assert!(
                error.contains(&instruction) && error.contains("the host's clock"),
                "{error}"
            );
        }
    }
}

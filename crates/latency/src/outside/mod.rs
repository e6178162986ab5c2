//! Times from outside of the guest: edges on its pin, by the emulator's count of instructions.
//!
//! An emulator that counts instructions (`-icount`) and records (`rr=record`) writes down at which instruction each byte left a serial
//! port. That is an oscilloscope on the port which the guest cannot influence: its clock takes no part.

mod alarms;
mod record_log;

use std::collections::BTreeMap;

use hdrhistogram::Histogram;

use crate::LatencyError;

pub use alarms::{Alarms, Period, alarms};

/// One edge: a byte that left the port, and the instruction at which it did.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Edge {
    /// Counted since the machine started.
    pub instruction: u64,
    /// What was written: an upper-case letter begins a sample of a measure, the lower-case one ends it.
    pub letter: u8,
}

/// The edges of a run.
///
/// `log` is QEMU's record, `bytes` what came out of the pin. The record does not tell ports from each other: whoever measures writes to
/// no other before it has done with the pin, so the pin's bytes are the first.
///
/// # Errors
/// [`LatencyError::RecordLog`]: written by another version of QEMU, cut off, or not of the same run as the bytes.
pub fn edges(log: &[u8], bytes: &[u8]) -> Result<Vec<Edge>, LatencyError> {
    let instructions = record_log::writes(log)?;
    let instructions = instructions
        .iter()
        .flat_map(|write| std::iter::repeat_n(write.instruction, write.bytes as usize));
    let edges: Vec<Edge> = instructions
        .zip(bytes)
        .map(|(instruction, &letter)| Edge {
            instruction,
            letter,
        })
        .collect();
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

/// Pairs edges: for each letter the nanoseconds from its upper to its lower case, at so many of them an instruction.
///
/// A beginning that is followed by another one of its measure has no end, and an end without beginning is none: neither is a sample,
/// as on the core itself.
#[must_use]
pub fn intervals(edges: &[Edge], instruction_ns: u32) -> BTreeMap<u8, Histogram<u64>> {
    let mut began: BTreeMap<u8, u64> = BTreeMap::new();
    let mut intervals = BTreeMap::new();
    for edge in edges {
        let letter = edge.letter.to_ascii_uppercase();
        if edge.letter == letter {
            began.insert(letter, edge.instruction);
        } else if let Some(began) = began.remove(&letter) {
            let ns = (edge.instruction - began).saturating_mul(u64::from(instruction_ns));
            #[allow(
                clippy::expect_used,
                reason = "proof: 4 digits are documented as valid"
            )]
            let histogram = intervals
                .entry(letter)
                .or_insert_with(|| Histogram::new(4).expect("a constant"));
            // A histogram that resizes itself takes every value.
            let _ = histogram.record(ns);
        }
    }
    intervals
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
    fn an_interval_is_from_upper_to_lower_case() {
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
        let first = &intervals[&b'A'];
        assert_eq!((first.len(), first.min(), first.max()), (2, 8, 40));
        assert_eq!(intervals[&b'B'].max(), 64);
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
        let intervals = intervals(&edges, 1);
        assert_eq!((intervals[&b'A'].len(), intervals[&b'A'].max()), (1, 1));
    }
}

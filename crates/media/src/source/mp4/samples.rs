//! Where samples lie and when they are due: the tables of `stbl` (ISO/IEC 14496-12, section 8),
//! walked one sample at a time.
//!
//! Tables keep their run-length form, so that a count they claim is never turned into memory.

use mp4_atom::{Co64, Ctts, CttsEntry, Stco, Stsc, StscEntry, Stsz, StszSamples, Stts, SttsEntry};

use super::boxes::decode;

/// A sample: an access unit with lengths in front of its NAL units.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Sample {
    /// In the file.
    pub(super) offset: u64,
    pub(super) bytes: u32,
    /// Decoding time and duration, in ticks of the track.
    pub(super) decoded: u64,
    pub(super) duration: u32,
    /// From decoding to presentation.
    pub(super) composition: i64,
    /// Which description of `stsd`, counted from 1.
    pub(super) description: u32,
}

/// The tables of a track, and how far they are walked.
#[derive(Default)]
pub(super) struct Samples {
    times: Vec<SttsEntry>,
    compositions: Vec<CttsEntry>,
    chunk_runs: Vec<StscEntry>,
    sizes: StszSamples,
    chunks: Chunks,
    /// Of the next sample.
    index: usize,
    time_run: Run,
    composition_run: Run,
    chunk: Chunk,
    decoded: u64,
}

enum Chunks {
    Short(Vec<u32>),
    Long(Vec<u64>),
}

impl Default for Chunks {
    fn default() -> Self {
        Self::Short(Vec::new())
    }
}

impl Chunks {
    fn offset(&self, index: usize) -> Option<u64> {
        match self {
            Self::Short(offsets) => offsets.get(index).copied().map(u64::from),
            Self::Long(offsets) => offsets.get(index).copied(),
        }
    }
}

/// A place in a table of runs.
#[derive(Clone, Copy, Default)]
struct Run {
    entry: usize,
    taken: u32,
}

impl Run {
    /// The entry that the next sample is of.
    fn step<'e, E>(&mut self, entries: &'e [E], count: impl Fn(&E) -> u32) -> Option<&'e E> {
        while self.taken >= count(entries.get(self.entry)?) {
            self.entry += 1;
            self.taken = 0;
        }
        self.taken += 1;
        entries.get(self.entry)
    }
}

/// The chunk that the next sample is in.
#[derive(Clone, Copy, Default)]
struct Chunk {
    /// Counted from 1, as the tables do; 0 before the first.
    number: u32,
    run: usize,
    samples_left: u32,
    next_offset: u64,
    description: u32,
}

impl Samples {
    /// Reads the tables in `stbl`. Missing ones are empty: a fragmented file has no samples there.
    pub(super) fn new(stbl: &[u8]) -> Self {
        let short = decode::<Stco>(stbl, b"stco").map(|table| Chunks::Short(table.entries));
        let long = || decode::<Co64>(stbl, b"co64").map(|table| Chunks::Long(table.entries));
        Self {
            times: decode::<Stts>(stbl, b"stts")
                .map(|table| table.entries)
                .unwrap_or_default(),
            compositions: decode::<Ctts>(stbl, b"ctts")
                .map(|table| table.entries)
                .unwrap_or_default(),
            chunk_runs: decode::<Stsc>(stbl, b"stsc")
                .map(|table| table.entries)
                .unwrap_or_default(),
            sizes: decode::<Stsz>(stbl, b"stsz")
                .map(|table| table.samples)
                .unwrap_or_default(),
            chunks: short.or_else(long).unwrap_or_default(),
            ..Self::default()
        }
    }

    /// The least time from decoding to presentation; negative where presentation comes first in
    /// numbers.
    pub(super) fn composition_min(&self) -> i64 {
        let offsets = self.compositions.iter().map(|entry| entry.sample_offset);
        offsets.min().unwrap_or(0)
    }

    /// The number of the next sample, counted from 0.
    pub(super) fn number(&self) -> usize {
        self.index
    }

    /// Goes to the sample of this number. The tables are walked from where they are, or from their
    /// start.
    pub(super) fn seek(&mut self, number: usize) {
        if number < self.index {
            (self.index, self.decoded) = (0, 0);
            self.time_run = Run::default();
            self.composition_run = Run::default();
            self.chunk = Chunk::default();
        }
        while self.index < number && self.next().is_some() {}
    }

    /// When the sample behind the last one is due.
    pub(super) fn decoded(&self) -> u64 {
        self.decoded
    }

    /// The next sample; `None` where a table ends.
    pub(super) fn next(&mut self) -> Option<Sample> {
        let bytes = match &self.sizes {
            StszSamples::Identical { count, size } => {
                (self.index < *count as usize).then_some(*size)?
            }
            StszSamples::Different { sizes } => *sizes.get(self.index)?,
        };
        while self.chunk.samples_left == 0 {
            self.next_chunk()?;
        }
        let duration = self
            .time_run
            .step(&self.times, |entry| entry.sample_count)?
            .sample_delta;
        let composition = self
            .composition_run
            .step(&self.compositions, |entry| entry.sample_count);
        let sample = Sample {
            offset: self.chunk.next_offset,
            bytes,
            decoded: self.decoded,
            duration,
            composition: composition.map_or(0, |entry| entry.sample_offset),
            description: self.chunk.description,
        };
        self.index += 1;
        self.decoded = self.decoded.saturating_add(u64::from(duration));
        self.chunk.samples_left -= 1;
        self.chunk.next_offset = self.chunk.next_offset.saturating_add(u64::from(bytes));
        Some(sample)
    }

    fn next_chunk(&mut self) -> Option<()> {
        let chunk = &mut self.chunk;
        let next_offset = self.chunks.offset(chunk.number as usize)?;
        chunk.number += 1;
        let begins = |run: usize| {
            self.chunk_runs
                .get(run)
                .is_some_and(|entry| entry.first_chunk <= chunk.number)
        };
        while begins(chunk.run + 1) {
            chunk.run += 1;
        }
        let run = self.chunk_runs.get(chunk.run)?;
        chunk.samples_left = run.samples_per_chunk;
        chunk.description = run.sample_description_index;
        chunk.next_offset = next_offset;
        Some(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn time(sample_count: u32, sample_delta: u32) -> SttsEntry {
        SttsEntry {
            sample_count,
            sample_delta,
        }
    }

    fn chunk_run(
        first_chunk: u32,
        samples_per_chunk: u32,
        sample_description_index: u32,
    ) -> StscEntry {
        StscEntry {
            first_chunk,
            samples_per_chunk,
            sample_description_index,
        }
    }

    fn places(samples: &mut Samples) -> Vec<(u64, u32, u64, u32)> {
        let sample = |sample: Sample| {
            (
                sample.offset,
                sample.bytes,
                sample.decoded,
                sample.description,
            )
        };
        std::iter::from_fn(|| samples.next().map(sample)).collect()
    }

    #[test]
    fn tables_are_walked_together() {
        let mut samples = Samples {
            times: vec![time(0, 9), time(2, 10), time(3, 5)],
            chunk_runs: vec![chunk_run(1, 2, 1), chunk_run(2, 0, 1), chunk_run(3, 1, 2)],
            sizes: StszSamples::Different {
                sizes: vec![3, 4, 5, 6, 7],
            },
            chunks: Chunks::Long(vec![100, 150, 200, 300]),
            ..Samples::default()
        };
        let expected = [
            (100, 3, 0, 1),
            (103, 4, 10, 1),
            (200, 5, 20, 2),
            (300, 6, 25, 2),
        ];
        assert_eq!(
            places(&mut samples),
            expected,
            "the chunks end before the sizes"
        );
    }

    #[test]
    fn counts_that_are_claimed_cost_nothing() {
        let mut samples = Samples {
            times: vec![time(u32::MAX, u32::MAX)],
            chunk_runs: vec![chunk_run(1, u32::MAX, 1)],
            sizes: StszSamples::Identical {
                count: u32::MAX,
                size: u32::MAX,
            },
            chunks: Chunks::Long(vec![u64::MAX - 5]),
            ..Samples::default()
        };
        for _ in 0..1000 {
            assert!(samples.next().is_some());
        }
        assert_eq!(samples.next().unwrap().offset, u64::MAX);
        assert_eq!(Samples::new(&[]).next(), None);
    }
}

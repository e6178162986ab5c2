//! Samples of movie fragments (ISO/IEC 14496-12, section 8.8): files written while recording, and
//! streams.

use std::fs::File;
use std::io;

use mp4_atom::{Tfdt, Tfhd, Trex, Trun};

use super::boxes::{children, decode, decode_body, descend, file_box, read_body};
use super::samples::Sample;

/// Longest fragment header: 16 bytes for each sample of two hours at 60 frames.
const MOOF_BYTES_MAX: u64 = 8 << 20;

/// Walks through the fragments of one track.
pub(super) struct Fragments {
    track: u32,
    defaults: Trex,
    /// Of the next box of the file.
    position: u64,
    /// Of the fragment before us.
    runs: Vec<Run>,
    run: usize,
    sample: usize,
    offset: u64,
    decoded: u64,
}

/// A run of samples with what its fragment says of all of them.
struct Run {
    samples: Trun,
    /// Where its first sample lies; `None`: behind the run before.
    start: Option<u64>,
    /// Of its first sample; `None`: behind the run before.
    decoded: Option<u64>,
    duration: u32,
    bytes: u32,
    description: u32,
}

impl Fragments {
    /// The fragments behind `position`, after samples that end at `decoded`.
    pub(super) fn new(moov: &[u8], track: u32, position: u64, decoded: u64) -> Self {
        let mvex = descend(moov, &[b"mvex"]).unwrap_or_default();
        let trex = children(mvex).filter(|(kind, _)| kind == b"trex");
        let mut trex = trex.filter_map(|(_, body)| decode_body::<Trex>(body));
        Self {
            track,
            defaults: trex.find(|trex| trex.track_id == track).unwrap_or_default(),
            position,
            runs: Vec::new(),
            run: 0,
            sample: 0,
            offset: 0,
            decoded,
        }
    }

    /// The least time from decoding to presentation in the fragment that was read last.
    pub(super) fn composition_min(&self) -> i64 {
        let samples = self.runs.iter().flat_map(|run| match run.samples.samples {
            mp4_atom::TrunSamples::Explicit(ref samples) => samples.as_slice(),
            mp4_atom::TrunSamples::Inherited { .. } => &[],
        });
        samples.filter_map(|sample| sample.cts).min().unwrap_or(0)
    }

    /// Reads up to the next fragment that has samples of the track; `false` at the end of the file.
    pub(super) fn read_fragment(&mut self, file: &File, file_bytes: u64) -> io::Result<bool> {
        while let Some(found) = file_box(file, self.position, file_bytes)? {
            self.position = found.body.end;
            if &found.kind != b"moof" {
                continue;
            }
            let Some(moof) = read_body(file, &found, MOOF_BYTES_MAX)? else {
                continue;
            };
            self.runs.clear();
            (self.run, self.sample, self.offset) = (0, 0, found.start);
            for (_, traf) in children(&moof).filter(|(kind, _)| kind == b"traf") {
                self.take_track(traf, found.start);
            }
            if !self.runs.is_empty() {
                return Ok(true);
            }
        }
        Ok(false)
    }

    fn take_track(&mut self, traf: &[u8], moof_start: u64) {
        let Some(head) = decode::<Tfhd>(traf, b"tfhd").filter(|head| head.track_id == self.track)
        else {
            return;
        };
        let mut decoded = decode::<Tfdt>(traf, b"tfdt").map(|time| time.base_media_decode_time);
        let base = head.base_data_offset.unwrap_or(moof_start);
        let defaults = &self.defaults;
        for (_, trun) in children(traf).filter(|(kind, _)| kind == b"trun") {
            let Some(samples) = decode_body::<Trun>(trun) else {
                continue;
            };
            let start = samples
                .data_offset
                .map(|offset| base.saturating_add_signed(offset.into()));
            self.runs.push(Run {
                samples,
                start,
                decoded: decoded.take(),
                duration: head
                    .default_sample_duration
                    .unwrap_or(defaults.default_sample_duration),
                bytes: head
                    .default_sample_size
                    .unwrap_or(defaults.default_sample_size),
                description: head
                    .sample_description_index
                    .unwrap_or(defaults.default_sample_description_index),
            });
        }
    }

    /// The next sample of the fragment; `None` at its end.
    pub(super) fn next(&mut self) -> Option<Sample> {
        loop {
            let run = self.runs.get(self.run)?;
            if self.sample == 0 {
                self.offset = run.start.unwrap_or(self.offset);
                self.decoded = run.decoded.unwrap_or(self.decoded);
            }
            let Some(entry) = run.samples.samples.get(self.sample) else {
                self.run += 1;
                self.sample = 0;
                continue;
            };
            let sample = Sample {
                offset: self.offset,
                bytes: entry.size.unwrap_or(run.bytes),
                decoded: self.decoded,
                duration: entry.duration.unwrap_or(run.duration),
                composition: entry.cts.unwrap_or(0),
                description: run.description,
            };
            self.sample += 1;
            self.offset = self.offset.saturating_add(u64::from(sample.bytes));
            self.decoded = self.decoded.saturating_add(u64::from(sample.duration));
            return Some(sample);
        }
    }
}

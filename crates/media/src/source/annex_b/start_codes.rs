//! Finds the NAL units of a byte stream (Annex B of H.264 and H.265) in a window that has a limit.

use std::io::{ErrorKind, Read};
use std::ops::Range;

use memchr::memmem;

use hythe_rtp::video::units::NAL_BYTES_MAX;

/// `start_code_prefix_one_3bytes`; the fourth byte of long ones counts as zeros behind the NAL unit
/// before.
const START_CODE: &[u8] = &[0, 0, 1];
/// How much is read at once.
const READ_BYTES: usize = 64 << 10;

/// Splits a byte stream. Holds at most one NAL unit of the longest kind and what was read beyond
/// it.
pub(super) struct NalReader<R> {
    read: R,
    window: Vec<u8>,
    /// Of the stream: where the window begins.
    window_position: u64,
    /// In the window: where the NAL unit begins; what is before is done with.
    start: usize,
    /// In the window: up to here there is no start code behind `start`.
    searched: usize,
    /// The bytes from `start` on belong to no NAL unit.
    is_garbage: bool,
    is_counted: bool,
    at_end: bool,
    damaged: u64,
}

impl<R: Read> NalReader<R> {
    pub(super) fn new(read: R) -> Self {
        Self {
            read,
            window: Vec::new(),
            window_position: 0,
            start: 0,
            searched: 0,
            is_garbage: true,
            is_counted: false,
            at_end: false,
            damaged: 0,
        }
    }

    /// Stretches that belong to no NAL unit, and NAL units beyond the limit.
    pub(super) fn damaged(&self) -> u64 {
        self.damaged
    }

    /// Where in the stream the next NAL unit is looked for.
    pub(super) fn position(&self) -> u64 {
        self.window_position + self.start as u64
    }

    /// The next NAL unit, without start code and without zeros behind it; `None` at the end.
    pub(super) fn next(&mut self) -> std::io::Result<Option<&[u8]>> {
        loop {
            let Some(found) = self.next_stretch()? else {
                return Ok(None);
            };
            let found = self.without_zeros(found);
            if self.is_garbage {
                self.count_garbage(found);
                self.is_garbage = false;
                self.is_counted = false;
            } else if !found.is_empty() {
                return Ok(Some(&self.window[found]));
            }
        }
    }

    /// What lies between two start codes, or behind the last.
    fn next_stretch(&mut self) -> std::io::Result<Option<Range<usize>>> {
        loop {
            if let Some(offset) = memmem::find(&self.window[self.searched..], START_CODE) {
                let stretch = self.start..self.searched + offset;
                self.start = stretch.end + START_CODE.len();
                self.searched = self.start;
                return Ok(Some(stretch));
            }
            if self.at_end {
                let stretch = self.start..self.window.len();
                self.start = stretch.end;
                self.searched = stretch.end;
                return Ok((!stretch.is_empty()).then_some(stretch));
            }
            // A start code may begin in the last two bytes.
            let tail = self.window.len().saturating_sub(START_CODE.len() - 1);
            self.searched = tail.max(self.start);
            if self.searched - self.start > NAL_BYTES_MAX {
                self.is_garbage = true;
            }
            if self.is_garbage && self.searched > self.start {
                self.count_garbage(self.start..self.searched);
                self.start = self.searched;
            }
            self.fill()?;
        }
    }

    /// Counts a stretch once, however many windows it fills. Zeros alone are allowed between NAL
    /// units (`leading_zero_8bits`).
    fn count_garbage(&mut self, range: Range<usize>) {
        if !self.is_counted && self.window[range].iter().any(|byte| *byte != 0) {
            self.is_counted = true;
            self.damaged += 1;
        }
    }

    fn fill(&mut self) -> std::io::Result<()> {
        self.window.drain(..self.start);
        self.window_position += self.start as u64;
        self.searched -= self.start;
        self.start = 0;
        let filled = self.window.len();
        self.window.resize(filled + READ_BYTES, 0);
        let read = loop {
            match self.read.read(&mut self.window[filled..]) {
                Err(error) if error.kind() == ErrorKind::Interrupted => {}
                read => break read,
            }
        };
        let count = *read.as_ref().unwrap_or(&0);
        self.window.truncate(filled + count);
        self.at_end = count == 0;
        read.map(|_| ())
    }

    /// Without `trailing_zero_8bits` and the first byte of a long start code; a NAL unit never ends
    /// in a zero (7.4.1).
    fn without_zeros(&self, stretch: Range<usize>) -> Range<usize> {
        let bytes = &self.window[stretch.clone()];
        let length = bytes
            .iter()
            .rposition(|byte| *byte != 0)
            .map_or(0, |last| last + 1);
        stretch.start..stretch.start + length
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// Gives so many bytes at a time.
    struct Sips<'s>(&'s [u8], usize);

    impl Read for Sips<'_> {
        fn read(&mut self, buffer: &mut [u8]) -> std::io::Result<usize> {
            let count = self.1.min(self.0.len()).min(buffer.len());
            buffer[..count].copy_from_slice(&self.0[..count]);
            self.0 = &self.0[count..];
            Ok(count)
        }
    }

    fn split(stream: &[u8], sip: usize) -> (Vec<Vec<u8>>, u64) {
        let mut reader = NalReader::new(Sips(stream, sip));
        let mut found = Vec::new();
        while let Some(nal) = reader.next().unwrap() {
            found.push(nal.to_vec());
        }
        assert!(reader.next().unwrap().is_none());
        (found, reader.damaged())
    }

    #[test]
    fn start_codes_of_both_lengths_and_zeros_around_them() {
        let stream = [
            0, 0, 0, 0, 1, 7, 8, 0, 0, 1, 9, 0, 0, 0, 0, 0, 1, 0, 0, 3, 5, 0, 0,
        ];
        let expected = vec![vec![7, 8], vec![9], vec![0, 0, 3, 5]];
        for sip in 1..stream.len() + 1 {
            assert_eq!(
                split(&stream, sip),
                (expected.clone(), 0),
                "{sip} at a time"
            );
        }
    }

    #[test]
    fn garbage_in_front_and_empty_units_are_passed_over() {
        assert_eq!(split(&[1, 2, 0, 0, 1, 5], 64), (vec![vec![5]], 1));
        assert_eq!(
            split(&[0, 0, 1, 0, 0, 1, 0, 0, 0, 1, 5], 64),
            (vec![vec![5]], 0)
        );
        assert_eq!(split(&[1, 2, 3], 64), (vec![], 1));
        assert_eq!(split(&[0, 0, 0], 64), (vec![], 0));
        assert_eq!(split(&[], 64), (vec![], 0));
        assert_eq!(split(&[0, 0, 1], 64), (vec![], 0));
    }

    #[test]
    fn unit_beyond_the_limit_is_passed_over_in_bounded_memory() {
        let mut stream = vec![0, 0, 1, 7, 0, 0, 1];
        stream.resize(3 * NAL_BYTES_MAX, 0xff);
        stream.extend([0, 0, 1, 9]);
        let mut reader = NalReader::new(&stream[..]);
        assert_eq!(reader.next().unwrap(), Some(&[7][..]));
        assert_eq!(reader.next().unwrap(), Some(&[9][..]));
        assert!(reader.window.capacity() <= 2 * (NAL_BYTES_MAX + READ_BYTES));
        assert_eq!(reader.damaged(), 1);
    }
}

//! Records between the lines of a console (`spec/histogram.md`, "On a serial line").

use crate::LatencyError;

/// Beyond any record: a core with all buckets of the finest histogram filled.
const RECORD_BYTES_MAX: usize = 64 + 8 * (21 << 12);

/// Takes a console line by line.
#[derive(Debug, Default)]
pub struct Reader {
    lines: usize,
    record: Vec<u8>,
}

impl Reader {
    /// Takes one line, without its end; returns a record if the line ends one. Lines of the console
    /// are passed over.
    ///
    /// # Errors
    /// [`LatencyError::Serial`]: what begins like a line of a record and is none. What came of that
    /// record is dropped.
    pub fn take(&mut self, line: &str) -> Result<Option<Vec<u8>>, LatencyError> {
        self.lines += 1;
        let Some(digits) = line.trim_end_matches('\r').strip_prefix('@') else {
            return Ok(None);
        };
        if digits == "." {
            return Ok(Some(std::mem::take(&mut self.record)));
        }
        match bytes(digits) {
            Some(bytes) if self.record.len() + bytes.len() <= RECORD_BYTES_MAX => {
                self.record.extend(bytes);
                Ok(None)
            }
            Some(_) => self.refuse("more bytes than any record has".to_owned()),
            None => self.refuse(format!("{digits:.80?} are not pairs of hexadecimal digits")),
        }
    }

    /// Bytes of a record that has not ended.
    #[must_use]
    pub fn unfinished_bytes(&self) -> usize {
        self.record.len()
    }

    fn refuse<T>(&mut self, what: String) -> Result<T, LatencyError> {
        self.record.clear();
        let line = self.lines;
        Err(LatencyError::Serial { line, what })
    }
}

/// All records of a console.
///
/// # Errors
/// As [`Reader::take`]; a record that does not end.
pub fn records(console: &str) -> Result<Vec<Vec<u8>>, LatencyError> {
    let mut reader = Reader::default();
    let mut records = Vec::new();
    for line in console.lines() {
        records.extend(reader.take(line)?);
    }
    match reader.unfinished_bytes() {
        0 => Ok(records),
        bytes => reader.refuse(format!("the console ends after {bytes} bytes of a record")),
    }
}

fn bytes(digits: &str) -> Option<Vec<u8>> {
    let digits = digits.as_bytes();
    let value = |digit: u8| {
        char::from(digit)
            .to_digit(16)
            .filter(|_| !digit.is_ascii_uppercase())
    };
    if digits.is_empty() || !digits.len().is_multiple_of(2) {
        return None;
    }
    let byte = |pair: &[u8]| Some((value(pair[0])? << 4 | value(pair[1])?) as u8);
    digits.chunks_exact(2).map(byte).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn take(reader: &mut Reader, text: &str) -> Vec<Result<Option<Vec<u8>>, String>> {
        let taken = text.lines().map(|line| reader.take(line));
        taken
            .map(|taken| taken.map_err(|error| error.to_string()))
            .collect()
    }

    #[test]
    fn records_are_found_between_other_lines() {
        let mut reader = Reader::default();
        let text = "booting\r\n@0102\r\nhello\n@ff\n@.\n@.\n";
        let records: Vec<_> = take(&mut reader, text)
            .into_iter()
            .filter_map(|taken| taken.expect("good"))
            .collect();
        assert_eq!(records, [vec![1, 2, 255], vec![]]);
        assert_eq!(reader.unfinished_bytes(), 0);
    }

    #[test]
    fn console_that_is_cut_is_named() {
        assert_eq!(records("hello\n@01\n@.\n").expect("good"), [[1]]);
        let error = records("@01\n@.\n@02\n").expect_err("cut").to_string();
        assert!(error.contains("after 1 bytes"), "{error}");
    }

    #[test]
    fn what_is_garbled_is_named_and_dropped() {
        for bad in ["@0", "@0g", "@0A", "@", "@ 01", "@é1"] {
            let mut reader = Reader::default();
            let taken = take(&mut reader, &format!("@0102\n{bad}"));
            let error = taken[1].as_ref().expect_err(bad);
            assert!(error.contains("line 2"), "{error}");
            assert_eq!(reader.unfinished_bytes(), 0);
        }
    }

    #[test]
    fn record_has_an_end() {
        let mut reader = Reader::default();
        let line = format!("@{}", "00".repeat(RECORD_BYTES_MAX));
        assert!(reader.take(&line).is_ok());
        assert_eq!(reader.unfinished_bytes(), RECORD_BYTES_MAX);
        let error = reader.take("@00").expect_err("one more").to_string();
        assert!(error.contains("more bytes"), "{error}");
    }
}

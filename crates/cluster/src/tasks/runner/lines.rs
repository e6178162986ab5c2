//! Cuts what a task prints into lines, so that those of several tasks do not mix.

/// A line that becomes longer is passed on in parts.
const LINE_BYTES_MAX: usize = 64 << 10;

/// What has come of a line that is not whole.
#[derive(Debug, Default)]
pub(super) struct Lines(Vec<u8>);

impl Lines {
    /// The whole lines that there are now, with their ends; empty: none.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        self.0.extend_from_slice(bytes);
        let whole = match self.0.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => end + 1,
            None if self.0.len() >= LINE_BYTES_MAX => self.0.len(),
            None => 0,
        };
        let rest = self.0.split_off(whole);
        std::mem::replace(&mut self.0, rest)
    }

    /// The last line, which has no end. Where others print, too, it gets one.
    pub(super) fn finish(&mut self, is_ended: bool) -> Vec<u8> {
        let mut line = std::mem::take(&mut self.0);
        if is_ended && !line.is_empty() {
            line.push(b'\n');
        }
        line
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_come_out_and_the_rest_at_the_end() {
        let mut lines = Lines::default();
        assert!(lines.push(b"on").is_empty());
        assert_eq!(lines.push(b"e\ntwo\nthr"), b"one\ntwo\n");
        assert_eq!(lines.finish(true), b"thr\n");
        assert!(lines.finish(true).is_empty());
        lines.push(b"x");
        assert_eq!(lines.finish(false), b"x");
    }

    #[test]
    fn a_line_without_end_is_passed_on_in_parts() {
        let mut lines = Lines::default();
        assert_eq!(
            lines.push(&vec![b'a'; LINE_BYTES_MAX]).len(),
            LINE_BYTES_MAX
        );
        assert!(lines.finish(false).is_empty());
    }
}

//! Cuts what a task prints into lines, so that those of several tasks do not mix.

/// The longest line that stays whole, without its end; what of a longer one came is passed on.
const LINE_BYTES_MAX: usize = 1 << 20;

/// What has come of a line that is not whole.
#[derive(Debug, Default)]
pub(super) struct Lines(Vec<u8>);

impl Lines {
    /// The whole lines that there are now, with their ends; empty: none.
    pub(super) fn push(&mut self, bytes: &[u8]) -> Vec<u8> {
        let before = self.0.len();
        self.0.extend_from_slice(bytes);
        let whole = match bytes.iter().rposition(|byte| *byte == b'\n') {
            Some(end) => before + end + 1,
            None if self.0.len() > LINE_BYTES_MAX => self.0.len(),
            None => return Vec::new(),
        };
        let rest = self.0.split_off(whole);
        std::mem::replace(&mut self.0, rest)
    }

    pub(super) const fn is_empty(&self) -> bool {
        self.0.is_empty()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_whole_lines_come_out() {
        let mut lines = Lines::default();
        assert!(lines.push(b"on").is_empty());
        assert_eq!(lines.push(b"e\ntwo\nthr"), b"one\ntwo\n");
        assert_eq!(lines.push(b"\n"), b"thr\n");
        assert!(lines.is_empty());
    }

    #[test]
    fn line_of_a_mebibyte_stays_whole_and_a_longer_one_does_not() {
        let mut lines = Lines::default();
        assert!(lines.push(&vec![b'a'; LINE_BYTES_MAX]).is_empty());
        assert_eq!(lines.push(b"\nb").len(), LINE_BYTES_MAX + 1);
        assert_eq!(
            lines.push(&vec![b'b'; LINE_BYTES_MAX]).len(),
            LINE_BYTES_MAX + 1
        );
        assert!(lines.is_empty());
    }
}

//! The marker bit of audio: set on the first packet behind a silence that was not sent, and never
//! in a stream without pauses (RFC 3551, section 4.1; the same in RFC 2250, 3.3 and RFC 7587, 4.1).

/// Follows a stream's time to see where something was left out.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct TalkSpurt {
    expected: Option<u64>,
}

impl TalkSpurt {
    /// Does what begins at `time` and lasts `duration` follow a pause?
    pub(super) fn begins(&mut self, time: u64, duration: u64) -> bool {
        let begins = self.expected.is_some_and(|expected| time > expected);
        self.expected = Some(time + duration);
        begins
    }
}

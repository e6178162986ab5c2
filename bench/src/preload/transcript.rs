//! What the board said on its serial line, and when: the times between `AAA` and `BBB`, and what
//! its programs report.
//!
//! Fed line by line by `boot`. Pure: it is handed lines and times, and never reads a clock.

use crate::error::BootError;
use std::collections::VecDeque;
use std::time::{Duration, Instant};

/// Lines that are kept to be shown when a boot fails.
const TAIL_LINES: usize = 20;
/// A line that never ends is cut here.
const LINE_BYTES: usize = 4096;

/// One way from `AAA` to `BBB`.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(crate) struct Run {
    /// Between the two lines, on the host's clock.
    pub(crate) time: Duration,
    /// What the test program took for reading, on the board's own clock.
    pub(crate) guest_time: Duration,
    /// What it read.
    pub(crate) bytes: u64,
    /// Pages of the file in memory right before they were needed.
    pub(crate) resident_before_use: u64,
}

/// What one boot told.
#[derive(Clone, Debug, Default, PartialEq)]
pub(crate) struct Outcome {
    /// In order; one, but for the bound.
    pub(crate) runs: Vec<Run>,
    /// Pages of the file in memory when the real init was executed.
    pub(crate) resident_at_start: Option<u64>,
    /// Bytes a second off the bare flash.
    pub(crate) raw_bytes_per_second: Option<f64>,
    /// Linux' release on the board.
    pub(crate) kernel: Option<String>,
    /// What `preload-init` said.
    pub(crate) said: Option<String>,
    /// How long the disk had requests under way, between shortly before `AAA` and the end.
    pub(crate) disk_busy: Option<Duration>,
}

/// The serial line so far.
#[derive(Debug, Default)]
pub(crate) struct Transcript {
    outcome: Outcome,
    begun: Option<Instant>,
    /// How long the disk was busy before the run.
    busy_before: Option<Duration>,
    is_raw: bool,
    is_done: bool,
    failed: Option<String>,
    unfinished: Vec<u8>,
    tail: VecDeque<String>,
}

impl Transcript {
    /// Bytes that arrived at this time.
    pub(crate) fn take(&mut self, bytes: &[u8], at: Instant) {
        for &byte in bytes {
            if byte != b'\n' {
                if self.unfinished.len() < LINE_BYTES {
                    self.unfinished.push(byte);
                }
                continue;
            }
            let line = std::mem::take(&mut self.unfinished);
            let line = String::from_utf8_lossy(&line);
            self.take_line(line.trim_end(), at);
        }
    }

    fn take_line(&mut self, line: &str, at: Instant) {
        if self.tail.len() == TAIL_LINES {
            self.tail.pop_front();
        }
        self.tail.push_back(line.to_owned());
        if let Some(said) = line.strip_prefix("hythe ") {
            self.take_report(said);
        } else if line == "AAA" {
            self.begun = Some(at);
        } else if line == "BBB" {
            let time = self.begun.take().map(|begun| at.duration_since(begun));
            self.outcome.runs.extend(time.map(|time| Run {
                time,
                ..Run::default()
            }));
        } else if line.starts_with("preload-init:") {
            self.outcome.said = Some(line.to_owned());
        } else if line.contains("Kernel panic") && self.failed.is_none() {
            self.failed = Some(line.to_owned());
        }
    }

    fn take_report(&mut self, said: &str) {
        let words: Vec<&str> = said.split_ascii_whitespace().collect();
        match words[..] {
            ["failed:", ..] => self.failed = Some(said.to_owned()),
            ["done"] => self.is_done = true,
            ["raw", "flash:"] => self.is_raw = true,
            ["kernel", release, ..] => {
                self.outcome.kernel = Some(release.trim_end_matches(',').to_owned());
            }
            ["start", "found", pages, "pages", "resident"] => {
                self.outcome.resident_at_start = pages.parse().ok();
            }
            ["disk", "busy", ms, "ms"] => {
                self.take_disk(ms.parse().ok().map(Duration::from_millis))
            }
            [
                "read",
                bytes,
                "bytes",
                "in",
                ns,
                "ns,",
                pages,
                "pages",
                "were",
                "resident",
            ] => {
                let numbers = [bytes, ns, pages].map(|word| word.parse::<u64>());
                if let [Ok(bytes), Ok(ns), Ok(pages)] = numbers {
                    self.take_read(bytes, ns, pages);
                }
            }
            _ => {}
        }
    }

    /// Told before the run, and behind it.
    fn take_disk(&mut self, busy: Option<Duration>) {
        match self.busy_before {
            None => self.busy_before = busy,
            Some(before) => {
                self.outcome.disk_busy = busy.and_then(|busy| busy.checked_sub(before));
            }
        }
    }

    fn take_read(&mut self, bytes: u64, ns: u64, resident: u64) {
        if std::mem::take(&mut self.is_raw) {
            self.outcome.raw_bytes_per_second = Some(bytes as f64 * 1e9 / ns as f64);
        } else if let Some(run) = self.outcome.runs.last_mut() {
            run.guest_time = Duration::from_nanos(ns);
            run.bytes = bytes;
            run.resident_before_use = resident;
        }
    }

    /// Has waiting for more no sense?
    pub(crate) fn is_over(&self) -> bool {
        self.is_done || self.failed.is_some()
    }

    /// What was told, if it is all that was asked for: so many runs, over so many bytes each if
    /// they read a file.
    pub(crate) fn finish(self, runs: usize, bytes: Option<u64>) -> Result<Outcome, BootError> {
        let tail = || Vec::from(self.tail.clone()).join("\n");
        if let Some(why) = &self.failed {
            return Err(BootError::Board {
                why: why.clone(),
                tail: tail(),
            });
        }
        if !self.is_done {
            return Err(BootError::Ended { tail: tail() });
        }
        let bytes_read = |run: &Run| bytes.is_none_or(|bytes| run.bytes == bytes);
        let whole = self.outcome.runs.iter().all(bytes_read);
        if !whole || self.outcome.runs.len() != runs {
            let why = format!(
                "{runs} runs over {} bytes were asked for, and it reports {:?}",
                bytes.unwrap_or(0),
                self.outcome.runs
            );
            return Err(BootError::Board { why, tail: tail() });
        }
        Ok(self.outcome)
    }

    /// The last lines.
    pub(crate) fn tail(&self) -> String {
        Vec::from(self.tail.clone()).join("\n")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const MIB: u64 = 1 << 20;

    /// Each text arrives a hundred milliseconds behind the one before it.
    fn hear(texts: &[&str]) -> Transcript {
        let mut transcript = Transcript::default();
        let mut at = Instant::now();
        for text in texts {
            transcript.take(text.as_bytes(), at);
            at += Duration::from_millis(100);
        }
        transcript
    }

    #[test]
    fn time_is_between_the_two_lines_wherever_the_bytes_are_cut() {
        let heard = hear(&[
            "SeaBIOS\r\nhythe disk busy 20 ms\r\nhythe kernel 6.1.0-56-amd64, 40412 KiB available\r\nA",
            "AA\r",
            "\npreload-init: 256 pages of 1 file in 500 ms\r\n",
            "BBB\r\nhythe read 1048576 bytes in 7000000 ns, 256 pages were resident\r\n",
            "hythe start found 255 pages resident\r\nhythe disk busy 90 ms\r\nhythe done\r\n",
        ]);
        let outcome = heard.finish(1, Some(MIB)).expect("whole");
        let run = Run {
            time: Duration::from_millis(100),
            guest_time: Duration::from_millis(7),
            bytes: MIB,
            resident_before_use: 256,
        };
        assert_eq!(outcome.runs, [run]);
        assert_eq!(outcome.resident_at_start, Some(255));
        assert_eq!(outcome.disk_busy, Some(Duration::from_millis(70)));
        assert_eq!(outcome.kernel.as_deref(), Some("6.1.0-56-amd64"));
        let said = outcome.said.expect("a line of preload-init");
        assert!(said.ends_with("500 ms"), "{said}");
    }

    #[test]
    fn raw_flash_is_no_run_of_the_bound() {
        let read = "hythe read 1048576 bytes in 500000000 ns, 0 pages were resident\n";
        let bound = format!("BBB\n{read}");
        let heard = hear(&[
            "AAA\n",
            &bound,
            "AAA\n",
            &bound,
            "hythe raw flash:\nBBB\n",
            read,
            "hythe done\n",
        ]);
        let outcome = heard.finish(2, Some(MIB)).expect("whole");
        assert_eq!(outcome.runs.len(), 2);
        assert_eq!(outcome.raw_bytes_per_second, Some(2_097_152.0));
    }

    #[test]
    fn program_of_others_reports_nothing_but_its_end() {
        let heard = hear(&[
            "AAA\n",
            "BBB\nhythe start found 0 pages resident\nhythe done\n",
        ]);
        let outcome = heard.finish(1, None).expect("whole");
        assert_eq!(outcome.runs[0].time, Duration::from_millis(100));
    }

    #[test]
    fn what_fails_is_named_with_the_end_of_the_console() {
        let heard = hear(&["hythe failed: mount UBIFS\n"]);
        assert!(heard.is_over());
        let error = heard.finish(1, Some(MIB)).expect_err("failed").to_string();
        assert!(error.contains("mount UBIFS"), "{error}");

        let panic = "[    1.2] Kernel panic - not syncing: Attempted to kill init!";
        let heard = hear(&["AAA\n", panic, "\n"]);
        assert!(heard.is_over());
        let error = heard
            .finish(1, Some(MIB))
            .expect_err("panicked")
            .to_string();
        assert!(error.contains("Attempted to kill init"), "{error}");

        let heard = hear(&["AAA\n", "BB"]);
        assert!(!heard.is_over());
        let error = heard.finish(1, Some(MIB)).expect_err("ended").to_string();
        assert!(error.contains("AAA"), "{error}");
    }

    #[test]
    fn run_over_other_bytes_than_asked_for_does_not_count() {
        let heard = hear(&[
            "AAA\n",
            "BBB\nhythe read 4096 bytes in 7000 ns, 1 pages were resident\nhythe done\n",
        ]);
        let error = heard
            .finish(1, Some(MIB))
            .expect_err("too short")
            .to_string();
        assert!(error.contains("1048576"), "{error}");
    }

    #[test]
    fn of_a_long_console_only_the_end_is_kept() {
        let mut transcript = Transcript::default();
        let long = "x".repeat(LINE_BYTES * 2);
        for number in 0..100 {
            transcript.take(format!("line {number}\n").as_bytes(), Instant::now());
        }
        transcript.take(format!("{long}\n").as_bytes(), Instant::now());
        let tail = transcript.tail();
        assert_eq!(tail.lines().count(), TAIL_LINES);
        assert!(tail.contains("line 99") && !tail.contains("line 80\n"));
        assert!(tail.len() < LINE_BYTES + 1000);
    }
}

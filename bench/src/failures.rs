//! Cases that fail while they are measured: a run goes on without them and says so, since the
//! others' figures are worth as much as before.
//!
//! What a case of the project's own cannot do makes the run invalid as well.

use std::fmt::Display;

use indicatif::ProgressBar;

use crate::error::BenchError;

/// Those of one run.
#[derive(Debug, Default)]
pub(crate) struct Failures {
    /// A line for each, as those have it that are not measured at all.
    skipped: Vec<String>,
    /// The first of the project's own.
    own: Option<String>,
}

/// What has failed.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Failed<'a, C> {
    pub(crate) case: &'a C,
    pub(crate) size: usize,
    /// Is it of the project, and not of a system beside it?
    pub(crate) is_own: bool,
}

impl Failures {
    /// A case is left out because of an error, which is said on standard error.
    ///
    /// # Errors
    /// The error ends the run: an end is lost, its answers are out of step, or somebody wants it
    /// to stop.
    pub(crate) fn note<C: Display>(
        &mut self,
        error: BenchError,
        failed: Failed<'_, C>,
        bar: &ProgressBar,
    ) -> Result<(), BenchError> {
        let Failed { case, size, is_own } = failed;
        let BenchError::OrderFailed(why) = error else {
            return Err(error.of(case, size));
        };
        // What a program said may have several lines.
        let why = why.lines().collect::<Vec<_>>().join(" ");
        let line = format!("{case}, {size} bytes: {why}");
        bar.suspend(|| eprintln!("hythe-bench: skipped: {line}"));
        if is_own && self.own.is_none() {
            self.own = Some(line.clone());
        }
        self.skipped.push(line);
        Ok(())
    }

    /// What is to be said of them: the lines, and what they say against the whole run.
    pub(crate) fn into_lines(self, is_empty: bool) -> (Vec<String>, Option<String>) {
        let objection = match is_empty {
            true => Some("every case failed".to_owned()),
            false => self.own,
        };
        (self.skipped, objection)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn note(failures: &mut Failures, error: BenchError, is_own: bool) -> Result<(), BenchError> {
        let case = &"mpich/local";
        let failed = Failed {
            case,
            size: 8,
            is_own,
        };
        failures.note(error, failed, &ProgressBar::hidden())
    }

    #[test]
    fn case_that_fails_is_left_out_and_its_reason_said() {
        let mut failures = Failures::default();
        let error = BenchError::OrderFailed("the near host: it\nhangs".to_owned());
        note(&mut failures, error, false).expect("the run goes on");
        let (skipped, objection) = failures.into_lines(false);
        assert_eq!(skipped, ["mpich/local, 8 bytes: the near host: it hangs"]);
        assert_eq!(objection, None);
    }

    #[test]
    fn case_of_the_project_that_fails_makes_the_run_invalid() {
        let mut failures = Failures::default();
        for why in ["first", "second"] {
            let error = BenchError::OrderFailed(why.to_owned());
            note(&mut failures, error, true).expect("the run goes on");
        }
        let (skipped, objection) = failures.into_lines(false);
        assert_eq!(skipped.len(), 2);
        assert_eq!(objection.as_deref(), Some("mpich/local, 8 bytes: first"));
    }

    #[test]
    fn run_without_any_figure_is_invalid() {
        let (_, objection) = Failures::default().into_lines(true);
        assert!(objection.is_some());
    }

    #[test]
    fn lost_end_and_a_signal_end_the_run() {
        let mut failures = Failures::default();
        for error in [
            BenchError::PeerLost("it has ended".to_owned()),
            BenchError::Stopped,
        ] {
            note(&mut failures, error, false).expect_err("the run ends");
        }
        assert!(failures.into_lines(false).0.is_empty());
    }
}

//! What lifts a limit of the system that has ended the command. [`end`](crate::end) appends it to
//! the text of an error. Never prints.

use std::error::Error;
use std::io;

use rustix::io::Errno;

use crate::error::CliError;

/// What lifts the limit of the system that is behind an error, whichever crate passes it on.
pub(crate) fn remedy(error: &CliError) -> &'static str {
    let first: &(dyn Error + 'static) = error;
    let causes = std::iter::successors(Some(first), |error| (*error).source());
    let mut causes = causes.filter_map(|cause| cause.downcast_ref::<io::Error>());
    // Elsewhere it only means that something is busy.
    let is_start = matches!(error, CliError::System { action, .. } if action.starts_with("start"));
    let limit = causes.find_map(|cause| match Errno::from_io_error(cause) {
        Some(Errno::MFILE) => Some(" (`ulimit -n`, or `LimitNOFILE=` of a service, raises that)"),
        Some(Errno::NFILE) => Some(" (`sysctl fs.file-max` raises that)"),
        Some(Errno::AGAIN) if is_start => {
            Some(" (`ulimit -u`, or `pids.max` of a control group, raises that)")
        }
        _ => None,
    });
    // The libraries know more of some.
    limit
        .filter(|_| !error.to_string().contains("ulimit"))
        .unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use hythe::NodeError;
    use hythe::core::CoreError;

    use super::*;

    #[test]
    fn limit_of_the_system_is_named_with_what_lifts_it() {
        let file = || NodeError::File {
            action: "open",
            path: "/x".into(),
            source: Errno::MFILE.into(),
        };
        for error in [CliError::from(file()), CoreError::Node(file()).into()] {
            assert!(remedy(&error).contains("`ulimit -n`"), "{error}");
        }
        let start = |number: Errno| CliError::System {
            action: "start a thread",
            source: number.into(),
        };
        assert!(remedy(&start(Errno::AGAIN)).contains("`ulimit -u`"));
        assert_eq!(remedy(&start(Errno::NOENT)), "");
        let busy = CliError::Output(Errno::AGAIN.into());
        assert_eq!(remedy(&busy), "");
    }
}

//! Open files of this process, and how many it may have. Runners and agents ask. Never changes
//! anything.

use rustix::io::Errno;
use rustix::process::{Resource, getrlimit};

use crate::status::OpenFiles;

/// Fewer than these left are too few: a connection of a carrier takes two or three, and spare ones
/// are kept to refuse what is new.
const FEW: u64 = 4;

/// How many it has, of `limit` that it may have; `None`: that cannot be read.
pub(crate) fn count(limit: u64) -> Option<u64> {
    match std::fs::read_dir("/proc/self/fd") {
        // The folder itself is one of them while it is read.
        Ok(files) => Some((files.count() as u64).saturating_sub(1)),
        Err(error) if Errno::from_io_error(&error) == Some(Errno::MFILE) => Some(limit),
        Err(_) => None,
    }
}

/// What there is, if it is too few for anything new.
pub(crate) fn shortage() -> Option<OpenFiles> {
    let limit = getrlimit(Resource::Nofile).current?;
    let open = count(limit)?;
    (limit.saturating_sub(open) < FEW).then_some(OpenFiles { open, limit })
}

#[cfg(test)]
mod tests {
    use super::*;
    use rustix::process::{Rlimit, setrlimit};

    /// In a child, which may open no more files for a while.
    #[test]
    fn shortage_is_seen_before_and_when_none_is_left() {
        let in_child = || {
            let allow = |files: u64| {
                let limit = getrlimit(Resource::Nofile);
                let current = Some(files);
                setrlimit(Resource::Nofile, Rlimit { current, ..limit }).expect("lowered");
                shortage()
            };
            let open = count(1024).expect("/proc is there");
            let are_enough = allow(open + 100).is_none();
            let limit = open + FEW - 1;
            let are_few = allow(limit) == Some(OpenFiles { open, limit });
            // Not even the folder can be read.
            let is_none = allow(0) == Some(OpenFiles { open: 0, limit: 0 });
            i32::from(are_enough && are_few && is_none)
        };
        assert_eq!(hythe_sys::fork::run_in_child(in_child).expect("forked"), 1);
    }
}

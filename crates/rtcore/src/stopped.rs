//! Cores whose process was stopped by a signal: whatever they are asked, they do not answer.

use hythe_node::own_identity;
use hythe_pool::Identity;

/// Its process id, if the process of a core is stopped. `None` also where that cannot be seen.
pub(crate) fn stopped_process(core: &Identity) -> Option<u32> {
    if core.pid_namespace != own_identity().pid_namespace {
        return None;
    }
    let stat = std::fs::read_to_string(format!("/proc/{}/stat", core.pid)).ok()?;
    is_stopped(&stat).then_some(core.pid)
}

/// Field 3 of `stat`. The name in field 2 may hold anything, so it is found from the end.
fn is_stopped(stat: &str) -> bool {
    let after_name = stat.rsplit(')').next().unwrap_or_default();
    after_name.trim_start().starts_with(['T', 't'])
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn state_stands_behind_the_name() {
        assert!(is_stopped("12 (core) T 1 12 0"));
        assert!(is_stopped("12 (a) S (b)) t 1 12 0"));
        assert!(!is_stopped("12 (T) T) S 1 12 0"));
        assert!(!is_stopped(""));
    }
}

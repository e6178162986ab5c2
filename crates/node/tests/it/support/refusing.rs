//! System calls that this process is refused from now on, by seccomp: as in a container with a
//! narrow profile, or on a kernel that lacks them. Only where seccompiler knows the processor.

use std::collections::BTreeMap;

use seccompiler::{
    BpfProgram, Error, SeccompAction, SeccompCmpArgLen, SeccompCmpOp, SeccompCondition,
    SeccompFilter, SeccompRule,
};

/// Whose calls are refused.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Whose {
    /// Those of this thread, and of the threads that it starts.
    Own,
    /// Those of every thread of the process.
    All,
}

/// Refuses one system call with this error number. No rules: whatever its arguments.
fn refuse_if(
    call: libc::c_long,
    error: libc::c_int,
    rules: Vec<SeccompRule>,
    whose: Whose,
) -> Result<(), Error> {
    let filter = SeccompFilter::new(
        BTreeMap::from([(call, rules)]),
        SeccompAction::Allow,
        SeccompAction::Errno(error.cast_unsigned()),
        std::env::consts::ARCH.try_into()?,
    );
    let program: BpfProgram = filter?.try_into()?;
    match whose {
        Whose::Own => seccompiler::apply_filter(&program),
        Whose::All => seccompiler::apply_filter_all_threads(&program),
    }
}

/// Refuses a system call.
pub(crate) fn refuse(call: libc::c_long, error: libc::c_int, whose: Whose) -> Result<(), Error> {
    refuse_if(call, error, Vec::new(), whose)
}

/// As a kernel before Linux 6.5: no pidfd of the other end of a socket.
pub(crate) fn refuse_peer_pidfds(whose: Whose) -> Result<(), Error> {
    let option = u64::from(libc::SO_PEERPIDFD.cast_unsigned());
    let asked = SeccompCondition::new(2, SeccompCmpArgLen::Dword, SeccompCmpOp::Eq, option)?;
    let rule = SeccompRule::new(vec![asked])?;
    refuse_if(libc::SYS_getsockopt, libc::ENOPROTOOPT, vec![rule], whose)
}

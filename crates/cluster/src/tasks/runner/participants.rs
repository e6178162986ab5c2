//! Places in the pool for tasks, each of which is a participant when it joins. Tasks that would
//! find none are refused before any of them is started.

use hythe_node::Pool;

use crate::tasks::error::TaskError;

/// Is there a place for `more` tasks, beside the participants that there are and those of
/// `running`, the processes of tasks on this host, that may join yet?
///
/// All count as if they join, also those that are spawned: a runner cannot see what a program does
/// before it does it, and its tasks would fail one by one.
pub(super) fn provide_for(pool: &Pool, more: usize, running: &[u32]) -> Result<(), TaskError> {
    let snapshot = pool.snapshot();
    let members = &snapshot.members;
    let has_joined = |pid: u32| members.iter().any(|member| member.identity.pid == pid);
    let taken = members.len() + running.iter().filter(|pid| !has_joined(**pid)).count();
    let limit = snapshot.limits.participants as usize;
    match taken + more <= limit || more == 0 {
        true => Ok(()),
        false => Err(TaskError::TooFewParticipants {
            pool: pool.options().name().to_owned(),
            tasks: more,
            taken,
            limit,
        }),
    }
}

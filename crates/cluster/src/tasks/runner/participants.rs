//! Places in the pool for tasks, each of which is a participant when it joins. Tasks that would
//! find none are refused before any of them is started.

use hythe_node::Pool;

use crate::tasks::error::TaskError;

/// Is there a place for so many more tasks, beside those that run on this host, which have joined
/// or may yet?
pub(super) fn provide_for(pool: &Pool, more: usize, running: &[u32]) -> Result<(), TaskError> {
    let snapshot = pool.snapshot();
    let members = snapshot.members.iter();
    let others = members.filter(|member| !running.contains(&member.identity.pid));
    let taken = others.count() + running.len();
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

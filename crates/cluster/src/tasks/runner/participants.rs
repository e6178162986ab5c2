//! Places in the pool for tasks, each of which is a participant when it joins. Tasks that would
//! find none are refused before any of them is started.

use std::path::Path;

use hythe_node::Pool;

use crate::tasks::error::TaskError;

/// A task that runs on this host: its process and its program.
pub(super) type Task<'t> = (u32, &'t Path);

/// Is there a place for so many more tasks of `program`, beside the participants that there are and
/// those of `running` that may join yet?
///
/// Tasks with which a job begins count as if they join. So do spawned ones (`is_spawned`) where a
/// task of the same program has joined: others than that need no place before they join.
pub(super) fn provide_for(
    pool: &Pool,
    more: usize,
    program: &Path,
    is_spawned: bool,
    running: &[Task<'_>],
) -> Result<(), TaskError> {
    let snapshot = pool.snapshot();
    let members = &snapshot.members;
    let has_joined = |pid: u32| members.iter().any(|member| member.identity.pid == pid);
    let joins = |program: &Path| {
        let mut joined = running.iter().filter(|(pid, _)| has_joined(*pid));
        joined.any(|(_, path)| *path == program)
    };
    if is_spawned && !joins(program) {
        return Ok(());
    }
    let may_join = |(pid, path): &&Task<'_>| !has_joined(*pid) && (!is_spawned || joins(path));
    let taken = members.len() + running.iter().filter(may_join).count();
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

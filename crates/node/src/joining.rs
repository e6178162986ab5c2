//! Joining a pool: the socket first, then the record; recovering dead participants where the table
//! is full; and finishing, for a process that does not join, the recoveries that a death
//! interrupted.

use hythe_pool::{
    Identity, Member, MemberIndex, MemberInfo, MemberKind, MemberStatus, PoolError, Recoverer,
};

use crate::pool::Pool;
use crate::pool::liveness_socket::{self, LivenessSocket};
use crate::pool::peers::Liveness;
use crate::pool::process::own_identity;
use crate::{NodeError, clock, holders};

impl Pool {
    /// Finishes what a death interrupted, if no living participant does: the recovery of a
    /// participant whose recoverer has died too; the joining of one; and a step of one, which
    /// leaves slots that do not add up. Other dead participants keep what they hold until the next
    /// one joins, so that a person can see it.
    ///
    /// For programs that look at a pool without joining it. Where this process may not recover
    /// them, they stay as they are.
    pub fn finish_recoveries(&self) {
        let tables = self.control().tables();
        let is_interrupted = |member: &MemberInfo| {
            member.status != MemberStatus::Alive
                || tables.is_claimed(member.index)
                || tables.pending_operation(member.index) != 0
        };
        let members = tables.members().filter(is_interrupted);
        let dead: Vec<MemberInfo> = members
            .filter(|member| self.liveness(member) == Liveness::Dead)
            .collect();
        if dead.is_empty() {
            return;
        }
        // It proves that this recoverer lives. Without it others could not take over from us.
        match LivenessSocket::announce(self) {
            Ok(liveness_socket) => {
                recover_each(self, liveness_socket.session(), dead);
                liveness_socket.withdraw();
            }
            Err(error) => tracing::info!(%error, "interrupted recoveries are left to others"),
        }
    }
}

/// Takes a record, recovering dead participants if there is no free one.
pub(crate) fn join(
    pool: &Pool,
    kind: MemberKind,
    name: &str,
) -> Result<(Member, LivenessSocket), NodeError> {
    let liveness_socket = LivenessSocket::announce(pool)?;
    liveness_socket::sweep(pool);
    let joined = take_record(pool, kind, own_identity(), name, &liveness_socket);
    match joined {
        Ok(member) => Ok((member, liveness_socket)),
        Err(error) => {
            liveness_socket.withdraw();
            Err(error)
        }
    }
}

fn take_record(
    pool: &Pool,
    kind: MemberKind,
    identity: Identity,
    name: &str,
    liveness_socket: &LivenessSocket,
) -> Result<Member, NodeError> {
    let session = liveness_socket.session();
    let attempt = || Member::join_with_session(pool.control(), kind, identity, name, session);
    match attempt() {
        Err(PoolError::TableFull { .. }) if recover_the_dead(pool, session) => Ok(attempt()?),
        taken => Ok(taken?),
    }
}

/// Recovers every participant whose death is proven, as somebody who has no record yet. False:
/// there was none.
fn recover_the_dead(pool: &Pool, session: u32) -> bool {
    recover_each(pool, session, pool.control().tables().members())
}

/// Recovers those of `members` whose death is proven, under a session that a socket proves to be in
/// use. False: there was none.
fn recover_each(pool: &Pool, session: u32, members: impl IntoIterator<Item = MemberInfo>) -> bool {
    let control = pool.control();
    let recoverer = Recoverer::outsider(session);
    let mut found = false;
    for member in members {
        let mut is_dead = |member: &_| pool.liveness(member) == Liveness::Dead;
        let now = clock::coarse_ms();
        match recoverer.recover(control, pool.regions(), &member, now, &mut is_dead) {
            Ok(None) => {}
            Ok(Some(_)) => {
                liveness_socket::forget(pool, member.session);
                found = true;
            }
            Err(error) => tracing::error!(name = member.name, %error, "recovery failed"),
        }
    }
    if found {
        for member in control.tables().members() {
            crate::wait::ring_always(control, member.index);
        }
    }
    found
}

/// The participant that holds the messages of queues: found, or made. With the lock of the table of
/// objects, so that there is one.
pub(crate) fn message_store(pool: &Pool) -> Result<MemberIndex, NodeError> {
    let is_store = |member: &hythe_pool::MemberInfo| {
        member.kind == MemberKind::MessageStore && member.status == MemberStatus::Alive
    };
    if let Some(store) = pool.control().tables().members().find(is_store) {
        return Ok(store.index);
    }
    let nobody = Identity {
        pid: 0,
        start_time: 0,
        pid_namespace: 0,
        uid: 0,
    };
    // While it is joining, this socket says whether the joiner lives; later it never ends.
    let liveness_socket = LivenessSocket::announce(pool)?;
    let kind = MemberKind::MessageStore;
    let joined = take_record(pool, kind, nobody, "messages", &liveness_socket);
    liveness_socket.withdraw();
    let joined = joined.map_err(|error| holders::named(pool, error))?;
    Ok(joined.index())
}

/// Takes a record for a core, or for an endpoint of one, whose process this one has started. The
/// record stays until its process is dead and nobody uses it any more.
pub(crate) fn join_core(pool: &Pool, core: Identity, name: &str) -> Result<MemberIndex, NodeError> {
    // While it is joining, this socket says whether the joiner lives; later the core's process
    // does.
    let liveness_socket = LivenessSocket::announce(pool)?;
    let joined = take_record(pool, MemberKind::CoreEndpoint, core, name, &liveness_socket);
    liveness_socket.withdraw();
    let joined = joined.map_err(|error| holders::named(pool, error))?;
    Ok(joined.index())
}

//! Jobs of tasks that reach other hosts: connects runners with their parts there, and tasks with
//! the runner of their job (`spec/host.md`, ADR 0045).
//!
//! A process of this pool asks over a socket in its directory; what it gets is a connection to the
//! other side, of which both agents pass on the bytes (`pipe`). A part is a process that this agent
//! starts (`part`), if a rule permits the other host the program. While a part runs, the two hosts,
//! and all others of the job, may read and write the channels of its tasks (`grants`).
//!
//! Never reads what runner, part and tasks say to each other. Never waits for a process without a
//! bound.

mod grants;
mod kept;
mod part;
mod pipe;
mod serve;
mod share;

use std::io;
use std::os::unix::net::UnixStream;
use std::path::Path;
use std::sync::Arc;
use std::time::Duration;

pub(super) use self::serve::run;
use super::call::{CONNECTING, ask, call};
use super::context::{Context, Member};
use super::link::send_first;
use super::session::Session;
use crate::error::ClusterError;
use crate::frame::{Answer, Purpose, TasksWish};
use crate::tasks::{JobId, lead_to_service};
use crate::{Connection, HostName, Right};

/// How long a part may take to end all that it has started: a little longer than it gives itself.
const ENDING: Duration = Duration::from_secs(15);
/// The most hosts of a job.
const HOSTS_MAX: usize = 256;

/// A connection with what is wished on the other host of a session: one that is kept, or a new one.
fn connect(session: &Session, wish: &TasksWish) -> Result<Connection, ClusterError> {
    let purpose = || Purpose::Tasks {
        session: session.their_number,
        wish: wish.clone(),
    };
    let kept = session.kept_connections.take();
    let called = match kept.map(|connection| ask(session, connection, purpose())) {
        // The other side has closed it meanwhile. What it began for it has ended with it.
        None | Some(Err(ClusterError::Closed | ClusterError::Broken(_))) => {
            call(session, purpose())?
        }
        Some(called) => called?,
    };
    match called.answer {
        Answer::Tasks => Ok(called.connection),
        Answer::Refused { reason } => Err(ClusterError::Refused(reason)),
        other => Err(ClusterError::Unexpected(format!(
            "{other:?} to a wish about tasks"
        ))),
    }
}

/// A connection of the other host about tasks: carries it until it ends. `greeting` ends when that
/// has begun.
///
/// # Errors
/// What it was told that asked for something else when it had what it wished.
pub(super) fn take(
    session: &Arc<Session>,
    mut connection: Connection,
    mut wish: TasksWish,
    greeting: Member,
) -> Result<(), ClusterError> {
    let mut greeting = Some(greeting);
    while let Some(idle) = carry(session, connection, &wish, greeting.take()) {
        match kept::next_wish(session, idle)? {
            Some(next) => (connection, wish) = next,
            None => break,
        }
    }
    Ok(())
}

/// Carries what one wish leads to. Returns the connection if another wish may follow.
fn carry(
    session: &Arc<Session>,
    mut connection: Connection,
    wish: &TasksWish,
    greeting: Option<Member>,
) -> Option<Connection> {
    let context = &session.context;
    let entered = share::enter(&context.job_pipes, &session.record.job_pipes);
    let begun = entered.and_then(|members| Ok((members, begin(context, session, wish)?)));
    let answer = match &begun {
        Ok(_) => Answer::Tasks,
        Err(error) => Answer::Refused {
            reason: error.to_string(),
        },
    };
    // Who is refused and gone does not need the answer.
    let told = send_first(&mut *connection.sender, &answer, CONNECTING);
    drop(greeting);
    let (members, begun) = begun.ok()?;
    let idle = match told {
        Ok(()) => pipe::run(session, connection, begun.stream),
        Err(_) => {
            drop(begun.stream);
            None
        }
    };
    drop(begun.granted);
    if let Some(part) = begun.part {
        part::wait_for(part, ENDING);
    }
    drop(members);
    idle.filter(|_| wish.ends_before_its_connection())
}

/// What is at this end of a connection of the other host.
struct Begun {
    stream: UnixStream,
    part: Option<std::process::Child>,
    granted: Option<grants::Granted>,
}

impl Begun {
    fn only(stream: UnixStream) -> Self {
        Self {
            stream,
            part: None,
            granted: None,
        }
    }
}

fn begin(
    context: &Arc<Context>,
    session: &Session,
    wish: &TasksWish,
) -> Result<Begun, ClusterError> {
    let unknown = |number: &u32| ClusterError::Unexpected(format!("{number} is no job"));
    match wish {
        TasksWish::Runner { job } => {
            let job = JobId::from_number(*job).ok_or_else(|| unknown(job))?;
            runner(context, session, job, crate::tasks::connect_to_runner).map(Begun::only)
        }
        TasksWish::Service { job } => {
            let job = JobId::from_number(*job).ok_or_else(|| unknown(job))?;
            let connect = |directory: &Path, _, from: &HostName| lead_to_service(directory, from);
            runner(context, session, job, connect).map(Begun::only)
        }
        TasksWish::Part {
            job,
            program,
            hosts,
        } => {
            let job = JobId::from_number(*job).ok_or_else(|| unknown(job))?;
            may_begin(context, session, job, program, hosts)?;
            let (stream, child) = part::start(context, &session.record.name, job)?;
            let others = hosts.iter().filter(|host| **host != context.options.host);
            let granted = others.cloned().chain([session.record.name.clone()]);
            Ok(Begun {
                stream,
                part: Some(child),
                granted: Some(grants::Granted::new(context, job, granted.collect())),
            })
        }
    }
}

/// The runner of a job of this host, or what else `connect` leads to, for a task of a part on the
/// other one.
fn runner(
    context: &Context,
    session: &Session,
    job: JobId,
    connect: impl FnOnce(&Path, JobId, &HostName) -> io::Result<UnixStream>,
) -> Result<UnixStream, ClusterError> {
    if !context.jobs.has(&session.record.name, job) {
        return Err(ClusterError::Unexpected(format!(
            "job {job} has no tasks on host {}",
            session.record.name
        )));
    }
    connect(&context.options.pool.path(), job, &session.record.name)
        .map_err(|error| ClusterError::Unexpected(format!("job {job}: {error}")))
}

/// May the other host start that here, as a job of its own?
fn may_begin(
    context: &Context,
    session: &Session,
    job: JobId,
    program: &str,
    hosts: &[HostName],
) -> Result<(), ClusterError> {
    let peer = &session.record.name;
    context.judge(peer, program, Right::Spawn)?;
    let number = context.jobs.number_of(peer);
    if number == 0 || job.host() != number {
        return Err(ClusterError::Unexpected(format!(
            "job {job} is none of host {peer}, which has number {number} in the realm as host {} \
             knows it",
            context.options.host
        )));
    }
    if hosts.len() > HOSTS_MAX {
        return Err(ClusterError::TooMany {
            what: "hosts in a job",
            most: HOSTS_MAX,
        });
    }
    Ok(())
}

//! Answers processes of this pool that ask about tasks on other hosts: one thread that takes them,
//! and one for each that is connected.

use std::io::{self, ErrorKind, Read as _, Write as _};
use std::os::fd::AsFd as _;
use std::os::unix::net::UnixStream;
use std::sync::Arc;
use std::time::{Duration, Instant};

use hythe_sys::accept::{Accepted, Acceptor};
use hythe_sys::identity::effective_user;
use hythe_sys::local_socket::{LocalListener, Peers};
use rustix::event::{PollFd, PollFlags};
use rustix::net::SocketType;

use super::super::context::Context;
use super::super::facts;
use super::super::hosts::Hosts;
use super::super::session::Session;
use super::share::OWN_PIPES_MAX;
use super::{connect, grants, pipe};
use crate::error::ClusterError;
use crate::frame::TasksWish;
use crate::tasks::JobId;
use crate::tasks::agent_message::{AGENT_LINE_BYTES_MAX, AGENT_SOCKET, AgentReply, AgentRequest};
use crate::{HostName, Right};

/// How often the thread looks whether it is to stop.
const NAP: Duration = Duration::from_millis(200);
/// How long a process may take to ask, and to read the answer.
const ASKING: Duration = Duration::from_secs(2);
/// Processes that may wait to be taken in.
const BACKLOG: i32 = 4096;

/// How long a session is waited for, less than who asks waits, and how often it is looked for.
const CONNECTING: Duration = Duration::from_secs(3);
const CONNECTING_LOOK: Duration = Duration::from_millis(20);

/// Answers until the agent stops.
pub(in crate::agent) fn run(context: &Arc<Context>, hosts: &Arc<Hosts>) {
    let path = context.options.pool.path().join(AGENT_SOCKET);
    // Whoever was there has gone: a pool has one agent.
    let _ = std::fs::remove_file(&path);
    // A pool may be open to others; what is started elsewhere is this user's.
    let peers = Peers::User(effective_user());
    let listener = match LocalListener::bind(&path, SocketType::STREAM, BACKLOG, peers) {
        Ok(listener) => listener,
        Err(error) => {
            tracing::error!(path = %path.display(), %error, "no tasks on other hosts");
            return;
        }
    };
    let mut acceptor = Acceptor::default();
    while !context.stops() {
        match acceptor.pause() {
            Some(pause) => hythe_sys::wait::sleep(pause),
            None => {
                let mut files = [PollFd::from_borrowed_fd(listener.as_fd(), PollFlags::IN)];
                let _ = hythe_sys::wait::poll_or_sleep(&mut files, NAP);
            }
        }
        while let Some(stream) = accept(&mut acceptor, &listener) {
            if let Err(error) = start(context, hosts, stream) {
                tracing::warn!(%error, "a process that asks about tasks is not answered");
            }
        }
    }
    let _ = std::fs::remove_file(&path);
}

/// The next process that has connected; one for which there is no descriptor is refused.
fn accept(acceptor: &mut Acceptor, listener: &LocalListener) -> Option<UnixStream> {
    loop {
        let accepted = listener.accept_by(acceptor, |error| {
            tracing::warn!(%error, "processes that ask about tasks are refused");
        });
        match accepted {
            Accepted::Connection(stream) => return Some(stream.into()),
            Accepted::Surplus(stream) => {
                let reason = "the agent of this host may open no more files".to_owned();
                // It fits the socket, whether that is read or not.
                let stream = UnixStream::from(stream);
                let _ = say(&stream, &AgentReply::Refused { reason });
                acceptor.take_back(stream);
            }
            Accepted::Nothing => return None,
        }
    }
}

fn start(
    context: &Arc<Context>,
    hosts: &Arc<Hosts>,
    stream: UnixStream,
) -> Result<(), ClusterError> {
    let member = context.own_job_pipes.enter();
    if context.own_job_pipes.count() > OWN_PIPES_MAX {
        let error = ClusterError::Unexpected(format!(
            "{OWN_PIPES_MAX} tasks of this host are connected with other hosts already"
        ));
        let reason = error.to_string();
        // It fits the socket, whether that is read or not.
        let _ = say(&stream, &AgentReply::Refused { reason });
        return Err(error);
    }
    let (context, hosts) = (Arc::clone(context), Arc::clone(hosts));
    hythe_sys::wait::spawn("hythe-host-tasks", move || {
        if let Err(error) = serve(&context, &hosts, stream) {
            tracing::debug!(%error, "a process that asked about tasks is gone");
        }
        drop(member);
    })?;
    Ok(())
}

fn serve(context: &Arc<Context>, hosts: &Hosts, stream: UnixStream) -> io::Result<()> {
    stream.set_nonblocking(false)?;
    stream.set_read_timeout(Some(ASKING))?;
    stream.set_write_timeout(Some(ASKING))?;
    let request = read_line(&stream)?;
    let refused = |error: ClusterError| AgentReply::Refused {
        reason: match error {
            ClusterError::Refused(reason) => reason,
            other => other.to_string(),
        },
    };
    match request {
        AgentRequest::Here => say(&stream, &here(context)),
        AgentRequest::Runner { job } | AgentRequest::Service { job } if is_own(context, job) => {
            say(&stream, &here(context))
        }
        AgentRequest::MaySpawn { host, program } => {
            let judged = context.judge(&host, &program, Right::Spawn);
            let reply =
                judged.map_or_else(|error| refused(error.into()), |()| AgentReply::Permitted);
            say(&stream, &reply)
        }
        AgentRequest::Runner { job } => {
            let wish = TasksWish::Runner { job: job.number() };
            let session = session_of(context, hosts, job);
            carry(&stream, session, wish, refused, |_| ())
        }
        AgentRequest::Service { job } => {
            let wish = TasksWish::Service { job: job.number() };
            let session = session_of(context, hosts, job);
            carry(&stream, session, wish, refused, |_| ())
        }
        AgentRequest::Watch { host } => match session_with(context, hosts, &host) {
            Ok(session) => {
                let _member = session.record.own_job_pipes.enter();
                say(&stream, &AgentReply::Connected)?;
                wait_for_end(context, &session, &stream)
            }
            Err(error) => say(&stream, &refused(error)),
        },
        AgentRequest::Facts { host } => {
            let found = session_with(context, hosts, &host);
            let found = found.and_then(|session| facts::ask(&session));
            say(&stream, &found.map_or_else(refused, AgentReply::Facts))
        }
        AgentRequest::Part {
            host,
            job,
            program,
            hosts: all,
        } => {
            let wish = TasksWish::Part {
                job: job.number(),
                program,
                hosts: all,
            };
            let session = session_with(context, hosts, &host);
            carry(&stream, session, wish, refused, |context| {
                grants::Granted::new(context, job, vec![host.clone()])
            })
        }
    }
}

fn here(context: &Context) -> AgentReply {
    let host = context.options.host.clone();
    let number = context.jobs.number_of(&host);
    let jobs = context.jobs.jobs_of_others(number);
    AgentReply::Here { host, number, jobs }
}

/// Is it a job of this host?
fn is_own(context: &Context, job: JobId) -> bool {
    context.jobs.number_of(&context.options.host) == job.host()
}

/// Connects with the other host, and passes on until it is over. What `grants` returns lasts as
/// long.
fn carry<G>(
    stream: &UnixStream,
    session: Result<Arc<Session>, ClusterError>,
    wish: TasksWish,
    refused: impl FnOnce(ClusterError) -> AgentReply,
    grants: impl FnOnce(&Arc<Context>) -> G,
) -> io::Result<()> {
    let dialled = session.and_then(|session| {
        // Before the connection is made: none ends for the sake of a better one from now on.
        let member = session.record.own_job_pipes.enter();
        // Before the other side begins: its tasks may send at once.
        let granted = grants(&session.context);
        Ok((connect(&session, &wish)?, member, session, granted))
    });
    match dialled {
        Ok((connection, member, session, granted)) => {
            say(stream, &AgentReply::Connected)?;
            let idle = pipe::run(&session, connection, stream.try_clone()?);
            drop((granted, member));
            if let Some(connection) = idle.filter(|_| wish.ends_before_its_connection()) {
                session
                    .kept_connections
                    .put(connection, || session.is_over());
            }
            Ok(())
        }
        Err(error) => say(stream, &refused(error)),
    }
}

/// Returns when a session is over, or nobody waits for that any more.
fn wait_for_end(context: &Context, session: &Session, stream: &UnixStream) -> io::Result<()> {
    stream.set_read_timeout(Some(NAP))?;
    let (mut byte, mut from) = ([0], stream);
    while !session.is_over() && !context.stops() {
        match from.read(&mut byte) {
            // Nothing is to be said here.
            Ok(_) => return Ok(()),
            Err(error) if error.kind() == ErrorKind::WouldBlock => {}
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(())
}

/// With the host of a job.
fn session_of(context: &Context, hosts: &Hosts, job: JobId) -> Result<Arc<Session>, ClusterError> {
    let unknown =
        || ClusterError::Unexpected(format!("no host of the realm has number {}", job.host()));
    let host = context.jobs.host_of(job.host()).ok_or_else(unknown)?;
    session_with(context, hosts, &host)
}

/// The session with a host of the realm. Where agents have just started it may begin in a moment:
/// that is waited for.
fn session_with(
    context: &Context,
    hosts: &Hosts,
    name: &HostName,
) -> Result<Arc<Session>, ClusterError> {
    let since = Instant::now();
    loop {
        let known = hosts.all();
        let found = known.iter().find(|host| host.record.name == *name);
        if let Some(session) = found.and_then(|host| host.session()) {
            return Ok(session);
        }
        if found.is_none() && !context.jobs.has_host(name) {
            return Err(ClusterError::Unexpected(format!(
                "there is no host {name} in the realm; `hythe host list` shows those that are"
            )));
        }
        if since.elapsed() >= CONNECTING || context.stops() {
            return Err(ClusterError::Unexpected(format!(
                "host {name} is not connected; `hythe host status` says why"
            )));
        }
        hythe_sys::wait::sleep(CONNECTING_LOOK);
    }
}

fn say(mut stream: &UnixStream, reply: &AgentReply) -> io::Result<()> {
    let mut line = serde_json::to_vec(reply)?;
    line.push(b'\n');
    stream.write_all(&line)
}

/// A byte at a time: what follows the line is the other side's.
fn read_line(mut stream: &UnixStream) -> io::Result<AgentRequest> {
    let (mut line, mut byte) = (Vec::new(), [0]);
    while line.last() != Some(&b'\n') {
        match stream.read(&mut byte) {
            Ok(1) if line.len() < AGENT_LINE_BYTES_MAX => line.push(byte[0]),
            Ok(_) => return Err(ErrorKind::UnexpectedEof.into()),
            Err(error) if error.kind() == ErrorKind::Interrupted => {}
            Err(error) => return Err(error),
        }
    }
    Ok(serde_json::from_slice(&line)?)
}

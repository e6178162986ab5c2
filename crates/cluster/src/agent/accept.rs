//! Takes the connections that other hosts make: a thread for each, that reads what it is for and
//! then carries it.

use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::Duration;

use super::context::{Context, Group, Member};
use super::facts;
use super::hello::{hello, refuse};
use super::host::Host;
use super::hosts::{Hosts, Source};
use super::job_pipes;
use super::link::MessageReader;
use crate::Connection;
use crate::error::ClusterError;
use crate::frame::Purpose;

/// How often the thread looks whether it is to stop.
const NAP: Duration = Duration::from_millis(200);
/// Connections of one host that have not said what they are for.
const GREETING_MAX: usize = 16;
/// Threads of connections of all hosts.
const CONNECTIONS_MAX: usize = 4096;

/// Takes connections until the agent stops.
pub(super) fn run(context: &Arc<Context>, hosts: &Arc<Hosts>, threads: &Arc<Group>) {
    while !context.stops() {
        match context.carrier.accept(NAP) {
            Ok(None) => {}
            Ok(Some(connection)) => {
                let peer = connection.peer.clone();
                if let Err(error) = start(context, hosts, threads, connection) {
                    context.refused.fetch_add(1, Ordering::Relaxed);
                    tracing::warn!(host = %peer, %error, "a connection is refused");
                }
            }
            Err(error) => {
                tracing::error!(%error, "no more connections are taken");
                return;
            }
        }
    }
}

fn start(
    context: &Arc<Context>,
    hosts: &Arc<Hosts>,
    threads: &Arc<Group>,
    connection: Connection,
) -> Result<(), ClusterError> {
    let Some(host) = hosts.get(context, &connection.peer, Source::Connection) else {
        return Err(ClusterError::Unexpected("a host too many".to_owned()));
    };
    let (thread, greeting) = (threads.enter(), host.greeting.enter());
    for (count, what, most) in [
        (threads.count(), "connections", CONNECTIONS_MAX),
        (
            host.greeting.count(),
            "new connections at once",
            GREETING_MAX,
        ),
    ] {
        if count > most {
            return Err(ClusterError::TooMany { what, most });
        }
    }
    let context = Arc::clone(context);
    hythe_sys::wait::spawn("hythe-host-take", move || {
        if let Err(error) = carry(&host, connection, greeting) {
            context.refused.fetch_add(1, Ordering::Relaxed);
            tracing::warn!(host = %host.record.name, %error, "a connection is refused");
            host.note_trouble(error.to_string());
        }
        drop(thread);
    })?;
    Ok(())
}

/// Reads what a connection is for, and carries it. `greeting` ends when that has begun.
fn carry(
    host: &Arc<Host>,
    mut connection: Connection,
    greeting: Member,
) -> Result<(), ClusterError> {
    let mut reader = MessageReader::new(connection.receiver);
    let hello = hello(&mut reader, &connection.peer);
    connection.receiver = reader.into_receiver();
    let in_session = |number| host.session().filter(|session| session.number == number);
    match hello.map(|hello| hello.purpose) {
        Ok(Purpose::Control { session }) => host.accept(connection, session, greeting),
        Ok(Purpose::Data { session, opening }) => match in_session(session) {
            Some(session) => {
                session.receive(connection, opening, greeting);
                Ok(())
            }
            None => Err(refuse(connection, ClusterError::Over)),
        },
        Ok(Purpose::Tasks { session, wish }) => match in_session(session) {
            Some(session) => job_pipes::take(&session, connection, wish, greeting),
            None => Err(refuse(connection, ClusterError::Over)),
        },
        Ok(Purpose::Host { session }) => match in_session(session) {
            Some(_) => facts::answer(connection),
            None => Err(refuse(connection, ClusterError::Over)),
        },
        // Who made it had nothing to ask: a carrier may tell its own news so.
        Err(ClusterError::Closed) => Ok(()),
        // A host that is busy: it tries again where it finds its connection closed.
        Err(error @ (ClusterError::Silent(_) | ClusterError::Broken(_))) => Err(error),
        Err(error) => Err(refuse(connection, error)),
    }
}

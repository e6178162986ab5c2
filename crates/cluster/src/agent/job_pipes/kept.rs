//! Connections of the other side whose pipes have ended: this one waits for the next wish on them.
//!
//! What is judged for a new connection is judged again for each wish on one that is kept.

use std::sync::Arc;
use std::time::{Duration, Instant};

use super::super::hello::{hello, refuse};
use super::super::kept_connections::KEPT_MAX;
use super::super::link::MessageReader;
use super::super::session::Session;
use crate::Connection;
use crate::carrier::Received;
use crate::error::ClusterError;
use crate::frame::{Purpose, TasksWish};

/// For how long this side waits: longer than who dialled keeps it, so that none is closed that is
/// about to be used.
const WAITING: Duration = Duration::from_secs(30);
/// How often it is looked whether the session is over.
const NAP: Duration = Duration::from_millis(500);

/// The next wish on a connection of the other side whose pipe has ended. `None`: there is none, and
/// the connection is closed.
///
/// # Errors
/// What it says instead, which it is told.
pub(super) fn next_wish(
    session: &Arc<Session>,
    mut connection: Connection,
) -> Result<Option<(Connection, TasksWish)>, ClusterError> {
    let member = session.record.waiting_job_pipes.enter();
    if session.record.waiting_job_pipes.count() > KEPT_MAX {
        return Ok(None);
    }
    let since = Instant::now();
    loop {
        if session.is_over() || since.elapsed() >= WAITING {
            return Ok(None);
        }
        match connection.receiver.receive(NAP) {
            Ok(Received::Bytes(_)) => break,
            Ok(Received::Nothing) => {}
            Ok(Received::Closed) | Err(_) => return Ok(None),
        }
    }
    let mut reader = MessageReader::new(connection.receiver);
    let hello = hello(&mut reader, &connection.peer);
    connection.receiver = reader.into_receiver();
    drop(member);
    match hello.map(|hello| hello.purpose) {
        Ok(Purpose::Tasks { session: of, .. }) if of != session.number => {
            Err(refuse(connection, ClusterError::Over))
        }
        Ok(Purpose::Tasks { wish, .. }) => Ok(Some((connection, wish))),
        Ok(other) => {
            let what = format!("{other:?} on a connection about tasks");
            Err(refuse(connection, ClusterError::Unexpected(what)))
        }
        Err(ClusterError::Closed) => Ok(None),
        Err(error) => Err(refuse(connection, error)),
    }
}

impl TasksWish {
    /// May the connection carry another pipe afterwards? Behind a part its process is waited for.
    pub(super) const fn ends_before_its_connection(&self) -> bool {
        match self {
            Self::Part { .. } => false,
            Self::Runner { .. } | Self::Service { .. } => true,
        }
    }
}

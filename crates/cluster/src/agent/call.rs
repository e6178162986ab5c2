//! Dials the other host of a session for something besides its streams.

use std::time::{Duration, SystemTime};

use super::context::lock;
use super::link::{MessageReader, send_first};
use super::session::Session;
use crate::Connection;
use crate::error::ClusterError;
use crate::frame::{Answer, Hello, Purpose};

/// How long it may take to reach the other host, and to hear its answer.
pub(super) const CONNECTING: Duration = Duration::from_secs(2);

/// What came of it.
pub(super) struct Called {
    /// What was said.
    pub(super) answer: Answer,
    /// By which it was.
    pub(super) connection: Connection,
    /// By the clock of this host: when it was asked, and when the answer was there.
    pub(super) asked: Duration,
    pub(super) answered: Duration,
}

pub(super) fn call(session: &Session, purpose: Purpose) -> Result<Called, ClusterError> {
    let (host, carrier) = (&session.record.name, &session.context.carrier);
    let addresses = lock(&session.record.addresses).next_attempt();
    ask(
        session,
        carrier.connect(host, &addresses, CONNECTING)?,
        purpose,
    )
}

/// The same over a connection that there is.
pub(super) fn ask(
    session: &Session,
    mut connection: Connection,
    purpose: Purpose,
) -> Result<Called, ClusterError> {
    let hello = Hello {
        host: session.context.options.host.clone(),
        purpose,
    };
    let asked = now();
    send_first(&mut *connection.sender, &hello, CONNECTING)?;
    let mut reader = MessageReader::new(connection.receiver);
    reader.preamble(CONNECTING)?;
    let answer = reader.message(CONNECTING)?;
    let answered = now();
    connection.receiver = reader.into_receiver();
    Ok(Called {
        answer,
        connection,
        asked,
        answered,
    })
}

/// By the clock of this host: since 1970 began.
pub(super) fn now() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default()
}

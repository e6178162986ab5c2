//! What another host is and what its clock says: asked over a connection of its own, within the
//! session.

use std::time::Duration;

use super::call::{CONNECTING, call, now};
use super::link::send_first;
use super::session::Session;
use crate::Connection;
use crate::error::ClusterError;
use crate::frame::{Answer, HostFacts, Purpose};
use crate::tasks::FoundHost;

/// Asks the other host of a session.
pub(super) fn ask(session: &Session) -> Result<FoundHost, ClusterError> {
    let purpose = Purpose::Host {
        session: session.their_number,
    };
    let called = call(session, purpose)?;
    match called.answer {
        Answer::Host(facts) => Ok(FoundHost {
            clock: Duration::from_nanos(facts.clock_ns),
            asked: called.asked,
            answered: called.answered,
            pointer_bytes: facts.pointer_bytes,
            is_big_endian: facts.is_big_endian,
        }),
        Answer::Refused { reason } => Err(ClusterError::Refused(reason)),
        other => Err(ClusterError::Unexpected(format!(
            "{other:?} to a question about the host"
        ))),
    }
}

/// Answers one that asks.
pub(super) fn answer(mut connection: Connection) -> Result<(), ClusterError> {
    let facts = HostFacts {
        clock_ns: u64::try_from(now().as_nanos()).unwrap_or(u64::MAX),
        // Fits: addresses have 4 or 8 bytes.
        pointer_bytes: size_of::<usize>() as u8,
        is_big_endian: cfg!(target_endian = "big"),
    };
    send_first(&mut *connection.sender, &Answer::Host(facts), CONNECTING)
}

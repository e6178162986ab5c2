//! What a connection is for, as who made it says, and the answer to what nobody may ask.

use std::time::Duration;

use super::link::{MessageReader, send_first};
use crate::error::ClusterError;
use crate::frame::{Answer, Hello};
use crate::{Connection, HostName};

/// How long a host may take to say what a connection is for.
const GREETING: Duration = Duration::from_secs(2);

pub(super) fn hello(reader: &mut MessageReader, peer: &HostName) -> Result<Hello, ClusterError> {
    reader.preamble(GREETING)?;
    let hello: Hello = reader.message(GREETING)?;
    if hello.host != *peer {
        let what = format!("host {peer} calls itself {}", hello.host);
        return Err(ClusterError::Unexpected(what));
    }
    Ok(hello)
}

/// Tells the other side why. It has proven its name; a stranger gets no answer.
pub(super) fn refuse(mut connection: Connection, error: ClusterError) -> ClusterError {
    let reason = error.to_string();
    // Who is refused and gone does not need the answer.
    let _ = send_first(
        &mut *connection.sender,
        &Answer::Refused { reason },
        GREETING,
    );
    error
}

//! Connections of a session whose pipes have ended, at the side that dialled them: the next pipe
//! takes one, and needs no handshake. A few are kept, for a short time.

use std::sync::Mutex;
use std::time::{Duration, Instant};

use super::context::lock;
use crate::Connection;
use crate::carrier::Received;

/// Of one session. More tasks begin at a time only in bursts.
pub(super) const KEPT_MAX: usize = 16;
/// For how long one is kept.
const KEPT_FOR: Duration = Duration::from_secs(20);

/// The last in the end.
#[derive(Debug, Default)]
pub(super) struct KeptConnections(Mutex<Vec<(Connection, Instant)>>);

impl KeptConnections {
    /// One that is open still.
    pub(super) fn take(&self) -> Option<Connection> {
        let mut kept = lock(&self.0);
        kept.retain(|(_, since)| since.elapsed() < KEPT_FOR);
        while let Some((mut connection, _)) = kept.pop() {
            // Nothing was asked, so nothing is to be said.
            if matches!(
                connection.receiver.receive(Duration::ZERO),
                Ok(Received::Nothing)
            ) {
                return Some(connection);
            }
        }
        None
    }

    /// Keeps one, unless there are enough, or the session is over.
    pub(super) fn put(&self, connection: Connection, is_over: impl Fn() -> bool) {
        let mut kept = lock(&self.0);
        kept.retain(|(_, since)| since.elapsed() < KEPT_FOR);
        // Under the lock: who ends the session closes what was kept before.
        if kept.len() < KEPT_MAX && !is_over() {
            kept.push((connection, Instant::now()));
        }
    }

    /// The session is over.
    pub(super) fn close_all(&self) {
        let closed = std::mem::take(&mut *lock(&self.0));
        drop(closed);
    }
}

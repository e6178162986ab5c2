//! What clients may use up, and counts of what was refused for it.
//!
//! Whoever serves chooses [`Limits`] once; [`Counters`] are read at any time and shown by the
//! command.

/// Bounds on what clients make a server keep. Times are in nanoseconds.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Limits {
    /// Connections open at once.
    pub connections: usize,
    /// Connections of one address. An IPv6 address stands for its /64: whoever has one has them
    /// all.
    pub connections_per_address: usize,
    /// Sessions at once.
    pub sessions: usize,
    /// Sessions of one address, as above.
    pub sessions_per_address: usize,
    /// Bytes of a request, headers and body.
    pub message_bytes: usize,
    /// Headers of a request.
    pub headers: usize,
    /// How long a new connection may wait with its first request.
    pub first_request_ns: u64,
    /// How long a request may take from its first byte to its last.
    pub message_ns: u64,
    /// How long a connection without a session may be idle after a request.
    pub idle_ns: u64,
    /// How long a client may leave answers unread.
    pub stall_ns: u64,
    /// How long a session lives without a sign of its client; told to clients in whole seconds, at
    /// least 1.
    pub session_ns: u64,
}

const SECOND_NS: u64 = 1_000_000_000;

impl Default for Limits {
    fn default() -> Self {
        Self {
            connections: 1024,
            connections_per_address: 64,
            sessions: 1024,
            // A film has two or three of the 64 slots of the wire region: one address leaves some
            // to the others.
            sessions_per_address: 16,
            // A request of a player has 200 to 700 bytes and 5 to 12 headers.
            message_bytes: 8192,
            headers: 64,
            first_request_ns: 10 * SECOND_NS,
            message_ns: 10 * SECOND_NS,
            idle_ns: 120 * SECOND_NS,
            stall_ns: 10 * SECOND_NS,
            // RFC 2326, section 12.37.
            session_ns: 60 * SECOND_NS,
        }
    }
}

/// Descriptors that are kept free: to accept a connection and refuse it, and for files that are
/// open for a moment.
const DESCRIPTORS_RESERVED: usize = 16;
/// Descriptors of a session that plays a film: the file, an event, sockets for RTP and RTCP.
const DESCRIPTORS_OF_SESSION: usize = 6;

impl Limits {
    /// As many connections and sessions as a process with so many free descriptors can have, half
    /// of them for each.
    #[must_use]
    pub fn fitting(self, free_descriptors: usize) -> Self {
        let half = free_descriptors.saturating_sub(DESCRIPTORS_RESERVED) / 2;
        Self {
            connections: self.connections.min(half).max(1),
            sessions: self.sessions.min(half / DESCRIPTORS_OF_SESSION).max(1),
            ..self
        }
    }

    /// What is told to clients: never more than they really have.
    pub(crate) fn session_seconds(&self) -> u64 {
        (self.session_ns / SECOND_NS).max(1)
    }

    /// Never less than clients were told.
    pub(crate) fn session_life_ns(&self) -> u64 {
        self.session_ns.max(SECOND_NS)
    }
}

/// What happened so far.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
#[non_exhaustive]
pub struct Counters {
    /// Connections that were let in.
    pub connections: u64,
    /// Connections turned away because there were [`Limits::connections`].
    pub refused_connections: u64,
    /// Connections turned away because their address had [`Limits::connections_per_address`].
    pub refused_connections_of_address: u64,
    /// Requests that were understood, whatever the answer.
    pub requests: u64,
    /// Answers other than 200.
    pub refused_requests: u64,
    /// Messages that are no RTSP 1.0, too long, or have too many headers; each ended its
    /// connection.
    pub malformed_messages: u64,
    /// Connections closed because no request came in time ([`Limits::first_request_ns`]).
    pub silent_connections: u64,
    /// Connections closed because a request did not become whole in time ([`Limits::message_ns`]).
    pub slow_messages: u64,
    /// Connections without a session closed after [`Limits::idle_ns`].
    pub idle_connections: u64,
    /// Connections closed because their client left answers unread ([`Limits::stall_ns`]).
    pub stalled_connections: u64,
    /// Times the kernel gave no descriptor for a new connection.
    pub accept_failures: u64,
    /// Sessions that were made.
    pub sessions: u64,
    /// Sessions refused because there were [`Limits::sessions`].
    pub refused_sessions: u64,
    /// Sessions refused because their address had [`Limits::sessions_per_address`].
    pub refused_sessions_of_address: u64,
    /// Sessions that ended because their client gave no sign ([`Limits::session_ns`]).
    pub lost_sessions: u64,
    /// SETUPs that wanted media sent to somebody else.
    pub foreign_destinations: u64,
    /// Requests that named a session of another address.
    pub foreign_sessions: u64,
    /// PLAYs that the owner of the media could not follow.
    pub failed_starts: u64,
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn limits_follow_from_the_descriptors_that_are_free() {
        let fitting = |free| {
            let limits = Limits::default().fitting(free);
            (limits.connections, limits.sessions)
        };
        assert_eq!(fitting(1_000_000), (1024, 1024));
        assert_eq!(fitting(1000), (492, 82));
        assert_eq!(fitting(46), (15, 2));
        assert_eq!(fitting(0), (1, 1));
    }
}

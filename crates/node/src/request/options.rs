//! Options of clients and servers, with their limits and defaults. They are chosen when a port
//! opens.

use std::time::Duration;

use hythe_pool::ChannelType;

/// How to ask.
#[derive(Clone, Debug)]
pub struct ClientOptions {
    pub(super) carries: Option<ChannelType>,
    pub(super) outstanding: u32,
    pub(super) send_timeout: Duration,
}

impl Default for ClientOptions {
    fn default() -> Self {
        Self {
            carries: None,
            outstanding: 32,
            send_timeout: Duration::from_secs(5),
        }
    }
}

impl ClientOptions {
    /// Only on a channel that carries this type. Default: whatever the channel carries; raw bytes
    /// if it has to be made.
    #[must_use]
    pub fn carries(mut self, carries: ChannelType) -> Self {
        self.carries = Some(carries);
        self
    }

    /// Requests that may be open at a time, at least 1 and at most 32,768; default 32. A server has
    /// at most as many of this client unanswered (rounded up to a power of two), abandoned ones
    /// included. Up to 32 always fit; for more, the queues of replies share memory
    /// ([`hythe_pool::PoolError::QueueTooDeep`]).
    #[must_use]
    pub const fn outstanding(mut self, outstanding: u32) -> Self {
        self.outstanding = outstanding;
        self
    }

    /// How long one request may wait while there is no server, or the queues of all are full;
    /// default 5 s.
    #[must_use]
    pub const fn send_timeout(mut self, send_timeout: Duration) -> Self {
        self.send_timeout = send_timeout;
        self
    }
}

/// How to serve.
#[derive(Clone, Debug)]
pub struct ServerOptions {
    pub(super) carries: Option<ChannelType>,
    pub(super) depth: u32,
    pub(super) request_bytes: Option<u32>,
}

impl Default for ServerOptions {
    fn default() -> Self {
        Self {
            carries: None,
            depth: 32,
            request_bytes: None,
        }
    }
}

impl ServerOptions {
    /// Only on a channel that carries this type. Default: whatever the channel carries; raw bytes
    /// if it has to be made.
    #[must_use]
    pub fn carries(mut self, carries: ChannelType) -> Self {
        self.carries = Some(carries);
        self
    }

    /// Requests that may wait to be taken, per client (rounded up to a power of two); default 32.
    /// Queues of up to 32 always fit; deeper ones share memory, of which a server's node gets at
    /// most half ([`hythe_pool::PoolError::QueueTooDeep`]). A core that asks has at most so many
    /// requests unanswered, each in an empty slot that it was given in advance.
    #[must_use]
    pub const fn depth(mut self, depth: u32) -> Self {
        self.depth = depth;
        self
    }

    /// A core that asks gets empty slots for requests of so many bytes, not for the largest that
    /// its endpoint carries: it cannot send larger ones, and large slots stay free for others.
    /// Replies may be as large as ever. Default: for whatever the endpoint carries.
    #[must_use]
    pub const fn request_bytes(mut self, bytes: u32) -> Self {
        self.request_bytes = Some(bytes);
        self
    }
}

//! How long a port waits for a core.

use std::time::Duration;

/// How long the ports of a node wait for a core, at most.
///
/// Takes and requests have time-outs of their own; these are for what a port does beside them, and
/// for publishing to a core alone, where they take the place of the publisher's send timeout. A
/// wait that ends is an error, or a warning where the port goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct LinkTimeouts {
    pub(crate) attach: Duration,
    pub(crate) window: Duration,
    pub(crate) flush: Duration,
    pub(crate) detach: Duration,
}

impl Default for LinkTimeouts {
    fn default() -> Self {
        Self {
            attach: Duration::from_secs(5),
            window: Duration::from_secs(10),
            flush: Duration::from_secs(2),
            detach: Duration::from_millis(500),
        }
    }
}

impl LinkTimeouts {
    /// Opening a port, and publishing to a core alone that was started anew: until the core has
    /// answered the new session, for which its tasks must let go of what they hold of an earlier
    /// one. Default: 5 seconds.
    #[must_use]
    pub const fn attach(mut self, timeout: Duration) -> Self {
        self.attach = timeout;
        self
    }

    /// Publishing to a core alone: until it has given something back, while it has as many buffers
    /// as the queue has places. Beside other receivers a core is waited for as they are. Default:
    /// 10 seconds.
    #[must_use]
    pub const fn window(mut self, timeout: Duration) -> Self {
        self.window = timeout;
        self
    }

    /// A publisher that goes: until the core has given everything back. What it has not is taken
    /// back later. A server that goes: until a core that asked has read the replies; those that it
    /// has not are lost. Default: 2 seconds.
    #[must_use]
    pub const fn flush(mut self, timeout: Duration) -> Self {
        self.flush = timeout;
        self
    }

    /// A subscriber or server that goes: until the core has let go of its empty slots. What it has
    /// not is taken back later. Default: 500 milliseconds.
    #[must_use]
    pub const fn detach(mut self, timeout: Duration) -> Self {
        self.detach = timeout;
        self
    }
}

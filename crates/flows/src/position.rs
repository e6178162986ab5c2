//! How far the subscriber's end of a flow has come; acknowledgements of TCP and of frames say it.

/// State of the subscriber's end.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(crate) struct Position {
    /// Number of the first message that has not arrived whole.
    pub(crate) received: u64,
    /// Number of the first message that still counts against the publisher's window.
    pub(crate) accepted: u64,
}

//! What runner and part say to each other, and the connection over which they do. Never waits.

pub(super) mod link;
pub(super) mod message;

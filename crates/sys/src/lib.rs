//! Placeholder header, replaced within this session.

pub mod packet;
pub mod probe;

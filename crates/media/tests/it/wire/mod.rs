//! Packets given to the network by every method: what arrives is what was built, each packet
//! once and in order.

mod groups;
mod methods;
pub(crate) mod support;

//! Packets given to the network by every method: what arrives is what was laid out, each packet
//! once and in order.

mod groups;
mod methods;
mod support;

//! Taking back what ports that died left with the core.
//!
//! An endpoint whose port died goes on holding slots in its row, and its session stays open at the
//! core. If another port attaches, that port takes everything back; if none does within [`LOOKS`]
//! looks, the agent does: so nothing is lost either way, and what the dead one had published is
//! still worked off.

use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hythe_node::Node;
use hythe_node::hop::{HopNode as _, HopPool as _};

use crate::boot::Endpoint;
use crate::link::{LinkMap, abandoned};

/// How often it looks.
const LOOK: Duration = Duration::from_millis(250);
/// Looks after which what nobody works off any more is taken back: one second.
const LOOKS: u32 = 4;
/// How long the core may take to let go, until the next try.
const BOUND: Duration = Duration::from_millis(300);

/// Looks after endpoints that nobody is attached to, until `over`. Unpark the thread to end it at
/// once.
pub(crate) fn run(node: &Node, link: &LinkMap, endpoints: &[Endpoint], over: &AtomicBool) {
    let mut looks = vec![0; endpoints.len()];
    loop {
        thread::park_timeout(LOOK);
        if over.load(Ordering::Acquire) {
            return;
        }
        for (endpoint, looks) in endpoints.iter().zip(&mut looks) {
            let channel = node.pool().control().tables().channel(endpoint.channel);
            let ours = channel.filter(|channel| channel.core == Some(endpoint.binding));
            let alone =
                ours.filter(|channel| abandoned::is_left_alone(node.participant(), link, channel));
            let Some(channel) = alone else {
                *looks = 0;
                continue;
            };
            *looks += 1;
            if *looks >= LOOKS {
                match abandoned::take_back(node.participant(), link, &channel, BOUND) {
                    Ok(done) => tracing::debug!(channel = channel.name, done, "took back"),
                    Err(error) => {
                        tracing::warn!(channel = channel.name, %error, "could not take back")
                    }
                }
            }
        }
    }
}

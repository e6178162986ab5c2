//! How the Linux side waits: it looks again and again, or sleeps on its node's bell.

use std::time::Duration;

use hythe_node::Node;
use hythe_node::hop::HopNode as _;

use super::case::Wait;
use crate::error::BenchError;
use crate::lookout::{BoundedWait, Lookout};

/// A ring that an emulator has lost costs this much at most: as long as the product's own waits for
/// a core sleep.
pub(super) const NAP: Duration = Duration::from_millis(20);

/// What a wait of a run needs.
#[derive(Clone, Copy, Debug)]
pub(super) struct Waiting<'a> {
    pub(super) wait: Wait,
    pub(super) node: &'a Node,
    pub(super) lookout: &'a Lookout,
}

impl Waiting<'_> {
    /// Waits until `attempt` has something.
    #[inline]
    pub(super) fn until<T>(
        self,
        mut attempt: impl FnMut() -> Result<Option<T>, hythe_node::NodeError>,
    ) -> Result<T, BenchError> {
        let mut patience = BoundedWait::new(self.lookout);
        loop {
            let got = match self.wait {
                Wait::Poll => attempt()?,
                // Never spins.
                Wait::Bell => self.node.wait_until(NAP, NAP, &mut attempt)?,
            };
            match got {
                Some(got) => return Ok(got),
                None if self.wait == Wait::Poll => patience.spin()?,
                None => patience.look_up()?,
            }
        }
    }
}

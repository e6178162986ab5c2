//! The pool of `hythe media send`: of its own, unless one is named or the input is a channel.
//!
//! Nobody else has a part in what a file becomes, and a pool that stays would be memory that nobody
//! gives back.

use hythe::{ClassPlan, Geometry, Node, NodeError, Pool, PoolOptions};
use hythe_command::args::Globals;
use hythe_command::error::CliError;

/// Where pages cannot be lent to the network stack, packets are built in the pool's own slots:
/// eight ahead of their instant, two spare ones, and for repair those that left. 8 MiB.
const SLOTS: ClassPlan = ClassPlan {
    payload_bytes: (256 << 10) - 256,
    count: 32,
};

/// Takes part in the pool that `hythe media send` works with.
pub(super) fn join(is_channel: bool, globals: &Globals) -> Result<Node, CliError> {
    const NAME: &str = "hythe media send";
    if is_channel || globals.pool.is_some() {
        return globals.join(NAME);
    }
    let geometry = Geometry::with_classes(Geometry::small_limits(), &[SLOTS]);
    let geometry = geometry.map_err(NodeError::from)?;
    let options = PoolOptions::new("media-send").geometry(geometry);
    Ok(Node::join(&Pool::create_private(&options)?, NAME)?)
}

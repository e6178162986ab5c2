//! Channels of values instead of bytes. Opening a port fails if the channel carries another type.
//!
//! ```
//! use std::time::Duration;
//! use hythe::prelude::*;
//! use hythe::typed::Payload;
//! use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};
//!
//! #[derive(FromBytes, IntoBytes, Immutable, KnownLayout)]
//! #[repr(C)]
//! struct Pose {
//!     position: [f64; 3],
//!     heading: f64,
//! }
//!
//! impl Payload for Pose {
//!     const NAME: &'static str = "pose";
//! }
//!
//! # fn main() -> Result<(), hythe::NodeError> {
//! # let pool = Pool::create_private(&PoolOptions::new("example").bytes(16 << 20))?;
//! let node = Node::join(&pool, "robot")?;
//! let mut poses = node.typed_subscriber::<Pose>("poses", &SubscriberOptions::default())?;
//! let mut publisher = node.typed_publisher::<Pose>("poses", &PublisherOptions::default())?;
//! publisher.publish(&Pose { position: [1.0, 2.0, 3.0], heading: 0.5 })?;
//!
//! // Copied out whole, or only the field that is wanted.
//! let sample = poses.take(Duration::from_secs(1))?.expect("one pose");
//! assert_eq!(sample.field(&hythe::field!(Pose, heading)), 0.5);
//! assert_eq!(sample.read().position, [1.0, 2.0, 3.0]);
//!
//! // Numbers and arrays need no `impl`.
//! let mut counts = node.typed_publisher::<u64>("counts", &PublisherOptions::default())?;
//! counts.publish(&42)?;
//! # Ok(())
//! # }
//! ```

pub use hythe_node::typed::*;

//! Pools as directories, participants as processes, channels between them.
//!
//! [`Pool`] is the directory: it is created, opened, inspected and removed. [`Node`] is this
//! process as a participant: it leases buffers, opens [`Publisher`]s and [`Subscriber`]s, and runs
//! one watcher thread that recovers what dead peers held. Request/reply channels have a [`Client`]
//! and a [`Server`], event channels a [`Notifier`] and a [`Listener`]. [`typed`] carries values
//! instead of bytes. A [`WaitSet`] waits for many ports at once. A channel may lead to an RTOS core
//! or the network: crates of other hops register a transport for it ([`hop`]), and the ports stay
//! the same.
//!
//! ```
//! # fn main() -> Result<(), hythe_node::NodeError> {
//! # let root = std::env::temp_dir().join(format!("hythe-doc-{}", std::process::id()));
//! use std::time::Duration;
//! use hythe_node::{Node, Pool, PoolOptions, PublisherOptions, SubscriberOptions};
//!
//! let options = PoolOptions::new("example").root(&root).bytes(16 << 20);
//! let pool = Pool::open_or_create(&options)?;
//! let node = Node::join(&pool, "doc-test")?;
//! let mut subscriber = node.subscriber("greetings", &SubscriberOptions::default())?;
//! let mut publisher = node.publisher("greetings", &PublisherOptions::default())?;
//!
//! let mut lease = node.lease(64)?;
//! lease.write(0, b"good morning");
//! publisher.publish(lease, 12)?;
//!
//! let sample = subscriber.take(Duration::from_secs(1))?.expect("one message");
//! assert_eq!(sample.to_vec(), b"good morning");
//! # drop((sample, subscriber, publisher, node));
//! # Pool::remove(&options)?;
//! # std::fs::remove_dir_all(&root).ok();
//! # Ok(())
//! # }
//! ```
//!
//! Never puts payload through a daemon, never waits without a bound, never decides a death by a
//! timer.

mod bridge;
mod buffer;
mod card;
mod clock;
mod contention;
mod crowd;
mod delivery;
mod doorbell;
mod ends;
mod error;
mod event;
mod evicting;
mod history;
mod holders;
#[doc(hidden)]
pub mod hop;
mod host_agent;
mod host_question;
mod interrupt;
mod joining;
mod leasing;
mod lost;
mod node;
pub mod object;
mod open_counts;
mod participant;
mod pool;
mod port;
mod prefault;
mod publisher;
mod quota;
mod request;
mod reserve;
mod routes;
pub mod rpc;
mod sleep_word_guard;
mod sleep_words;
mod sources;
mod spin;
mod spinner;
mod subscriber;
mod transport;
pub mod typed;
mod unconnected;
mod wait;
mod wait_set;
mod watcher;
mod wire;

pub use buffer::{Lease, Sample};
pub use clock::monotonic_ns;
pub use delivery::Published;
pub use error::{Exhausted, LargerPool, NodeError, ServerLoss, Share, SizeBound};
pub use event::{EventId, EventSet, Listener, Notifier};
pub use history::HISTORY_MAX;
pub use hythe_abi::link::Direction;
pub use hythe_abi::pool::Limits;
pub use hythe_abi::{HEADROOM_BYTES, Place, RegionIndex};
pub use hythe_memory::{PIECES_PER_CALL, Pieces, TrustPeers, faults};
pub use hythe_pool::{
    Audit, ChannelIndex, ChannelInfo, ChannelKind, ChannelType, ClassHighWater, ClassPlan,
    ConnectionIndex, ConnectionInfo, CoreBinding, CoreRegionPlan, Geometry, HighWater, HolderKind,
    IncompatibleChannel, LinkPlace, MemberIndex, MemberInfo, MemberKind, MemberStatus, PoolError,
    PortIndex, PortInfo, PortKind, PortPolicy, PortStatistics, Recovered, RegionGeometry,
    RegionKind, SegmentPlace, SlotClass, Term,
};
pub use node::Node;
pub use pool::Pool;
pub use pool::accounts::{group_id, user_id};
pub use pool::introspect::{HeldBuffer, Snapshot};
pub use pool::options::{GroupAccess, PoolOptions, default_root};
pub use pool::peers::Liveness;
pub use pool::process::{identity_of, own_identity};
pub use pool::size_limit::default_bytes;
pub use publisher::{Publisher, PublisherOptions};
pub use request::{
    Client, ClientOptions, PendingReply, Reply, Request, Responder, Server, ServerOptions,
};
pub use subscriber::{Subscriber, SubscriberOptions};
pub use wait_set::{Event, Interest, Token, WaitSet, Waitable};
pub use wire::WireOptions;

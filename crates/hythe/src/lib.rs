//! Hythe: one pool of shared memory, from flash to wire.
//!
//! # In one minute
//!
//! A **pool** is named shared memory of this machine. It is created on first use; there is no
//! daemon. Programs that join it exchange messages over named **channels**. A sender **leases** a
//! buffer of the pool, writes its data into it and publishes it. A receiver takes a **sample**: the
//! same bytes, read in place. Only a descriptor of 16 bytes is copied. When the last receiver has
//! dropped its sample, the buffer is free again. When a program dies, its buffers are released.
//!
//! | task | API |
//! | --- | --- |
//! | send messages to many | [`Publisher`], [`Subscriber`] ([below](#publish-and-subscribe)) |
//! | send a request and get a reply | [`request`] |
//! | call methods by number | [`rpc`] |
//! | signal an event without data | [`event`] |
//! | wait for many channels and file descriptors at once | [`wait`] |
//! | send values of a type instead of bytes | [`typed`] |
//! | exchange messages with an RTOS on another core | `core`, with the same ports |
//! | send and receive RTP without copies | `media` |
//! | be a task: messages by task and tag, spawning, groups | `tasks` |
//! | record a channel to a file | `recording` |
//! | list which program holds which buffer | [`Pool::snapshot`], [`inspect`] |
//!
//! Cargo features of this crate: `core` and `host` (on by default), `tasks`, `rtp`, `media`,
//! `recording`, `preload`, `latency`.
//!
//! **Trust.** A peer may write the memory that you read, at any time. So [`Sample::read`] and
//! [`Sample::to_vec`] copy the bytes, and no function returns a reference to them: check the copy,
//! then use the copy. If you trust every program of a pool, create a [`TrustPeers`] once;
//! [`Sample::as_slice`] takes it and reads in place.
//!
//! # Publish and subscribe
//!
//! ```
//! use std::time::Duration;
//! use hythe::prelude::*;
//!
//! # fn main() -> Result<(), hythe::NodeError> {
//! // A private pool, for this example. The usual call is
//! // `Pool::open_or_create(&PoolOptions::new("default"))`.
//! let pool = Pool::create_private(&PoolOptions::new("example").bytes(16 << 20))?;
//! let node = Node::join(&pool, "greeter")?;
//! let mut subscriber = node.subscriber("greetings", &SubscriberOptions::default())?;
//! let mut publisher = node.publisher("greetings", &PublisherOptions::default())?;
//!
//! let mut lease = publisher.lease(12)?;
//! lease.write(0, b"good morning");
//! publisher.publish(lease, 12)?;
//!
//! let sample = subscriber.take(Duration::from_secs(1))?.expect("one message");
//! assert_eq!(sample.to_vec(), b"good morning");
//!
//! // Or without a copy, if all programs of this pool are trusted.
//! let trust = hythe::TrustPeers::i_trust_every_writer_of_this_pool();
//! assert_eq!(sample.as_slice(trust), b"good morning");
//! # Ok(())
//! # }
//! ```
//!
//! A subscriber chooses what happens when its queue is full ([`SubscriberOptions::policy`]), and a
//! publisher how long it waits for full queues ([`PublisherOptions::send_timeout`]).
//!
//! # Signals
//!
//! A signal does not end a wait: the call continues behind the handler, until its time-out.
//! [`Node::interrupt`](hythe_node::Node::interrupt) ends waits with [`NodeError::Interrupted`],
//! from any thread and from a signal handler: a program that Ctrl-C is to end in order calls it
//! there.
//!
//! # Late joiners
//!
//! ```
//! # use hythe::prelude::*;
//! # fn main() -> Result<(), hythe::NodeError> {
//! # let pool = Pool::create_private(&PoolOptions::new("example").bytes(16 << 20))?;
//! # let node = Node::join(&pool, "robot")?;
//! let mut publisher = node.publisher("position", &PublisherOptions::default().history(1))?;
//! publisher.publish(publisher.lease(8)?, 8)?;
//!
//! // Subscribes after the message was published, and still gets it.
//! let mut late = node.subscriber("position", &SubscriberOptions::default().history(1))?;
//! assert_eq!(publisher.subscribers()?, 1);
//! assert_eq!(late.try_take()?.map(|sample| sample.len()), Some(8));
//! # Ok(())
//! # }
//! ```
//!
//! # Tokio
//!
//! A [`wait::WaitSet`] is a file descriptor, so an event loop can wait for it:
//!
//! ```
//! use hythe::prelude::*;
//! use tokio::io::Interest;
//! use tokio::io::unix::AsyncFd;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let pool = Pool::create_private(&PoolOptions::new("example").bytes(16 << 20))?;
//! # let node = Node::join(&pool, "async")?;
//! let mut subscriber = node.subscriber("data", &SubscriberOptions::default())?;
//! let mut publisher = node.publisher("data", &PublisherOptions::default())?;
//! let mut wait_set = node.wait_set()?;
//! wait_set.attach(&mut subscriber)?;
//!
//! let runtime = tokio::runtime::Builder::new_current_thread().enable_io().build()?;
//! runtime.block_on(async {
//!     let mut wait_set = AsyncFd::with_interest(wait_set, Interest::READABLE)?;
//!     publisher.publish(publisher.lease(5)?, 5)?;
//!     let sample = loop {
//!         // Checks without waiting. Awaits the descriptor only if nothing is ready.
//!         if !wait_set.get_mut().wait(std::time::Duration::ZERO)?.is_empty() {
//!             break subscriber.try_take()?;
//!         }
//!         wait_set.readable().await?.clear_ready();
//!     };
//!     assert_eq!(sample.map(|sample| sample.len()), Some(5));
//!     Ok(())
//! })
//! # }
//! ```
//!
//! # When a process dies
//!
//! The remaining participants release all buffers that it held, whatever it was doing when it died:
//!
//! ```standalone_crate
//! use std::process::Command;
//! use std::time::{Duration, Instant};
//! use hythe::prelude::*;
//!
//! # fn main() -> Result<(), Box<dyn std::error::Error>> {
//! # let root = std::env::temp_dir().join(format!("hythe-dies-{}", std::process::id()));
//! # let root = std::env::var_os("EXAMPLE_ROOT").map_or(root, Into::into);
//! let options = PoolOptions::new("example").root(&root).bytes(16 << 20);
//! let pool = Pool::open_or_create(&options)?;
//! if std::env::var_os("EXAMPLE_ROOT").is_some() {
//!     // The other process: it holds a buffer until it is killed.
//!     let node = Node::join(&pool, "victim")?;
//!     let _held = node.lease(1000)?;
//!     loop {
//!         std::thread::park();
//!     }
//! }
//! let _node = Node::join(&pool, "witness")?;
//! let mut victim = Command::new(std::env::current_exe()?).env("EXAMPLE_ROOT", &root).spawn()?;
//! let begun = Instant::now();
//! let until = |held: u32| {
//!     while pool.snapshot().audit.held != held {
//!         assert!(begun.elapsed() < Duration::from_secs(60));
//!         std::thread::sleep(Duration::from_millis(5));
//!     }
//! };
//! until(1);
//! victim.kill()?;
//! until(0);
//! # victim.wait()?;
//! # drop((_node, pool));
//! # Pool::remove(&options)?;
//! # std::fs::remove_dir_all(&root)?;
//! # Ok(())
//! # }
//! ```
//!
//! This crate re-exports the crates of the hops under one name. It never adds behaviour of its own,
//! with one exception: [`Node::join`] registers the hops with the node.

#[cfg(feature = "core")]
pub mod core;
pub mod event;
pub mod inspect;
mod node;
pub mod prelude;
pub mod request;
pub mod rpc;
pub mod sync;
#[cfg(feature = "tasks")]
pub mod tasks;
pub mod typed;
pub mod wait;

pub use hythe_node::{
    ChannelKind, ChannelType, ClassPlan, Exhausted, Geometry, GroupAccess, HEADROOM_BYTES,
    HISTORY_MAX, LargerPool, Lease, Limits, Liveness, NodeError, PIECES_PER_CALL, Pieces, Place,
    Pool, PoolError, PoolOptions, PortPolicy, PortStatistics, Published, Publisher,
    PublisherOptions, RegionIndex, Sample, Share, SizeBound, Subscriber, SubscriberOptions,
    TrustPeers, WireOptions, default_bytes, default_root, faults, field, group_id, monotonic_ns,
    user_id,
};
pub use node::Node;

#[cfg(feature = "latency")]
pub use hythe_latency as latency;
#[cfg(feature = "media")]
pub use hythe_media as media;
#[cfg(feature = "preload")]
pub use hythe_preload as preload;
#[cfg(feature = "recording")]
pub use hythe_recording as recording;
#[cfg(feature = "core")]
pub use hythe_rtcore::segment;
#[cfg(feature = "rtp")]
pub use hythe_rtp as rtp;

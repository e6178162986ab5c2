//! Typed channels: values and slices of plain types instead of bytes, refused at connection if
//! name, size, alignment or version differ.
//!
//! A type that is [`Payload`] has no padding and no forbidden bytes (`zerocopy` proves it), so
//! whatever a peer writes is *some* value of it. But the peer may still be writing while we read:
//! so a received value is copied out ([`TypedSample::read`]), or only those of its fields that are
//! wanted ([`TypedSample::field`]); a reference into shared memory is had by decision of trust only
//! ([`TypedSample::trusted`]). What has another length than the channel's type is a peer's doing:
//! skipped and counted.
//!
//! ```
//! # fn main() -> Result<(), hythe_node::NodeError> {
//! # let root = std::env::temp_dir().join(format!("hythe-typed-{}", std::process::id()));
//! use std::time::Duration;
//! use hythe_node::typed::Payload;
//! use hythe_node::{Node, Pool, PoolOptions, PublisherOptions, SubscriberOptions, field};
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
//!     const VERSION: u32 = 1;
//! }
//!
//! let options = PoolOptions::new("example").root(&root).bytes(16 << 20);
//! let node = Node::join(&Pool::open_or_create(&options)?, "doc-test")?;
//! let mut poses = node.typed_subscriber::<Pose>("poses", &SubscriberOptions::default())?;
//! let mut publisher = node.typed_publisher::<Pose>("poses", &PublisherOptions::default())?;
//! publisher.publish(&Pose { position: [1.0, 2.0, 3.0], heading: 0.5 })?;
//!
//! let sample = poses.take(Duration::from_secs(1))?.expect("one pose");
//! assert_eq!(sample.field(&field!(Pose, heading)), 0.5);
//! assert_eq!(sample.read().position, [1.0, 2.0, 3.0]);
//! # drop((sample, poses, publisher, node));
//! # Pool::remove(&options)?;
//! # std::fs::remove_dir_all(&root).ok();
//! # Ok(())
//! # }
//! ```
//!
//! Used by applications. Never hands out a reference to bytes that a peer may write, but by
//! [`crate::TrustPeers`].

mod plain;
mod publish;
mod request;
mod sample;

use std::marker::PhantomData;

use hythe_pool::ChannelType;
use zerocopy::{FromBytes, Immutable, IntoBytes, KnownLayout};

pub use publish::{TypedLease, TypedPublisher, TypedSubscriber};
pub use request::{TypedClient, TypedRequest, TypedServer};
pub use sample::TypedSample;

/// Messages of a wrong length that one wait passes over once its time is over: as many as the
/// longest queue holds.
const SKIPPED_MAX: u32 = 32768;

/// A plain type that channels carry. Both sides must give it the same name, version, size and
/// alignment.
///
/// Integers and floating-point numbers are payload under their own names (`u32`, `f64`), and so are
/// arrays of payload (`[f64; 3]`), without more ado.
pub trait Payload: FromBytes + IntoBytes + Immutable + KnownLayout {
    /// What it is called on both sides, at most 64 bytes (less for slices and requests).
    const NAME: &'static str;
    /// Raised when its fields come to mean something else.
    const VERSION: u32 = 0;
}

/// What one message of a channel is: a value of a [`Payload`] type, or a slice of as many as the
/// sender likes.
pub trait Carried: IntoBytes + Immutable {
    /// The value, or what the slice is of.
    type Element: Payload;

    /// What is compared when a port opens.
    #[must_use]
    fn channel_type() -> ChannelType;

    /// May one message have so many bytes?
    #[must_use]
    fn takes(bytes: usize) -> bool;
}

impl<T: Payload> Carried for T {
    type Element = T;

    fn channel_type() -> ChannelType {
        named::<T>(T::NAME.to_owned())
    }

    fn takes(bytes: usize) -> bool {
        bytes == size_of::<T>()
    }
}

impl<T: Payload> Carried for [T] {
    type Element = T;

    fn channel_type() -> ChannelType {
        named::<T>(format!("[{}]", T::NAME))
    }

    fn takes(bytes: usize) -> bool {
        bytes.checked_rem(size_of::<T>()) == Some(0)
    }
}

/// The type of a channel whose requests are `Q` and whose replies are `R`: that of the requests,
/// with the replies in its name.
fn request_type<Q: Carried + ?Sized, R: Carried + ?Sized>() -> ChannelType {
    let (asked, replied) = (Q::channel_type(), R::channel_type());
    let name = format!(
        "{}->{}@{}:{}/{}",
        asked.name, replied.name, replied.version, replied.bytes, replied.align
    );
    ChannelType { name, ..asked }
}

fn named<T: Payload>(name: String) -> ChannelType {
    // Both saturate: a type of 4 GiB fits no slot, and says so when it is leased.
    let word = |bytes: usize| u32::try_from(bytes).unwrap_or(u32::MAX);
    ChannelType {
        name,
        bytes: word(size_of::<T>()),
        align: word(align_of::<T>()),
        version: T::VERSION,
    }
}

/// Where a field of type `F` stands in a `T`: made by [`field!`](crate::field).
pub struct Field<T, F> {
    offset: usize,
    of: PhantomData<fn(&T) -> F>,
}

impl<T, F> Field<T, F> {
    /// For [`field!`](crate::field), which finds both out. The function is there for its type only.
    ///
    /// # Panics
    /// If the field is not inside the value.
    #[must_use]
    pub const fn new(offset: usize, _: fn(&T) -> *const F) -> Self {
        assert!(offset <= size_of::<T>() && size_of::<F>() <= size_of::<T>() - offset);
        Self {
            offset,
            of: PhantomData,
        }
    }

    /// From the first byte of the value.
    #[must_use]
    pub const fn offset(&self) -> usize {
        self.offset
    }
}

impl<T, F> std::fmt::Debug for Field<T, F> {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} bytes at {}", size_of::<F>(), self.offset)
    }
}

/// A field of a type, by name (`field!(Pose, heading)`; nested: `field!(Pose, position.x)`): for
/// [`TypedSample::field`](crate::typed::TypedSample::field) and
/// [`TypedLease::set`](crate::typed::TypedLease::set).
#[macro_export]
macro_rules! field {
    ($type:ty, $($name:tt).+) => {
        $crate::typed::Field::new(
            ::core::mem::offset_of!($type, $($name).+),
            |value: &$type| &raw const value.$($name).+,
        )
    };
}

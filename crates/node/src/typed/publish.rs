//! Typed publishing and subscribing, over the ports for bytes.

use std::marker::PhantomData;
use std::time::{Duration, Instant};

use zerocopy::{Immutable, IntoBytes};

use super::{Carried, Field, Payload, SKIPPED_MAX, TypedSample};
use crate::wait_set::Waitable;
use crate::wait_set::sealed::{Parts, PortParts};
use crate::{
    Lease, Node, NodeError, Published, Publisher, PublisherOptions, Subscriber, SubscriberOptions,
};

impl Node {
    /// Opens a publisher of values (`T`) or of slices (`[T]`).
    ///
    /// # Errors
    /// As [`Node::publisher`].
    pub fn typed_publisher<V: Carried + ?Sized>(
        &self,
        channel: &str,
        options: &PublisherOptions,
    ) -> Result<TypedPublisher<V>, NodeError> {
        let options = options.clone().carries(V::channel_type());
        Ok(TypedPublisher {
            publisher: self.publisher(channel, &options)?,
            of: PhantomData,
        })
    }

    /// Opens a subscriber to values (`T`) or to slices (`[T]`).
    ///
    /// # Errors
    /// As [`Node::subscriber`].
    pub fn typed_subscriber<V: Carried + ?Sized>(
        &self,
        channel: &str,
        options: &SubscriberOptions,
    ) -> Result<TypedSubscriber<V>, NodeError> {
        let options = options.clone().carries(V::channel_type());
        Ok(TypedSubscriber {
            subscriber: self.subscriber(channel, &options)?,
            of: PhantomData,
        })
    }
}

/// A publisher of values or slices.
#[derive(Debug)]
pub struct TypedPublisher<V: Carried + ?Sized> {
    publisher: Publisher,
    of: PhantomData<fn(&V)>,
}

impl<V: Carried + ?Sized> TypedPublisher<V> {
    /// Copies a value into a buffer and publishes it. To write it in place instead, lease.
    ///
    /// # Errors
    /// As [`Publisher::lease`] and [`Publisher::publish`].
    pub fn publish(&mut self, value: &V) -> Result<Published, NodeError> {
        let bytes = value.as_bytes();
        let mut lease = self.publisher.lease(bytes.len())?;
        lease.write(0, bytes);
        self.publisher.publish(lease, bytes.len())
    }

    /// Publishes what was written into a leased buffer.
    ///
    /// # Errors
    /// As [`Publisher::publish`].
    pub fn publish_lease(&mut self, lease: TypedLease<V>) -> Result<Published, NodeError> {
        self.publisher.publish(lease.lease, lease.bytes)
    }

    /// Publishes a received value without copying.
    ///
    /// # Errors
    /// As [`Publisher::forward`].
    pub fn forward(&mut self, sample: TypedSample<V>) -> Result<Published, NodeError> {
        self.publisher.forward(sample.into_raw())
    }

    /// Publishes a copy of a received value in a buffer that every receiver can see.
    ///
    /// # Errors
    /// As [`Publisher::forward_copy`].
    pub fn forward_copy(&mut self, sample: &TypedSample<V>) -> Result<Published, NodeError> {
        self.publisher.forward_copy(sample.raw())
    }

    /// The port for bytes: to wait for subscribers, to flush, to see what it counted. What is
    /// published through it must be what the channel carries, or every typed subscriber skips it.
    pub const fn raw(&mut self) -> &mut Publisher {
        &mut self.publisher
    }
}

impl<T: Payload> TypedPublisher<T> {
    /// Leases a buffer for one value. Until it is written, it holds what the slot held before.
    ///
    /// # Errors
    /// As [`Publisher::lease`].
    pub fn lease(&self) -> Result<TypedLease<T>, NodeError> {
        lease(&self.publisher, size_of::<T>())
    }
}

impl<T: Payload> TypedPublisher<[T]> {
    /// Leases a buffer for `count` values. Until they are written, it holds what the slot held
    /// before.
    ///
    /// # Errors
    /// As [`Publisher::lease`].
    pub fn lease(&self, count: usize) -> Result<TypedLease<[T]>, NodeError> {
        // Saturated, it is too large for any slot.
        lease(&self.publisher, count.saturating_mul(size_of::<T>()))
    }
}

fn lease<V: Carried + ?Sized>(
    publisher: &Publisher,
    bytes: usize,
) -> Result<TypedLease<V>, NodeError> {
    Ok(TypedLease {
        lease: publisher.lease(bytes)?,
        bytes,
        of: PhantomData,
    })
}

/// The exclusive right to write a value, or slice of values, in place.
#[derive(Debug)]
pub struct TypedLease<V: Carried + ?Sized> {
    lease: Lease,
    bytes: usize,
    of: PhantomData<fn(&V)>,
}

impl<T: Payload> TypedLease<T> {
    /// Writes the whole value.
    pub fn write(&mut self, value: &T) {
        self.lease.write(0, value.as_bytes());
    }

    /// Writes one field.
    pub fn set<F: IntoBytes + Immutable>(&mut self, field: &Field<T, F>, value: &F) {
        self.lease.write(field.offset(), value.as_bytes());
    }
}

impl<T: Payload> TypedLease<[T]> {
    /// How many values.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self.bytes.checked_div(size_of::<T>()) {
            Some(count) => count,
            None => 0,
        }
    }

    /// Is there none?
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// Writes values, from `index` on.
    ///
    /// # Panics
    /// If they do not fit.
    pub fn write(&mut self, index: usize, values: &[T]) {
        let end = index.checked_add(values.len());
        assert!(
            end.is_some_and(|end| end <= self.len()),
            "{} values at {index} do not fit a buffer of {}",
            values.len(),
            self.len()
        );
        self.lease.write(index * size_of::<T>(), values.as_bytes());
    }
}

/// A subscriber to values or slices.
#[derive(Debug)]
pub struct TypedSubscriber<V: Carried + ?Sized> {
    subscriber: Subscriber,
    of: PhantomData<fn(&V)>,
}

impl<V: Carried + ?Sized> Waitable for TypedSubscriber<V> {}

impl<V: Carried + ?Sized> Parts for TypedSubscriber<V> {
    fn parts(&mut self) -> PortParts<'_> {
        self.subscriber.parts()
    }
}

impl<V: Carried + ?Sized> TypedSubscriber<V> {
    /// Takes the next sample, waiting for at most `timeout`. `None`: there was none. One of a wrong
    /// length is skipped, and counted as a violation.
    ///
    /// # Errors
    /// As [`Subscriber::take`].
    pub fn take(&mut self, timeout: Duration) -> Result<Option<TypedSample<V>>, NodeError> {
        let (start, mut late) = (Instant::now(), 0);
        while late < SKIPPED_MAX {
            let left = timeout.saturating_sub(start.elapsed());
            let Some(sample) = self.subscriber.take(left)? else {
                return Ok(None);
            };
            match TypedSample::new(sample) {
                Ok(sample) => return Ok(Some(sample)),
                Err(_) => self.subscriber.note_violation(),
            }
            late += u32::from(left.is_zero());
        }
        Ok(None)
    }

    /// Takes the next sample if there is one.
    ///
    /// # Errors
    /// As [`TypedSubscriber::take`].
    pub fn try_take(&mut self) -> Result<Option<TypedSample<V>>, NodeError> {
        for _ in 0..SKIPPED_MAX {
            let Some(sample) = self.subscriber.try_take()? else {
                return Ok(None);
            };
            match TypedSample::new(sample) {
                Ok(sample) => return Ok(Some(sample)),
                Err(_) => self.subscriber.note_violation(),
            }
        }
        Ok(None)
    }

    /// The port for bytes: to see publishers and what was counted.
    pub const fn raw(&mut self) -> &mut Subscriber {
        &mut self.subscriber
    }
}

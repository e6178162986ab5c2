//! Several messages by one call.

use hythe_node::{Lease, Publisher, Sample, Subscriber};

use crate::error::BenchError;

/// Publishes all of them, each with so many bytes. Returns how many reached their subscriber.
#[inline]
pub(super) fn publish_batch(
    publisher: &mut Publisher,
    batch: &mut Vec<Lease>,
    bytes: usize,
) -> Result<u64, BenchError> {
    let published = publisher.publish_batch(batch.drain(..).map(|lease| (lease, bytes)))?;
    Ok(published.delivered.into())
}

/// Takes what is there, at most `count`, to the end of `batch`.
#[inline]
pub(super) fn take_batch(
    subscriber: &mut Subscriber,
    batch: &mut Vec<Sample>,
    count: usize,
) -> Result<(), BenchError> {
    subscriber.try_take_batch(count - batch.len(), batch)?;
    Ok(())
}

//! A received payload with its type: a claim of its sender, read by copying.

use std::marker::PhantomData;

use zerocopy::{FromBytes, IntoBytes};

use super::{Carried, Field, Payload};
use crate::buffer::Sample;
use crate::{NodeError, TrustPeers};

/// A received value, or slice of values. Dropped, it is released; forwarded, it travels on
/// uncopied.
#[derive(Debug)]
pub struct TypedSample<V: Carried + ?Sized> {
    sample: Sample,
    of: PhantomData<fn(&V)>,
}

impl<V: Carried + ?Sized> TypedSample<V> {
    /// Takes a sample for what the type says.
    ///
    /// # Errors
    /// [`NodeError::NotThisType`] if it has another length.
    pub fn new(sample: Sample) -> Result<Self, NodeError> {
        if !V::takes(sample.len()) {
            return Err(no::<V>(&sample, "the length is not the type's"));
        }
        Ok(Self {
            sample,
            of: PhantomData,
        })
    }

    /// The bytes as they came.
    #[must_use]
    pub const fn raw(&self) -> &Sample {
        &self.sample
    }

    /// The bytes as they came, for channels that carry something else.
    #[must_use]
    pub fn into_raw(self) -> Sample {
        self.sample
    }

    /// Copies what stands at this byte of the payload. The caller knows that it is inside.
    fn copy<F: FromBytes + IntoBytes>(&self, at: usize) -> F {
        let mut copy = F::new_zeroed();
        self.sample.read(at, copy.as_mut_bytes());
        copy
    }
}

impl<T: Payload> TypedSample<T> {
    /// A copy of the value.
    #[must_use]
    pub fn read(&self) -> T {
        self.copy(0)
    }

    /// A copy of one field: reads no other bytes.
    #[must_use]
    pub fn field<F: FromBytes + IntoBytes>(&self, field: &Field<T, F>) -> F {
        self.copy(field.offset())
    }

    /// The value in place, by decision of trust.
    ///
    /// # Errors
    /// [`NodeError::NotThisType`] if it was sent from an address that is not aligned for it, as a
    /// part of a buffer may be.
    pub fn trusted(&self, decision: TrustPeers) -> Result<&T, NodeError> {
        T::ref_from_bytes(self.sample.as_slice(decision))
            .map_err(|_| no::<T>(&self.sample, "the payload is not aligned for it"))
    }
}

impl<T: Payload> TypedSample<[T]> {
    /// How many values.
    #[must_use]
    pub const fn len(&self) -> usize {
        match self.sample.len().checked_div(size_of::<T>()) {
            Some(count) => count,
            None => 0,
        }
    }

    /// Is there none?
    #[must_use]
    pub const fn is_empty(&self) -> bool {
        self.len() == 0
    }

    /// A copy of one value; `None` behind the last.
    #[must_use]
    pub fn read(&self, index: usize) -> Option<T> {
        (index < self.len()).then(|| self.copy(index * size_of::<T>()))
    }

    /// A copy of one field of one value; `None` behind the last.
    #[must_use]
    pub fn field<F: FromBytes + IntoBytes>(&self, index: usize, field: &Field<T, F>) -> Option<F> {
        (index < self.len()).then(|| self.copy(index * size_of::<T>() + field.offset()))
    }

    /// Copies of all values, one after the other.
    pub fn iter(&self) -> impl Iterator<Item = T> {
        (0..self.len()).filter_map(|index| self.read(index))
    }

    /// The values in place, by decision of trust.
    ///
    /// # Errors
    /// As [`TypedSample::trusted`] of a single value.
    pub fn trusted_slice(&self, decision: TrustPeers) -> Result<&[T], NodeError> {
        <[T]>::ref_from_bytes(self.sample.as_slice(decision))
            .map_err(|_| no::<[T]>(&self.sample, "the payload is not aligned for it"))
    }
}

fn no<V: Carried + ?Sized>(sample: &Sample, reason: &'static str) -> NodeError {
    NodeError::NotThisType {
        carries: V::channel_type().to_string(),
        bytes: sample.len(),
        offset: sample.descriptor().offset,
        reason,
    }
}

//! Several messages by one call, both ways: subscribers are looked after, and woken, once. Never
//! leaves a lease of the caller's behind.

use core::ffi::c_int;

use crate::ffi_guard::{Refusal, count, cross, missing, open_mut};
use crate::lease::{self, hythe_lease};
use crate::publisher::{hythe_published, hythe_publisher, tell};
use crate::sample::{self, hythe_sample};
use crate::subscriber::hythe_subscriber;

/// A message of a batch.
#[repr(C)]
#[derive(Debug)]
pub struct hythe_message {
    /// The leased buffer. NULL once it was given away.
    pub lease: *mut hythe_lease,
    /// How many of its bytes are the payload.
    pub bytes: usize,
}

/// The caller's messages, of which none keeps its lease, whatever happens.
struct Batch<'a>(&'a mut [hythe_message]);

impl<'a> Batch<'a> {
    /// # Safety
    /// `messages` is NULL, or points to `count` of them, which nobody else uses for `'a`.
    unsafe fn given(messages: *mut hythe_message, count: usize) -> Result<Self, Refusal> {
        if count == 0 {
            return Ok(Self(&mut []));
        }
        if messages.is_null() {
            return Err(missing("batch"));
        }
        if count > isize::MAX as usize / size_of::<hythe_message>() {
            let text = format!("{count} messages are more than there can be");
            return Err(Refusal::argument(text));
        }
        // SAFETY: not NULL and not longer than an object can be; the rest is the caller's word.
        Ok(Self(unsafe {
            core::slice::from_raw_parts_mut(messages, count)
        }))
    }
}

impl hythe_message {
    fn lease(&self) -> Option<&hythe_lease> {
        // SAFETY: NULL or a handle: the word of whoever gave the batch.
        unsafe { self.lease.as_ref() }
    }

    /// What the caller gives up; the message has it no more.
    fn take(&mut self) -> Option<&'static mut hythe_lease> {
        let lease = std::mem::replace(&mut self.lease, core::ptr::null_mut());
        // SAFETY: as above; where a handle leads to is never freed.
        unsafe { lease.as_mut() }
    }
}

impl Drop for Batch<'_> {
    fn drop(&mut self) {
        for message in &mut *self.0 {
            if let Some(lease) = message.take() {
                // What is refused is no lease of this process: there is nothing to release.
                let _ = lease::give_up(Some(lease));
            }
        }
    }
}

/// Publishes `count` messages in their order, at less cost than one by one. Returns the number of
/// subscribers that got a message, summed over all messages. `published` may be NULL; else it gets
/// the sums. HYTHE_EARGUMENT: one of the messages is invalid, and none was published. Any other
/// error: the messages before the one that failed were published (the statistics count them), the
/// rest were not. Always consumes every lease and sets it to NULL. Blocks as
/// hythe_publisher_publish() does for each message.
///
/// # Safety
/// `messages` points to `count` of them; `published` is NULL, or has its size set.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_publisher_publish_batch(
    publisher: Option<&mut hythe_publisher>,
    messages: *mut hythe_message,
    count: usize,
    published: *mut hythe_published,
) -> c_int {
    cross(|| {
        // SAFETY: the caller's word.
        let batch = unsafe { Batch::given(messages, count) }?;
        let port = open_mut(publisher)?;
        let origin = port.origin;
        for message in &*batch.0 {
            lease::check(message.lease(), origin, message.bytes)?;
        }
        let mut refused = None;
        let leases = batch.0.iter_mut().map_while(|message| {
            let lease = lease::give_up(message.take());
            let lease = lease::take_back(lease, origin, message.bytes);
            // Only one that stands in the batch twice.
            lease
                .map_err(|refusal| refused = Some(refusal))
                .ok()
                .map(|lease| (lease, message.bytes))
        });
        let done = port.publisher.publish_batch(leases)?;
        refused.map_or(Ok(()), Err)?;
        // SAFETY: the caller's word.
        unsafe { tell(done, published) }
    })
}

/// Takes at most `places` waiting samples, at less cost than one by one. Returns the number of
/// samples in `samples`; the other places get NULL. The caller owns each sample until it releases
/// or forwards it. An error after some samples is returned by the next call that takes. Does not
/// block.
///
/// # Safety
/// `samples` points to `places` pointers.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_subscriber_try_take_batch(
    subscriber: Option<&mut hythe_subscriber>,
    samples: *mut *mut hythe_sample,
    places: usize,
) -> c_int {
    cross(|| {
        if samples.is_null() && places > 0 {
            return Err(missing("place for samples"));
        }
        for at in 0..places {
            // SAFETY: `at` is less than `places`, of which the caller says that they are there.
            let place = unsafe { samples.add(at) };
            // SAFETY: as above.
            unsafe { place.write(core::ptr::null_mut()) };
        }
        let port = open_mut(subscriber)?;
        let (origin, taken) = (port.origin, port.take_batch(places)?);
        let number = taken.len();
        for (at, sample) in taken.enumerate() {
            // SAFETY: no more were taken than there are places.
            let place = unsafe { samples.add(at) };
            // SAFETY: as above.
            unsafe { place.write(sample::give(origin, sample)) };
        }
        Ok(count(number))
    })
}

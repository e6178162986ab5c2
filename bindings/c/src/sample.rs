//! `hythe_sample`: a received buffer, to read. Never writable; read in place only by decision of
//! trust.

use core::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::thread::LocalKey;

use hythe::{Sample, TrustPeers};

use crate::bytes::{inside, writable};
use crate::code;
use crate::ffi_guard::{Handle, Process, Refusal, cross, empty_place, missing, open, place};
use crate::handle_pool::{HandlePool, PooledHandle, Spare, held, pack, unpack};
use crate::lease::HYTHE_HEADROOM_BYTES;
use crate::origin::Origin;

/// A received buffer. Any number of threads may read it at once. Release or forward it when no
/// other thread uses it.
#[derive(Debug)]
pub struct hythe_sample {
    /// Only its address counts.
    _generation: u8,
}

thread_local! {
    static SAMPLES: HandlePool<hythe_sample> = const { HandlePool::new() };
}
static SPARE: Spare<hythe_sample> = Spare::new();

impl Handle for hythe_sample {
    const NOUN: &'static str = "sample";

    fn process(&self) -> Option<Process> {
        held(self).map(|(origin, _)| origin.process)
    }
}

impl PooledHandle for hythe_sample {
    type Held = (Origin, Sample);

    fn handle_pool() -> &'static LocalKey<HandlePool<Self>> {
        &SAMPLES
    }

    fn spare() -> &'static Spare<Self> {
        &SPARE
    }
}

/// A sample that belongs to another handle, and goes with it.
#[derive(Debug)]
pub(crate) struct Inner(*mut hythe_sample);

impl Inner {
    pub(crate) fn new(origin: Origin, sample: Sample) -> Self {
        Self(give(origin, sample))
    }

    pub(crate) const fn handle(&self) -> *const hythe_sample {
        self.0
    }

    fn take(&mut self) -> Result<Sample, Refusal> {
        // SAFETY: it was given by `give`, and places of handles are never freed.
        let handle = unsafe { self.0.as_mut() };
        unpack(handle).map(|(_, sample)| sample)
    }

    pub(crate) fn into_sample(mut self) -> Result<Sample, Refusal> {
        let sample = self.take();
        std::mem::forget(self);
        sample
    }
}

impl Drop for Inner {
    fn drop(&mut self) {
        // Refused: the program has released it by itself, which it must not, or is a forked child.
        let _ = self.take();
    }
}

/// As a handle of the caller's.
pub(crate) fn give(origin: Origin, sample: Sample) -> *mut hythe_sample {
    pack((origin, sample))
}

/// The result of a take: 1 with a sample, 0 without.
pub(crate) fn taken(
    place: &mut MaybeUninit<*mut hythe_sample>,
    origin: Origin,
    sample: Option<Sample>,
) -> c_int {
    match sample {
        Some(sample) => {
            place.write(give(origin, sample));
            1
        }
        None => 0,
    }
}

/// A sample that is given up in any case: taken apart before anything else is looked at.
pub(crate) fn give_up(sample: Option<&mut hythe_sample>) -> Result<(Origin, Sample), Refusal> {
    unpack(sample)
}

pub(crate) fn there(sample: Option<&hythe_sample>) -> Result<&(Origin, Sample), Refusal> {
    held(open(sample)?).ok_or_else(|| missing("sample"))
}

/// Bytes of payload. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_sample_length(sample: Option<&hythe_sample>) -> usize {
    let mut length = 0;
    cross(|| {
        length = there(sample)?.1.len();
        Ok(0)
    });
    length
}

/// Copies `count` bytes of the payload out, from its byte `at` on. HYTHE_EARGUMENT: the range is
/// not within the payload; nothing is copied. Other processes may still write the payload: check
/// the copy, then use the copy.
/// # Safety
/// `into` points to `count` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_sample_read(
    sample: Option<&hythe_sample>,
    at: usize,
    into: *mut c_void,
    count: usize,
) -> c_int {
    cross(|| {
        let (_, sample) = there(sample)?;
        // SAFETY: the caller's word.
        let into = unsafe { writable(into, count) }?;
        inside(at, count, sample.len(), "a payload")?;
        sample.read(at, into);
        sample.check_whole()?;
        Ok(0)
    })
}

/// Copies `count` bytes of the headroom out, from the buffer's byte `at` on. A part of a sample
/// has the headroom of the whole buffer. HYTHE_EARGUMENT: the range is not within
/// HYTHE_HEADROOM_BYTES.
/// # Safety
/// `into` points to `count` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_sample_read_headroom(
    sample: Option<&hythe_sample>,
    at: usize,
    into: *mut c_void,
    count: usize,
) -> c_int {
    cross(|| {
        let (_, sample) = there(sample)?;
        // SAFETY: the caller's word.
        let into = unsafe { writable(into, count) }?;
        inside(at, count, HYTHE_HEADROOM_BYTES as usize, "a headroom")?;
        sample.read_headroom(at, into);
        sample.check_whole()?;
        Ok(0)
    })
}

/// Messages of its publisher that did not reach this subscriber since the one before: dropped or
/// evicted, because it was slow, or lost on the way from another host. Its statistics count them,
/// too. At most 2^31 - 1. 0 for a sample that was not taken from a subscriber.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_sample_missed_before(sample: Option<&hythe_sample>) -> c_int {
    cross(|| {
        let (_, sample) = there(sample)?;
        Ok(c_int::try_from(sample.missed_before()).unwrap_or(c_int::MAX))
    })
}

/// The payload in place: hythe_sample_length() bytes from `*data` on, valid until the sample is
/// released or forwarded. HYTHE_ETRUST unless the pool was opened with `trust_peers`: a process
/// that may write the pool could change the bytes while they are read.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_sample_data(
    sample: Option<&hythe_sample>,
    data: Option<&mut MaybeUninit<*const c_void>>,
) -> c_int {
    cross(|| {
        let place = place(data, "place for the pointer")?;
        place.write(std::ptr::null());
        let (origin, sample) = there(sample)?;
        if !origin.trusts {
            let text = "reading in place trusts every writer of the pool: open it with trust_peers, or copy with hythe_sample_read()";
            return Err(Refusal::new(code::HYTHE_ETRUST, text));
        }
        // The program has decided so, where it opened the pool.
        let decision = TrustPeers::i_trust_every_writer_of_this_pool();
        place.write(sample.as_slice(decision).as_ptr().cast());
        Ok(0)
    })
}

/// Makes another sample of `count` bytes of this payload, from its byte `at` on, without copying:
/// both hold one buffer. The caller owns the result until it releases or forwards it. `sample`
/// stays valid.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_sample_part(
    sample: Option<&hythe_sample>,
    at: usize,
    count: usize,
    part: Option<&mut MaybeUninit<*mut hythe_sample>>,
) -> c_int {
    cross(|| {
        let place = empty_place(part)?;
        let (origin, sample) = there(sample)?;
        inside(at, count, sample.len(), "a payload")?;
        place.write(give(*origin, sample.part(at, count)?));
        Ok(0)
    })
}

/// Releases a sample, or does nothing for NULL. Consumes `sample`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_sample_release(sample: Option<&mut hythe_sample>) {
    if sample.is_some() {
        cross(|| unpack(sample).map(|_| 0));
    }
}

//! `hythe_lease`: the exclusive right to write a buffer. Never outlives a call that gives it away,
//! whatever that returns.

use core::ffi::{c_int, c_void};
use std::mem::MaybeUninit;
use std::os::fd::BorrowedFd;
use std::thread::LocalKey;

use hythe::{Lease, TrustPeers};

use crate::bytes::{inside, readable, writable};
use crate::ffi_guard::{
    Handle, Process, Refusal, count, cross, empty_place, missing, open, open_mut, place,
};
use crate::handle_pool::{HandlePool, PooledHandle, Spare, held, held_mut, pack, unpack};
use crate::origin::Origin;

/// Bytes in front of each payload, which travel with the buffer, also when it is forwarded.
pub const HYTHE_HEADROOM_BYTES: u32 = 256;
const _: () = assert!(HYTHE_HEADROOM_BYTES == hythe::HEADROOM_BYTES);

/// The exclusive right to write a buffer. One thread at a time, any thread.
#[derive(Debug)]
pub struct hythe_lease {
    /// Only its address counts.
    _generation: u8,
}

thread_local! {
    static LEASES: HandlePool<hythe_lease> = const { HandlePool::new() };
}
static SPARE: Spare<hythe_lease> = Spare::new();

impl Handle for hythe_lease {
    const NOUN: &'static str = "lease";

    fn process(&self) -> Option<Process> {
        held(self).map(|(origin, _)| origin.process)
    }
}

impl PooledHandle for hythe_lease {
    type Held = (Origin, Lease);

    fn handle_pool() -> &'static LocalKey<HandlePool<Self>> {
        &LEASES
    }

    fn spare() -> &'static Spare<Self> {
        &SPARE
    }
}

impl hythe_lease {
    fn lease(&self) -> Result<&Lease, Refusal> {
        let held = held(open(Some(self))?);
        held.map(|(_, lease)| lease).ok_or_else(|| missing("lease"))
    }

    fn lease_mut(&mut self) -> Result<&mut Lease, Refusal> {
        let held = held_mut(open_mut(Some(self))?);
        held.map(|(_, lease)| lease).ok_or_else(|| missing("lease"))
    }
}

/// A buffer that was leased, as a handle of the caller's.
pub(crate) fn lend(
    into: Option<&mut MaybeUninit<*mut hythe_lease>>,
    leased: impl FnOnce() -> Result<(Origin, Lease), Refusal>,
) -> c_int {
    cross(|| {
        let into = empty_place(into)?;
        into.write(pack(leased()?));
        Ok(0)
    })
}

/// Back from the caller, for a port of `origin` to send `bytes` of it.
pub(crate) fn take_back(
    lease: Result<(Origin, Lease), Refusal>,
    port: Origin,
    bytes: usize,
) -> Result<Lease, Refusal> {
    let (origin, lease) = lease?;
    port.check(origin)?;
    inside(0, bytes, lease.capacity(), "a buffer")?;
    Ok(lease)
}

/// Is it there, and can a port of `origin` send `bytes` of it?
pub(crate) fn check(
    lease: Option<&hythe_lease>,
    port: Origin,
    bytes: usize,
) -> Result<(), Refusal> {
    let (origin, lease) = held(open(lease)?).ok_or_else(|| missing("lease"))?;
    port.check(*origin)?;
    inside(0, bytes, lease.capacity(), "a buffer").map(drop)
}

/// A lease that is given up in any case: taken apart before anything else is looked at.
pub(crate) fn give_up(lease: Option<&mut hythe_lease>) -> Result<(Origin, Lease), Refusal> {
    unpack(lease)
}

fn there(lease: Option<&hythe_lease>) -> Result<&Lease, Refusal> {
    lease.ok_or_else(|| missing("lease"))?.lease()
}

fn there_mut(lease: Option<&mut hythe_lease>) -> Result<&mut Lease, Refusal> {
    lease.ok_or_else(|| missing("lease"))?.lease_mut()
}

/// Bytes of payload that fit: at least as many as were asked for. 0 for NULL.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_lease_capacity(lease: Option<&hythe_lease>) -> usize {
    let mut capacity = 0;
    cross(|| {
        capacity = there(lease)?.capacity();
        Ok(0)
    });
    capacity
}

/// Where to write the payload in place: `capacity` bytes from `*data` on, until the lease is given
/// away. They have what the last owner left in them. What is read back through the pointer may have
/// been changed by a broken peer: write, don't compute there.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_lease_data(
    lease: Option<&mut hythe_lease>,
    data: Option<&mut MaybeUninit<*mut c_void>>,
) -> c_int {
    cross(|| {
        let place = place(data, "place for the pointer")?;
        place.write(std::ptr::null_mut());
        // C gets a pointer and no promise about what it reads there: no trust is needed to write.
        let decision = TrustPeers::i_trust_every_writer_of_this_pool();
        let bytes = there_mut(lease)?.as_mut_slice(decision);
        place.write(bytes.as_mut_ptr().cast());
        Ok(0)
    })
}

/// Copies `count` bytes into the payload, from its byte `at` on. HYTHE_EARGUMENT: they do not fit;
/// nothing is written.
///
/// # Safety
/// `bytes` points to `count` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_lease_write(
    lease: Option<&mut hythe_lease>,
    at: usize,
    bytes: *const c_void,
    count: usize,
) -> c_int {
    cross(|| {
        let lease = there_mut(lease)?;
        // SAFETY: the caller's word.
        let bytes = unsafe { readable(bytes, count) }?;
        inside(at, count, lease.capacity(), "a buffer")?;
        lease.write(at, bytes);
        Ok(0)
    })
}

/// Copies `count` bytes of the payload out, from its byte `at` on: what was written so far.
///
/// # Safety
/// `into` points to `count` writable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_lease_read(
    lease: Option<&hythe_lease>,
    at: usize,
    into: *mut c_void,
    count: usize,
) -> c_int {
    cross(|| {
        let lease = there(lease)?;
        // SAFETY: the caller's word.
        let into = unsafe { writable(into, count) }?;
        inside(at, count, lease.capacity(), "a buffer")?;
        lease.read(at, into);
        lease.check_whole()?;
        Ok(0)
    })
}

/// Copies `count` bytes into the headroom in front of the payload, from the buffer's byte `at` on:
/// what travels beside the payload. HYTHE_EARGUMENT: it has HYTHE_HEADROOM_BYTES. Requests and
/// replies are numbered in its first 16 bytes, by the library.
///
/// # Safety
/// `bytes` points to `count` readable bytes.
#[unsafe(no_mangle)]
pub unsafe extern "C" fn hythe_lease_write_headroom(
    lease: Option<&mut hythe_lease>,
    at: usize,
    bytes: *const c_void,
    count: usize,
) -> c_int {
    cross(|| {
        let lease = there_mut(lease)?;
        // SAFETY: the caller's word.
        let bytes = unsafe { readable(bytes, count) }?;
        inside(at, count, HYTHE_HEADROOM_BYTES as usize, "a headroom")?;
        lease.write_headroom(at, bytes);
        Ok(0)
    })
}

/// Reads up to `count` bytes of a file, from its byte `position` on, straight into the payload,
/// from its byte `at` on. Returns how many; 0 at the end of the file. Blocks as pread() does.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_lease_read_file(
    lease: Option<&mut hythe_lease>,
    file: c_int,
    position: u64,
    at: usize,
    count: usize,
) -> c_int {
    fill(lease, file, at, count, |lease, file| {
        lease.read_file(file, position, at, count)
    })
}

/// Reads up to `count` bytes of a pipe or socket straight into the payload, from its byte `at` on.
/// Returns how many; 0 at the end. Blocks as read() does, but goes on after a signal: call poll()
/// first to be interrupted.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_lease_read_stream(
    lease: Option<&mut hythe_lease>,
    file: c_int,
    at: usize,
    count: usize,
) -> c_int {
    fill(lease, file, at, count, |lease, file| {
        lease.read_stream(file, at, count)
    })
}

fn fill(
    lease: Option<&mut hythe_lease>,
    file: c_int,
    at: usize,
    bytes: usize,
    read: impl FnOnce(&mut Lease, BorrowedFd<'_>) -> std::io::Result<usize>,
) -> c_int {
    cross(|| {
        let lease = there_mut(lease)?;
        inside(at, bytes, lease.capacity(), "a buffer")?;
        if file < 0 {
            return Err(Refusal::argument(format!(
                "{file} is not a file descriptor"
            )));
        }
        // SAFETY: it is not -1; that it is open for the length of the call is the caller's word,
        // and the kernel looks.
        let borrowed = unsafe { BorrowedFd::borrow_raw(file) };
        let refuse = |error| {
            let text = format!("cannot read file descriptor {file}: {error}");
            Refusal::new(crate::code::HYTHE_EFILE, text)
        };
        let done = read(lease, borrowed).map(count);
        // The kernel finds no memory where a file was cut away, and says that the address is bad.
        lease.check_whole()?;
        done.map_err(refuse)
    })
}

/// Gives a buffer back unpublished, or does nothing for NULL. Consumes `lease`.
#[unsafe(no_mangle)]
pub extern "C" fn hythe_lease_release(lease: Option<&mut hythe_lease>) {
    if lease.is_some() {
        cross(|| unpack(lease).map(|_| 0));
    }
}

//! Sending: `pvm_send`, `pvm_mcast`, `pvm_psend`.

use std::ffi::{c_int, c_void};

use hythe_pvm::buffer::{BYTES_MAX, Buffer, Kind};
use hythe_pvm::code::Code;

use crate::guard::{Session, call};

/// `PVM_STR`.
pub(crate) const TEXT: c_int = 0;

#[unsafe(no_mangle)]
extern "C" fn pvm_send(to: c_int, tag: c_int) -> c_int {
    call("pvm_send", |session| {
        let body = active_in_place(session)?;
        session.send(to, tag, body.as_deref())?;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_mcast(to: *const c_int, count: c_int, tag: c_int) -> c_int {
    call("pvm_mcast", |session| {
        // SAFETY: the caller says that so many numbers lie there.
        let all = unsafe { integers(to, count) }?;
        let own = session.task().number();
        let others: Vec<c_int> = all.iter().copied().filter(|one| *one != own).collect();
        let body = active_in_place(session)?;
        session.multicast(&others, tag, body.as_deref())?;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_psend(
    to: c_int,
    tag: c_int,
    items: *const c_void,
    count: c_int,
    data_type: c_int,
) -> c_int {
    call("pvm_psend", |session| {
        check_is_implemented(data_type)?;
        let bytes = bytes_of(count, data_type)?;
        // SAFETY: the caller says that so many items lie there.
        let memory = unsafe { memory(items.cast(), bytes) }?;
        session.send_bytes(to, tag, memory)?;
        Ok(0)
    })
}

/// Text is neither sent nor received without a buffer.
pub(crate) fn check_is_implemented(data_type: c_int) -> Result<(), Code> {
    match data_type {
        TEXT => Err(Code::NOT_IMPLEMENTED),
        _ => Ok(()),
    }
}

/// Bytes of so many items. Text is counted in bytes.
pub(crate) fn bytes_of(count: c_int, data_type: c_int) -> Result<usize, Code> {
    let item = match data_type {
        TEXT => 1,
        _ => Kind::from_data_type(data_type)
            .ok_or(Code::BAD_PARAMETER)?
            .bytes(),
    };
    let count = usize::try_from(count).map_err(|_| Code::BAD_PARAMETER)?;
    let bytes = count.checked_mul(item).filter(|bytes| *bytes <= BYTES_MAX);
    bytes.ok_or(Code::NO_MEMORY)
}

/// Bytes that the caller has.
///
/// # Safety
/// `from` is NULL or points to so many bytes, which stand still for `'a`.
pub(crate) unsafe fn memory<'a>(from: *const u8, bytes: usize) -> Result<&'a [u8], Code> {
    match (from.is_null(), bytes) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Code::BAD_PARAMETER),
        // SAFETY: passed on.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(from, bytes) }),
    }
}

/// Integers that the caller has.
///
/// # Safety
/// `from` is NULL or points to so many integers, which stand still for `'a`.
pub(crate) unsafe fn integers<'a>(from: *const c_int, count: c_int) -> Result<&'a [c_int], Code> {
    let count = usize::try_from(count).map_err(|_| Code::BAD_PARAMETER)?;
    match (from.is_null(), count) {
        (_, 0) => Ok(&[]),
        (true, _) => Err(Code::BAD_PARAMETER),
        // SAFETY: passed on.
        (false, _) => Ok(unsafe { std::slice::from_raw_parts(from, count) }),
    }
}

/// What the active send buffer has in place.
pub(crate) fn active_in_place(session: &mut Session) -> Result<Option<Vec<u8>>, Code> {
    Ok(in_place(session.buffers.sending()?))
}

/// What a buffer has in place, read now. `None`: it has nothing there.
pub(crate) fn in_place(buffer: &Buffer) -> Option<Vec<u8>> {
    if !buffer.is_in_place() {
        return None;
    }
    let mut body = Vec::with_capacity(buffer.in_place_bytes());
    for place in buffer.places() {
        let from = std::ptr::with_exposed_provenance::<u8>(place.address);
        let bytes = place.count * place.kind.bytes();
        // SAFETY: who packed it said that so many items lie there until the message is sent.
        body.extend_from_slice(unsafe { std::slice::from_raw_parts(from, bytes) });
    }
    Some(body)
}

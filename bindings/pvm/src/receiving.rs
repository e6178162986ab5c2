//! Receiving: `pvm_recv`, `pvm_nrecv`, `pvm_trecv`, `pvm_probe`, `pvm_precv`, `pvm_recvf`.
//!
//! The session is taken for short times only: between them handlers run, which send and unpack.

use std::ffi::{c_int, c_void};
use std::sync::Mutex;
use std::sync::PoisonError;
use std::time::{Duration, Instant};

use hythe_pvm::code::Code;

use crate::guard::{Held, call, call_back, guarded, put};
use crate::sending::{bytes_of, check_is_implemented};
use crate::waiting::{SLICE, TAKEN_MAX, Waiting, react, wait};

/// A program's own matching function. It is locked only while the session is held, so that no
/// signal handler waits for it.
type Matcher = extern "C-unwind" fn(c_int, c_int, c_int) -> c_int;
static MATCHER: Mutex<Option<Matcher>> = Mutex::new(None);

/// What was found: it becomes the active buffer, or stays.
#[derive(Clone, Copy, PartialEq, Eq)]
enum Purpose {
    Receive,
    Probe,
}

#[unsafe(no_mangle)]
extern "C" fn pvm_recv(source: c_int, tag: c_int) -> c_int {
    guarded("pvm_recv", || find(source, tag, Purpose::Receive, None))
}

#[unsafe(no_mangle)]
extern "C" fn pvm_nrecv(source: c_int, tag: c_int) -> c_int {
    guarded("pvm_nrecv", || {
        find(source, tag, Purpose::Receive, Some(Duration::ZERO))
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_probe(source: c_int, tag: c_int) -> c_int {
    guarded("pvm_probe", || {
        find(source, tag, Purpose::Probe, Some(Duration::ZERO))
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_trecv(source: c_int, tag: c_int, timeout: *const libc::timeval) -> c_int {
    guarded("pvm_trecv", || {
        if timeout.is_null() {
            return find(source, tag, Purpose::Receive, None);
        }
        // SAFETY: it is not NULL, so the caller passes a structure that stands still.
        let timeout = unsafe { timeout.read() };
        let micros = i128::from(timeout.tv_sec) * 1_000_000 + i128::from(timeout.tv_usec);
        // A time that is over is none; one that is too long has no end.
        let whole = u64::try_from(micros.max(0)).ok();
        let whole = whole.map(Duration::from_micros);
        find(source, tag, Purpose::Receive, whole)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_precv(
    source: c_int,
    tag: c_int,
    place: *mut c_void,
    count: c_int,
    data_type: c_int,
    found_source: *mut c_int,
    found_tag: *mut c_int,
    found_bytes: *mut c_int,
) -> c_int {
    guarded("pvm_precv", || {
        check_is_implemented(data_type)?;
        let bytes = bytes_of(count, data_type)?;
        if place.is_null() && bytes > 0 {
            return Err(Code::BAD_PARAMETER);
        }
        let message = wait(None, |session| {
            let wanted = session.wanted(source, tag);
            session.take(&wanted)
        })?;
        let message = message.ok_or(Code::SYSTEM)?;
        let taken = message.len().min(bytes);
        if taken > 0 {
            // SAFETY: the caller says that there is a place for so many bytes.
            let place = unsafe { std::slice::from_raw_parts_mut(place.cast::<u8>(), taken) };
            place.copy_from_slice(&message.body()[..taken]);
        }
        // SAFETY: the caller passes NULL or a place for a result.
        unsafe { put(found_source, message.info.source) };
        // SAFETY: as above.
        unsafe { put(found_tag, message.info.tag) };
        // Fits: a message has at most 2^31 - 1 bytes.
        // SAFETY: as above.
        unsafe { put(found_bytes, message.len() as c_int) };
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_recvf(matcher: Option<Matcher>) -> Option<Matcher> {
    // A signal handler that interrupts a call changes nothing.
    let _held = Held::take().ok()?;
    let mut kept = MATCHER.lock().unwrap_or_else(PoisonError::into_inner);
    let is_other = |matcher: &Matcher| !std::ptr::fn_addr_eq(*matcher, usual_match as Matcher);
    let before = std::mem::replace(&mut *kept, matcher.filter(is_other));
    Some(before.unwrap_or(usual_match))
}

/// What matches where the program has no function of its own, which may call this one: 1 or 0.
extern "C-unwind" fn usual_match(buffer: c_int, source: c_int, tag: c_int) -> c_int {
    call("pvm_recvf", |session| {
        let wanted = session.wanted(source, tag);
        let message = session.buffers.find(buffer)?;
        Ok(c_int::from(wanted.is(message)))
    })
}

/// 0: nothing is there, or came in time.
fn find(
    source: c_int,
    tag: c_int,
    purpose: Purpose,
    timeout: Option<Duration>,
) -> Result<c_int, Code> {
    let held = Held::take()?;
    let matcher = *MATCHER.lock().unwrap_or_else(PoisonError::into_inner);
    drop(held);
    if let Some(matcher) = matcher {
        return find_by(matcher, source, tag, purpose, timeout);
    }
    let found = wait(timeout, |session| {
        let wanted = session.wanted(source, tag);
        match purpose {
            Purpose::Receive => session.receive(&wanted),
            Purpose::Probe => session.probe(&wanted),
        }
    })?;
    Ok(found.unwrap_or(0))
}

fn find_by(
    matcher: Matcher,
    source: c_int,
    tag: c_int,
    purpose: Purpose,
    timeout: Option<Duration>,
) -> Result<c_int, Code> {
    let start = Instant::now();
    // Those behind have not been looked at yet; among those before, the best.
    let (mut after, mut best) = (0, None::<(c_int, u64, c_int)>);
    let mut taken = 0;
    let mut waiting = Waiting::default();
    loop {
        let candidate = waiting.take()?.session()?.next_candidate(after);
        if let Some((place, number)) = candidate {
            after = place;
            let rank = call_back("pvm_recvf", || matcher(number, source, tag));
            if rank < 0 {
                return Code::from_number(rank).map_or(Ok(rank), Err);
            }
            if rank > best.map_or(0, |(rank, _, _)| rank) {
                best = Some((rank, place, number));
            }
            if rank != 1 {
                continue;
            }
        }
        let mut turn = waiting.take()?;
        let session = turn.session()?;
        if let Some((_, place, number)) = best {
            return match purpose {
                Purpose::Probe => Ok(number),
                Purpose::Receive => session.receive_candidate(place).ok_or(Code::NO_SUCH_BUFFER),
            };
        }
        let left = timeout.map_or(SLICE, |timeout| timeout.saturating_sub(start.elapsed()));
        let event = waiting.pull(session, left)?;
        drop(turn);
        match event {
            Some(_) if left.is_zero() && taken >= TAKEN_MAX => return Ok(0),
            Some(event) => {
                react(event, &waiting)?;
                taken += 1;
            }
            None if left.is_zero() => return Ok(0),
            None => {}
        }
    }
}

//! Hosts: `pvm_config`, `pvm_mstat` and their kind.

use std::ffi::{c_char, c_int};
use std::time::{Duration, SystemTime};

use hythe_pvm::code::Code;
use hythe_pvm::tid::Tid;

use crate::guard::{Held, call, guarded, put, text};
use crate::kept::{Hosts, KEPT};
use crate::structures::HostInfo;

#[unsafe(no_mangle)]
extern "C" fn pvm_config(
    host_count: *mut c_int,
    format_count: *mut c_int,
    hosts: *mut *mut HostInfo,
) -> c_int {
    call("pvm_config", |session| {
        let found = session.hosts()?;
        let mut formats: Vec<c_int> = found.iter().map(|host| host.format).collect();
        formats.sort_unstable();
        formats.dedup();
        // SAFETY: the caller passes NULL or a place for a result.
        unsafe { put(host_count, found.len() as c_int) };
        // SAFETY: as above.
        unsafe { put(format_count, formats.len() as c_int) };
        // The table of the last call stays until there is another.
        if !hosts.is_null() {
            let mut kept = KEPT.lock();
            kept.hosts = Hosts::new(&found);
            // SAFETY: as above.
            unsafe { put(hosts, kept.hosts.pointer()) };
        }
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_mstat(name: *const c_char) -> c_int {
    call("pvm_mstat", |session| {
        // SAFETY: the caller passes NULL or text that ends with a zero.
        let name = unsafe { text(name) }.ok_or(Code::BAD_PARAMETER)?;
        if name.is_empty() {
            return Err(Code::BAD_PARAMETER);
        }
        // `.` is the task's own.
        let is_there = name == "." || session.hosts()?.iter().any(|host| host.name == name);
        match is_there {
            true => Ok(0),
            // PVM prints nothing of it.
            false => Ok(Code::NO_HOST.number()),
        }
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_archcode(name: *const c_char) -> c_int {
    call("pvm_archcode", |session| {
        // SAFETY: the caller passes NULL or text that ends with a zero.
        let name = unsafe { text(name) }.ok_or(Code::BAD_PARAMETER)?;
        let hosts = session.hosts()?;
        let found = hosts.iter().find(|host| host.architecture == name);
        found.map(|host| host.format).ok_or(Code::NOT_FOUND)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_tidtohost(task: c_int) -> c_int {
    Tid::from_number(task).host().number()
}

#[unsafe(no_mangle)]
extern "C" fn pvm_hostsync(
    host: c_int,
    clock: *mut libc::timeval,
    difference: *mut libc::timeval,
) -> c_int {
    call("pvm_hostsync", |session| {
        let clocks = session.clocks_with(host, since_1970())?;
        // SAFETY: the caller passes NULL or a place for a result.
        unsafe { put(clock, time_of(clocks.theirs)) };
        let (seconds, microseconds) = clocks.difference();
        let apart = libc::timeval {
            tv_sec: seconds as libc::time_t,
            tv_usec: microseconds as libc::suseconds_t,
        };
        // SAFETY: as above.
        unsafe { put(difference, apart) };
        Ok(0)
    })
}

/// Hosts of the realm, by their names there. Returns how many were added.
#[unsafe(no_mangle)]
extern "C" fn pvm_addhosts(names: *const *const c_char, count: c_int, codes: *mut c_int) -> c_int {
    call("pvm_addhosts", |session| {
        // SAFETY: the caller passes so many names.
        let names = unsafe { texts(names, count) }?;
        let numbers = session.add_hosts(names)?;
        // SAFETY: the caller passes NULL or a place for as many codes as names.
        Ok(unsafe { put_all(codes, count, &numbers) })
    })
}

/// All but the first can go. Returns how many did.
#[unsafe(no_mangle)]
extern "C" fn pvm_delhosts(names: *const *const c_char, count: c_int, codes: *mut c_int) -> c_int {
    call("pvm_delhosts", |session| {
        // SAFETY: the caller passes so many names.
        let names = unsafe { texts(names, count) }?;
        let numbers = session.delete_hosts(names)?;
        // SAFETY: the caller passes NULL or a place for as many codes as names.
        Ok(unsafe { put_all(codes, count, &numbers) })
    })
}

/// There is a machine, or `hythe run --pvm` has to start one.
#[unsafe(no_mangle)]
extern "C" fn pvm_start_pvmd(_count: c_int, _arguments: *mut *mut c_char, _block: c_int) -> c_int {
    guarded("pvm_start_pvmd", || match Held::take()?.session() {
        Ok(_) => Err(Code::DUPLICATE_HOST),
        Err(_) => Err(Code::CANNOT_START),
    })
}

/// Ends all tasks; this one, too, unless it ignores SIGTERM.
#[unsafe(no_mangle)]
extern "C" fn pvm_halt() -> c_int {
    call("pvm_halt", |session| {
        let own = session.task().number();
        let others = session.rows(0)?.into_iter().map(|row| row.task);
        for task in others.filter(|task| *task != own).collect::<Vec<_>>() {
            session.signal(task, libc::SIGTERM)?;
        }
        session.signal(own, libc::SIGTERM)
    })
}

/// Returns how many are no errors.
///
/// # Safety
/// `places` is NULL or has so many places.
unsafe fn put_all(places: *mut c_int, count: c_int, numbers: &[i32]) -> c_int {
    let mut done = 0;
    // No more than there are places for, whatever the machine says.
    for (index, number) in (0..count).zip(numbers) {
        done += c_int::from(*number >= 0);
        if !places.is_null() {
            // SAFETY: there is such a place; the index is not negative.
            unsafe { put(places.wrapping_add(index as usize), *number) };
        }
    }
    done
}

/// # Safety
/// `names` is NULL or points to so many texts, each NULL or with a zero at its end.
unsafe fn texts(names: *const *const c_char, count: c_int) -> Result<Vec<String>, Code> {
    let count = usize::try_from(count).map_err(|_| Code::BAD_PARAMETER)?;
    if names.is_null() || count == 0 {
        return Err(Code::BAD_PARAMETER);
    }
    // SAFETY: passed on.
    let names = unsafe { std::slice::from_raw_parts(names, count) };
    let texts = names.iter().map(|name| {
        // SAFETY: passed on.
        unsafe { text(*name) }.ok_or(Code::BAD_PARAMETER)
    });
    texts.collect()
}

/// The time of day.
pub(crate) fn now() -> libc::timeval {
    time_of(since_1970())
}

fn since_1970() -> Duration {
    let since = SystemTime::now().duration_since(SystemTime::UNIX_EPOCH);
    since.unwrap_or_default()
}

fn time_of(clock: Duration) -> libc::timeval {
    libc::timeval {
        tv_sec: clock.as_secs() as libc::time_t,
        tv_usec: clock.subsec_micros() as libc::suseconds_t,
    }
}

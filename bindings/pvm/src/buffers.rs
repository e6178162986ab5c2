//! Buffers: `pvm_mkbuf`, `pvm_initsend` and their kind.

use std::ffi::c_int;

use hythe_pvm::buffer::{Buffer, Encoding, Info};
use hythe_pvm::code::Code;

use crate::guard::{call, put};
use crate::structures::MessageInfo;

#[unsafe(no_mangle)]
extern "C" fn pvm_mkbuf(encoding: c_int) -> c_int {
    call("pvm_mkbuf", |session| {
        Ok(session.new_buffer(Encoding::from_number(encoding)?))
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_initsend(encoding: c_int) -> c_int {
    call("pvm_initsend", |session| {
        let encoding = Encoding::from_number(encoding)?;
        Ok(session.begin_send(encoding))
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_freebuf(number: c_int) -> c_int {
    call("pvm_freebuf", |session| match number {
        0 => Ok(0),
        _ => session.buffers.remove(number).map(|_| 0),
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_getsbuf() -> c_int {
    call("pvm_getsbuf", |session| Ok(session.buffers.send_number()))
}

#[unsafe(no_mangle)]
extern "C" fn pvm_getrbuf() -> c_int {
    call("pvm_getrbuf", |session| {
        Ok(session.buffers.receive_number())
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_setsbuf(number: c_int) -> c_int {
    call("pvm_setsbuf", |session| session.buffers.set_send(number))
}

#[unsafe(no_mangle)]
extern "C" fn pvm_setrbuf(number: c_int) -> c_int {
    call("pvm_setrbuf", |session| session.buffers.set_receive(number))
}

#[unsafe(no_mangle)]
extern "C" fn pvm_bufinfo(
    number: c_int,
    bytes: *mut c_int,
    tag: *mut c_int,
    source: *mut c_int,
) -> c_int {
    call("pvm_bufinfo", |session| {
        let buffer = session.buffers.find(number)?;
        // SAFETY: the caller passes NULL or a place for a result.
        unsafe { put(bytes, length(buffer)) };
        // SAFETY: as above.
        unsafe { put(tag, buffer.info.tag) };
        // SAFETY: as above.
        unsafe { put(source, buffer.info.source) };
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_getminfo(number: c_int, place: *mut MessageInfo) -> c_int {
    call("pvm_getminfo", |session| {
        if place.is_null() {
            return Err(Code::BAD_PARAMETER);
        }
        let buffer = session.buffers.find(number)?;
        let info = buffer.info;
        let found = MessageInfo {
            length: length(buffer),
            context: info.context,
            tag: info.tag,
            wait_id: info.wait_id,
            encoding: info.encoding,
            checksum: info.checksum,
            source: info.source,
            destination: info.destination,
        };
        // SAFETY: the caller passes a place for a result.
        unsafe { put(place, found) };
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_setminfo(number: c_int, place: *const MessageInfo) -> c_int {
    call("pvm_setminfo", |session| {
        if place.is_null() {
            return Err(Code::BAD_PARAMETER);
        }
        // SAFETY: the caller passes a structure that stands still.
        let wanted = unsafe { place.read() };
        let info = &mut session.buffers.find(number)?.info;
        *info = Info {
            context: wanted.context,
            tag: wanted.tag,
            wait_id: wanted.wait_id,
            source: wanted.source,
            destination: wanted.destination,
            ..*info
        };
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_getmwid(number: c_int) -> c_int {
    call("pvm_getmwid", |session| {
        Ok(session.buffers.find(number)?.info.wait_id)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_setmwid(number: c_int, wait_id: c_int) -> c_int {
    call("pvm_setmwid", |session| {
        session.buffers.find(number)?.info.wait_id = wait_id;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_pkmesg(number: c_int) -> c_int {
    call("pvm_pkmesg", |session| {
        let message = other_buffer(session, number)?;
        session.buffers.sending()?.pack_message(&message)?;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_pkmesgbody(number: c_int) -> c_int {
    call("pvm_pkmesgbody", |session| {
        let message = other_buffer(session, number)?;
        session.buffers.sending()?.pack_body(&message)?;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_upkmesg() -> c_int {
    call("pvm_upkmesg", |session| {
        let message = session.buffers.receiving()?.unpack_message()?;
        Ok(session.buffers.insert(message))
    })
}

/// One that is not the active send buffer.
fn other_buffer(session: &mut crate::guard::Session, number: c_int) -> Result<Buffer, Code> {
    let active = session.buffers.send_number();
    if active == 0 {
        return Err(Code::NO_BUFFER);
    }
    match number == active {
        true => Err(Code::BAD_PARAMETER),
        false => session.buffers.find(number).cloned(),
    }
}

/// Fits: a buffer has at most 2^31 - 1 bytes.
fn length(buffer: &Buffer) -> c_int {
    buffer.len() as c_int
}

//! Packing and unpacking: `pvm_pk*`, `pvm_upk*`.

use std::ffi::{
    CStr, c_char, c_double, c_float, c_int, c_long, c_short, c_uint, c_ulong, c_ushort,
};

use hythe_pvm::buffer::{BYTES_MAX, Kind, Place};
use hythe_pvm::code::Code;

use crate::guard::call;

/// How many items, and how far from one to the next: in front of it, if the stride is below 0.
#[derive(Clone, Copy)]
struct Items {
    count: usize,
    stride: isize,
}

impl Items {
    fn new(count: c_int, stride: c_int) -> Result<Self, Code> {
        let count = usize::try_from(count).map_err(|_| Code::BAD_PARAMETER)?;
        // An `int` fits.
        let stride = stride as isize;
        Ok(Self { count, stride })
    }

    /// Where the lowest of them lies, bytes from there to the end of the highest, and bytes from
    /// one to the next. `first` is the one that is packed first.
    fn lie(self, kind: Kind, first: *mut u8) -> Result<(*mut u8, usize, usize), Code> {
        let stride = self.stride.unsigned_abs();
        let span = kind.span(self.count, stride).ok_or(Code::BAD_PARAMETER)?;
        let lowest = match self.stride < 0 {
            true => first.wrapping_sub(span - kind.bytes()),
            false => first,
        };
        Ok((lowest, span, stride.saturating_mul(kind.bytes())))
    }

    /// Room for them side by side.
    fn dense(self, kind: Kind) -> Result<Vec<u8>, Code> {
        let bytes = self.count.checked_mul(kind.bytes());
        let bytes = bytes.filter(|bytes| *bytes <= BYTES_MAX);
        Ok(vec![0; bytes.ok_or(Code::NO_MEMORY)?])
    }
}

fn pack(name: &str, kind: Kind, items: *const u8, count: c_int, stride: c_int) -> c_int {
    call(name, |session| {
        let wanted = Items::new(count, stride)?;
        let buffer = session.buffers.sending()?;
        // PVM wants that of no items, too.
        if buffer.is_in_place() && wanted.stride != 1 {
            return Err(Code::NOT_IMPLEMENTED);
        }
        if wanted.count == 0 {
            return Ok(0);
        }
        if items.is_null() {
            return Err(Code::BAD_PARAMETER);
        }
        if buffer.is_in_place() {
            buffer.pack_in_place(Place {
                address: items.expose_provenance(),
                kind,
                count: wanted.count,
                stride: 1,
            })?;
            return Ok(0);
        }
        let (lowest, span, step) = wanted.lie(kind, items.cast_mut())?;
        // SAFETY: the caller says that so many items lie there, and does not write them meanwhile.
        let memory = unsafe { std::slice::from_raw_parts(lowest, span) };
        if wanted.stride > 0 {
            buffer.pack(kind, memory, wanted.count, wanted.stride.unsigned_abs())?;
            return Ok(0);
        }
        // Backwards, or one item so many times.
        let mut dense = wanted.dense(kind)?;
        let places = dense.chunks_exact_mut(kind.bytes());
        match step {
            0 => places.for_each(|place| place.copy_from_slice(memory)),
            step => places
                .zip(memory.chunks(step).rev())
                .for_each(|(place, item)| place.copy_from_slice(&item[..kind.bytes()])),
        }
        buffer.pack(kind, &dense, wanted.count, 1)?;
        Ok(0)
    })
}

fn unpack(name: &str, kind: Kind, items: *mut u8, count: c_int, stride: c_int) -> c_int {
    call(name, |session| {
        let wanted = Items::new(count, stride)?;
        let buffer = session.buffers.receiving()?;
        if wanted.count == 0 {
            return Ok(0);
        }
        if items.is_null() {
            return Err(Code::BAD_PARAMETER);
        }
        let (lowest, span, step) = wanted.lie(kind, items)?;
        // SAFETY: the caller says that there is a place for so many items, and nobody else uses it
        // meanwhile.
        let memory = unsafe { std::slice::from_raw_parts_mut(lowest, span) };
        if wanted.stride > 0 {
            buffer.unpack(kind, memory, wanted.count, wanted.stride.unsigned_abs())?;
            return Ok(0);
        }
        let mut dense = wanted.dense(kind)?;
        buffer.unpack(kind, &mut dense, wanted.count, 1)?;
        let found = dense.chunks_exact(kind.bytes());
        match step {
            // One over the other: the last stays.
            0 => found.for_each(|item| memory.copy_from_slice(item)),
            step => memory
                .chunks_mut(step)
                .rev()
                .zip(found)
                .for_each(|(place, item)| place[..kind.bytes()].copy_from_slice(item)),
        }
        Ok(0)
    })
}

macro_rules! both {
    ($($pack:ident, $unpack:ident, $item:ty, $kind:expr;)*) => {
        $(
            #[unsafe(no_mangle)]
            extern "C" fn $pack(items: *mut $item, count: c_int, stride: c_int) -> c_int {
                pack(stringify!($pack), $kind, items.cast(), count, stride)
            }

            #[unsafe(no_mangle)]
            extern "C" fn $unpack(items: *mut $item, count: c_int, stride: c_int) -> c_int {
                unpack(stringify!($unpack), $kind, items.cast(), count, stride)
            }
        )*
    };
}

both! {
    pvm_pkbyte, pvm_upkbyte, c_char, Kind::Byte;
    pvm_pkcplx, pvm_upkcplx, c_float, Kind::Complex;
    pvm_pkdcplx, pvm_upkdcplx, c_double, Kind::DoubleComplex;
    pvm_pkdouble, pvm_upkdouble, c_double, Kind::Double;
    pvm_pkfloat, pvm_upkfloat, c_float, Kind::Float;
    pvm_pkint, pvm_upkint, c_int, Kind::Int;
    pvm_pklong, pvm_upklong, c_long, Kind::Long;
    pvm_pkshort, pvm_upkshort, c_short, Kind::Short;
    pvm_pkuint, pvm_upkuint, c_uint, Kind::UnsignedInt;
    pvm_pkulong, pvm_upkulong, c_ulong, Kind::UnsignedLong;
    pvm_pkushort, pvm_upkushort, c_ushort, Kind::UnsignedShort;
}

#[unsafe(no_mangle)]
extern "C" fn pvm_pkstr(text: *const c_char) -> c_int {
    call("pvm_pkstr", |session| {
        let buffer = session.buffers.sending()?;
        if text.is_null() {
            return Err(Code::BAD_PARAMETER);
        }
        // SAFETY: the caller passes text that ends with a zero.
        let text = unsafe { CStr::from_ptr(text) };
        buffer.pack_text(text.to_bytes())?;
        Ok(0)
    })
}

#[unsafe(no_mangle)]
extern "C" fn pvm_upkstr(place: *mut c_char) -> c_int {
    call("pvm_upkstr", |session| {
        let buffer = session.buffers.receiving()?;
        if place.is_null() {
            return Err(Code::BAD_PARAMETER);
        }
        let text = buffer.unpack_text()?;
        // SAFETY: the caller says that the place is long enough: PVM's interface has no length.
        let place = unsafe { std::slice::from_raw_parts_mut(place.cast::<u8>(), text.len() + 1) };
        let (end, begin) = place.split_last_mut().ok_or(Code::BAD_PARAMETER)?;
        begin.copy_from_slice(text);
        *end = 0;
        Ok(0)
    })
}

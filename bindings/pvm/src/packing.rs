//! Packing and unpacking: `pvm_pk*`, `pvm_upk*`.

use std::ffi::{
    CStr, c_char, c_double, c_float, c_int, c_long, c_short, c_uint, c_ulong, c_ushort,
};

use hythe_pvm::buffer::{Kind, Place};
use hythe_pvm::code::Code;

use crate::guard::call;

/// How many items, and how far from one to the next.
#[derive(Clone, Copy)]
struct Items {
    count: usize,
    stride: usize,
}

impl Items {
    fn new(count: c_int, stride: c_int) -> Result<Self, Code> {
        match (usize::try_from(count), usize::try_from(stride)) {
            (Ok(count), Ok(stride)) => Ok(Self { count, stride }),
            _ => Err(Code::BAD_PARAMETER),
        }
    }
}

fn pack(name: &str, kind: Kind, items: *const u8, count: c_int, stride: c_int) -> c_int {
    call(name, |session| {
        let wanted = Items::new(count, stride)?;
        let buffer = session.buffers.sending()?;
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
                stride: wanted.stride,
            })?;
            return Ok(0);
        }
        // A stride of 0 packs one item so many times.
        let (repeats, count, stride) = match wanted.stride {
            0 => (wanted.count, 1, 1),
            stride => (1, wanted.count, stride),
        };
        let bytes = kind.span(count, stride).ok_or(Code::BAD_PARAMETER)?;
        // SAFETY: the caller says that so many items lie there, and does not write them meanwhile.
        let memory = unsafe { std::slice::from_raw_parts(items, bytes) };
        for _ in 0..repeats {
            buffer.pack(kind, memory, count, stride)?;
        }
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
        let (repeats, count, stride) = match wanted.stride {
            0 => (wanted.count, 1, 1),
            stride => (1, wanted.count, stride),
        };
        let bytes = kind.span(count, stride).ok_or(Code::BAD_PARAMETER)?;
        // SAFETY: the caller says that there is a place for so many items, and nobody else uses it
        // meanwhile.
        let memory = unsafe { std::slice::from_raw_parts_mut(items, bytes) };
        for _ in 0..repeats {
            buffer.unpack(kind, memory, count, stride)?;
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

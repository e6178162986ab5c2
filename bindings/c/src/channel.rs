//! What a channel carries, as the options of all its ports say it. Never compares types: whoever
//! opens the port does.

use core::ffi::c_char;

use hythe::ChannelType;

use crate::ffi_guard::{Refusal, name};
use crate::sized::{self, Extensible};

/// The type of a channel. A port opens only if all four members equal the channel's. A port that
/// names no type accepts any.
#[repr(C)]
#[derive(Clone, Copy, Debug)]
pub struct hythe_channel_type {
    /// sizeof(struct hythe_channel_type).
    pub size: usize,
    /// Name of the type, the same in every language that uses it.
    pub name: *const c_char,
    /// Size of one value.
    pub bytes: u32,
    /// Its alignment: a power of two.
    pub align: u32,
    /// Version of the type, chosen by its author.
    pub version: u32,
    /// Zero.
    pub reserved: u32,
}

// SAFETY: as the trait says; four `u32` end it.
unsafe impl Extensible for hythe_channel_type {
    const NOUN: &'static str = "channel type";
}

/// # Safety
/// `carries` is NULL, or points to a type with a name.
pub(crate) unsafe fn read(
    carries: *const hythe_channel_type,
) -> Result<Option<ChannelType>, Refusal> {
    // SAFETY: the caller's word.
    let Some(carries) = unsafe { sized::read(carries) }? else {
        return Ok(None);
    };
    // SAFETY: the caller's word.
    let type_name = unsafe { name(carries.name, "name of the channel type") }?;
    Ok(Some(ChannelType {
        name: type_name.to_owned(),
        bytes: carries.bytes,
        align: carries.align,
        version: carries.version,
    }))
}

//! What the ports of all kinds have in common: reading their options, opening them. Never knows
//! which kind it is.

use core::ffi::{c_char, c_int};
use std::mem::MaybeUninit;

use hythe::ChannelType;

use crate::channel::{self, hythe_channel_type};
use crate::ffi_guard::{Handle, Refusal, cross, empty_place, name, open};
use crate::node::hythe_node;
use crate::sized::{self, Extensible};

/// Options of a port: what is zero in them has its default.
pub(crate) trait PortOptions: Extensible {
    /// The facade's.
    type Wanted: Default;

    fn carries(&self) -> *const hythe_channel_type;

    fn carrying(wanted: Self::Wanted, carries: ChannelType) -> Self::Wanted;

    /// Everything else.
    fn choose(&self, wanted: Self::Wanted) -> Result<Self::Wanted, Refusal>;
}

/// The caller's options; NULL is all defaults.
///
/// # Safety
/// As [`sized::read`], and [`channel::read`] for the type in them.
pub(crate) unsafe fn read<O: PortOptions>(options: *const O) -> Result<O::Wanted, Refusal> {
    let wanted = O::Wanted::default();
    // SAFETY: the caller's word.
    let Some(given) = unsafe { sized::read(options) }? else {
        return Ok(wanted);
    };
    // SAFETY: the caller's word.
    let carries = unsafe { channel::read(given.carries()) }?;
    given.choose(match carries {
        Some(carries) => O::carrying(wanted, carries),
        None => wanted,
    })
}

/// Opens a port on a channel, as a handle of the caller's.
///
/// # Safety
/// `channel` is NULL or text.
pub(crate) unsafe fn open_on<H: Handle>(
    node: Option<&hythe_node>,
    channel: *const c_char,
    into: Option<&mut MaybeUninit<*mut H>>,
    make: impl FnOnce(&hythe_node, &str) -> Result<H, Refusal>,
) -> c_int {
    cross(|| {
        let into = empty_place(into)?;
        let node = open(node)?;
        // SAFETY: the caller's word.
        let channel = unsafe { name(channel, "name of the channel") }?;
        into.write(Box::into_raw(Box::new(make(node, channel)?)));
        Ok(0)
    })
}

//! Texts of a peer, of bounded length: they are kept, shown and compared with rules.

use hythe_abi::pool::NAME_BYTES;
use serde::de::Error;
use serde::{Deserialize, Deserializer};

/// What is kept of a reason.
const REASON_BYTES: usize = 512;
/// `PATH_MAX` of Linux.
const PROGRAM_BYTES: usize = 4096;

/// The name of a channel or of a type. A longer one than a pool has cannot be meant.
pub(super) fn name<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    if name.len() > NAME_BYTES {
        let said = format!(
            "a name of {} bytes; the longest has {NAME_BYTES}",
            name.len()
        );
        return Err(D::Error::custom(said));
    }
    Ok(name)
}

/// A program as it is named. A longer path than the kernel takes cannot be meant.
pub(super) fn program<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let name = String::deserialize(from)?;
    if name.len() > PROGRAM_BYTES {
        let said = format!("a program's name of {} bytes", name.len());
        return Err(D::Error::custom(said));
    }
    Ok(name)
}

/// Why something is not: its beginning.
pub(super) fn reason<'de, D: Deserializer<'de>>(from: D) -> Result<String, D::Error> {
    let mut reason = String::deserialize(from)?;
    reason.truncate(reason.floor_char_boundary(REASON_BYTES));
    Ok(reason)
}

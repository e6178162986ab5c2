//! Numbers that nobody guesses.

use rustix::rand::{GetRandomFlags, getrandom};

use crate::error::ClusterError;

/// One of 64 bits.
pub(crate) fn random() -> Result<u64, ClusterError> {
    let mut bytes = [0; 8];
    let filled = getrandom(&mut bytes, GetRandomFlags::empty()).map_err(std::io::Error::from)?;
    if filled < bytes.len() {
        return Err(std::io::Error::other("the kernel gave too few random bytes").into());
    }
    Ok(u64::from_ne_bytes(bytes))
}

//! What RFC 3550 wants chosen at random for each stream, from the kernel's random numbers.

use hythe_rtp::Identity;
use rustix::rand::{GetRandomFlags, getrandom};

use crate::MediaError;

/// An identity that no peer can predict.
///
/// # Errors
///
/// [`MediaError::System`] where the kernel gives no random numbers.
pub fn random() -> Result<Identity, MediaError> {
    let mut bytes = [0; Identity::RANDOM_BYTES];
    let filled =
        getrandom(&mut bytes, GetRandomFlags::empty()).map_err(|error| MediaError::System {
            what: "get random numbers",
            source: error.into(),
        })?;
    debug_assert_eq!(filled, bytes.len(), "up to 256 bytes come whole");
    Ok(Identity::from_bytes(bytes))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn identities_differ_by_chance() {
        assert_ne!(random().unwrap(), random().unwrap());
    }
}

//! What can go wrong in this crate.

use hythe_terminal::escaped;

/// Every error of the RTP crate. Payloads, parity and requests that a peer damaged are no errors:
/// the functions that read them return why they were dropped, for the caller to count.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum RtpError {
    /// Linear PCM of this kind cannot be sent.
    #[error(
        "{channels} channels at {samples_per_second} Hz cannot be sent as L16: {reason}",
        reason = escaped(reason)
    )]
    Format {
        /// Samples per second and channel.
        samples_per_second: u32,
        /// Channels.
        channels: u8,
        /// Why.
        reason: &'static str,
    },
    /// A packet could not be built; the crate's own limits should have prevented it.
    #[error("cannot write the {what}: {reason}", reason = escaped(reason))]
    Packet {
        /// Which packet.
        what: &'static str,
        /// What the packet crate says.
        reason: String,
    },
}

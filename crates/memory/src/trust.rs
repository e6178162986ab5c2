//! The named decision to read a peer's payload in place.

/// Says that the writers of a pool are trusted not to change a payload after they gave it away.
///
/// A mapped page can be written by everyone who mapped it for writing, whatever the ledger says.
/// Rust's `&[u8]` promises that the bytes stand still. Whoever makes this value promises it for the
/// peers: right for a pool whose members are all one's own programs, wrong for a pool open to
/// others. Without it, payload is read by copying.
#[derive(Clone, Copy, Debug)]
pub struct TrustPeers(());

impl TrustPeers {
    /// Makes the decision. Call it once per pool, where the pool is opened.
    #[must_use]
    pub const fn i_trust_every_writer_of_this_pool() -> Self {
        Self(())
    }
}

//! No public authority. Zenoh's TLS reads this list; it never has an entry.

#![no_std]

use rustls_pki_types::TrustAnchor;

/// None.
pub const TLS_SERVER_ROOTS: &[TrustAnchor<'static>] = &[];

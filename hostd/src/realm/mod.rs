//! Identity: the authority of a realm, keys, certificates, revocation.
//!
//! A realm is a set of hosts whose certificates one authority signed; its key is on one host. All
//! hosts keep the list of hosts that the authority signed last ([`SignedDocument`]), with the
//! certificates that it revoked. Never opens a connection, and never sends a key anywhere.

mod authority;
mod certificate;
mod document;
#[cfg(test)]
mod hostile;
mod identity;
mod live;
mod verification;

pub use authority::{Authority, NewHost};
pub use certificate::HostKey;
pub use document::{DOCUMENT_BYTES_MAX, Grant, RealmDocument, RealmHost, SignedDocument};
pub use identity::Identity;
pub use live::LiveRealm;
pub use verification::{common_name, realm_of_issuer};

use crate::hosts_directory::FILE_BYTES_MAX;

// It can be kept, also with the spaces of a file for people.
const _: () = assert!(DOCUMENT_BYTES_MAX as u64 + 1024 <= FILE_BYTES_MAX);

/// The files of a hosts directory.
pub mod file {
    /// The authority's certificate, PEM: the same on every host of the realm.
    pub const AUTHORITY_CERTIFICATE: &str = "ca.pem";
    /// The authority's key, PEM: only where the realm was begun.
    pub const AUTHORITY_KEY: &str = "ca.key";
    /// What the authority has signed and revoked, JSON: only where the realm was begun.
    pub const AUTHORITY_RECORD: &str = "ca.json";
    /// This host's certificate, PEM.
    pub const CERTIFICATE: &str = "host.pem";
    /// This host's key, PEM.
    pub const KEY: &str = "host.key";
    /// The list of hosts and revoked certificates that the authority signed last, JSON.
    pub const DOCUMENT: &str = "realm.json";
    /// Held while any of these are changed.
    pub const CHANGE_LOCK: &str = "change.lock";
}

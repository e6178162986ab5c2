//! The identity of a running agent: the same host all the time, with a document that grows newer.
//!
//! Documents come from other hosts, over connections, and from commands on this host, over the
//! hosts directory. Never goes back to an older one.

use std::sync::{Arc, Condvar, Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use super::document::SignedDocument;
use super::file;
use super::identity::Identity;
use crate::error::HostdError;
use crate::hosts_directory::HostsDirectory;

/// A host's identity, and the newest document of its realm.
#[derive(Debug)]
pub struct LiveRealm {
    directory: HostsDirectory,
    identity: Mutex<Arc<Identity>>,
    changed: Condvar,
}

impl LiveRealm {
    /// The identity that is kept in a directory.
    ///
    /// # Errors
    /// As [`Identity::load`].
    pub fn open(directory: HostsDirectory) -> Result<Self, HostdError> {
        let identity = Identity::load(&directory)?;
        Ok(Self {
            directory,
            identity: Mutex::new(Arc::new(identity)),
            changed: Condvar::new(),
        })
    }

    /// Where it is kept.
    #[must_use]
    pub fn directory(&self) -> &HostsDirectory {
        &self.directory
    }

    /// The identity as it is now.
    #[must_use]
    pub fn identity(&self) -> Arc<Identity> {
        self.lock().clone()
    }

    /// Takes a document that another host has, and keeps it if it is newer. Says whether it was.
    ///
    /// # Errors
    /// The authority did not sign it, or it cannot be written.
    pub fn offer(&self, signed: &SignedDocument) -> Result<bool, HostdError> {
        if self.identity().with_document(signed)?.is_none() {
            return Ok(false);
        }
        // The authority may be writing the next one, if it is here.
        let _lock = self.directory.lock(file::CHANGE_LOCK)?;
        let kept = Identity::load(&self.directory)?;
        match kept.with_document(signed)? {
            Some(newer) => {
                self.directory.write_json(file::DOCUMENT, signed)?;
                Ok(self.replace(newer))
            }
            None => Ok(self.replace(kept)),
        }
    }

    /// Reads the directory again. Says whether there is a newer document.
    ///
    /// # Errors
    /// As [`Identity::load`].
    pub fn reload(&self) -> Result<bool, HostdError> {
        Ok(self.replace(Identity::load(&self.directory)?))
    }

    /// Waits until the document has another number than `seen`, and returns its number then.
    #[must_use]
    pub fn wait_change(&self, seen: u64, timeout: Duration) -> u64 {
        let deadline = Instant::now() + timeout;
        let mut identity = self.lock();
        while identity.document().number == seen {
            let left = deadline.saturating_duration_since(Instant::now());
            if left.is_zero() {
                break;
            }
            let waited = self.changed.wait_timeout(identity, left);
            identity = waited.unwrap_or_else(PoisonError::into_inner).0;
        }
        identity.document().number
    }

    fn replace(&self, identity: Identity) -> bool {
        let mut current = self.lock();
        let is_newer = identity.document().number > current.document().number;
        if is_newer {
            *current = Arc::new(identity);
            self.changed.notify_all();
        }
        is_newer
    }

    fn lock(&self) -> MutexGuard<'_, Arc<Identity>> {
        self.identity.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

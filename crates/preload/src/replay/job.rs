//! What the threads that load have in common: what is to be done, and what ends it early.

use std::path::PathBuf;
use std::sync::{Mutex, OnceLock};

use super::Options;
use super::files::{NotThat, Opened, Root};
use super::memory::Memory;
use super::survey::Survey;
use crate::pack::{Extent, Pack};

/// What is to be done.
pub(super) struct Job<'a> {
    pub(super) pack: &'a Pack,
    pub(super) root: &'a Root,
    pub(super) survey: &'a Survey,
    pub(super) steps: &'a [Extent],
    pub(super) options: &'a Options,
    pub(super) progress: &'a (dyn Fn(u64) + Sync),
}

impl Job<'_> {
    pub(super) fn open(&self, file: u32) -> Result<Opened, NotThat> {
        let wanted = &self.pack.files[file as usize];
        self.root.open_unchanged(wanted, self.pack.any_inode)
    }

    /// Where the file is, as this process sees it.
    pub(super) fn shown(&self, file: u32) -> PathBuf {
        self.root.shown(&self.pack.files[file as usize].path)
    }
}

/// Closes for good when memory becomes scarce.
pub(super) struct Gate<'m> {
    memory: Mutex<&'m mut dyn Memory>,
    reason: OnceLock<String>,
}

impl<'m> Gate<'m> {
    pub(super) fn new(memory: &'m mut dyn Memory) -> Self {
        Self {
            memory: Mutex::new(memory),
            reason: OnceLock::new(),
        }
    }

    pub(super) fn is_closed(&self) -> bool {
        // While another thread looks, its answer is ours one step later.
        if self.reason.get().is_none()
            && let Ok(mut memory) = self.memory.try_lock()
            && let Some(reason) = memory.pressure()
        {
            let _ = self.reason.set(reason);
        }
        self.reason.get().is_some()
    }

    /// Why it was closed. None: it was not.
    pub(super) fn into_reason(self) -> Option<String> {
        self.reason.into_inner()
    }
}

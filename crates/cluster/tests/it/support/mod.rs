//! A carrier over plain TCP on loopback, a directory that a test fills, and hosts with a pool each.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod carrier;
pub(crate) mod directory;
pub(crate) mod host;
pub(crate) mod liar;
pub(crate) mod local;

pub(crate) use hythe_testing::eventually;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::Duration;

/// No wait of a test is longer. It only ends tests that have failed.
pub(crate) const BOUND: Duration = Duration::from_secs(60);

/// A directory for the pools of one test; it goes with the value.
#[derive(Debug)]
pub(crate) struct Root(PathBuf);

impl Root {
    pub(crate) fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        loop {
            let number = MADE.fetch_add(1, Ordering::Relaxed);
            let name = format!("hythe-cluster-test-{}-{number}", std::process::id());
            let path = std::env::temp_dir().join(name);
            match std::fs::create_dir(&path) {
                Ok(()) => return Self(path),
                // A test that was killed left it behind, and had the same process id.
                Err(error) if error.kind() == std::io::ErrorKind::AlreadyExists => {}
                Err(error) => panic!("{}: {error}", path.display()),
            }
        }
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

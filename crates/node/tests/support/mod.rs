//! A directory for the pools of one test, and bounded waiting.
//!
//! Each test has a root of its own; it goes with the value, whatever became of the test.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicU32, Ordering};
use std::time::{Duration, Instant};

use hythe_node::{Pool, PoolOptions};

/// No wait of a test is longer. It only ends tests that have failed.
pub(crate) const BOUND: Duration = Duration::from_secs(20);

/// A root for pools.
#[derive(Debug)]
pub(crate) struct Root(PathBuf);

impl Root {
    pub(crate) fn new() -> Self {
        static MADE: AtomicU32 = AtomicU32::new(0);
        let number = MADE.fetch_add(1, Ordering::Relaxed);
        let path =
            std::env::temp_dir().join(format!("hythe-node-test-{}-{number}", std::process::id()));
        std::fs::create_dir(&path).expect("a fresh directory");
        Self(path)
    }

    pub(crate) fn path(&self) -> &Path {
        &self.0
    }

    /// A small pool under this root.
    pub(crate) fn options(&self) -> PoolOptions {
        PoolOptions::new("test").root(&self.0).bytes(16 << 20)
    }

    /// The small pool, made.
    pub(crate) fn pool(&self) -> Pool {
        Pool::open_or_create(&self.options()).expect("made")
    }
}

impl Drop for Root {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.0);
    }
}

/// Waits until it holds, and fails the test if it never does.
pub(crate) fn eventually(what: &str, mut holds: impl FnMut() -> bool) {
    let start = Instant::now();
    while !holds() {
        assert!(start.elapsed() < BOUND, "not within {BOUND:?}: {what}");
        std::thread::sleep(Duration::from_millis(5));
    }
}

/// Is this test run by root? Says so if not, because then something is left out.
pub(crate) fn is_root(left_out: &str) -> bool {
    let is_root = rustix::process::getuid().is_root();
    if !is_root {
        eprintln!("SKIPPED (needs root): {left_out}");
    }
    is_root
}

//! What the demo makes outside its own memory: a pool and a directory for temporary files. Both go when it ends.

use std::path::Path;

use hythe::{ClassPlan, Geometry, Limits, Pool, PoolOptions};
use tempfile::TempDir;

use super::DemoError;

/// Names of the demo's pools: this and the process id.
const PREFIX: &str = "demo-";
/// Names of its directories for temporary files: this, the process id, and something random.
const FILES_PREFIX: &str = "hythe-demo-";
/// Three stages, an agent, four endpoints of a core, and room to look at them with `hythe who`.
const LIMITS: Limits = Limits {
    participants: 16,
    channels: 32,
    ports: 64,
    connections: 64,
    granules: 128,
    slots: 1024,
};

/// The pool and the directory.
#[derive(Debug)]
pub(super) struct Workspace {
    pub(super) options: PoolOptions,
    pub(super) pool: Pool,
    files: TempDir,
}

impl Workspace {
    pub(super) fn make() -> Result<Self, DemoError> {
        sweep();
        // Payload lives in the core's region; region 0 only has to exist.
        let plan = [ClassPlan {
            payload_bytes: 3840,
            count: 64,
        }];
        let geometry = Geometry::with_classes(LIMITS, &plan).map_err(hythe::NodeError::from)?;
        let options = PoolOptions::new(&pool_name(std::process::id())).geometry(geometry);
        let prefix = format!("{FILES_PREFIX}{}-", std::process::id());
        let files = tempfile::Builder::new().prefix(&prefix).tempdir();
        let files = files.map_err(|source| DemoError::System {
            action: "make a directory for temporary files",
            source,
        })?;
        let pool = Pool::open_or_create(&options)?;
        Ok(Self {
            options,
            pool,
            files,
        })
    }

    pub(super) fn files(&self) -> &Path {
        self.files.path()
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        if let Err(error) = Pool::remove_by_force(&self.options) {
            tracing::error!(%error, "could not remove the demo's pool");
        }
    }
}

fn pool_name(pid: u32) -> String {
    format!("{PREFIX}{pid}")
}

/// Removes what demos left that were killed before they could.
fn sweep() {
    // Where nothing can be listed there is nothing to sweep.
    let names = Pool::list(&PoolOptions::new("any")).unwrap_or_default();
    for name in names.iter().filter(|name| maker_is_gone(name, PREFIX)) {
        // Refused while somebody still takes part: then it is not ours to remove.
        let _ = Pool::remove(&PoolOptions::new(name));
    }
    let entries = std::fs::read_dir(std::env::temp_dir())
        .into_iter()
        .flatten()
        .flatten();
    for entry in entries {
        if maker_is_gone(&entry.file_name().to_string_lossy(), FILES_PREFIX) {
            // Somebody else's: the system refuses.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Does the name begin with the prefix and the id of a process that is no more? One of our own number is of an earlier process,
/// since this is asked before we make anything.
fn maker_is_gone(name: &str, prefix: &str) -> bool {
    let pid = name
        .strip_prefix(prefix)
        .and_then(|rest| rest.split('-').next());
    let pid = pid.and_then(|pid| pid.parse::<u32>().ok());
    pid.is_some_and(|pid| pid == std::process::id() || !Path::new(&format!("/proc/{pid}")).exists())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_dead_demos_made_is_swept() {
        let own = std::process::id();
        let parent = std::os::unix::process::parent_id();
        assert!(!maker_is_gone(&format!("demo-{parent}"), PREFIX));
        assert!(maker_is_gone(&format!("demo-{own}"), PREFIX));
        assert!(maker_is_gone("demo-4194305", PREFIX));
        assert!(maker_is_gone("hythe-demo-4194305-abc", FILES_PREFIX));
        assert!(!maker_is_gone("demo-of-mine", PREFIX));
        assert!(!maker_is_gone("camera", PREFIX));
    }
}

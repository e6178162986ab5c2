//! What a command with a pool of its own makes outside its memory: that pool, and a directory for
//! temporary files. Both go when it ends. Used by `hythe demo`, `hythe play` and `hythe latency
//! board`.

use std::io;
use std::path::Path;

use hythe::{ClassPlan, Geometry, Limits, Pool, PoolOptions};
use tempfile::TempDir;

use crate::remedy;

/// Who it is for. The names of pools are this and the process id, those of directories have
/// something random besides.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum Purpose {
    /// `hythe demo`.
    Demo,
    /// `hythe latency board`.
    Latency,
    /// `hythe play`.
    Play,
}

impl Purpose {
    const ALL: [Self; 3] = [Self::Demo, Self::Latency, Self::Play];

    const fn pool_prefix(self) -> &'static str {
        match self {
            Self::Demo => "demo-",
            Self::Latency => "latency-",
            Self::Play => "play-",
        }
    }

    const fn files_prefix(self) -> &'static str {
        match self {
            Self::Demo => "hythe-demo-",
            Self::Latency => "hythe-latency-",
            Self::Play => "hythe-play-",
        }
    }
}

/// Why there is none.
#[derive(Debug, thiserror::Error)]
pub enum WorkspaceError {
    /// The pool could not be made.
    #[error("{}{}", .0, remedy::of_node(.0))]
    Node(#[from] hythe::NodeError),
    /// The directory could not be made.
    #[error("cannot make a directory for temporary files: {0}")]
    Files(io::Error),
}

/// Three stages, an agent, four endpoints of a core, and space to look at them with `hythe who`.
const LIMITS: Limits = Limits {
    participants: 16,
    channels: 32,
    ports: 64,
    connections: 64,
    queue_segments: 128,
    slots: 1024,
};

/// The pool and the directory.
#[derive(Debug)]
pub struct Workspace {
    /// Of the pool.
    pub options: PoolOptions,
    /// The pool.
    pub pool: Pool,
    files: TempDir,
    others: Vec<PoolOptions>,
}

impl Workspace {
    /// Makes both. Removes what commands left that were killed.
    ///
    /// # Errors
    ///
    /// [`WorkspaceError`].
    pub fn make(purpose: Purpose) -> Result<Self, WorkspaceError> {
        sweep();
        // Payload lives in the core's region; region 0 only has to exist.
        let plan = [ClassPlan {
            payload_bytes: 3840,
            count: 64,
        }];
        let files = temporary(purpose)?;
        let (options, pool) = make_pool(&pool_name(purpose), &plan)?;
        Ok(Self {
            options,
            pool,
            files,
            others: Vec::new(),
        })
    }

    /// One more pool, for another host.
    pub fn add_pool(
        &mut self,
        purpose: Purpose,
        plan: &[ClassPlan],
    ) -> Result<Pool, WorkspaceError> {
        let name = format!("{}-{}", pool_name(purpose), self.others.len() + 1);
        let (options, pool) = make_pool(&name, plan)?;
        self.others.push(options);
        Ok(pool)
    }

    /// The directory for temporary files.
    pub fn files(&self) -> &Path {
        self.files.path()
    }
}

impl Drop for Workspace {
    fn drop(&mut self) {
        for options in self.others.iter().chain([&self.options]) {
            if let Err(error) = Pool::remove_by_force(options) {
                tracing::error!(%error, "could not remove a pool of this command");
            }
        }
    }
}

fn make_pool(name: &str, plan: &[ClassPlan]) -> Result<(PoolOptions, Pool), WorkspaceError> {
    let geometry = Geometry::with_classes(LIMITS, plan).map_err(hythe::NodeError::from)?;
    let options = PoolOptions::new(name).geometry(geometry);
    let pool = Pool::open_or_create(&options)?;
    Ok((options, pool))
}

/// A directory for temporary files alone, whose name says whose it is: if its maker is killed, the
/// next one removes it.
pub fn temporary(purpose: Purpose) -> Result<TempDir, WorkspaceError> {
    let prefix = format!("{}{}-", purpose.files_prefix(), std::process::id());
    let files = tempfile::Builder::new().prefix(&prefix).tempdir();
    files.map_err(WorkspaceError::Files)
}

fn pool_name(purpose: Purpose) -> String {
    format!("{}{}", purpose.pool_prefix(), std::process::id())
}

/// Removes what commands left that were killed before they could.
fn sweep() {
    // Where nothing can be listed there is nothing to sweep.
    let names = Pool::list(&PoolOptions::new("any")).unwrap_or_default();
    let is_left = |name: &str, prefix: fn(Purpose) -> &'static str| {
        let mut purposes = Purpose::ALL.into_iter();
        purposes.any(|purpose| maker_is_gone(name, prefix(purpose)))
    };
    for name in names
        .iter()
        .filter(|name| is_left(name, Purpose::pool_prefix))
    {
        // Refused while somebody still takes part: then it is not ours to remove.
        let _ = Pool::remove(&PoolOptions::new(name));
    }
    let entries = std::fs::read_dir(std::env::temp_dir())
        .into_iter()
        .flatten()
        .flatten();
    for entry in entries {
        if is_left(&entry.file_name().to_string_lossy(), Purpose::files_prefix) {
            // Somebody else's: the system refuses.
            let _ = std::fs::remove_dir_all(entry.path());
        }
    }
}

/// Does the name begin with the prefix and the id of a process that is no more? One of our own
/// number is of an earlier process, since this is asked before we make anything.
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
    fn only_what_dead_commands_made_is_swept() {
        let own = std::process::id();
        let parent = std::os::unix::process::parent_id();
        for purpose in Purpose::ALL {
            let (pools, files) = (purpose.pool_prefix(), purpose.files_prefix());
            assert!(!maker_is_gone(&format!("{pools}{parent}"), pools));
            assert!(maker_is_gone(&format!("{pools}{own}"), pools));
            assert!(maker_is_gone(&format!("{pools}4194305"), pools));
            assert!(maker_is_gone(&format!("{files}4194305-abc"), files));
            assert!(!maker_is_gone(&format!("{pools}of-mine"), pools));
            assert!(!maker_is_gone("camera", pools));
        }
    }
}

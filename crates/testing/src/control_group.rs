//! A control group with a memory limit, where one can be made.

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::time::{Duration, Instant};

/// How long the kernel may take to let go of the last process. Only ends tests that have failed.
const BOUND: Duration = Duration::from_secs(60);

/// A control group of version 1 or 2, removed with the value once its processes have ended.
#[derive(Debug)]
pub struct ControlGroup {
    path: PathBuf,
    limit: &'static str,
}

impl ControlGroup {
    /// A group with that limit, below the one of this process or at the top, whichever the kernel
    /// lets us have.
    ///
    /// # Errors
    /// Why there can be none, for the test to say that it is skipped.
    pub fn with_memory(name: &str, bytes: u64) -> Result<Self, String> {
        let groups = fs::read_to_string("/proc/self/cgroup").unwrap_or_default();
        let own = format!("hythe-test-{}-{name}", std::process::id());
        let mut refused = "there is no hierarchy of control groups".to_owned();
        for (mount, controller, limit) in [
            ("/sys/fs/cgroup/memory", "memory:", "memory.limit_in_bytes"),
            ("/sys/fs/cgroup", ":", "memory.max"),
        ] {
            let lines = groups.lines().filter_map(|line| line.split_once(':'));
            let below = lines.filter_map(|(_, line)| line.strip_prefix(controller));
            for below in below.map(|path| path.trim_start_matches('/')).chain([""]) {
                let path = Path::new(mount).join(below).join(&own);
                match Self::make(path, limit, bytes) {
                    Ok(made) => return Ok(made),
                    Err(error) => refused = error,
                }
            }
        }
        Err(refused)
    }

    fn make(path: PathBuf, limit: &'static str, bytes: u64) -> Result<Self, String> {
        let refused = |error| format!("{}: {error}", path.display());
        fs::create_dir(&path).map_err(refused)?;
        // From here on it is removed again.
        let made = Self { path, limit };
        let written = fs::write(made.path.join(limit), bytes.to_string());
        written.map_err(|error| format!("{}: {error}", made.path.display()))?;
        Ok(made)
    }

    /// A group without a limit of its own below this one.
    ///
    /// # Errors
    /// Why there can be none.
    pub fn inner(&self) -> Result<Self, String> {
        if self.limit == "memory.max" {
            let enabled = fs::write(self.path.join("cgroup.subtree_control"), "+memory");
            enabled.map_err(|error| format!("{}: {error}", self.path.display()))?;
        }
        let path = self.path.join("inner");
        fs::create_dir(&path).map_err(|error| format!("{}: {error}", path.display()))?;
        Ok(Self {
            path,
            limit: self.limit,
        })
    }

    /// Its directory.
    #[must_use]
    pub fn path(&self) -> &Path {
        &self.path
    }

    /// A command that enters the group and becomes that program.
    #[must_use]
    pub fn command(&self, program: &Path) -> Command {
        let mut command = Command::new("sh");
        command
            .args(["-c", "echo $$ > \"$0\" && exec \"$@\""])
            .arg(self.path.join("cgroup.procs"))
            .arg(program);
        command
    }
}

impl Drop for ControlGroup {
    fn drop(&mut self) {
        let start = Instant::now();
        while fs::remove_dir(&self.path).is_err() && self.path.exists() {
            if start.elapsed() > BOUND {
                eprintln!("{} is left behind", self.path.display());
                return;
            }
            std::thread::sleep(Duration::from_millis(5));
        }
    }
}

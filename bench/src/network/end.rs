//! What is common to all ends: how they begin, how they are told, how they answer.

use std::io::{self, BufRead, Write};

use rustix::mount::{MountFlags, mount};
use serde::Serialize;
use serde::de::DeserializeOwned;

use super::message::Answer;
use crate::cpus;
use crate::error::BenchError;

/// Where it shall run, and a `/dev/shm` of its own: seen by this process and those that it starts
/// only, since its mounts are its own; what is made there goes with it.
pub(crate) fn begin(cpu: Option<usize>) -> Result<(), BenchError> {
    if let Some(cpu) = cpu {
        cpus::pin(cpu)?;
    }
    Ok(mount(
        "hythe-bench",
        "/dev/shm",
        "tmpfs",
        MountFlags::empty(),
        None,
    )?)
}

/// From now on `/sys` has the interfaces of this process's network, as some systems look for them,
/// and not those of the network that it was mounted in.
pub(crate) fn show_own_interfaces() -> Result<(), BenchError> {
    let mounted = mount("hythe-bench", "/sys", "sysfs", MountFlags::empty(), None);
    Ok(mounted?)
}

/// None: nobody is there any more.
pub(crate) fn next_order<O: DeserializeOwned>() -> Result<Option<O>, BenchError> {
    let mut line = String::new();
    if io::stdin().lock().read_line(&mut line)? == 0 {
        return Ok(None);
    }
    Ok(Some(serde_json::from_str(&line).map_err(io::Error::from)?))
}

/// To who ordered: all is made ready, and the rest follows.
pub(crate) fn ready() -> Result<(), BenchError> {
    answer(&Answer::<()>::Ready)
}

/// To who ordered.
pub(crate) fn answer<T: Serialize>(answer: &Answer<T>) -> Result<(), BenchError> {
    let line = serde_json::to_string(answer).map_err(io::Error::from)? + "\n";
    let mut out = io::stdout().lock();
    out.write_all(line.as_bytes())?;
    Ok(out.flush()?)
}

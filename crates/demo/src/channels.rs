//! The channels between the stages.

use std::time::Duration;

use serde::{Deserialize, Serialize};

/// From storage to demultiplexer.
pub(crate) const CHANNEL_FILE: &str = "file";
/// From demultiplexer to core.
pub(crate) const CHANNEL_MP3: &str = "mp3";
/// From core to sender.
pub(crate) const CHANNEL_PCM: &str = "pcm";
/// How long a stage waits for its neighbour before it gives up. An emulated core on a busy machine
/// is slow; ten seconds is stuck.
pub(crate) const NEIGHBOUR_TIMEOUT: Duration = Duration::from_secs(10);

/// When something was waited for and came, in nanoseconds of the monotonic clock.
#[derive(Clone, Copy, Debug, Deserialize, Serialize)]
pub(crate) struct Arrival {
    pub(crate) waiting_ns: u64,
    pub(crate) taken_ns: u64,
}

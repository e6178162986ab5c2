//! What each process of the demo is to do: values that a [`Program`](crate::Program) gives to it.

use std::net::SocketAddr;
use std::path::PathBuf;

/// What a process of the demo is to do.
#[derive(Clone, Debug)]
pub struct StageTask {
    /// The process that starts it, with which it ends.
    pub parent: u32,
    /// Name of the demo's pool.
    pub pool: String,
    /// The work.
    pub stage: Stage,
}

/// The three stages.
#[derive(Clone, Debug)]
pub enum Stage {
    /// Reads the file into the pool.
    Storage(StorageTask),
    /// Forwards frames to the core.
    Demux,
    /// Sends RTP.
    Play(PlayTask),
}

impl Stage {
    /// The stage's name, as errors have it.
    #[must_use]
    pub fn name(&self) -> &'static str {
        match self {
            Self::Storage(_) => "storage",
            Self::Demux => "demux",
            Self::Play(_) => "play",
        }
    }
}

/// What the storage stage is to do.
#[derive(Clone, Debug)]
pub struct StorageTask {
    /// The file.
    pub file: PathBuf,
    /// Where its audio ends.
    pub audio_bytes: u64,
    /// The region to read into: one that the core sees.
    pub region: u8,
}

/// What the sender stage is to do.
#[derive(Clone, Debug)]
pub struct PlayTask {
    /// Where to send.
    pub destination: SocketAddr,
    /// Samples a second.
    pub hz: u32,
    /// Channels.
    pub channels: u8,
    /// Buffers that will come from the core.
    pub parts: u64,
    /// They come from another host: not in the core's own slots.
    pub across: bool,
}

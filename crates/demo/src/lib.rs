//! The main job end to end: flash -> pool -> RTOS core decodes -> RTP, each step a process of its
//! own, and the result checked against a reference.
//!
//! ```text
//! storage --file--> demux --mp3--> core --pcm--> sender --RTP--> ffmpeg --> WAV
//! ```
//!
//! `hythe demo` calls it: [`Demo::prepare`] looks at the file and chooses a board; [`Demo::run`]
//! starts the core, the [`receiver`] and the three stages, waits for them, and compares what ffmpeg
//! recorded with what minimp3 decodes on the host. A stage is a process that the caller's
//! [`Program`] starts, in which [`run_stage`] does the work. [`counter`] counts packets without
//! asking their sender.
//!
//! Whatever happens, no process stays behind: stages die with the process that started them. The
//! pool and the directory for files are the caller's. Never reads arguments, never prints.

mod channels;
mod children;
pub mod counter;
mod demux;
mod error;
mod orchestrate;
mod play;
mod ports;
mod program;
pub mod receiver;
mod reference;
mod scan;
mod stage;
mod storage;
mod task;
mod verdict;

pub use error::DemoError;
pub use orchestrate::{Demo, DemoOptions};
pub use program::{Program, StageOutput};
pub use stage::run_stage;
pub use task::{PlayTask, Stage, StageTask, StorageTask};
pub use verdict::{Hop, Verdict};

//! The demo of Hythe: a file is read, decoded by an RTOS core and sent as RTP, by one process for
//! each step, and the result is compared with a reference decoder.
//!
//! ```text
//! storage --file--> demux --mp3--> core --pcm--> sender --RTP--> ffmpeg --> WAV
//! ```
//!
//! `hythe demo` calls it. [`Demo::prepare`] checks the file and chooses a board. [`Demo::run`]
//! starts the core, the [`receiver`] (ffmpeg) and the three stages, waits for them, and compares
//! what ffmpeg recorded with what minimp3 decodes on the host. A stage is a process that the
//! caller's [`Program`] starts; [`run_stage`] is its body. [`counter`] counts packets in the
//! kernel, independently of their sender.
//!
//! The core with all before it may be on one host and the sender on another: each has a pool then,
//! and [`Program`] knows how the two are reached and connected.
//!
//! No process outlives the demo: the kernel kills a stage when the process that started it dies.
//! The pools and the directory for files belong to the caller. But for [`command`], it never reads
//! arguments, and never prints.

mod channels;
mod children;
pub mod command;
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
pub use program::{Host, Pools, Program, StageOutput};
pub use stage::run_stage;
pub use task::{PlayTask, Stage, StageTask, StorageTask};
pub use verdict::{Hop, Verdict};

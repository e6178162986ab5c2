//! Who decodes: a core with its agent, or processes on Linux.

use std::sync::{Arc, Mutex};
use std::time::Duration;

use hythe::core::{Board, Core, CoreOptions, CoreState};
use hythe::{Node, Pool};

use crate::error::PlayError;
use crate::method::{DecoderProcess, Flow, Method, open_core};
use crate::ports::{Channels, PROGRAM, join};
use crate::stage::locked;

/// How long an agent may take to see that its core has ended.
const END_SEEN: Duration = Duration::from_secs(1);

/// What decodes. Dropped, it is stopped.
pub(crate) enum Decoders {
    Core {
        // In the order in which they have to go.
        node: Node,
        core: Core,
        method: Method,
    },
    Linux {
        processes: Mutex<Vec<Arc<DecoderProcess>>>,
        /// For how long one may owe an answer.
        bound: Duration,
    },
}

impl Decoders {
    /// Starts the core of the board and joins the pool.
    pub(crate) fn start_core(
        pool: &Pool,
        board: &Board,
        method: Method,
        is_stop_requested: &dyn Fn() -> bool,
    ) -> Result<Self, PlayError> {
        let options = CoreOptions::default()
            .app(PROGRAM)
            // What is copied is announced by rings alone.
            .wakes_at_every_ring(method == Method::Copy);
        let core = Core::start_unless(pool, board, &options, is_stop_requested)?;
        let node = join(pool)?;
        Ok(Self::Core { node, core, method })
    }

    /// Each way starts a process.
    pub(crate) const fn on_linux(bound: Duration) -> Self {
        Self::Linux {
            processes: Mutex::new(Vec::new()),
            bound,
        }
    }

    /// Opens the way to a decoder, and back.
    pub(crate) fn flow(&self, channels: &Channels) -> Result<Flow, PlayError> {
        match self {
            Self::Core { node, method, .. } => open_core(node, channels, *method),
            Self::Linux { processes, bound } => {
                let (process, flow) = DecoderProcess::start(channels, *bound)?;
                locked(processes).push(process);
                Ok(flow)
            }
        }
    }

    /// The participant that the core's channels are used by; none: Linux decodes.
    pub(crate) const fn node(&self) -> Option<&Node> {
        match self {
            Self::Core { node, .. } => Some(node),
            Self::Linux { .. } => None,
        }
    }

    /// An error if the core has ended. What a process has come to, its pipes say.
    pub(crate) fn check(&self) -> Result<(), PlayError> {
        if let Self::Core { core, .. } = self {
            let status = core.status();
            if status.state != CoreState::Up {
                return Err(PlayError::CoreEnded(status.reason.unwrap_or_default()));
            }
        }
        Ok(())
    }

    /// A port says only that the core is silent where the core has ended, a moment before its agent
    /// knows.
    pub(crate) fn why(&self, failure: PlayError) -> PlayError {
        let Self::Core { core, .. } = self else {
            return failure;
        };
        let is_of_a_port = matches!(failure, PlayError::Node(_) | PlayError::Vring(_));
        let ended =
            is_of_a_port && core.wait_until(END_SEEN, |status| status.state != CoreState::Up);
        match ended {
            true => PlayError::CoreEnded(core.status().reason.unwrap_or_default()),
            false => failure,
        }
    }

    /// Ends it, once all its ways are closed. Returns the CPU time of decoding on Linux.
    pub(crate) fn stop(self) -> Result<Duration, PlayError> {
        match self {
            Self::Core { node, core, .. } => {
                drop(node);
                core.stop()?;
                Ok(Duration::ZERO)
            }
            Self::Linux { processes, .. } => {
                let mut spent = Duration::ZERO;
                for process in locked(&processes).drain(..) {
                    spent += process.finish()?;
                }
                Ok(spent)
            }
        }
    }
}

//! What ends a benchmark early, and the exit code it gets.

mod boot;

use std::fmt::Display;
use std::io;
use std::time::Duration;

use hythe_media::MediaError;
use hythe_node::NodeError;
use hythe_rtp::RtpError;

pub(crate) use boot::BootError;

/// Errors of this program.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub(crate) enum BenchError {
    /// The system refused.
    #[error(transparent)]
    System(#[from] io::Error),
    /// The pool refused.
    #[error(transparent)]
    Node(#[from] NodeError),
    /// The media hop refused.
    #[error(transparent)]
    Media(#[from] MediaError),
    /// The protocol crate of the media hop refused.
    #[error(transparent)]
    Rtp(#[from] RtpError),
    /// The copying transfer refused.
    #[error("invalid: {0}")]
    Vring(#[from] hythe_vring::VringError),
    /// iceoryx2 refused.
    #[error("iceoryx2: {what}: {why}")]
    Iceoryx2 {
        /// What was asked of it.
        what: &'static str,
        /// Its reason.
        why: String,
    },
    /// The other process is gone or silent.
    #[error("invalid: the peer is lost: {0}")]
    PeerLost(String),
    /// A port of an earlier run is still there.
    #[error("invalid: after {timeout:?} there is still a {:?} of channel {} of participant \
         {}", port.kind, port.channel.0, port.member.0)]
    PortsLeft {
        /// What was waited for.
        timeout: std::time::Duration,
        /// One of them.
        port: hythe_pool::PortInfo,
    },
    /// A message was passed by.
    #[error("invalid: message {number} was not delivered")]
    Dropped {
        /// Which.
        number: u64,
    },
    /// What came is not what was sent.
    #[error("invalid: message {number} arrived with another content than was sent")]
    Damaged {
        /// Which.
        number: u64,
    },
    /// It happened in this case.
    #[error("{case}, {size} bytes: {why}")]
    In {
        /// Which.
        case: String,
        /// Of which size.
        size: usize,
        /// What happened.
        why: Box<BenchError>,
    },
    /// The ledger does not add up.
    #[error("invalid: the ledger after {case}, {size} bytes: {why}")]
    Audit {
        /// After which case.
        case: String,
        /// Of which size.
        size: usize,
        /// What is wrong with it.
        why: String,
    },
    /// A boot of the emulated board came to nothing.
    #[error(transparent)]
    Boot(Box<BootError>),
    /// The figures are not to be trusted.
    #[error("invalid: {0}")]
    Invalid(String),
    /// A signal asked to stop.
    #[error("stopped by a signal")]
    Stopped,
    /// A host could not do what it was ordered, and takes the next order.
    #[error("{0}")]
    OrderFailed(String),
    /// It cannot be measured on this machine, or by this user.
    #[error("{0}")]
    Unable(String),
    /// Nothing is left to measure.
    #[error("{0}")]
    WrongUse(String),
}

impl BenchError {
    pub(crate) fn silent(waited: Duration) -> Self {
        Self::PeerLost(format!("nothing came from it for {waited:?}"))
    }

    /// Says in which case it happened, where it does not say so itself.
    pub(crate) fn of(self, case: &impl Display, size: usize) -> Self {
        match self {
            Self::Stopped | Self::WrongUse(_) | Self::Audit { .. } | Self::In { .. } => self,
            why => Self::In {
                case: case.to_string(),
                size,
                why: Box::new(why),
            },
        }
    }

    pub(crate) const fn exit_code(&self) -> u8 {
        match self {
            Self::WrongUse(_) => 2,
            _ => 1,
        }
    }
}

impl From<rustix::io::Errno> for BenchError {
    fn from(error: rustix::io::Errno) -> Self {
        Self::System(error.into())
    }
}

impl From<BootError> for BenchError {
    fn from(error: BootError) -> Self {
        Self::Boot(Box::new(error))
    }
}

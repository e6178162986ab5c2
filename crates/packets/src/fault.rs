//! Why a flow ended, and why a packet was dropped.

use std::fmt;

/// Why a flow ended. What was not accepted may or may not have arrived.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum Fault {
    /// A setting is out of its bounds.
    Settings {
        /// Which.
        field: &'static str,
    },
    /// No answer for as long as the settings say.
    Unreachable {
        /// How long.
        silent_ns: u64,
    },
    /// A field of a packet contradicts its other fields.
    Malformed {
        /// Number of the packet.
        number: u64,
    },
    /// A message is longer than agreed.
    TooLong {
        /// The message.
        message: u64,
        /// Its length.
        length: u32,
    },
    /// A message exceeds the credit.
    BeyondCredit {
        /// The message.
        message: u64,
    },
    /// Two packets disagree about a message.
    Changed {
        /// The message.
        message: u64,
    },
    /// A message behind the end of the flow, or an end before a message.
    BehindEnd {
        /// The message.
        message: u64,
    },
    /// A packet was acknowledged that was never sent.
    NeverSent {
        /// Number of the packet.
        number: u64,
    },
    /// A message was accepted that was never sent as a whole.
    NeverWhole {
        /// The first that is not accepted.
        accepted: u64,
    },
    /// Credit or accepted messages became fewer.
    Withdrawn {
        /// Largest acknowledged packet.
        number: u64,
    },
}

impl fmt::Display for Fault {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Settings { field } => write!(out, "setting {field} is out of its bounds"),
            Self::Unreachable { silent_ns } => {
                write!(out, "no answer for {} ms", silent_ns / 1_000_000)
            }
            Self::Malformed { number } => write!(out, "packet {number} contradicts itself"),
            Self::TooLong { message, length } => {
                write!(
                    out,
                    "message {message} has {length} bytes, more than agreed"
                )
            }
            Self::BeyondCredit { message } => write!(out, "message {message} exceeds the credit"),
            Self::Changed { message } => write!(out, "packets disagree about message {message}"),
            Self::BehindEnd { message } => {
                write!(out, "message {message} and the end of the flow disagree")
            }
            Self::NeverSent { number } => {
                write!(out, "packet {number} was acknowledged and never sent")
            }
            Self::NeverWhole { accepted } => {
                write!(out, "messages below {accepted} were accepted and not sent")
            }
            Self::Withdrawn { number } => {
                write!(
                    out,
                    "the acknowledgement of packet {number} withdraws credit"
                )
            }
        }
    }
}

impl std::error::Error for Fault {}

/// Why a packet was dropped. It is not answered.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum DropReason {
    /// Shorter than a header, or not as long as its header says.
    Length,
    /// Of no session, or of an old one.
    Session,
    /// Of another flow.
    Flow,
    /// Damaged.
    Checksum,
    /// Of a kind that this end does not take.
    Kind,
    /// Came before.
    Duplicate,
    /// So late that its sender has given it up.
    Late,
    /// There were too many gaps to remember one more.
    Gaps,
}

/// Packets that were dropped, by reason.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Drops([u64; 8]);

impl Drops {
    /// How many for this reason.
    #[must_use]
    pub fn count(&self, reason: DropReason) -> u64 {
        self.0[reason as usize]
    }

    /// How many for any reason.
    #[must_use]
    pub fn total(&self) -> u64 {
        self.0.iter().sum()
    }

    pub(crate) fn add(&mut self, reason: DropReason) {
        self.0[reason as usize] += 1;
    }
}

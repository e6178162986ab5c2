//! How a connection begins.

use serde::{Deserialize, Serialize};

use super::{CarriedType, EndKind, FrameError, text};
use crate::HostName;

/// Version of the protocol; both ends must speak the same.
pub const VERSION: u32 = 8;
/// Size of a preamble.
pub const PREAMBLE_BYTES: usize = 16;
const MAGIC: [u8; 8] = *b"HYTHEHST";

/// The first bytes each way: the same in all versions, so that a wrong one can be named.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Preamble;

impl Preamble {
    /// As bytes.
    #[must_use]
    pub fn to_bytes() -> [u8; PREAMBLE_BYTES] {
        let mut bytes = [0; PREAMBLE_BYTES];
        bytes[..8].copy_from_slice(&MAGIC);
        bytes[8..12].copy_from_slice(&VERSION.to_le_bytes());
        bytes
    }

    /// Checks those of a peer.
    ///
    /// # Errors
    /// [`FrameError::NotAnAgent`], [`FrameError::OtherVersion`].
    pub fn check(bytes: &[u8; PREAMBLE_BYTES]) -> Result<(), FrameError> {
        let (mut magic, mut version) = ([0; 8], [0; 4]);
        magic.copy_from_slice(&bytes[..8]);
        version.copy_from_slice(&bytes[8..12]);
        if magic != MAGIC {
            return Err(FrameError::NotAnAgent(magic));
        }
        let theirs = u32::from_le_bytes(version);
        if theirs != VERSION {
            return Err(FrameError::OtherVersion { theirs });
        }
        Ok(())
    }
}

/// The first message on a connection, from who dialled; an [`Answer`] follows.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Hello {
    /// Who sends this. The carrier has proven it; both must agree.
    pub host: HostName,
    /// What the connection is for.
    pub purpose: Purpose,
}

/// What a connection is for.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Purpose {
    /// It begins a session: that of who sends this has this number, chosen at random.
    Control {
        /// The number.
        session: u64,
    },
    /// It carries a stream within a session.
    Data {
        /// The number that the receiver of this chose for the session.
        session: u64,
        /// Which stream.
        opening: Opening,
    },
    /// It leads to tasks, or to their runner, within a session.
    Tasks {
        /// The number that the receiver of this chose for the session.
        session: u64,
        /// What it is to lead to.
        wish: TasksWish,
    },
    /// It asks what the host is and what its clock says: the answer is all that follows.
    Host {
        /// The number that the receiver of this chose for the session.
        session: u64,
    },
}

/// What a connection about tasks leads to. A job is HOST << 9 | JOB, with the number of its host in
/// the realm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum TasksWish {
    /// A part of a job of the sender's host, which is begun at the receiver's.
    Part {
        /// Of which job.
        job: u32,
        /// The program that is to be started first.
        #[serde(deserialize_with = "text::program")]
        program: String,
        /// All other hosts of the job: their tasks reach each other.
        hosts: Vec<HostName>,
    },
    /// The runner of a job of the receiver's host, for a task at the sender's.
    Runner {
        /// Of which job.
        job: u32,
    },
    /// What serves the tasks of such a job besides the runner.
    Service {
        /// Of which job.
        job: u32,
    },
}

/// What a data connection carries, told by its sender.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Opening {
    /// Number of the stream, chosen by its sender, unique in the session. A stream that goes on
    /// over a new connection keeps it.
    pub stream: u32,
    /// What meets on the channel.
    pub kind: EndKind,
    /// Its name.
    #[serde(deserialize_with = "text::name")]
    pub channel: String,
    /// What it carries at the sender.
    pub carries: CarriedType,
}

/// The answer to a [`Hello`].
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub enum Answer {
    /// A session begins: that of who sends this has this number, chosen at random.
    Session {
        /// The number.
        session: u64,
    },
    /// Frames of the stream may come.
    Stream {
        /// How many.
        window: Window,
        /// The longest payload that fits a slot here.
        payload_bytes_max: u32,
        /// The last frame of the stream that was taken; 0: none.
        taken: u64,
    },
    /// Neither.
    Refused {
        /// Why.
        #[serde(deserialize_with = "text::reason")]
        reason: String,
    },
    /// The connection is one with what was wished.
    Tasks,
    /// What the host is.
    Host(HostFacts),
}

/// What a host is, and what its clock says.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct HostFacts {
    /// Nanoseconds since 1970 began, by its clock, when it answered.
    pub clock_ns: u64,
    /// Bytes of an address in its programs.
    pub pointer_bytes: u8,
    /// Its numbers begin with the byte that counts most.
    pub is_big_endian: bool,
}

/// How much may be sent and not acknowledged. A single frame may always be.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Window {
    /// Frames.
    pub frames: u32,
    /// Bytes of their payload.
    pub bytes: u64,
}

impl Window {
    /// No more than another.
    pub(crate) fn at_most(self, other: Self) -> Self {
        Self {
            frames: self.frames.min(other.frames),
            bytes: self.bytes.min(other.bytes),
        }
    }

    /// Of several streams together.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            frames: self.frames.saturating_add(other.frames),
            bytes: self.bytes.saturating_add(other.bytes),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn strangers_and_other_versions_are_named() {
        let good = Preamble::to_bytes();
        assert_eq!(Preamble::check(&good), Ok(()));
        let other = *b"HTTP/1.1 400 Bad";
        assert!(matches!(
            Preamble::check(&other),
            Err(FrameError::NotAnAgent(_))
        ));
        let mut newer = good;
        let theirs = VERSION + 1;
        newer[8..12].copy_from_slice(&theirs.to_le_bytes());
        assert_eq!(
            Preamble::check(&newer),
            Err(FrameError::OtherVersion { theirs })
        );
    }
}

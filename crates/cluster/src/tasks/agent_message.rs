//! What a process of the pool asks the agent of this host about tasks, over the socket
//! `tasks.agent` in the pool's directory: a line of JSON each way. Behind the answer
//! [`AgentReply::Connected`] the connection is one with the other host's runner, or with the part
//! of a job there.
//!
//! Only programs of one release meet there.

use std::time::Duration;

use serde::{Deserialize, Serialize};

use super::id::JobId;
use crate::HostName;

/// The socket's name.
pub(crate) const AGENT_SOCKET: &str = "tasks.agent";
/// Where what serves jobs besides their runners takes connections of tasks on other hosts. The
/// agent writes the name of that host first, and a line break.
pub(crate) const SERVICE_SOCKET: &str = "service.hosts";
/// The longest line.
pub(crate) const AGENT_LINE_BYTES_MAX: usize = 64 << 10;

/// What is asked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "request")]
pub(crate) enum AgentRequest {
    /// Which host this is, and what jobs of others have tasks here.
    Here,
    /// To be connected with the runner of a job of another host. [`AgentReply::Here`]: it is one of
    /// this host.
    Runner {
        /// Of which job: its number has that of the host in front.
        job: JobId,
    },
    /// To be connected with what serves the job on its host besides the runner: the socket
    /// [`SERVICE_SOCKET`] in the directory of its pool. [`AgentReply::Here`]: it is this host.
    Service {
        /// Of which job.
        job: JobId,
    },
    /// To be told the end of the session with a host: [`AgentReply::Connected`], and then the end
    /// of this connection.
    Watch {
        /// Which.
        host: HostName,
    },
    /// What a host is, and what its clock says.
    Facts {
        /// Which.
        host: HostName,
    },
    /// To start a part of a job of this host on another one.
    Part {
        /// Where.
        host: HostName,
        /// Of which job.
        job: JobId,
        /// The program that is to be started first; its rule there is asked.
        program: String,
        /// All hosts of the job: their tasks reach each other.
        hosts: Vec<HostName>,
    },
    /// May a host have this program started here?
    MaySpawn {
        /// Which host.
        host: HostName,
        /// Which program.
        program: String,
    },
}

/// What is answered.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case", tag = "reply")]
pub(crate) enum AgentReply {
    /// This host.
    Here {
        /// Its name.
        host: HostName,
        /// Its number in the realm; 0: it has none.
        number: u32,
        /// Jobs of other hosts that have a part here.
        jobs: Vec<JobId>,
    },
    /// The other side is at the other end from now on.
    Connected,
    /// What the host is.
    Facts(FoundHost),
    /// It may.
    Permitted,
    /// It is not done.
    Refused {
        /// Why.
        reason: String,
    },
}

/// What another host is, and what its clock says. Times are since 1970 began.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct FoundHost {
    /// By its clock, when it answered.
    pub clock: Duration,
    /// By the clock of this host, before.
    pub asked: Duration,
    /// And after.
    pub answered: Duration,
    /// Bytes of an address in its programs.
    pub pointer_bytes: u8,
    /// Its numbers begin with the byte that counts most.
    pub is_big_endian: bool,
}

//! What an agent says of itself and of other hosts: the document of `hythe host status --json`.

use std::net::SocketAddr;

use serde::{Deserialize, Serialize};

use crate::frame::{EndKind, Ends, Window};
use crate::{ConnectionAbout, HostName};

/// An agent at one moment.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Status {
    /// This host.
    pub host: HostName,
    /// The pool that it serves.
    pub pool: String,
    /// The agent's process.
    pub pid: u32,
    /// Interfaces whose links the user trusts: flows go over them in clear text.
    #[serde(default)]
    pub trusted: Vec<String>,
    /// Connections that hosts tried to make and that came to nothing.
    pub refused_connections: u64,
    /// What became of the calls that came in, before they were connections of hosts.
    #[serde(default)]
    pub calls: Calls,
    /// The open files of the agent, where they are too many for anything new.
    #[serde(default)]
    pub no_files_left: Option<OpenFiles>,
    /// How the others find this host, and it them.
    #[serde(default)]
    pub directory: DirectoryStatus,
    /// All hosts that are known.
    pub hosts: Vec<HostStatus>,
    /// What is open to programs outside the realm; `None`: nothing.
    #[serde(default)]
    pub open: Option<OpenStatus>,
}

/// Open files of an agent.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct OpenFiles {
    /// That it has.
    pub open: u64,
    /// That it may have (`RLIMIT_NOFILE`).
    pub limit: u64,
}

/// Channels that are open to Zenoh programs outside the realm, without keys and encryption.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenStatus {
    /// Where those programs connect, as Zenoh writes it.
    pub address: String,
    /// Their routers or peers that the agent connects to, `HOST:PORT`.
    pub peers: Vec<String>,
    /// Why they cannot be met; empty: they can.
    pub trouble: String,
    /// The channels.
    pub channels: Vec<OpenChannelStatus>,
}

/// A channel that is open to Zenoh programs outside the realm.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct OpenChannelStatus {
    /// Its name.
    pub channel: String,
    /// Its key for Zenoh.
    pub key: String,
    /// What went wrong last; empty: nothing.
    pub reason: String,
    /// Messages given to Zenoh.
    pub sent: u64,
    /// Messages published here that were not: a program outside did not keep up.
    pub not_sent: u64,
    /// Messages from there that were published here.
    pub taken: u64,
    /// Messages from there that were not: too long or of a wrong length, too many at once, or
    /// without a free slot.
    pub not_taken: u64,
    /// How often each byte is copied.
    pub copies: Copies,
}

/// Calls of other programs; strangers are among them.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Calls {
    /// Of hosts of the realm, which have connections now.
    pub accepted: u64,
    /// That did not begin as an agent's do.
    pub not_hythe: u64,
    /// Without a certificate of the realm, or with this host's own name.
    pub not_trusted: u64,
    /// With a revoked certificate.
    pub revoked: u64,
    /// Of other versions.
    pub other_version: u64,
    /// That did not finish in time, or broke off.
    pub too_slow: u64,
    /// That gave way to newer ones, or came when too many were waiting.
    pub crowded_out: u64,
}

/// The directory of hosts.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct DirectoryStatus {
    /// Where this host says it can be reached.
    pub addresses: Vec<SocketAddr>,
    /// Tokens of others that there was no memory for.
    pub refused_tokens: u64,
    /// Calls to the port of the discovery that proved no certificate of the realm in time, or gave
    /// way to newer ones.
    #[serde(default)]
    pub refused_calls: u64,
    /// Why others cannot be seen at present.
    pub trouble: Option<String>,
    /// The key of a token by which another agent says that it is this host.
    pub namesake: Option<String>,
}

/// Another host, as this one sees it.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct HostStatus {
    /// Its name.
    pub host: HostName,
    /// How it is.
    pub state: HostState,
    /// Why it is not connected, or what ended the last session; empty: nothing to be told.
    pub reason: String,
    /// Where the directory says it is.
    pub addresses: Vec<String>,
    /// The session with it, while there is one.
    pub session: Option<SessionStatus>,
    /// Sessions with it so far.
    pub sessions: u64,
    /// What was lost, in all sessions.
    pub losses: Losses,
}

/// How another host is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum HostState {
    /// There is a session.
    Connected,
    /// The directory says it is there, and there is no session.
    Connecting,
    /// The directory does not say that it is there.
    Away,
}

/// A session.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct SessionStatus {
    /// Its number at this side, hexadecimal.
    pub number: String,
    /// For how long it has been.
    pub age_ms: u64,
    /// How the control connection is made.
    pub connection: ConnectionAbout,
    /// Whether tasks may send over its link themselves, and how many do.
    #[serde(default)]
    pub link: LinkStatus,
    /// From a keep-alive to its echo, the last; `None`: none came yet.
    pub round_trip_ns: Option<u64>,
    /// What this host may have underway to the other, all channels together, and what it has.
    pub credit: Credit,
    /// Copies of each payload byte by this host's CPUs.
    pub copies: Copies,
    /// Its channels.
    pub channels: Vec<ChannelStatus>,
    /// The ends that the other host has, as far as it told.
    #[serde(default)]
    pub ends: Vec<Ends>,
}

/// The link of a control connection, and the flows over it.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct LinkStatus {
    /// Its interface here, if that was looked for.
    pub interface: Option<String>,
    /// Why no flow goes over it; empty: flows may.
    pub why_no_flows: String,
    /// How flows are sent that begin now: `tls`, or `tcp` in clear text.
    #[serde(default)]
    pub transport: String,
    /// Why they are sealed: the link is not one that both users trust, so. Empty: they are not.
    #[serde(default)]
    pub why_sealed: String,
    /// Flows that send to the other host.
    pub sending: u32,
    /// Flows that receive from there.
    pub receiving: u32,
    /// Flows that are being set up, or wait until they can be.
    pub pending: u32,
}

/// Credit at the other host.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Credit {
    /// What may be underway.
    pub window: Window,
    /// What is: sent and not acknowledged.
    pub used: Window,
}

impl Credit {
    /// Of several channels together.
    pub(crate) const fn plus(self, other: Self) -> Self {
        Self {
            window: self.window.plus(other.window),
            used: self.used.plus(other.used),
        }
    }
}

/// How often each payload byte is copied by the CPUs of this host.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Copies {
    /// From a slot to the card.
    pub sending: u32,
    /// From the card to a slot.
    pub receiving: u32,
}

/// What did not get across. Each message is counted where it was lost.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct Losses {
    /// Messages that publishers here dropped for the other host.
    pub not_sent: u64,
    /// Messages sent of which a session's end leaves open whether they arrived.
    pub unconfirmed: u64,
    /// Messages from there for which no slot was free here.
    pub no_slot: u64,
    /// Messages from there, and channels to there, for which it had its share of the tables of this
    /// pool.
    pub beyond_share: u64,
    /// Messages from there of another type than the channel carries here.
    #[serde(default)]
    pub other_type: u64,
    /// Messages longer than the largest slot of the receiver.
    pub too_long: u64,
    /// Messages from there that did not reach a subscriber here.
    pub not_delivered: u64,
    /// Connections of channels that broke and were made again.
    pub reconnections: u64,
}

/// One channel and direction.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct ChannelStatus {
    /// Its name.
    pub channel: String,
    /// What meets on it.
    pub kind: EndKind,
    /// Which way.
    pub direction: Direction,
    /// How it is.
    pub state: ChannelState,
    /// Why it is so; empty: nothing to be told.
    pub reason: String,
    /// Messages that crossed.
    pub messages: u64,
    /// Their payload.
    pub payload_bytes: u64,
    /// The credit of a channel that is sent.
    pub credit: Option<Credit>,
    /// What carries it: that of the control connection; or, where tasks send themselves, `tls`,
    /// `tcp`, or `tcp, xdp`: short messages go by `AF_XDP` frames, too.
    #[serde(default)]
    pub carrier: String,
    /// Why no better one does; empty: it is the best, or there is no better one for its kind.
    #[serde(default)]
    pub why_not_better: String,
    /// Publishers whose process sends to that of the subscriber. What they send is not counted
    /// among the messages.
    #[serde(default)]
    pub flows: u32,
    /// Messages of a channel that is sent which the other host did not take: it counts them among
    /// its losses.
    #[serde(default)]
    pub not_taken: u64,
    /// How often the CPUs of this host copy each byte that goes by those: the most of what
    /// `carrier` names.
    #[serde(default)]
    pub flow_copies: FlowCopies,
}

/// How often each payload byte of a flow is copied by the CPUs of this host: of several flows the
/// most.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct FlowCopies {
    /// By the kernel: 1, or 0 where the card itself reads or writes the memory.
    pub by_kernel: u32,
    /// By the program that sends or receives.
    pub by_program: u32,
    /// By it, of payload that cannot leave from where it lies: in a slot that is not of the region
    /// for network cards, or not longer than 256 bytes.
    pub by_program_elsewhere: u32,
}

impl FlowCopies {
    pub(crate) const fn of(by_kernel: u32, by_program: u32, by_program_elsewhere: u32) -> Self {
        Self {
            by_kernel,
            by_program,
            by_program_elsewhere,
        }
    }

    /// The most of two flows.
    pub(crate) fn most(self, other: Self) -> Self {
        Self {
            by_kernel: self.by_kernel.max(other.by_kernel),
            by_program: self.by_program.max(other.by_program),
            by_program_elsewhere: self.by_program_elsewhere.max(other.by_program_elsewhere),
        }
    }
}

/// Which way a channel goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum Direction {
    /// To the other host.
    Sending,
    /// From it.
    Receiving,
}

/// How a channel is.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum ChannelState {
    /// It carries messages.
    Open,
    /// Its connection is being made.
    Connecting,
    /// It is wanted, and nobody sends.
    Waiting,
    /// It is not permitted, or does not fit.
    Refused,
}

//! What goes wrong with identity, files and commands. Connections have errors of their own.
//!
//! Never names a command of another program than `hythe`.

use std::io;
use std::path::PathBuf;

use hythe_cluster::{BadHostName, HostName};
use hythe_terminal::escaped;

/// Why something about the hosts of a realm could not be done.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum HostdError {
    /// The system refused something about a file.
    #[error("{}: {source}", escaped(.path))]
    File {
        /// Which.
        path: PathBuf,
        /// What the system said.
        source: io::Error,
    },
    /// A directory that others than its owner can reach, or that is somebody else's.
    #[error("{} {reason}", escaped(.path))]
    NotPrivate {
        /// Which.
        path: PathBuf,
        /// What about it, and what to do.
        reason: String,
    },
    /// A file whose text is not what was written there.
    #[error("{}: {reason}", escaped(.path))]
    Damaged {
        /// Which.
        path: PathBuf,
        /// Where it goes wrong.
        reason: String,
    },
    /// There is no identity yet.
    #[error(
        "this host belongs to no realm: {} has no {file}; `hythe host init` begins a realm, `hythe \
         host add` on another host adds this one to it", escaped(.directory)
    )]
    NoRealm {
        /// Where it was looked for.
        directory: PathBuf,
        /// What is missing.
        file: &'static str,
    },
    /// There is one already.
    #[error(
        "this host is {name} of realm {realm} already ({}); set HYTHE_HOSTS_DIR for another \
         identity, or remove that directory to give this one up", escaped(.directory)
    )]
    HasRealm {
        /// What it is called there.
        name: HostName,
        /// The realm's id.
        realm: String,
        /// Where that is kept.
        directory: PathBuf,
    },
    /// The authority's key is on another host.
    #[error(
        "the key of realm {realm} is not on this host ({name}): run this on the host where `hythe \
         host init` was run"
    )]
    NotAuthority {
        /// The realm's id.
        realm: String,
        /// This host.
        name: HostName,
    },
    /// Two hosts of one name.
    #[error(
        "the name {name} is taken in realm {realm}: choose another (--name), or remove that host \
         first (`hythe host remove {name}`)"
    )]
    NameTaken {
        /// Which.
        name: HostName,
        /// The realm's id.
        realm: String,
    },
    /// No host of that name.
    #[error("realm {realm} has no host {name}; it has: {}", listed(.known))]
    UnknownHost {
        /// Which.
        name: HostName,
        /// The realm's id.
        realm: String,
        /// The hosts that it has.
        known: Vec<HostName>,
    },
    /// The authority's own name.
    #[error(
        "host {name} is this one, which signs for the realm: without it nobody takes hosts in or \
         puts them out; to end the realm, remove the other hosts and then the hosts directory of \
         each"
    )]
    OwnHost {
        /// Which.
        name: HostName,
    },
    /// A name that no host can have.
    #[error(transparent)]
    BadName(#[from] BadHostName),
    /// Two programs of two versions.
    #[error("{what} is hythe {theirs}, this program is hythe {ours}: install the same version")]
    OtherVersion {
        /// Which program.
        what: String,
        /// Its version.
        theirs: String,
        /// This program's.
        ours: String,
    },
    /// A document of the realm that its authority did not sign, or an older one.
    #[error("the list of hosts of realm {realm} is refused: {reason}")]
    BadDocument {
        /// The realm's id.
        realm: String,
        /// Why.
        reason: String,
    },
    /// A signing request, certificate or key that is of no use.
    #[error("{what}: {reason}")]
    BadCertificate {
        /// What it is, and whose.
        what: String,
        /// Why.
        reason: String,
    },
    /// A host was not taken in; nothing of it is left.
    #[error("host {name} is not in the realm: {reason}")]
    NotAdded {
        /// Which.
        name: HostName,
        /// Why not.
        reason: Box<HostdError>,
    },
    /// A host was taken in, and its agent does not run.
    #[error(
        "host {name} is in the realm, and its agent does not run: {reason}; when that is mended, \
         start it there (`{}`), or put the host out again (`hythe host remove {name}`)",
        escaped(.start)
    )]
    NotStarted {
        /// Which.
        name: HostName,
        /// Why not.
        reason: Box<HostdError>,
        /// The command that starts it.
        start: String,
    },
    /// Some of several hosts; what there is to say of each.
    #[error("{}", lines(.0))]
    Several(Vec<HostdError>),
    /// The program that reaches other hosts failed.
    #[error("{0}")]
    Remote(String),
    /// The agent.
    #[error("{0}")]
    Agent(String),
}

fn lines(errors: &[HostdError]) -> String {
    let lines: Vec<String> = errors.iter().map(ToString::to_string).collect();
    lines.join("\nhythe-hostd: ")
}

fn listed(hosts: &[HostName]) -> String {
    let names: Vec<&str> = hosts.iter().map(HostName::as_str).collect();
    match names.is_empty() {
        true => "none".to_owned(),
        false => names.join(", "),
    }
}

//! The seam to whoever makes connections: authenticated, ordered, both ways.

use std::fmt::Debug;
use std::io;
use std::net::{IpAddr, SocketAddr};
use std::time::Duration;

use serde::{Deserialize, Serialize};

use crate::HostName;

/// Makes connections to the agents of other hosts, and takes theirs.
pub trait Carrier: Debug + Send + Sync {
    /// What it is called in a status: `tls`.
    fn name(&self) -> &'static str;

    /// Connects to a host and proves both sides' names, within `timeout`.
    ///
    /// # Errors
    /// Which address did what, or whose certificate says what.
    fn connect(
        &self,
        host: &HostName,
        addresses: &[SocketAddr],
        timeout: Duration,
    ) -> Result<Connection, CarrierError>;

    /// The next connection that a host made to this one; both names are proven. `None`: none came
    /// in that time. What strangers try is counted by the carrier, and is none of these.
    ///
    /// # Errors
    /// The carrier has come to its end.
    fn accept(&self, timeout: Duration) -> Result<Option<Connection>, CarrierError>;

    /// Might that host connect now? One that is put out of the realm might not.
    fn knows(&self, _host: &HostName) -> bool {
        true
    }

    /// The interface of this host that has an address; `None`: none has, or it is not known.
    fn interface_of(&self, _address: IpAddr) -> Option<String> {
        None
    }
}

/// A connection with a host whose name is proven. The halves may be used by two threads. Dropping
/// one closes the connection in both directions, and wakes whoever waits in the other half: its
/// call returns an error or [`Received::Closed`] soon.
#[derive(Debug)]
pub struct Connection {
    /// Who is at the other end.
    pub peer: HostName,
    /// What is known of it, for a status.
    pub about: ConnectionAbout,
    /// Its ends, where it goes over one path of IP.
    pub path: Option<ConnectionPath>,
    /// The way there.
    pub sender: Box<dyn ConnectionSender>,
    /// The way back.
    pub receiver: Box<dyn ConnectionReceiver>,
}

/// The two ends of a connection over IP.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct ConnectionPath {
    /// This host's end.
    pub local: IpAddr,
    /// The other end, as it is seen here.
    pub peer: IpAddr,
}

/// What `hythe host status` says of a connection.
#[derive(Clone, Debug, Default, PartialEq, Eq, Serialize, Deserialize)]
pub struct ConnectionAbout {
    /// What carries it: `tls`, `zenoh`.
    pub carrier: String,
    /// Why nothing better does; empty: it is the best.
    pub why_not_better: String,
    /// By what the other end has proven its name: a certificate's fingerprint, for instance.
    pub identity: String,
    /// Where the other end is.
    pub address: String,
    /// How often each byte is copied by this host's CPUs between the memory that
    /// [`ConnectionSender::send`] is given and the network card.
    pub copies_sending: u32,
    /// The same between the card and what [`ConnectionReceiver::receive`] returns.
    pub copies_receiving: u32,
}

/// The sending half of a connection.
pub trait ConnectionSender: Debug + Send {
    /// Sends all parts, in this order, and waits until they are on their way: at most `timeout`.
    /// A part may be memory that others write meanwhile; it is read once.
    ///
    /// # Errors
    /// [`io::ErrorKind::TimedOut`], or the connection's end. It is over then.
    fn send(&mut self, parts: &[&[u8]], timeout: Duration) -> io::Result<()>;

    /// Closes the connection in both directions; the other half wakes.
    fn close(&mut self);
}

/// What a receiving half has.
#[derive(Debug)]
pub enum Received<'a> {
    /// Bytes, at least one; they stay until they are consumed.
    Bytes(&'a [u8]),
    /// None came in that time.
    Nothing,
    /// The other side has closed.
    Closed,
}

/// The receiving half of a connection.
pub trait ConnectionReceiver: Debug + Send {
    /// What has been received and not consumed; where that is nothing, waits for at most `timeout`.
    ///
    /// # Errors
    /// The connection broke, or the bytes are not those that were sent.
    fn receive(&mut self, timeout: Duration) -> io::Result<Received<'_>>;

    /// The first `bytes` of what [`receive`](Self::receive) gave have been used.
    ///
    /// # Panics
    /// If there are fewer.
    fn consume(&mut self, bytes: usize);
}

/// Why there is no connection.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum CarrierError {
    /// Nobody can be reached.
    #[error(
        "host {host} cannot be reached at {address}: {source}{}",
        remedy(host, source)
    )]
    Unreachable {
        /// Who was meant.
        host: HostName,
        /// Where.
        address: String,
        /// What the system said.
        source: io::Error,
    },
    /// Somebody else is there, or nobody who may be believed.
    #[error("host {host} at {address} is not who it should be: {reason}")]
    NotTrusted {
        /// Who was meant.
        host: HostName,
        /// Where.
        address: String,
        /// What its certificate says, or what it said of ours, and what to do.
        reason: AuthenticationFailure,
    },
    /// This side cannot connect at all.
    #[error("{0}")]
    Unusable(String),
}

/// Why one side does not take the other for who it should be.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AuthenticationFailure {
    /// Its certificate is another authority's.
    #[error(
        "its certificate is of {}, and this host is of realm {ours}: add it on the host where \
         realm {ours} was begun (`hythe host add`)", realm(.theirs)
    )]
    OtherRealm {
        /// The realm that its certificate names.
        theirs: Option<String>,
        /// This host's.
        ours: String,
    },
    /// It knows another authority than ours.
    #[error(
        "it does not know realm {ours}, of which this host is: add it on the host where that realm \
         was begun (`hythe host add`)"
    )]
    UnknownThere {
        /// This host's realm.
        ours: String,
    },
    /// Its certificate was revoked.
    #[error(
        "its certificate was revoked in realm {realm}: `hythe host add`, on the host where the \
         realm was begun, takes it in again"
    )]
    Revoked {
        /// The realm of both.
        realm: String,
    },
    /// Ours was, it says.
    #[error(
        "it says that the certificate of this host, {name}, was revoked in realm {realm}: `hythe \
         host add`, on the host where the realm was begun, takes this one in again"
    )]
    RevokedThere {
        /// This host.
        name: HostName,
        /// The realm of both.
        realm: String,
    },
    /// Another host of the realm.
    #[error(
        "its certificate says that it is {theirs}: the address is that host's, so correct it, or \
         use that name"
    )]
    OtherName {
        /// The name in its certificate.
        theirs: String,
    },
    /// Another version of this program.
    #[error("it is of version {theirs}, this host of version {ours}: install the same on both")]
    OtherVersion {
        /// Its version, as far as it says.
        theirs: String,
        /// This program's.
        ours: String,
    },
    /// No agent.
    #[error(
        "what answers there is no hythe-hostd ({what}): start one (`hythe host start`), or correct \
         the address"
    )]
    NotHythe {
        /// What it did.
        what: String,
    },
    /// It closed the connection before it proved who it is: an agent that stops, or that may open
    /// no more files, does so.
    #[error(
        "it hung up before it said who it is: its agent has just stopped (`hythe host start` there \
         starts it) or takes no more connections (`hythe host status` there), or the address is \
         that of another program"
    )]
    HungUp,
    /// Anything else that TLS found.
    #[error("{what}")]
    Other {
        /// What, and who found it.
        what: String,
    },
}

/// What a person does where nobody can be reached.
fn remedy(host: &HostName, source: &io::Error) -> String {
    use io::ErrorKind::{
        ConnectionRefused, HostUnreachable, NetworkDown, NetworkUnreachable, TimedOut,
    };
    match source.kind() {
        ConnectionRefused => format!(
            "; no agent listens there: start it on {host} (`hythe host start`), or correct the \
             address (`hythe host remove {host}`, then `hythe host add --address`)"
        ),
        HostUnreachable | NetworkUnreachable | NetworkDown => format!(
            "; no way leads there: look at {host}'s power, cables and routes, or correct the \
             address"
        ),
        TimedOut => format!(
            "; nobody answers there: {host} is off or cut off, a firewall drops what goes to that \
             port, or the address is wrong"
        ),
        _ => String::new(),
    }
}

fn realm(theirs: &Option<String>) -> String {
    match theirs {
        Some(realm) => format!("realm {realm}"),
        None => "no realm".to_owned(),
    }
}

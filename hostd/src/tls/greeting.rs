//! What two hosts say to each other first, over an encrypted connection.
//!
//! The one that was called tells its version and the number of the realm's document that it has;
//! so whoever called knows that its certificate was taken. Then the one that has the newer document
//! gives it to the other. Called once for each connection; never trusts a document but by its
//! signature.

use std::io::{self, ErrorKind};
use std::time::Instant;

use hythe_cluster::{ConnectionReceiver, ConnectionSender, Received};
use serde::de::DeserializeOwned;
use serde::{Deserialize, Serialize};

use super::config::PROTOCOL;
use super::halves::{TlsReceiver, TlsSender};
use crate::error::HostdError;
use crate::realm::{DOCUMENT_BYTES_MAX, LiveRealm, SignedDocument};

/// The longest list of hosts, and what stands around it.
const MESSAGE_BYTES_MAX: usize = DOCUMENT_BYTES_MAX + 1024;

/// Of the side that was called.
#[derive(Debug, Serialize, Deserialize)]
struct Welcome {
    protocol: String,
    version: String,
    document_number: u64,
}

/// Of the side that called; and of the other one, where it has the newer document.
#[derive(Debug, Serialize, Deserialize)]
struct News {
    document_number: u64,
    document: Option<SignedDocument>,
}

/// Why the greeting came to nothing.
#[derive(Debug)]
pub(super) enum GreetingError {
    /// The connection.
    Socket(io::Error),
    /// The other side is of this version.
    OtherVersion(String),
    /// What it said cannot be understood, or is not signed.
    Refused(String),
}

/// Both halves of a connection, while it is being made.
#[derive(Debug)]
pub(super) struct Halves {
    pub(super) sender: TlsSender,
    pub(super) receiver: TlsReceiver,
}

/// The side that was called. Where the versions differ, it says which one it has, and fails.
pub(super) fn welcome(
    halves: &mut Halves,
    realm: &LiveRealm,
    is_same_version: bool,
    deadline: Instant,
) -> Result<(), GreetingError> {
    let own = realm.identity();
    let welcome = Welcome {
        protocol: PROTOCOL.to_owned(),
        version: version(),
        document_number: own.document().number,
    };
    halves.send(&welcome, deadline)?;
    if !is_same_version {
        return Err(GreetingError::OtherVersion(String::new()));
    }
    let theirs: News = halves.receive(deadline)?;
    take(realm, theirs.document)?;
    let own = realm.identity();
    if own.document().number > theirs.document_number {
        let news = News {
            document_number: own.document().number,
            document: Some(own.signed_document().clone()),
        };
        halves.send(&news, deadline)?;
    }
    Ok(())
}

/// The side that called.
pub(super) fn greet(
    halves: &mut Halves,
    realm: &LiveRealm,
    deadline: Instant,
) -> Result<(), GreetingError> {
    let welcome: Welcome = halves.receive(deadline)?;
    if welcome.protocol != PROTOCOL {
        let theirs = format!("{} (hythe {})", welcome.protocol, welcome.version);
        return Err(GreetingError::OtherVersion(theirs));
    }
    let own = realm.identity();
    let number = own.document().number;
    let news = News {
        document_number: number,
        document: (number > welcome.document_number).then(|| own.signed_document().clone()),
    };
    halves.send(&news, deadline)?;
    if number < welcome.document_number {
        let theirs: News = halves.receive(deadline)?;
        take(realm, theirs.document)?;
    }
    Ok(())
}

/// This program's version, as it is told to others.
pub(super) fn version() -> String {
    env!("CARGO_PKG_VERSION").to_owned()
}

fn take(realm: &LiveRealm, document: Option<SignedDocument>) -> Result<(), GreetingError> {
    let taken = document.map(|document| realm.offer(&document));
    match taken.transpose() {
        Ok(_) => Ok(()),
        Err(error @ HostdError::BadDocument { .. }) => Err(refuse(&error)),
        // A full disk here is no fault of the other side: it will be told again.
        Err(_) => Ok(()),
    }
}

fn refuse(error: &dyn std::error::Error) -> GreetingError {
    GreetingError::Refused(error.to_string())
}

impl Halves {
    /// A message: its length, 4 bytes, little-endian; JSON.
    fn send<T: Serialize>(&mut self, message: &T, deadline: Instant) -> Result<(), GreetingError> {
        let text = serde_json::to_vec(message).map_err(|error| refuse(&error))?;
        let length = u32::try_from(text.len()).map_err(|error| refuse(&error))?;
        let left = deadline.saturating_duration_since(Instant::now());
        self.sender
            .send(&[&length.to_le_bytes(), &text], left)
            .map_err(GreetingError::Socket)
    }

    fn receive<T: DeserializeOwned>(&mut self, deadline: Instant) -> Result<T, GreetingError> {
        let mut length = [0; 4];
        self.receive_exact(&mut length, deadline)?;
        let length = u32::from_le_bytes(length) as usize;
        if length > MESSAGE_BYTES_MAX {
            let said = format!("it announced {length} bytes, more than {MESSAGE_BYTES_MAX}");
            return Err(GreetingError::Refused(said));
        }
        let mut text = vec![0; length];
        self.receive_exact(&mut text, deadline)?;
        serde_json::from_slice(&text).map_err(|error| refuse(&error))
    }

    fn receive_exact(&mut self, into: &mut [u8], deadline: Instant) -> Result<(), GreetingError> {
        let mut filled = 0;
        while filled < into.len() {
            let left = deadline.saturating_duration_since(Instant::now());
            let received = self.receiver.receive(left).map_err(GreetingError::Socket)?;
            let taken = match received {
                Received::Bytes(bytes) => {
                    let taken = bytes.len().min(into.len() - filled);
                    into[filled..filled + taken].copy_from_slice(&bytes[..taken]);
                    taken
                }
                Received::Nothing => {
                    return Err(GreetingError::Socket(ErrorKind::TimedOut.into()));
                }
                Received::Closed => {
                    return Err(GreetingError::Socket(ErrorKind::UnexpectedEof.into()));
                }
            };
            self.receiver.consume(taken);
            filled += taken;
        }
        Ok(())
    }
}

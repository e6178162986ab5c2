//! What the server tells clients unasked: that what a session plays has changed (ANNOUNCE, RFC
//! 2326, section 10.3), or that the session is over (TEARDOWN with a Terminate-Reason, RFC 7826,
//! sections 13.8 and 18.52); and the versions of descriptions.
//!
//! ANNOUNCE is for clients that name it in the header Public of a SETUP. TEARDOWN is for all: a
//! client of RTSP 1.0 that does not know it refuses it, and goes on as it would have.

use std::collections::BTreeMap;
use std::fmt::Write;
use std::net::{IpAddr, Ipv4Addr};

use super::super::catalogue::{Catalogue, Presentation};
use super::super::connection::ConnectionId;
use super::super::description::{control, description};
use super::super::session::{Action, SessionId};
use super::Service;

/// Presentations whose versions are known, at most.
const VERSIONS_MAX: usize = 1024;

/// A request of the server.
#[derive(Debug, PartialEq, Eq)]
pub struct Notice {
    /// Whose client gets it.
    pub connection: ConnectionId,
    /// For the wire.
    pub bytes: Vec<u8>,
    /// What the owner of the media has to do.
    pub actions: Vec<Action>,
}

/// How often each description has changed.
#[derive(Debug, Default)]
pub(super) struct Versions(BTreeMap<String, (String, u64)>);

impl Versions {
    /// The version of a description (RFC 8866, section 5.2): another one than before is higher.
    pub(super) fn of(&mut self, path: &str, presentation: &Presentation) -> u64 {
        let host = IpAddr::V4(Ipv4Addr::UNSPECIFIED);
        let now = description(presentation, host, (0, 0), control);
        if let Some((before, version)) = self.0.get_mut(path) {
            *version += u64::from(*before != now);
            *before = now;
            return *version;
        }
        if self.0.len() < VERSIONS_MAX {
            self.0.insert(path.to_owned(), (now, 0));
        }
        0
    }
}

impl Service {
    /// What a session plays is described in another way by now, and goes on: the request that
    /// says so, if its client takes one and is there.
    pub fn announce(
        &mut self,
        id: SessionId,
        catalogue: &(impl Catalogue + ?Sized),
    ) -> Option<Notice> {
        let session = self.sessions.get(&id)?;
        let presentation = catalogue.describe(&session.path)?;
        if !session.takes_announce {
            return None;
        }
        let (connection, base) = (session.connection, session.base.clone());
        let local = self.connections.get(&connection)?.local;
        let version = self.versions.of(&session.path, &presentation);
        let text = description(&presentation, local.ip(), (self.name, version), control);
        let headers = format!(
            "Content-Base: {base}/\r\nContent-Type: application/sdp\r\nContent-Length: {}\r\n",
            text.len()
        );
        let bytes = self.request(connection, "ANNOUNCE", (&base, id), &headers, &text)?;
        Some(Notice {
            connection,
            bytes,
            actions: Vec::new(),
        })
    }

    /// What a session played is not there any more, but something else at the same path; `why`, in
    /// one line. A client that takes ANNOUNCE keeps its session, and is told of what there is, as
    /// soon as that is known. The session of any other ends.
    pub fn replaced(
        &mut self,
        id: SessionId,
        why: &str,
        catalogue: &(impl Catalogue + ?Sized),
    ) -> Option<Notice> {
        if let Some(notice) = self.announce(id, catalogue) {
            return Some(notice);
        }
        let mut session = self.sessions.remove(&id)?;
        let (connection, base) = (session.connection, session.base.clone());
        let why = why.replace(
            |character: char| character == '"' || character.is_control(),
            " ",
        );
        let headers = format!("Terminate-Reason: Server-Admin;user-msg=\"{why}\"\r\n");
        let bytes = self.request(connection, "TEARDOWN", (&base, id), &headers, "");
        Some(Notice {
            connection,
            bytes: bytes.unwrap_or_default(),
            actions: session.tear_down(None),
        })
    }

    /// A request to a client, if its connection is there.
    fn request(
        &mut self,
        connection: ConnectionId,
        method: &str,
        (url, session): (&str, SessionId),
        headers: &str,
        body: &str,
    ) -> Option<Vec<u8>> {
        let number = self.connections.get_mut(&connection)?.ask();
        let mut text = format!("{method} {url} RTSP/1.0\r\nCSeq: {number}\r\nServer: Hythe\r\n");
        // A String takes everything.
        let _ = write!(text, "Session: {session}\r\n{headers}\r\n{body}");
        Some(text.into_bytes())
    }
}

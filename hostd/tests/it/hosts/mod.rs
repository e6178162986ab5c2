//! Hosts of a realm, each with a directory of its own, for the tests of this package.

#![allow(dead_code, reason = "each test program uses a part of it")]

use std::sync::Arc;

use hythe_cluster::HostName;
use hythe_hostd::hosts_directory::HostsDirectory;
use hythe_hostd::realm::{Authority, Grant, HostKey, LiveRealm, NewHost, file};
use hythe_hostd::tls::TlsCarrier;
use tempfile::TempDir;

pub(crate) fn name(text: &str) -> HostName {
    text.parse().expect("a name")
}

pub(crate) fn new_host(text: &str) -> NewHost {
    NewHost {
        name: name(text),
        addresses: vec!["192.0.2.1:7450".to_owned()],
        slots: Some(2),
        grants: vec![Grant {
            pattern: "**".to_owned(),
            rights: "read,write".to_owned(),
        }],
    }
}

/// A hosts directory that is removed in the end.
pub(crate) struct Host {
    pub(crate) root: TempDir,
    pub(crate) directory: HostsDirectory,
}

impl Host {
    fn empty() -> Self {
        let root = tempfile::tempdir().expect("a directory");
        let directory = HostsDirectory::open_or_create(&root.path().join("hosts"));
        Self {
            root,
            directory: directory.expect("the directory is made"),
        }
    }

    /// Begins a realm.
    pub(crate) fn first(host: &str) -> Self {
        let first = Self::empty();
        Authority::begin(&first.directory, new_host(host)).expect("the realm begins");
        first
    }

    /// Adds a host to the realm that this one began.
    pub(crate) fn add(&self, host: &str) -> Self {
        let added = Self::empty();
        let key = HostKey::generate().expect("a key");
        let request = key.signing_request(&name(host)).expect("a request");
        let mut authority = Authority::open(&self.directory).expect("opened");
        let certificate = authority.add(&request, new_host(host)).expect("signed");
        drop(authority);
        let write = |file, bytes: &[u8]| added.directory.write(file, bytes).expect("written");
        write(file::KEY, key.to_pem().as_bytes());
        write(file::CERTIFICATE, certificate.as_bytes());
        for shared in [file::AUTHORITY_CERTIFICATE, file::DOCUMENT] {
            let bytes = self.directory.read(shared).expect("read").expect("there");
            write(shared, &bytes);
        }
        added
    }

    /// Revokes a host of the realm that this one began.
    pub(crate) fn remove(&self, host: &str) {
        let mut authority = Authority::open(&self.directory).expect("opened");
        authority.remove(&name(host)).expect("removed");
    }

    pub(crate) fn realm(&self) -> Arc<LiveRealm> {
        let directory = HostsDirectory::open(self.directory.path()).expect("opened");
        Arc::new(LiveRealm::open(directory).expect("an identity"))
    }

    /// A carrier of this host, at a port that is free.
    pub(crate) fn carrier(&self) -> (TlsCarrier, Arc<LiveRealm>) {
        let realm = self.realm();
        let anywhere = "127.0.0.1:0".parse().expect("an address");
        let carrier = TlsCarrier::start(realm.clone(), Some(anywhere)).expect("it listens");
        (carrier, realm)
    }
}

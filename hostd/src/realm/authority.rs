//! The authority of a realm: begins it, signs its hosts' keys, revokes them.
//!
//! Works on the hosts directory of the host where the realm was begun, whose lock it holds; each
//! change is on the disk when its call returns. Called by `init`, `add` and `remove`. Never sees
//! the key of another host.

use hythe_cluster::HostName;
use serde::{Deserialize, Serialize};

use super::certificate::{HostKey, Signer, authority_certificate};
use super::document::{Grant, RealmDocument, RealmHost, SignedDocument};
use super::file;
use super::identity::Identity;
use crate::error::HostdError;
use crate::hosts_directory::{DirectoryLock, HostsDirectory};

/// What is told of a host that is added.
#[derive(Clone, Debug)]
pub struct NewHost {
    /// Its name.
    pub name: HostName,
    /// Where it is reached.
    pub addresses: Vec<String>,
    /// How many tasks it takes.
    pub slots: Option<u32>,
    /// What it and the others may do with each other's channels.
    pub grants: Vec<Grant>,
}

/// What the authority signed.
#[derive(Debug, Default, Serialize, Deserialize)]
struct Record {
    /// The serial number of the last certificate.
    last_serial: u64,
    /// Of certificates that are good.
    issued: Vec<Issued>,
    /// Serial numbers of those that are not.
    revoked: Vec<u64>,
}

#[derive(Debug, Serialize, Deserialize)]
struct Issued {
    name: HostName,
    serial: u64,
}

/// The authority of a realm, on the host that has its key.
pub struct Authority<'a> {
    directory: &'a HostsDirectory,
    _lock: DirectoryLock,
    signer: Signer,
    record: Record,
    document: RealmDocument,
}

impl std::fmt::Debug for Authority<'_> {
    /// Without the key.
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Authority")
            .field("document", &self.document)
            .finish_non_exhaustive()
    }
}

impl<'a> Authority<'a> {
    /// Begins a realm, whose first host is this one.
    ///
    /// # Errors
    /// [`HostdError::HasRealm`] if it belongs to one, or what the system says.
    pub fn begin(directory: &'a HostsDirectory, own: NewHost) -> Result<Identity, HostdError> {
        let lock = directory.lock(file::CHANGE_LOCK)?;
        refuse_second(directory)?;
        let key = HostKey::generate()?;
        let (certificate, realm) = authority_certificate(&key)?;
        directory.write(file::AUTHORITY_KEY, key.to_pem().as_bytes())?;
        directory.write(file::AUTHORITY_CERTIFICATE, certificate.as_bytes())?;
        let mut authority = Self {
            directory,
            _lock: lock,
            signer: Signer::new(&certificate, key)?,
            record: Record {
                last_serial: 1,
                ..Record::default()
            },
            document: RealmDocument {
                realm,
                number: 0,
                hosts: Vec::new(),
                revoked: String::new(),
            },
        };
        let own_key = HostKey::generate()?;
        let request = own_key.signing_request(&own.name)?;
        directory.write(file::KEY, own_key.to_pem().as_bytes())?;
        let certificate = authority.add(&request, own)?;
        // Last: what has a certificate belongs to a realm.
        directory.write(file::CERTIFICATE, certificate.as_bytes())?;
        Identity::load(directory)
    }

    /// The authority whose key is in this directory.
    ///
    /// # Errors
    /// [`HostdError::NotAuthority`] if it is elsewhere, or what is wrong with its files.
    pub fn open(directory: &'a HostsDirectory) -> Result<Self, HostdError> {
        let lock = directory.lock(file::CHANGE_LOCK)?;
        let identity = Identity::load(directory)?;
        let Some(key) = directory.read_text(file::AUTHORITY_KEY)? else {
            return Err(HostdError::NotAuthority {
                realm: identity.realm().to_owned(),
                name: identity.name().clone(),
            });
        };
        let key = HostKey::from_pem(file::AUTHORITY_KEY, &key)?;
        let certificate = directory.read_text(file::AUTHORITY_CERTIFICATE)?;
        let record = directory.read_json(file::AUTHORITY_RECORD)?;
        let (Some(certificate), Some(record)) = (certificate, record) else {
            return Err(directory.damaged(file::AUTHORITY_RECORD, "it is missing"));
        };
        Ok(Self {
            directory,
            _lock: lock,
            signer: Signer::new(&certificate, key)?,
            record,
            document: identity.document().clone(),
        })
    }

    /// The realm as it is.
    #[must_use]
    pub fn document(&self) -> &RealmDocument {
        &self.document
    }

    /// Refuses a name that a host has.
    ///
    /// # Errors
    /// [`HostdError::NameTaken`].
    pub fn check_free(&self, name: &HostName) -> Result<(), HostdError> {
        match self.document.host(name) {
            None => Ok(()),
            Some(_) => Err(HostdError::NameTaken {
                name: name.clone(),
                realm: self.document.realm.clone(),
            }),
        }
    }

    /// Signs the key of a new host: its certificate, PEM.
    ///
    /// # Errors
    /// [`HostdError::NameTaken`], a request that is none, or what the system says.
    pub fn add(&mut self, request: &str, host: NewHost) -> Result<String, HostdError> {
        self.check_free(&host.name)?;
        let serial = self.record.last_serial + 1;
        let certificate = self.signer.certificate(request, &host.name, serial)?;
        self.record.last_serial = serial;
        self.record.issued.push(Issued {
            name: host.name.clone(),
            serial,
        });
        self.document.hosts.push(RealmHost {
            name: host.name,
            addresses: host.addresses,
            slots: host.slots,
            number: self.document.free_number(),
            grants: host.grants,
        });
        self.document.hosts.sort_by(|a, b| a.name.cmp(&b.name));
        self.save()?;
        Ok(certificate)
    }

    /// Revokes a host's certificate, and takes the host from the list.
    ///
    /// # Errors
    /// [`HostdError::UnknownHost`], or what the system says.
    pub fn remove(&mut self, name: &HostName) -> Result<(), HostdError> {
        if self.document.host(name).is_none() {
            return Err(HostdError::UnknownHost {
                name: name.clone(),
                realm: self.document.realm.clone(),
                known: self.document.names(),
            });
        }
        let revoked = self
            .record
            .issued
            .extract_if(.., |issued| issued.name == *name);
        let serials: Vec<u64> = revoked.map(|issued| issued.serial).collect();
        self.record.revoked.extend(serials);
        self.document.hosts.retain(|host| host.name != *name);
        self.save()
    }

    /// The record first: a certificate that is listed nowhere is one that cannot be revoked.
    fn save(&mut self) -> Result<(), HostdError> {
        self.document.number += 1;
        let number = self.document.number;
        self.document.revoked = self.signer.revocations(number, &self.record.revoked)?;
        let signed = SignedDocument::new(&self.document, |text| self.signer.sign(text))?;
        self.directory
            .write_json(file::AUTHORITY_RECORD, &self.record)?;
        self.directory.write_json(file::DOCUMENT, &signed)
    }
}

/// Refuses where a certificate is.
pub(crate) fn refuse_second(directory: &HostsDirectory) -> Result<(), HostdError> {
    if directory.read(file::CERTIFICATE)?.is_none() {
        return Ok(());
    }
    let identity = Identity::load(directory)?;
    Err(HostdError::HasRealm {
        name: identity.name().clone(),
        realm: identity.realm().to_owned(),
        directory: directory.path().to_owned(),
    })
}

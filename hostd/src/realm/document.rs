//! The list of a realm's hosts, and of what it revoked, signed by its authority.
//!
//! Hosts exchange it: whoever has the newer one gives it to the other, and the authority's
//! signature is what makes it true. Its number grows with each change. Never says what a host may
//! do beyond what `hythe host add` granted; never grants `spawn`.

use std::collections::{BTreeMap, BTreeSet};

use hythe_cluster::HostName;
use hythe_cluster::tasks::HOST_NUMBER_MAX;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, CertificateRevocationListDer};
use serde::{Deserialize, Serialize};
use webpki::{CertRevocationList, EndEntityCert, OwnedCertRevocationList};

use crate::error::HostdError;

/// The longest list of hosts, signed and as JSON: what hosts exchange in one message of 8 MiB, with
/// a KiB to spare for what stands around it. Some 30,000 hosts.
pub const DOCUMENT_BYTES_MAX: usize = (8 << 20) - 1024;

/// What a host may do with channels that match a pattern, as `add` granted it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct Grant {
    /// Which channels.
    pub pattern: String,
    /// What: `read`, `write`, both with a comma between them, or `none`.
    pub rights: String,
}

/// A host of a realm.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RealmHost {
    /// Its name.
    pub name: HostName,
    /// Where it was reached when it was added; the directory may know better.
    pub addresses: Vec<String>,
    /// How many tasks it takes by default, if a host file said so.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub slots: Option<u32>,
    /// Its number in those of tasks, 1 to 4,095; none: it has no jobs that reach other hosts. It
    /// keeps it until it is removed.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub number: Option<u32>,
    /// What it and the others may do with each other's channels.
    pub grants: Vec<Grant>,
}

/// The hosts of a realm and the certificates that it revoked.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct RealmDocument {
    /// The realm's id.
    pub realm: String,
    /// Grows with each change.
    pub number: u64,
    /// By name.
    pub hosts: Vec<RealmHost>,
    /// PEM of an X.509 list of revoked certificates.
    pub revoked: String,
}

impl RealmDocument {
    /// The host of this name.
    #[must_use]
    pub fn host(&self, name: &HostName) -> Option<&RealmHost> {
        self.hosts.iter().find(|host| host.name == *name)
    }

    /// The numbers of those that have one.
    #[must_use]
    pub fn numbers(&self) -> BTreeMap<HostName, u32> {
        let hosts = self.hosts.iter();
        let numbered = hosts.filter_map(|host| Some((host.name.clone(), host.number?)));
        numbered.collect()
    }

    /// The least number that no host has.
    #[must_use]
    pub fn free_number(&self) -> Option<u32> {
        let taken: BTreeSet<u32> = self.hosts.iter().filter_map(|host| host.number).collect();
        (1..=HOST_NUMBER_MAX).find(|number| !taken.contains(number))
    }

    /// The names of all hosts.
    #[must_use]
    pub fn names(&self) -> Vec<HostName> {
        self.hosts.iter().map(|host| host.name.clone()).collect()
    }

    /// The list of revoked certificates, DER.
    ///
    /// # Errors
    /// It is none.
    pub fn revocations(&self) -> Result<CertificateRevocationListDer<'static>, HostdError> {
        CertificateRevocationListDer::from_pem_slice(self.revoked.as_bytes()).map_err(|error| {
            HostdError::BadDocument {
                realm: self.realm.clone(),
                reason: format!("its revocations cannot be read: {error}"),
            }
        })
    }

    /// Whether this certificate was revoked. A certificate that cannot be read counts as revoked.
    ///
    /// # Errors
    /// The list cannot be read.
    pub fn has_revoked(&self, certificate: &CertificateDer<'_>) -> Result<bool, HostdError> {
        let der = self.revocations()?;
        let list = OwnedCertRevocationList::from_der(&der).map(CertRevocationList::from);
        let list = list.map_err(|error| HostdError::BadDocument {
            realm: self.realm.clone(),
            reason: format!("its revocations cannot be read: {error}"),
        })?;
        let Ok(parsed) = EndEntityCert::try_from(certificate) else {
            return Ok(true);
        };
        Ok(!matches!(list.find_serial(parsed.serial()), Ok(None)))
    }
}

/// A document as its authority signed it.
#[derive(Clone, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub struct SignedDocument {
    /// The JSON text of a [`RealmDocument`]: these bytes are signed.
    document: String,
    /// ECDSA (P-256, SHA-256, ASN.1), in hexadecimal digits.
    signature: String,
}

impl SignedDocument {
    pub(super) fn new(
        document: &RealmDocument,
        sign: impl FnOnce(&[u8]) -> Result<Vec<u8>, HostdError>,
    ) -> Result<Self, HostdError> {
        let text = serde_json::to_string(document).map_err(|error| HostdError::BadDocument {
            realm: document.realm.clone(),
            reason: error.to_string(),
        })?;
        let signature = sign(text.as_bytes())?;
        let signed = Self {
            document: text,
            signature: signature.iter().map(|byte| format!("{byte:02x}")).collect(),
        };
        signed.check_length(&document.realm)?;
        Ok(signed)
    }

    /// A longer one would be kept by its host, and taken by no other.
    fn check_length(&self, realm: &str) -> Result<(), HostdError> {
        let refuse = |reason: String| HostdError::BadDocument {
            realm: realm.to_owned(),
            reason,
        };
        let bytes = serde_json::to_vec(self).map_err(|error| refuse(error.to_string()))?;
        match bytes.len() <= DOCUMENT_BYTES_MAX {
            true => Ok(()),
            false => Err(refuse(format!(
                "it takes {} bytes, and hosts exchange {DOCUMENT_BYTES_MAX} at most: remove hosts \
                 that are not needed (`hythe host remove`), give fewer addresses and grants, or \
                 begin another realm for the others",
                bytes.len()
            ))),
        }
    }

    /// What the authority signed.
    ///
    /// # Errors
    /// It did not sign this, what it signed cannot be read, or it is too long.
    pub fn verify(
        &self,
        realm: &str,
        authority: &CertificateDer<'_>,
    ) -> Result<RealmDocument, HostdError> {
        let refuse = |reason: String| HostdError::BadDocument {
            realm: realm.to_owned(),
            reason,
        };
        self.check_length(realm)?;
        let signature = from_hexadecimal(&self.signature)
            .ok_or_else(|| refuse("its signature is no hexadecimal number".to_owned()))?;
        EndEntityCert::try_from(authority)
            .and_then(|authority| {
                let algorithm = webpki::ring::ECDSA_P256_SHA256;
                authority.verify_signature(algorithm, self.document.as_bytes(), &signature)
            })
            .map_err(|_| refuse("the authority of the realm did not sign it".to_owned()))?;
        let document: RealmDocument =
            serde_json::from_str(&self.document).map_err(|error| refuse(error.to_string()))?;
        if document.realm != realm {
            return Err(refuse(format!("it is of realm {}", document.realm)));
        }
        document.has_revoked(authority)?;
        Ok(document)
    }
}

fn from_hexadecimal(text: &str) -> Option<Vec<u8>> {
    let digits = text.as_bytes();
    let pairs = digits.chunks(2).map(|pair| {
        let pair = std::str::from_utf8(pair)
            .ok()
            .filter(|pair| pair.len() == 2)?;
        pair.bytes()
            .all(|digit| digit.is_ascii_hexdigit())
            .then_some(())?;
        u8::from_str_radix(pair, 16).ok()
    });
    pairs.collect()
}

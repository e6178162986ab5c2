//! Who this host is: its certificate and key, its realm, and the newest document of it.
//!
//! Read from the hosts directory by the agent and by the commands. Never holds the authority's
//! key.

use hythe_cluster::HostName;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer};

use super::document::{RealmDocument, SignedDocument};
use super::file;
use super::verification::{common_name, is_key_of, is_signed_by, realm_of_issuer};
use crate::error::HostdError;
use crate::hosts_directory::HostsDirectory;

/// A host of a realm, as it proves to be one.
#[derive(Debug)]
pub struct Identity {
    name: HostName,
    realm: String,
    authority: CertificateDer<'static>,
    certificate: CertificateDer<'static>,
    key: PrivateKeyDer<'static>,
    document: RealmDocument,
    signed: SignedDocument,
}

impl Identity {
    /// The identity that is kept in a directory.
    ///
    /// # Errors
    /// [`HostdError::NoRealm`] if there is none, or what is wrong with it: files that do not belong
    /// together are named.
    pub fn load(directory: &HostsDirectory) -> Result<Self, HostdError> {
        let authority = certificate(directory, file::AUTHORITY_CERTIFICATE)?;
        let own = certificate(directory, file::CERTIFICATE)?;
        let key = required(directory, file::KEY)?;
        let key = PrivateKeyDer::from_pem_slice(&key)
            .map_err(|error| directory.damaged(file::KEY, &error.to_string()))?;
        let name = common_name(&own)?;
        let realm = realm_of_issuer(&own)
            .ok_or_else(|| directory.damaged(file::CERTIFICATE, "it is of no realm"))?;
        is_signed_by(&own, &authority).map_err(|error| {
            let authority = file::AUTHORITY_CERTIFICATE;
            let what = format!("the authority of {authority} beside it did not sign it ({error})");
            mismatch(directory, file::CERTIFICATE, &what, &name)
        })?;
        is_key_of(&own, &key).map_err(|error| {
            let certificate = file::CERTIFICATE;
            let what = format!("it is not the key of {certificate} beside it ({error})");
            mismatch(directory, file::KEY, &what, &name)
        })?;
        let signed = required(directory, file::DOCUMENT)?;
        let signed: SignedDocument = serde_json::from_slice(&signed)
            .map_err(|error| directory.damaged(file::DOCUMENT, &error.to_string()))?;
        let document = signed.verify(&realm, &authority)?;
        Ok(Self {
            name,
            realm,
            authority,
            certificate: own,
            key,
            document,
            signed,
        })
    }

    /// What this host is called.
    #[must_use]
    pub fn name(&self) -> &HostName {
        &self.name
    }

    /// The id of its realm.
    #[must_use]
    pub fn realm(&self) -> &str {
        &self.realm
    }

    /// The certificate of the realm's authority.
    #[must_use]
    pub fn authority(&self) -> &CertificateDer<'static> {
        &self.authority
    }

    /// This host's certificate.
    #[must_use]
    pub fn certificate(&self) -> &CertificateDer<'static> {
        &self.certificate
    }

    /// This host's key.
    #[must_use]
    pub fn key(&self) -> &PrivateKeyDer<'static> {
        &self.key
    }

    /// The realm as this host knows it.
    #[must_use]
    pub fn document(&self) -> &RealmDocument {
        &self.document
    }

    /// The same, as it was signed: for others.
    #[must_use]
    pub fn signed_document(&self) -> &SignedDocument {
        &self.signed
    }

    /// The same host, with a newer document of its realm; `None` if that is not newer.
    ///
    /// # Errors
    /// The authority did not sign it.
    pub(super) fn with_document(
        &self,
        signed: &SignedDocument,
    ) -> Result<Option<Self>, HostdError> {
        let document = signed.verify(&self.realm, &self.authority)?;
        let is_newer = document.number > self.document.number;
        Ok(is_newer.then(|| Self {
            name: self.name.clone(),
            realm: self.realm.clone(),
            authority: self.authority.clone(),
            certificate: self.certificate.clone(),
            key: self.key.clone_key(),
            document,
            signed: signed.clone(),
        }))
    }
}

fn required(directory: &HostsDirectory, name: &'static str) -> Result<Vec<u8>, HostdError> {
    directory.read(name)?.ok_or_else(|| HostdError::NoRealm {
        directory: directory.path().to_owned(),
        file: name,
    })
}

/// A file that does not belong to the others.
fn mismatch(directory: &HostsDirectory, file: &str, what: &str, name: &HostName) -> HostdError {
    let has_authority = directory.path_of(file::AUTHORITY_KEY).exists();
    let remedy = match has_authority {
        true => "put all files of this directory back from one backup; it has the realm's key, \
                 without which no host can be added or removed"
            .to_owned(),
        false => format!(
            "put all files of this directory back from one backup; or remove it and take this \
             host in anew: on the host where its realm was begun run `hythe host remove {name}`, \
             then `hythe host add`"
        ),
    };
    directory.damaged(file, &format!("{what}: {remedy}"))
}

fn certificate(
    directory: &HostsDirectory,
    name: &'static str,
) -> Result<CertificateDer<'static>, HostdError> {
    CertificateDer::from_pem_slice(&required(directory, name)?)
        .map_err(|error| directory.damaged(name, &error.to_string()))
}

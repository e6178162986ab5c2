//! The side of the host that is taken in.

use serde::{Deserialize, Serialize};

use hythe_cluster::HostName;

use super::check_version;
use crate::HostdError;
use crate::hosts_directory::HostsDirectory;
use crate::realm::{HostKey, Identity, file};

/// What a host asks for.
#[derive(Debug, Serialize, Deserialize)]
pub struct Joining {
    /// Of its program.
    pub version: String,
    /// The signing request for its key, PEM.
    pub request: String,
}

/// What it gets.
#[derive(Debug, Serialize, Deserialize)]
pub struct Bundle {
    /// Of the authority's program.
    pub version: String,
    /// Its certificate, PEM.
    pub certificate: String,
    /// The authority's, PEM.
    pub authority: String,
    /// The list of hosts, as the authority signed it.
    pub document: String,
}

impl Bundle {
    /// As it travels.
    ///
    /// # Errors
    /// Never, for what was read from a realm.
    pub fn to_bytes(&self) -> Result<Vec<u8>, HostdError> {
        serde_json::to_vec(self).map_err(|error| HostdError::Agent(error.to_string()))
    }
}

/// Makes a key, and a request for its signature. The realm's authority asks for that where none of
/// its hosts has this name: an identity of that name and realm is one that it has revoked, and
/// gives way; `stop` ends an agent that runs with it.
///
/// # Errors
/// The host belongs to a realm already.
pub fn join(
    directory: &HostsDirectory,
    name: &HostName,
    realm: Option<&str>,
    stop: impl FnOnce() -> Result<(), HostdError>,
) -> Result<Joining, HostdError> {
    match refuse_second(directory) {
        Err(HostdError::HasRealm {
            name: before,
            realm: of,
            ..
        }) if before == *name
            && realm == Some(&*of)
            && directory.read(file::AUTHORITY_KEY)?.is_none() =>
        {
            stop()?;
            directory.remove(file::CERTIFICATE)?;
        }
        others => others?,
    }
    let key = HostKey::generate()?;
    let request = key.signing_request(name)?;
    directory.write(file::KEY, key.to_pem().as_bytes())?;
    Ok(Joining {
        version: env!("CARGO_PKG_VERSION").to_owned(),
        request,
    })
}

/// Puts certificate and list in their place.
///
/// # Errors
/// The host belongs to a realm already; another version; what came is no identity for its key.
pub fn install(directory: &HostsDirectory, bytes: &[u8]) -> Result<String, HostdError> {
    refuse_second(directory)?;
    let bundle: Bundle = serde_json::from_slice(bytes)
        .map_err(|error| HostdError::Agent(format!("what came is no identity: {error}")))?;
    check_version("the host of the realm's key", &bundle.version)?;
    directory.write(file::AUTHORITY_CERTIFICATE, bundle.authority.as_bytes())?;
    directory.write(file::DOCUMENT, bundle.document.as_bytes())?;
    // Last: what has a certificate belongs to a realm.
    directory.write(file::CERTIFICATE, bundle.certificate.as_bytes())?;
    match Identity::load(directory) {
        Ok(identity) => Ok(format!("{} of realm {}", identity.name(), identity.realm())),
        Err(error) => {
            directory.remove(file::CERTIFICATE)?;
            Err(error)
        }
    }
}

fn refuse_second(directory: &HostsDirectory) -> Result<(), HostdError> {
    match Identity::load(directory) {
        Ok(identity) => Err(HostdError::HasRealm {
            name: identity.name().clone(),
            realm: identity.realm().to_owned(),
            directory: directory.path().to_owned(),
        }),
        Err(HostdError::NoRealm { .. }) => Ok(()),
        Err(error) => Err(error),
    }
}

//! What a certificate says, and whether it is what it says. Never makes one.

use std::time::Duration;

use hythe_cluster::HostName;
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::sign::CertifiedKey;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use crate::error::HostdError;

/// What the common name of an authority begins with; the realm's id follows.
pub(super) const AUTHORITY_PREFIX: &str = "hythe realm ";

/// Letters of a realm's id: half of them are bytes of the authority's key identifier.
pub(super) const REALM_ID_LETTERS: usize = 16;

/// The id of the realm whose authority signed this certificate.
#[must_use]
pub fn realm_of_issuer(certificate: &CertificateDer<'_>) -> Option<String> {
    let certificate = EndEntityCert::try_from(certificate).ok()?;
    let issuer = certificate.issuer();
    let prefix = AUTHORITY_PREFIX.as_bytes();
    let start = issuer
        .windows(prefix.len())
        .position(|window| window == prefix)?;
    let id = issuer
        .get(start + prefix.len()..)?
        .get(..REALM_ID_LETTERS)?;
    let is_id = id.iter().all(u8::is_ascii_hexdigit);
    is_id.then(|| String::from_utf8_lossy(id).into_owned())
}

/// The one name in a certificate.
///
/// # Errors
/// None, several, or one that no host can have.
pub fn common_name(certificate: &CertificateDer<'_>) -> Result<HostName, HostdError> {
    let refuse = |reason: String| HostdError::BadCertificate {
        what: "a certificate".to_owned(),
        reason,
    };
    let parsed = EndEntityCert::try_from(certificate).map_err(|error| refuse(error.to_string()))?;
    let mut names = parsed.valid_dns_names();
    match (names.next(), names.next()) {
        (Some(name), None) => Ok(name.parse()?),
        (None, _) => Err(refuse("it names no host".to_owned())),
        (Some(one), Some(other)) => Err(refuse(format!("it names two hosts, {one} and {other}"))),
    }
}

/// Whether this authority signed a host's certificate, for both sides of a connection.
pub(super) fn is_signed_by(
    certificate: &CertificateDer<'_>,
    authority: &CertificateDer<'_>,
) -> Result<(), webpki::Error> {
    let certificate = EndEntityCert::try_from(certificate)?;
    let anchor = [anchor_from_trusted_cert(authority)?];
    // What ends a certificate is its revocation: it holds at any time.
    let time = UnixTime::since_unix_epoch(Duration::from_secs(1));
    let algorithms = webpki::ALL_VERIFICATION_ALGS;
    for usage in [KeyUsage::server_auth(), KeyUsage::client_auth()] {
        certificate.verify_for_usage(algorithms, &anchor, &[], time, usage, None, None)?;
    }
    Ok(())
}

/// Whether this is the key that a certificate is of.
pub(super) fn is_key_of(
    certificate: &CertificateDer<'static>,
    key: &PrivateKeyDer<'_>,
) -> Result<(), rustls::Error> {
    let key = any_supported_type(key)?;
    CertifiedKey::new(vec![certificate.clone()], key).keys_match()
}

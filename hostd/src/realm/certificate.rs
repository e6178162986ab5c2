//! Keys and certificates: what is in them, and nothing else.
//!
//! Certificates hold from 1970 to 9999, so that they hold on a device whose clock was never set;
//! what ends one is its revocation. An authority signs a key that never leaves its host: of a
//! signing request only the public key is used. Never reads or writes a file.

use std::time::Duration;

use hythe_cluster::HostName;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams,
    CertificateSigningRequestParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
    date_time_ymd,
};
use rustls::crypto::ring::sign::any_supported_type;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, UnixTime};
use rustls::sign::CertifiedKey;
use webpki::{EndEntityCert, KeyUsage, anchor_from_trusted_cert};

use crate::error::HostdError;

/// What the common name of an authority begins with; the realm's id follows.
const AUTHORITY_PREFIX: &str = "hythe realm ";

/// Letters of a realm's id: half of them are bytes of the authority's key identifier.
const REALM_ID_LETTERS: usize = 16;

/// The key of a host or of an authority.
#[derive(Debug)]
pub struct HostKey(KeyPair);

impl HostKey {
    /// A new key (ECDSA, P-256).
    ///
    /// # Errors
    /// The system gives no random numbers.
    pub fn generate() -> Result<Self, HostdError> {
        KeyPair::generate()
            .map(Self)
            .map_err(|error| bad("a new key", &error))
    }

    /// The key in a PEM text.
    ///
    /// # Errors
    /// There is none.
    pub fn from_pem(what: &str, pem: &str) -> Result<Self, HostdError> {
        KeyPair::from_pem(pem)
            .map(Self)
            .map_err(|error| bad(what, &error))
    }

    /// The key as PEM text, for a file that only its owner can read.
    #[must_use]
    pub fn to_pem(&self) -> String {
        self.0.serialize_pem()
    }

    /// A request, PEM, that an authority may sign: it proves that whoever made it has the key.
    ///
    /// # Errors
    /// The key cannot sign.
    pub fn signing_request(&self, name: &HostName) -> Result<String, HostdError> {
        let mut params = CertificateParams::default();
        params.distinguished_name = named(name.as_str());
        let request = params
            .serialize_request(&self.0)
            .and_then(|request| request.pem());
        request.map_err(|error| bad("the signing request", &error))
    }

    pub(super) fn pair(&self) -> &KeyPair {
        &self.0
    }
}

/// An authority that signs.
pub(super) struct Signer(Issuer<'static, KeyPair>);

impl Signer {
    pub(super) fn new(certificate_pem: &str, key: HostKey) -> Result<Self, HostdError> {
        Issuer::from_ca_cert_pem(certificate_pem, key.0)
            .map(Self)
            .map_err(|error| bad("the authority's certificate", &error))
    }

    /// A certificate, PEM, for the key of this request.
    pub(super) fn certificate(
        &self,
        request_pem: &str,
        name: &HostName,
        serial: u64,
    ) -> Result<String, HostdError> {
        let mut request = CertificateSigningRequestParams::from_pem(request_pem)
            .map_err(|error| bad(&format!("the signing request of {name}"), &error))?;
        request.params = host_params(name, serial)?;
        let certificate = request.signed_by(&self.0);
        certificate
            .map(|certificate| certificate.pem())
            .map_err(|error| bad(&format!("the certificate of {name}"), &error))
    }

    /// The list of revoked certificates, PEM.
    pub(super) fn revocations(&self, number: u64, serials: &[u64]) -> Result<String, HostdError> {
        let revoked = |serial: &u64| RevokedCertParams {
            serial_number: SerialNumber::from(*serial),
            revocation_time: date_time_ymd(1970, 1, 1),
            reason_code: None,
            invalidity_date: None,
        };
        let params = CertificateRevocationListParams {
            this_update: date_time_ymd(1970, 1, 1),
            next_update: date_time_ymd(9999, 12, 31),
            crl_number: SerialNumber::from(number),
            issuing_distribution_point: None,
            revoked_certs: serials.iter().map(revoked).collect(),
            key_identifier_method: KeyIdMethod::Sha256,
        };
        params
            .signed_by(&self.0)
            .and_then(|list| list.pem())
            .map_err(|error| bad("the list of revoked certificates", &error))
    }

    pub(super) fn sign(&self, message: &[u8]) -> Result<Vec<u8>, HostdError> {
        rcgen::SigningKey::sign(self.0.key(), message)
            .map_err(|error| bad("the list of hosts", &error))
    }
}

/// The certificate, PEM, of a new authority, and the id of its realm.
pub(super) fn authority_certificate(key: &HostKey) -> Result<(String, String), HostdError> {
    let mut params = dated(CertificateParams::default());
    let identifier = params.key_identifier(key.pair());
    let mut realm: String = identifier
        .iter()
        .map(|byte| format!("{byte:02x}"))
        .collect();
    realm.truncate(REALM_ID_LETTERS);
    params.distinguished_name = named(&format!("{AUTHORITY_PREFIX}{realm}"));
    params.serial_number = Some(SerialNumber::from(1));
    params.is_ca = IsCa::Ca(BasicConstraints::Constrained(0));
    params.key_usages = vec![KeyUsagePurpose::KeyCertSign, KeyUsagePurpose::CrlSign];
    let certificate = params
        .self_signed(key.pair())
        .map_err(|error| bad("the authority's certificate", &error))?;
    Ok((certificate.pem(), realm))
}

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

fn host_params(name: &HostName, serial: u64) -> Result<CertificateParams, HostdError> {
    let san = SanType::DnsName(
        name.as_str()
            .try_into()
            .map_err(|error: rcgen::Error| bad(&format!("the certificate of {name}"), &error))?,
    );
    let mut params = dated(CertificateParams::default());
    params.distinguished_name = named(name.as_str());
    params.subject_alt_names = vec![san];
    params.serial_number = Some(SerialNumber::from(serial));
    params.is_ca = IsCa::ExplicitNoCa;
    params.key_usages = vec![KeyUsagePurpose::DigitalSignature];
    params.extended_key_usages = vec![
        ExtendedKeyUsagePurpose::ServerAuth,
        ExtendedKeyUsagePurpose::ClientAuth,
    ];
    Ok(params)
}

fn dated(mut params: CertificateParams) -> CertificateParams {
    params.not_before = date_time_ymd(1970, 1, 1);
    params.not_after = date_time_ymd(9999, 12, 31);
    params.use_authority_key_identifier_extension = true;
    params
}

fn named(common_name: &str) -> DistinguishedName {
    let mut name = DistinguishedName::new();
    name.push(DnType::CommonName, common_name);
    name
}

fn bad(what: &str, error: &rcgen::Error) -> HostdError {
    HostdError::BadCertificate {
        what: what.to_owned(),
        reason: error.to_string(),
    }
}

//! Keys and certificates: how they are made, and what is in them.
//!
//! Certificates hold from 1970 to 9999, so that they hold on a device whose clock was never set;
//! what ends one is its revocation. An authority signs a key that never leaves its host: of a
//! signing request only the public key is used. Never reads or writes a file.

use hythe_cluster::HostName;
use rcgen::{
    BasicConstraints, CertificateParams, CertificateRevocationListParams,
    CertificateSigningRequestParams, DistinguishedName, DnType, ExtendedKeyUsagePurpose, IsCa,
    Issuer, KeyIdMethod, KeyPair, KeyUsagePurpose, RevokedCertParams, SanType, SerialNumber,
    date_time_ymd,
};

use super::verification::{AUTHORITY_PREFIX, REALM_ID_LETTERS};
use crate::error::HostdError;

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

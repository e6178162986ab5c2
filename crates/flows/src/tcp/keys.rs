//! Keys of a sealed flow: who its two ends are.
//!
//! Each process makes a key pair for one flow. The agents, which have authenticated each other and
//! judged the rights, exchange the public keys; each end presents its own as a raw public key
//! (RFC 7250) and accepts no other than the one that the agents named. So no key of the realm
//! reaches a process, and one that leaks opens one flow.
//!
//! Used by [`super::pipe`] through the configurations that are made here. Never stores a key.

use std::io;
use std::sync::Arc;

use ring::rand::SystemRandom;
use ring::signature::Ed25519KeyPair;
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{AlwaysResolvesClientRawPublicKeys, Resumption};
use rustls::crypto::ring::sign::any_eddsa_type;
use rustls::crypto::ring::{cipher_suite, default_provider, kx_group};
use rustls::crypto::{CryptoProvider, verify_tls13_signature_with_raw_key};
use rustls::pki_types::{
    CertificateDer, PrivatePkcs8KeyDer, ServerName, SubjectPublicKeyInfoDer, UnixTime, alg_id,
};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::server::{AlwaysResolvesServerRawPublicKeys, NoServerSessionStorage};
use rustls::sign::{CertifiedKey, public_key_to_spki};
use rustls::version::TLS13;
use rustls::{
    CertificateError, ClientConfig, DigitallySignedStruct, DistinguishedName, Error, ServerConfig,
    SignatureScheme,
};

use crate::message::PublicKey;

/// The key pair of one end.
#[derive(Clone, Debug)]
pub(crate) struct KeyPair {
    certified: Arc<CertifiedKey>,
    public: PublicKey,
}

impl KeyPair {
    /// Makes one.
    pub(crate) fn new() -> io::Result<Self> {
        let failed = |what: &dyn std::fmt::Display| io::Error::other(format!("no key: {what}"));
        let document = Ed25519KeyPair::generate_pkcs8(&SystemRandom::new());
        let document = document.map_err(|error| failed(&error))?;
        let private = PrivatePkcs8KeyDer::from(document.as_ref());
        let signing = any_eddsa_type(&private).map_err(|error| failed(&error))?;
        let spki = signing.public_key().ok_or_else(|| failed(&"not public"))?;
        // The key itself is the end of its SubjectPublicKeyInfo.
        let public = spki.last_chunk().ok_or_else(|| failed(&"too short"))?;
        let public = PublicKey(*public);
        let presented = vec![CertificateDer::from(spki.as_ref().to_vec())];
        Ok(Self {
            certified: Arc::new(CertifiedKey::new(presented, signing)),
            public,
        })
    }

    /// The half that the other end may know.
    pub(crate) const fn public(&self) -> PublicKey {
        self.public
    }

    /// Of the publisher's end, which connects to the owner of `peer`.
    pub(crate) fn client(&self, peer: PublicKey) -> Result<Arc<ClientConfig>, Error> {
        let resolver = AlwaysResolvesClientRawPublicKeys::new(Arc::clone(&self.certified));
        let mut config = ClientConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(Arc::new(OnlyKey::new(peer)))
            .with_client_cert_resolver(Arc::new(resolver));
        config.resumption = Resumption::disabled();
        config.enable_sni = false;
        Ok(Arc::new(config))
    }

    /// Of the subscriber's end, which accepts the owner of `peer`.
    pub(crate) fn server(&self, peer: PublicKey) -> Result<Arc<ServerConfig>, Error> {
        let resolver = AlwaysResolvesServerRawPublicKeys::new(Arc::clone(&self.certified));
        let mut config = ServerConfig::builder_with_provider(provider())
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(Arc::new(OnlyKey::new(peer)))
            .with_cert_resolver(Arc::new(resolver));
        config.session_storage = Arc::new(NoServerSessionStorage {});
        config.send_tls13_tickets = 0;
        // Of two processors, the one without instructions for AES decides.
        config.ignore_client_order = !has_aes();
        Ok(Arc::new(config))
    }
}

/// The cipher that this CPU is fastest with first.
fn provider() -> Arc<CryptoProvider> {
    let aes = cipher_suite::TLS13_AES_128_GCM_SHA256;
    let chacha = cipher_suite::TLS13_CHACHA20_POLY1305_SHA256;
    let cipher_suites = match has_aes() {
        true => vec![aes, chacha],
        false => vec![chacha, aes],
    };
    Arc::new(CryptoProvider {
        cipher_suites,
        kx_groups: vec![kx_group::X25519],
        ..default_provider()
    })
}

fn has_aes() -> bool {
    #[cfg(any(target_arch = "x86", target_arch = "x86_64"))]
    return std::arch::is_x86_feature_detected!("aes");
    #[cfg(target_arch = "aarch64")]
    return std::arch::is_aarch64_feature_detected!("aes");
    #[allow(unreachable_code, reason = "of other processors it is not known")]
    false
}

/// What keys of flows sign with.
const SCHEMES: [SignatureScheme; 1] = [SignatureScheme::ED25519];

/// No end offers another version: this is never asked.
fn older_version() -> Error {
    Error::General("TLS 1.3 only".to_owned())
}

/// Accepts one key, and who proves to have it.
#[derive(Debug)]
struct OnlyKey {
    expected: SubjectPublicKeyInfoDer<'static>,
}

impl OnlyKey {
    fn new(PublicKey(key): PublicKey) -> Self {
        Self {
            expected: public_key_to_spki(&alg_id::ED25519, key),
        }
    }

    fn check(&self, presented: &CertificateDer<'_>) -> Result<(), Error> {
        match presented.as_ref() == self.expected.as_ref() {
            true => Ok(()),
            false => Err(CertificateError::ApplicationVerificationFailure.into()),
        }
    }

    fn check_signature(
        message: &[u8],
        presented: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let key = SubjectPublicKeyInfoDer::from(presented.as_ref());
        let algorithms = default_provider().signature_verification_algorithms;
        verify_tls13_signature_with_raw_key(message, &key, signature, &algorithms)
    }
}

impl ServerCertVerifier for OnlyKey {
    fn verify_server_cert(
        &self,
        presented: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _name: &ServerName<'_>,
        _ocsp_response: &[u8],
        _now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        self.check(presented)?;
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _presented: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(older_version())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        presented: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Self::check_signature(message, presented, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SCHEMES.to_vec()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

impl ClientCertVerifier for OnlyKey {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        &[]
    }

    fn verify_client_cert(
        &self,
        presented: &CertificateDer<'_>,
        _intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        self.check(presented)?;
        Ok(ClientCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _message: &[u8],
        _presented: &CertificateDer<'_>,
        _signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(older_version())
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        presented: &CertificateDer<'_>,
        signature: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Self::check_signature(message, presented, signature)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        SCHEMES.to_vec()
    }

    fn requires_raw_public_keys(&self) -> bool {
        true
    }
}

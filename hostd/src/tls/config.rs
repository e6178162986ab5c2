//! What TLS is told: version 1.3, both sides prove their names, nothing is resumed.
//!
//! Made from an identity, and made anew when the realm's list of revoked certificates changes.
//! Never asks what time it is: certificates hold until they are revoked.

use std::sync::{Arc, Mutex, PoisonError};
use std::time::Duration;

use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::client::{Resumption, WebPkiServerVerifier};
use rustls::crypto::CryptoProvider;
use rustls::pki_types::{CertificateDer, ServerName, UnixTime};
use rustls::server::danger::ClientCertVerifier;
use rustls::server::{NoServerSessionStorage, WebPkiClientVerifier};
use rustls::time_provider::TimeProvider;
use rustls::version::TLS13;
use rustls::{
    ClientConfig, DigitallySignedStruct, Error, RootCertStore, ServerConfig, SignatureScheme,
};

use crate::error::HostdError;
use crate::realm::Identity;

/// The version of what is spoken: both sides must have it.
pub(crate) const PROTOCOL: &str = "hythe-host/1";

/// Any version: a side that has no other in common says which one it has, and closes.
const ANY_PROTOCOL: &str = "hythe-host";

/// The least that a first message takes, without which it is not answered: what the answer takes,
/// at most. So a stranger gets no more bytes than it sent.
pub(super) const HELLO_BYTES_MIN: usize = 1_500;

/// Names of protocols that nobody speaks, which make the first message as long as that.
const PADDING: usize = 6;

/// The configurations of both sides.
#[derive(Clone, Debug)]
pub(super) struct Configs {
    client: ClientConfig,
    verifier: Arc<WebPkiServerVerifier>,
    pub(super) server: Arc<ServerConfig>,
    /// What `server` judges callers by.
    pub(super) callers: Arc<dyn ClientCertVerifier>,
}

impl Configs {
    pub(super) fn new(identity: &Identity) -> Result<Self, HostdError> {
        Self::build(identity).map_err(|error| HostdError::BadCertificate {
            what: format!("the identity of {}", identity.name()),
            reason: error.to_string(),
        })
    }

    fn build(identity: &Identity) -> Result<Self, Box<dyn std::error::Error>> {
        let provider = Arc::new(provider());
        let mut roots = RootCertStore::empty();
        roots.add(identity.authority().clone())?;
        let roots = Arc::new(roots);
        let revoked = [identity.document().revocations()?];
        let chain = vec![identity.certificate().clone()];

        let verifier = WebPkiServerVerifier::builder_with_provider(roots.clone(), provider.clone())
            .with_crls(revoked.clone())
            .only_check_end_entity_revocation()
            .build()?;
        let mut client = ClientConfig::builder_with_details(provider.clone(), Arc::new(Always))
            .with_protocol_versions(&[&TLS13])?
            .dangerous()
            .with_custom_certificate_verifier(verifier.clone())
            .with_client_auth_cert(chain.clone(), identity.key().clone_key())?;
        client.resumption = Resumption::disabled();
        client.enable_sni = false;
        client.enable_secret_extraction = true;
        client.alpn_protocols = dialled_protocols();

        let callers = WebPkiClientVerifier::builder_with_provider(roots, provider.clone())
            .with_crls(revoked)
            .only_check_end_entity_revocation()
            .build()?;
        let mut server = ServerConfig::builder_with_details(provider, Arc::new(Always))
            .with_protocol_versions(&[&TLS13])?
            .with_client_cert_verifier(callers.clone())
            .with_single_cert(chain, identity.key().clone_key())?;
        server.session_storage = Arc::new(NoServerSessionStorage {});
        server.send_tls13_tickets = 0;
        server.enable_secret_extraction = true;
        server.alpn_protocols = vec![PROTOCOL.into(), ANY_PROTOCOL.into()];
        Ok(Self {
            client,
            verifier,
            server: Arc::new(server),
            callers,
        })
    }

    /// For one connection to be made; what certificate was presented is noted.
    pub(super) fn client(&self) -> (Arc<ClientConfig>, Arc<NotingVerifier>) {
        let verifier = Arc::new(NotingVerifier {
            inner: self.verifier.clone(),
            presented: Mutex::new(None),
        });
        let mut config = self.client.clone();
        config
            .dangerous()
            .set_certificate_verifier(verifier.clone());
        (Arc::new(config), verifier)
    }
}

/// Verifies the other side's certificate, and keeps it: where it is refused, its names say why.
#[derive(Debug)]
pub(super) struct NotingVerifier {
    inner: Arc<WebPkiServerVerifier>,
    presented: Mutex<Option<CertificateDer<'static>>>,
}

impl NotingVerifier {
    /// The certificate that was presented.
    pub(super) fn presented(&self) -> Option<CertificateDer<'static>> {
        self.lock().clone()
    }

    fn lock(&self) -> std::sync::MutexGuard<'_, Option<CertificateDer<'static>>> {
        self.presented
            .lock()
            .unwrap_or_else(PoisonError::into_inner)
    }
}

impl ServerCertVerifier for NotingVerifier {
    fn verify_server_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        server_name: &ServerName<'_>,
        ocsp_response: &[u8],
        now: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        *self.lock() = Some(end_entity.clone().into_owned());
        self.inner
            .verify_server_cert(end_entity, intermediates, server_name, ocsp_response, now)
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.inner
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.inner.supported_verify_schemes()
    }
}

/// The time at which every certificate of a realm holds.
#[derive(Debug)]
struct Always;

impl TimeProvider for Always {
    fn current_time(&self) -> Option<UnixTime> {
        Some(any_time())
    }
}

/// One at which every certificate of a realm holds, as all are.
pub(super) fn any_time() -> UnixTime {
    UnixTime::since_unix_epoch(Duration::from_secs(1))
}

/// Whether these sides have agreed on this version.
pub(super) fn is_same_version(agreed: Option<&[u8]>) -> bool {
    agreed == Some(PROTOCOL.as_bytes())
}

fn dialled_protocols() -> Vec<Vec<u8>> {
    let padding = (0..PADDING).map(|number| format!("padding-{number}-{:=<245}", "").into_bytes());
    [PROTOCOL.into(), ANY_PROTOCOL.into()]
        .into_iter()
        .chain(padding)
        .collect()
}

/// AES first: the processors that have it seal with 128 bits fastest.
fn provider() -> CryptoProvider {
    use rustls::crypto::ring::cipher_suite::{
        TLS13_AES_128_GCM_SHA256, TLS13_AES_256_GCM_SHA384, TLS13_CHACHA20_POLY1305_SHA256,
    };
    CryptoProvider {
        cipher_suites: vec![
            TLS13_AES_128_GCM_SHA256,
            TLS13_AES_256_GCM_SHA384,
            TLS13_CHACHA20_POLY1305_SHA256,
        ],
        ..rustls::crypto::ring::default_provider()
    }
}

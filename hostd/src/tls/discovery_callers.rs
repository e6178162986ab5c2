//! Verifies who calls at the port of the discovery, also by the realm's list of revoked
//! certificates.
//!
//! Zenoh has a verifier of its own, which reads no such list; `tls-listener` asks this one instead.
//! It goes by the list as it is at each call. Never decides about connections that are there.

use std::sync::{Arc, Mutex, PoisonError};

use rustls::client::danger::HandshakeSignatureValid;
use rustls::pki_types::{CertificateDer, UnixTime};
use rustls::server::danger::{ClientCertVerified, ClientCertVerifier};
use rustls::{DigitallySignedStruct, DistinguishedName, Error, SignatureScheme};

use super::config::{self, Configs};
use crate::error::HostdError;
use crate::realm::LiveRealm;

/// From now on listeners of Zenoh that this process makes judge callers by this realm.
///
/// # Errors
/// The identity is of no use.
pub(crate) fn judge_by(realm: Arc<LiveRealm>) -> Result<(), HostdError> {
    let identity = realm.identity();
    let number = identity.document().number;
    let first = Configs::new(&identity)?.callers;
    tls_listener::set_verifier(Arc::new(DiscoveryCallers {
        realm,
        first: Arc::clone(&first),
        newest: Mutex::new((number, first)),
    }));
    Ok(())
}

#[derive(Debug)]
struct DiscoveryCallers {
    realm: Arc<LiveRealm>,
    /// By the document that was there first: what does not depend on it.
    first: Arc<dyn ClientCertVerifier>,
    /// Number of a document, and the verifier by it.
    newest: Mutex<(u64, Arc<dyn ClientCertVerifier>)>,
}

impl DiscoveryCallers {
    fn newest(&self) -> Result<Arc<dyn ClientCertVerifier>, Error> {
        let identity = self.realm.identity();
        let number = identity.document().number;
        let mut newest = self.newest.lock().unwrap_or_else(PoisonError::into_inner);
        if newest.0 != number {
            let configs = Configs::new(&identity);
            let configs = configs.map_err(|error| Error::General(error.to_string()))?;
            *newest = (number, configs.callers);
        }
        Ok(Arc::clone(&newest.1))
    }
}

impl ClientCertVerifier for DiscoveryCallers {
    fn root_hint_subjects(&self) -> &[DistinguishedName] {
        self.first.root_hint_subjects()
    }

    fn verify_client_cert(
        &self,
        end_entity: &CertificateDer<'_>,
        intermediates: &[CertificateDer<'_>],
        _now: UnixTime,
    ) -> Result<ClientCertVerified, Error> {
        // What ends a certificate is its revocation: it holds at any time.
        self.newest()?
            .verify_client_cert(end_entity, intermediates, config::any_time())
    }

    fn verify_tls12_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.first
            .verify_tls12_signature(message, certificate, signed)
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        self.first
            .verify_tls13_signature(message, certificate, signed)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.first.supported_verify_schemes()
    }
}

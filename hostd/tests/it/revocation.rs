//! What the authority and a host change counts at once, also between hosts that are connected.

use std::io::{Read as _, Write as _};
use std::net::TcpStream;
use std::sync::Arc;

use crate::network::agent::{Host, LONG, eventually, pair, three};
use crate::network::{Lan, enter, is_skipped};
use hythe_hostd::agent::DISCOVERY_PORT;
use hythe_node::{PublisherOptions, SubscriberOptions};
use rustls::client::danger::{HandshakeSignatureValid, ServerCertVerified, ServerCertVerifier};
use rustls::crypto::{CryptoProvider, verify_tls13_signature};
use rustls::pki_types::pem::PemObject as _;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName, UnixTime};
use rustls::{AlertDescription, ClientConfig, ClientConnection, DigitallySignedStruct, Error};
use rustls::{SignatureScheme, StreamOwned};

/// The third hears of it from the host where the realm was begun, with which it is connected all
/// the time: nobody connects anew.
#[test]
fn host_that_is_put_out_loses_its_sessions_with_all_others() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(31);
    let [a, b, c] = three(&lan);
    let (from, to) = (b.join("from"), c.join("to"));
    let options = SubscriberOptions::default();
    let _subscriber = to.subscriber("frames", &options).expect("subscribed");
    let options = PublisherOptions::default();
    let mut publisher = from.publisher("frames", &options).expect("published");
    assert!(publisher.wait_for_subscribers(1, LONG).expect("sound"));
    let said = a.said(&["remove", "b"]);
    assert!(said.contains("know it at once"), "{said}");
    eventually("a has put b out", || !a.is_connected_with("b"));
    eventually("c has put b out", || !c.is_connected_with("b"));
    eventually("it gets nothing of b any more", || {
        publisher.subscribers().expect("sound") == 0
    });
    eventually("b is told why", || {
        let status = b.status_of("c").expect("known");
        status.reason.contains("was revoked in realm")
    });
    eventually("a and c are connected", || {
        a.is_connected_with("c") && c.is_connected_with("a")
    });
}

#[test]
fn what_is_allowed_counts_for_channels_that_are_open() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(32);
    let [a, b] = pair(&lan);
    let (from, to) = (a.join("from"), b.join("to"));
    let options = SubscriberOptions::default();
    let _subscriber = to.subscriber("frames", &options).expect("subscribed");
    let options = PublisherOptions::default();
    let mut publisher = from.publisher("frames", &options).expect("published");
    for (host, denied) in [(&a, "b"), (&b, "a")] {
        assert!(publisher.wait_for_subscribers(1, LONG).expect("sound"));
        host.said(&["allow", denied, "frames", "none"]);
        eventually("nothing crosses", || {
            publisher.subscribers().expect("sound") == 0
        });
        for right in ["read", "write"] {
            host.said(&["allow", denied, "frames", right]);
        }
    }
    assert!(publisher.wait_for_subscribers(1, LONG).expect("sound"));
}

/// Also where it calls Zenoh itself, which reads no list of revoked certificates.
#[test]
fn host_that_is_put_out_gets_an_alert_from_the_discovery() {
    if is_skipped() {
        return;
    }
    let lan = Lan::new(34);
    let [a, b] = pair(&lan);
    assert_eq!(alert_of_discovery(&a, &b), None, "while it is in the realm");
    a.said(&["remove", "b"]);
    let alert = alert_of_discovery(&a, &b);
    assert_eq!(alert, Some(AlertDescription::CertificateRevoked));
}

/// What host `a` answers to a call by the certificate of `b`. `None`: it waits for what is said.
fn alert_of_discovery(a: &Host, b: &Host) -> Option<AlertDescription> {
    let (space, to) = (b.space.id(), (a.plug.address(), DISCOVERY_PORT));
    let file = |name| b.path("hosts").join(name);
    let certificate = CertificateDer::from_pem_file(file("host.pem")).expect("a certificate");
    let key = PrivateKeyDer::from_pem_file(file("host.key")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let config = ClientConfig::builder_with_provider(Arc::clone(&provider))
        .with_protocol_versions(&[&rustls::version::TLS13])
        .expect("known")
        .dangerous()
        .with_custom_certificate_verifier(Arc::new(Anybody(provider)))
        .with_client_auth_cert(vec![certificate], key)
        .expect("a pair");
    let call = move || {
        enter(space);
        let tcp = TcpStream::connect(to).expect("it listens");
        // Zenoh waits for a word of the caller's until it gives up; an alert comes at once.
        let name = ServerName::try_from("a.lan").expect("a name");
        let tls = ClientConnection::new(Arc::new(config), name).expect("a client");
        let mut stream = StreamOwned::new(tls, tcp);
        let said = stream.flush();
        let read = said.and_then(|()| stream.read(&mut [0; 400]).map(drop));
        let error = read.err()?;
        let tls = error.get_ref().and_then(|inner| inner.downcast_ref());
        match tls {
            Some(Error::AlertReceived(alert)) => Some(*alert),
            _ => None,
        }
    };
    std::thread::spawn(call).join().expect("no panic")
}

/// Trusts whoever answers.
#[derive(Debug)]
struct Anybody(Arc<CryptoProvider>);

impl ServerCertVerifier for Anybody {
    fn verify_server_cert(
        &self,
        _: &CertificateDer<'_>,
        _: &[CertificateDer<'_>],
        _: &ServerName<'_>,
        _: &[u8],
        _: UnixTime,
    ) -> Result<ServerCertVerified, Error> {
        Ok(ServerCertVerified::assertion())
    }

    fn verify_tls12_signature(
        &self,
        _: &[u8],
        _: &CertificateDer<'_>,
        _: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        Err(Error::General("TLS 1.3 is spoken".to_owned()))
    }

    fn verify_tls13_signature(
        &self,
        message: &[u8],
        certificate: &CertificateDer<'_>,
        signed: &DigitallySignedStruct,
    ) -> Result<HandshakeSignatureValid, Error> {
        let algorithms = &self.0.signature_verification_algorithms;
        verify_tls13_signature(message, certificate, signed, algorithms)
    }

    fn supported_verify_schemes(&self) -> Vec<SignatureScheme> {
        self.0.signature_verification_algorithms.supported_schemes()
    }
}

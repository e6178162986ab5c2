//! Calls another host, and says exactly what is in the way.
//!
//! All addresses are tried beside each other, and who answers first is asked first. Never believes
//! an address: who answers is who its certificate says.

use std::io::{self, ErrorKind};
use std::net::{SocketAddr, TcpStream};
use std::sync::Arc;
use std::sync::atomic::Ordering;
use std::time::{Duration, Instant};

use hythe_cluster::{AuthenticationFailure, CarrierError, Connection, HostName};
use rustls::pki_types::ServerName;
use rustls::{AlertDescription, CertificateError, Error};

use super::config::{NotingVerifier, PROTOCOL};
use super::greeting::{GreetingError, Halves, greet, version};
use super::halves::{TlsReceiver, TlsSender};
use super::handshake::{self, HandshakeError};
use super::race::Race;
use super::socket::{Socket, deadline};
use super::{Inner, Live, about, path};
use crate::realm::{common_name, realm_of_issuer};
use crate::zenoh_session::Tunnel;

impl Inner {
    pub(super) fn dial(
        &self,
        host: &HostName,
        addresses: &[SocketAddr],
        timeout: Duration,
    ) -> Result<Connection, CarrierError> {
        let end = deadline(timeout);
        // After a failure another one is the first: nobody who answers and says nothing has most
        // of the time for ever.
        let turn = self.failed_dials.load(Ordering::Relaxed) % addresses.len().max(1);
        let (later, first) = addresses.split_at(turn);
        let mut race = Race::new(first.iter().chain(later).copied(), end);
        let mut worst = None;
        while let Some((address, outcome)) = race.next() {
            let call = Dialling {
                inner: self,
                host,
                address: address.to_string(),
            };
            match self.dial_one(&call, outcome, end) {
                Ok(connection) => return Ok(connection),
                Err(error) => worst = Some(more_telling(worst, error)),
            }
        }
        self.failed_dials.fetch_add(1, Ordering::Relaxed);
        Err(worst.unwrap_or_else(|| {
            CarrierError::Unusable(format!("no address of host {host} is known"))
        }))
    }

    /// Whoever answered has half of the time that is left to say who it is.
    fn dial_one(
        &self,
        call: &Dialling<'_>,
        outcome: io::Result<TcpStream>,
        end: Instant,
    ) -> Result<Connection, CarrierError> {
        let socket = outcome.and_then(Socket::new);
        let socket = socket.map_err(|error| call.unreachable(error))?;
        let left = end.saturating_duration_since(Instant::now());
        self.shake_hands(call, &Arc::new(socket), deadline(left / 2), "")
    }

    /// `why`: why there is nothing better than this socket.
    fn shake_hands(
        &self,
        call: &Dialling<'_>,
        socket: &Arc<Socket>,
        end: Instant,
        why: &str,
    ) -> Result<Connection, CarrierError> {
        let host = call.host;
        let name = ServerName::try_from(host.as_str().to_owned()).map_err(|_| {
            CarrierError::Unusable(format!(
                "{host} is no name that a certificate can have: the last part of a name is not \
                 made of digits alone"
            ))
        })?;
        let configs = self
            .configs()
            .map_err(|error| CarrierError::Unusable(error.to_string()))?;
        let (config, verifier) = configs.client();
        let established = handshake::dial(socket, config, name, end)
            .map_err(|error| call.handshake_error(error, &verifier))?;
        let mut halves = Halves {
            sender: TlsSender::new(socket.clone(), established.sealer),
            receiver: TlsReceiver::new(socket.clone(), established.opener, &established.received),
        };
        // Of before: it may change meanwhile.
        let told = self.realm.identity().document().number;
        greet(&mut halves, &self.realm, end).map_err(|error| call.greeting_error(error))?;
        let about = about(socket, &established.certificate, why);
        self.register(Live {
            peer: host.clone(),
            certificate: established.certificate,
            socket: Arc::downgrade(socket),
            told,
            is_dialled: true,
        })
        .map_err(|error| call.not_trusted(error))?;
        Ok(Connection {
            peer: host.clone(),
            about,
            path: path(socket),
            sender: Box::new(halves.sender),
            receiver: Box::new(halves.receiver),
        })
    }

    /// Over Zenoh. `why`: why not by TCP.
    pub(super) fn dial_through(
        &self,
        host: &HostName,
        tunnel: io::Result<Arc<Tunnel>>,
        timeout: Duration,
        why: &str,
    ) -> Result<Connection, CarrierError> {
        let call = Dialling {
            inner: self,
            host,
            address: format!("Zenoh (tls: {why})"),
        };
        let socket = Socket::over(tunnel.map_err(|error| call.unreachable(error))?);
        self.shake_hands(&call, &Arc::new(socket), deadline(timeout), why)
    }
}

/// Who answers but is not believed says more than who does not answer.
fn more_telling(before: Option<CarrierError>, error: CarrierError) -> CarrierError {
    match before {
        Some(before @ CarrierError::NotTrusted { .. }) => before,
        _ => error,
    }
}

struct Dialling<'a> {
    inner: &'a Inner,
    host: &'a HostName,
    address: String,
}

impl Dialling<'_> {
    fn unreachable(&self, source: io::Error) -> CarrierError {
        CarrierError::Unreachable {
            host: self.host.clone(),
            address: self.address.clone(),
            source,
        }
    }

    fn not_trusted(&self, reason: AuthenticationFailure) -> CarrierError {
        CarrierError::NotTrusted {
            host: self.host.clone(),
            address: self.address.clone(),
            reason,
        }
    }

    fn handshake_error(&self, error: HandshakeError, verifier: &NotingVerifier) -> CarrierError {
        let not_hythe = |what: &str| {
            self.not_trusted(AuthenticationFailure::NotHythe {
                what: what.to_owned(),
            })
        };
        if error.is_timeout() {
            let said = "it accepted the connection, and did not answer in time";
            return self.unreachable(io::Error::new(ErrorKind::TimedOut, said));
        }
        match error {
            HandshakeError::Socket(error) if is_ended(&error) => {
                self.not_trusted(AuthenticationFailure::HungUp)
            }
            HandshakeError::Socket(error) => self.unreachable(error),
            HandshakeError::Closed {
                has_answered: false,
            } => self.not_trusted(AuthenticationFailure::HungUp),
            HandshakeError::Closed { has_answered: true } => {
                not_hythe("it hung up in the middle of the handshake")
            }
            HandshakeError::NotHythe => not_hythe("it answered something else"),
            HandshakeError::Tls(error) => self.not_trusted(self.tls_refusal(error, verifier)),
        }
    }

    fn tls_refusal(&self, error: Error, verifier: &NotingVerifier) -> AuthenticationFailure {
        let identity = self.inner.realm.identity();
        let realm = identity.realm().to_owned();
        let presented = verifier.presented();
        match error {
            Error::InvalidCertificate(
                CertificateError::UnknownIssuer | CertificateError::BadSignature,
            ) => AuthenticationFailure::OtherRealm {
                theirs: presented.as_ref().and_then(realm_of_issuer),
                ours: realm,
            },
            Error::InvalidCertificate(CertificateError::Revoked) => {
                AuthenticationFailure::Revoked { realm }
            }
            Error::InvalidCertificate(
                CertificateError::NotValidForName | CertificateError::NotValidForNameContext { .. },
            ) => AuthenticationFailure::OtherName {
                theirs: presented
                    .and_then(|certificate| common_name(&certificate).ok())
                    .map_or_else(|| "nobody".to_owned(), String::from),
            },
            Error::InvalidMessage(_) | Error::InappropriateMessage { .. } => {
                AuthenticationFailure::NotHythe {
                    what: "it does not speak TLS".to_owned(),
                }
            }
            Error::PeerIncompatible(_) => AuthenticationFailure::NotHythe {
                what: "it speaks no TLS 1.3".to_owned(),
            },
            Error::AlertReceived(alert) => self.alert_refusal(alert),
            other => AuthenticationFailure::Other {
                what: other.to_string(),
            },
        }
    }

    /// What the other side found.
    fn alert_refusal(&self, alert: AlertDescription) -> AuthenticationFailure {
        let identity = self.inner.realm.identity();
        let realm = identity.realm().to_owned();
        match alert {
            AlertDescription::UnknownCA | AlertDescription::DecryptError => {
                AuthenticationFailure::UnknownThere { ours: realm }
            }
            AlertDescription::CertificateRevoked => AuthenticationFailure::RevokedThere {
                name: identity.name().clone(),
                realm,
            },
            AlertDescription::NoApplicationProtocol | AlertDescription::ProtocolVersion => {
                self.other_version("another")
            }
            other => AuthenticationFailure::Other {
                what: format!("it ended the connection with the alert {other:?}"),
            },
        }
    }

    fn other_version(&self, theirs: &str) -> AuthenticationFailure {
        AuthenticationFailure::OtherVersion {
            theirs: theirs.to_owned(),
            ours: format!("{PROTOCOL} (hythe {})", version()),
        }
    }

    fn greeting_error(&self, error: GreetingError) -> CarrierError {
        match error {
            GreetingError::Socket(error) => self.greeting_broke(error),
            GreetingError::OtherVersion(theirs) => self.not_trusted(self.other_version(&theirs)),
            GreetingError::Refused(what) => self.not_trusted(AuthenticationFailure::Other { what }),
        }
    }

    /// The other side judges this host's certificate after the handshake is over here.
    fn greeting_broke(&self, error: io::Error) -> CarrierError {
        let found = error
            .get_ref()
            .and_then(|inner| inner.downcast_ref::<Error>());
        match found {
            Some(Error::AlertReceived(alert)) => self.not_trusted(self.alert_refusal(*alert)),
            Some(other) => self.not_trusted(AuthenticationFailure::Other {
                what: other.to_string(),
            }),
            None => self.unreachable(error),
        }
    }
}

fn is_ended(error: &io::Error) -> bool {
    matches!(
        error.kind(),
        ErrorKind::ConnectionReset | ErrorKind::ConnectionAborted | ErrorKind::BrokenPipe
    )
}

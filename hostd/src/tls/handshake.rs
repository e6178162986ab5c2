//! Drives the handshake of `rustls` over a socket, before a deadline, up to the two halves.
//!
//! Both sides call it. Never trusts a length that the other side says: `rustls` bounds each
//! message, this bounds the buffer and the time.

use std::io::{self, ErrorKind};
use std::sync::Arc;
use std::time::Instant;

use rustls::client::{ClientConnectionData, UnbufferedClientConnection};
use rustls::pki_types::{CertificateDer, ServerName};
use rustls::server::{ServerConnectionData, UnbufferedServerConnection};
use rustls::unbuffered::{ConnectionState, EncodeTlsData, UnbufferedStatus};
use rustls::{ClientConfig, CommonState, ExtractedSecrets, ServerConfig};

use super::config::{HELLO_BYTES_MIN, is_same_version};
use super::record::{self, HEADER_BYTES, KeyUpdates, Opener, RECORD_BYTES_MAX, Sealer};
use super::socket::Socket;

/// What is received and not used yet: a record and the beginning of the next.
const INCOMING_BYTES: usize = 2 * RECORD_BYTES_MAX;

/// The type of the record that begins a handshake.
const HANDSHAKE_RECORD: u8 = 22;

/// Why a handshake came to nothing.
#[derive(Debug)]
pub(super) enum HandshakeError {
    /// The socket, or the time.
    Socket(io::Error),
    /// The other side closed. Whether it had said anything.
    Closed { has_answered: bool },
    /// The other side began with something else than this program does.
    NotHythe,
    /// What TLS found, on either side.
    Tls(rustls::Error),
}

/// What a handshake came to.
#[derive(Debug)]
pub(super) struct Established {
    /// The certificate of the other side.
    pub(super) certificate: CertificateDer<'static>,
    /// Whether both sides are of one version.
    pub(super) is_same_version: bool,
    /// Seals what is sent.
    pub(super) sealer: Sealer,
    /// Opens what is received.
    pub(super) opener: Opener,
    /// What came after the handshake.
    pub(super) received: Vec<u8>,
}

/// Shakes hands with whoever was dialled.
pub(super) fn dial(
    socket: &Socket,
    config: Arc<ClientConfig>,
    name: ServerName<'static>,
    deadline: Instant,
) -> Result<Established, HandshakeError> {
    let side = UnbufferedClientConnection::new(config, name).map_err(HandshakeError::Tls)?;
    Handshake::new(socket, deadline).drive(side)
}

/// Shakes hands with whoever called. Nothing is sent before a first message came whose length is
/// that of an answer.
pub(super) fn answer(
    socket: &Socket,
    config: Arc<ServerConfig>,
    deadline: Instant,
) -> Result<Established, HandshakeError> {
    let side = UnbufferedServerConnection::new(config).map_err(HandshakeError::Tls)?;
    let mut handshake = Handshake::new(socket, deadline);
    handshake.receive_hello()?;
    handshake.drive(side)
}

/// A side of a handshake: what the two types of `rustls` have in common.
trait Side {
    type Data;
    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, Self::Data>;
    fn common(&self) -> &CommonState;
    fn finish(self) -> Result<(ExtractedSecrets, Box<dyn KeyUpdates>), rustls::Error>;
}

impl Side for UnbufferedClientConnection {
    type Data = ClientConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, ClientConnectionData> {
        self.process_tls_records(incoming)
    }

    fn common(&self) -> &CommonState {
        self
    }

    fn finish(self) -> Result<(ExtractedSecrets, Box<dyn KeyUpdates>), rustls::Error> {
        let (secrets, updates) = self.dangerous_into_kernel_connection()?;
        Ok((secrets, Box::new(updates)))
    }
}

impl Side for UnbufferedServerConnection {
    type Data = ServerConnectionData;

    fn process<'c, 'i>(
        &'c mut self,
        incoming: &'i mut [u8],
    ) -> UnbufferedStatus<'c, 'i, ServerConnectionData> {
        self.process_tls_records(incoming)
    }

    fn common(&self) -> &CommonState {
        self
    }

    fn finish(self) -> Result<(ExtractedSecrets, Box<dyn KeyUpdates>), rustls::Error> {
        let (secrets, updates) = self.dangerous_into_kernel_connection()?;
        Ok((secrets, Box::new(updates)))
    }
}

/// What is to be done next.
enum Next {
    Process,
    Transmit,
    Receive,
    Finish,
}

struct Handshake<'a> {
    socket: &'a Socket,
    deadline: Instant,
    incoming: Vec<u8>,
    filled: usize,
    has_received: bool,
    outgoing: Vec<u8>,
}

impl<'a> Handshake<'a> {
    fn new(socket: &'a Socket, deadline: Instant) -> Self {
        Self {
            socket,
            deadline,
            incoming: vec![0; INCOMING_BYTES],
            filled: 0,
            has_received: false,
            outgoing: Vec::new(),
        }
    }

    fn drive<S: Side>(mut self, mut side: S) -> Result<Established, HandshakeError> {
        loop {
            match self.step(&mut side) {
                Ok(Next::Process) => {}
                Ok(Next::Transmit) => self.transmit()?,
                Ok(Next::Receive) => self.receive()?,
                Ok(Next::Finish) => return self.finish(side),
                Err(error) => {
                    self.send_alert(&mut side);
                    return Err(HandshakeError::Tls(error));
                }
            }
        }
    }

    fn step<S: Side>(&mut self, side: &mut S) -> Result<Next, rustls::Error> {
        let status = side.process(&mut self.incoming[..self.filled]);
        let discard = status.discard;
        let next = status
            .state
            .and_then(|state| next_step(state, &mut self.outgoing));
        // Also after an error: `rustls` counts from here when it is asked for the alert.
        self.incoming.copy_within(discard..self.filled, 0);
        self.filled -= discard;
        next
    }

    fn transmit(&mut self) -> Result<(), HandshakeError> {
        let outgoing = std::mem::take(&mut self.outgoing);
        match outgoing.is_empty() {
            true => Ok(()),
            false => self
                .socket
                .send_all(&[outgoing], self.deadline)
                .map_err(HandshakeError::Socket),
        }
    }

    fn receive(&mut self) -> Result<(), HandshakeError> {
        let into = &mut self.incoming[self.filled..];
        if into.is_empty() {
            return Err(HandshakeError::NotHythe);
        }
        match self.socket.receive(into, self.deadline) {
            Ok(0) => Err(HandshakeError::Closed {
                has_answered: self.has_received,
            }),
            Ok(received) => {
                self.filled += received;
                self.has_received = true;
                Ok(())
            }
            Err(error) => Err(HandshakeError::Socket(error)),
        }
    }

    fn receive_hello(&mut self) -> Result<(), HandshakeError> {
        loop {
            let first = &self.incoming[..self.filled];
            let end = match *first {
                [HANDSHAKE_RECORD, 3, _, high, low, ..] => {
                    HEADER_BYTES + usize::from(u16::from_be_bytes([high, low]))
                }
                [HANDSHAKE_RECORD, 3, ..] | [HANDSHAKE_RECORD] | []
                    if first.len() < HEADER_BYTES =>
                {
                    HELLO_BYTES_MIN
                }
                _ => return Err(HandshakeError::NotHythe),
            };
            if !(HELLO_BYTES_MIN..=RECORD_BYTES_MAX).contains(&end) {
                return Err(HandshakeError::NotHythe);
            }
            if first.len() >= end {
                return Ok(());
            }
            self.receive()?;
        }
    }

    /// As far as it goes without waiting: the error is the same if the other side is not told.
    /// `rustls` is asked once: asked again, it would judge the same bytes a second time, and panic.
    fn send_alert<S: Side>(&mut self, side: &mut S) {
        let status = side.process(&mut self.incoming[..self.filled]);
        if let Ok(ConnectionState::EncodeTlsData(data)) = status.state
            && encode(data, &mut self.outgoing).is_ok()
        {
            let outgoing = std::mem::take(&mut self.outgoing);
            let _ = self.socket.send_all(&[outgoing], Instant::now());
        }
    }

    fn finish<S: Side>(mut self, side: S) -> Result<Established, HandshakeError> {
        let common = side.common();
        let is_same_version = is_same_version(common.alpn_protocol());
        let certificate = common
            .peer_certificates()
            .and_then(<[CertificateDer<'_>]>::first)
            .map(|certificate| certificate.clone().into_owned());
        let certificate =
            certificate.ok_or(HandshakeError::Tls(rustls::Error::NoCertificatesPresented))?;
        let suite = common
            .negotiated_cipher_suite()
            .ok_or(HandshakeError::Tls(rustls::Error::HandshakeNotComplete))?;
        let (secrets, updates) = side.finish().map_err(HandshakeError::Tls)?;
        let (sealer, opener) =
            record::halves(suite, secrets, updates).map_err(HandshakeError::Tls)?;
        self.incoming.truncate(self.filled);
        Ok(Established {
            certificate,
            is_same_version,
            sealer,
            opener,
            received: self.incoming,
        })
    }
}

fn next_step<Data>(
    state: ConnectionState<'_, '_, Data>,
    outgoing: &mut Vec<u8>,
) -> Result<Next, rustls::Error> {
    match state {
        ConnectionState::EncodeTlsData(data) => {
            encode(data, outgoing)?;
            Ok(Next::Process)
        }
        ConnectionState::TransmitTlsData(transmit) => {
            transmit.done();
            Ok(Next::Transmit)
        }
        ConnectionState::BlockedHandshake => Ok(Next::Receive),
        ConnectionState::WriteTraffic(_) => Ok(Next::Finish),
        // Nobody sends anything before both sides have shaken hands.
        state => Err(rustls::Error::General(format!(
            "the handshake was followed by {state:?} at once"
        ))),
    }
}

/// Appends a message of the handshake.
fn encode<Data>(
    mut data: EncodeTlsData<'_, Data>,
    outgoing: &mut Vec<u8>,
) -> Result<(), rustls::Error> {
    use rustls::unbuffered::{EncodeError, InsufficientSizeError};

    let refuse = |error: EncodeError| rustls::Error::General(error.to_string());
    let required = match data.encode(&mut []) {
        Ok(_) => return Ok(()),
        Err(EncodeError::InsufficientSize(InsufficientSizeError { required_size })) => {
            required_size
        }
        Err(error) => return Err(refuse(error)),
    };
    let start = outgoing.len();
    outgoing.resize(start + required, 0);
    data.encode(&mut outgoing[start..])
        .map(|_| ())
        .map_err(refuse)
}

impl HandshakeError {
    /// Whether the time was over.
    pub(super) fn is_timeout(&self) -> bool {
        matches!(self, Self::Socket(error) if error.kind() == ErrorKind::TimedOut)
    }
}

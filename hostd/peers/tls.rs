//! Ping-pong over TLS 1.3 on TCP by `rustls`, blocking, nothing else: what the agent's carrier
//! cannot be faster than.

use std::io::{Read, Write};
use std::net::{IpAddr, SocketAddr, TcpListener, TcpStream};
use std::path::Path;
use std::sync::Arc;

use hdrhistogram::Histogram;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{
    ClientConfig, ClientConnection, ConnectionCommon, RootCertStore, ServerConfig,
    ServerConnection, SideData,
};

use crate::Failure;
use crate::exchange::{Budget, check, fill, round_trips};

const NAME: &str = "floor";
const CERTIFICATE: &str = "floor-tls.der";
/// In front of each message: its length, so that any size is answered.
const LENGTH_BYTES: usize = 8;
/// The most that is believed of a length.
const SIZE_MAX: usize = 4 << 20;

pub(crate) fn echo(listen: IpAddr, folder: &Path) -> Result<(), Failure> {
    let made = rcgen::generate_simple_self_signed([NAME.to_owned()])?;
    std::fs::write(folder.join(CERTIFICATE), made.cert.der())?;
    let key = PrivateKeyDer::try_from(made.signing_key.serialize_der())?;
    let config = ServerConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
        .with_no_client_auth()
        .with_single_cert(vec![made.cert.der().clone()], key)?;
    let config = Arc::new(config);
    let listener = TcpListener::bind((listen, 0))?;
    println!("{}", listener.local_addr()?.port());
    loop {
        let (tcp, _) = listener.accept()?;
        let connection = ServerConnection::new(Arc::clone(&config))?;
        let mut end = End::new(connection, tcp)?;
        let mut number = 0;
        while end.receive(number)? {
            end.send(number)?;
            number += 1;
        }
    }
}

pub(crate) fn ping(
    connect: SocketAddr,
    size: usize,
    budget: Budget,
    folder: &Path,
) -> Result<Histogram<u64>, Failure> {
    let mut roots = RootCertStore::empty();
    roots.add(CertificateDer::from(std::fs::read(
        folder.join(CERTIFICATE),
    )?))?;
    let config = ClientConfig::builder_with_protocol_versions(&[&rustls::version::TLS13])
        .with_root_certificates(roots)
        .with_no_client_auth();
    let connection = ClientConnection::new(Arc::new(config), ServerName::try_from(NAME)?)?;
    let mut end = End::new(connection, TcpStream::connect(connect)?)?;
    end.buffer = vec![0; LENGTH_BYTES + size];
    round_trips(budget, |number| {
        end.send(number)?;
        match end.receive(number)? {
            true => Ok(()),
            false => Err("the other side has closed".into()),
        }
    })
}

/// One side. The loops are those of a program that is written against `rustls` directly.
struct End<C> {
    connection: C,
    tcp: TcpStream,
    /// Length and payload, so that both leave together.
    buffer: Vec<u8>,
}

impl<C, S> End<C>
where
    C: std::ops::DerefMut<Target = ConnectionCommon<S>>,
    S: SideData,
{
    fn new(connection: C, tcp: TcpStream) -> Result<Self, Failure> {
        tcp.set_nodelay(true)?;
        Ok(Self {
            connection,
            tcp,
            buffer: Vec::new(),
        })
    }

    fn send(&mut self, number: u64) -> Result<(), Failure> {
        let (length, payload) = self.buffer.split_at_mut(LENGTH_BYTES);
        length.copy_from_slice(&(payload.len() as u64).to_le_bytes());
        fill(payload, number);
        let mut stream = rustls::Stream::new(&mut self.connection, &mut self.tcp);
        Ok(stream.write_all(&self.buffer)?)
    }

    /// False: the other side has closed.
    fn receive(&mut self, number: u64) -> Result<bool, Failure> {
        let mut stream = rustls::Stream::new(&mut self.connection, &mut self.tcp);
        let mut length = [0; LENGTH_BYTES];
        if stream.read_exact(&mut length).is_err() {
            return Ok(false);
        }
        let length = usize::try_from(u64::from_le_bytes(length))?;
        if length > SIZE_MAX {
            return Err(format!("a message of {length} bytes").into());
        }
        self.buffer.resize(LENGTH_BYTES + length, 0);
        let payload = &mut self.buffer[LENGTH_BYTES..];
        stream.read_exact(payload)?;
        check(payload, number)?;
        Ok(true)
    }
}

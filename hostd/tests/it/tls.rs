//! Two hosts over real sockets, and each way in which a connection is refused.

use std::io::{Read, Write};
use std::net::{SocketAddr, TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use hythe_cluster::{
    AuthenticationFailure, Carrier, CarrierError, Connection, ConnectionReceiver, ConnectionSender,
    Received,
};
use hythe_hostd::HostdError;
use hythe_hostd::tls::TlsCarrier;
use rustls::pki_types::pem::PemObject;
use rustls::pki_types::{CertificateDer, PrivateKeyDer, ServerName};
use rustls::{ClientConfig, RootCertStore, ServerConfig};

use crate::hosts::{Host, name};

/// Ends only what hangs.
const LONG: Duration = Duration::from_secs(120);

fn connect(from: &TlsCarrier, to: &TlsCarrier, host: &str) -> (Connection, Connection) {
    let calling = from
        .connect(&name(host), &[to.address()], LONG)
        .unwrap_or_else(|error| panic!("{error}"));
    let called = to.accept(LONG).expect("it listens").expect("it came");
    (calling, called)
}

fn receive_exact(receiver: &mut dyn ConnectionReceiver, bytes: usize) -> Vec<u8> {
    let mut all = Vec::with_capacity(bytes);
    while all.len() < bytes {
        let taken = match receiver.receive(LONG).expect("received") {
            Received::Bytes(some) => {
                let taken = some.len().min(bytes - all.len());
                all.extend_from_slice(&some[..taken]);
                taken
            }
            other => panic!("{other:?} after {} of {bytes} bytes", all.len()),
        };
        receiver.consume(taken);
    }
    all
}

fn pattern(bytes: usize, seed: usize) -> Vec<u8> {
    (0..bytes)
        .map(|at| (at * 31 + at / 251 + seed) as u8)
        .collect()
}

fn refused(result: Result<Connection, CarrierError>) -> (AuthenticationFailure, String) {
    match result {
        Err(error @ CarrierError::NotTrusted { .. }) => {
            let text = error.to_string();
            match error {
                CarrierError::NotTrusted { reason, .. } => (reason, text),
                _ => unreachable!(),
            }
        }
        other => panic!("{other:?}"),
    }
}

#[test]
fn tls_proves_both_names_and_carries_all_sizes() {
    let alpha = Host::first("alpha");
    let beta = alpha.add("beta");
    let (at_alpha, _) = alpha.carrier();
    let (at_beta, _) = beta.carrier();
    let (calling, called) = connect(&at_alpha, &at_beta, "beta");
    assert_eq!(
        (&calling.peer, &called.peer),
        (&name("beta"), &name("alpha"))
    );

    let sizes = [1, 2, 3, 16_383, 16_384, 16_385, 200_000, 1 << 20, 5 << 20];
    let send = |sender: &mut dyn ConnectionSender, seed| {
        for size in sizes {
            let bytes = pattern(size, seed);
            let (first, rest) = bytes.split_at(size / 3);
            sender.send(&[first, &[], rest], LONG).expect("sent");
        }
    };
    let check = |receiver: &mut dyn ConnectionReceiver, seed| {
        for size in sizes {
            assert!(
                receive_exact(receiver, size) == pattern(size, seed),
                "{size} bytes"
            );
        }
    };
    let (mut a, mut b) = (calling, called);
    thread::scope(|scope| {
        scope.spawn(|| send(a.sender.as_mut(), 1));
        scope.spawn(|| send(b.sender.as_mut(), 2));
        scope.spawn(|| check(a.receiver.as_mut(), 2));
        scope.spawn(|| check(b.receiver.as_mut(), 1));
    });
    assert_eq!(at_beta.counts().accepted, 1);
    assert_eq!(at_beta.peers(), [name("alpha")]);
}

#[test]
fn closing_is_seen_as_closing_and_nothing_follows() {
    let alpha = Host::first("alpha");
    let (at_alpha, _) = alpha.carrier();
    let (at_beta, _) = alpha.add("beta").carrier();
    let (mut calling, mut called) = connect(&at_alpha, &at_beta, "beta");
    calling.sender.send(&[b"last"], LONG).expect("sent");
    calling.sender.close();
    assert_eq!(receive_exact(called.receiver.as_mut(), 4), b"last");
    assert!(matches!(
        called.receiver.receive(LONG),
        Ok(Received::Closed)
    ));
    assert!(calling.sender.send(&[b"more"], LONG).is_err());
    assert!(matches!(
        calling.receiver.receive(LONG),
        Ok(Received::Closed)
    ));
}

#[test]
fn receiver_that_waits_wakes_when_the_sending_half_closes() {
    let alpha = Host::first("alpha");
    let (at_alpha, _) = alpha.carrier();
    let (at_beta, _) = alpha.add("beta").carrier();
    let (calling, _called) = connect(&at_alpha, &at_beta, "beta");
    let Connection {
        mut sender,
        mut receiver,
        ..
    } = calling;
    let waiting = thread::spawn(move || matches!(receiver.receive(LONG), Ok(Received::Closed)));
    sender.close();
    assert!(waiting.join().expect("it ended"));
}

#[test]
fn what_nobody_takes_times_out_and_ends_the_connection() {
    let alpha = Host::first("alpha");
    let (at_alpha, _) = alpha.carrier();
    let (at_beta, _) = alpha.add("beta").carrier();
    let (mut calling, mut called) = connect(&at_alpha, &at_beta, "beta");
    let large = vec![7; 64 << 20];
    let error = calling
        .sender
        .send(&[&large], Duration::from_millis(50))
        .expect_err("nobody takes it");
    assert_eq!(error.kind(), std::io::ErrorKind::TimedOut);
    assert!(calling.sender.send(&[b"more"], LONG).is_err());
    // The other side does not take a part for the whole.
    let end = loop {
        let taken = match called.receiver.receive(LONG) {
            Ok(Received::Bytes(bytes)) => bytes.len(),
            Ok(Received::Closed) => break None,
            Ok(Received::Nothing) => 0,
            Err(error) => break Some(error),
        };
        called.receiver.consume(taken);
    };
    assert!(end.is_some(), "it broke, and nobody said that it ends");
}

#[test]
fn another_realm_is_named_beside_ours() {
    let alpha = Host::first("alpha");
    let stranger = Host::first("beta");
    let (at_alpha, realm) = alpha.carrier();
    let (at_stranger, theirs) = stranger.carrier();
    let called = at_alpha.connect(&name("beta"), &[at_stranger.address()], LONG);
    let (reason, text) = refused(called);
    assert_eq!(
        reason,
        AuthenticationFailure::OtherRealm {
            theirs: Some(theirs.identity().realm().to_owned()),
            ours: realm.identity().realm().to_owned(),
        }
    );
    assert!(text.contains("host beta at 127.0.0.1"), "{text}");
    assert!(text.contains("hythe host add"), "{text}");
}

#[test]
fn revoked_host_is_refused_by_either_side_and_told_why() {
    let alpha = Host::first("alpha");
    let beta = alpha.add("beta");
    let (at_beta, _) = beta.carrier();
    alpha.remove("beta");
    let (at_alpha, realm) = alpha.carrier();
    let realm = realm.identity().realm().to_owned();

    let (reason, _) = refused(at_alpha.connect(&name("beta"), &[at_beta.address()], LONG));
    assert_eq!(
        reason,
        AuthenticationFailure::Revoked {
            realm: realm.clone()
        }
    );
    let (reason, text) = refused(at_beta.connect(&name("alpha"), &[at_alpha.address()], LONG));
    let told = AuthenticationFailure::RevokedThere {
        name: name("beta"),
        realm,
    };
    assert_eq!(reason, told);
    assert!(text.contains("hythe host add"), "{text}");
    while at_alpha.counts().revoked == 0 {
        thread::yield_now();
    }
}

#[test]
fn connection_ends_when_its_host_is_revoked() {
    let alpha = Host::first("alpha");
    let beta = alpha.add("beta");
    let gamma = alpha.add("gamma");
    let (at_alpha, realm) = alpha.carrier();
    let (at_beta, _) = beta.carrier();
    let (at_gamma, _) = gamma.carrier();
    let (mut to_beta, mut called) = connect(&at_alpha, &at_beta, "beta");
    let (mut to_gamma, _kept) = connect(&at_alpha, &at_gamma, "gamma");

    alpha.remove("beta");
    assert!(realm.reload().expect("reloaded"));
    at_alpha.refresh().expect("refreshed");
    assert!(matches!(
        to_beta.receiver.receive(LONG),
        Ok(Received::Closed)
    ));
    assert!(to_beta.sender.send(&[b"late"], LONG).is_err());
    assert!(called.receiver.receive(LONG).is_err());
    to_gamma.sender.send(&[b"kept"], LONG).expect("not revoked");
}

#[test]
fn newer_list_of_hosts_goes_to_whoever_has_the_older_one() {
    let alpha = Host::first("alpha");
    let beta = alpha.add("beta");
    let gamma = alpha.add("gamma");
    let delta = alpha.add("delta");
    let (at_alpha, realm) = alpha.carrier();
    let (at_beta, beta_realm) = beta.carrier();
    let (at_delta, _) = delta.carrier();
    let (at_gamma, gamma_realm) = gamma.carrier();
    let number = realm.identity().document().number;
    let has_newest = |realm: &hythe_hostd::realm::LiveRealm| {
        while realm.identity().document().number != number {
            thread::yield_now();
        }
    };
    // Whoever calls has the newer one; then, whoever is called.
    let _one = connect(&at_alpha, &at_beta, "beta");
    has_newest(&beta_realm);
    let _other = connect(&at_gamma, &at_delta, "delta");
    has_newest(&gamma_realm);
    let kept = gamma.realm();
    assert_eq!(kept.identity().document().number, number);
}

#[test]
fn host_that_answers_is_named_if_it_is_another() {
    let alpha = Host::first("alpha");
    let beta = alpha.add("beta");
    let _gamma = alpha.add("gamma");
    let (at_alpha, _) = alpha.carrier();
    let (at_beta, _) = beta.carrier();
    let (reason, text) = refused(at_alpha.connect(&name("gamma"), &[at_beta.address()], LONG));
    let other = AuthenticationFailure::OtherName {
        theirs: "beta".to_owned(),
    };
    assert_eq!(reason, other);
    assert!(text.contains("gamma") && text.contains("beta"), "{text}");
}

/// A server with the certificate of `host` that offers these protocols.
fn server(host: &Host, protocols: &[&str]) -> (TcpListener, SocketAddr, Arc<ServerConfig>) {
    let read = |file| host.directory.read(file).expect("read").expect("there");
    let chain = vec![CertificateDer::from_pem_slice(&read("host.pem")).expect("a certificate")];
    let key = PrivateKeyDer::from_pem_slice(&read("host.key")).expect("a key");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ServerConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_no_client_auth()
        .with_single_cert(chain, key)
        .expect("a configuration");
    // As an agent does.
    config.send_tls13_tickets = 0;
    config.alpn_protocols = protocols
        .iter()
        .map(|one| one.as_bytes().to_vec())
        .collect();
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    (listener, address, Arc::new(config))
}

#[test]
fn other_versions_are_told_with_both_numbers() {
    let alpha = Host::first("alpha");
    let beta = alpha.add("beta");
    let (at_alpha, _) = alpha.carrier();
    for (protocols, theirs) in [
        (&["hythe-host/2"][..], "another"),
        (
            &["hythe-host/2", "hythe-host"],
            "hythe-host/2 (hythe 0.9.0)",
        ),
    ] {
        let (listener, address, config) = server(&beta, protocols);
        let serving = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a call");
            let mut tls = rustls::ServerConnection::new(config).expect("a connection");
            let welcome = br#"{"protocol":"hythe-host/2","version":"0.9.0","document_number":1}"#;
            let mut tls = rustls::Stream::new(&mut tls, &mut stream);
            let length = u32::try_from(welcome.len()).expect("short").to_le_bytes();
            // It fails where no protocol is common.
            let _ = tls.write_all(&length).and_then(|()| tls.write_all(welcome));
            let _ = stream.read(&mut [0; 64]);
        });
        let (reason, text) = refused(at_alpha.connect(&name("beta"), &[address], LONG));
        let ours = format!("hythe-host/1 (hythe {})", env!("CARGO_PKG_VERSION"));
        let theirs = theirs.to_owned();
        assert_eq!(reason, AuthenticationFailure::OtherVersion { theirs, ours });
        assert!(text.contains("install the same"), "{text}");
        serving.join().expect("it ended");
    }
}

#[test]
fn what_is_no_agent_is_called_that() {
    let alpha = Host::first("alpha");
    let _beta = alpha.add("beta");
    let (at_alpha, _) = alpha.carrier();
    for answer in [
        &b"HTTP/1.1 400 Bad Request\r\n\r\n"[..],
        b"",
        b"\0\0\0\0\0\0\0\0",
    ] {
        let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
        let address = listener.local_addr().expect("bound");
        let serving = thread::spawn(move || {
            let (mut stream, _) = listener.accept().expect("a call");
            let mut hello = [0; 4096];
            let _ = stream.read(&mut hello);
            stream.write_all(answer).expect("answered");
        });
        let (reason, text) = refused(at_alpha.connect(&name("beta"), &[address], LONG));
        let is_named = match answer.is_empty() {
            true => reason == AuthenticationFailure::HungUp,
            false => matches!(reason, AuthenticationFailure::NotHythe { .. }),
        };
        assert!(is_named, "{answer:?}: {reason:?}");
        assert!(text.contains("hythe host start"), "{text}");
        serving.join().expect("it ended");
    }
}

#[test]
fn nobody_there_is_unreachable_with_the_address() {
    let alpha = Host::first("alpha");
    let _beta = alpha.add("beta");
    let (at_alpha, _) = alpha.carrier();
    // Bound and not listening: nobody else gets that port meanwhile.
    let socket = rustix::net::socket(
        rustix::net::AddressFamily::INET,
        rustix::net::SocketType::STREAM,
        None,
    )
    .expect("a socket");
    let anywhere: SocketAddr = "127.0.0.1:0".parse().expect("an address");
    rustix::net::bind(&socket, &anywhere).expect("bound");
    let address = rustix::net::getsockname(&socket).expect("named");
    let address = SocketAddr::try_from(address).expect("an address");
    match at_alpha.connect(&name("beta"), &[address], LONG) {
        Err(CarrierError::Unreachable { source, .. }) => {
            assert_eq!(source.kind(), std::io::ErrorKind::ConnectionRefused);
        }
        other => panic!("{other:?}"),
    }

    let silent = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = silent.local_addr().expect("bound");
    let error = at_alpha
        .connect(&name("beta"), &[address], Duration::from_millis(100))
        .expect_err("it says nothing");
    assert!(
        matches!(error, CarrierError::Unreachable { .. }),
        "{error:?}"
    );
    assert!(error.to_string().contains("did not answer"), "{error}");
    let error = at_alpha
        .connect(&name("beta"), &[], LONG)
        .expect_err("nowhere");
    assert!(error.to_string().contains("no address"), "{error}");
}

#[test]
fn second_address_is_tried() {
    let alpha = Host::first("alpha");
    let (at_alpha, _) = alpha.carrier();
    let (at_beta, _) = alpha.add("beta").carrier();
    // It hangs up at once.
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let other = listener.local_addr().expect("bound");
    let serving = thread::spawn(move || drop(listener.accept()));
    let connected = at_alpha.connect(&name("beta"), &[other, at_beta.address()], LONG);
    serving.join().expect("it ended");
    assert_eq!(connected.expect("the second answers").peer, name("beta"));
}

#[test]
fn taken_port_is_named_with_the_remedy() {
    let alpha = Host::first("alpha");
    let taken = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = taken.local_addr().expect("bound");
    let error = TlsCarrier::start(alpha.realm(), Some(address)).expect_err("taken");
    assert!(matches!(error, HostdError::Agent(_)));
    let text = error.to_string();
    for part in [
        &address.port().to_string(),
        "127.0.0.1",
        "--listen",
        "ss -ltnp",
    ] {
        assert!(text.contains(part), "{text}");
    }
}

/// What a stranger gets who sends `bytes` and waits for the end.
fn answer_to(address: SocketAddr, bytes: &[u8]) -> usize {
    let mut stream = TcpStream::connect(address).expect("connected");
    stream.set_read_timeout(Some(LONG)).expect("set");
    stream.write_all(bytes).expect("sent");
    let mut answer = Vec::new();
    // The connection may be reset, as what was sent is not read.
    let _ = stream.read_to_end(&mut answer);
    answer.len()
}

#[test]
fn strangers_who_speak_something_else_get_no_answer() {
    let alpha = Host::first("alpha");
    let (at_alpha, _) = alpha.carrier();
    let mut long = vec![22, 3, 1, 0x40, 0];
    long.resize(5 + 0x4000, 0xff);
    for bytes in [
        &b"GET / HTTP/1.1\r\n\r\n"[..],
        &[22, 3, 1, 0, 50, 1, 0, 0, 46],
        &[22, 3, 1, 0xff, 0xff],
        &[0; 2000],
    ] {
        assert_eq!(answer_to(at_alpha.address(), bytes), 0);
    }
    let answer = answer_to(at_alpha.address(), &long);
    assert!(answer <= 7, "an alert and no more: {answer}");
    assert!(at_alpha.counts().not_hythe >= 4);
}

/// A first message of TLS, with so much padding.
fn hello(host: &Host, padding: usize) -> (rustls::ClientConnection, Vec<u8>) {
    let authority = host.directory.read("ca.pem").expect("read").expect("there");
    let mut roots = RootCertStore::empty();
    roots
        .add(CertificateDer::from_pem_slice(&authority).expect("a certificate"))
        .expect("added");
    let provider = Arc::new(rustls::crypto::ring::default_provider());
    let mut config = ClientConfig::builder_with_provider(provider)
        .with_safe_default_protocol_versions()
        .expect("versions")
        .with_root_certificates(roots)
        .with_no_client_auth();
    config.alpn_protocols = vec![b"hythe-host/1".to_vec()];
    config
        .alpn_protocols
        .extend((0..padding).map(|_| vec![b'x'; 255]));
    let server = ServerName::try_from("alpha").expect("a name");
    let mut tls = rustls::ClientConnection::new(Arc::new(config), server).expect("made");
    let mut first = Vec::new();
    tls.write_tls(&mut first).expect("written");
    (tls, first)
}

#[test]
fn stranger_who_speaks_tls_gets_no_more_than_it_sent() {
    let alpha = Host::first("alpha");
    let (at_alpha, _) = alpha.carrier();
    let (_, short) = hello(&alpha, 0);
    assert_eq!(
        answer_to(at_alpha.address(), &short),
        0,
        "{} sent",
        short.len()
    );

    let (mut tls, first) = hello(&alpha, 5);
    let mut stream = TcpStream::connect(at_alpha.address()).expect("connected");
    stream.set_read_timeout(Some(LONG)).expect("set");
    stream.write_all(&first).expect("sent");
    let (mut sent, mut received) = (first.len(), 0);
    loop {
        let mut answer = [0; 16_384];
        let got = stream.read(&mut answer).unwrap_or(0);
        received += got;
        println!("sent {sent} bytes, received {received}");
        assert!(received <= sent, "{received} > {sent}");
        if got == 0 {
            break;
        }
        tls.read_tls(&mut &answer[..got]).expect("taken");
        // It has no certificate: the agent refuses it.
        let _ = tls.process_new_packets();
        let mut more = Vec::new();
        tls.write_tls(&mut more).expect("written");
        sent += more.len();
        let _ = stream.write_all(&more);
    }
    assert!(received > 0);
}

#[test]
fn strangers_who_say_nothing_keep_no_host_out() {
    let alpha = Host::first("alpha");
    let (at_alpha, _) = alpha.carrier();
    let (at_beta, _) = alpha.add("beta").carrier();
    let mut silent = Vec::new();
    for _ in 0..100 {
        silent.push(TcpStream::connect(at_alpha.address()).expect("connected"));
    }
    let (calling, called) = connect(&at_beta, &at_alpha, "alpha");
    assert_eq!((calling.peer, called.peer), (name("alpha"), name("beta")));
    assert!(at_alpha.counts().crowded_out > 0);
}

#[test]
fn carrier_that_ends_leaves_nobody_waiting() {
    let alpha = Host::first("alpha");
    let (at_alpha, _) = alpha.carrier();
    let mut stream = TcpStream::connect(at_alpha.address()).expect("connected");
    drop(at_alpha);
    assert_eq!(stream.read(&mut [0; 1]).unwrap_or(0), 0);
}

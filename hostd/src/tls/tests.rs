//! Our record layer against the one of `rustls`, and against damage.

use std::io::{ErrorKind, Read, Write};
use std::net::{TcpListener, TcpStream};
use std::sync::Arc;
use std::thread;
use std::time::{Duration, Instant};

use hythe_cluster::{ConnectionReceiver, ConnectionSender, Received};
use rustls::pki_types::ServerName;

use super::config::Configs;
use super::halves::{TlsReceiver, TlsSender};
use super::handshake::{self, Established};
use super::socket::Socket;
use crate::hosts_directory::HostsDirectory;
use crate::realm::{Authority, Identity, NewHost};

/// Ends only what hangs.
const LONG: Duration = Duration::from_secs(120);

/// The same host at both ends: here it is about records, not about names.
fn configs() -> (tempfile::TempDir, Configs) {
    let root = tempfile::tempdir().expect("a directory");
    let directory = HostsDirectory::open_or_create(&root.path().join("h")).expect("made");
    let own = NewHost {
        name: "alpha".parse().expect("a name"),
        addresses: Vec::new(),
        slots: None,
        grants: Vec::new(),
    };
    let identity: Identity = Authority::begin(&directory, own).expect("begun");
    let configs = Configs::new(&identity).expect("configured");
    (root, configs)
}

fn sockets() -> (Arc<Socket>, TcpStream) {
    let listener = TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = listener.local_addr().expect("bound");
    let ours = TcpStream::connect(address).expect("connected");
    let (theirs, _) = listener.accept().expect("accepted");
    theirs.set_nodelay(true).expect("set");
    (Arc::new(Socket::new(ours).expect("a socket")), theirs)
}

fn dial(socket: &Socket, configs: &Configs) -> Established {
    let name = ServerName::try_from("alpha").expect("a name");
    let end = Instant::now() + LONG;
    handshake::dial(socket, configs.client().0, name, end).expect("shaken")
}

/// Our side called; the other side is all of `rustls`.
fn called() -> (TlsSender, TlsReceiver, rustls::ServerConnection, TcpStream) {
    let (_root, configs) = configs();
    let (socket, mut theirs) = sockets();
    let server = configs.server.clone();
    let answering = thread::spawn(move || {
        let mut tls = rustls::ServerConnection::new(server).expect("a connection");
        while tls.is_handshaking() {
            tls.complete_io(&mut theirs).expect("shaken");
        }
        (tls, theirs)
    });
    let mut ours = dial(&socket, &configs);
    ours.sealer.change_keys_after(3);
    let (tls, theirs) = answering.join().expect("shaken");
    let sender = TlsSender::new(socket.clone(), ours.sealer);
    let receiver = TlsReceiver::new(socket, ours.opener, &ours.received);
    (sender, receiver, tls, theirs)
}

#[test]
fn rustls_reads_what_we_seal_over_changes_of_keys() {
    let (mut sender, _receiver, mut tls, mut theirs) = called();
    let reading = thread::spawn(move || {
        let mut all = vec![0; 20 * 40_000];
        let mut stream = rustls::Stream::new(&mut tls, &mut theirs);
        stream.read_exact(&mut all).expect("read");
        all
    });
    for number in 0..20u8 {
        sender.send(&[&[number; 40_000]], LONG).expect("sent");
    }
    let all = reading.join().expect("read");
    for (number, part) in (0..20u8).zip(all.chunks(40_000)) {
        assert!(part.iter().all(|byte| *byte == number), "{number}");
    }
}

#[test]
fn we_read_what_rustls_seals_over_changes_of_keys() {
    let (_sender, mut receiver, mut tls, mut theirs) = called();
    let writing = thread::spawn(move || {
        for number in 0..20u8 {
            let mut stream = rustls::Stream::new(&mut tls, &mut theirs);
            stream.write_all(&[number; 40_000]).expect("written");
            stream.flush().expect("flushed");
            tls.refresh_traffic_keys().expect("changed");
        }
        tls.send_close_notify();
        tls.write_tls(&mut theirs).expect("written");
        theirs
    });
    let mut taken = 0;
    loop {
        let bytes = match receiver.receive(LONG).expect("received") {
            Received::Bytes(bytes) => {
                let wanted = |at: usize| ((taken + at) / 40_000) as u8;
                let is_right = bytes
                    .iter()
                    .enumerate()
                    .all(|(at, byte)| *byte == wanted(at));
                assert!(is_right, "after {taken} bytes");
                bytes.len()
            }
            Received::Nothing => continue,
            Received::Closed => break,
        };
        receiver.consume(bytes);
        taken += bytes;
    }
    assert_eq!(taken, 20 * 40_000);
    drop(writing.join());
}

/// What a receiver makes of records after they were changed.
fn receive_changed(change: impl Fn(&mut Vec<u8>)) -> std::io::Error {
    let (_sender, mut receiver, mut tls, mut theirs) = called();
    tls.writer().write_all(b"whole").expect("taken");
    let mut sealed = Vec::new();
    tls.write_tls(&mut sealed).expect("sealed");
    change(&mut sealed);
    theirs.write_all(&sealed).expect("sent");
    drop(theirs);
    match receiver.receive(LONG) {
        Err(error) => error,
        other => panic!("{other:?}"),
    }
}

#[test]
fn records_that_were_changed_on_the_way_are_refused() {
    let changes: [fn(&mut Vec<u8>); 5] = [
        |sealed| *sealed.last_mut().expect("a byte") ^= 1,
        |sealed| sealed[7] ^= 1,
        |sealed| sealed[0] = 22,
        |sealed| sealed[3] = 0xff,
        |sealed| sealed.drain(..22).for_each(drop),
    ];
    for change in changes {
        let error = receive_changed(change);
        assert_eq!(error.kind(), ErrorKind::InvalidData, "{error}");
    }
}

#[test]
fn requested_key_update_precedes_next_record() {
    let (mut sender, mut receiver, mut tls, mut theirs) = called();
    tls.refresh_traffic_keys().expect("asked");
    tls.writer().write_all(b"x").expect("taken");
    while tls.wants_write() {
        tls.write_tls(&mut theirs).expect("sent");
    }
    assert!(matches!(receiver.receive(LONG), Ok(Received::Bytes(b"x"))));
    sender.send(&[b"answer"], LONG).expect("sent");
    let mut answer = [0; 6];
    let mut stream = rustls::Stream::new(&mut tls, &mut theirs);
    stream.read_exact(&mut answer).expect("read");
    assert_eq!(&answer, b"answer");
}

#[test]
fn stream_that_was_cut_is_not_one_that_ended() {
    let whole = receive_changed(|sealed| sealed.clear());
    assert_eq!(whole.kind(), ErrorKind::UnexpectedEof);
    let half = receive_changed(|sealed| sealed.truncate(10));
    assert_eq!(half.kind(), ErrorKind::UnexpectedEof);
}

#[test]
fn record_comes_once() {
    let (_sender, mut receiver, mut tls, mut theirs) = called();
    tls.writer().write_all(b"once").expect("taken");
    let mut sealed = Vec::new();
    tls.write_tls(&mut sealed).expect("sealed");
    theirs.write_all(&sealed).expect("sent");
    theirs.write_all(&sealed).expect("sent again");
    match receiver.receive(LONG).expect("received") {
        Received::Bytes(bytes) => assert_eq!(bytes, b"once"),
        other => panic!("{other:?}"),
    }
    receiver.consume(4);
    let error = receiver.receive(LONG).expect_err("sent twice");
    assert_eq!(error.kind(), ErrorKind::InvalidData);
}

#[test]
#[should_panic(expected = "more consumed than received")]
fn consuming_what_was_not_received_is_our_bug() {
    let (_sender, mut receiver, _tls, _theirs) = called();
    receiver.consume(1);
}

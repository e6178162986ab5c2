//! The TCP side with real sockets: many clients, clients that misbehave, and the end.

use std::io::{ErrorKind, Write};
use std::net::{Shutdown, TcpListener, UdpSocket};
use std::os::fd::AsFd;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;
use std::time::Duration;

use hythe_media::MediaError;
use hythe_media::rtsp::server::Server;
use hythe_rtp::rtsp::Limits;
use hythe_testing::{eventually, let_time_pass};

use super::catalogue::SECOND_NS;
use super::running::{Owner, Running, session, socket_pair};

const LOCALHOST: &str = "127.0.0.1:0";
const UNICAST: &str = "Transport: RTP/AVP;unicast;client_port=5000-5001";

fn running() -> Running {
    Running::start(LOCALHOST, Limits::default(), Owner::new())
}

#[test]
fn two_hundred_clients_at_once() {
    const CLIENTS: usize = 200;
    let limits = Limits {
        connections_per_address: CLIENTS,
        sessions_per_address: CLIENTS,
        ..Limits::default()
    };
    let running = Running::start(LOCALHOST, limits, Owner::new());
    let url = running.url("voice");
    let mut clients: Vec<_> = (0..CLIENTS).map(|_| running.client()).collect();
    // Three requests each, before the first answer is read.
    for client in &mut clients {
        client.say("OPTIONS", &url, &[]);
        client.say("DESCRIBE", &url, &[]);
        client.say("SETUP", &url, &[UNICAST]);
    }
    let mut sessions: Vec<String> = Vec::new();
    for client in &mut clients {
        assert!(client.hear().contains("\r\nPublic: "));
        assert!(client.hear().contains("\r\nContent-Base: "));
        sessions.push(session(&client.hear()));
    }
    for (client, session) in clients.iter_mut().zip(&sessions) {
        client.say("PLAY", &url, &[session]);
    }
    for client in &mut clients {
        assert!(client.hear().starts_with("RTSP/1.0 200 OK\r\n"));
    }
    assert_eq!(running.playing.lock().unwrap().streams.len(), CLIENTS);
    for (client, session) in clients.iter_mut().zip(&sessions).step_by(2) {
        client.ask("TEARDOWN", &url, &[session]);
    }
    assert_eq!(running.playing.lock().unwrap().streams.len(), CLIENTS / 2);
    sessions.sort();
    sessions.dedup();
    assert_eq!(sessions.len(), CLIENTS);
    let playing = running.playing.clone();
    let counters = running.stop();
    assert_eq!(counters.requests, 4 * CLIENTS as u64 + CLIENTS as u64 / 2);
    assert_eq!((counters.connections, counters.refused_requests), (200, 0));
    // Those that were still playing were stopped at the end.
    let playing = playing.lock().unwrap();
    assert_eq!(
        (playing.starts, playing.stops, playing.streams.len()),
        (CLIENTS, CLIENTS, 0)
    );
}

#[test]
fn two_clients_receive_one_source() {
    for (host, local) in [(LOCALHOST, "127.0.0.1"), ("[::1]:0", "::1")] {
        if TcpListener::bind(host).is_err() {
            eprintln!("SKIPPED: this machine has no {local}");
            continue;
        }
        watch_together(host, local);
    }
}

fn watch_together(host: &str, local: &str) {
    let running = Running::start(host, Limits::default(), Owner::new());
    let ended = AtomicBool::new(false);
    thread::scope(|scope| {
        scope.spawn(|| send_numbers(&running, local, &ended));
        let url = running.url("live");
        let [mut one, mut two] = [running.client(), running.client()];
        let [(here, _one), (there, _two)] = [socket_pair(local), socket_pair(local)];
        let first = one.set_up(&url, here.local_addr().unwrap().port());
        let second = two.set_up(&url, there.local_addr().unwrap().port());
        one.ask("PLAY", &url, &[&first]);
        let early = receive(&here);
        two.ask("PLAY", &url, &[&second]);
        let joined = receive(&there);
        assert!(joined >= early, "who comes later gets what is sent then");
        // Both get every number from here on.
        while receive(&here) < joined {}
        for number in joined + 1..joined + 20 {
            assert_eq!((receive(&here), receive(&there)), (number, number));
        }
        one.ask("TEARDOWN", &url, &[&first]);
        for number in joined + 20..joined + 40 {
            assert_eq!(receive(&there), number);
        }
        two.ask("TEARDOWN", &url, &[&second]);
        ended.store(true, Ordering::Relaxed);
    });
    let counters = running.stop();
    assert_eq!((counters.sessions, counters.lost_sessions), (2, 0));
}

/// A number every millisecond, the same to everyone who plays.
fn send_numbers(running: &Running, local: &str, ended: &AtomicBool) {
    let socket = UdpSocket::bind((local, 0)).unwrap();
    let mut number = 0_u32;
    while !ended.load(Ordering::Relaxed) {
        for start in running.playing.lock().unwrap().streams.values() {
            socket
                .send_to(&number.to_be_bytes(), start.destination)
                .unwrap();
        }
        number += 1;
        let_time_pass(Duration::from_millis(1), "a sender's pace");
    }
}

fn receive(socket: &UdpSocket) -> u32 {
    let mut bytes = [0; 4];
    assert_eq!(socket.recv(&mut bytes).unwrap(), 4);
    u32::from_be_bytes(bytes)
}

#[test]
fn client_that_vanished_is_stopped_after_the_time_out() {
    let limits = Limits {
        session_ns: SECOND_NS,
        ..Limits::default()
    };
    let running = Running::start(LOCALHOST, limits, Owner::new());
    let url = running.url("voice");
    let mut client = running.client();
    let session = client.set_up(&url, 5000);
    client.ask("PLAY", &url, &[&session]);
    drop(client);
    running.until(|playing| playing.stops == 1);
    let counters = running.stop();
    assert_eq!((counters.lost_sessions, counters.connections), (1, 1));
}

#[test]
fn silent_client_that_receives_is_not_stopped() {
    let limits = Limits {
        session_ns: SECOND_NS,
        ..Limits::default()
    };
    let running = Running::start(LOCALHOST, limits, Owner::new());
    running.playing.lock().unwrap().are_alive = true;
    let url = running.url("voice");
    let mut client = running.client();
    let session = client.set_up(&url, 5000);
    client.ask("PLAY", &url, &[&session]);
    // Each look is followed by a search for lost sessions.
    running.until(|playing| playing.looks >= 4);
    assert_eq!(running.playing.lock().unwrap().stops, 0);
    running.playing.lock().unwrap().are_alive = false;
    running.until(|playing| playing.stops == 1);
    assert_eq!(running.stop().lost_sessions, 1);
}

#[test]
fn garbage_is_answered_before_the_end() {
    let running = running();
    let mut client = running.client();
    client.stream.write_all(b"GET / HTTP/1.1\r\n\r\n").unwrap();
    // More than the server will ever look at.
    let _ = client.stream.write_all(&[b'x'; 20_000]);
    assert!(
        client
            .rest()
            .starts_with("RTSP/1.0 400 Bad Request: it is no RTSP request\r\n")
    );
    let mut other = running.client();
    other.ask("OPTIONS", "*", &[]);
    assert_eq!(running.stop().malformed_messages, 1);
}

#[test]
fn client_that_sends_nothing_more_gets_its_answers() {
    let running = running();
    let mut client = running.client();
    for _ in 0..300 {
        client.say("DESCRIBE", &running.url("film"), &[]);
    }
    client.stream.write_all(b"OPTIONS * RTSP/1").unwrap();
    client.stream.shutdown(Shutdown::Write).unwrap();
    let answers = client.rest();
    assert_eq!(answers.matches("RTSP/1.0 200 OK\r\n").count(), 300);
    assert_eq!(running.stop().requests, 300);
}

#[test]
fn client_that_reads_nothing_is_cut_off_and_disturbs_nobody() {
    let limits = Limits {
        stall_ns: SECOND_NS,
        ..Limits::default()
    };
    let running = Running::start(LOCALHOST, limits, Owner::new());
    let mut greedy = running.client();
    rustix::net::sockopt::set_socket_recv_buffer_size(&greedy.stream, 4096).unwrap();
    greedy.stream.set_nonblocking(true).unwrap();
    let request = format!(
        "DESCRIBE {} RTSP/1.0\r\nCSeq: 1\r\n\r\n",
        running.url("film")
    );
    let requests = request.repeat(1000);
    let mut other = running.client();
    let mut rounds = 0;
    // Until the server has closed on us; its buffers fill up long before.
    let error = loop {
        match greedy.stream.write(requests.as_bytes()) {
            Ok(_) => {}
            Err(error) if error.kind() == ErrorKind::WouldBlock => {
                let_time_pass(Duration::from_millis(10), "its buffers are full");
            }
            Err(error) => break error.kind(),
        }
        other.ask("OPTIONS", "*", &[]);
        rounds += 1;
        assert!(rounds < 100_000);
    };
    assert!(
        matches!(error, ErrorKind::ConnectionReset | ErrorKind::BrokenPipe),
        "{error}"
    );
    assert_eq!(running.stop().stalled_connections, 1);
}

#[test]
fn slow_loris_is_closed_and_disturbs_nobody() {
    let limits = Limits {
        first_request_ns: SECOND_NS,
        ..Limits::default()
    };
    let running = Running::start(LOCALHOST, limits, Owner::new());
    let mut loris = running.client();
    let mut other = running.client();
    let mut rounds = 0;
    while loris.stream.write_all(b"O").is_ok() {
        other.ask("OPTIONS", "*", &[]);
        let_time_pass(Duration::from_millis(5), "it writes slowly");
        rounds += 1;
        assert!(rounds < 10_000);
    }
    assert_eq!(running.stop().silent_connections, 1);
}

#[test]
fn server_refuses_excess_connection_with_reason() {
    let limits = Limits {
        connections: 2,
        ..Limits::default()
    };
    let running = Running::start(LOCALHOST, limits, Owner::new());
    let mut clients = [running.client(), running.client()];
    for client in &mut clients {
        client.ask("OPTIONS", "*", &[]);
    }
    let expected = "RTSP/1.0 503 Service Unavailable: there are 2 connections already\r\n";
    assert!(running.client().rest().starts_with(expected));
    drop(clients);
    eventually("there is space again", || {
        let mut client = running.client();
        client.say("OPTIONS", "*", &[]);
        let mut text = [0; 15];
        std::io::Read::read_exact(&mut client.stream, &mut text).is_ok()
            && text == *b"RTSP/1.0 200 OK"
    });
    assert!(running.stop().refused_connections >= 1);
}

#[test]
fn client_that_waits_for_media_delays_no_other() {
    let running = running();
    running.playing.lock().unwrap().withheld = Some(Vec::new());
    let url = running.url("voice");
    let [mut slow, mut other] = [running.client(), running.client()];
    let session = slow.set_up(&url, 5000);
    slow.say("PLAY", &url, &[&session]);
    slow.say("OPTIONS", &url, &[]);
    running.until(|playing| playing.starts == 1);
    // Nobody else notices, and what it asks for itself comes behind the first answer.
    other.ask("DESCRIBE", &url, &[]);
    for method in ["PLAY", "PAUSE"] {
        other.say(method, &url, &[&session]);
        assert!(other.hear().contains("455 Method Not Valid"), "{method}");
    }
    let answer = |outcome| {
        let mut playing = running.playing.lock().unwrap();
        let withheld = playing.withheld.as_mut().unwrap();
        withheld.pop().unwrap().give(outcome);
    };
    answer(Ok(super::fixture::STARTED));
    assert!(slow.hear().contains("\r\nRTP-Info: "));
    assert!(slow.hear().contains("\r\nPublic: "));

    // An owner that drops the answer has failed.
    let session = other.set_up(&url, 5000);
    other.say("PLAY", &url, &[&session]);
    running.until(|playing| playing.starts == 2);
    running.playing.lock().unwrap().withheld = Some(Vec::new());
    assert!(other.hear().starts_with("RTSP/1.0 503 "));

    // What is torn down while it starts is stopped then, and not played afterwards.
    other.say("PLAY", &url, &[&session]);
    running.until(|playing| playing.starts == 3);
    slow.ask("TEARDOWN", &url, &[&session]);
    running.until(|playing| playing.stops == 1);
    answer(Ok(super::fixture::STARTED));
    assert!(other.hear().starts_with("RTSP/1.0 503 "));
    let counters = running.stop();
    assert_eq!((counters.sessions, counters.failed_starts), (2, 2));
}

#[test]
fn address_in_use_is_named() {
    let other = TcpListener::bind(LOCALHOST).unwrap();
    let address = other.local_addr().unwrap();
    let error = Server::bind(&[address], Limits::default()).unwrap_err();
    assert!(matches!(&error, MediaError::Socket { destination, .. } if *destination == address));
}

#[test]
fn far_end_of_a_closed_pipe_stops_it_too() {
    let server = Server::bind(&[LOCALHOST.parse().unwrap()], Limits::default()).unwrap();
    let (reader, writer) = std::io::pipe().unwrap();
    drop(writer);
    let counters = server.run(&mut Owner::new(), reader.as_fd()).unwrap();
    assert_eq!(counters.connections, 0);
}

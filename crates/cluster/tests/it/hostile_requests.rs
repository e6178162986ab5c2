//! A host with a good name that lies about requests: each request of a client here ends once, and
//! others are unharmed.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};
use std::time::Duration;

use crate::support::liar::{Honest, LIAR, Liar, assert_ended};
use crate::support::{BOUND, eventually};
use hythe_cluster::frame::{
    Answer, CarriedType, Control, EndKind, FrameKind, Header, Policy, Want, Window,
};
use hythe_node::{Client, ClientOptions, NodeError, PendingReply, ServerOptions};

const CHANNEL: &str = "sums";

/// A frame of a stream of requests or replies, with a payload of one byte if it is a message.
fn frame(kind: FrameKind, sequence: u64, number: u64) -> Vec<u8> {
    let length = u32::from(kind.has_payload());
    let header = Header {
        kind,
        length,
        sequence,
        publisher: 0,
        missed: 0,
        number,
    };
    let mut bytes = header.to_bytes().to_vec();
    bytes.resize(bytes.len() + length as usize, 9);
    bytes
}

/// A client of the honest host, for whose requests the liar says that it has a server.
struct Asking {
    honest: Honest,
    liar: Liar,
    client: Client,
    requests: TcpStream,
    replies: TcpStream,
}

impl Asking {
    fn new() -> Self {
        let honest = Honest::new();
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let name = LIAR.parse().expect("a name");
        honest.host.directory.show(&name, address);
        let options = ClientOptions::default().send_timeout(BOUND);
        let client = honest.host.join("asking").client(CHANNEL, &options);
        let mut client = client.expect("opened");
        let mut liar = Liar::begin(&honest.host);
        liar.say(&Control::Want(Want {
            kind: EndKind::Request,
            channel: CHANNEL.to_owned(),
            carries: CarriedType::default(),
            policy: Policy::DropNewest,
            depth: 16,
            history: 0,
        }));
        let window = Window {
            frames: u32::MAX,
            bytes: u64::MAX,
        };
        let answer = Answer::Stream {
            window,
            payload_bytes_max: u32::MAX,
            taken: 0,
        };
        let (requests, _) = Liar::answer(&listener, &answer);
        assert!(client.wait_for_servers(1, BOUND).expect("sound"));
        let replies = liar.opened(&honest.host, EndKind::Reply, CHANNEL);
        Self {
            honest,
            liar,
            client,
            requests,
            replies,
        }
    }

    /// Asks, and says by which number the liar knows it.
    fn ask(&mut self) -> (PendingReply, u64) {
        let lease = self.client.lease(1).expect("a slot");
        let pending = self.client.request(lease, 1).expect("asked");
        let mut bytes = [0; Header::BYTES];
        self.requests.read_exact(&mut bytes).expect("it arrives");
        self.requests.read_exact(&mut [0]).expect("it arrives");
        let header = Header::from_bytes(&bytes).expect("sound");
        (pending, header.number)
    }

    fn end(mut self) {
        self.honest.assert_unharmed();
        drop((self.client, self.requests, self.replies, self.liar));
        self.honest.end();
    }
}

#[test]
fn request_ends_once_whatever_is_said_of_it() {
    let mut asking = Asking::new();
    let (first, one) = asking.ask();
    let (second, other) = asking.ask();
    let lies = [
        // Never asked.
        frame(FrameKind::Message, 1, u64::MAX),
        frame(FrameKind::Lost, 2, 0),
        frame(FrameKind::GivenUp, 3, one ^ 1 << 40),
        // Each end but the first is one too many.
        frame(FrameKind::Message, 4, one),
        frame(FrameKind::Message, 5, one),
        frame(FrameKind::Lost, 6, one),
        frame(FrameKind::Lost, 7, other),
        frame(FrameKind::GivenUp, 8, other),
        frame(FrameKind::Message, 9, other),
    ];
    asking.replies.write_all(&lies.concat()).expect("sent");
    let reply = asking.client.wait(first, BOUND).expect("answered");
    assert_eq!(reply.expect("in time").to_vec(), [9]);
    match asking.client.wait(second, BOUND) {
        Err(NodeError::ServerLost { server, .. }) => assert!(server.starts_with("host a")),
        other => panic!("{other:?}"),
    }
    assert!(
        asking.honest.host.is_connected_to(LIAR),
        "all of it is passed over"
    );
    let more = asking.client.take(Duration::ZERO).expect("sound");
    assert!(more.is_none(), "an end too many");
    asking.end();
}

#[test]
fn request_of_which_nothing_is_said_ends_with_the_session() {
    for (reason, kind) in [
        (
            "a frame of kind PublisherClosed",
            FrameKind::PublisherClosed,
        ),
        ("a frame of kind Missed", FrameKind::Missed),
    ] {
        let mut asking = Asking::new();
        let (pending, _) = asking.ask();
        asking.replies.write_all(&frame(kind, 1, 0)).expect("sent");
        match asking.client.wait(pending, BOUND) {
            Err(NodeError::ServerLost { server, .. }) => assert!(server.starts_with("host a")),
            other => panic!("{other:?}"),
        }
        assert_ended(&asking.honest.host, reason);
        asking.end();
    }
}

/// Requests of one number, more than may be open, from a host that takes no reply.
#[test]
fn flood_of_requests_waits_at_its_sender() {
    let mut honest = Honest::new();
    let serving = honest.host.join("serving");
    let server = serving.server(CHANNEL, &ServerOptions::default());
    let mut server = server.expect("opened");
    let liar = Liar::begin(&honest.host);
    let mut stream = liar.opened(&honest.host, EndKind::Request, CHANNEL);
    stream.set_nonblocking(true).expect("set");
    let mut sequence = 0;
    eventually("its session ends, or it is held up", || {
        let flood = sequence + 1..=sequence + 5000;
        sequence += 5000;
        let flood: Vec<Vec<u8>> = flood
            .map(|sequence| frame(FrameKind::Message, sequence, 7))
            .collect();
        let sent = stream.write_all(&flood.concat());
        if let Some(request) = server.try_take().expect("sound") {
            assert!(request.reply_in_kind().expect("alone with it"));
        }
        sent.is_err()
    });
    honest.assert_unharmed();
    drop((stream, liar));
    eventually("the session ends", || !honest.host.is_connected_to(LIAR));
    drop((server, serving));
    honest.end();
}

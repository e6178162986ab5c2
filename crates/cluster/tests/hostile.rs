//! A host with a good name that lies: its session ends with a reason, and others are unharmed.

mod support;

use std::io::{Read as _, Write as _};
use std::net::TcpStream;

use hythe_cluster::frame::{
    Answer, Assembler, CarriedType, Control, EndKind, FrameKind, Header, Hello, Opening, Policy,
    Preamble, Purpose, Want, encode,
};
use hythe_node::{Publisher, PublisherOptions, Subscriber, SubscriberOptions};
use serde::de::DeserializeOwned;
use support::carrier::dial;
use support::host::TestHost;
use support::{BOUND, eventually};

/// What it does to whom it lies.
type Lie<'a> = &'a dyn Fn(&mut Liar);

/// Less than the other: it dials.
const LIAR: &str = "a";

/// A host that says what it likes.
struct Liar {
    control: TcpStream,
    /// The number that the honest host chose.
    session: u64,
}

fn open(host: &TestHost, purpose: Purpose) -> (TcpStream, Answer) {
    let mut stream = dial(LIAR, host.carrier.address()).expect("connects");
    stream.set_read_timeout(Some(BOUND)).expect("set");
    let hello = Hello {
        host: LIAR.parse().expect("a name"),
        purpose,
    };
    let mut bytes = Preamble::to_bytes().to_vec();
    encode(&hello, &mut bytes).expect("short");
    stream.write_all(&bytes).expect("sent");
    stream.read_exact(&mut [0; 16]).expect("a preamble");
    let answer = message(&mut stream);
    (stream, answer)
}

fn message<T: DeserializeOwned>(stream: &mut TcpStream) -> T {
    let (mut assembler, mut byte) = (Assembler::default(), [0]);
    loop {
        if let Some(message) = assembler.message().expect("readable") {
            return message;
        }
        stream.read_exact(&mut byte).expect("a message");
        assembler.take_in(&byte).expect("short");
    }
}

impl Liar {
    fn begin(host: &TestHost) -> Self {
        let (control, answer) = open(host, Purpose::Control { session: 1 });
        let Answer::Session { session } = answer else {
            panic!("{answer:?}")
        };
        eventually("there is a session", || host.is_connected_to(LIAR));
        Self { control, session }
    }

    fn say(&mut self, message: &Control) {
        let mut bytes = Vec::new();
        encode(message, &mut bytes).expect("short");
        // What ended the session may come before the last of many.
        let _ = self.control.write_all(&bytes);
    }

    fn open_stream(&self, host: &TestHost, session: u64, channel: &str) -> (TcpStream, Answer) {
        let opening = Opening {
            stream: 1,
            kind: EndKind::Publish,
            channel: channel.to_owned(),
            carries: CarriedType::default(),
        };
        open(host, Purpose::Data { session, opening })
    }
}

/// The session with the liar ends, for this reason.
fn assert_ended(host: &TestHost, reason: &str) {
    eventually(reason, || !host.is_connected_to(LIAR));
    let said = host.status_of(LIAR).expect("known").reason;
    assert!(said.contains(reason), "{said}");
}

/// The honest host of each test, another that it is connected to, and a channel from there.
struct Honest {
    host: TestHost,
    other: TestHost,
    publisher: Publisher,
    subscriber: Subscriber,
}

impl Honest {
    fn new() -> Self {
        let (host, other) = (TestHost::new("b"), TestHost::new("c"));
        host.meet(&other);
        let subscriber = host
            .join("local")
            .subscriber("news", &SubscriberOptions::default())
            .expect("opened");
        let publisher = other
            .join("local")
            .publisher("news", &PublisherOptions::default())
            .expect("opened");
        Self {
            host,
            other,
            publisher,
            subscriber,
        }
    }

    fn assert_unharmed(&mut self) {
        assert!(
            self.publisher
                .wait_for_subscribers(1, BOUND)
                .expect("sound")
        );
        let lease = self.publisher.lease(3).expect("a slot");
        self.publisher.publish(lease, 3).expect("published");
        assert!(self.subscriber.take(BOUND).expect("sound").is_some());
    }

    fn end(self) {
        drop((self.publisher, self.subscriber));
        for mut host in [self.host, self.other] {
            host.agent = None;
            host.assert_settled(0);
        }
    }
}

#[test]
fn lies_on_a_control_connection_end_the_session() {
    let mut honest = Honest::new();
    let want = |number: u32| {
        Control::Want(Want {
            kind: EndKind::Publish,
            channel: format!("channel {number}"),
            carries: CarriedType::default(),
            policy: Policy::DropNewest,
            depth: u32::MAX,
            history: u32::MAX,
        })
    };
    let lies: [(&str, Lie); 5] = [
        ("cannot be read", &|liar| {
            liar.say(&Control::Unwant {
                kind: EndKind::Publish,
                channel: "c".repeat(65),
            });
        }),
        ("were sent", &|liar| {
            let (stream, through) = (9, 1);
            liar.say(&Control::Acknowledge { stream, through });
        }),
        ("the longest has", &|liar| {
            liar.control.write_all(&[0xff; 4]).expect("sent");
        }),
        ("cannot be read", &|liar| {
            liar.control.write_all(&[1, 0, 0, 0, 99]).expect("sent");
        }),
        ("channels that it wants", &|liar| {
            (0..5000).for_each(|number| liar.say(&want(number)));
        }),
    ];
    for (reason, lie) in lies {
        let mut liar = Liar::begin(&honest.host);
        lie(&mut liar);
        assert_ended(&honest.host, reason);
        honest.assert_unharmed();
    }
    honest.end();
}

#[test]
fn lies_on_a_data_connection_end_the_session() {
    let mut honest = Honest::new();
    let good = Header {
        kind: FrameKind::Message,
        length: 0,
        sequence: 1,
        publisher: 0,
        missed: 0,
        number: 0,
    };
    let sequence = Header {
        sequence: 2,
        ..good
    }
    .to_bytes();
    let length = u32::MAX;
    let long = Header { length, ..good }.to_bytes();
    let publisher = 1024;
    let publishers = Header { publisher, ..good }.to_bytes();
    let mut kind = good.to_bytes();
    kind[0] = 77;
    for (reason, lie) in [
        ("frame 2 where 1 is due", sequence),
        ("the longest possible", long),
        ("publishers on a channel", publishers),
        ("frame of kind 77", kind),
    ] {
        let liar = Liar::begin(&honest.host);
        let mut opened = None;
        // It is told what is wanted behind the answer to its hello.
        eventually("the stream is open", || {
            let (stream, answer) = liar.open_stream(&honest.host, liar.session, "news");
            opened = matches!(answer, Answer::Stream { .. }).then_some(stream);
            opened.is_some()
        });
        let mut stream = opened.expect("open");
        stream.write_all(&lie).expect("sent");
        assert_ended(&honest.host, reason);
        honest.assert_unharmed();
    }
    honest.end();
}

#[test]
fn streams_of_nobody_and_of_other_sessions_are_refused() {
    let mut honest = Honest::new();
    let liar = Liar::begin(&honest.host);
    let another = liar.session ^ 1;
    for (session, channel) in [(another, "news"), (liar.session, "nobody wants it")] {
        let (_, answer) = liar.open_stream(&honest.host, session, channel);
        assert!(matches!(answer, Answer::Refused { .. }), "{answer:?}");
    }
    assert!(honest.host.is_connected_to(LIAR), "it may ask");
    honest.assert_unharmed();
    drop(liar);
    honest.end();
}

/// Connections that never say what for: only so many at once, and the others go on.
#[test]
fn a_flood_of_silent_connections_harms_nobody() {
    let mut honest = Honest::new();
    honest.assert_unharmed();
    let address = honest.host.carrier.address();
    let flood: Vec<TcpStream> = (0..100)
        .map(|_| dial(LIAR, address).expect("connects"))
        .collect();
    let refused = || {
        let status = honest.host.agent.as_ref().expect("runs").status();
        status.refused_connections
    };
    eventually("most are refused", || refused() >= 84);
    honest.assert_unharmed();
    drop(flood);
    honest.end();
}

//! A host with a good name that says what it likes, and an honest one that it lies to.

use std::io::{Read as _, Write as _};
use std::net::{TcpListener, TcpStream};

use hythe_cluster::frame::{
    Answer, Assembler, CarriedType, Control, EndKind, Hello, Opening, Preamble, Purpose, encode,
};
use hythe_node::{Publisher, PublisherOptions, Subscriber, SubscriberOptions};
use hythe_testing::eventually_or_show;
use serde::de::DeserializeOwned;

use super::carrier::dial;
use super::host::TestHost;
use super::{BOUND, eventually};

/// Less than the other: it dials.
pub(crate) const LIAR: &str = "a";

/// A host that says what it likes.
pub(crate) struct Liar {
    pub(crate) control: TcpStream,
    /// The number that the honest host chose.
    pub(crate) session: u64,
}

pub(crate) fn open(host: &TestHost, purpose: Purpose) -> (TcpStream, Answer) {
    open_as(LIAR, host, purpose)
}

/// By the host of that name.
pub(crate) fn open_as(name: &str, host: &TestHost, purpose: Purpose) -> (TcpStream, Answer) {
    let mut stream = dial(name, host.carrier.address()).expect("connects");
    stream.set_read_timeout(Some(BOUND)).expect("set");
    say_hello(&mut stream, name, purpose);
    let answer = answer_to(&mut stream);
    (stream, answer)
}

pub(crate) fn say_hello(stream: &mut TcpStream, name: &str, purpose: Purpose) {
    let hello = Hello {
        host: name.parse().expect("a name"),
        purpose,
    };
    let mut bytes = Preamble::to_bytes().to_vec();
    encode(&hello, &mut bytes).expect("short");
    stream.write_all(&bytes).expect("sent");
}

pub(crate) fn answer_to(stream: &mut TcpStream) -> Answer {
    stream.read_exact(&mut [0; 16]).expect("a preamble");
    message(stream)
}

pub(crate) fn message<T: DeserializeOwned>(stream: &mut TcpStream) -> T {
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
    pub(crate) fn begin(host: &TestHost) -> Self {
        Self::begin_as(LIAR, host)
    }

    /// With that name, which is less than that of the honest host.
    pub(crate) fn begin_as(name: &str, host: &TestHost) -> Self {
        let (control, answer) = open_as(name, host, Purpose::Control { session: 1 });
        let Answer::Session { session } = answer else {
            panic!("{answer:?}")
        };
        eventually("there is a session", || host.is_connected_to(name));
        Self { control, session }
    }

    pub(crate) fn say(&mut self, message: &Control) {
        let mut bytes = Vec::new();
        encode(message, &mut bytes).expect("short");
        // What ended the session may come before the last of many.
        let _ = self.control.write_all(&bytes);
    }

    /// Stream 1, of messages.
    pub(crate) fn open_stream(
        &self,
        host: &TestHost,
        session: u64,
        channel: &str,
    ) -> (TcpStream, Answer) {
        self.open_kind(host, session, EndKind::Publish, channel)
    }

    /// A stream with the number of its kind.
    pub(crate) fn open_kind(
        &self,
        host: &TestHost,
        session: u64,
        kind: EndKind,
        channel: &str,
    ) -> (TcpStream, Answer) {
        let opening = Opening {
            stream: kind as u32 + 1,
            kind,
            channel: channel.to_owned(),
            carries: CarriedType::default(),
        };
        open(host, Purpose::Data { session, opening })
    }

    /// The connection of a stream in this session, as soon as the other side takes it: it says what
    /// it wants behind its answer to the hello.
    pub(crate) fn opened(&self, host: &TestHost, kind: EndKind, channel: &str) -> TcpStream {
        let mut opened = None;
        eventually("the stream is open", || {
            let (stream, answer) = self.open_kind(host, self.session, kind, channel);
            opened = matches!(answer, Answer::Stream { .. }).then_some(stream);
            opened.is_some()
        });
        opened.expect("open")
    }

    /// The next connection that the other side makes to `listener`, answered so.
    pub(crate) fn answer(listener: &TcpListener, answer: &Answer) -> (TcpStream, Hello) {
        let (mut stream, _) = listener.accept().expect("it dials");
        stream.set_read_timeout(Some(BOUND)).expect("set");
        let mut length = [0];
        stream.read_exact(&mut length).expect("a name");
        let mut name = vec![0; length[0].into()];
        stream.read_exact(&mut name).expect("a name");
        stream.read_exact(&mut [0; 16]).expect("a preamble");
        let hello = message(&mut stream);
        let mut bytes = Preamble::to_bytes().to_vec();
        encode(answer, &mut bytes).expect("short");
        stream.write_all(&bytes).expect("sent");
        (stream, hello)
    }
}

/// The session with the liar ends, for this reason.
pub(crate) fn assert_ended(host: &TestHost, reason: &str) {
    let given = || host.status_of(LIAR).expect("known").reason;
    // The reason is known a moment after the connection is gone.
    let has_ended = || !host.is_connected_to(LIAR) && given().contains(reason);
    eventually_or_show(reason, has_ended, given);
}

/// What it does to whom it lies.
pub(crate) type Lie<'a> = &'a dyn Fn(&mut Liar);

/// The honest host of each test, another that it is connected to, and a channel from there.
pub(crate) struct Honest {
    pub(crate) host: TestHost,
    pub(crate) other: TestHost,
    pub(crate) publisher: Publisher,
    pub(crate) subscriber: Subscriber,
}

impl Honest {
    pub(crate) fn new() -> Self {
        Self::of(TestHost::new("b"), TestHost::new("c"))
    }

    /// With these two.
    pub(crate) fn of(host: TestHost, other: TestHost) -> Self {
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

    pub(crate) fn assert_unharmed(&mut self) {
        assert!(
            self.publisher
                .wait_for_subscribers(1, BOUND)
                .expect("sound")
        );
        let lease = self.publisher.lease(3).expect("a slot");
        self.publisher.publish(lease, 3).expect("published");
        assert!(self.subscriber.take(BOUND).expect("sound").is_some());
    }

    /// Each of these lies ends the session with its reason, and harms nobody else.
    pub(crate) fn assert_each_ends(&mut self, lies: &[(&str, Lie<'_>)]) {
        for (reason, lie) in lies {
            let mut liar = Liar::begin(&self.host);
            lie(&mut liar);
            assert_ended(&self.host, reason);
            self.assert_unharmed();
        }
    }

    pub(crate) fn end(self) {
        drop((self.publisher, self.subscriber));
        for mut host in [self.host, self.other] {
            host.agent = None;
            host.assert_settled(0);
        }
    }
}

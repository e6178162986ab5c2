//! Two pools of one machine, as if of two hosts, and a test in the place of both agents.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod networks;
pub(crate) mod served;
pub(crate) mod tcp_relay;

use std::net::{IpAddr, Ipv4Addr};
use std::ops::Range;
use std::sync::Arc;
use std::time::Duration;

use hythe_flows::message::{
    Agreed, FromAgent, FromProcess, PublicKey, Role, Transport, Window, WirePlace,
};
use hythe_flows::{Connection, Flows, Listener};
use hythe_node::hop::{self, HopNode as _, HopPool as _};
use hythe_node::{
    Node, Pool, PoolOptions, PortPolicy, Publisher, PublisherOptions, Subscriber, SubscriberOptions,
};
use hythe_sys::accept::Acceptor;
use hythe_sys::namespaces::Network;
use hythe_testing::{Polling, eventually};
use tempfile::TempDir;

/// What is awaited comes within this, also on an overloaded machine.
pub(crate) const BOUND: Duration = Duration::from_secs(60);

/// One side: a pool with a process, and the participant that stands for the other host.
pub(crate) struct Side {
    pub(crate) pool: Pool,
    pub(crate) node: Node,
    /// Of its process.
    pub(crate) flows: Arc<Flows>,
    pub(crate) host: Node,
    listener: Listener,
    acceptor: Acceptor,
    pub(crate) process: Option<Connection>,
    /// Where flows find a wire, from now on.
    pub(crate) wire: Option<WirePlace>,
    /// Of its flows.
    pub(crate) transport: Transport,
    /// Named to the other end instead of the process's key.
    pub(crate) told_key: Option<PublicKey>,
    /// Of this host, for its flows.
    pub(crate) address: IpAddr,
    /// That its flows are bound to.
    pub(crate) interface: Option<String>,
    /// The network that its sockets are in, if it is not that of the test.
    pub(crate) network: Option<Network>,
    /// Whether its flows use frames, as the process said, and why not.
    pub(crate) carried: Vec<(bool, String)>,
}

impl Side {
    fn new(root: &TempDir, name: &str, other: &str) -> Self {
        let options = PoolOptions::new(name).root(root.path()).bytes(64 << 20);
        let pool = Pool::open_or_create(&options).expect("made");
        let flows = Arc::new(Flows::new());
        let transport = Arc::clone(&flows);
        Self {
            listener: Listener::open(&pool.path()).expect("listens"),
            acceptor: Acceptor::default(),
            host: hop::join_host(&pool, other, &[]).expect("joins"),
            node: hop::join(&pool, "process", &[transport]).expect("joins"),
            flows,
            process: None,
            wire: None,
            transport: Transport::Tcp,
            told_key: None,
            address: Ipv4Addr::LOCALHOST.into(),
            interface: None,
            network: None,
            carried: Vec::new(),
            pool,
        }
    }

    /// Does something in its network.
    pub(crate) fn within<T>(&self, act: impl FnOnce() -> T) -> T {
        let Some(network) = &self.network else {
            return act();
        };
        let own = Network::current().expect("it has one");
        network.enter().expect("root");
        let done = act();
        own.enter().expect("root");
        done
    }

    /// The next message of the process.
    pub(crate) fn hear(&mut self) -> FromProcess {
        let mut polling = Polling::new("a report of the process");
        loop {
            if self.process.is_none() {
                self.process = self
                    .listener
                    .accept(&mut self.acceptor, |error| panic!("{error}"));
            }
            let message = self.process.as_ref().map(|process| process.receive());
            match message {
                Some(Ok(Some(FromProcess::Carried { frames, reason, .. }))) => {
                    self.carried.push((frames.is_some(), reason))
                }
                Some(Ok(Some(message))) => return message,
                Some(Err(error)) => panic!("lost the process: {error}"),
                Some(Ok(None)) | None => polling.pause(),
            }
        }
    }

    /// Takes what the process has said of frames, if it is next.
    pub(crate) fn look(&mut self) {
        let message = self.process.as_ref().map(|process| process.receive());
        match message {
            Some(Ok(Some(FromProcess::Carried { frames, reason, .. }))) => {
                self.carried.push((frames.is_some(), reason))
            }
            Some(Ok(None)) | None => {}
            Some(other) => panic!("{other:?}"),
        }
    }

    /// What the process says of its flow's frames next.
    pub(crate) fn frames(&mut self) -> (bool, String) {
        eventually("a report of frames", || {
            self.look();
            !self.carried.is_empty()
        });
        self.carried.remove(0)
    }

    /// The process has said that last. A service that does not answer in time, on an overloaded
    /// machine, is asked again, so other words may come first.
    pub(crate) fn await_frames(&mut self, reason: &str) {
        let wanted = (true, reason.to_owned());
        let mut polling = Polling::new("a report of frames");
        while self.carried.last() != Some(&wanted) {
            self.look();
            polling.pause_or_show(|| format!("{:?}", self.carried));
        }
        self.carried.clear();
    }

    /// The next that is not the first.
    fn hear_next(&mut self) -> FromProcess {
        match self.hear() {
            FromProcess::Hello { .. } => self.hear(),
            other => other,
        }
    }

    /// Queues to the ports of the other host.
    pub(crate) fn queues(&self) -> usize {
        let host = self.host.participant().index();
        let connections = self.pool.control().tables().connections();
        let open = connections.filter(|info| info.consumer == host && !info.producer_left);
        open.count()
    }

    pub(crate) fn say(&self, message: &FromAgent) {
        let process = self.process.as_ref().expect("connected");
        process.send(message).expect("sent");
    }

    /// Which sockets the process has opened, and its key.
    fn ready(&mut self) -> ([u16; 2], Option<PublicKey>) {
        match self.hear_next() {
            FromProcess::Ready {
                port,
                frame_port,
                key,
                ..
            } => ([port, frame_port], key),
            other => panic!("{other:?}"),
        }
    }
}

/// Sockets of the program that serves there.
pub(crate) fn wire_at(path: &std::path::Path, instance: u64) -> WirePlace {
    let path = path.to_str().expect("text").to_owned();
    WirePlace { path, instance }
}

/// Both sides.
pub(crate) struct Pair {
    pub(crate) a: Side,
    pub(crate) b: Side,
    _root: TempDir,
}

/// A flow between them.
pub(crate) struct Flow {
    pub(crate) number: u32,
    pub(crate) publisher: Publisher,
    pub(crate) subscriber: Subscriber,
    /// What the publisher sends by the agent's port comes here.
    pub(crate) host_subscriber: Subscriber,
    /// What comes by the other agent.
    pub(crate) host_publisher: Publisher,
}

/// A subscriber whose publisher waits for it.
pub(crate) fn blocking() -> SubscriberOptions {
    SubscriberOptions::default().policy(PortPolicy::Block { timeout_ms: 60_000 })
}

/// A payload: bytes at a wrong place, or of another message, are seen.
pub(crate) fn pattern(number: u32, bytes: u32) -> Vec<u8> {
    let byte = |at: u32| (number.wrapping_mul(31).wrapping_add(at.wrapping_mul(7)) >> 3) as u8;
    (0..bytes).map(byte).collect()
}

pub(crate) fn agreed(window: u32) -> Agreed {
    Agreed {
        word: 0x1234_5678_9abc_def0,
        number: 7,
        window: Window {
            messages: window,
            bytes: 8 << 20,
        },
        message_bytes_max: 1 << 20,
        unreachable_ns: 30_000_000_000,
        block_ms: 60_000,
    }
}

impl Pair {
    pub(crate) fn new() -> Self {
        Self::within(TempDir::new().expect("made"))
    }

    /// With the pools in memory, as they usually are: a network card sends from nothing else.
    pub(crate) fn on_tmpfs() -> Self {
        Self::within(TempDir::new_in("/dev/shm").expect("made"))
    }

    /// Whose flows go by this transport.
    pub(crate) fn by(transport: Transport) -> Self {
        let mut pair = Self::new();
        (pair.a.transport, pair.b.transport) = (transport, transport);
        pair
    }

    fn within(root: TempDir) -> Self {
        Self {
            a: Side::new(&root, "a", "b"),
            b: Side::new(&root, "b", "a"),
            _root: root,
        }
    }

    /// A publisher of `a`, a subscriber of `b`, and a flow that has begun; `relay` may stand
    /// between their sockets: it is given both ports, and says what each is connected to.
    pub(crate) fn flow(
        &mut self,
        options: &SubscriberOptions,
        agreed: Agreed,
        relay: impl FnOnce(u16, u16) -> (u16, u16),
    ) -> Flow {
        self.unseen_flow(options, agreed, relay)
            .until_begun(&self.a)
    }

    /// What both processes say of their flow's frames next.
    pub(crate) fn frames(&mut self) -> [(bool, String); 2] {
        [&mut self.a, &mut self.b].map(Side::frames)
    }

    /// The agents of both name this program for the frames of a flow, or none.
    pub(crate) fn carry(&self, flow: u32, wire: Option<&WirePlace>) {
        for side in [&self.a, &self.b] {
            let wire = wire.cloned();
            side.say(&FromAgent::Carry { flow, wire });
        }
    }

    /// As [`flow`](Self::flow), but neither port has looked since.
    pub(crate) fn unseen_flow(
        &mut self,
        options: &SubscriberOptions,
        agreed: Agreed,
        relay: impl FnOnce(u16, u16) -> (u16, u16),
    ) -> Flow {
        connect(&mut self.a, &mut self.b, 1, options, agreed, relay)
    }

    /// As [`flow`](Self::flow), from `b` to `a`.
    pub(crate) fn flow_back(&mut self, options: &SubscriberOptions, agreed: Agreed) -> Flow {
        connect(&mut self.b, &mut self.a, 2, options, agreed, direct).until_begun(&self.b)
    }
}

/// No relay.
pub(crate) fn direct(sending: u16, receiving: u16) -> (u16, u16) {
    (receiving, sending)
}

fn connect(
    from: &mut Side,
    to: &mut Side,
    flow: u32,
    options: &SubscriberOptions,
    agreed: Agreed,
    relay: impl FnOnce(u16, u16) -> (u16, u16),
) -> Flow {
    let channel = format!("data{flow}");
    let host_subscriber = from.host.subscriber(&channel, &blocking());
    let host_publisher = to.host.publisher(&channel, &PublisherOptions::default());
    let plan = PublisherOptions::default().send_timeout(BOUND);
    let mut publisher = from.node.publisher(&channel, &plan).expect("opens");
    let mut subscriber = to.node.subscriber(&channel, options).expect("opens");
    publisher.subscribers().expect("sound");
    // The thread that opens its sockets begins here.
    to.within(|| subscriber.connected_publishers().expect("sound"));
    let FromProcess::Ask { port, host_port } = from.hear_next() else {
        panic!("it asks for no flow");
    };
    let FromProcess::Offer { port: offered } = to.hear_next() else {
        panic!("it offers to take no flow");
    };
    let open = |side: &Side, role| {
        side.say(&FromAgent::Open {
            flow,
            role,
            transport: side.transport,
            address: side.address,
            interface: side.interface.clone(),
            has_frames: side.transport == Transport::Tcp && side.address.is_ipv4(),
        });
        if let Some(wire) = side.wire.clone() {
            let wire = Some(wire);
            side.say(&FromAgent::Carry { flow, wire });
        }
    };
    open(from, Role::Send { port, host_port });
    let host = to.host.index().0;
    open(
        to,
        Role::Receive {
            port: offered,
            host,
        },
    );
    let (([sending, own_frames], own), ([receiving, peer_frames], peer)) =
        (from.ready(), to.ready());
    // Of the sender's socket and of the receiver's: what each is connected to.
    let (way, back) = relay(sending, receiving);
    let begin = |address, (port, frame_port): (u16, u16), key| FromAgent::Begin {
        flow,
        peer: (address, port).into(),
        frame_port,
        key,
        agreed,
    };
    to.say(&begin(
        from.address,
        (back, own_frames),
        from.told_key.or(own),
    ));
    from.say(&begin(to.address, (way, peer_frames), to.told_key.or(peer)));
    Flow {
        number: flow,
        publisher,
        subscriber,
        host_subscriber: host_subscriber.expect("opens"),
        host_publisher: host_publisher.expect("opens"),
    }
}

impl Flow {
    /// Both ports have found the flow.
    fn until_begun(mut self, from: &Side) -> Self {
        let mut polling = Polling::new("the flow");
        loop {
            let sources = self.subscriber.connected_publishers().expect("sound");
            self.publisher.subscribers().expect("sound");
            if sources == 1 && from.queues() == 0 {
                return self;
            }
            polling.pause();
        }
    }

    /// The first message, and all that it takes until the flow carries more.
    pub(crate) fn carry_first(&mut self, from: &mut Side, bytes: &[u8]) {
        assert_eq!(self.publish(&from.node, bytes).delivered, 1);
        self.go(from);
        assert!(self.take() == bytes, "the first message");
    }

    /// The publisher has told that it left the agent's port: what it sent is let go.
    pub(crate) fn go(&self, from: &mut Side) {
        let flow = self.number;
        assert_eq!(from.hear(), FromProcess::Left { flow });
        from.say(&FromAgent::Go { flow });
    }

    pub(crate) fn publish(&mut self, node: &Node, bytes: &[u8]) -> hythe_node::Published {
        let mut lease = node.lease(bytes.len()).expect("a slot");
        lease.write(0, bytes);
        self.publisher
            .publish(lease, bytes.len())
            .expect("published")
    }

    /// Messages by their numbers, of which so many are published before the first is taken.
    pub(crate) fn carry(
        &mut self,
        node: &Node,
        (numbers, ahead): (Range<u32>, u32),
        message: impl Fn(u32) -> Vec<u8>,
    ) {
        for number in numbers.start..numbers.end + ahead {
            if number < numbers.end {
                assert_eq!(self.publish(node, &message(number)).delivered, 1);
            }
            let next = number.checked_sub(ahead);
            if let Some(next) = next.filter(|next| numbers.contains(next)) {
                assert!(self.take() == message(next), "message {next}");
            }
        }
    }

    pub(crate) fn take(&mut self) -> Vec<u8> {
        let taken = self.subscriber.take(BOUND).expect("sound");
        taken.expect("comes").to_vec()
    }
}

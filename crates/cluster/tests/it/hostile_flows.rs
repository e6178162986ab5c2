//! A host with a good name that lies about flows: its session ends with a reason, or it gets none,
//! and others are unharmed.

use std::io::{Read as _, Write as _};
use std::net::{IpAddr, TcpListener, TcpStream};

use crate::support::host::{ALL, LEASE, TestHost};
use crate::support::liar::{Honest, LIAR, Liar, Lie, assert_ended, message};
use crate::support::{BOUND, eventually};
use hythe_cluster::frame::{
    Answer, CarriedType, Control, EndKind, FlowOffer, FlowSide, FlowTaken, Policy, Want, Window,
};
use hythe_flows::message::{PublicKey, Transport};
use hythe_node::{Node, PortPolicy, Publisher, PublisherOptions, SubscriberOptions};

const HERE: IpAddr = IpAddr::V4(std::net::Ipv4Addr::LOCALHOST);

fn trust(liar: &mut Liar) {
    let address = Some(HERE);
    liar.say(&Control::LinkTrust { address });
}

fn offer(flow: u32) -> FlowOffer {
    FlowOffer {
        flow,
        channel: "news".to_owned(),
        carries: CarriedType::default(),
        transport: Transport::Tcp,
        port: 9,
        word: 7,
        key: None,
        frame_port: 0,
    }
}

/// The next message of the honest host that is one of those.
fn next(liar: &mut Liar, is_it: impl Fn(&Control) -> bool) -> Control {
    loop {
        let said: Control = message(&mut liar.control);
        if is_it(&said) {
            return said;
        }
    }
}

fn honest() -> Honest {
    Honest::of(TestHost::trusting("b"), TestHost::trusting("c"))
}

#[test]
fn lies_about_flows_end_the_session() {
    let mut honest = honest();
    let lies: [(&str, Lie); 9] = [
        ("in clear text: the other host has not said", &|liar| {
            liar.say(&Control::FlowOffer(offer(1)));
        }),
        ("in clear text: the link is not trusted there", &|liar| {
            liar.say(&Control::LinkTrust { address: None });
            liar.say(&Control::FlowOffer(offer(1)));
        }),
        ("an address is translated", &|liar| {
            let address = Some([192, 0, 2, 66].into());
            liar.say(&Control::LinkTrust { address });
            liar.say(&Control::FlowOffer(offer(1)));
        }),
        ("sealed without a key", &|liar| {
            trust(liar);
            liar.say(&Control::FlowOffer(FlowOffer {
                transport: Transport::Tls,
                ..offer(1)
            }));
        }),
        ("offered twice", &|liar| {
            trust(liar);
            (0..2).for_each(|_| liar.say(&Control::FlowOffer(offer(1))));
        }),
        ("flows that it offers", &|liar| {
            trust(liar);
            (0..2_000).for_each(|flow| liar.say(&Control::FlowOffer(offer(flow))));
        }),
        ("at port 0", &|liar| {
            trust(liar);
            let port = 0;
            liar.say(&Control::FlowOffer(FlowOffer { port, ..offer(1) }));
        }),
        ("sealed and with frames", &|liar| {
            trust(liar);
            liar.say(&Control::FlowOffer(FlowOffer {
                transport: Transport::Tls,
                key: Some(PublicKey([1; 32])),
                frame_port: 9,
                ..offer(1)
            }));
        }),
        ("cannot be read", &|liar| {
            trust(liar);
            let channel = "c".repeat(65);
            liar.say(&Control::FlowOffer(FlowOffer {
                channel,
                ..offer(1)
            }));
        }),
    ];
    honest.assert_each_ends(&lies);
    honest.end();
}

#[test]
fn host_that_trusts_no_link_takes_no_flow_in_clear_text() {
    let mut honest = Honest::new();
    let mut liar = Liar::begin(&honest.host);
    trust(&mut liar);
    liar.say(&Control::FlowOffer(offer(1)));
    assert_ended(&honest.host, "no link is trusted here");
    honest.assert_unharmed();
    honest.end();
}

#[test]
fn what_is_said_of_flows_that_nobody_knows_is_passed_over() {
    let mut honest = honest();
    let mut liar = Liar::begin(&honest.host);
    trust(&mut liar);
    let flow = 77;
    let reason = "r".repeat(600);
    for side in [FlowSide::Sending, FlowSide::Receiving] {
        let reason = reason.clone();
        liar.say(&Control::FlowEnded { flow, side, reason });
    }
    liar.say(&Control::FlowWaits { flow, reason });
    liar.say(&Control::FlowFinish { flow });
    liar.say(&Control::FlowTaken(taken(flow)));
    liar.say(&Control::KeepAlive { number: 5 });
    next(&mut liar, |said| *said == Control::Echo { number: 5 });
    assert!(honest.host.is_connected_to(LIAR));
    honest.assert_unharmed();
    drop(liar);
    honest.end();
}

#[test]
fn flow_without_the_right_to_write_is_refused_and_opens_nothing() {
    let mut host = TestHost::without_agent("b");
    host.trusted = vec!["lo".to_owned()];
    host.start(&format!("{ALL}{LIAR} news none\n"), LEASE);
    let mut honest = Honest::of(host, TestHost::trusting("c"));
    let node = honest.host.join_with_flows("local");
    let options = SubscriberOptions::default();
    let subscriber = node.subscriber("other", &options).expect("opened");
    let mut liar = Liar::begin(&honest.host);
    trust(&mut liar);
    liar.say(&Control::FlowOffer(offer(1)));
    let said = next(&mut liar, |said| matches!(said, Control::FlowEnded { .. }));
    let Control::FlowEnded { flow, side, reason } = said else {
        panic!("{said:?}");
    };
    assert_eq!((flow, side), (1, FlowSide::Receiving));
    assert!(reason.contains("may not write channel `news`"), "{reason}");
    // With the right, and without a receiver that could take it.
    let channel = "nobody".to_owned();
    liar.say(&Control::FlowOffer(FlowOffer {
        channel,
        ..offer(2)
    }));
    let said = next(&mut liar, |said| matches!(said, Control::FlowWaits { .. }));
    let reason = "nobody subscribes on the other host".to_owned();
    assert_eq!(said, Control::FlowWaits { flow: 2, reason });
    let link = || {
        honest
            .host
            .status_of(LIAR)?
            .session
            .map(|session| session.link)
    };
    assert_eq!(link().expect("there").pending, 1);
    liar.say(&Control::FlowEnded {
        flow: 2,
        side: FlowSide::Sending,
        reason: String::new(),
    });
    eventually("it is forgotten", || link().expect("there").pending == 0);
    honest.assert_unharmed();
    drop((liar, subscriber, node));
    honest.end();
}

fn taken(flow: u32) -> FlowTaken {
    FlowTaken {
        flow,
        port: 9,
        frame_port: 0,
        window_messages: 8,
        window_bytes: 1 << 20,
        message_bytes_max: 1 << 20,
        block_ms: 0,
        key: None,
    }
}

/// A liar that is sent to by an honest publisher, and takes its stream.
struct Sending {
    liar: Liar,
    publisher: Publisher,
    node: Node,
    _stream: TcpStream,
}

impl Sending {
    fn to_liar(honest: &Honest) -> Self {
        let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
        let address = listener.local_addr().expect("bound");
        let liar_name = LIAR.parse().expect("a name");
        honest.host.directory.show(&liar_name, address);
        let node = honest.host.join_with_flows("publisher");
        let options = PublisherOptions::default();
        let mut publisher = node.publisher("plans", &options).expect("opened");
        let mut liar = Liar::begin(&honest.host);
        trust(&mut liar);
        liar.say(&Control::Want(Want {
            kind: EndKind::Publish,
            channel: "plans".to_owned(),
            carries: CarriedType::default(),
            policy: Policy::from(PortPolicy::DropNewest),
            depth: 8,
            history: 0,
        }));
        let window = Window {
            frames: 64,
            bytes: 1 << 20,
        };
        let answer = Answer::Stream {
            window,
            payload_bytes_max: 1 << 20,
            taken: 0,
        };
        let (stream, _) = Liar::answer(&listener, &answer);
        // The publisher asks when it looks for its subscribers.
        assert!(publisher.wait_for_subscribers(1, BOUND).expect("sound"));
        Self {
            liar,
            publisher,
            node,
            _stream: stream,
        }
    }

    /// What the honest host offers next.
    fn offered(&mut self) -> FlowOffer {
        let said = next(&mut self.liar, |said| matches!(said, Control::FlowOffer(_)));
        let Control::FlowOffer(offer) = said else {
            panic!("{said:?}");
        };
        offer
    }

    fn publish(&mut self) -> u32 {
        let lease = self.publisher.lease(3).expect("a slot");
        let published = self.publisher.publish(lease, 3).expect("published");
        published.delivered
    }
}

/// It takes the flow of an honest publisher, and grants nonsense.
#[test]
fn flow_that_is_taken_with_nonsense_is_none() {
    let mut honest = honest();
    let mut sending = Sending::to_liar(&honest);
    let flow = sending.offered().flow;
    // No window at all: the publisher's process refuses it, and goes on by the agent.
    let nothing = FlowTaken {
        window_messages: 0,
        ..taken(flow)
    };
    sending.liar.say(&Control::FlowTaken(nothing));
    let said = next(&mut sending.liar, |said| {
        matches!(said, Control::FlowEnded { .. })
    });
    assert!(matches!(said, Control::FlowEnded { flow: over, .. } if over == flow));
    assert_eq!(sending.publish(), 1, "by the agent");
    // It is offered again, and to finish before it was taken.
    let flow = sending.offered().flow;
    sending.liar.say(&Control::FlowFinish { flow });
    assert_ended(&honest.host, "is to finish and was not taken");
    honest.assert_unharmed();
    drop(sending);
    honest.end();
}

#[test]
fn sealed_flow_that_is_taken_with_frames_ends_session() {
    let mut honest = Honest::new();
    let mut sending = Sending::to_liar(&honest);
    let offer = sending.offered();
    assert_eq!((offer.transport, offer.frame_port), (Transport::Tls, 0));
    sending.liar.say(&Control::FlowTaken(FlowTaken {
        key: Some(PublicKey([1; 32])),
        frame_port: 9,
        ..taken(offer.flow)
    }));
    assert_ended(&honest.host, "is taken as it was not offered");
    honest.assert_unharmed();
    drop(sending);
    honest.end();
}

/// It breaks a flow by a lie, and never says that its end is over.
#[test]
fn host_that_keeps_flow_delays_publisher_boundedly() {
    let mut honest = honest();
    let mut sending = Sending::to_liar(&honest);
    let offer = sending.offered();
    let listener = TcpListener::bind((HERE, 0)).expect("bound");
    let port = listener.local_addr().expect("bound").port();
    sending.liar.say(&Control::FlowTaken(FlowTaken {
        port,
        ..taken(offer.flow)
    }));
    let (mut publisher, _) = listener.accept().expect("it connects");
    publisher.set_read_timeout(Some(BOUND)).expect("set");
    let mut greeting = [0; 32];
    publisher.read_exact(&mut greeting).expect("it greets");
    assert_eq!(greeting[16..24], offer.word.to_le_bytes());
    // Nothing has arrived.
    greeting[16..].fill(0);
    publisher.write_all(&greeting).expect("sent");
    eventually("the publisher has left the agent's port", || {
        sending.publisher.subscribers().expect("sound");
        let seen = honest.host.pool.snapshot().connections;
        let me = sending.node.index();
        !seen
            .iter()
            .any(|one| one.producer == me && !one.producer_left)
    });
    assert_eq!(sending.publish(), 1, "by the flow");
    let mut message = [0; 16 + 3];
    publisher.read_exact(&mut message).expect("it comes");
    // An acknowledgement of what was never sent.
    publisher.write_all(&[9; 16]).expect("sent");
    let said = next(&mut sending.liar, |said| {
        matches!(said, Control::FlowEnded { .. })
    });
    assert!(matches!(said, Control::FlowEnded { flow, .. } if flow == offer.flow));
    // It is not answered. Nothing is offered meanwhile, and then the publisher goes back.
    eventually("it sends by the agent", || sending.publish() == 1);
    let next_offer = sending.offered();
    assert_ne!(next_offer.flow, offer.flow);
    honest.assert_unharmed();
    drop(sending);
    honest.end();
}

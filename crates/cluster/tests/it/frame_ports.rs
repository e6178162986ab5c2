//! Ports for `AF_XDP` frames on their way between a process, its agent and the other host.

use std::net::{IpAddr, Ipv4Addr};

use crate::support::eventually;
use crate::support::host::{ALL, LEASE, TestHost};
use crate::support::liar::{Liar, message};
use hythe_cluster::frame::{CarriedType, Control, FlowOffer, FlowTaken};
use hythe_flows::Connection;
use hythe_flows::message::{FromAgent, FromProcess, PublicKey, Transport, VERSION};
use hythe_node::hop::{HopNode as _, HopPool as _};
use hythe_node::{Node, Subscriber, SubscriberOptions};

const CHANNEL: &str = "plans";
/// Of the publisher's process, on the other host.
const THERE: u16 = 4_040;
/// Of the subscriber's.
const HERE: u16 = 5_050;

/// A process with a subscriber that speaks with its agent as the test says.
struct Process {
    connection: Connection,
    _subscriber: Subscriber,
    _node: Node,
}

impl Process {
    fn on(host: &TestHost) -> Self {
        let node = host.join("subscriber");
        let options = SubscriberOptions::default();
        let subscriber = node.subscriber(CHANNEL, &options).expect("opened");
        let connection = Connection::open(&host.pool.path()).expect("connected");
        let hello = FromProcess::Hello {
            version: VERSION,
            member: node.index().0,
            session: node.participant().session(),
        };
        let process = Self {
            connection,
            _subscriber: subscriber,
            _node: node,
        };
        process.say(&hello);
        let tables = host.pool.control().tables();
        let channel = tables.find_channel(CHANNEL).expect("there").index;
        let port = tables.ports_of_channel(channel).next().expect("there");
        let port = port.index.0;
        process.say(&FromProcess::Offer { port });
        process
    }

    fn say(&self, message: &FromProcess) {
        self.connection.send(message).expect("sent");
    }

    fn next(&self) -> FromAgent {
        let mut said = None;
        eventually("the agent says something", || {
            said = self.connection.receive().expect("open");
            said.is_some()
        });
        said.expect("just seen")
    }
}

/// A flow in which both ends have such a port: what the process is asked for, what the other host
/// is answered, and the port of the other end that the process gets.
fn ports(host: &TestHost, offer: FlowOffer) -> (bool, u16, u16) {
    let process = Process::on(host);
    let mut liar = Liar::begin(host);
    let address = Some(IpAddr::V4(Ipv4Addr::LOCALHOST));
    liar.say(&Control::LinkTrust { address });
    liar.say(&Control::FlowOffer(offer));
    let (flow, has_frames, key) = match process.next() {
        FromAgent::Open {
            flow,
            has_frames,
            transport,
            ..
        } => {
            let key = (transport == Transport::Tls).then_some(PublicKey([2; 32]));
            (flow, has_frames, key)
        }
        other => panic!("{other:?}"),
    };
    process.say(&FromProcess::Ready {
        flow,
        port: 9,
        frame_port: HERE,
        key,
    });
    let told = match process.next() {
        FromAgent::Begin { frame_port, .. } => frame_port,
        other => panic!("{other:?}"),
    };
    loop {
        if let Control::FlowTaken(taken) = message(&mut liar.control) {
            let FlowTaken { frame_port, .. } = taken;
            return (has_frames, frame_port, told);
        }
    }
}

fn offer(transport: Transport, frame_port: u16) -> FlowOffer {
    FlowOffer {
        flow: 1,
        channel: CHANNEL.to_owned(),
        carries: CarriedType::default(),
        transport,
        port: 9,
        word: 7,
        key: (transport == Transport::Tls).then_some(PublicKey([1; 32])),
        frame_port,
    }
}

#[test]
fn agent_passes_frame_ports_of_both_ends() {
    let host = TestHost::trusting("b");
    let found = ports(&host, offer(Transport::Tcp, THERE));
    assert_eq!(found, (true, HERE, THERE));
}

#[test]
fn host_that_allows_no_frames_has_no_port_for_them() {
    let mut host = TestHost::without_agent("b");
    host.trusted = vec!["lo".to_owned()];
    host.allows_frames = false;
    host.start(ALL, LEASE);
    let found = ports(&host, offer(Transport::Tcp, THERE));
    assert_eq!(found, (false, 0, 0));
}

#[test]
fn sealed_flow_has_no_port_for_frames() {
    let host = TestHost::new("b");
    let found = ports(&host, offer(Transport::Tls, 0));
    assert_eq!(found, (false, 0, 0));
}

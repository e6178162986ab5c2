//! A host that sends as more publishers, or asks for deeper queues, than a pool can bear: it has
//! its share of the tables, the rest is refused and counted, and programs go on.

use std::io::Write as _;
use std::net::TcpListener;

use crate::support::eventually;
use crate::support::host::TestHost;
use crate::support::liar::{LIAR, Liar};
use crate::support::local::Local;
use hythe_cluster::ChannelState;
use hythe_cluster::frame::{
    Answer, CarriedType, Control, EndKind, FrameKind, Header, Policy, Want, Window,
};
use hythe_node::{Publisher, PublisherOptions, SubscriberOptions};

/// Of the tables of a small pool (128 connections, 64 segments for deep queues) a quarter.
const CONNECTIONS: u64 = 32;
const DEEP_SEGMENTS: usize = 16;

fn beyond_share(host: &TestHost) -> u64 {
    host.status_of(LIAR).expect("known").losses.beyond_share
}

#[test]
fn host_with_very_many_publishers_has_ports_for_its_share() {
    let mut host = TestHost::small("b");
    let node = host.join("local");
    let mut local = Local::open(&node);
    let news = node.subscriber("news", &SubscriberOptions::default());
    let mut news = news.expect("opened");
    let liar = Liar::begin(&host);
    let mut stream = liar.opened(&host, EndKind::Publish, "news");
    let (publishers, mut arrived) = (60, 0);
    for publisher in 0..publishers {
        let header = Header {
            kind: FrameKind::Message,
            length: 0,
            sequence: u64::from(publisher) + 1,
            publisher,
            missed: 0,
            number: 0,
        };
        stream.write_all(&header.to_bytes()).expect("sent");
    }
    eventually("all is taken or counted", || {
        while news.try_take().expect("sound").is_some() {
            arrived += 1;
        }
        arrived + beyond_share(&host) == u64::from(publishers)
    });
    assert_eq!(arrived, CONNECTIONS);
    assert!(host.is_connected_to(LIAR), "it may try");
    local.assert_goes_on();
    drop((liar, stream, local, news, node));
    host.agent = None;
    host.assert_settled(0);
}

/// Each want is for half of what a host may have.
#[test]
fn host_that_asks_for_deep_queues_has_its_share_of_them() {
    const CHANNELS: usize = 6;
    let mut host = TestHost::small("b");
    let node = host.join("local");
    let mut local = Local::open(&node);
    let names: Vec<String> = (0..CHANNELS)
        .map(|number| format!("channel {number}"))
        .collect();
    let open = |name: &String| node.publisher(name, &PublisherOptions::default());
    let publishers: Vec<Publisher> = names
        .iter()
        .map(|name| open(name).expect("opened"))
        .collect();
    let listener = TcpListener::bind("127.0.0.1:0").expect("bound");
    let address = listener.local_addr().expect("bound");
    let name = LIAR.parse().expect("a name");
    host.directory.show(&name, address);
    let mut liar = Liar::begin(&host);
    eventually("host b knows where to dial", || {
        let status = host.status_of(LIAR);
        status.is_some_and(|status| !status.addresses.is_empty())
    });
    let depth = (DEEP_SEGMENTS / 2 * 32) as u32;
    for channel in &names {
        liar.say(&Control::Want(Want {
            kind: EndKind::Publish,
            channel: channel.clone(),
            carries: CarriedType::default(),
            policy: Policy::DropNewest,
            depth,
            history: 0,
        }));
    }
    // Those that have a port.
    let window = Window {
        frames: 1,
        bytes: 1,
    };
    let answer = Answer::Stream {
        window,
        payload_bytes_max: 1,
        taken: 0,
    };
    let streams = [(); 2].map(|()| Liar::answer(&listener, &answer));
    eventually("the others are refused, with the reason", || {
        let session = host.status_of(LIAR).expect("known").session;
        let channels = session.expect("connected").channels;
        let refused = channels.iter().filter(|channel| {
            channel.state == ChannelState::Refused
                && channel.reason.contains("16 of 16 segments for deep queues")
        });
        refused.count() == CHANNELS - 2
    });
    assert!(beyond_share(&host) >= CHANNELS as u64 - 2);
    let depths = host.pool.ports().into_iter().map(|port| port.depth);
    assert_eq!(depths.filter(|port| *port == depth).count(), 2);
    local.assert_goes_on();
    drop((liar, streams, publishers, local, node));
    host.agent = None;
    host.assert_settled(0);
}

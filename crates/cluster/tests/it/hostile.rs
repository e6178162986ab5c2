//! A host with a good name that lies: its session ends with a reason, and others are unharmed.

use std::io::Write as _;
use std::net::TcpStream;

use crate::support::carrier::dial;
use crate::support::host::ALL;
use crate::support::liar::{self, Honest, LIAR, Liar, Lie, assert_ended};
use crate::support::{BOUND, eventually};
use hythe_cluster::Rights;
use hythe_cluster::frame::{
    Answer, CarriedType, Control, EndKind, Ends, FrameKind, Header, Opening, Policy, Purpose, Want,
};

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
    let ends = |kind, channel: String| {
        Control::Ends(Ends {
            kind,
            channel,
            carries: CarriedType::default(),
            sending: 1,
            receiving: 0,
        })
    };
    let lies: [(&str, Lie); 8] = [
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
        ("channels that it has ends on", &|liar| {
            let channel = |number| format!("channel {number}");
            (0..5000).for_each(|number| liar.say(&ends(EndKind::Event, channel(number))));
        }),
        ("ends of replies", &|liar| {
            liar.say(&ends(EndKind::Reply, "sums".to_owned()));
        }),
        ("cannot be read", &|liar| {
            liar.say(&ends(EndKind::Publish, "x".repeat(65)));
        }),
    ];
    honest.assert_each_ends(&lies);
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
        let mut stream = liar.opened(&honest.host, EndKind::Publish, "news");
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

/// A connection of a stream that is looked at behind that of the next one takes nothing from it.
#[test]
fn stream_behind_the_next_one_is_refused() {
    let mut honest = Honest::new();
    let liar = Liar::begin(&honest.host);
    let open = |stream| {
        let opening = Opening {
            stream,
            kind: EndKind::Publish,
            channel: "news".to_owned(),
            carries: CarriedType::default(),
        };
        let session = liar.session;
        liar::open(&honest.host, Purpose::Data { session, opening })
    };
    let mut opened = None;
    eventually("the stream is open", || {
        let (stream, answer) = open(2);
        opened = matches!(answer, Answer::Stream { .. }).then_some(stream);
        opened.is_some()
    });
    let (_, answer) = open(1);
    assert!(matches!(answer, Answer::Refused { .. }), "{answer:?}");
    let message = Header {
        kind: FrameKind::Message,
        length: 0,
        sequence: 1,
        publisher: 0,
        missed: 0,
        number: 0,
    };
    let mut stream = opened.expect("open");
    stream.write_all(&message.to_bytes()).expect("sent");
    let taken = honest.subscriber.take(BOUND).expect("sound");
    assert_eq!(taken.expect("it comes").to_vec(), [0_u8; 0]);
    drop((stream, liar));
    honest.end();
}

/// Connections that never say what for: only so many at once, and the others go on.
#[test]
fn flood_of_silent_connections_harms_nobody() {
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

/// It is told that nothing more is wanted, and goes on.
#[test]
fn revoked_host_is_stopped_amid_channel() {
    let mut honest = Honest::new();
    let mut liar = Liar::begin(&honest.host);
    let mut stream = liar.opened(&honest.host, EndKind::Publish, "news");
    let mut sequence = 0;
    let mut frame = || {
        sequence += 1;
        Header {
            kind: FrameKind::Message,
            length: 0,
            sequence,
            publisher: 0,
            missed: 0,
            number: 0,
        }
        .to_bytes()
    };
    stream.write_all(&frame()).expect("sent");
    let taken = honest.subscriber.take(BOUND).expect("sound");
    assert_eq!(taken.expect("it comes").to_vec(), [0_u8; 0]);
    let rules = format!("{ALL}{LIAR} news none\n");
    let rights = Rights::parse(&rules).expect("rules");
    honest.host.agent.as_ref().expect("runs").set_rights(rights);
    eventually("its connection is closed", || {
        stream.write_all(&frame()).is_err()
    });
    // What it sent before it was stopped.
    while honest.subscriber.try_take().expect("sound").is_some() {}
    let (_, answer) = liar.open_stream(&honest.host, liar.session, "news");
    assert!(matches!(answer, Answer::Refused { .. }), "{answer:?}");
    assert!(honest.host.is_connected_to(LIAR), "it may do other things");
    liar.say(&Control::KeepAlive { number: 1 });
    honest.assert_unharmed();
    drop((stream, liar));
    honest.end();
}

/// Names that a host of the realm has invented fill the table of hosts; one that proves its own is
/// let in.
#[test]
fn flood_of_invented_names_keeps_no_host_out() {
    let mut honest = Honest::new();
    honest.assert_unharmed();
    // Nobody listens there any more.
    let nobody = std::net::TcpListener::bind("127.0.0.1:0").expect("a port");
    let address = nobody.local_addr().expect("bound");
    drop(nobody);
    for number in 0..300 {
        let name = format!("invented-{number}").parse().expect("a name");
        honest.host.directory.show(&name, address);
    }
    let known = || {
        honest
            .host
            .agent
            .as_ref()
            .expect("runs")
            .status()
            .hosts
            .len()
    };
    eventually("the table is full", || known() == 240);
    let liar = Liar::begin(&honest.host);
    assert_eq!(known(), 240);
    drop(liar);
    honest.assert_unharmed();
    honest.end();
}

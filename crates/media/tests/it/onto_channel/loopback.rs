//! Over the loopback interface: the kernel writes straight into slots, joined or not.

use std::fs::File;
use std::net::UdpSocket;
use std::time::{Duration, Instant};

use hythe_media::MediaError;
use hythe_media::receive::session::{Session, Until, now_ns};
use hythe_media::receive::socket::{Binding, Sockets};
use hythe_media::receive::stream::{Settings, Stream};
use hythe_media::sink::channel::ChannelSink;
use hythe_media::slots::Slots;
use hythe_node::NodeError;
use hythe_rtp::Identity;
use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::payload::Depacketize;
use hythe_sys::socket_option::{SocketOption, set_socket_option};

use super::media::{datagrams, format};
use super::stage::{Stage, host, into_memory};
use hythe_testing::Dice;

type Receiver = Session<Box<dyn Depacketize + Send>, ChannelSink>;

/// Ends a test that failed.
const LIMIT: Duration = Duration::from_secs(120);

fn session(stage: &Stage, format: &StreamFormat, joins: bool) -> (Receiver, Slots) {
    let (depacketizer, sink, slots) = stage.way(format, usize::MAX);
    let binding = Binding {
        joins,
        ..Binding::new("127.0.0.1:0".parse().unwrap())
    };
    let sockets = Sockets::open(&binding).unwrap();
    let (settings, identity) = (Settings::default(), Identity::seeded(1));
    let stream = Stream::new(settings, format, &identity, depacketizer, sink, now_ns());
    let until = Until {
        goodbye: false,
        idle: None,
    };
    let session = Session::new(sockets, stream.with_slots(&slots), until);
    (session, slots)
}

#[test]
fn what_the_kernel_wrote_into_a_slot_is_what_is_published() {
    let format = format(Encoding::MpegTs);
    let sent = datagrams(Encoding::MpegTs, 3000, &mut Dice::new(6));
    let mut complete = into_memory(&format);
    for datagram in &sent {
        complete.take_datagram(datagram, host(), 0).unwrap();
    }
    for joins in [true, false] {
        let Some(stage) = Stage::new(&format!("joins-{joins}")) else {
            return;
        };
        let mut reader = stage.reader();
        let (mut session, slots) = session(&stage, &format, joins);
        if session.sockets().joins() != joins {
            println!("skipped: no UDP_GRO here");
            continue;
        }
        let to = session.sockets().address();
        let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
        set_socket_option(&sender, SocketOption::UdpSegment, sent[0].len() as i32).unwrap();
        let (mut messages, began) = (Vec::new(), Instant::now());
        for batch in sent.chunks(40) {
            sender.send_to(&batch.concat(), to).unwrap();
            let so_far = session.statistics().unwrap().packets + batch.len() as u64;
            while session.statistics().unwrap().packets < so_far {
                assert!(began.elapsed() < LIMIT, "{:?}", session.statistics());
                session.turn(None, Duration::from_millis(10)).unwrap();
                messages.extend(reader.messages());
            }
        }
        session.finish().unwrap();
        messages.extend(reader.messages());
        assert!(messages == complete.sink().messages);
        let counts = slots.counts();
        assert_eq!((counts.in_place, counts.copied), (3000, 0), "{counts:?}");
        drop((session, reader, slots));
        assert_eq!(stage.slots_held(), 0);
    }
}

#[test]
fn pool_that_is_cut_away_ends_the_session_by_name() {
    let Some(stage) = Stage::new("cut") else {
        return;
    };
    let format = format(Encoding::MpegTs);
    let sent = datagrams(Encoding::MpegTs, 20, &mut Dice::new(9));
    let (mut session, _slots) = session(&stage, &format, true);
    let to = session.sockets().address();
    let sender = UdpSocket::bind("127.0.0.1:0").unwrap();
    let began = Instant::now();
    let mut outcome = Ok(None);
    for (index, datagram) in sent.iter().cycle().enumerate() {
        if index == 10 {
            let region = File::options().write(true).open(stage.region());
            region.unwrap().set_len(0).unwrap();
        }
        sender.send_to(datagram, to).unwrap();
        outcome = session.turn(None, Duration::from_millis(10));
        if outcome.is_err() {
            break;
        }
        assert!(began.elapsed() < LIMIT && index < 100, "never noticed");
    }
    let error = outcome.unwrap_err();
    assert!(
        matches!(&error, MediaError::Pool(NodeError::PoolLost { .. })),
        "{error}"
    );
}

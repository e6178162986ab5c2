//! What is sent again: as a stream of its own (RFC 4588) or as it was, in time, too late, and of
//! the end of a stream.

use std::net::SocketAddr;

use hythe_media::receive::repairer::Repairer;
use hythe_media::receive::stream::{Settings, Stream};
use hythe_rtp::receive::requests::Limits;
use hythe_rtp::sdp::{Retransmission, StreamDescription};

use crate::passing::{CLOCK_HZ, Kept, PAYLOAD_TYPE, Passing, format, packet, stream};

const MS: u64 = 1_000_000;
const RESENT_TYPE: u8 = 98;

fn host() -> SocketAddr {
    SocketAddr::from(([10, 0, 0, 1], 5004))
}

/// A stream of which packets 1 and 2 came, whose lost packets are sent again as a stream of its
/// own.
fn repaired() -> Stream<Passing, Kept> {
    let description = StreamDescription {
        takes_nack: true,
        retransmission: Some(Retransmission {
            payload_type: RESENT_TYPE,
            time_ms: None,
        }),
        ..StreamDescription::new(format(PAYLOAD_TYPE, CLOCK_HZ), host())
    };
    let repairer = Repairer::new(&description).unwrap();
    let mut stream = stream(Settings::default(), 0).with_repair(Box::new(repairer));
    come(&mut stream, &[1, 2], 0);
    stream
}

fn come(stream: &mut Stream<Passing, Kept>, numbers: &[u16], now_ns: u64) {
    for number in numbers {
        let packet = packet(7, *number, &[*number as u8]);
        stream.take_datagram(&packet, host(), now_ns).unwrap();
    }
}

/// Packet `number` again.
fn come_again(stream: &mut Stream<Passing, Kept>, number: u16, now_ns: u64) {
    let [high, low] = number.to_be_bytes();
    let mut again = packet(8, 500, &[high, low, number as u8]);
    again[1] = RESENT_TYPE;
    stream.take_datagram(&again, host(), now_ns).unwrap();
}

#[test]
fn what_comes_again_too_late_is_late_and_never_foreign() {
    let mut stream = repaired();
    come(&mut stream, &[4, 6], MS);
    come_again(&mut stream, 3, 2 * MS);
    // Given up by now.
    stream.expire(60 * MS).unwrap();
    come_again(&mut stream, 5, 61 * MS);
    // There already, and far from anything.
    come_again(&mut stream, 3, 61 * MS);
    come_again(&mut stream, 30_000, 61 * MS);
    let statistics = stream.statistics();
    assert_eq!(stream.sink().bytes, [1, 2, 3, 4, 6]);
    assert_eq!(
        (statistics.recovered, statistics.recovered_by_parity),
        (1, 0)
    );
    assert_eq!((statistics.lost, statistics.late), (1, 1));
    assert_eq!(
        (statistics.other_payload_type, statistics.malformed),
        (0, 0)
    );
}

#[test]
fn last_packet_sent_again_shows_what_the_end_lost() {
    let mut stream = repaired();
    // 3 to 5 are lost, and nothing follows but the last once more.
    come_again(&mut stream, 5, MS);
    come_again(&mut stream, 5, 2 * MS);
    assert_eq!(stream.statistics().recovered, 1);
    come_again(&mut stream, 3, 3 * MS);
    come_again(&mut stream, 4, 3 * MS);
    assert_eq!(stream.sink().bytes, [1, 2, 3, 4, 5]);
    let statistics = stream.statistics();
    assert_eq!((statistics.recovered, statistics.lost), (3, 0));
}

#[test]
fn resent_packet_repairs_only_requested_loss() {
    let settings = Settings {
        requests: Some(Limits::default()),
        resent_as_first: true,
        ..Settings::default()
    };
    let mut stream = stream(settings, 0);
    come(&mut stream, &[1, 2, 4], 0);
    assert!(stream.report(5 * MS).unwrap().is_some());
    assert_eq!(stream.statistics().requested, 1);
    come(&mut stream, &[3], 6 * MS);
    come(&mut stream, &[6, 5], 7 * MS);
    assert_eq!(stream.sink().bytes, [1, 2, 3, 4, 5, 6]);
    let statistics = stream.statistics();
    assert_eq!((statistics.recovered, statistics.reordered), (1, 1));
}

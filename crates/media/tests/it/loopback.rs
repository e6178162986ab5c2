//! A stream sent and received over the loopback interface: every byte, every header, the pace, and
//! what goes over RTCP.

use std::net::{SocketAddr, UdpSocket};
use std::thread;
use std::time::{Duration, Instant};

use crate::speaker::Speaker;
use hythe_rtp::{Identity, L16};
use rtcp_types::{Compound, Packet};
use rtp_types::RtpPacket;

/// Bounds every wait of the receiving side.
const RECEIVE_TIMEOUT: Duration = Duration::from_secs(120);

/// Sockets on an even port and the next one.
fn receivers() -> (UdpSocket, UdpSocket, SocketAddr) {
    for _ in 0..1000 {
        let rtp = UdpSocket::bind("127.0.0.1:0").unwrap();
        let address = rtp.local_addr().unwrap();
        if !address.port().is_multiple_of(2) {
            continue;
        }
        if let Ok(rtcp) = UdpSocket::bind(("127.0.0.1", address.port() + 1)) {
            rtp.set_read_timeout(Some(RECEIVE_TIMEOUT)).unwrap();
            rtcp.set_read_timeout(Some(RECEIVE_TIMEOUT)).unwrap();
            return (rtp, rtcp, address);
        }
    }
    panic!("no two free ports");
}

/// A packet as it arrived: sequence number, timestamp, payload, and when.
struct Arrival {
    sequence: u16,
    timestamp: u32,
    payload: Vec<u8>,
    at: Instant,
}

fn receive(socket: &UdpSocket, bytes: usize) -> Vec<Arrival> {
    let mut arrivals = Vec::new();
    let mut received = 0;
    while received < bytes {
        let mut buffer = [0; 2000];
        let length = socket
            .recv(&mut buffer)
            .expect("a packet within the time-out");
        let at = Instant::now();
        let packet = RtpPacket::parse(&buffer[..length]).unwrap();
        received += packet.payload().len();
        arrivals.push(Arrival {
            sequence: packet.sequence_number(),
            timestamp: packet.timestamp(),
            payload: packet.payload().to_vec(),
            at,
        });
    }
    arrivals
}

#[test]
fn what_is_sent_arrives_in_order_and_not_too_early() {
    let (rtp, rtcp, address) = receivers();
    let format = L16::new(48_000, 2).unwrap();
    let mut identity = Identity::seeded(5);
    (identity.sequence, identity.timestamp) = (u16::MAX - 3, u32::MAX - 500);
    let bytes: Vec<u8> = (0..48_000_u32)
        .map(|index| ((index * 7) >> 3) as u8)
        .collect();
    let expected = bytes.clone();

    let start = Instant::now();
    let sending = thread::spawn(move || {
        let mut speaker = Speaker::speak(address, format, identity, bytes)?;
        speaker.session.say_goodbye().unwrap();
        Some(speaker.session.statistics())
    });
    let arrivals = receive(&rtp, expected.len());
    let Some(statistics) = sending.join().unwrap() else {
        return;
    };

    let mut samples = 0;
    for (index, arrival) in arrivals.iter().enumerate() {
        assert_eq!(
            arrival.sequence,
            identity.sequence.wrapping_add(index as u16)
        );
        assert_eq!(arrival.timestamp, identity.timestamp.wrapping_add(samples));
        let due = Duration::from_secs(1) * samples / 48_000;
        assert!(
            arrival.at - start >= due,
            "packet {index} left before its time"
        );
        samples += arrival.payload.len() as u32 / 4;
    }
    let joined: Vec<u8> = arrivals
        .into_iter()
        .flat_map(|arrival| arrival.payload)
        .collect();
    assert_eq!(joined, expected);
    assert_eq!(statistics.bytes, 48_000 + 12 * statistics.packets);
    assert_eq!(
        (statistics.lost, statistics.packets),
        (0, statistics.delivered)
    );

    let reports = reports(&rtcp, &identity);
    let [(first, false), (last, true)] = reports[..] else {
        panic!("{reports:?}");
    };
    // In front of the first packet.
    assert_eq!(first, 0, "{reports:?}");
    assert_eq!(u64::from(last), statistics.packets);
}

/// The reports up to the one with the goodbye: packets sent until then, and whether it is the last.
fn reports(socket: &UdpSocket, identity: &Identity) -> Vec<(u32, bool)> {
    let mut found = Vec::new();
    loop {
        let mut buffer = [0; 2000];
        let length = socket
            .recv(&mut buffer)
            .expect("a report within the time-out");
        let packets: Vec<_> = Compound::parse(&buffer[..length])
            .unwrap()
            .map(Result::unwrap)
            .collect();
        let Packet::Sr(report) = &packets[0] else {
            panic!("{packets:?}")
        };
        assert_eq!(report.ssrc(), identity.ssrc);
        let is_last = packets
            .iter()
            .any(|packet| matches!(packet, Packet::Bye(_)));
        found.push((report.packet_count(), is_last));
        if is_last {
            return found;
        }
    }
}

//! Many destinations at once: what happens to one is nothing to the others.

use std::net::{Ipv4Addr, UdpSocket};
use std::time::Duration;

use hythe_media::wire::destinations::Destinations;
use hythe_media::wire::endpoint::DestinationOptions;
use hythe_media::wire::health::{Change, State};

use super::support::{Prebuilt, expect, expect_nothing, receiver};

const NO_WAIT: Duration = Duration::ZERO;

#[test]
fn dead_one_does_not_stop_the_others() {
    let mut destinations = Destinations::new();
    let options = DestinationOptions::default();
    let (dead, dead_address) = receiver("127.0.0.1");
    drop(dead);
    destinations.add(dead_address, &options).unwrap();
    let living: Vec<UdpSocket> = (0..3)
        .map(|_| {
            let (socket, address) = receiver("127.0.0.1");
            destinations.add(address, &options).unwrap();
            socket
        })
        .collect();
    let prebuilt = Prebuilt::equal(50);
    let mut events = Vec::new();
    for _ in 0..10 {
        let outcome = destinations.send(&prebuilt.packets(), NO_WAIT);
        assert_eq!(outcome.packets + outcome.lost, 4 * 50);
        events.extend_from_slice(outcome.events);
        for socket in &living {
            expect(socket, (0..50).map(|index| prebuilt.packet(index)));
        }
    }
    let told: Vec<_> = events
        .iter()
        .map(|event| (event.destination, event.change))
        .collect();
    assert_eq!(told, [(dead_address, Change::State(State::Refused))]);
}

#[test]
fn adding_and_removing_disturb_no_other() {
    let mut destinations = Destinations::new();
    let options = DestinationOptions::default();
    let (steady, address) = receiver("127.0.0.1");
    let steady_id = destinations.add(address, &options).unwrap();
    let prebuilt = Prebuilt::equal(20);
    let mut seen = std::collections::HashSet::from([steady_id]);
    for _ in 0..50 {
        let (socket, address) = receiver("127.0.0.1");
        let id = destinations.add(address, &options).unwrap();
        assert!(seen.insert(id), "{id:?} was used before");
        destinations.send(&prebuilt.packets(), NO_WAIT);
        expect(&socket, (0..20).map(|index| prebuilt.packet(index)));
        let statistics = destinations.remove(id).unwrap();
        assert_eq!((statistics.packets, statistics.lost), (20, 0));
        assert!(destinations.remove(id).is_none());
        destinations.send(&prebuilt.packets(), NO_WAIT);
        expect_nothing(&socket);
        expect(&steady, (0..40).map(|index| prebuilt.packet(index % 20)));
    }
    assert_eq!(destinations.remove(steady_id).unwrap().packets, 2000);
    assert!(destinations.is_empty());
    let outcome = destinations.send(&prebuilt.packets(), NO_WAIT);
    assert_eq!((outcome.packets, outcome.lost), (0, 0));
}

#[test]
fn multicast_reaches_its_group_on_the_interface_it_was_given() {
    for hops in [0, 1] {
        let (socket, address) = receiver("0.0.0.0");
        let group = Ipv4Addr::new(239, 255, 77, 4);
        socket
            .join_multicast_v4(&group, &Ipv4Addr::LOCALHOST)
            .unwrap();
        let mut options = DestinationOptions::default();
        options.multicast_hops = hops;
        options.multicast_interface = Some("lo".into());
        let mut destinations = Destinations::new();
        destinations
            .add((group, address.port()).into(), &options)
            .unwrap();
        let prebuilt = Prebuilt::equal(50);
        let outcome = destinations.send(&prebuilt.packets(), NO_WAIT);
        assert_eq!((outcome.packets, outcome.lost), (50, 0));
        expect(&socket, (0..50).map(|index| prebuilt.packet(index)));
        let (_, destination) = destinations.iter().next().unwrap();
        let ttl = rustix::net::sockopt::ip_multicast_ttl(destination.rtp_socket()).unwrap();
        assert_eq!(ttl, u32::from(hops));
    }
}

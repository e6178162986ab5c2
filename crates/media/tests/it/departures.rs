//! Departure times over a link: the kernel keeps packets of one call apart, etf says what it
//! dropped, and a way without them is noticed.
//!
//! Debian's kernel has `fq` and `etf` as modules; on other machines those tests are skipped,
//! loudly. `make test-media` runs them on an emulated board, where they have to run. Nothing is
//! asserted about how late packets are: what holds on a machine of any load is that none arrives
//! before its departure.

use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::Instant;

use hythe_media::wire::departure::Departures;
use hythe_media::wire::destination::Destination;
use hythe_media::wire::destinations::Destinations;
use hythe_media::wire::endpoint::DestinationOptions;
use hythe_media::wire::health::{Change, State};
use hythe_media::wire::method::Method;
use hythe_media::wire::scheduler::{Scheduler, Timing, Watch};
use hythe_sys::udp_receive::Message;
use hythe_testing::Polling;
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::time::{ClockId, clock_gettime};

use crate::links::{FAR, FAR_V6, Network, note_arrivals, run};
use crate::wire::support::{BOUND, Prebuilt, expect_nothing, receiver, send_all};

const MS: u64 = 1_000_000;
/// How far ahead of the first departure packets are handed over: an emulated board takes some
/// milliseconds for that.
const AHEAD_NS: u64 = 100 * MS;
/// A class of `prio`, in which etf is put: as the root of an interface it would drop all that has
/// no departure time, ARP for one.
const CLASS: u32 = 0x1_0001;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

const FQ: [&str; 1] = ["qdisc add dev near root fq"];

fn etf(delta_ns: u32) -> [String; 2] {
    [
        "qdisc add dev near root handle 1: prio".into(),
        format!("qdisc add dev near parent 1:1 handle 10: etf clockid CLOCK_TAI delta {delta_ns}"),
    ]
}

fn network_with_etf(delta_ns: u32) -> Option<Network> {
    let commands = etf(delta_ns);
    Network::scheduled(&commands.each_ref().map(String::as_str))
}

fn open(address: SocketAddr, priority: Option<u32>) -> Destination {
    Destination::open(address, &options(priority)).expect("opened")
}

fn options(priority: Option<u32>) -> DestinationOptions {
    let mut options = DestinationOptions::default();
    options.departures = true;
    options.priority = priority.map(u32::cast_signed);
    options
}

fn now_ns(clock: ClockId) -> u64 {
    let time = clock_gettime(clock);
    time.tv_sec as u64 * 1_000_000_000 + time.tv_nsec as u64
}

/// A receiver at the far end whose kernel notes when each packet arrives.
fn noting_receiver(network: &Network, host: &str) -> (UdpSocket, SocketAddr) {
    let (socket, address) = network.far.run(|| receiver(host));
    network.far.run(|| note_arrivals(&socket));
    (socket, address)
}

/// Waits for all packets of `prebuilt` in order; when each arrived, in nanoseconds of the monotonic
/// clock.
fn arrivals(socket: &UdpSocket, prebuilt: &Prebuilt) -> Vec<u64> {
    let begun = Instant::now();
    let mut arrived = Vec::new();
    let mut buffer = vec![0; 2048];
    while arrived.len() < prebuilt.places.len() {
        assert!(begun.elapsed() < BOUND, "{} packets came", arrived.len());
        let mut ready = [PollFd::new(socket, PollFlags::IN)];
        let second = Timespec {
            tv_sec: 1,
            tv_nsec: 0,
        };
        poll(&mut ready, Some(&second)).expect("works");
        let mut message = [Message::NONE];
        let part = NonZeroUsize::new(buffer.len()).expect("not empty");
        let count = hythe_sys::udp_receive::receive(socket, &mut buffer, part, &mut message);
        if count.expect("works") == 0 {
            continue;
        }
        let packet = prebuilt.packet(arrived.len());
        assert!(
            buffer[..message[0].bytes] == *packet,
            "packet {}",
            arrived.len()
        );
        let ahead_ns = now_ns(ClockId::Realtime) - now_ns(ClockId::Monotonic);
        arrived.push(message[0].arrived_unix_ns.expect("noted") - ahead_ns);
    }
    arrived
}

/// None more than `early_ns` before its departure: but for what two clocks are apart when they are
/// read one after the other.
fn none_is_early(arrived: &[u64], departures_ns: &[u64], early_ns: u64) {
    const READING_NS: u64 = MS / 2;
    for (index, (arrived, departure)) in arrived.iter().zip(departures_ns).enumerate() {
        assert!(
            arrived + READING_NS + early_ns >= *departure,
            "packet {index} arrived {} ns before its departure",
            departure - arrived
        );
    }
}

/// How far the distances of departures were from those asked for; on an emulated board a proof that
/// it works, no claim about hardware.
fn report(what: &str, arrived: &[u64], departures_ns: &[u64]) {
    let mut errors: Vec<u64> = arrived
        .windows(2)
        .zip(departures_ns.windows(2))
        .map(|(arrived, asked)| (arrived[1] - arrived[0]).abs_diff(asked[1] - asked[0]))
        .collect();
    errors.sort_unstable();
    let at = |per_mille: usize| errors[(errors.len() * per_mille / 1000).min(errors.len() - 1)];
    let (p50, p99, p999) = (at(500), at(990), at(999));
    println!(
        "spacing error, {what}: p50 {p50} ns, p99 {p99} ns, p99.9 {p999} ns, of {} distances",
        errors.len()
    );
}

/// Departures of `count` packets in groups that leave together, `apart_ns` from each other.
fn departures(count: u64, group: u64, apart_ns: u64) -> Vec<u64> {
    let first = now_ns(ClockId::Monotonic) + AHEAD_NS;
    (0..count)
        .map(|index| first + index / group * apart_ns)
        .collect()
}

/// One call for many packets, which the kernel keeps apart.
fn are_kept_apart(what: &str, network: &Network, priority: Option<u32>, early_ns: u64) {
    const COUNT: u64 = 60;
    let prebuilt = Prebuilt::equal(COUNT as usize);
    for host in [FAR, FAR_V6] {
        let (socket, address) = noting_receiver(network, host);
        let mut destination = open(address, priority);
        let kept = matches!(destination.departures(), Departures::Kept(_));
        assert!(kept, "{}", destination.departures());
        // Neighbours are found before, so that no packet waits for that.
        let first = Prebuilt::equal(1);
        let departures_ns = departures(1, 1, 0);
        let packets = first
            .packets()
            .with_departures(&departures_ns)
            .expect("one");
        send_all(&mut destination, &packets);
        none_is_early(&arrivals(&socket, &first), &departures_ns, early_ns);
        for group in [1, 8] {
            let departures_ns = departures(COUNT, group, 2 * MS);
            let packets = prebuilt
                .packets()
                .with_departures(&departures_ns)
                .expect("as many");
            let before = destination.statistics().calls;
            assert_eq!(send_all(&mut destination, &packets), []);
            let statistics = destination.statistics();
            assert_eq!(statistics.calls - before, 1, "one call for {COUNT} packets");
            assert_eq!(statistics.method, Method::MappedGso);
            let arrived = arrivals(&socket, &prebuilt);
            none_is_early(&arrived, &departures_ns, early_ns);
            let groups = |times: &[u64]| {
                times
                    .iter()
                    .step_by(group as usize)
                    .copied()
                    .collect::<Vec<_>>()
            };
            report(
                &format!("{what}, groups of {group}, to {host}"),
                &groups(&arrived),
                &groups(&departures_ns),
            );
        }
        let statistics = destination.statistics();
        assert_eq!((statistics.missed, statistics.lost), (0, 0));
        expect_nothing(&socket);
    }
}

#[test]
fn fq_keeps_the_packets_of_one_call_apart() {
    let _alone = alone();
    if let Some(network) = Network::scheduled(&FQ) {
        are_kept_apart("fq", &network, None, 0);
    }
}

#[test]
fn etf_keeps_the_packets_of_one_call_apart() {
    let _alone = alone();
    // Without a card that keeps times it sends so much before them: all by the same.
    let delta_ns = 500_000;
    if let Some(network) = network_with_etf(delta_ns) {
        are_kept_apart("etf", &network, Some(CLASS), delta_ns.into());
    }
}

#[test]
fn every_method_but_sendfile_has_departures() {
    let _alone = alone();
    let Some(network) = Network::scheduled(&FQ) else {
        return;
    };
    let prebuilt = Prebuilt::new(&[1400, 1400, 1400, 200, 1400, 1400, 172, 172], 256);
    for method in Method::BEST_FIRST {
        let (socket, address) = noting_receiver(&network, FAR);
        let mut options = options(None);
        options.method = Some(method);
        let mut destination = Destination::open(address, &options).expect("opened");
        let departures_ns = departures(8, 2, 3 * MS);
        let packets = prebuilt
            .packets()
            .with_departures(&departures_ns)
            .expect("as many");
        send_all(&mut destination, &packets);
        none_is_early(&arrivals(&socket, &prebuilt), &departures_ns, 0);
    }
}

/// Sends 40 packets through etf, the first `late` of which should have left a second ago, and waits
/// until `lost` are known to be dropped; the others arrive.
fn etf_drops(delta_ns: u32, late: usize, lost: usize, expected: Change) {
    let Some(network) = network_with_etf(delta_ns) else {
        return;
    };
    let (socket, address) = noting_receiver(&network, FAR);
    let mut destinations = Destinations::new();
    let id = destinations
        .add(address, &options(Some(CLASS)))
        .expect("opened");
    let prebuilt = Prebuilt::equal(40);
    let mut departures_ns = departures(40, 4, 2 * MS);
    for departure_ns in &mut departures_ns[..late] {
        *departure_ns -= 1000 * MS + AHEAD_NS;
    }
    let packets = prebuilt
        .packets()
        .with_departures(&departures_ns)
        .expect("as many");
    let outcome = destinations.send(&packets, BOUND);
    // Of some the call says so at once, of others the scheduler later.
    assert_eq!(outcome.packets + outcome.lost, 40);
    let mut events = outcome.events.to_vec();
    for index in lost..40 {
        let mut buffer = [0; 2048];
        let bytes = socket.recv(&mut buffer).expect("the others leave");
        assert!(buffer[..bytes] == *prebuilt.packet(index), "packet {index}");
    }
    let missed = |destinations: &Destinations| {
        let mut all = destinations.iter();
        all.next().map_or(0, |(_, one)| one.statistics().missed)
    };
    let mut polling = Polling::new("all that is lost is counted");
    while missed(&destinations) < lost as u64 {
        polling.pause_or_show(|| format!("{} {events:?}", missed(&destinations)));
        // Asked again with each group; one without packets does as well.
        let none = prebuilt.packets().after(40);
        events.extend_from_slice(destinations.send(&none, BOUND).events);
    }
    expect_nothing(&socket);
    let changes: Vec<Change> = events.iter().map(|event| event.change).collect();
    assert_eq!(changes, [expected], "told once, and as what it is");
    let found = destinations.remove(id).expect("is there");
    let lost = lost as u64;
    assert_eq!(
        (found.packets, found.lost, found.missed),
        (40 - lost, lost, lost)
    );
    assert_eq!(found.state, State::Reachable);
}

#[test]
fn packet_too_late_for_etf_is_reported_once() {
    let _alone = alone();
    etf_drops(1_000_000, 20, 20, Change::Missed { was_late: false });
}

/// It takes packets up so long before their time, and no timer is that precise.
#[test]
fn packet_that_etf_delays_is_reported_once() {
    let _alone = alone();
    etf_drops(0, 0, 40, Change::Missed { was_late: true });
}

#[test]
fn way_without_fq_or_etf_sends_at_once_and_is_named() {
    let _alone = alone();
    let Some(network) = Network::scheduled(&["qdisc add dev near root pfifo"]) else {
        return;
    };
    let (socket, address) = noting_receiver(&network, FAR);
    let mut destination = open(address, None);
    let expected = Scheduler {
        interface: "near".into(),
        kind: "pfifo".into(),
        timing: Timing::None,
    };
    assert_eq!(*destination.departures(), Departures::Ignored(expected));
    let prebuilt = Prebuilt::equal(10);
    // An hour from now; nobody looks at it.
    let departures_ns = departures(10, 1, 3_600_000 * MS);
    let packets = prebuilt
        .packets()
        .with_departures(&departures_ns)
        .expect("as many");
    send_all(&mut destination, &packets);
    arrivals(&socket, &prebuilt);
}

#[test]
fn scheduler_that_is_changed_is_noticed() {
    let _alone = alone();
    let Some(_network) = Network::scheduled(&["qdisc add dev near root pfifo"]) else {
        return;
    };
    let watch = Watch::begin().expect("works");
    let to = format!("{FAR}:5004").parse().expect("an address");
    let kind = || Scheduler::towards(to, None, None).expect("a way").kind;
    assert_eq!((watch.has_changed(), kind()), (false, "pfifo".into()));
    run("tc", "qdisc replace dev near root bfifo");
    assert_eq!((watch.has_changed(), kind()), (true, "bfifo".into()));
    assert!(!watch.has_changed());
    run("ip", "link set near down");
    assert!(watch.has_changed());
    assert!(Scheduler::towards(to, None, None).is_err(), "no way there");
}

#[test]
fn class_is_told_from_a_scheduler_that_is_not_there() {
    let _alone = alone();
    let Some(_network) = Network::scheduled(&[
        "qdisc add dev near root handle 1: htb default 1",
        "class add dev near parent 1: classid 1:1 htb rate 10gbit",
        "class add dev near parent 1: classid 1:10 htb rate 8mbit",
    ]) else {
        return;
    };
    let to = format!("{FAR}:5004").parse().expect("an address");
    let of = |priority| Scheduler::towards(to, None, priority).expect("a way");
    assert_eq!(of(Some(0x1_0010)).to_string(), "class 1:10 of htb on near");
    assert_eq!(of(Some(0x2_0010)).timing, Timing::None);
    assert_eq!(of(None).to_string(), "htb on near");
}

//! The regions of several cores in one pool: prefaulted and locked where they are mapped; what is
//! in one is copied to another by a call of that name only.

use crate::support;

use std::any::Any;
use std::path::Path;

use crate::support::{LONG, World, board, boards, pattern};
use hythe_node::{
    Node, NodeError, Pool, PoolOptions, Publisher, PublisherOptions, RegionIndex, Sample,
    Subscriber, SubscriberOptions,
};
use hythe_rtcore::{Board, Core, CoreOptions};

fn start_as(pool: &Pool, board: &Board, name: &str) -> Core {
    let options = CoreOptions::default().start_bound(LONG).name(name);
    Core::start(pool, board, &options).expect("core")
}

fn publisher(node: &Node, channel: &str) -> Publisher {
    let options = PublisherOptions::default();
    node.publisher(channel, &options).expect("publishes")
}

fn subscriber(node: &Node, channel: &str) -> Subscriber {
    let options = SubscriberOptions::default().depth(4);
    node.subscriber(channel, &options).expect("subscribes")
}

fn send(to: &mut Publisher, payload: &[u8]) {
    let mut lease = to.lease(payload.len()).expect("a free slot");
    lease.write(0, payload);
    to.publish(lease, payload.len()).expect("published");
}

fn take(from: &mut Subscriber) -> Sample {
    from.take(LONG).expect("sound").expect("a message")
}

/// The resident KiB of this process' mappings of a file.
fn resident_kib(path: &Path) -> u64 {
    let maps = std::fs::read_to_string("/proc/self/smaps").expect("own");
    let (mut sum, mut is_here) = (0, false);
    for line in maps.lines() {
        // The first line of a mapping begins with its addresses.
        let mut words = line.split_ascii_whitespace();
        let first = words.next().unwrap_or_default();
        if !first.ends_with(':') {
            is_here = line.ends_with(path.to_str().expect("plain"));
        } else if is_here && first == "Rss:" {
            let number = words.next().expect("a number");
            sum += number.parse::<u64>().expect("a number");
        }
    }
    sum
}

type OpenPort = fn(&Node) -> Box<dyn Any>;

#[test]
fn port_that_meets_a_core_has_the_region_prefaulted() {
    for board in boards() {
        for is_wanted in [true, false] {
            let mut world = World::new();
            world.options = world.options.clone().prefault(is_wanted);
            let core = support::start(&world, &board);
            let region = world.pool.region(core.region()).expect("there");
            // Mapped anew by each, and before the first message.
            let open: [OpenPort; 2] = [
                |node| Box::new(publisher(node, "ping")),
                |node| Box::new(subscriber(node, "pong")),
            ];
            for open in open {
                let pool = Pool::open(&world.options).expect("opens");
                let node = hythe_rtcore::join(&pool, "user").expect("joins");
                let port = open(&node);
                let resident = resident_kib(&pool.region_path(core.region()));
                let is_all = resident >= region.bytes >> 10;
                assert_eq!(is_all, is_wanted, "{resident} KiB of {}", region.bytes);
                drop((port, node));
            }
            core.stop().expect("stopped");
        }
    }
}

/// Five cores of the board, and four have room.
#[test]
fn four_cores_run_in_a_pool_of_the_default_size() {
    let Some(board) = board("hosted") else { return };
    let world = World::new();
    let options = PoolOptions::new("default").root(&world.root);
    let pool = Pool::open_or_create(&options.bytes(64 << 20)).expect("made");
    let cores: Vec<Core> = (1..=4)
        .map(|number| start_as(&pool, &board, &format!("core{number}")))
        .collect();
    let node = hythe_rtcore::join(&pool, "user").expect("joins");
    let echoes: Vec<_> = (1..=4_u8)
        .map(|number| echo_of(&node, &format!("core{number}"), &[number; 100]))
        .collect();
    let regions: Vec<RegionIndex> = cores.iter().map(Core::region).collect();
    assert_eq!(regions, [1, 2, 3, 4].map(RegionIndex));

    let options = CoreOptions::default().start_bound(LONG).name("core5");
    let refused = Core::start(&pool, &board, &options).expect_err("no entries left");
    let says = refused.to_string();
    assert!(
        says.contains("`core5` has 902 slots") && says.contains("at least 4510"),
        "{says}"
    );
    // The region of one that stopped is found again by its name.
    drop(echoes);
    for core in cores {
        core.stop().expect("stopped");
    }
    let again = start_as(&pool, &board, "core2");
    assert_eq!(again.region(), RegionIndex(2));
    drop(echo_of(&node, "core2", b"again"));
    again.stop().expect("stopped");
}

/// The echo of a core, up to it.
fn echo_of(node: &Node, name: &str, payload: &[u8]) -> (Publisher, Subscriber, Sample) {
    let mut pong = subscriber(node, &format!("{name}/pong"));
    let mut ping = publisher(node, &format!("{name}/ping"));
    send(&mut ping, payload);
    let back = take(&mut pong);
    assert_eq!(back.to_vec(), payload);
    (ping, pong, back)
}

#[test]
fn sample_of_one_core_reaches_another_as_a_counted_copy() {
    for board in boards() {
        let world = World::new();
        let left = start_as(&world.pool, &board, "left");
        let right = start_as(&world.pool, &board, "right");
        let node = hythe_rtcore::join(&world.pool, "between").expect("joins");
        let payload = pattern(5000, 1);
        let (_ping, _pong, sample) = echo_of(&node, "left", &payload);
        let (mut ping, mut pong, _) = echo_of(&node, "right", b"hello");

        let again = sample.part(0, sample.len()).expect("a reference");
        let refused = ping.forward(again).expect_err("not visible");
        let says = refused.to_string();
        assert!(
            matches!(refused, NodeError::RegionNotVisible { region, wanted, .. }
                if region == left.region() && wanted == right.region()),
            "{says}"
        );
        for named in [left.region(), right.region()] {
            assert!(says.contains(&format!("region {}", named.0)), "{says}");
        }
        assert!(says.contains("forward_copy"), "{says}");
        assert_eq!(ping.statistics().copies, 0);

        let published = ping.forward_copy(&sample).expect("copied");
        assert_eq!(published.delivered, 1);
        let copy = take(&mut pong);
        assert_eq!(copy.descriptor().place.region, right.region());
        assert_eq!(copy.to_vec(), payload);
        // A lease that the core cannot see, and a part.
        let mut lease = node.lease_in(RegionIndex(0), 100).expect("free");
        lease.write(0, &[3; 100]);
        let written = lease.freeze(100);
        for part in [&written, &sample.part(10, 20).expect("a part")] {
            ping.forward_copy(part).expect("copied");
            assert_eq!(take(&mut pong).to_vec(), part.to_vec());
        }
        let counted = ping.statistics();
        assert_eq!((counted.copies, counted.copied_bytes), (3, 5000 + 120));
        let shown = world.pool.ports();
        assert!(shown.iter().any(|port| port.statistics == counted));

        drop((sample, copy, written, ping, pong, _ping, _pong, node));
        left.stop().expect("stopped");
        right.stop().expect("stopped");
        world.assert_clean();
    }
}

/// One that was there before the core copies to where the core sees it.
#[test]
fn copy_goes_to_a_core_that_came_later() {
    for board in boards() {
        let world = World::new();
        let node = hythe_rtcore::join(&world.pool, "early").expect("joins");
        let mut ping = publisher(&node, "late/ping");
        let mut pong = subscriber(&node, "late/pong");
        let lease = node.lease(10).expect("free");
        let sample = lease.freeze(10);
        let core = start_as(&world.pool, &board, "late");
        let start = std::time::Instant::now();
        // The core's subscriber side may have to be met first.
        let copy = loop {
            assert!(start.elapsed() < LONG, "no echo");
            let published = ping.forward_copy(&sample);
            let is_elsewhere = matches!(published, Err(NodeError::RegionNotVisible { .. }));
            assert!(!is_elsewhere, "{published:?}");
            let found = pong.take(std::time::Duration::from_millis(200));
            if let Some(copy) = found.expect("sound") {
                break copy;
            }
        };
        assert_eq!(copy.descriptor().place.region, core.region());
        drop((copy, sample, ping, pong, node));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

//! Several Linux ports at one endpoint of a core, and several cores in one pool.

use std::time::Duration;

use crate::support::{Echo, LONG, Other, World, boards, eventually, pattern, role, signal, start};
use hythe_abi::pool::CORE_PORTS_MAX;
use hythe_node::{
    Node, NodeError, Pool, Publisher, PublisherOptions, Sample, Subscriber, SubscriberOptions,
};
use hythe_rtcore::{Board, Core, CoreError, CoreOptions};
use hythe_testing::{await_kill, let_time_pass};
use rustix::process::Signal;

fn subscriber(node: &Node) -> Result<Subscriber, NodeError> {
    node.subscriber("pong", &SubscriberOptions::default().depth(4))
}

fn take(from: &mut Subscriber) -> Sample {
    from.take(LONG).expect("sound").expect("a message")
}

/// Nodes of their own, as processes have them.
fn subscribers(pool: &Pool, count: usize) -> Vec<(Node, Subscriber)> {
    let join = |number| {
        let node = hythe_rtcore::join(pool, &format!("reader {number}")).expect("joins");
        let port = subscriber(&node).expect("subscribes");
        (node, port)
    };
    (0..count).map(join).collect()
}

/// The role of a process that subscribes and never takes.
#[test]
fn sleeper() {
    let Some((pool, _)) = role("sleeper") else {
        return;
    };
    let node = hythe_rtcore::join(&pool, "sleeper").expect("joins");
    let _port = subscriber(&node).expect("subscribes");
    await_kill();
}

fn is_attached(world: &World, name: &str) -> bool {
    let snapshot = world.pool.snapshot();
    let attached = snapshot
        .channels
        .iter()
        .flat_map(|channel| channel.attached);
    let named = |index| {
        let member = snapshot.members.iter().find(|member| member.index == index);
        member.is_some_and(|member| member.name == name)
    };
    attached.flatten().any(named)
}

#[test]
fn eight_ports_read_one_slot_and_the_last_frees_it() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let mut readers = subscribers(&world.pool, CORE_PORTS_MAX);
        let node = hythe_rtcore::join(&world.pool, "writer").expect("joins");
        let ninth = subscriber(&node).expect_err("all ports are taken");
        let says = ninth.to_string();
        assert!(matches!(ninth, NodeError::EndpointTaken { .. }), "{says}");
        assert!(
            says.contains("reader 0") && says.contains("reader 7"),
            "{says}"
        );

        let options = PublisherOptions::default();
        let mut ping = node.publisher("ping", &options).expect("publishes");
        for round in 0..20 {
            let bytes = [0, 1, 64, 4000, 100_000, 1 << 20][round % 6];
            let payload = pattern(bytes, round as u64);
            let mut lease = ping.lease(bytes).expect("a free slot");
            lease.write(0, &payload);
            ping.publish(lease, bytes).expect("published");
            let samples: Vec<Sample> = readers.iter_mut().map(|(_, port)| take(port)).collect();
            let place = samples[0].descriptor().place;
            for sample in &samples {
                assert_eq!(sample.descriptor().place, place, "one slot for all");
                assert_eq!(sample.to_vec(), payload);
            }
        }
        // All is free but what the core has as empty slots.
        drop((ping, node, readers));
        world.assert_clean();
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn port_that_stands_still_or_dies_costs_only_its_own_messages() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let mut echo = Echo::open(&world.pool, "lively").expect("ports");
        let sleeper = Other::start("sleeper", &world, &board);
        eventually("the sleeper is attached", || is_attached(&world, "sleeper"));
        for number in 0..200_u64 {
            let payload = pattern(500, number);
            assert_eq!(echo.round_trip(&payload).to_vec(), payload);
        }
        assert_eq!(echo.pong.statistics().dropped, 0);
        sleeper.kill();
        for number in 0..200_u64 {
            let payload = pattern(500, number);
            assert_eq!(echo.round_trip(&payload).to_vec(), payload);
        }
        drop(echo);
        world.assert_clean();
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

#[test]
fn eight_publishers_share_one_endpoint() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let (_reader, mut pong) = subscribers(&world.pool, 1).remove(0);
        let options = PublisherOptions::default();
        let mut writers: Vec<_> = (0..CORE_PORTS_MAX)
            .map(|number| {
                let node = hythe_rtcore::join(&world.pool, &format!("writer {number}"));
                let node = node.expect("joins");
                let port = node.publisher("ping", &options).expect("publishes");
                (node, port)
            })
            .collect();
        for round in 0..10_u64 {
            for (number, (_, ping)) in writers.iter_mut().enumerate() {
                let payload = pattern(300 + number, round);
                let mut lease = ping.lease(payload.len()).expect("a free slot");
                lease.write(0, &payload);
                ping.publish(lease, payload.len()).expect("published");
                assert_eq!(take(&mut pong).to_vec(), payload);
            }
        }
        drop((writers, pong));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

/// The words that the decoder puts before its samples, those that tell streams apart.
fn sequence_and_stream(sample: &Sample) -> (u32, u32) {
    let mut words = [0; 20];
    sample.read_headroom(0, &mut words);
    let word = |at| u32::from_le_bytes([words[at], words[at + 1], words[at + 2], words[at + 3]]);
    (word(12), word(16))
}

/// Frames of several ports in turn: the decoder begins no stream anew.
#[test]
fn each_port_has_a_stream_of_its_own_at_the_decoder() {
    // The smallest frame there is at 8 kHz and 8 kbit/s: MPEG-2.5, layer III, mono, of silence.
    let mut frame = [0; 72];
    frame[..4].copy_from_slice(&[0xFF, 0xE3, 0x18, 0xC0]);
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let node = hythe_rtcore::join(&world.pool, "listener").expect("joins");
        let options = SubscriberOptions::default().depth(4);
        let mut pcm = node.subscriber("pcm", &options).expect("subscribes");
        let mut writers: Vec<_> = (0..CORE_PORTS_MAX)
            .map(|number| {
                let node = hythe_rtcore::join(&world.pool, &format!("writer {number}"));
                let node = node.expect("joins");
                let mp3 = node.publisher("mp3", &PublisherOptions::default());
                (mp3.expect("publishes"), node)
            })
            .collect();
        let mut streams = Vec::new();
        for round in 0..5 {
            for (number, (mp3, _)) in writers.iter_mut().enumerate() {
                let mut lease = mp3.lease(frame.len()).expect("a free slot");
                lease.write(0, &frame);
                mp3.publish(lease, frame.len()).expect("published");
                let (sequence, stream) = sequence_and_stream(&take(&mut pcm));
                assert_eq!(sequence, round, "of writer {number}");
                if round == 0 {
                    assert!(!streams.contains(&stream), "{stream} of writer {number}");
                    streams.push(stream);
                }
                assert_eq!(stream, streams[number], "of writer {number}");
            }
        }
        drop((writers, pcm, node));
        core.stop().expect("stopped");
        world.assert_clean();
    }
}

fn start_as(world: &World, board: &Board, name: &str) -> Result<Core, CoreError> {
    let options = CoreOptions::default().start_bound(LONG).name(name);
    Core::start(&world.pool, board, &options)
}

#[test]
fn cores_with_names_of_their_own_run_side_by_side() {
    for board in boards() {
        let world = World::new();
        let plain = start(&world, &board);
        let left = start_as(&world, &board, "left").expect("core");
        let twice = start_as(&world, &board, "left").expect_err("one of that name runs");
        assert!(matches!(twice, CoreError::AlreadyRunning { .. }), "{twice}");
        let node = hythe_rtcore::join(&world.pool, "user").expect("joins");
        for prefix in ["", "left/"] {
            let options = SubscriberOptions::default().depth(4);
            let pong = node.subscriber(&format!("{prefix}pong"), &options);
            let mut pong = pong.expect("subscribes");
            let options = PublisherOptions::default();
            let mut ping = node
                .publisher(&format!("{prefix}ping"), &options)
                .expect("publishes");
            let mut lease = ping.lease(6).expect("a free slot");
            lease.write(0, b"to you");
            ping.publish(lease, 6).expect("published");
            assert_eq!(take(&mut pong).to_vec(), b"to you", "over {prefix}");
        }
        left.stop().expect("stopped");
        plain.stop().expect("stopped");
        drop(node);
        world.assert_clean();
    }
}

#[test]
fn core_whose_channels_are_taken_is_refused_and_leaves_nothing() {
    let boards = boards();
    let [first, second] = &boards[..] else {
        eprintln!("SKIPPED: one board only");
        return;
    };
    let world = World::new();
    let core = start(&world, first);
    let before = world.files();
    let options = CoreOptions::default().start_bound(LONG);
    let refused = Core::start(&world.pool, second, &options).expect_err("the channels are taken");
    let says = refused.to_string();
    assert!(matches!(refused, CoreError::ChannelTaken { .. }), "{says}");
    assert!(
        says.contains(first.name()) && says.contains("pid"),
        "{says}"
    );
    let mut echo = Echo::open(&world.pool, "user").expect("ports");
    assert_eq!(echo.round_trip(b"still here").to_vec(), b"still here");
    drop(echo);
    core.stop().expect("stopped");
    world.assert_clean();
    // The region of the refused core stays for its next start, as that of a stopped one does.
    let new: Vec<String> = world
        .files()
        .into_iter()
        .filter(|file| !before.contains(file))
        .collect();
    let is_known = |file: &String| {
        ["region.", "segments.", "link.", "core-", "log"]
            .iter()
            .any(|known| file.contains(known))
    };
    assert!(new.iter().all(is_known), "{new:?}");
}

#[test]
fn port_counts_messages_that_it_misses() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let mut readers = subscribers(&world.pool, 2);
        let node = hythe_rtcore::join(&world.pool, "writer").expect("joins");
        let options = PublisherOptions::default();
        let mut ping = node.publisher("ping", &options).expect("publishes");
        let (_, mut slow) = readers.pop().expect("two");
        let (_, mut quick) = readers.pop().expect("two");
        let sent = 40_u64;
        for number in 0..sent {
            let mut lease = ping.lease(8).expect("a free slot");
            lease.write(0, &number.to_le_bytes());
            ping.publish(lease, 8).expect("published");
            assert_eq!(take(&mut quick).to_vec(), number.to_le_bytes());
        }
        let mut taken = 0;
        while let Some(sample) = slow.take(Duration::from_millis(300)).expect("sound") {
            taken += u64::from(sample.to_vec().len() == 8);
        }
        assert!((1..=4).contains(&taken), "{taken}: at most its depth");
        assert_eq!(slow.statistics().dropped, sent - taken);
        assert_eq!(quick.statistics().dropped, 0);
        drop((slow, quick, ping, readers));
        core.stop().expect("stopped");
        drop(node);
        world.assert_clean();
    }
}

/// Long enough for a message that is on its way.
const NONE_COMES: Duration = Duration::from_millis(500);

/// A message from `ping`, echoed to all subscribers of `pong`.
fn send(ping: &mut Publisher, bytes: usize, number: u64) {
    let mut lease = ping.lease(bytes).expect("a free slot");
    lease.write(0, &number.to_le_bytes());
    ping.publish(lease, bytes).expect("published");
}

#[test]
fn stopped_subscriber_is_named_to_who_waits_for_its_core() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let sleeper = Other::start("sleeper", &world, &board);
        eventually("the sleeper is attached", || is_attached(&world, "sleeper"));
        let pid = sleeper.child.id();
        signal(pid, Signal::STOP);
        let node = hythe_rtcore::join(&world.pool, "writer").expect("joins");
        let options = PublisherOptions::default();
        let mut ping = node.publisher("ping", &options).expect("publishes");
        // The echo waits a second for each that its subscriber has no place for. A busy core may
        // not know of the subscriber yet, and takes all of the first ones.
        let is_blocked = |error: &NodeError| matches!(error, NodeError::CoreBlocked { .. });
        let mut text = String::new();
        eventually("the core waits for the subscriber", || {
            (0..60).for_each(|number| send(&mut ping, 8, number));
            let flushed = ping.flush(Duration::from_millis(200));
            text = flushed
                .as_ref()
                .map_or_else(ToString::to_string, |()| String::new());
            flushed.is_err_and(|error| is_blocked(&error))
        });
        assert!(text.contains(&format!("sleeper (pid {pid})")), "{text}");
        assert!(text.contains("`pong`"), "{text}");
        // A program that is to end waits for no core.
        node.end_waits_when(|| true);
        let error = ping.flush(LONG).expect_err("ended");
        assert!(is_blocked(&error), "{error}");
        drop(ping);
        signal(pid, Signal::CONT);
        sleeper.kill();
        core.stop().expect("stopped");
        drop(node);
        world.assert_clean();
    }
}

/// The slots of the core's region that take so many bytes, of the smallest size that does.
fn slots_of_size(pool: &Pool, bytes: usize) -> u64 {
    let regions = pool.snapshot().regions;
    let of_core = regions.iter().find(|region| region.link.is_some());
    let mut classes = of_core.expect("a core's region").classes.iter();
    let class = classes.find(|class| class.payload_bytes() >= bytes);
    class.expect("a size").count.into()
}

#[test]
fn subscriber_that_releases_nothing_keeps_its_share() {
    for (board, bytes) in boards().into_iter().flat_map(|board| {
        let sizes = [8, 4000, 60_000, 1 << 20];
        sizes.map(|bytes| (board.clone(), bytes))
    }) {
        let world = World::new();
        let core = start(&world, &board);
        let mut readers = subscribers(&world.pool, 2);
        let node = hythe_rtcore::join(&world.pool, "writer").expect("joins");
        let options = PublisherOptions::default();
        let mut ping = node.publisher("ping", &options).expect("publishes");
        let (_, mut holder) = readers.pop().expect("two");
        let (_, mut lively) = readers.pop().expect("two");
        let slots = slots_of_size(&world.pool, bytes);
        let sent = slots * 2 + 8;
        let mut held = Vec::new();
        for number in 0..sent {
            send(&mut ping, bytes, number);
            assert_eq!(take(&mut lively).to_vec()[..8], number.to_le_bytes());
            held.extend(holder.take(Duration::ZERO).expect("sound"));
        }
        let kept = held.len() as u64;
        let half = (slots / 2).max(1);
        assert!((1..=half).contains(&kept), "{kept} of {slots}");
        assert_eq!(lively.statistics().dropped, 0);
        // What it releases it may have again: first what waited for that.
        held.clear();
        let mut waited = 0;
        while holder.take(NONE_COMES).expect("sound").is_some() {
            waited += 1;
        }
        let dropped = holder.statistics().dropped;
        assert_eq!(
            kept + waited + dropped,
            sent,
            "{bytes} bytes, {slots} slots"
        );
        for number in 0..4 {
            send(&mut ping, bytes, number);
            assert_eq!(take(&mut holder).to_vec()[..8], number.to_le_bytes());
            drop(take(&mut lively));
        }
        assert_eq!(holder.statistics().dropped, dropped);
        drop((holder, lively, ping, readers));
        core.stop().expect("stopped");
        drop(node);
        world.assert_clean();
    }
}

#[test]
fn share_is_waited_for_until_another_thread_releases() {
    for board in boards() {
        let world = World::new();
        let core = start(&world, &board);
        let (_reader, mut holder) = subscribers(&world.pool, 1).remove(0);
        let node = hythe_rtcore::join(&world.pool, "writer").expect("joins");
        let options = PublisherOptions::default();
        let mut ping = node.publisher("ping", &options).expect("publishes");
        // Of this size the share is a few.
        let sent = slots_of_size(&world.pool, 1 << 20);
        let (to, from) = std::sync::mpsc::channel::<Sample>();
        let releasing = std::thread::spawn(move || {
            for sample in from {
                let_time_pass(Duration::from_millis(50), "it releases slowly");
                drop(sample);
            }
        });
        let taking = std::thread::spawn(move || {
            for number in 0..sent {
                let sample = take(&mut holder);
                assert_eq!(sample.to_vec()[..8], number.to_le_bytes());
                to.send(sample).expect("it is released");
            }
            holder
        });
        (0..sent).for_each(|number| send(&mut ping, 1 << 20, number));
        let holder = taking.join().expect("all came");
        assert_eq!(holder.statistics().dropped, 0);
        releasing.join().expect("released");
        drop((holder, ping));
        core.stop().expect("stopped");
        drop(node);
        world.assert_clean();
    }
}

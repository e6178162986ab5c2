//! Flows over links that lose, reorder, double, damage and cut, in virtual time: everything arrives
//! once, in order and equal; windows are those of `NewReno`.

use crate::network::{Flow, Link, MS, Network, settings};
use hythe_packets::{
    ACKNOWLEDGEMENT_BYTES_MAX, Arrival, Checksum, DropReason, Fault, Receiver, Sender, Settings,
    Window,
};
use hythe_testing::Dice;

/// Mostly short, some of many packets, some empty.
fn lengths(dice: &mut Dice, count: usize) -> Vec<u32> {
    let mut one = || match dice.below(10) {
        0 => 0,
        1..=5 => 64,
        6 | 7 => dice.below(3_000) as u32,
        8 => dice.below(40_000) as u32,
        _ => dice.below(200_000) as u32,
    };
    (0..count).map(|_| one()).collect()
}

fn delivers_all(settings: Settings, link: Link, count: usize, dice: &mut Dice) -> Network {
    let flow = Flow::new(settings, lengths(dice, count));
    let dice = Dice::new(dice.number());
    let mut network = Network::new(vec![flow], link.clone(), link.clone(), dice);
    let ran = network.run(|network| network.flows[0].is_done());
    let flow = &network.flows[0];
    assert_eq!(ran, Ok(()), "{link:?} {:?}", flow.sender.state());
    assert!(flow.is_done(), "{link:?}: {} of {count}", flow.delivered);
    assert_eq!(flow.delivered, count as u64 + 1);
    assert_eq!(flow.sender.accepted(), count as u64 + 1);
    network
}

#[test]
fn everything_arrives_once_in_order_and_equal() {
    let mut dice = Dice::from_environment();
    for loss in [0, 10, 100, 1_000] {
        for mtu_bytes in [1_280, 1_500, 9_000] {
            for trouble in [0, 100] {
                let link = Link {
                    loss,
                    mtu_bytes,
                    reorder: 2 * trouble,
                    duplicate: trouble,
                    corrupt: trouble,
                    ..Link::of(MS)
                };
                let settings = Settings {
                    mtu_bytes,
                    ..settings()
                };
                let network = delivers_all(settings, link, 600, &mut dice);
                let drops = network.flows[0].receiver.drops();
                let seen =
                    drops.count(DropReason::Duplicate) > 0 && drops.count(DropReason::Checksum) > 0;
                assert_eq!(seen, trouble > 0, "{drops:?}");
                let repeated = network.flows[0].sender.state().repeated;
                // At 0.1 %, of some hundred packets, maybe none is lost.
                assert!(repeated == 0 || loss + trouble > 0);
                assert!(repeated > 0 || loss + trouble < 100);
            }
        }
    }
}

/// A time that goes back by a microsecond once looked like a loss that lasts for centuries.
#[test]
fn older_time_of_waiting_thread_does_no_harm() {
    let mut dice = Dice::from_environment();
    for loss in [0, 100, 3_000] {
        let link = Link {
            loss,
            ..Link::of(MS)
        };
        let settings = Settings {
            unreachable_ns: 60_000 * MS,
            ..settings()
        };
        let flow = Flow::new(settings, lengths(&mut dice, 600));
        let mut network = Network::new(vec![flow], link.clone(), link, Dice::new(dice.number()));
        network.clock_lag_ns = MS as usize;
        let ran = network.run(|network| network.flows[0].is_done());
        assert_eq!(ran, Ok(()));
        assert!(network.flows[0].is_done());
    }
}

#[test]
fn mtu_that_shrinks_and_grows_loses_nothing() {
    let mut dice = Dice::from_environment();
    for loss in [0, 100] {
        let settings = Settings {
            mtu_bytes: 9_000,
            ..settings()
        };
        let link = Link {
            loss,
            ..Link::of(MS)
        };
        let flow = Flow::new(settings, vec![1 << 20; 40]);
        let mut network = Network::new(vec![flow], link.clone(), link, dice.clone());
        for mtu_bytes in [1_280, 9_000, 1_400, 4_000, 1_500] {
            let from_ns = network.now_ns;
            let until = move |ms| move |network: &Network| network.now_ns >= from_ns + ms * MS;
            // The path changes first, and who knows it is told later.
            network.forward.mtu_bytes = mtu_bytes;
            network.run(until(30)).expect("no fault");
            let sender = &mut network.flows[0].sender;
            sender.set_mtu(mtu_bytes).expect("within bounds");
            network.run(until(90)).expect("no fault");
        }
        network
            .run(|network| network.flows[0].is_done())
            .expect("no fault");
        assert_eq!(network.flows[0].delivered, 41);
        dice.number();
    }
}

#[test]
fn sender_restarts_with_two_packets_after_blackout() {
    for is_forward in [true, false] {
        let flow = Flow::new(settings(), vec![100_000; 400]);
        let mut network = Network::new(vec![flow], Link::of(MS), Link::of(MS), Dice::new(1));
        let start_ns = network.now_ns;
        let cut = start_ns + 15 * MS..start_ns + 1_500 * MS;
        let link = if is_forward {
            &mut network.forward
        } else {
            &mut network.back
        };
        link.cut = cut.clone();
        let healed_ns = cut.end;
        network
            .run(|network| network.now_ns >= cut.end)
            .expect("no fault");
        let before = network.flows[0].sender.state();
        assert!(before.timeouts > 3, "{before:?}");
        let heard = move |network: &Network| {
            network.flows[0].sender.state().in_flight_bytes < 10_000
                || network.now_ns > healed_ns + 1_000 * MS
        };
        network.run(heard).expect("no fault");
        if is_forward {
            let state = network.flows[0].sender.state();
            assert!(state.window_bytes <= 8 * 1_452, "{state:?}");
        }
        network
            .run(|network| network.flows[0].is_done())
            .expect("no fault");
        assert_eq!(network.flows[0].delivered, 401);
    }
}

#[test]
fn longer_blackout_is_an_unreachable_peer() {
    for is_forward in [true, false] {
        let flow = Flow::new(settings(), vec![100_000; 400]);
        let mut network = Network::new(vec![flow], Link::of(MS), Link::of(MS), Dice::new(1));
        let cut = network.now_ns + 15 * MS..u64::MAX;
        let link = if is_forward {
            &mut network.forward
        } else {
            &mut network.back
        };
        link.cut = cut.clone();
        let fault = network.run(|_| false).expect_err("unreachable");
        assert!(matches!(fault, Fault::Unreachable { .. }), "{fault}");
        let silent_ns = network.now_ns - cut.start;
        assert!((1_990 * MS..2_020 * MS).contains(&silent_ns), "{silent_ns}");
        // It stays so.
        let Flow {
            sender, receiver, ..
        } = &mut network.flows[0];
        let again = sender.expire(network.now_ns + 10 * MS);
        assert!(matches!(again, Err(Fault::Unreachable { .. })));
        assert_eq!(sender.transmit(network.now_ns), None);
        // The receiver misses the rest of a message, once the probes have ended, too.
        let misses = receiver.expire(network.now_ns + 5_000 * MS);
        assert!(matches!(misses, Err(Fault::Unreachable { .. })));
    }
}

#[test]
fn credit_that_is_lost_on_its_way_is_probed_for() {
    let mut dice = Dice::from_environment();
    let window = Window {
        messages: 3,
        bytes: 200_000,
    };
    let link = Link {
        loss: 1_000,
        ..Link::of(MS)
    };
    let settings = Settings {
        window,
        message_bytes_max: 200_000,
        ..settings()
    };
    delivers_all(settings, link, 300, &mut dice);
}

#[test]
fn user_who_accepts_nothing_for_long_is_no_unreachable_peer() {
    let flow = Flow::new(settings(), vec![1_000; 150]);
    let mut network = Network::new(vec![flow], Link::of(MS), Link::of(MS), Dice::new(1));
    let accepts_from_ns = network.now_ns + 20_000 * MS;
    network.flows[0].accepts_from_ns = accepts_from_ns;
    let held = |network: &Network| network.now_ns >= accepts_from_ns;
    network.run(held).expect("no fault");
    let flow = &network.flows[0];
    assert_eq!((flow.delivered, flow.sender.accepted()), (151, 0));
    // It is probed for less and less often.
    let packets = flow.sender.state().packets;
    assert!((151 + 40..151 + 80).contains(&packets), "{packets}");
    network
        .run(|network| network.flows[0].is_done())
        .expect("no fault");
    assert_eq!(network.flows[0].sender.accepted(), 151);
}

/// Mathis, Semke, Mahdavi, Ott: The macroscopic behavior of the TCP congestion avoidance algorithm
/// (1997): a packet / round trip * sqrt(3 / (2 * loss)).
#[test]
fn at_one_percent_loss_the_speed_is_half_of_the_models_at_least() {
    for (delay_ms, mtu_bytes) in [(2, 1_500), (10, 1_500), (10, 9_000), (40, 1_280)] {
        let settings = Settings {
            mtu_bytes,
            initial_rtt_ns: 2 * delay_ms * MS,
            ..settings()
        };
        let forward = Link {
            loss: 100,
            bytes_per_ms: 125_000,
            ..Link::of(delay_ms * MS)
        };
        let flow = Flow::new(settings, vec![200_000; 20_000]);
        let back = Link::of(delay_ms * MS);
        let mut network = Network::new(vec![flow], forward, back, Dice::new(5));
        let (start_ns, run_ns) = (network.now_ns, 2_000 * 2 * delay_ms * MS);
        network
            .run(|network| network.now_ns >= start_ns + run_ns)
            .expect("no fault");
        let seconds = run_ns as f64 / 1e9;
        let speed = network.flows[0].delivered_bytes as f64 / seconds;
        let payload = f64::from(mtu_bytes - 96);
        let model = payload / (2.0 * delay_ms as f64 / 1e3) * (1.5_f64 / 0.01).sqrt();
        println!(
            "{delay_ms} ms, {mtu_bytes}: {speed:.0} B/s, {:.2} of the model",
            speed / model
        );
        assert!(
            speed >= model / 2.0 && speed < model * 1.5,
            "{}",
            speed / model
        );
    }
}

#[test]
fn two_flows_share_a_bottleneck() {
    for seed in 0..2 {
        // 100 Mbit/s, 20 ms, a queue of one window.
        let forward = Link {
            bytes_per_ms: 12_500,
            queue_bytes: 250_000,
            loss: 1,
            ..Link::of(10 * MS)
        };
        let one = || Flow::new(settings(), vec![100_000; 20_000]);
        let (flows, back) = (vec![one(), one()], Link::of(10 * MS));
        let mut network = Network::new(flows, forward, back, Dice::new(seed));
        let start_ns = network.now_ns;
        network
            .run(|network| network.now_ns >= start_ns + 15_000 * MS)
            .expect("no fault");
        let bytes: Vec<u64> = network
            .flows
            .iter()
            .map(|flow| flow.delivered_bytes)
            .collect();
        let all: u64 = bytes.iter().sum();
        println!("{bytes:?} of 187,500,000");
        assert!(bytes.iter().all(|bytes| bytes * 3 >= all), "{bytes:?}");
        assert!(all >= 187_500_000 * 8 / 10, "{all}");
    }
}

/// RFC 9002, section 7.8, bounded: who comes too rarely for its pace does not fill its window.
#[test]
fn slow_sender_widens_no_unfilled_window() {
    let settings = settings();
    let mut sender = Sender::new(settings).expect("settings");
    let mut receiver = Receiver::new(settings).expect("settings");
    let payload = vec![3; 1 << 16];
    for round in 1..1_000 {
        // Ten times as rarely as a timer permits.
        let now_ns = round * 10 * MS;
        while sender.push(now_ns, 1 << 16, 0).is_some() {}
        while let Some(packet) = sender.transmit(now_ns) {
            let part = Checksum::of(&payload[packet.range()]);
            let arrival = receiver.receive(now_ns, &packet.seal(part), part);
            if let Arrival::Place(place) = arrival.expect("no fault") {
                place.done();
            }
        }
        while let Some(message) = receiver.next_message() {
            receiver.accept(now_ns, message.number + 1);
        }
        let mut out = [0; ACKNOWLEDGEMENT_BYTES_MAX];
        if let Some(bytes) = receiver.acknowledge(now_ns, &mut out) {
            let read = sender.acknowledged(now_ns + 10 * MS, &out[..bytes]);
            read.expect("no fault");
        }
    }
    let (state, accepted) = (sender.state(), sender.accepted());
    assert!(
        accepted > 100 && state.repeated == 0,
        "{accepted} {state:?}"
    );
    assert!(state.window_bytes < 100_000, "{state:?}");
}

#[test]
fn half_of_credit_acknowledges_short_messages() {
    let window = Window {
        messages: 8,
        ..settings().window
    };
    let settings = Settings {
        window,
        ..settings()
    };
    let mut sender = Sender::new(settings).expect("settings");
    let mut receiver = Receiver::new(settings).expect("settings");
    let part = Checksum::of(&[3; 64]);
    let mut acknowledged = Vec::new();
    for number in 0..20 {
        // All of it sooner than one is due by time.
        sender.push(number, 64, 0).expect("free");
        let packet = sender.transmit(number).expect("within credit");
        let arrival = receiver.receive(number, &packet.seal(part), part);
        if let Arrival::Place(place) = arrival.expect("no fault") {
            place.done();
        }
        let message = receiver.next_message().expect("whole");
        receiver.accept(number, message.number + 1);
        let mut out = [0; ACKNOWLEDGEMENT_BYTES_MAX];
        if let Some(bytes) = receiver.acknowledge(number, &mut out) {
            sender.acknowledged(number, &out[..bytes]).expect("honest");
            acknowledged.push(number);
        }
    }
    assert_eq!(acknowledged, [3, 7, 11, 15, 19]);
}

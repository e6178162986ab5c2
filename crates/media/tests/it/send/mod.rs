//! Streams from a source to destinations over the loopback interface.

#[allow(
    dead_code,
    reason = "shared with the tests of channels and of repair, which use more"
)]
use std::sync::Arc;
use std::time::Duration;

use hythe_media::MediaError;
use hythe_media::pace::{Limit, Pace};
use hythe_media::send::session::{SendOptions, Step};
use hythe_media::send::share::SlotShare;
use hythe_media::wire::endpoint::DestinationOptions;
use hythe_node::TrustPeers;
use hythe_rtp::Identity;
use hythe_testing::let_time_pass;

use crate::scene::{Counting, Receiver, Scene, Session};

const TRUST: TrustPeers = TrustPeers::i_trust_every_writer_of_this_pool();

/// Longer than what is still taken for jitter of a source, on a machine that seldom asks it, too.
const PAUSE: Duration = Duration::from_secs(1);
/// Somewhat less, since it began before the next packet was due.
const LATE_NS: u64 = 900_000_000;

fn options() -> SendOptions {
    SendOptions::new(Identity::seeded(1), TRUST)
}

#[test]
fn every_destination_gets_every_packet_in_order() {
    let Some(scene) = Scene::new("order") else {
        return;
    };
    for lend in [false, true] {
        let receivers = [(); 3].map(|()| Receiver::new());
        let mut session = scene.session(
            Counting::units(200, 4, 100),
            SendOptions {
                lend: Some(lend),
                ..options()
            },
        );
        for receiver in &receivers {
            let options = DestinationOptions::default();
            session
                .destinations()
                .add(receiver.address(), &options)
                .unwrap();
        }
        scene.run(&mut session);
        for receiver in &receivers {
            assert_eq!(receiver.payloads(), Counting::payloads(0..200, 4), "{lend}");
        }
        let statistics = session.statistics();
        assert_eq!((statistics.packets, statistics.delivered), (800, 2400));
        assert_eq!(statistics.lost, 0);
        assert_eq!(statistics.lent_groups > 0, lend);
    }
}

#[test]
fn stopped_stream_sends_nothing_more() {
    let Some(scene) = Scene::new("ending") else {
        return;
    };
    let receiver = Receiver::new();
    let mut session = scene.session(Counting::units(100_000, 1, 100), options());
    let to = DestinationOptions::default();
    session.destinations().add(receiver.address(), &to).unwrap();
    while session.statistics().packets == 0 {
        assert_ne!(session.step(&mut |_| {}).unwrap(), Step::Ended);
    }
    let sent = session.statistics().packets;
    let linger = std::time::Duration::from_millis(50);
    session.finish(linger, None, &mut |_| {}).unwrap();
    assert_eq!(session.statistics().packets, sent);
}

/// Units are read ahead: what is behind them is known long before they leave.
#[test]
fn error_waits_until_what_is_in_front_of_it_has_left() {
    let Some(scene) = Scene::new("error") else {
        return;
    };
    for pace in [Pace::Media, Pace::Unpaced] {
        let receiver = Receiver::new();
        let source = Counting::units(200, 2, 100).damaged();
        let source = source.skipping_before(&[0, 50, 200]);
        let mut session = scene.session(source, SendOptions { pace, ..options() });
        let to = DestinationOptions::default();
        session.destinations().add(receiver.address(), &to).unwrap();
        let mut skipped = Vec::new();
        let failure = loop {
            let step = session.step(&mut |event| panic!("{event}"));
            while let Some(error) = session.skipped() {
                skipped.push((session.statistics().packets, error.to_string()));
            }
            match step {
                Ok(Step::Wait(until_ns)) => crate::scene::wait_until(until_ns),
                Ok(step) => assert_eq!(step, Step::Again),
                Err(error) => break error.to_string(),
            }
        };
        assert_eq!(receiver.payloads(), Counting::payloads(0..200, 2));
        assert!(failure.contains("counting, byte 200"), "{failure}");
        for ((sent, error), unit) in skipped.iter().zip([0, 50, 200]) {
            assert!(*sent >= 2 * unit, "{error} after {sent} packets");
            assert!(error.contains(&format!("byte {unit}:")), "{error}");
        }
        assert_eq!(skipped.len(), 3);
        assert_eq!(session.step(&mut |_| {}).unwrap(), Step::Ended);
    }
}

#[test]
fn coming_and_going_disturbs_nobody() {
    let Some(scene) = Scene::new("coming") else {
        return;
    };
    let [stays, goes, comes] = [(); 3].map(|()| Receiver::new());
    let mut session = scene.session(Counting::units(100, 2, 100), options());
    let add = |session: &mut Session, receiver: &Receiver| {
        let options = DestinationOptions::default();
        session
            .destinations()
            .add(receiver.address(), &options)
            .unwrap()
    };
    add(&mut session, &stays);
    let going = add(&mut session, &goes);
    let mut has_changed = false;
    loop {
        match session.step(&mut |event| panic!("{event}")).unwrap() {
            Step::Ended => break,
            Step::Wait(until_ns) => crate::scene::wait_until(until_ns),
            Step::Again => {}
        }
        if !has_changed && session.statistics().packets >= 100 {
            has_changed = true;
            assert!(session.destinations().remove(going).is_some());
            add(&mut session, &comes);
        }
    }
    assert_eq!(stays.payloads(), Counting::payloads(0..100, 2));
    let (early, late) = (goes.payloads(), comes.payloads());
    assert_eq!([early, late].concat(), Counting::payloads(0..100, 2));
}

#[test]
fn slots_are_used_again_and_what_is_late_arrives_as_it_was_sent() {
    let Some(scene) = Scene::new("again") else {
        return;
    };
    // Three times what the wire region holds, to a receiver that reads when all is over.
    for lend in [false, true] {
        let receiver = Receiver::with_room(64 << 20);
        let unpaced = SendOptions {
            lend: Some(lend),
            pace: Pace::Unpaced,
            limit: Limit {
                burst: 64,
                early_ns: 0,
            },
            ..options()
        };
        let mut session = scene.session(Counting::units(2000, 1, 1300), unpaced);
        let options = DestinationOptions::default();
        session
            .destinations()
            .add(receiver.address(), &options)
            .unwrap();
        scene.run(&mut session);
        let packets = session.statistics();
        assert_eq!((packets.packets, packets.lost), (2000, 0));
        // All of it is due at once, so that none is late.
        let spacing = session.spacing();
        assert_eq!((spacing.late_max_ns, session.late_ns()), (0, 0));
        assert_eq!(
            receiver.payloads(),
            Counting::sized(0..2000, 1, 1300),
            "{lend}"
        );
    }
}

#[test]
fn reports_and_the_goodbye_come_over_rtcp() {
    let Some(scene) = Scene::new("reports") else {
        return;
    };
    let receiver = Receiver::new();
    let mut session = scene.session(Counting::units(20, 1, 100), options());
    let to = DestinationOptions::default();
    session.destinations().add(receiver.address(), &to).unwrap();
    scene.run(&mut session);
    session.say_goodbye().unwrap();
    let reports = receiver.reports();
    assert_eq!(reports.len(), 2, "{reports:?}");
    let ssrc = Identity::seeded(1).ssrc;
    assert!(reports.iter().all(|report| report.ssrc == ssrc));
    assert_eq!(
        (reports[0].said_goodbye, reports[1].said_goodbye),
        (false, true)
    );
    // The first one is in front of all packets: VLC begins anew when it is told the time behind
    // some.
    assert_eq!((reports[0].packets, reports[0].bytes), (0, 0));
    assert_eq!((reports[1].packets, reports[1].bytes), (20, 2000));
}

#[test]
fn late_destination_gets_report_before_next_packet() {
    let Some(scene) = Scene::new("late report") else {
        return;
    };
    let [early, late] = [(); 2].map(|()| Receiver::new());
    let mut session = scene.session(Counting::units(20, 1, 100), options());
    let to = DestinationOptions::default();
    session.destinations().add(early.address(), &to).unwrap();
    while session.statistics().packets < 10 {
        session.step(&mut |_| {}).unwrap();
    }
    session.destinations().add(late.address(), &to).unwrap();
    let sent = session.statistics().packets as u32;
    session.greet().unwrap();
    let reports = late.reports();
    assert_eq!((reports.len(), reports[0].packets), (1, sent));
    assert_eq!(late.payloads(), Vec::<Vec<u8>>::new());
    // Once is enough, and the other had one.
    session.greet().unwrap();
    assert_eq!((late.reports().len(), early.reports().len()), (0, 1));
}

#[test]
fn picture_leaves_in_pieces() {
    let Some(scene) = Scene::new("pieces") else {
        return;
    };
    let receiver = Receiver::new();
    let mut session = scene.session(
        Counting::units(10, 40, 100),
        SendOptions {
            limit: Limit {
                burst: 4,
                early_ns: 0,
            },
            ..options()
        },
    );
    let to = DestinationOptions::default();
    session.destinations().add(receiver.address(), &to).unwrap();
    scene.run(&mut session);
    assert_eq!(receiver.payloads().len(), 400);
    // A group of at most four packets each time: 100 groups, 99 distances.
    let spacing = session.spacing();
    assert!(spacing.count >= 99, "{spacing:?}");
    assert_eq!(spacing.moves, 0, "{spacing:?}");
}

#[test]
fn pause_and_a_late_source_move_the_plan_and_are_counted() {
    let Some(scene) = Scene::new("moves") else {
        return;
    };
    for is_told in [false, true] {
        let receiver = Receiver::new();
        let mut session = scene.session(Counting::units(100, 1, 100), options());
        let to = DestinationOptions::default();
        session.destinations().add(receiver.address(), &to).unwrap();
        while session.statistics().packets < 50 {
            session.step(&mut |_| {}).unwrap();
        }
        let_time_pass(PAUSE, "the sender stops for a while");
        if is_told {
            session.resume();
        }
        scene.run(&mut session);
        assert_eq!(receiver.payloads(), Counting::payloads(0..100, 1));
        let spacing = session.spacing();
        assert_eq!(spacing.moves, u64::from(is_told), "{spacing:?}");
        assert!(is_told || spacing.late_max_ns > LATE_NS, "{spacing:?}");
    }
    // Half of it comes only after a pause: the source's own, which nobody has to be told of.
    let receiver = Receiver::new();
    let source = Counting::units(100, 1, 100).silent_before(50, 3 * PAUSE);
    let mut session = scene.session(source, options());
    let to = DestinationOptions::default();
    session.destinations().add(receiver.address(), &to).unwrap();
    scene.run(&mut session);
    assert_eq!(receiver.payloads(), Counting::payloads(0..100, 1));
    let spacing = session.spacing();
    assert_eq!(spacing.moves, 1, "{spacing:?}");
}

#[test]
fn sessions_that_share_slots_have_enough_each_or_are_refused() {
    let Some(scene) = Scene::new("share") else {
        return;
    };
    // Of twelve slots, two each.
    let share = SlotShare::new(2);
    let begin = |units| {
        let options = SendOptions {
            share: Some(Arc::clone(&share)),
            ..options()
        };
        // A unit is almost as long as a slot.
        scene.try_session(Counting::units(units, 200, 1200), options)
    };
    let mut sessions: Vec<_> = (0..6).map(|_| begin(10).unwrap()).collect();
    let refused = begin(10).unwrap_err();
    assert!(matches!(refused, MediaError::Pool(_)), "{refused}");
    for session in &mut sessions {
        let receiver = Receiver::with_room(8 << 20);
        let to = DestinationOptions::default();
        session.destinations().add(receiver.address(), &to).unwrap();
        scene.run(session);
        let expected = Counting::sized(0..10, 200, 1200);
        assert_eq!(receiver.payloads(), expected);
    }
    // What one gives back the next one has.
    sessions.pop();
    assert!(begin(10).is_ok());
}

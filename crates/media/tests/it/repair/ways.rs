//! From a sending session over a way that loses packets to a receiving session.

use std::net::SocketAddr;
use std::os::fd::AsFd;
use std::sync::{Mutex, PoisonError};
use std::time::{Duration, Instant};

use hythe_media::pace::Pace;
use hythe_media::receive::repairer::Repairer;
use hythe_media::receive::session::{Session, Until, now_ns};
use hythe_media::receive::socket::{Binding, Sockets};
use hythe_media::receive::statistics::Statistics;
use hythe_media::receive::stream::{Settings, Stream};
use hythe_media::send::repair::{Parity, Repair, Resend};
use hythe_media::send::session::{SendOptions, SendStatistics, Step};
use hythe_media::wire::endpoint::DestinationOptions;
use hythe_node::TrustPeers;
use hythe_rtp::Identity;
use hythe_rtp::loss::fec::predict::residual;
use hythe_rtp::loss::fec::{Protection, Shape};
use hythe_rtp::receive::requests::Limits;
use hythe_rtp::sdp;

use crate::passing::{Kept, Passing};
use crate::relay::Relay;
use crate::scene::{Counting, Scene};
use crate::way::Way;

/// Ends tests that have failed.
const BOUND: Duration = Duration::from_secs(120);
const DELAY: Duration = Duration::from_millis(20);
/// What receivers wait for a missing packet. A quiet machine needs 200 ms, for which requests are
/// made a few times; on a busy one, where threads wait for their turn, the way itself takes longer
/// than that.
const BUFFER: Duration = Duration::from_millis(1000);
const LOSS: f64 = 0.05;

/// Packets of a stream: units of two milliseconds each.
#[derive(Clone, Copy)]
struct Media {
    units: u32,
    packets: usize,
    bytes: usize,
}

/// One way at a time: they disturb each other.
static TURN: Mutex<()> = Mutex::new(());

struct Outcome {
    sent: SendStatistics,
    received: Statistics,
    /// Payloads that came out, in order.
    payloads: Vec<Vec<u8>>,
    /// Numbers of those that did not, from the receiver's list of gaps.
    named: u64,
    lost_on_the_way: u64,
}

fn run(scene: &Scene, media: Media, repair: Repair, seed: u64) -> Outcome {
    let _turn = TURN.lock().unwrap_or_else(PoisonError::into_inner);
    let asks = repair.resend.is_some();
    let trust = TrustPeers::i_trust_every_writer_of_this_pool();
    let options = SendOptions {
        repair,
        pace: Pace::Media,
        ..SendOptions::new(Identity::seeded(seed), trust)
    };
    let source = Counting::units(media.units, media.packets, media.bytes);
    let mut session = scene.session(source, options);
    let binding = Binding {
        parity: true,
        ..Binding::new(SocketAddr::from(([127, 0, 0, 1], 0)))
    };
    let sockets = Sockets::open(&binding).unwrap();
    let way = Way {
        loss: LOSS,
        delay: DELAY,
        seed,
    };
    let relay = Relay::start(sockets.address(), way);
    let to = DestinationOptions::default();
    session.destinations().add(relay.address(), &to).unwrap();
    // The receiver knows what the description says.
    let said = sdp::describe(&[session.describe(sockets.address())], 1);
    let description = sdp::parse(said.as_bytes()).unwrap().remove(0);
    assert_eq!(description.takes_nack, asks);
    // A request or its answer is lost with a probability of 0.1: all four that are the default,
    // for one of 60 packets, in every 200th run.
    let limits = Limits {
        times_max: 8,
        after_parity: description.parity.is_some(),
        ..Limits::default()
    };
    let settings = Settings {
        delay_ns: BUFFER.as_nanos() as u64,
        requests: description.takes_nack.then_some(limits),
        ..Settings::default()
    };
    let own = Identity::seeded(seed + 1000);
    let format = &description.format;
    let mut stream = Stream::new(settings, format, &own, Passing, Kept::default(), now_ns());
    if let Some(repairer) = Repairer::new(&description) {
        stream = stream.with_repair(Box::new(repairer));
    }
    let until = Until {
        goodbye: false,
        idle: Some(BOUND),
    };
    let (stop, stopper) = rustix::pipe::pipe().unwrap();
    let (received, bytes, named) = std::thread::scope(|scope| {
        let receiver = scope.spawn(|| {
            let mut receiver = Session::new(sockets, stream, until);
            let (_, received) = receiver.run(Some(stop.as_fd())).unwrap();
            let named = receiver.stream().gaps().iter().map(|gap| gap.packets).sum();
            let kept = std::mem::take(receiver.stream_mut().sink_mut());
            (received, kept.bytes, named)
        });
        send_all(&mut session);
        rustix::io::write(&stopper, &[1]).unwrap();
        receiver.join().unwrap()
    });
    Outcome {
        sent: session.statistics(),
        received,
        payloads: bytes.chunks(media.bytes).map(<[u8]>::to_vec).collect(),
        named,
        lost_on_the_way: relay.end(),
    }
}

/// Sends to the end, and as long as somebody may ask.
fn send_all(session: &mut crate::scene::Session) {
    let begun = Instant::now();
    loop {
        assert!(begun.elapsed() < BOUND, "{:?}", session.statistics());
        match session.step(&mut |event| panic!("{event}")).unwrap() {
            Step::Ended => break,
            Step::Wait(until_ns) => assert!(!session.wait(until_ns, None).unwrap()),
            Step::Again => {}
        }
    }
    let until_ns = now_ns() + (BUFFER + 4 * DELAY).as_nanos() as u64;
    session
        .linger(until_ns, None, &mut |event| panic!("{event}"))
        .unwrap();
}

/// Everything came but some at the end, whose loss nothing that followed could show.
fn assert_whole(outcome: &Outcome, media: Media) {
    let all = Counting::sized(0..media.units, media.packets, media.bytes);
    let came = outcome.payloads.len();
    assert!(
        came + 6 >= all.len(),
        "{came} of {}: {:?}",
        all.len(),
        outcome.received
    );
    assert!(
        outcome.payloads[..] == all[..came],
        "{:?}",
        outcome.received
    );
    assert_eq!((outcome.received.lost, outcome.named), (0, 0));
}

fn resend() -> Option<Resend> {
    Some(Resend::default())
}

#[test]
fn with_retransmission_nothing_is_missing() {
    let Some(scene) = Scene::new("resend") else {
        return;
    };
    let media = Media {
        units: 600,
        packets: 2,
        bytes: 1000,
    };
    for payload_type in [Some(98), None] {
        let resend = Resend {
            payload_type,
            ..Resend::default()
        };
        let repair = Repair {
            resend: Some(resend),
            parity: None,
        };
        let outcome = run(&scene, media, repair, 1);
        assert!(outcome.lost_on_the_way > 30, "{}", outcome.lost_on_the_way);
        assert_whole(&outcome, media);
        let (sent, received) = (outcome.sent, outcome.received);
        assert!(
            received.requested >= 30 && sent.resent >= 30,
            "{sent:?} {received:?}"
        );
        assert_eq!(
            received.recovered > 30,
            payload_type.is_some(),
            "{received:?}"
        );
        assert_eq!(received.recovered_by_parity, 0);
    }
}

#[test]
fn with_parity_alone_what_is_left_is_what_was_computed() {
    let Some(scene) = Scene::new("parity") else {
        return;
    };
    let media = Media {
        units: 1000,
        packets: 10,
        bytes: 100,
    };
    let shape = Shape::new(5, 5).unwrap();
    for (protection, payload_type) in [(Protection::Columns, None), (Protection::Rows, Some(100))] {
        let parity = Parity {
            shape,
            protection,
            payload_type,
        };
        let repair = Repair {
            resend: None,
            parity: Some(parity),
        };
        let outcome = run(&scene, media, repair, 2);
        let (sent, received) = (outcome.sent, outcome.received);
        assert_eq!(sent.parity, 2000, "{sent:?}");
        let packets = 10_000.0;
        let expected = packets * residual(shape, protection, LOSS, 0, 0);
        // Five standard errors, taking two of a line as one.
        let error = 5.0 * (2.0 * expected).sqrt();
        let lost = received.lost as f64;
        assert!(
            (lost - expected).abs() < error,
            "{lost} {expected} {error}: {received:?}"
        );
        assert_eq!(received.recovered, received.recovered_by_parity);
        assert!(received.recovered > 250, "{received:?}");
        assert_eq!((received.requested, sent.resent), (0, 0));
        assert!(outcome.named > 0 && outcome.named <= received.lost);
    }
}

#[test]
fn both_together_leave_nothing_and_ask_for_less() {
    let Some(scene) = Scene::new("both") else {
        return;
    };
    let media = Media {
        units: 600,
        packets: 2,
        bytes: 1000,
    };
    let parity = Parity {
        shape: Shape::new(5, 5).unwrap(),
        protection: Protection::Both,
        payload_type: None,
    };
    let repair = Repair {
        resend: resend(),
        parity: Some(parity),
    };
    let outcome = run(&scene, media, repair, 3);
    assert_whole(&outcome, media);
    let received = outcome.received;
    assert!(received.recovered_by_parity > 30, "{received:?}");
    assert!(
        received.requested < received.recovered_by_parity,
        "{received:?}"
    );
}

#[test]
fn what_is_not_repaired_in_time_is_counted_and_named() {
    let Some(scene) = Scene::new("named") else {
        return;
    };
    let media = Media {
        units: 200,
        packets: 2,
        bytes: 1000,
    };
    let outcome = run(&scene, media, Repair::default(), 4);
    let received = outcome.received;
    assert!((5..50).contains(&received.lost), "{received:?}");
    assert_eq!(outcome.named, received.lost);
    assert_eq!(received.requested, 0);
}

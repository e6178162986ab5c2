//! How long messages are held: until their last packet was sent, or left the history, and no
//! longer.

use std::time::Duration;

use hythe_media::send::repair::{Repair, Resend};
use hythe_media::send::session::SendOptions;
use hythe_media::source::OpenOptions;
use hythe_media::source::raw::PcmFormat;
use hythe_rtp::Identity;
use hythe_rtp::format::Encoding;

use super::stage::{Stage, TRUST, add, run, unpaced};
use crate::scene::Receiver;

const MESSAGE_BYTES: usize = 1600;

/// Telephone audio: a message is a block of 200 ms, in two packets.
fn telephone() -> OpenOptions {
    OpenOptions {
        raw: Some(PcmFormat {
            encoding: Encoding::Pcmu,
            samples_per_second: 8000,
            channels: 1,
        }),
        block_ms: 200,
        ..OpenOptions::default()
    }
}

fn message(number: u8) -> Vec<u8> {
    vec![number; MESSAGE_BYTES]
}

fn resending(keep: Duration, messages_max: usize) -> Repair {
    let resend = Resend {
        payload_type: None,
        keep,
        messages_max,
        ..Resend::default()
    };
    Repair {
        resend: Some(resend),
        parity: None,
    }
}

#[test]
fn message_is_held_until_its_last_packet_left() {
    let Some(stage) = Stage::new("until-left") else {
        return;
    };
    let (mut camera, channel) = stage.channel();
    (0..3).for_each(|number| camera.publish(&message(number)));
    let source = channel.open(&telephone()).unwrap();
    assert_eq!(stage.slots_held(), 3);
    let receiver = Receiver::new();
    // At the pace of the media: two packets, then two more 200 ms later.
    let mut session = stage.session(source, SendOptions::new(Identity::seeded(3), TRUST));
    add(&mut session, &receiver);
    let mut seen = Vec::new();
    run(&mut session, |session| {
        let (left, held) = (session.statistics().packets, stage.slots_held());
        if seen.last() != Some(&(left, held)) {
            seen.push((left, held));
        }
        if left == 6 {
            camera.end();
        }
        false
    });
    assert!(
        seen.contains(&(2, 2)) && seen.contains(&(4, 1)) && seen.contains(&(6, 0)),
        "{seen:?}"
    );
    let payloads = receiver.payloads();
    assert_eq!(
        payloads.concat(),
        [message(0), message(1), message(2)].concat()
    );
    assert_eq!(stage.slots_held(), 0);
}

#[test]
fn what_is_kept_for_resending_is_sent_again_from_its_slot() {
    let Some(stage) = Stage::new("again") else {
        return;
    };
    let (mut camera, channel) = stage.channel();
    (0..10).for_each(|number| camera.publish(&message(number)));
    let source = channel.open(&telephone()).unwrap();
    let receiver = Receiver::new();
    let options = SendOptions {
        repair: resending(Duration::from_secs(3600), 100),
        ..unpaced()
    };
    let mut session = stage.session(source, options);
    add(&mut session, &receiver);
    run(&mut session, |session| session.statistics().packets == 20);
    assert_eq!(stage.slots_held(), 10);
    let sent = receiver.datagrams();
    // The goodbye tells where to ask.
    session.say_goodbye().unwrap();
    let identity = Identity::seeded(7);
    for wanted in [3_u16, 12] {
        let sequence = identity.sequence.wrapping_add(wanted);
        let sender = if wanted == 3 {
            Some(receiver.reporter())
        } else {
            None
        };
        let sender = sender.unwrap_or_else(|| {
            session.say_goodbye().unwrap();
            receiver.reporter()
        });
        receiver.ask_for(sequence, sender, identity.ssrc);
        let before = session.statistics().resent;
        run(&mut session, |session| session.statistics().resent > before);
        assert_eq!(receiver.datagrams(), [sent[usize::from(wanted)].clone()]);
    }
    drop(session);
    assert_eq!(stage.slots_held(), 0);
    assert_eq!(stage.regions().len(), 1);
}

#[test]
fn history_lets_go_of_slots_by_age_and_by_number() {
    let Some(stage) = Stage::new("history") else {
        return;
    };
    for (keep, messages_max, held, is_short) in [
        (Duration::from_secs(3600), 4, 4, true),
        (Duration::ZERO, 100, 0, false),
    ] {
        let (mut camera, channel) = stage.channel();
        (0..10).for_each(|number| camera.publish(&message(number)));
        let source = channel.open(&telephone()).unwrap();
        let options = SendOptions {
            repair: resending(keep, messages_max),
            ..unpaced()
        };
        let mut session = stage.session(source, options);
        let receiver = Receiver::new();
        add(&mut session, &receiver);
        // Nothing more is published: slots go back all the same.
        run(&mut session, |session| {
            session.statistics().packets == 20 && stage.slots_held() == held
        });
        assert_eq!(session.statistics().kept_short > 0, is_short);
        assert_eq!(receiver.payloads().len(), 20);
        drop((session, camera));
        assert_eq!(stage.slots_held(), 0);
    }
}

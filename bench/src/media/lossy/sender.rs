//! The product's sender, as `hythe media send` runs it, with what the case does about losses.

use std::net::{IpAddr, SocketAddr};
use std::time::Instant;

use hythe_media::send::repair::{Parity, Repair, Resend};
use hythe_media::send::session::{SendOptions, SendSession, Step};
use hythe_media::wire::endpoint::DestinationOptions;
use hythe_node::{TrustPeers, monotonic_ns};
use hythe_rtp::Identity;

use super::super::hythe::Root;
use super::numbered::{Numbered, Whole};
use super::{BUFFER, DELAY, IDENTITIES, LossyCase, PORT, Remedy, Streamed, TAIL_PACKETS, shape};
use crate::error::BenchError;

/// No other process takes part.
const TRUST: TrustPeers = TrustPeers::i_trust_every_writer_of_this_pool();

/// What the sender does, and so what the receiver is told.
pub(super) fn repair(remedy: Remedy) -> Repair {
    Repair {
        resend: (remedy == Remedy::Resend).then(Resend::default),
        parity: remedy.protection().map(|protection| Parity {
            shape: shape(),
            protection,
            payload_type: None,
        }),
    }
}

/// Sends everything, and again what is asked for as long as somebody may ask.
pub(in super::super) fn run(case: LossyCase, to: IpAddr) -> Result<Streamed, BenchError> {
    let (_root, node) = Root::make()?;
    let options = SendOptions {
        repair: repair(case.remedy),
        ..SendOptions::new(Identity::seeded(IDENTITIES[0]), TRUST)
    };
    let source = Numbered::new(u64::from(case.packets) + u64::from(TAIL_PACKETS));
    let mut session = SendSession::new(&node, Box::new(source), Box::new(Whole), options)?;
    let destination = SocketAddr::new(to, PORT);
    session
        .destinations()
        .add(destination, &DestinationOptions::default())?;
    let began = Instant::now();
    loop {
        match session.step(&mut |_| {})? {
            Step::Ended => break,
            Step::Wait(until_ns) => _ = session.wait(until_ns, None)?,
            Step::Again => {}
        }
    }
    let elapsed = began.elapsed();
    let lasting = BUFFER + 4 * DELAY;
    session.linger(
        monotonic_ns() + lasting.as_nanos() as u64,
        None,
        &mut |_| {},
    )?;
    let statistics = session.statistics();
    Ok(Streamed {
        packets: statistics.packets,
        resent: statistics.resent,
        parity: statistics.parity,
        refused: statistics.requests_refused,
        unsent: statistics.lost,
        elapsed_ns: elapsed.as_nanos() as u64,
    })
}

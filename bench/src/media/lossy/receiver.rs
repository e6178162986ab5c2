//! The product's receiver, as `hythe media recv` runs it, with a buffer of 200 ms.

use std::net::{IpAddr, SocketAddr};
use std::os::fd::AsFd;
use std::time::Duration;

use hythe_media::receive::repairer::Repairer;
use hythe_media::receive::session::{Session, Until, now_ns};
use hythe_media::receive::socket::{Binding, Sockets};
use hythe_media::receive::stream::{Settings, Stream};
use hythe_rtp::Identity;
use hythe_rtp::receive::requests::Limits;
use hythe_rtp::sdp::{Parity, Retransmission, StreamDescription};

use super::numbered::{Tally, Whole, format};
use super::sender::repair;
use super::{BUFFER, IDENTITIES, LossyCase, PORT, Taken};
use crate::error::BenchError;

/// A sender that is silent for so long is lost.
const SILENCE: Duration = Duration::from_secs(10);

/// Says that it is `ready`, and receives until there is an order on `orders`.
pub(in super::super) fn run(
    case: LossyCase,
    address: IpAddr,
    ready: impl FnOnce() -> Result<(), BenchError>,
    orders: impl AsFd,
) -> Result<Taken, BenchError> {
    let address = SocketAddr::new(address, PORT);
    let sockets = Sockets::open(&Binding {
        parity: true,
        ..Binding::new(address)
    })?;
    let description = describe(case, address);
    let settings = Settings {
        delay_ns: BUFFER.as_nanos() as u64,
        requests: description.takes_nack.then(Limits::default),
        ..Settings::default()
    };
    let (own, tally) = (
        Identity::seeded(IDENTITIES[1]),
        Tally::new(case.packets.into()),
    );
    let mut stream = Stream::new(settings, &description.format, &own, Whole, tally, now_ns());
    if let Some(repairer) = Repairer::new(&description) {
        stream = stream.with_repair(Box::new(repairer));
    }
    let until = Until {
        goodbye: false,
        idle: Some(SILENCE),
    };
    let mut session = Session::new(sockets, stream, until);
    ready()?;
    let (_, statistics) = session.run(Some(orders.as_fd()))?;
    Ok(Taken {
        late: statistics.late,
        repaired: statistics.recovered,
        repaired_by_parity: statistics.recovered_by_parity,
        requested: statistics.requested,
        dropped: statistics.kernel_drops.into(),
        ..session.stream().sink().taken()
    })
}

/// What a description of the stream would say.
fn describe(case: LossyCase, address: SocketAddr) -> StreamDescription {
    let repair = repair(case.remedy);
    let resent = repair.resend.as_ref();
    StreamDescription {
        takes_nack: resent.is_some(),
        retransmission: resent
            .and_then(|resend| resend.payload_type)
            .map(|payload_type| Retransmission {
                payload_type,
                time_ms: None,
            }),
        parity: repair
            .parity
            .map(|parity| Parity::Smpte2022(parity.shape, parity.protection)),
        ..StreamDescription::new(format(), address)
    }
}

//! What receivers say, and what is sent again for it.
//!
//! The [session](super::session) lets it read the RTCP that came, between two groups. Reports say
//! how a destination receives, requests are followed as far as a [`Resender`] of each destination
//! allows, and packets leave again straight from the slot that they are kept in. Between calls
//! nothing is pending but what lies in sockets.
//!
//! Whoever can write to our RTCP port may lie. Sockets of single destinations are connected, so the
//! kernel drops what others send; a call reads one datagram of each of a few destinations, and no
//! more once a request made it send. A destination takes memory for requests when it first makes
//! one.

use std::collections::BTreeMap;
use std::io::IoSlice;
use std::net::SocketAddr;

use hythe_rtp::loss::history::{History, Kept};
use hythe_rtp::loss::nack::{Askers, ResendCounts, Resender};
use hythe_rtp::loss::rtx::Method;
use hythe_rtp::receive::parsed_rtcp::{self, Reception, RtcpEvent};
use hythe_rtp::rtcp::ntp_timestamp;
use hythe_rtp::{HEADER_BYTES, Identity};

use crate::instant::unix_ns;
use crate::wire::destination::Destination;
use crate::wire::destinations::{DestinationId, Destinations};
use crate::wire::health::{Change, Event, QUIET};
use crate::wire::packets::VECTORS_MAX;
use crate::wire::run::PacketPlace;

use super::repair::Resend;
use super::store::Store;

/// A datagram is cut off here, and malformed then: it has to fit a packet of Ethernet.
const DATAGRAM_BYTES: usize = 2048;
/// A round trip that takes longer is a clock that was set, or a lie.
const ROUND_TRIP_MAX_NS: u64 = 1_000_000_000;
const SECOND_NS: u64 = 1_000_000_000;

/// Where a packet is kept.
#[derive(Clone, Copy, Debug)]
struct Place {
    number: u64,
    place: PacketPlace,
}

/// How a destination receives, as it says.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// Its last report on the stream.
    pub last: Reception,
    /// From a sender report to its answer, less the time that it lay there. None before the first
    /// such.
    pub round_trip_ns: Option<u64>,
    /// Reports so far.
    pub reports: u64,
}

/// One destination that spoke.
#[derive(Debug)]
struct Listener {
    received: Option<Received>,
    resender: Option<Resender>,
    /// The shortest round trip that it reported.
    least_trip_ns: Option<u64>,
    method: Method,
    /// Valid datagrams of RTCP.
    heard: u64,
    /// When its goodbye was last told.
    left_ns: Option<u64>,
}

/// What was said and done, all destinations together.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Counts {
    /// Datagrams of RTCP that are not understood.
    pub(super) malformed: u64,
    /// Packets sent again that the network took.
    pub(super) resent: u64,
    /// Packets asked for that were not sent again.
    pub(super) refused: u64,
}

/// The stream's bytes per second, for the share of it that may be sent again.
#[derive(Debug, Default)]
struct Rate {
    began_ns: u64,
    bytes: u64,
    last: Option<u64>,
}

impl Rate {
    fn sent(&mut self, bytes: u64, now_ns: u64) {
        if self.bytes == 0 && self.last.is_none() {
            self.began_ns = now_ns;
        }
        let elapsed_ns = now_ns.saturating_sub(self.began_ns);
        if elapsed_ns >= SECOND_NS {
            self.last = Some(per_second(self.bytes, elapsed_ns));
            (self.began_ns, self.bytes) = (now_ns, 0);
        }
        self.bytes += bytes;
    }

    fn bytes_per_second(&self, now_ns: u64) -> u64 {
        // In the first second what there is, but no more than ten times that.
        let elapsed_ns = now_ns.saturating_sub(self.began_ns).max(SECOND_NS / 10);
        self.last
            .unwrap_or_else(|| per_second(self.bytes, elapsed_ns))
    }
}

fn per_second(bytes: u64, elapsed_ns: u64) -> u64 {
    let rate = u128::from(bytes) * u128::from(SECOND_NS) / u128::from(elapsed_ns.max(1));
    u64::try_from(rate).unwrap_or(u64::MAX)
}

/// What packets are sent again from.
#[derive(Debug)]
struct Resending {
    options: Resend,
    history: History<Place>,
    rate: Rate,
}

/// The feedback on one stream.
#[derive(Debug)]
pub(super) struct Feedback {
    identity: Identity,
    listeners: BTreeMap<DestinationId, Listener>,
    resending: Option<Resending>,
    counts: Counts,
}

impl Feedback {
    pub(super) fn new(identity: &Identity, resend: Option<&Resend>) -> Self {
        let resending = resend.map(|options| {
            let keep_ns = u64::try_from(options.keep.as_nanos()).unwrap_or(u64::MAX);
            Resending {
                history: History::new(options.packets_max, keep_ns),
                options: options.clone(),
                rate: Rate::default(),
            }
        });
        Self {
            identity: *identity,
            listeners: BTreeMap::new(),
            resending,
            counts: Counts::default(),
        }
    }

    pub(super) fn counts(&self) -> Counts {
        self.counts
    }

    /// How a destination receives.
    pub(super) fn received(&self, id: DestinationId) -> Option<Received> {
        self.listeners.get(&id)?.received
    }

    /// How many datagrams of RTCP came from a destination that are valid: as long as they come, it
    /// is there.
    pub(super) fn heard(&self, id: DestinationId) -> u64 {
        self.listeners.get(&id).map_or(0, |listener| listener.heard)
    }

    /// What was sent again to a destination, and what it asked for in vain.
    pub(super) fn resends(&self, id: DestinationId) -> Option<ResendCounts> {
        let resender = self.listeners.get(&id)?.resender.as_ref();
        resender.map(Resender::counts)
    }

    /// The first packets that wait in `store` left.
    pub(super) fn sent(&mut self, store: &Store, places: &[PacketPlace], now_ns: u64) {
        let Some(resending) = &mut self.resending else {
            return;
        };
        for (index, place) in places.iter().enumerate() {
            resending.rate.sent(place.bytes.into(), now_ns);
            let kept = Kept {
                sequence: place.sequence,
                bytes: place.bytes,
                sent_ns: now_ns,
                place: Place {
                    number: store.number(index),
                    place: *place,
                },
            };
            resending.history.keep(kept, &mut |_| {});
        }
    }

    /// Forgets what is too old, and what is known by a number in front of `oldest`.
    pub(super) fn forget(&mut self, oldest: u64, now_ns: u64) {
        if let Some(resending) = &mut self.resending {
            let history = &mut resending.history;
            history.expire(now_ns, &mut |_| {});
            history.release_while(|kept| kept.place.number < oldest, &mut |_| {});
        }
    }

    /// Reads what receivers said, and does what they may ask for; whether there may be more.
    pub(super) fn read(
        &mut self,
        destinations: &mut Destinations,
        store: &Store,
        now_ns: u64,
        tell: &mut dyn FnMut(&Event),
    ) -> bool {
        let mut buffer = [0; DATAGRAM_BYTES];
        let before = self.counts.resent;
        let mut has_more = false;
        for id in destinations.with_rtcp() {
            let Some(destination) = destinations.by_id(id) else {
                continue;
            };
            has_more = true;
            if let Some((datagram, from)) = destination.receive_rtcp(&mut buffer) {
                self.hear(id, destination, (datagram, from), store, now_ns, tell);
            }
            if self.counts.resent > before {
                break;
            }
        }
        if self.listeners.len() > destinations.len() {
            self.listeners
                .retain(|id, _| destinations.by_id(*id).is_some());
        }
        has_more
    }

    /// Sends a packet again to all, though nobody asked, as a stream of its own. Where packets are
    /// sent again as they were nothing is: players that know nothing of repair would play it twice
    /// (ffmpeg does with the last one).
    pub(super) fn repeat(
        &mut self,
        header: &[u8; HEADER_BYTES],
        body: &[&[u8]],
        destinations: &mut Destinations,
    ) {
        let method = self.method();
        if method == Method::Plain {
            return;
        }
        let ids: Vec<DestinationId> = destinations.iter().map(|(id, _)| id).collect();
        for id in ids {
            let listener = self.listeners.entry(id);
            let listener = listener.or_insert_with(|| Listener::new(method));
            if let Some(destination) = destinations.by_id(id) {
                send_again(&mut listener.method, header, body, destination);
            }
        }
    }

    /// How packets are sent again to who has not been sent any.
    fn method(&self) -> Method {
        let options = self.resending.as_ref().map(|resending| &resending.options);
        options.map_or(Method::Plain, |options| options.method(&self.identity))
    }

    fn hear(
        &mut self,
        id: DestinationId,
        destination: &mut Destination,
        (datagram, from): (&[u8], SocketAddr),
        store: &Store,
        now_ns: u64,
        tell: &mut dyn FnMut(&Event),
    ) {
        let ssrc = self.identity.ssrc;
        let method = self.method();
        let listener = self
            .listeners
            .entry(id)
            .or_insert_with(|| Listener::new(method));
        let is_group = destination.address().ip().is_multicast();
        let mut has_left = false;
        let is_valid = parsed_rtcp::read(datagram, &mut |event| match event {
            RtcpEvent::Reception(reception) if reception.stream == ssrc => {
                listener.report(reception)
            }
            RtcpEvent::Goodbye { .. } => has_left = true,
            _ => {}
        });
        listener.heard += u64::from(is_valid && !has_left);
        // Members of a group come and go.
        if has_left && !is_group && listener.may_tell_goodbye(now_ns) {
            tell(&Event {
                destination: destination.address(),
                change: Change::Left,
            });
        }
        if let Some(resending) = &self.resending
            && parsed_rtcp::has_feedback(datagram)
        {
            let request = (datagram, from);
            let (resent, refused) =
                listener.answer(request, ssrc, resending, destination, store, now_ns);
            self.counts.resent += resent;
            self.counts.refused += refused;
        } else if !is_valid {
            self.counts.malformed += 1;
        }
    }
}

impl Listener {
    fn new(method: Method) -> Self {
        Self {
            received: None,
            resender: None,
            least_trip_ns: None,
            method,
            heard: 0,
            left_ns: None,
        }
    }

    fn report(&mut self, last: Reception) {
        let measured = round_trip_ns(&last, unix_ns());
        let before = self.received;
        self.least_trip_ns = self.least_trip_ns.into_iter().chain(measured).min();
        self.received = Some(Received {
            last,
            round_trip_ns: measured.or(before.and_then(|before| before.round_trip_ns)),
            reports: before.map_or(0, |before| before.reports) + 1,
        });
    }

    /// A receiver that says goodbye again and again is not told of each time.
    fn may_tell_goodbye(&mut self, now_ns: u64) -> bool {
        let is_new = self
            .left_ns
            .is_none_or(|left_ns| u128::from(now_ns.saturating_sub(left_ns)) > QUIET.as_nanos());
        if is_new {
            self.left_ns = Some(now_ns);
        }
        is_new
    }

    /// Sends again what a datagram asks for, as far as it may; how many packets left and how many
    /// were refused.
    fn answer(
        &mut self,
        (datagram, from): (&[u8], SocketAddr),
        ssrc: u32,
        resending: &Resending,
        destination: &mut Destination,
        store: &Store,
        now_ns: u64,
    ) -> (u64, u64) {
        let rate = resending.rate.bytes_per_second(now_ns);
        let history = &resending.history;
        let host = destination.address().ip();
        let askers = if host.is_multicast() {
            Askers::Group
        } else {
            Askers::Host(host)
        };
        let resender = self.resender.get_or_insert_with(|| {
            let limits = resending.options.limits;
            Resender::new(ssrc, askers, limits, rate, history.capacity())
        });
        resender.set_rate(rate, now_ns);
        // One member of a group is not as far away as another. A request comes again after a round
        // trip, which is measured too long where our report lay in the receiver's socket.
        if let (Some(least_ns), Askers::Host(_)) = (self.least_trip_ns, askers) {
            resender.set_round_trip(least_ns / 2);
        }
        let before = resender.counts();
        let mut resent = 0;
        let method = &mut self.method;
        resender.take(datagram, from.ip(), now_ns, history, &mut |kept| {
            let Place { number, place } = &kept.place;
            let sent = store.show(*number, place, |header, body| {
                send_again(method, header, body, destination)
            });
            resent += u64::from(sent == Some(true));
        });
        let refused = resender.counts().refused.total() - before.refused.total();
        (resent, refused)
    }
}

/// Sends a packet again from where it is kept; whether the network took it. Its header is ours,
/// without contributing sources, extension or padding, so all of its body is payload.
fn send_again(
    method: &mut Method,
    header: &[u8; HEADER_BYTES],
    body: &[&[u8]],
    destination: &mut Destination,
) -> bool {
    let Some(front) = method.packet(header) else {
        return false;
    };
    let mut parts = [IoSlice::new(&[]); VECTORS_MAX];
    let slices = front.slices();
    let count = slices.len() + body.len();
    let all = slices.iter().chain(body);
    parts
        .iter_mut()
        .zip(all)
        .for_each(|(part, slice)| *part = IoSlice::new(slice));
    destination.send_repair(&parts[..count.min(VECTORS_MAX)], 0, None)
}

/// RFC 3550, section 6.4.1: now, less when our report was written, less how long it lay there.
fn round_trip_ns(reception: &Reception, unix_ns: u64) -> Option<u64> {
    let now = (ntp_timestamp(unix_ns) >> 16) as u32;
    let elapsed = now.wrapping_sub(reception.last_sender_report);
    let trip_ns = (u64::from(elapsed.wrapping_sub(reception.delay)) * SECOND_NS) >> 16;
    (reception.last_sender_report != 0 && trip_ns <= ROUND_TRIP_MAX_NS).then_some(trip_ns)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn round_trip_is_that_of_the_example_in_rfc_3550() {
        // Figure 2: 6.125 s from the report to the arrival of its answer, which lay at the receiver
        // for 5.250 s of them.
        let reception = Reception {
            stream: 1,
            fraction_lost: 0,
            cumulative_lost: 0,
            jitter: 0,
            last_sender_report: (ntp_timestamp(100 * SECOND_NS) >> 16) as u32,
            delay: 0x0005_4000,
        };
        let at = |unix_ns| round_trip_ns(&reception, unix_ns);
        assert_eq!(at(106_125_000_000), Some(875_000_000));
        // A clock that was set back, and a lie.
        assert_eq!(at(100_000_000_000), None);
        assert_eq!(at(110_000_000_000), None);
        let never = Reception {
            last_sender_report: 0,
            ..reception
        };
        assert_eq!(round_trip_ns(&never, 106_125_000_000), None);
    }

    #[test]
    fn rate_is_that_of_the_second_before() {
        let mut rate = Rate::default();
        for ms in 0..2500_u64 {
            rate.sent(100, ms * 1_000_000);
        }
        assert_eq!(rate.bytes_per_second(2_500_000_000), 100_000);
        let mut young = Rate::default();
        young.sent(1000, 5 * SECOND_NS);
        assert_eq!(young.bytes_per_second(5 * SECOND_NS), 10_000);
        assert_eq!(Rate::default().bytes_per_second(7), 0);
    }
}

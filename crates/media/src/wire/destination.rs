//! One destination: sockets of its own, the [method](super::method) that its way allows, and a
//! count of all that happens.
//!
//! A sender gives each group of packets to each destination, mostly through
//! [`Destinations`](super::destinations::Destinations). What holds between calls: no packet is
//! pending or will be sent again, and the error queue has been read as far as it has mattered.
//!
//! A receiver that is not there, a full socket buffer or a network that is down is counted, not an
//! error: the stream goes on. Each change of state is told once. Never waits, never allocates on
//! the way of a packet, never sends a packet twice, never tries a call more often than a bound
//! says.

use std::io::IoSlice;
use std::net::{SocketAddr, UdpSocket};
use std::time::{Duration, Instant};

use hythe_sys::error_queue::{QueuedError, take_queued_error};
use hythe_sys::socket_option::unsent_bytes;
use rustix::io::Errno;

use super::departure::Departures;
use super::endpoint::{DestinationOptions, Endpoint};
use super::fallback::{MethodFallback, MethodReason};
use super::health::{Change, Event, Health, State};
use super::method::{Method, Refusal};
use super::packets::Packets;
use crate::MediaError;

/// How often one call is made when it fails for the sake of earlier packets: their answers may come
/// in while it is repeated.
const TRIES: usize = 3;

/// Most entries of the error queue that are read at a time; it holds a few hundred.
const QUEUE_READS_MAX: usize = 64;

/// How often the reports of a scheduler that drops packets are read. A socket holds some hundred.
const LOOK_AFTER: Duration = Duration::from_millis(10);

/// How long a destination out of reach waits before its socket is connected anew.
const RECONNECT_AFTER: Duration = Duration::from_secs(1);

/// What was sent and what was not. `packets` and `lost` together are all that were given.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct DestinationStatistics {
    /// RTP packets that the network took.
    pub packets: u64,
    /// Their bytes, from the RTP header on.
    pub bytes: u64,
    /// Packets that were dropped here, for whatever reason.
    pub lost: u64,
    /// System calls that sent or tried to.
    pub calls: u64,
    /// Times the destination's host said that nobody listens on the port (ICMP).
    pub refused: u64,
    /// Times the kernel, a router or the host said that the destination cannot be reached.
    pub unreachable: u64,
    /// Times the interface on the way was down.
    pub interface_down: u64,
    /// Times the socket's buffer or the interface's queue was full.
    pub overflows: u64,
    /// Packets that the path does not take at all.
    pub too_large: u64,
    /// RTCP packets that the network took.
    pub reports: u64,
    /// Packets sent again, and parity, that the network took.
    pub repairs: u64,
    /// Those that it did not.
    pub repairs_lost: u64,
    /// Packets that the scheduler dropped because it could not send them at their departure time:
    /// of [`lost`](Self::lost).
    pub missed: u64,
    /// How packets were last sent.
    pub method: Method,
    /// Why the way is not a better one.
    pub method_reason: MethodReason,
    /// How it stands, as far as all packets so far tell: a receiver that refused only the first of
    /// them is reachable.
    pub state: State,
}

/// Where one stream goes.
#[derive(Debug)]
pub struct Destination {
    endpoint: Endpoint,
    fallback: MethodFallback,
    health: Health,
    /// What was told last, so that only changes are.
    told: (Method, MethodReason),
    told_mtu: Option<u32>,
    told_missed: bool,
    /// Packets that counted as sent until the scheduler said that it dropped them.
    missed_later: u64,
    /// The call that failed last did so because its packets came too late for their time.
    refused_for_time: bool,
    /// When the scheduler's reports were last read.
    looked_at: Option<Instant>,
    connected_at: Option<Instant>,
    counts: DestinationStatistics,
}

/// What came of the first packets of a group.
enum Step {
    Sent(usize),
    Lost(usize),
    Full,
}

/// What a refusal means.
enum Verdict {
    /// This way of sending does not do it.
    OtherMethod,
    /// It will not go, and neither will this many packets.
    Lost(State, usize),
    TooLarge,
    /// The scheduler dropped so many, because they came too late for their time.
    TooLate(usize),
    Full,
}

impl Destination {
    /// Opens the sockets.
    ///
    /// # Errors
    ///
    /// [`MediaError::Destination`] for an address without a port for RTCP; [`MediaError::Socket`]
    /// if the kernel refuses a socket or an option, or knows no way there.
    pub fn open(address: SocketAddr, options: &DestinationOptions) -> Result<Self, MediaError> {
        let fallback = MethodFallback::new(options.method);
        let (method, method_reason) = fallback.method();
        Ok(Self {
            endpoint: Endpoint::open(address, options)?,
            fallback,
            health: Health::new(),
            told: (method, method_reason),
            told_mtu: None,
            told_missed: false,
            missed_later: 0,
            refused_for_time: false,
            looked_at: None,
            connected_at: None,
            counts: DestinationStatistics {
                packets: 0,
                bytes: 0,
                lost: 0,
                calls: 0,
                refused: 0,
                unreachable: 0,
                interface_down: 0,
                overflows: 0,
                too_large: 0,
                reports: 0,
                repairs: 0,
                repairs_lost: 0,
                missed: 0,
                method,
                method_reason,
                state: State::Reachable,
            },
        })
    }

    /// Where RTP goes.
    #[must_use]
    pub fn address(&self) -> SocketAddr {
        self.endpoint.address
    }

    /// The socket that sends RTP, to wait for free capacity with, and for what the receiver sends
    /// to its port.
    #[must_use]
    pub fn rtp_socket(&self) -> &UdpSocket {
        self.endpoint.rtp.socket()
    }

    /// The socket for RTCP; it never blocks, and is connected to the receiver's, unless that is a
    /// group whose members are heard.
    #[must_use]
    pub fn rtcp_socket(&self) -> &UdpSocket {
        &self.endpoint.rtcp
    }

    /// What was sent so far, how, and how it stands.
    #[must_use]
    pub fn statistics(&self) -> DestinationStatistics {
        let missed = self.missed_later.min(self.counts.packets);
        DestinationStatistics {
            packets: self.counts.packets - missed,
            lost: self.counts.lost + missed,
            method_reason: self.fallback.method().1,
            state: self.health.final_state(),
            ..self.counts
        }
    }

    /// Who heeds the departure times of packets, if they have any.
    #[must_use]
    pub fn departures(&self) -> &Departures {
        &self.endpoint.departures
    }

    /// Has this host packets of RTP that have not left it? One that does not say has none.
    pub(crate) fn is_holding(&self) -> bool {
        unsent_bytes(self.rtp_socket()).is_ok_and(|bytes| bytes > 0)
    }

    /// Finds out again who heeds departure times: routes or schedulers may have changed.
    pub(crate) fn find_scheduler(&mut self) {
        self.endpoint.find_scheduler();
    }

    /// Packets that a scheduler dropped; and of those, the ones that counted as sent until it said
    /// so.
    pub(crate) fn missed_packets(&self) -> (u64, u64) {
        (self.counts.missed, self.missed_later)
    }

    /// Packets that the network took and those that it did not so far, whatever a scheduler dropped
    /// of them later.
    pub(crate) fn totals(&self) -> (u64, u64) {
        (self.counts.packets, self.counts.lost)
    }

    /// Sends `packets` and says how many it is done with, sent or lost: all, or fewer if the
    /// socket's buffer is full. Then wait for free capacity and give it [those
    /// left](Packets::after), or [give them up](Self::give_up). What changed is added to `events`.
    pub fn send(&mut self, packets: &Packets<'_>, now: Instant, events: &mut Vec<Event>) -> usize {
        self.reconnect_if_due(now);
        self.look_for_missed(now, events);
        let mut done = 0;
        while done < packets.len() {
            let rest = packets.after(done);
            match self.step(&rest, now, events) {
                Step::Sent(count) => {
                    self.counts.packets += count as u64;
                    self.counts.bytes += rest.bytes(count);
                    done += count;
                }
                Step::Lost(count) => {
                    self.counts.lost += count as u64;
                    done += count;
                }
                Step::Full => break,
            }
        }
        done
    }

    /// `count` packets were dropped because there was no free capacity for them.
    pub fn give_up(&mut self, count: usize, now: Instant, events: &mut Vec<Event>) {
        self.counts.lost += count as u64;
        self.trouble(State::Full, now, events);
    }

    /// Sends one RTCP packet. One that does not go is not worth more than the next one.
    pub fn send_report(&mut self, report: &[u8]) -> bool {
        // A refusal is the answer to an earlier one.
        let (socket, to) = (&self.endpoint.rtcp, self.endpoint.rtcp_to);
        let went = (0..TRIES).any(|_| socket.send_to(report, to).is_ok());
        self.counts.reports += u64::from(went);
        went
    }

    /// Sends one datagram that repairs what was lost, in parts, to a port so many above that of
    /// RTP: at its departure, if it has one and the way heeds it, else at once. Like a report, it
    /// is not worth waiting for free capacity.
    pub(crate) fn send_repair(
        &mut self,
        parts: &[IoSlice<'_>],
        ports_above: u16,
        departure_ns: Option<u64>,
    ) -> bool {
        let mut elsewhere = self.address();
        let port = elsewhere.port().checked_add(ports_above);
        elsewhere.set_port(port.unwrap_or(0)); // which the kernel refuses
        let elsewhere = (ports_above > 0).then_some(elsewhere);
        let rtp = &mut self.endpoint.rtp;
        let went = (0..TRIES).any(|_| rtp.send_datagram(parts, elsewhere, departure_ns).is_ok());
        self.counts.repairs += u64::from(went);
        self.counts.repairs_lost += u64::from(!went);
        went
    }

    /// Lets the RTCP of a group's members in.
    pub(crate) fn hear_members(&self) -> std::io::Result<()> {
        self.endpoint.hear_members()
    }

    /// Takes one datagram of RTCP that waits; it is cut off if it is longer than `buffer`. None:
    /// nothing waits, or an answer to a report that nobody wanted (ICMP).
    pub(crate) fn receive_rtcp<'b>(&self, buffer: &'b mut [u8]) -> Option<(&'b [u8], SocketAddr)> {
        let (bytes, from) = self.endpoint.rtcp.recv_from(buffer).ok()?;
        Some((&buffer[..bytes], from))
    }

    /// One call that sends, or as many as it takes to find out how.
    fn step(&mut self, packets: &Packets<'_>, now: Instant, events: &mut Vec<Event>) -> Step {
        let mut chosen = self.fallback.choose(packets, now);
        let mut method = chosen;
        let mut first_refusal = None;
        let mut tries = 1;
        loop {
            self.counts.calls += 1;
            let refusal = match self.endpoint.rtp.send_some(method, packets) {
                Ok(count) => {
                    self.counts.method = method;
                    if let (Some(errno), true) = (first_refusal, method != chosen) {
                        self.fallback.fall_back(method, chosen, errno, now);
                    }
                    self.sent(method, now, events);
                    return Step::Sent(count);
                }
                Err(refusal) => refusal,
            };
            let was_answered = self.read_answers(now, events);
            if tries < TRIES && is_about_earlier(refusal.errno, was_answered) {
                tries += 1;
                continue;
            }
            match self.judge(method, packets, refusal) {
                Verdict::OtherMethod => match self.fallback.lower(method) {
                    Some(lower) => {
                        first_refusal.get_or_insert(refusal.errno);
                        method = lower;
                    }
                    None => {
                        // No method does it, so it is not the method: the first reason is the one
                        // to tell.
                        let errno = first_refusal.unwrap_or(refusal.errno);
                        self.counts.unreachable += 1;
                        self.trouble(State::Unreachable { errno }, now, events);
                        return Step::Lost(packets.len());
                    }
                },
                Verdict::TooLarge => {
                    if !self.limit(method, packets, now, events) {
                        self.counts.too_large += refusal.packets as u64;
                        return Step::Lost(refusal.packets);
                    }
                    chosen = self.fallback.choose(packets, now);
                    method = chosen;
                }
                Verdict::Lost(state, count) => {
                    self.trouble(state, now, events);
                    return Step::Lost(count);
                }
                Verdict::TooLate(count) => return Step::Lost(count),
                Verdict::Full => return Step::Full,
            }
        }
    }

    fn judge(&mut self, method: Method, packets: &Packets<'_>, refusal: Refusal) -> Verdict {
        let errno = refusal.errno;
        match errno {
            Errno::AGAIN => {
                self.counts.overflows += 1;
                Verdict::Full
            }
            // Reported before, and no sign of congestion.
            Errno::NOBUFS if std::mem::take(&mut self.refused_for_time) => {
                Verdict::TooLate(refusal.packets)
            }
            Errno::NOBUFS | Errno::NOMEM => {
                // Some of a run may have passed the interface's queue before it was full, so none
                // is sent again.
                self.counts.overflows += 1;
                Verdict::Lost(State::Full, refusal.packets)
            }
            Errno::CONNREFUSED => Verdict::Lost(State::Refused, packets.len()),
            Errno::NETDOWN | Errno::NODEV | Errno::NXIO => {
                self.counts.interface_down += 1;
                Verdict::Lost(State::InterfaceDown, packets.len())
            }
            Errno::NETUNREACH | Errno::HOSTUNREACH | Errno::HOSTDOWN | Errno::ACCESS => {
                self.counts.unreachable += 1;
                Verdict::Lost(State::Unreachable { errno }, packets.len())
            }
            _ if self.exceeds_path(method, packets, errno) => Verdict::TooLarge,
            _ => Verdict::OtherMethod,
        }
    }

    /// Is it the packet that `errno` is about? A send that is segmented says so with `EMSGSIZE`,
    /// before Linux 6.14 with `EINVAL`; others only if the packet cannot be fragmented.
    fn exceeds_path(&self, method: Method, packets: &Packets<'_>, errno: Errno) -> bool {
        let bytes = packets.places().first().map_or(0, |first| first.bytes);
        let limit = self.endpoint.path_limit();
        let is_larger = limit.is_some_and(|(packet, _)| bytes > packet);
        match errno {
            Errno::MSGSIZE => is_larger || !method.segments(),
            Errno::INVAL => is_larger && method.segments(),
            _ => false,
        }
    }

    /// Remembers that the path does not take packets this large in one piece; whether another
    /// method may get them through.
    fn limit(
        &mut self,
        method: Method,
        packets: &Packets<'_>,
        now: Instant,
        events: &mut Vec<Event>,
    ) -> bool {
        let (packet, mtu_bytes) = self.endpoint.path_limit().unwrap_or_default();
        if self.told_mtu.replace(mtu_bytes) != Some(mtu_bytes) {
            let bytes = packets.places().first().map_or(0, |first| first.bytes);
            self.tell(Change::TooLarge { bytes, mtu_bytes }, events);
        }
        method.segments() && self.fallback.limit_segments(packet, now)
    }

    /// Reads what hosts and routers answered; whether they did.
    fn read_answers(&mut self, now: Instant, events: &mut Vec<Event>) -> bool {
        let mut was_answered = false;
        for _ in 0..QUEUE_READS_MAX {
            let Ok(Some(queued)) = take_queued_error(self.endpoint.rtp.socket()) else {
                break;
            };
            // What this host refuses is told by the call, too.
            match queued {
                QueuedError::Icmp { code, .. } => {
                    was_answered = true;
                    self.answered(Errno::from_raw_os_error(code), now, events);
                }
                QueuedError::Departure {
                    departure_ns,
                    was_missed,
                } => {
                    self.missed(departure_ns, was_missed, events);
                }
                _ => {}
            }
        }
        was_answered
    }

    /// The scheduler dropped what was to leave then.
    fn missed(&mut self, departure_ns: u64, was_late: bool, events: &mut Vec<Event>) {
        // A datagram that repairs has a time, too, and is not counted.
        let Some(given) = self.endpoint.rtp.missed(departure_ns) else {
            return;
        };
        self.counts.missed += u64::from(given.packets);
        if given.was_refused {
            self.refused_for_time = true;
        } else {
            self.missed_later += u64::from(given.packets);
        }
        if !std::mem::replace(&mut self.told_missed, true) {
            self.tell(Change::Missed { was_late }, events);
        }
    }

    /// Reads now and then which packets the scheduler dropped: it says so long after they were
    /// sent.
    fn look_for_missed(&mut self, now: Instant, events: &mut Vec<Event>) {
        let since = self.looked_at;
        let is_soon = since.is_some_and(|at| now.saturating_duration_since(at) < LOOK_AFTER);
        if !self.endpoint.rtp.may_miss_departures() || is_soon {
            return;
        }
        self.looked_at = Some(now);
        self.read_answers(now, events);
    }

    /// Reads all that came in reply to packets, at the end of a stream.
    pub(crate) fn settle(&mut self, now: Instant, events: &mut Vec<Event>) {
        self.read_answers(now, events);
    }

    fn answered(&mut self, errno: Errno, now: Instant, events: &mut Vec<Event>) {
        match errno {
            Errno::CONNREFUSED => {
                self.counts.refused += 1;
                self.trouble(State::Refused, now, events);
            }
            Errno::MSGSIZE => {} // the kernel has taken note of the path's new MTU
            errno => {
                self.counts.unreachable += 1;
                self.trouble(State::Unreachable { errno }, now, events);
            }
        }
    }

    fn sent(&mut self, method: Method, now: Instant, events: &mut Vec<Event>) {
        let before = self.health.state();
        if let Some(state) = self.health.sent(now) {
            self.tell(Change::State(state), events);
            if matches!(before, State::InterfaceDown | State::Unreachable { .. }) {
                self.fallback.forget();
            }
        }
        let (settled, reason) = self.fallback.method();
        if settled == method && settled != self.told.0 {
            self.told = (settled, reason);
            self.tell(
                Change::Method {
                    method: settled,
                    reason,
                },
                events,
            );
        }
    }

    fn trouble(&mut self, state: State, now: Instant, events: &mut Vec<Event>) {
        if let Some(state) = self.health.troubled(state, now) {
            self.tell(Change::State(state), events);
        }
    }

    fn tell(&self, change: Change, events: &mut Vec<Event>) {
        events.push(Event {
            destination: self.endpoint.address,
            change,
        });
    }

    fn reconnect_if_due(&mut self, now: Instant) {
        if !matches!(
            self.health.state(),
            State::InterfaceDown | State::Unreachable { .. }
        ) {
            self.connected_at = None;
            return;
        }
        let since = *self.connected_at.get_or_insert(now);
        if now.saturating_duration_since(since) >= RECONNECT_AFTER {
            self.connected_at = Some(now);
            // A failure shows in the next send, and is counted there.
            let _ = self.endpoint.reconnect();
        }
    }
}

/// Is an error the answer to earlier packets, so that the call it came from has sent nothing?
/// `was_answered`: hosts or routers have said something meanwhile.
fn is_about_earlier(errno: Errno, was_answered: bool) -> bool {
    match errno {
        // Known without their words: the kernel passes the error on when its queue of them is full,
        // too.
        Errno::CONNREFUSED | Errno::INTR => true,
        // These are about the packets at hand, and part of a run may be gone where the interface's
        // queue was full.
        Errno::AGAIN | Errno::NOBUFS | Errno::NOMEM => false,
        _ => was_answered,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn call_of_which_a_part_may_have_gone_is_never_repeated() {
        for errno in [Errno::AGAIN, Errno::NOBUFS, Errno::NOMEM] {
            assert!(!is_about_earlier(errno, true), "{errno}");
        }
        assert!(is_about_earlier(Errno::HOSTUNREACH, true));
        assert!(!is_about_earlier(Errno::HOSTUNREACH, false));
        assert!(is_about_earlier(Errno::CONNREFUSED, false));
    }
}

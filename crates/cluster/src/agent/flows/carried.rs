//! What carries flows, as their processes say, for people; and which `AF_XDP` sockets those are
//! asked to use.

use hythe_flows::message::{FramesUse, FromAgent, Transport, WirePlace};

use super::Link;
use crate::status::{Direction, FlowCopies};

/// What carries a flow at this host's end.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) struct Carried {
    transport: Transport,
    has_frames: bool,
    /// What its process was asked to use.
    wire: Option<WirePlace>,
    /// What it uses.
    frames: Option<FramesUse>,
    /// Why that is not what was asked for; empty: it is.
    reason: String,
}

impl Carried {
    /// A flow by this transport over that link, before its process has said anything.
    pub(super) fn of(transport: Transport, link: &Link) -> Self {
        Self {
            transport,
            has_frames: transport == Transport::Tcp && link.frames().is_ok(),
            wire: None,
            frames: None,
            reason: String::new(),
        }
    }

    /// Is its process to open a UDP socket for frames?
    pub(super) const fn has_frames(&self) -> bool {
        self.has_frames
    }

    /// The port of a UDP socket for frames of either end, as far as the flow has them; else 0.
    pub(super) const fn frame_port(&self, port: u16) -> u16 {
        match self.has_frames {
            true => port,
            false => 0,
        }
    }

    /// What to say to its process, if another program serves the link's interface than before.
    pub(super) fn carry(&mut self, flow: u32, link: &Link) -> Option<FromAgent> {
        let wire = link.wire().filter(|_| self.has_frames);
        if self.wire == wire {
            return None;
        }
        self.wire.clone_from(&wire);
        Some(FromAgent::Carry { flow, wire })
    }

    /// Its process uses that from now on.
    pub(super) fn use_frames(&mut self, frames: Option<FramesUse>, reason: &str) {
        self.frames = frames;
        reason.clone_into(&mut self.reason);
    }

    /// Why nothing better carries it; empty: nothing does.
    fn reason(&self, direction: Direction, link: &Link) -> String {
        // Of frames that are used it says why payload is copied into them.
        let matters = direction == Direction::Sending || self.frames.is_none();
        match self.transport {
            Transport::Tcp if self.has_frames && matters => self.reason.clone(),
            Transport::Tcp if !self.has_frames && link.wire().is_some() => {
                link.frames().err().unwrap_or_default()
            }
            Transport::Tcp | Transport::Tls => String::new(),
        }
    }

    /// How often the CPUs of this host copy each byte of payload: the most of the TCP connection
    /// and of frames.
    const fn copies(&self, direction: Direction) -> FlowCopies {
        match (self.transport, self.frames, direction) {
            // Sealed from the slot, and into the socket.
            (Transport::Tls, _, Direction::Sending) => FlowCopies::of(1, 1, 1),
            // Out of it, into the TLS library, out of that, and into the slot.
            (Transport::Tls, _, Direction::Receiving) => FlowCopies::of(1, 3, 3),
            // From the slot into the socket.
            (Transport::Tcp, None, Direction::Sending) => FlowCopies::of(1, 0, 0),
            // Into the slot, where it is not short.
            (Transport::Tcp, None, Direction::Receiving) => FlowCopies::of(1, 0, 1),
            // Into a chunk, unless it leaves from its slot.
            (Transport::Tcp, Some(frames), Direction::Sending) => match frames.sends_from_slots {
                true => FlowCopies::of(1, 0, 1),
                false => FlowCopies::of(1, 1, 1),
            },
            // Out of a chunk, and into the slot.
            (Transport::Tcp, Some(_), Direction::Receiving) => FlowCopies::of(1, 2, 2),
        }
    }
}

/// What carries a channel, and why nothing better does.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub(super) struct Carriage {
    pub(super) flows: u32,
    /// The most of its flows; none: there is none.
    pub(super) copies: FlowCopies,
    /// Empty: nothing but the stream.
    pub(super) carrier: String,
    pub(super) reason: String,
}

impl Carriage {
    /// That of flows that carry; `waiting` says why there is none.
    pub(super) fn of<'a>(
        (direction, link): (Direction, &Link),
        flows: impl IntoIterator<Item = &'a Carried>,
        waiting: impl FnOnce() -> String,
    ) -> Self {
        let flows: Vec<&Carried> = flows.into_iter().collect();
        let has = |transport| flows.iter().any(|flow| flow.transport == transport);
        let has_frames = flows.iter().any(|flow| flow.frames.is_some());
        let names = [
            (has(Transport::Tls), "tls"),
            (has(Transport::Tcp), "tcp"),
            (has_frames, "xdp"),
        ];
        let names = names.into_iter().filter(|(is_used, _)| *is_used);
        let carrier = names.map(|(_, name)| name).collect::<Vec<_>>().join(", ");
        let reason = match flows.is_empty() {
            true => waiting(),
            false => {
                let mut reasons = flows.iter().map(|flow| flow.reason(direction, link));
                reasons.find(|it| !it.is_empty()).unwrap_or_default()
            }
        };
        Self {
            // Fits: at most `FLOWS_MAX`.
            flows: flows.len() as u32,
            copies: flows
                .iter()
                .map(|flow| flow.copies(direction))
                .fold(FlowCopies::default(), FlowCopies::most),
            carrier,
            reason,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::ConnectionPath;

    /// A link that both users trust.
    fn link(allows_frames: bool) -> Link {
        let path = ConnectionPath {
            local: [10, 0, 0, 1].into(),
            peer: [10, 0, 0, 2].into(),
        };
        let trusted = ["y".to_owned()];
        let interface = |_| Some("y".to_owned());
        let link = Link::of((&trusted, allows_frames), Some(path), interface);
        link.trust_there(Some(path.peer));
        link
    }

    fn flow(transport: Transport, link: &Link) -> Carried {
        Carried::of(transport, link)
    }

    fn with_frames(sends_from_slots: bool) -> Carried {
        let mut flow = flow(Transport::Tcp, &link(true));
        let frames = FramesUse { sends_from_slots };
        flow.use_frames(Some(frames), "it is copied");
        flow
    }

    #[test]
    fn channel_shows_all_that_carries_it_and_what_is_missing() {
        let link = link(true);
        let shown = |direction, flows: &[Carried]| {
            let waiting = || "nobody asks".to_owned();
            let carriage = Carriage::of((direction, &link), flows, waiting);
            (carriage.flows, carriage.carrier, carriage.reason)
        };
        let expected =
            |flows, carrier: &str, reason: &str| (flows, carrier.to_owned(), reason.to_owned());
        let sending = |flows: &[Carried]| shown(Direction::Sending, flows);
        assert_eq!(sending(&[]), expected(0, "", "nobody asks"));
        let [tls, tcp] = [Transport::Tls, Transport::Tcp].map(|one| flow(one, &link));
        assert_eq!(sending(std::slice::from_ref(&tls)), expected(1, "tls", ""));
        assert_eq!(sending(std::slice::from_ref(&tcp)), expected(1, "tcp", ""));
        let xdp = with_frames(true);
        let why = "it is copied";
        assert_eq!(
            sending(std::slice::from_ref(&xdp)),
            expected(1, "tcp, xdp", why)
        );
        let mut refused = tcp;
        refused.use_frames(None, "no program");
        assert_eq!(
            shown(Direction::Receiving, &[xdp, refused, tls]),
            expected(3, "tls, tcp, xdp", "no program")
        );
    }

    #[test]
    fn flow_without_frames_says_why_where_interface_is_served() {
        let link = link(false);
        let flow = flow(Transport::Tcp, &link);
        assert!(!flow.has_frames());
        assert_eq!(flow.frame_port(5), 0);
        let reason = || {
            let of = (Direction::Receiving, &link);
            Carriage::of(of, [&flow], String::new).reason
        };
        assert_eq!(reason(), "");
        link.serve(Some(7));
        assert!(reason().contains("--no-xdp"), "{}", reason());
        assert_eq!(flow.clone().carry(1, &link), None);
    }

    #[test]
    fn process_is_asked_when_another_program_serves_interface() {
        let link = link(true);
        let mut flow = flow(Transport::Tcp, &link);
        assert!(flow.has_frames());
        assert_eq!(flow.frame_port(5), 5);
        let asked = |flow: &mut Carried| match flow.carry(9, &link)? {
            FromAgent::Carry { flow: 9, wire } => Some(wire.map(|wire| wire.instance)),
            other => panic!("{other:?}"),
        };
        assert_eq!(asked(&mut flow), None, "nothing serves it");
        for instance in [Some(7), Some(8), None] {
            link.serve(instance);
            assert_eq!(asked(&mut flow), Some(instance));
            assert_eq!(asked(&mut flow), None, "it knows that one");
        }
        let mut sealed = Carried::of(Transport::Tls, &link);
        link.serve(Some(7));
        assert!(!sealed.has_frames());
        assert_eq!(asked(&mut sealed), None);
    }

    #[test]
    fn copies_are_those_of_tcp_and_of_frames_beside_it() {
        let link = link(true);
        let copies = |flows: &[Carried]| {
            [Direction::Sending, Direction::Receiving].map(|direction| {
                let copies = Carriage::of((direction, &link), flows, String::new).copies;
                let FlowCopies {
                    by_kernel,
                    by_program,
                    by_program_elsewhere,
                } = copies;
                (by_kernel, by_program, by_program_elsewhere)
            })
        };
        assert_eq!(copies(&[]), [(0, 0, 0); 2]);
        let [tls, tcp] = [Transport::Tls, Transport::Tcp].map(|one| flow(one, &link));
        // By the kernel, by the program, and by that where payload is in no slot to send from.
        for (flow, expected) in [
            (&tcp, [(1, 0, 0), (1, 0, 1)]),
            (&tls, [(1, 1, 1), (1, 3, 3)]),
            (&with_frames(false), [(1, 1, 1), (1, 2, 2)]),
            (&with_frames(true), [(1, 0, 1), (1, 2, 2)]),
        ] {
            assert_eq!(copies(std::slice::from_ref(flow)), expected, "{flow:?}");
        }
        // Of several flows the most.
        let all = [tcp, with_frames(true), with_frames(false)];
        assert_eq!(copies(&all), [(1, 1, 1), (1, 2, 2)]);
    }
}

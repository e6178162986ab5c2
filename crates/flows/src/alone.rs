//! Flows that go on though no agent looks after them.
//!
//! An agent that is killed takes its sessions along, and the ports that stood for other hosts; the
//! tasks' own sockets stay. So a flow goes on until its publisher finds the next port of the other
//! host on its channel: then it finishes what is on its way, and the publisher sends by that port,
//! and asks the new agent for a flow as ever. Until then nobody can withdraw a right, so it does
//! not go on for longer than [`SENDING`].

use std::time::Duration;

use hythe_node::hop::{HopPool as _, Participant};
use hythe_pool::{ChannelIndex, MemberInfo, MemberKind, PortInfo, PortKind};

use crate::flow::{HostEnd, ReceivingFlow, SendingFlow};

/// Agents are waited for so long.
const SENDING: Duration = Duration::from_secs(60);
/// What its publisher sent until then still arrives.
const RECEIVING: Duration = Duration::from_secs(70);
/// Why a flow is over that went on for so long.
const WHY: &str = "the agents of the two hosts did not meet again";

/// Ports of this kind that stand for other hosts on a channel.
pub(crate) fn host_ports(
    participant: &Participant,
    channel: ChannelIndex,
    kind: PortKind,
) -> impl Iterator<Item = PortInfo> {
    let tables = participant.pool().control().tables();
    tables
        .ports_of_channel(channel)
        .filter(move |port| port.kind == kind)
        .filter(move |port| tables.member_kind(port.member) == Some(MemberKind::Host))
}

impl HostEnd {
    /// That of a port, if it stands for a host.
    pub(crate) fn of(participant: &Participant, port: PortInfo) -> Option<Self> {
        let owner = participant.pool().control().tables().member(port.member)?;
        let name = owner.name;
        Some(Self { port, name })
    }

    /// Does the port stand for this host, whichever agent opened it?
    pub(crate) fn has(&self, participant: &Participant, port: &PortInfo) -> bool {
        let owner = participant.pool().control().tables().member(port.member);
        owner.is_some_and(|owner| owner.name == self.name)
    }

    /// Its ports that take what is published on the channel.
    pub(crate) fn ports(&self, participant: &Participant) -> Vec<PortInfo> {
        let mut ports: Vec<PortInfo> =
            host_ports(participant, self.port.channel, PortKind::Subscriber).collect();
        ports.retain(|port| self.has(participant, port));
        ports
    }

    /// Has it another port than the one before? That may still seem open when its agent is dead.
    fn has_returned(&self, participant: &Participant) -> bool {
        let owner = |port: &PortInfo| (port.member, port.session);
        let mut ports = self.ports(participant).into_iter();
        ports.any(|port| owner(&port) != owner(&self.port))
    }
}

impl ReceivingFlow {
    /// Has the publisher's host met this one again? Then its publisher goes over to the agents,
    /// whose port is there no sooner than something comes by it. What came by the flow was sent
    /// before that, and nobody may have said that it is over.
    fn is_succeeded(&self, participant: &Participant) -> bool {
        let host = &self.host;
        let is_later = |member: &MemberInfo| {
            member.kind == MemberKind::Host
                && member.name == host.name
                && (member.index, member.session) != (host.index, host.session)
        };
        let mut members = participant.pool().control().tables().members();
        self.is_alone() && members.any(|member| is_later(&member))
    }

    /// Ends in good order what is succeeded.
    pub(crate) fn look_for_successor(&self, participant: &Participant) {
        if !self.is_finishing() && self.is_succeeded(participant) {
            self.finish();
        }
    }
}

/// Looks after a publisher's flow that is alone, in the place of its agent.
pub(crate) fn look_after_sending(participant: &Participant, flow: &SendingFlow, now_ns: u64) {
    let Some(alone_ns) = flow.alone_ns(now_ns) else {
        return;
    };
    if flow.is_over() || u128::from(alone_ns) >= SENDING.as_nanos() {
        flow.end(now_ns, WHY);
        flow.let_return();
    } else if flow.host.has_returned(participant) {
        flow.finish(now_ns);
    }
}

/// Looks after a subscriber's flow that is alone.
pub(crate) fn look_after_receiving(participant: &Participant, flow: &ReceivingFlow, now_ns: u64) {
    let alone_ns = flow.alone_ns(now_ns);
    flow.look_for_successor(participant);
    if alone_ns.is_some_and(|alone_ns| u128::from(alone_ns) >= RECEIVING.as_nanos()) {
        flow.end(now_ns, WHY);
    }
}

#[cfg(test)]
mod tests {
    use hythe_node::{PublisherOptions, SubscriberOptions, hop};
    use hythe_pool::PortPolicy;

    use super::*;
    use crate::fixture::{self, Fixture};
    use crate::flow::FlowId;

    const SECOND_NS: u64 = 1_000_000_000;

    fn sending(host: HostEnd) -> SendingFlow {
        let (half, _) = fixture::sending(8);
        let port = host.port;
        SendingFlow::new(FlowId { number: 1, port }, host, (0, 1 << 20), half)
    }

    /// A port that stands for a host.
    fn host_port(fixture: &Fixture, name: &str) -> (hythe_node::Subscriber, HostEnd) {
        let host = hop::join_host(fixture.node.pool(), name, &[]).expect("joins");
        let subscriber = host.subscriber("channel", &SubscriberOptions::default());
        let mut ports = fixture.participant().pool().control().tables().ports();
        let port = ports
            .find(|port| port.member == host.index())
            .expect("open");
        let end = HostEnd::of(fixture.participant(), port).expect("a host's");
        (subscriber.expect("opens"), end)
    }

    #[test]
    fn flow_without_agents_ends_boundedly() {
        let fixture = Fixture::new();
        let (_port, host) = host_port(&fixture, "b");
        let participant = fixture.participant();
        let flow = sending(host.clone());
        flow.go(SECOND_NS);
        flow.go_alone(SECOND_NS);
        look_after_sending(participant, &flow, 60 * SECOND_NS);
        assert!(!flow.is_over() && !flow.is_finishing());
        look_after_sending(participant, &flow, 61 * SECOND_NS);
        assert_eq!(flow.take_end(), Some((WHY.to_owned(), 0)));
        assert!(flow.is_closed(), "its port goes by what there is");
        // What it would send waits for a word of the agent.
        let early = sending(host);
        early.go_alone(SECOND_NS);
        assert!(early.is_over() && early.is_closed());
    }

    #[test]
    fn flow_without_agents_ends_when_host_has_new_port() {
        let fixture = Fixture::new();
        let (port, host) = host_port(&fixture, "b");
        let participant = fixture.participant();
        let flow = sending(host);
        flow.go(0);
        flow.go_alone(0);
        let (_other, _) = host_port(&fixture, "c");
        look_after_sending(participant, &flow, 1);
        assert!(!flow.is_finishing(), "that is another host");
        drop(port);
        look_after_sending(participant, &flow, 2);
        assert!(!flow.is_finishing(), "there is none");
        let (_port, _) = host_port(&fixture, "b");
        look_after_sending(participant, &flow, 3);
        assert!(flow.is_finishing() && flow.is_closed());
    }

    #[test]
    fn subscriber_outlives_publisher_of_flow_boundedly() {
        let fixture = Fixture::new();
        let options = PublisherOptions::default();
        let _publisher = fixture.node.publisher("channel", &options).expect("opens");
        let participant = fixture.participant();
        let port = participant.pool().control().tables().ports().next();
        let port = port.expect("open");
        let limits = (8, PortPolicy::DropNewest);
        let (half, _publisher) = fixture::receiving(&fixture, limits, 8);
        let id = FlowId { number: 1, port };
        let member = participant.pool().control().tables().member(port.member);
        let flow = ReceivingFlow::new(id, member.expect("there"), half);
        flow.go_alone(SECOND_NS);
        look_after_receiving(
            participant,
            &flow,
            1 + SENDING.as_nanos() as u64 + SECOND_NS,
        );
        assert_eq!(flow.over(), None);
        let end_ns = SECOND_NS + RECEIVING.as_nanos() as u64;
        look_after_receiving(participant, &flow, end_ns);
        // What was sent just before may be on its way.
        flow.help(end_ns + SECOND_NS);
        assert_eq!(flow.over().as_deref(), Some(WHY));
    }
}

//! Starting a core: its process, its doorbell, the meeting over the link, its endpoints behind
//! channels.

use std::time::{Duration, Instant};

use hythe_abi::core_services::{ENDPOINT, MESSAGES_ENDPOINT, TYPE_HASH};
use hythe_abi::link::{CoreState, Direction, EndpointKind};
use hythe_node::hop::{self, HopNode as _, HopPool as _};
use hythe_node::{ChannelIndex, ChannelKind, ChannelType, CoreBinding, Node, NodeError, PoolError};
use rustix::event::{PollFd, PollFlags};

use crate::doorbell::{Doorbell, Entrance};
use crate::link::{EndpointRecord, LinkMap};
use crate::manifest::DoorbellKind;
use crate::process::Process;
use crate::watched::{Ended, Watched, poll_for};
use crate::{CoreError, services};

/// How often the link is looked at without being rung for.
const LOOK: Duration = Duration::from_millis(5);
/// How often to try to put an endpoint behind a channel that comes and goes.
const TRIES: usize = 100;

/// An endpoint of a running core, behind its channel.
#[derive(Clone, Debug)]
pub(crate) struct Endpoint {
    pub(crate) channel: ChannelIndex,
    pub(crate) name: String,
    pub(crate) binding: CoreBinding,
    /// Its core asks its agent over it.
    pub(crate) is_for_agent: bool,
}

/// Waits until the core has connected its doorbell.
pub(crate) fn connect(
    watched: &mut Watched<'_>,
    process: &mut Process,
    (entrance, kind): (&Entrance, DoorbellKind),
    deadline: Instant,
) -> Result<Doorbell, Ended> {
    loop {
        if let Some(doorbell) = entrance.accept(process.identity.pid, kind)? {
            return Ok(doorbell);
        }
        let entry = PollFd::new(&entrance.listener, PollFlags::IN);
        poll_for(
            watched,
            process,
            Some(entry),
            LOOK.max(Duration::from_millis(20)),
        )?;
        watched.check(deadline, "connect its doorbell")?;
    }
}

/// Waits until the core has answered the session.
pub(crate) fn meet(
    watched: &mut Watched<'_>,
    process: &mut Process,
    doorbell: &Doorbell,
    link: &LinkMap,
    session: u32,
    deadline: Instant,
) -> Result<(), Ended> {
    loop {
        let status = link.status();
        if status.is_up() {
            return Ok(());
        }
        if status.state == CoreState::Refused && status.echo == session {
            let reason = match status.reason {
                1 => "it speaks another version of the link".to_owned(),
                2 => "the link's geometry does not fit its memory".to_owned(),
                3 => "it has more endpoints than the link has room for".to_owned(),
                other => format!("reason {other}"),
            };
            let board = watched.board.to_owned();
            return Err(CoreError::Refused { board, reason }.into());
        }
        doorbell.ring();
        let rung = PollFd::from_borrowed_fd(doorbell.as_fd(), PollFlags::IN);
        if poll_for(watched, process, Some(rung), LOOK)? {
            doorbell.drain();
        }
        watched.check(deadline, "answer over its link")?;
    }
}

/// What a core and its channels are called.
pub(crate) struct Names<'a> {
    pub(crate) core: &'a str,
    /// The name was given to it: then it is in front of those of its channels.
    pub(crate) has_own_channels: bool,
}

impl Names<'_> {
    fn channel(&self, endpoint: &str) -> String {
        if self.has_own_channels {
            format!("{}/{endpoint}", self.core)
        } else {
            endpoint.to_owned()
        }
    }
}

/// Gives each endpoint its row, and puts them behind channels of their names: all of them, or none.
pub(crate) fn bind(
    node: &Node,
    names: &Names<'_>,
    process: &Process,
    link: &LinkMap,
) -> Result<Vec<Endpoint>, CoreError> {
    let records = link.status().endpoints;
    refuse_repeated(names, &records)?;
    for record in &records {
        refuse_if_taken(node, names, &names.channel(&record.name))?;
    }
    let mut endpoints = Vec::new();
    for record in records {
        // The record stays when this value goes: recovery frees it when the core is dead and nobody
        // uses it any more.
        let row = hop::join_core(
            node.pool(),
            process.identity,
            &format!("{}/{}", names.core, record.name),
        )?;
        let binding = CoreBinding {
            region: link.region(),
            endpoint: record.index as u32,
            direction: record.direction,
            row,
            agent: node.index(),
        };
        let name = names.channel(&record.name);
        let is_for_agent = is_for_agent(&record);
        let is_known = is_for_agent && record.type_hash == TYPE_HASH;
        let carries = is_known.then(services::carried);
        let wanted = (channel_kind(record.kind), name.as_str(), carries.as_ref());
        let channel = put_behind(node, names, wanted, binding)?;
        endpoints.push(Endpoint {
            channel,
            name,
            binding,
            is_for_agent,
        });
    }
    wake_all(node);
    Ok(endpoints)
}

/// Does the core ask its agent over this endpoint?
fn is_for_agent(record: &EndpointRecord) -> bool {
    let is_asking =
        record.kind == EndpointKind::Requests && record.direction == Direction::FromCore;
    is_asking && [ENDPOINT, MESSAGES_ENDPOINT].contains(&record.name.as_str())
}

/// Binds an endpoint to the channel of its name. One that others have made with another type stays
/// as it is: then it is not for whoever wants this one.
fn put_behind(
    node: &Node,
    names: &Names<'_>,
    (kind, name, carries): (ChannelKind, &str, Option<&ChannelType>),
    binding: CoreBinding,
) -> Result<ChannelIndex, CoreError> {
    for _ in 0..TRIES {
        let channel =
            node.open_channel(kind, name, carries)
                .or_else(|error| match error.refusal() {
                    Some(PoolError::TypeMismatch(_)) => node.open_channel(kind, name, None),
                    _ => Err(error),
                })?;
        if channel.core.is_some() {
            refuse_if_taken(node, names, name)?;
            // Nobody may see half of one binding and half of the other. The channel may go with
            // that: found or made again.
            node.act(|member, control| member.unbind_core(control, channel.index))?;
            continue;
        }
        node.act(|member, control| member.bind_core(control, channel.index, binding))?;
        // Its last port may have retired the channel meanwhile; then that is seen here, or the
        // binding there.
        hythe_memory::full_barrier();
        let now = node.pool().control().tables().channel(channel.index);
        if now.is_some_and(|now| now.name == name && now.core == Some(binding)) {
            return Ok(channel.index);
        }
    }
    Err(NodeError::from(PoolError::Busy("the channel")).into())
}

const fn channel_kind(kind: EndpointKind) -> ChannelKind {
    match kind {
        EndpointKind::Messages => ChannelKind::PublishSubscribe,
        EndpointKind::Requests => ChannelKind::RequestReply,
        EndpointKind::Events => ChannelKind::Event,
    }
}

/// Each endpoint is behind a channel of its own.
fn refuse_repeated(names: &Names<'_>, records: &[EndpointRecord]) -> Result<(), CoreError> {
    for (at, record) in records.iter().enumerate() {
        let mut earlier = records[..at].iter();
        if let Some(first) = earlier.find(|first| first.name == record.name) {
            return Err(CoreError::RepeatedEndpoint {
                core: names.core.to_owned(),
                endpoint: record.name.clone(),
                numbers: (first.index, record.index),
            });
        }
    }
    Ok(())
}

/// Another core's endpoint of the same name keeps its channel as long as it lives.
fn refuse_if_taken(node: &Node, names: &Names<'_>, channel: &str) -> Result<(), CoreError> {
    let tables = node.pool().control().tables();
    let bound = tables.find_channel(channel).and_then(|found| found.core);
    let row = bound.and_then(|core| tables.member(core.row));
    let alive = row.filter(|row| node.pool().liveness(row) != hythe_node::Liveness::Dead);
    match alive {
        None => Ok(()),
        Some(row) => Err(CoreError::ChannelTaken {
            core: names.core.to_owned(),
            channel: channel.to_owned(),
            holder: format!("{} (pid {})", row.name, row.identity.pid),
        }),
    }
}

/// Wakes every participant: something about channels has changed.
pub(crate) fn wake_all(node: &Node) {
    for member in node.pool().control().tables().members() {
        hop::wake(node.pool(), member.index);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn record(index: usize, name: &str) -> EndpointRecord {
        EndpointRecord {
            index,
            name: name.to_owned(),
            direction: Direction::ToCore,
            max_bytes: 64,
            kind: EndpointKind::Messages,
            type_hash: 0,
        }
    }

    #[test]
    fn repeated_endpoint_is_refused_with_both_numbers() {
        let names = Names {
            core: "hosted",
            has_own_channels: false,
        };
        let records = [record(0, "ping"), record(2, "count"), record(5, "count")];
        assert!(refuse_repeated(&names, &records[..2]).is_ok());
        let error = refuse_repeated(&names, &records).expect_err("two of one name");
        let text = error.to_string();
        assert!(text.contains("`count` twice (endpoints 2 and 5)"), "{text}");
    }
}

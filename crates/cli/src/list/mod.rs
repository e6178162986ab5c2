//! `hythe list`: participants, channels with their ports, and with their ends on other hosts,
//! semaphores and message queues.

mod hosts;

use hythe::inspect::{
    ChannelInfo, Direction, HolderKind, MemberIndex, MemberInfo, MemberKind, MemberStatus,
    PortInfo, PortKind, Snapshot,
};
use hythe::{ChannelKind, ChannelType, Pool, PortPolicy};
use hythe_terminal::escaped;
use serde::Serialize;

use self::hosts::RemoteEndDocument;
use crate::args::Globals;
use crate::error::CliError;
use crate::objects::{self, ObjectDocument};
use crate::other_users::{self, OtherPool};
use crate::{output, units, who};

#[derive(Serialize)]
struct Document {
    pool: String,
    participants: Vec<ParticipantDocument>,
    channels: Vec<ChannelDocument>,
    objects: Vec<ObjectDocument>,
    /// Why ends on other hosts are not shown, though there are other hosts.
    hosts_unknown: Option<String>,
    /// Where nobody takes part in this one: those of other users that somebody takes part in.
    other_pools: Vec<OtherPool>,
}

#[derive(Serialize)]
struct ParticipantDocument {
    participant: u8,
    name: String,
    kind: &'static str,
    pid: u32,
    uid: u32,
    session: u32,
    state: &'static str,
}

#[derive(Serialize)]
struct ChannelDocument {
    name: String,
    kind: String,
    #[serde(rename = "type")]
    carries: String,
    core: Option<CoreDocument>,
    ports: Vec<PortDocument>,
    /// Of programs on other hosts.
    remote_ends: Vec<RemoteEndDocument>,
}

#[derive(Serialize)]
struct CoreDocument {
    name: String,
    region: u8,
    endpoint: u32,
    direction: &'static str,
    agent: String,
    attached: Vec<String>,
}

#[derive(Serialize)]
struct PortDocument {
    kind: String,
    participant: String,
    pid: u32,
    /// Messages that may wait, and that do; of ports that take them from queues only.
    depth: Option<u32>,
    waiting: Option<u32>,
    /// What happens when as many wait: `block`, `drop-newest`, `evict-oldest`.
    when_full: Option<&'static str>,
    block_ms: Option<u32>,
    /// Earlier messages wanted of each publisher.
    history: Option<u32>,
    messages: u64,
    payload_bytes: u64,
    dropped: u64,
    /// Of a subscriber: what it did not get, which is `dropped`.
    missed: Option<u64>,
    violations: u64,
    /// Messages that it copied, to a buffer that the receivers can see.
    copies: u64,
    copied_bytes: u64,
}

pub(crate) fn run(globals: &Globals) -> Result<(), CliError> {
    let pool = globals.open()?;
    pool.finish_recoveries();
    let snapshot = pool.snapshot();
    let found = snapshot.channels.iter();
    let mut channels = found.map(|found| channel(&snapshot, found)).collect();
    let hosts_unknown = hosts::add(&mut channels, &pool, &snapshot).err();
    let participants = participants(&pool, &snapshot);
    let other_pools = match participants.is_empty() {
        true => other_users::pools(globals),
        false => Vec::new(),
    };
    let document = Document {
        pool: pool.options().name().to_owned(),
        participants,
        channels,
        objects: objects::list(&pool)?,
        hosts_unknown: hosts_unknown.map(|error| error.to_string()),
        other_pools,
    };
    output::print(globals.json, &document, text)
}

fn participants(pool: &Pool, snapshot: &Snapshot) -> Vec<ParticipantDocument> {
    let members = snapshot.members.iter();
    members
        .map(|member| ParticipantDocument {
            participant: member.index.0,
            name: member.name.clone(),
            kind: match member.kind {
                MemberKind::Process => "process",
                MemberKind::CoreEndpoint => "core endpoint",
                MemberKind::MessageStore => "messages",
                MemberKind::Host => "host",
                MemberKind::HostAgent => "agent of hosts",
            },
            pid: member.identity.pid,
            uid: member.identity.uid,
            session: member.session,
            state: state(pool, member),
        })
        .collect()
}

/// Whether a participant lives, or what is being done about it. Asks the system.
pub(crate) fn state(pool: &Pool, member: &MemberInfo) -> &'static str {
    match member.status {
        MemberStatus::Joining => "joining",
        MemberStatus::Recovering => "recovering",
        MemberStatus::Alive | MemberStatus::Free => who::state(pool.liveness(member)),
    }
}

fn channel(snapshot: &Snapshot, found: &ChannelInfo) -> ChannelDocument {
    let name = |index: MemberIndex| snapshot.holder_name(HolderKind::Member(index));
    let core = found.core.map(|core| CoreDocument {
        name: snapshot
            .regions
            .iter()
            .find(|region| region.index == core.region)
            .map_or_else(String::new, |region| region.name.clone()),
        region: core.region.0,
        endpoint: core.endpoint,
        direction: match core.direction {
            Direction::ToCore => "to core",
            Direction::FromCore => "from core",
        },
        agent: name(core.agent),
        attached: found.attached.iter().flatten().copied().map(name).collect(),
    });
    let ports = snapshot
        .ports
        .iter()
        .filter(|port| port.channel == found.index);
    ChannelDocument {
        name: found.name.clone(),
        kind: found.kind.to_string(),
        carries: carried(found.kind, &found.carries),
        core,
        ports: ports.map(|found| port(snapshot, found)).collect(),
        remote_ends: Vec::new(),
    }
}

fn carried(kind: ChannelKind, carries: &ChannelType) -> String {
    match kind {
        ChannelKind::Event => "no payload".to_owned(),
        _ => carries.to_string(),
    }
}

fn port(snapshot: &Snapshot, found: &PortInfo) -> PortDocument {
    let member = snapshot
        .members
        .iter()
        .find(|member| member.index == found.member);
    let takes = matches!(
        found.kind,
        PortKind::Subscriber | PortKind::Client | PortKind::Server
    );
    let subscribes = found.kind == PortKind::Subscriber;
    PortDocument {
        kind: found.kind.to_string(),
        participant: member.map_or_else(
            || format!("participant {}", found.member.0),
            |member| member.name.clone(),
        ),
        pid: member.map_or(0, |member| member.identity.pid),
        depth: takes.then_some(found.depth),
        waiting: takes.then(|| waiting(snapshot, found)),
        when_full: subscribes.then_some(match found.policy {
            PortPolicy::Block { .. } => "block",
            PortPolicy::DropNewest => "drop-newest",
            PortPolicy::EvictOldest => "evict-oldest",
        }),
        block_ms: match found.policy {
            PortPolicy::Block { timeout_ms } => Some(timeout_ms),
            PortPolicy::DropNewest | PortPolicy::EvictOldest => None,
        },
        history: subscribes.then_some(found.history),
        messages: found.statistics.messages,
        payload_bytes: found.statistics.payload_bytes,
        dropped: found.statistics.dropped,
        missed: subscribes.then_some(found.statistics.dropped),
        violations: found.statistics.violations,
        copies: found.statistics.copies,
        copied_bytes: found.statistics.copied_bytes,
    }
}

/// References in the queues that lead to a port.
pub(crate) fn waiting(snapshot: &Snapshot, taker: &PortInfo) -> u32 {
    let connections = snapshot
        .connections
        .iter()
        .filter(|connection| connection.consumer_port == taker.index);
    connections
        .map(|connection| {
            let kind = HolderKind::Queue(connection.index);
            let queued = snapshot
                .audit
                .holders
                .iter()
                .filter(|holder| holder.kind == kind);
            queued.map(|holder| holder.count).sum::<u32>()
        })
        .sum()
}

fn text(document: &Document) -> String {
    let participants: Vec<Vec<String>> = document
        .participants
        .iter()
        .map(|found| {
            vec![
                found.participant.to_string(),
                found.name.clone(),
                found.kind.to_owned(),
                found.pid.to_string(),
                found.uid.to_string(),
                found.state.to_owned(),
            ]
        })
        .collect();
    let mut text = if participants.is_empty() {
        let nobody = format!("nobody takes part in pool {}\n", escaped(&document.pool));
        nobody + &other_users::text(&document.other_pools)
    } else {
        output::table(
            &[">NUMBER", "PARTICIPANT", "KIND", ">PID", ">USER", "STATE"],
            &participants,
        )
    };
    for channel in &document.channels {
        text += &channel_text(channel);
        text += &hosts::text(channel);
    }
    text += &objects::section(&document.objects);
    if let Some(reason) = &document.hosts_unknown {
        text += &format!("\nends on other hosts are not known: {}\n", escaped(reason));
    }
    text
}

fn channel_text(channel: &ChannelDocument) -> String {
    let name = escaped(&channel.name);
    let ChannelDocument { kind, carries, .. } = channel;
    let mut text = format!("\nchannel {name} carries {carries} ({kind})\n");
    if let Some(core) = &channel.core {
        let attached = output::list_or_nobody(&core.attached);
        let attached = escaped(&attached);
        text += &format!(
            "  {} {}: endpoint {}, region {}, agent {}, attached: {attached}\n",
            core.direction,
            escaped(&core.name),
            core.endpoint,
            core.region,
            escaped(&core.agent)
        );
    }
    if channel.ports.is_empty() {
        return text;
    }
    let rows: Vec<Vec<String>> = channel
        .ports
        .iter()
        .map(|port| {
            let number =
                |number: Option<u32>| number.map_or_else(String::new, |number| number.to_string());
            vec![
                format!("  {}", port.kind),
                format!("{} (pid {})", port.participant, port.pid),
                port.messages.to_string(),
                units::bytes(port.payload_bytes),
                match port.missed {
                    Some(_) => String::new(),
                    None => port.dropped.to_string(),
                },
                port.missed
                    .map_or_else(String::new, |missed| missed.to_string()),
                port.violations.to_string(),
                port.copies.to_string(),
                number(port.waiting),
                number(port.depth),
                port.when_full.unwrap_or_default().to_owned(),
            ]
        })
        .collect();
    let headings = [
        "  PORT",
        "OF",
        ">MESSAGES",
        ">PAYLOAD",
        ">DROPPED",
        ">MISSED",
        ">VIOLATIONS",
        ">COPIES",
        ">WAITING",
        ">DEPTH",
        "WHEN FULL",
    ];
    text + &output::table(&headings, &rows)
}

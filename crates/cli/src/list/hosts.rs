//! Ends of channels on other hosts, as the agent of this host was told.

use std::path::Path;
use std::time::Duration;

use hythe::inspect::{MemberKind, PortKind, Snapshot};
use hythe::{ChannelKind, ChannelType, Pool};
use hythe_cluster::Status;
use hythe_cluster::frame::Ends;
use hythe_terminal::escaped;
use serde::Serialize;

use super::{ChannelDocument, carried};
use crate::error::CliError;
use crate::units;

/// How long the agent may take. It answers within milliseconds, unless it stands still.
const TIMEOUT: Duration = Duration::from_secs(2);

/// Ends of one kind on one host.
#[derive(Serialize)]
pub(super) struct RemoteEndDocument {
    host: String,
    /// As of a port.
    kind: String,
    count: u32,
    #[serde(rename = "type")]
    carries: String,
}

/// Adds what other hosts have to the channels of this one, and channels that only others have.
/// Nobody is asked where no host takes part in the pool.
///
/// # Errors
/// The agent does not answer in time, or serves another pool.
pub(super) fn add(
    channels: &mut Vec<ChannelDocument>,
    pool: &Pool,
    snapshot: &Snapshot,
) -> Result<(), CliError> {
    let mut members = snapshot.members.iter();
    if !members.any(|member| member.kind == MemberKind::Host) {
        return Ok(());
    }
    let status = hythe_command::agent::status_within(TIMEOUT)?;
    if !is_same(Path::new(&status.pool), &pool.path()) {
        return Err(CliError::Failed(format!(
            "the agent that HYTHE_HOSTS_DIR leads to serves another pool, {}; the one of this pool \
             is another user's, or has its files elsewhere",
            escaped(&status.pool)
        )));
    }
    add_told(channels, status);
    Ok(())
}

fn is_same(one: &Path, other: &Path) -> bool {
    one == other
        || std::fs::canonicalize(one)
            .ok()
            .is_some_and(|one| std::fs::canonicalize(other).is_ok_and(|other| one == other))
}

fn add_told(channels: &mut Vec<ChannelDocument>, status: Status) {
    for host in status.hosts {
        for told in host.session.into_iter().flat_map(|session| session.ends) {
            let kind = ChannelKind::from(told.kind);
            let carries = carried(kind, &ChannelType::from(told.carries.clone()));
            let shown = kind.to_string();
            let is_it =
                |channel: &ChannelDocument| channel.name == told.channel && channel.kind == shown;
            let place = channels.iter().position(is_it).unwrap_or_else(|| {
                channels.push(ChannelDocument {
                    name: told.channel.clone(),
                    kind: shown,
                    carries: carries.clone(),
                    core: None,
                    ports: Vec::new(),
                    remote_ends: Vec::new(),
                });
                channels.len() - 1
            });
            let ends = &mut channels[place].remote_ends;
            ends.extend(counted(kind, &told).map(|(kind, count)| RemoteEndDocument {
                host: host.host.to_string(),
                kind: kind.to_string(),
                count,
                carries: carries.clone(),
            }));
        }
    }
}

/// Those that send and those that receive, if there are any.
fn counted(kind: ChannelKind, ends: &Ends) -> impl Iterator<Item = (PortKind, u32)> {
    let [sending, receiving] = match kind {
        ChannelKind::PublishSubscribe => [PortKind::Publisher, PortKind::Subscriber],
        ChannelKind::RequestReply => [PortKind::Client, PortKind::Server],
        ChannelKind::Event => [PortKind::Notifier, PortKind::Listener],
    };
    let both = [(sending, ends.sending), (receiving, ends.receiving)];
    both.into_iter().filter(|(_, count)| *count > 0)
}

/// A line for the ends of each kind on each host.
pub(super) fn text(channel: &ChannelDocument) -> String {
    let ends = channel.remote_ends.iter();
    let lines = ends.map(|end| {
        let ends = units::counted(end.count.into(), &end.kind);
        let other = match end.carries == channel.carries {
            true => String::new(),
            false => format!(", which carries {} there", end.carries),
        };
        format!("  {ends} on host {}{other}\n", escaped(&end.host))
    });
    lines.collect()
}

//! `hythe host list`: the hosts that the agent knows, a line each.

use hythe_cluster::{HostState, HostStatus};
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output;
use serde::Serialize;

use super::status::{address, round_trip, state};
use hythe_command::agent;

#[derive(Serialize)]
struct Document {
    host: String,
    state: HostState,
    address: Option<String>,
    round_trip_ns: Option<u64>,
    /// Why it is not connected; empty where it is.
    reason: String,
}

pub(super) fn run(globals: &Globals) -> Result<(), CliError> {
    let status = agent::status()?;
    let hosts: Vec<Document> = status.hosts.iter().map(document).collect();
    output::print(globals.json, &hosts, |hosts| text(hosts))
}

fn document(host: &HostStatus) -> Document {
    Document {
        host: host.host.to_string(),
        state: host.state,
        address: address(host),
        round_trip_ns: host
            .session
            .as_ref()
            .and_then(|session| session.round_trip_ns),
        reason: match host.session {
            Some(_) => String::new(),
            None => host.reason.clone(),
        },
    }
}

fn text(hosts: &[Document]) -> String {
    if hosts.is_empty() {
        return "the agent knows no other host; `hythe host add HOST` takes one in".to_owned();
    }
    let rows: Vec<Vec<String>> = hosts
        .iter()
        .map(|host| {
            vec![
                host.host.clone(),
                state(host.state).to_owned(),
                host.address.clone().unwrap_or_else(|| "-".to_owned()),
                round_trip(host.round_trip_ns),
                host.reason.clone(),
            ]
        })
        .collect();
    output::table(
        &["HOST", "STATE", "ADDRESS", ">ROUND TRIP", "REASON"],
        &rows,
    )
}

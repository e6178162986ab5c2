//! `hythe media serve --relay`: what each participant sends goes to all the others.

use std::time::{Duration, Instant};

use hythe::media::address::StreamAddress;
use hythe::media::relay::Relay;
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output;
use hythe_command::stop::Stop;
use serde::Serialize;

/// The relay wakes when something comes; this only bounds a wait.
const WAIT: Duration = Duration::from_secs(1);

#[derive(Serialize)]
struct Document {
    port: u16,
    seconds: f64,
    participants: Vec<ParticipantDocument>,
}

#[derive(Serialize)]
struct ParticipantDocument {
    address: String,
    received: u64,
    malformed: u64,
    sent: u64,
    lost: u64,
    state: String,
}

pub(super) fn run(
    port: u16,
    participants: &[StreamAddress],
    stop: &Stop,
    globals: &Globals,
) -> Result<(), CliError> {
    let mut relay = Relay::on_port(port)?;
    for participant in participants {
        relay.add(participant.resolve()?)?;
    }
    let began = Instant::now();
    while relay.turn(stop.descriptor(), WAIT, &mut |event| output::note(event))? {}
    let participants = relay.statistics().map(|one| ParticipantDocument {
        address: one.address.to_string(),
        received: one.received,
        malformed: one.malformed,
        sent: one.sent.packets,
        lost: one.sent.lost,
        state: one.sent.state.to_string(),
    });
    let document = Document {
        port,
        seconds: began.elapsed().as_secs_f64(),
        participants: participants.collect(),
    };
    output::print(globals.json, &document, text)
}

fn text(document: &Document) -> String {
    let rows: Vec<Vec<String>> = document
        .participants
        .iter()
        .map(|one| {
            vec![
                one.address.clone(),
                one.received.to_string(),
                one.sent.to_string(),
                one.lost.to_string(),
                one.state.clone(),
            ]
        })
        .collect();
    output::table(&["PARTICIPANT", ">FROM", ">TO", ">LOST", "STATE"], &rows)
}

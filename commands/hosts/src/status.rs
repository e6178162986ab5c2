//! `hythe host status`: the agent of this host, and how it sees each other host.

use hythe_cluster::frame::EndKind;
use hythe_cluster::{
    Calls, ChannelState, ChannelStatus, Credit, Direction, DirectoryStatus, FlowCopies, HostState,
    HostStatus, LinkStatus, Losses, OpenStatus, SessionStatus, Status,
};
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::{output, units};
use hythe_terminal::escaped;

use hythe_command::agent;

pub(super) fn run(globals: &Globals) -> Result<(), CliError> {
    output::print(globals.json, &agent::status()?, text)
}

/// For people.
pub(super) const fn state(state: HostState) -> &'static str {
    match state {
        HostState::Connected => "connected",
        HostState::Connecting => "connecting",
        HostState::Away => "away",
    }
}

/// Where it is connected, else where it is said to be.
pub(super) fn address(host: &HostStatus) -> Option<String> {
    match &host.session {
        Some(session) => Some(session.connection.address.clone()),
        None => host.addresses.first().cloned(),
    }
}

/// `182.4 us`; `-`: not measured.
pub(super) fn round_trip(ns: Option<u64>) -> String {
    match ns {
        None => "-".to_owned(),
        Some(ns) if ns < 10_000_000 => format!("{:.1} us", ns as f64 / 1e3),
        Some(ns) => units::milliseconds(ns / 1_000_000),
    }
}

fn text(status: &Status) -> String {
    let mut text = format!(
        "host {}: agent with pid {}, pool {}\n",
        status.host,
        status.pid,
        escaped(&status.pool)
    );
    if !status.trusted.is_empty() {
        let trusted: Vec<_> = status
            .trusted
            .iter()
            .map(|name| escaped(name).to_string())
            .collect();
        text.push_str(&format!("trusts the links at {}\n", trusted.join(", ")));
    }
    if let Some(files) = status.no_files_left {
        text.push_str(&format!(
            "NO OPEN FILES LEFT: {} of {} are open, and what is new is refused; `ulimit -n`, or \
             `LimitNOFILE=` of its service, before it is started anew raises that\n",
            files.open, files.limit
        ));
    }
    if status.refused_connections > 0 {
        let refused = units::counted(status.refused_connections, "connection");
        text.push_str(&format!("{refused} of other hosts came to nothing\n"));
    }
    text.push_str(&directory(&status.directory));
    text.push_str(&calls(&status.calls));
    if status.hosts.is_empty() {
        text.push_str("it knows no other host; `hythe host add HOST` takes one in\n");
    }
    if let Some(open) = &status.open {
        text.push_str(&open_text(open));
    }
    for host in &status.hosts {
        text.push('\n');
        text.push_str(&host_text(host));
    }
    text
}

/// What whoever reaches this host can read and write.
fn open_text(open: &OpenStatus) -> String {
    let mut text = format!(
        "open to every Zenoh program that reaches {}, without keys and encryption\n",
        escaped(&open.address)
    );
    for peer in &open.peers {
        text.push_str(&format!("  and through tcp/{}\n", escaped(peer)));
    }
    if !open.trouble.is_empty() {
        text.push_str(&format!("  not at present: {}\n", escaped(&open.trouble)));
    }
    let rows = open.channels.iter().map(|channel| {
        vec![
            format!("  {}", channel.channel),
            channel.key.clone(),
            channel.sent.to_string(),
            channel.taken.to_string(),
            (channel.not_sent + channel.not_taken).to_string(),
            channel.reason.clone(),
        ]
    });
    let rows: Vec<Vec<String>> = rows.collect();
    text.push_str(&output::table(
        &["  CHANNEL", "KEY", ">SENT", ">TAKEN", ">LOST", "REASON"],
        &rows,
    ));
    text
}

fn directory(directory: &DirectoryStatus) -> String {
    let mut text = String::new();
    let addresses: Vec<String> = directory
        .addresses
        .iter()
        .map(ToString::to_string)
        .collect();
    if !addresses.is_empty() {
        text.push_str(&format!(
            "others are told to reach it at {}\n",
            addresses.join(", ")
        ));
    }
    if let Some(trouble) = &directory.trouble {
        text.push_str(&format!("it cannot be found now: {}\n", escaped(trouble)));
    }
    if let Some(namesake) = &directory.namesake {
        text.push_str(&format!(
            "another agent says that it is this host, too ({}): two hosts with one identity, or a \
             false word of another host\n",
            escaped(namesake)
        ));
    }
    if directory.refused_tokens > 0 {
        text.push_str(&format!(
            "more addresses are shown for hosts than are kept ({} so far): they are tried in \
             turn\n",
            directory.refused_tokens
        ));
    }
    if directory.refused_calls > 0 {
        text.push_str(&format!(
            "refused calls to the discovery, without a certificate of the realm or too slow: {}\n",
            directory.refused_calls
        ));
    }
    text
}

/// Those that came to nothing.
fn calls(calls: &Calls) -> String {
    let counts = [
        ("not of an agent", calls.not_hythe),
        ("without a certificate of the realm", calls.not_trusted),
        ("with a revoked certificate", calls.revoked),
        ("of another version", calls.other_version),
        ("unfinished", calls.too_slow),
        ("too many at once", calls.crowded_out),
    ];
    let seen = counts.iter().filter(|(_, count)| *count > 0);
    let seen: Vec<String> = seen
        .map(|(what, count)| format!("{what}: {count}"))
        .collect();
    match seen.is_empty() {
        true => String::new(),
        false => format!("refused calls: {}\n", seen.join(", ")),
    }
}

fn host_text(host: &HostStatus) -> String {
    let reason = match host.reason.is_empty() {
        true => String::new(),
        false => format!(": {}", escaped(&host.reason)),
    };
    let mut text = format!("host {} is {}{reason}\n", host.host, state(host.state));
    let mut line = |name: &str, value: String| {
        text.push_str(&format!("  {name:<10}  {value}\n"));
    };
    let told: Vec<String> = host
        .addresses
        .iter()
        .map(|address| escaped(address).to_string())
        .collect();
    match &host.session {
        Some(session) => {
            for (name, value) in session_lines(session, host.sessions) {
                line(name, value);
            }
        }
        None if host.sessions > 0 => {
            line("sessions", format!("{}, none now", host.sessions));
        }
        None => {}
    }
    if !told.is_empty() {
        line("found at", told.join(", "));
    }
    line("losses", losses(&host.losses));
    if let Some(session) = &host.session {
        text.push_str(&channels(session));
    }
    text
}

fn session_lines(session: &SessionStatus, sessions: u64) -> [(&'static str, String); 8] {
    let about = &session.connection;
    let why = match about.why_not_better.is_empty() {
        true => ", the best there is".to_owned(),
        false => format!("; no better one: {}", escaped(&about.why_not_better)),
    };
    let copies = session.copies;
    [
        (
            "session",
            format!(
                "{}, for {}; {} so far",
                escaped(&session.number),
                units::milliseconds(session.age_ms),
                units::counted(sessions, "session")
            ),
        ),
        ("carrier", format!("{}{why}", escaped(&about.carrier))),
        ("identity", escaped(&about.identity).to_string()),
        ("address", escaped(&about.address).to_string()),
        ("round trip", round_trip(session.round_trip_ns)),
        ("flows", flows(&session.link)),
        ("credit", credit(&session.credit)),
        (
            "copies",
            format!(
                "{} of each byte sent, {} of each received",
                copies.sending, copies.receiving
            ),
        ),
    ]
}

/// Of tasks that send and receive themselves.
fn flows(link: &LinkStatus) -> String {
    if !link.why_no_flows.is_empty() {
        return format!("none: {}", escaped(&link.why_no_flows));
    }
    let counts = format!(
        "{} sending, {} receiving, {} pending",
        link.sending, link.receiving, link.pending
    );
    match (link.why_sealed.as_str(), &link.interface) {
        ("", Some(interface)) => format!("{counts}, in clear text over {}", escaped(interface)),
        ("", None) => format!("{counts}, in clear text"),
        (why, _) => format!("{counts}, sealed: {}", escaped(why)),
    }
}

fn credit(credit: &Credit) -> String {
    let Credit { window, used } = credit;
    format!(
        "{} of {} used, {} of {}",
        used.frames,
        units::counted(window.frames.into(), "message"),
        units::bytes(used.bytes),
        units::bytes(window.bytes)
    )
}

/// Those that are not 0.
fn losses(losses: &Losses) -> String {
    let counts = [
        ("dropped before sending", losses.not_sent),
        ("sent and not confirmed", losses.unconfirmed),
        ("without a free slot here", losses.no_slot),
        ("beyond its share of the pool", losses.beyond_share),
        ("of another type here", losses.other_type),
        ("too long for the receiver", losses.too_long),
        ("not delivered here", losses.not_delivered),
        ("reconnections of channels", losses.reconnections),
    ];
    let seen = counts.iter().filter(|(_, count)| *count > 0);
    let seen: Vec<String> = seen
        .map(|(what, count)| format!("{what}: {count}"))
        .collect();
    match seen.is_empty() {
        true => "none".to_owned(),
        false => seen.join(", "),
    }
}

fn channels(session: &SessionStatus) -> String {
    if session.channels.is_empty() {
        return "  no channel has ends on both hosts\n".to_owned();
    }
    let rows = session.channels.iter();
    let rows: Vec<Vec<String>> = rows.map(|one| channel(one, &session.link)).collect();
    output::table(
        &[
            "  CHANNEL",
            "CARRIES",
            "DIRECTION",
            "STATE",
            "CARRIER",
            ">MESSAGES",
            ">PAYLOAD",
            "CREDIT",
            "REASON",
        ],
        &rows,
    )
}

fn channel(channel: &ChannelStatus, link: &LinkStatus) -> Vec<String> {
    let kind = match channel.kind {
        EndKind::Publish => "messages",
        EndKind::Request => "requests",
        EndKind::Reply => "replies",
        EndKind::Event => "events",
    };
    let direction = match channel.direction {
        Direction::Sending => "sending",
        Direction::Receiving => "receiving",
    };
    let state = match channel.state {
        ChannelState::Open => "open",
        ChannelState::Connecting => "connecting",
        ChannelState::Waiting => "waiting",
        ChannelState::Refused => "refused",
    };
    vec![
        format!("  {}", channel.channel),
        kind.to_owned(),
        direction.to_owned(),
        state.to_owned(),
        match channel.flows {
            0 => channel.carrier.clone(),
            flows => format!(
                "{}, {}, {}",
                channel.carrier,
                units::counted(flows.into(), "flow"),
                copies(channel.flow_copies)
            ),
        },
        channel.messages.to_string(),
        units::bytes(channel.payload_bytes),
        channel
            .credit
            .as_ref()
            .map_or_else(|| "-".to_owned(), credit),
        reason(channel, link),
    ]
}

fn copies(flow: FlowCopies) -> String {
    let counted = |count| match count {
        1 => "1 copy".to_owned(),
        count => format!("{count} copies"),
    };
    let usual = counted(flow.by_kernel + flow.by_program);
    match flow.by_program_elsewhere - flow.by_program.min(flow.by_program_elsewhere) {
        0 => usual,
        more => {
            let elsewhere = flow.by_kernel + flow.by_program + more;
            format!("{usual} or {elsewhere}")
        }
    }
}

/// Why it is as it is, else why no flow carries it where flows may.
fn reason(channel: &ChannelStatus, link: &LinkStatus) -> String {
    let why = &channel.why_not_better;
    match channel.reason.is_empty() && !why.is_empty() && *why != link.why_no_flows {
        // Then it says why payload is copied.
        true if channel.carrier.ends_with("xdp") => why.clone(),
        true if channel.flows > 0 => format!("no xdp: {why}"),
        true => format!("no flow: {why}"),
        false => channel.reason.clone(),
    }
}

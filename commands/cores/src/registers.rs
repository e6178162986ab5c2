//! The registers of a link for people: what each side has written into it, one row per port; and
//! what the core says that it has, where its program can be asked.
//!
//! `core status --json` has the words of the link. Never reads a link itself.

use hythe::core::control::AgentStatus;
use hythe::core::tasks::{CoreRegisters, PortRegisters};
use hythe_command::output;
use hythe_terminal::escaped;
use serde::Serialize;

use super::status::{self, BellDocument, CoreDocument, EndpointDocument, FlowDocument};

/// What `core status` says, the sessions and bells of both sides, and the indices of each port in
/// use.
pub(super) fn text(core: &CoreDocument) -> String {
    let mut text = status::core_text(core);
    if let Some(link) = &core.link {
        text.push_str(&output::table(
            &[
                "  SIDE",
                ">SESSION",
                ">ECHOES",
                ">RINGS",
                "RING WANTED",
                "STATE",
            ],
            &[
                side("Linux", link.linux_session, None, &link.linux_bell, ""),
                side(
                    "core",
                    link.core_session,
                    Some(link.echo),
                    &link.core_bell,
                    link.state,
                ),
            ],
        ));
    }
    let rows: Vec<Vec<String>> = core
        .endpoints
        .iter()
        .flat_map(|endpoint| {
            let used = endpoint.ports.iter().filter(|port| port.session != 0);
            used.flat_map(|port| queues(endpoint, port))
        })
        .collect();
    if rows.is_empty() {
        text.push_str("no port is in use\n");
        return text;
    }
    text.push_str(&output::table(
        &[
            "  CHANNEL",
            ">PORT",
            "QUEUE",
            ">TAIL",
            ">HEAD",
            ">WAITING",
            ">SESSION",
            ">ECHO",
            ">WINDOW",
            ">DROPPED",
        ],
        &rows,
    ));
    text
}

fn side(
    name: &str,
    session: u32,
    echo: Option<u32>,
    bell: &BellDocument,
    state: &str,
) -> Vec<String> {
    vec![
        format!("  {name}"),
        session.to_string(),
        echo.map_or_else(String::new, |echo| echo.to_string()),
        bell.rings.to_string(),
        if bell.wanted { "yes" } else { "no" }.to_owned(),
        state.to_owned(),
    ]
}

/// Both queues of a port. That to the core carries messages, or the fill ring of what the core
/// sends.
fn queues(endpoint: &EndpointDocument, port: &FlowDocument) -> [Vec<String>; 2] {
    let (to_core, from_core) = match endpoint.direction {
        "to core" => ("messages", "given back"),
        _ => ("fill ring", "messages"),
    };
    [(to_core, &port.to_core), (from_core, &port.from_core)].map(|(name, queue)| {
        vec![
            format!("  {}", escaped(&endpoint.channel)),
            port.port.to_string(),
            name.to_owned(),
            queue.tail.to_string(),
            queue.head.to_string(),
            queue.waiting.to_string(),
            port.session.to_string(),
            port.echo.to_string(),
            port.window.to_string(),
            port.dropped.to_string(),
        ]
    })
}

/// What the core says that it has. Counters wrap at 2^32.
#[derive(Serialize)]
pub(super) struct CoreViewDocument {
    session: u32,
    linux_session: u32,
    up: bool,
    rings: u32,
    sleepers: u32,
    ports: Vec<CorePortDocument>,
}

/// A port that the core takes for attached.
#[derive(Serialize)]
struct CorePortDocument {
    channel: String,
    port: u32,
    session: u32,
    inbox_head: u32,
    outbox_tail: u32,
    head_seen: u32,
    held: u32,
    window: u32,
    quarantined: bool,
    late: bool,
}

impl CoreViewDocument {
    /// `status` has the names of the channels.
    pub(super) fn of(seen: &CoreRegisters, status: &AgentStatus) -> Self {
        let name = |endpoint: u32| {
            let mut ends = status.endpoints.iter();
            let found = ends.find(|end| end.endpoint == endpoint);
            found.map_or_else(|| format!("endpoint {endpoint}"), |end| end.channel.clone())
        };
        let port = |port: &PortRegisters| CorePortDocument {
            channel: name(port.endpoint),
            port: port.port,
            session: port.session,
            inbox_head: port.inbox_head,
            outbox_tail: port.outbox_tail,
            head_seen: port.head_seen,
            held: port.held,
            window: port.window,
            quarantined: port.is_quarantined,
            late: port.is_late,
        };
        Self {
            session: seen.session,
            linux_session: seen.linux_session,
            up: seen.is_up,
            rings: seen.rings,
            sleepers: seen.sleepers,
            ports: seen.ports.iter().map(port).collect(),
        }
    }

    /// For people.
    pub(super) fn text(&self) -> String {
        let rows: Vec<Vec<String>> = self.ports.iter().map(CorePortDocument::row).collect();
        let columns = [
            "  AS THE CORE SEES IT",
            ">PORT",
            ">SESSION",
            ">TAKEN",
            ">PUT",
            ">SEEN TAKEN",
            ">HELD",
            ">WINDOW",
            "STATE",
        ];
        format!(
            "the core: session {}, of Linux {}, {}, {} rings, {} sleep\n{}",
            self.session,
            self.linux_session,
            if self.up { "up" } else { "not up" },
            self.rings,
            self.sleepers,
            output::table(&columns, &rows)
        )
    }
}

impl CorePortDocument {
    fn row(&self) -> Vec<String> {
        let state = match (self.quarantined, self.late) {
            (true, _) => "quarantined",
            (false, true) => "late",
            (false, false) => "",
        };
        vec![
            format!("  {}", escaped(&self.channel)),
            self.port.to_string(),
            self.session.to_string(),
            self.inbox_head.to_string(),
            self.outbox_tail.to_string(),
            self.head_seen.to_string(),
            self.held.to_string(),
            self.window.to_string(),
            state.to_owned(),
        ]
    }
}

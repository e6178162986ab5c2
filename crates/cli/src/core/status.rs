//! `hythe core status`: the cores that run in a pool, as seen from outside.

use hythe::core::control::{self, AgentStatus};
use hythe::core::{BellStatus, FlowStatus, LinkStatus, QueueStatus};
use hythe::inspect::Direction;
use serde::Serialize;

use crate::args::Globals;
use crate::error::CliError;
use crate::output;

#[derive(Serialize)]
struct Document {
    pool: String,
    cores: Vec<CoreDocument>,
}

#[derive(Serialize)]
struct CoreDocument {
    board: String,
    up: bool,
    agent: String,
    agent_pid: u32,
    core_pid: Option<u32>,
    link: Option<LinkDocument>,
    endpoints: Vec<EndpointDocument>,
}

#[derive(Serialize)]
struct LinkDocument {
    program: String,
    linux_session: u32,
    core_session: u32,
    linux_bell: BellDocument,
    core_bell: BellDocument,
}

#[derive(Serialize)]
struct BellDocument {
    rings: u32,
    wanted: bool,
}

/// One port of an endpoint. Counters wrap at 2^32.
#[derive(Serialize)]
struct FlowDocument {
    port: usize,
    session: u32,
    echo: u32,
    /// Linux -> core: what the core is to read, or its fill ring.
    to_core: QueueDocument,
    from_core: QueueDocument,
    window: u32,
    dropped: u32,
}

#[derive(Serialize)]
struct QueueDocument {
    tail: u32,
    head: u32,
    waiting: u32,
}

#[derive(Serialize)]
struct EndpointDocument {
    channel: String,
    direction: &'static str,
    max_bytes: Option<u32>,
    attached: Vec<String>,
    held: u32,
    ports: Vec<FlowDocument>,
}

pub(super) fn run(board: Option<&str>, globals: &Globals) -> Result<(), CliError> {
    let pool = globals.open()?;
    let found = match board {
        Some(board) => vec![control::status(&pool, board)?],
        None => control::list(&pool),
    };
    let cores = found.into_iter().map(core).collect();
    output::print(
        globals.json,
        &Document {
            pool: pool.options().name().to_owned(),
            cores,
        },
        text,
    )
}

fn core(status: AgentStatus) -> CoreDocument {
    let max_bytes = |endpoint: u32| {
        let link = status.link.as_ref()?;
        let record = link.endpoints.get(endpoint as usize)?;
        Some(record.max_bytes)
    };
    let ports = |endpoint: u32| {
        let flows = status.link.iter().flat_map(|link| &link.flows);
        flows
            .filter(|flow| flow.endpoint == endpoint as usize)
            .map(port)
            .collect()
    };
    let endpoints = status.endpoints.iter().map(|endpoint| EndpointDocument {
        max_bytes: max_bytes(endpoint.endpoint),
        ports: ports(endpoint.endpoint),
        channel: endpoint.channel.clone(),
        direction: match endpoint.direction {
            Direction::ToCore => "to core",
            Direction::FromCore => "from core",
        },
        attached: endpoint.attached.clone(),
        held: endpoint.held,
    });
    CoreDocument {
        up: status.core_pid != 0 && status.link.as_ref().is_some_and(LinkStatus::is_up),
        endpoints: endpoints.collect(),
        board: status.board,
        agent: status.agent.name,
        agent_pid: status.agent.identity.pid,
        core_pid: (status.core_pid != 0).then_some(status.core_pid),
        link: status.link.map(|link| LinkDocument {
            program: link.name,
            linux_session: link.linux_session,
            core_session: link.core_session,
            linux_bell: bell(link.linux_bell),
            core_bell: bell(link.core_bell),
        }),
    }
}

const fn bell(bell: BellStatus) -> BellDocument {
    BellDocument {
        rings: bell.rings,
        wanted: bell.wanted,
    }
}

fn port(flow: &FlowStatus) -> FlowDocument {
    let queue = |queue: QueueStatus| QueueDocument {
        tail: queue.tail,
        head: queue.head,
        waiting: queue.waiting(),
    };
    FlowDocument {
        port: flow.port,
        session: flow.session,
        echo: flow.echo,
        to_core: queue(flow.to_core),
        from_core: queue(flow.from_core),
        window: flow.window,
        dropped: flow.dropped,
    }
}

fn text(document: &Document) -> String {
    if document.cores.is_empty() {
        return format!(
            "no core runs in pool {}; `hythe core run BOARD` starts one",
            document.pool
        );
    }
    document
        .cores
        .iter()
        .map(core_text)
        .collect::<Vec<_>>()
        .join("\n")
}

fn core_text(core: &CoreDocument) -> String {
    let process = core
        .core_pid
        .map_or_else(|| "no process".to_owned(), |pid| format!("process {pid}"));
    let program = core.link.as_ref().map_or_else(String::new, |link| {
        format!(
            ", program {}, session {} of the core, {} of Linux",
            link.program, link.core_session, link.linux_session
        )
    });
    let state = if core.up { "up" } else { "down" };
    let rows: Vec<Vec<String>> = core
        .endpoints
        .iter()
        .map(|endpoint| {
            vec![
                format!("  {}", endpoint.channel),
                endpoint.direction.to_owned(),
                endpoint
                    .max_bytes
                    .map_or_else(String::new, |bytes| bytes.to_string()),
                endpoint.held.to_string(),
                output::list_or_nobody(&endpoint.attached),
            ]
        })
        .collect();
    format!(
        "board {} is {state}: {process}, agent {} (pid {}){program}\n{}",
        core.board,
        core.agent,
        core.agent_pid,
        output::table(
            &[
                "  CHANNEL",
                "CARRIES PAYLOAD",
                ">LARGEST",
                ">HELD BY CORE",
                "ATTACHED"
            ],
            &rows
        )
    )
}

//! `hythe core status`: the cores that run in a pool, as seen from outside.

use std::time::{Duration, Instant};

use hythe::core::control::{self, AgentStatus, CoreWithoutAgent, DeadCore};
use hythe::core::{
    BellStatus, CoreCounters, CoreError, FlowStatus, LinkState, QueueStatus, Violation,
};
use hythe::inspect::Direction;
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::{output, remedy};
use hythe_terminal::escaped;
use serde::Serialize;

/// How long a core may take to answer a port. One whose task holds a buffer may take longer.
const ANSWER_BOUND: Duration = Duration::from_secs(1);
const LOOK: Duration = Duration::from_millis(20);

#[derive(Serialize)]
struct Document {
    pool: String,
    cores: Vec<CoreDocument>,
    /// Cores that run on although their agents have died.
    without_agent: Vec<WithoutAgentDocument>,
    /// Cores that have died and are not started again.
    dead: Vec<DeadDocument>,
}

#[derive(Serialize)]
struct DeadDocument {
    board: String,
    how: String,
}

#[derive(Serialize)]
struct WithoutAgentDocument {
    board: String,
    core_pid: u32,
}

#[derive(Serialize)]
pub(super) struct CoreDocument {
    board: String,
    up: bool,
    /// Why a core that is up answers nobody.
    silent: Option<&'static str>,
    agent: String,
    agent_pid: u32,
    core_pid: Option<u32>,
    pub(super) link: Option<LinkDocument>,
    /// What Linux has counted, over all ports and with earlier lives of the core.
    counters: CountersDocument,
    rings_ignored: u64,
    sessions_renewed: u64,
    pub(super) endpoints: Vec<EndpointDocument>,
}

/// What Linux has counted of a core.
#[derive(Serialize)]
struct CountersDocument {
    violations: u64,
    last_violation: Option<String>,
    full: u64,
    no_slot: u64,
    lost: u64,
}

/// What Linux has counted at one port since this life of the core began.
#[derive(Serialize)]
struct PortCountersDocument {
    port: usize,
    #[serde(flatten)]
    counters: CountersDocument,
}

/// What a core says that it has counted at an endpoint. Counters wrap at 2^32.
#[derive(Serialize)]
struct CoreCountersDocument {
    violations: u32,
    full: u32,
    no_slot: u32,
    dropped: u32,
}

#[derive(Serialize)]
pub(super) struct LinkDocument {
    pub(super) program: String,
    pub(super) linux_session: u32,
    pub(super) core_session: u32,
    pub(super) echo: u32,
    pub(super) state: &'static str,
    pub(super) reason: u32,
    /// What of the core's header is impossible at this moment.
    violation: Option<String>,
    pub(super) linux_bell: BellDocument,
    pub(super) core_bell: BellDocument,
}

#[derive(Serialize)]
pub(super) struct BellDocument {
    pub(super) rings: u32,
    pub(super) wanted: bool,
}

/// One port of an endpoint. Counters wrap at 2^32.
#[derive(Serialize)]
pub(super) struct FlowDocument {
    pub(super) port: usize,
    pub(super) session: u32,
    pub(super) echo: u32,
    /// Which way they go: `eventfd`, or through the `agent`.
    pub(super) rings: &'static str,
    /// Linux -> core: what the core is to read, or its fill ring.
    pub(super) to_core: QueueDocument,
    pub(super) from_core: QueueDocument,
    pub(super) window: u32,
    pub(super) dropped: u32,
}

#[derive(Serialize)]
pub(super) struct QueueDocument {
    pub(super) tail: u32,
    pub(super) head: u32,
    pub(super) waiting: u32,
}

#[derive(Serialize)]
pub(super) struct EndpointDocument {
    pub(super) channel: String,
    pub(super) direction: &'static str,
    pub(super) max_bytes: Option<u32>,
    pub(super) attached: Vec<String>,
    pub(super) held: u32,
    pub(super) ports: Vec<FlowDocument>,
    counters: Vec<PortCountersDocument>,
    core_counters: Option<CoreCountersDocument>,
}

pub(super) fn run(board: Option<&str>, globals: &Globals) -> Result<(), CliError> {
    let pool = globals.open()?;
    let look = || match board {
        Some(board) => control::status(&pool, board).map(|status| vec![status]),
        None => Ok(control::list(&pool)),
    };
    let begun = Instant::now();
    let mut found = look()?;
    // What was asked a moment ago may be answered in the next.
    while found.iter().any(AgentStatus::owes_answer) && begun.elapsed() < ANSWER_BOUND {
        std::thread::sleep(LOOK);
        found = look()?;
    }
    let (without_agent, dead) = match board {
        Some(_) => (Vec::new(), Vec::new()),
        None => (
            control::list_without_agent(&pool),
            control::list_dead(&pool),
        ),
    };
    let cores: Vec<CoreDocument> = found.into_iter().map(core).collect();
    let without_agent = without_agent.into_iter().map(alone).collect();
    let dead: Vec<DeadDocument> = dead
        .into_iter()
        .map(|DeadCore { board, how }| DeadDocument { board, how })
        .collect();
    let verdict = verdict(&cores, &dead);
    output::print(
        globals.json,
        &Document {
            pool: pool.options().name().to_owned(),
            cores,
            without_agent,
            dead,
        },
        text,
    )?;
    verdict
}

/// Why a core that is up answers nobody. Call when it has had time to.
fn silence(status: &AgentStatus) -> Option<&'static str> {
    match (status.is_stopped(), status.owes_answer()) {
        (true, _) => Some("its process is stopped; SIGCONT lets it go on"),
        (false, true) if status.is_linked() => Some("it has not answered a port"),
        (false, _) => None,
    }
}

/// A failure if a core has died for good, or does not answer.
fn verdict(cores: &[CoreDocument], dead: &[DeadDocument]) -> Result<(), CliError> {
    let silent = cores.iter().filter(|core| core.silent.is_some());
    let silent = silent.map(|core| format!("board {} does not answer", escaped(&core.board)));
    let dead = dead
        .iter()
        .map(|core| format!("the core of board {} has died", escaped(&core.board)));
    let wrong: Vec<String> = silent.chain(dead).collect();
    match wrong.is_empty() {
        true => Ok(()),
        false => Err(CliError::Failed(wrong.join("; "))),
    }
}

fn alone(CoreWithoutAgent { board, core_pid }: CoreWithoutAgent) -> WithoutAgentDocument {
    WithoutAgentDocument { board, core_pid }
}

pub(super) fn core(status: AgentStatus) -> CoreDocument {
    let max_bytes = |endpoint: u32| {
        let mut records = status.link.as_ref()?.endpoints.iter();
        let record = records.find(|record| record.index == endpoint as usize)?;
        Some(record.max_bytes)
    };
    let core_counters = |endpoint: u32| {
        let mut counts = status.link.as_ref()?.counts.iter();
        let counts = counts.find(|counts| counts.endpoint == endpoint as usize)?;
        Some(CoreCountersDocument {
            violations: counts.violations,
            full: counts.full,
            no_slot: counts.no_slot,
            dropped: counts.dropped,
        })
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
        core_counters: core_counters(endpoint.endpoint),
        counters: endpoint.counters.iter().map(port_counters).collect(),
        channel: endpoint.channel.clone(),
        direction: match endpoint.direction {
            Direction::ToCore => "to core",
            Direction::FromCore => "from core",
        },
        attached: endpoint.attached.clone(),
        held: endpoint.held,
    });
    CoreDocument {
        counters: counters(&status.counters),
        rings_ignored: status.counters.rings_ignored,
        sessions_renewed: status.counters.renewals,
        up: status.is_linked(),
        silent: silence(&status),
        endpoints: endpoints.collect(),
        board: status.board,
        agent: status.agent.name,
        agent_pid: status.agent.identity.pid,
        core_pid: (status.core_pid != 0).then_some(status.core_pid),
        link: status.link.map(|link| LinkDocument {
            program: link.name,
            linux_session: link.linux_session,
            core_session: link.core_session,
            echo: link.echo,
            state: match link.state {
                LinkState::Down => "down",
                LinkState::Up => "up",
                LinkState::Refused => "refused",
            },
            reason: link.reason,
            violation: link.violation.map(|violation| violation.to_string()),
            linux_bell: bell(link.linux_bell),
            core_bell: bell(link.core_bell),
        }),
    }
}

fn counters(counters: &CoreCounters) -> CountersDocument {
    let last = Violation::last_of(counters);
    CountersDocument {
        violations: counters.violations,
        last_violation: last.map(|violation| violation.to_string()),
        full: counters.full,
        no_slot: counters.no_slot,
        lost: counters.lost,
    }
}

fn port_counters((port, counted): &(usize, CoreCounters)) -> PortCountersDocument {
    PortCountersDocument {
        port: *port,
        counters: counters(counted),
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
        rings: if flow.has_doorbell {
            "eventfd"
        } else {
            "agent"
        },
        to_core: queue(flow.to_core),
        from_core: queue(flow.from_core),
        window: flow.window,
        dropped: flow.dropped,
    }
}

/// Which ways the rings of those go that are attached.
fn rings(ports: &[FlowDocument]) -> String {
    let attached = || ports.iter().filter(|port| port.session != 0);
    let ways = ["eventfd", "agent"].into_iter();
    let used = ways.filter(|way| attached().any(|port| port.rings == *way));
    let used: Vec<&str> = used.collect();
    if used.is_empty() {
        return "-".to_owned();
    }
    used.join(", ")
}

fn text(document: &Document) -> String {
    let is_empty = document.cores.is_empty() && document.without_agent.is_empty();
    if is_empty && document.dead.is_empty() {
        return format!(
            "no core runs in pool {}; `hythe core run BOARD` starts one",
            document.pool
        );
    }
    let cores = document.cores.iter().map(core_text);
    let without_agent = document.without_agent.iter().map(without_agent_text);
    let dead = document.dead.iter().map(|core| {
        format!(
            "the core of board {board} has died: {how} (`hythe core log {board}`; `hythe core run \
             {board}` starts it)",
            board = escaped(&core.board),
            how = escaped(&core.how)
        )
    });
    let all: Vec<String> = cores.chain(without_agent).chain(dead).collect();
    all.join("\n")
}

/// As `core status` of that board refuses.
fn without_agent_text(core: &WithoutAgentDocument) -> String {
    let error = CoreError::WithoutAgent {
        board: core.board.clone(),
        core_pid: core.core_pid,
    };
    format!("{error}{}", remedy::of_core(&error))
}

pub(super) fn core_text(core: &CoreDocument) -> String {
    let process = core
        .core_pid
        .map_or_else(|| "no process".to_owned(), |pid| format!("process {pid}"));
    let program = core.link.as_ref().map_or_else(String::new, |link| {
        format!(
            ", program {}, session {} of the core, {} of Linux",
            escaped(&link.program),
            link.core_session,
            link.linux_session
        )
    });
    let state = match (core.up, core.silent) {
        (false, _) => "down".to_owned(),
        (true, None) => "up".to_owned(),
        (true, Some(why)) => format!("up and does not answer ({why})"),
    };
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
                rings(&endpoint.ports),
                output::list_or_nobody(&endpoint.attached),
            ]
        })
        .collect();
    format!(
        "board {} is {state}: {process}, agent {} (pid {}){program}\n{}{}",
        core.board,
        core.agent,
        core.agent_pid,
        output::table(
            &[
                "  CHANNEL",
                "CARRIES PAYLOAD",
                ">LARGEST",
                ">HELD BY CORE",
                "RINGS",
                "ATTACHED"
            ],
            &rows
        ),
        counted_text(core)
    )
}

/// What went wrong, as both sides counted it; empty if nothing did.
fn counted_text(core: &CoreDocument) -> String {
    let mut lines = String::new();
    let mut say = |line: String| {
        if !line.is_empty() {
            lines.push_str("  ");
            lines.push_str(&line);
            lines.push('\n');
        }
    };
    if let Some(violation) = core.link.as_ref().and_then(|link| link.violation.as_ref()) {
        say(format!("its link cannot be used: {violation}"));
    }
    let linux = &core.counters;
    let last = linux.last_violation.as_ref();
    let last = last.map_or_else(String::new, |last| format!(" (the last: {last})"));
    say(counts(
        "Linux counted ",
        &[
            ("violations of the core", linux.violations, &last),
            ("full queues", linux.full, ""),
            ("times no empty slot", linux.no_slot, ""),
            ("lost sessions", linux.lost, ""),
            ("rings that announced nothing", core.rings_ignored, ""),
            ("sessions begun anew", core.sessions_renewed, ""),
        ],
    ));
    for endpoint in &core.endpoints {
        let Some(counted) = &endpoint.core_counters else {
            continue;
        };
        say(counts(
            &format!("the core counted at {}, ", escaped(&endpoint.channel)),
            &[
                ("violations of Linux", counted.violations.into(), ""),
                ("full queues", counted.full.into(), ""),
                ("times no empty slot", counted.no_slot.into(), ""),
                ("buffers of lost sessions", counted.dropped.into(), ""),
            ],
        ));
    }
    lines
}

/// Those that are not 0, each with a remark behind it.
fn counts(begin: &str, counted: &[(&str, u64, &str)]) -> String {
    let seen = counted.iter().filter(|(_, count, _)| *count > 0);
    let seen: Vec<String> = seen
        .map(|(what, count, remark)| format!("{what}: {count}{remark}"))
        .collect();
    if seen.is_empty() {
        return String::new();
    }
    format!("{begin}{}", seen.join(", "))
}

//! Looking at, and stopping, an agent that runs in another process. All of it is read from the
//! pool: there is no protocol.

use std::collections::BTreeSet;
use std::fs;
use std::time::{Duration, Instant};

use hythe_abi::pool::CORE_PORTS_MAX;
use hythe_node::hop::HopPool as _;
use hythe_node::{
    Direction, HolderKind, Liveness, MemberIndex, MemberInfo, MemberKind, Pool, Snapshot,
};
use hythe_pool::{CoreCounters, core_port_name};
use rustix::process::{Pid, PidfdFlags, Signal, pidfd_open, pidfd_send_signal};

use crate::error::system;
use crate::link::{LinkMap, LinkStatus};
use crate::stopped::stopped_process;
use crate::{CoreError, counters, log, orphan};

/// What can be seen of a running core from outside.
#[derive(Clone, Debug)]
pub struct AgentStatus {
    /// The board.
    pub board: String,
    /// The agent.
    pub agent: MemberInfo,
    /// The core's process; 0: there is none at this moment.
    pub core_pid: u32,
    /// What the link says; `None`: it cannot be read yet.
    pub link: Option<LinkStatus>,
    /// The endpoints that are behind channels.
    pub endpoints: Vec<EndpointStatus>,
    /// What Linux has counted of the core, with what was counted in its earlier lives under this
    /// agent: by the agent, and by all ports.
    pub counters: CoreCounters,
    /// The core's process is stopped by a signal.
    is_stopped: bool,
}

impl AgentStatus {
    /// Is the core's process stopped by a signal, so that it answers nobody?
    #[must_use]
    pub const fn is_stopped(&self) -> bool {
        self.is_stopped
    }

    /// Has a port asked the core for a session, and no answer yet? The core has had no time for
    /// that if this was a moment ago.
    #[must_use]
    pub fn owes_answer(&self) -> bool {
        let mut flows = self.link.iter().flat_map(|link| &link.flows);
        flows.any(|flow| flow.session != 0 && flow.session != flow.echo)
    }

    /// Does its core answer, with all of its endpoints behind their channels?
    #[must_use]
    pub fn is_up(&self) -> bool {
        let named = self.link.as_ref().map(|link| link.endpoints.len());
        self.is_linked() && named == Some(self.endpoints.len())
    }

    /// The endpoint of that name, which stands behind the core's own name if it has one.
    #[must_use]
    pub fn endpoint(&self, name: &str) -> Option<&EndpointStatus> {
        let is_named = |channel: &str| {
            let own = channel.strip_prefix(&*self.board);
            channel == name || own.and_then(|own| own.strip_prefix('/')) == Some(name)
        };
        self.endpoints.iter().find(|end| is_named(&end.channel))
    }

    /// Has its core answered the agent?
    #[must_use]
    pub fn is_linked(&self) -> bool {
        self.core_pid != 0 && self.link.as_ref().is_some_and(LinkStatus::is_up)
    }
}

/// A core that runs on although its agent has died.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct CoreWithoutAgent {
    /// The board.
    pub board: String,
    /// The core's process.
    pub core_pid: u32,
}

/// A core that has died and is not started again.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct DeadCore {
    /// The board.
    pub board: String,
    /// How it died, and how often it had been started again.
    pub how: String,
}

/// An endpoint of a running core.
#[derive(Clone, Debug)]
pub struct EndpointStatus {
    /// Its number in the link.
    pub endpoint: u32,
    /// Its channel.
    pub channel: String,
    /// Which way payload travels.
    pub direction: Direction,
    /// Who is attached: names and processes.
    pub attached: Vec<String>,
    /// Buffers that the core answers for over this endpoint.
    pub held: u32,
    /// What Linux has counted at each port that was used since this life of the core began.
    pub counters: Vec<(usize, CoreCounters)>,
}

pub(crate) fn agent_name(board: &str) -> String {
    format!("agent-{board}")
}

/// The living agent of a board.
pub(crate) fn find_agent(pool: &Pool, board: &str) -> Option<MemberInfo> {
    let name = agent_name(board);
    pool.control().tables().members().find(|member| {
        member.kind == MemberKind::Process
            && member.name == name
            && pool.liveness(member) != Liveness::Dead
    })
}

pub(crate) fn show(member: &MemberInfo) -> String {
    format!("{} (pid {})", member.name, member.identity.pid)
}

/// The agents that run in a pool.
#[must_use]
pub fn list(pool: &Pool) -> Vec<AgentStatus> {
    let agents = pool
        .control()
        .tables()
        .members()
        .filter(|member| member.kind == MemberKind::Process);
    let boards = agents.filter_map(|member| Some(member.name.strip_prefix("agent-")?.to_owned()));
    boards
        .filter_map(|board| status(pool, &board).ok())
        .collect()
}

/// What can be seen of a board's core.
///
/// # Errors
/// [`CoreError::NotRunning`]; [`CoreError::WithoutAgent`] if its agent has died and it goes on.
pub fn status(pool: &Pool, board: &str) -> Result<AgentStatus, CoreError> {
    let agent = find_agent(pool, board).ok_or_else(|| no_agent(pool, board))?;
    let snapshot = pool.snapshot();
    let region = snapshot
        .regions
        .iter()
        .find(|region| region.name == board && region.link.is_some());
    let link = region.and_then(|region| LinkMap::open(pool, region.index).ok());
    let core = snapshot.members.iter().find(|member| {
        member.kind == MemberKind::CoreEndpoint
            && member.name == board
            && pool.liveness(member) == Liveness::Alive
    });
    let region = region.map(|region| region.index);
    let channels = snapshot.channels.iter();
    let mut counted = counters::Sum::default();
    if let Some(core) = core {
        counters::rows(pool, core.identity)
            .for_each(|row| counted += pool.control().tables().core_counters(row.index));
    }
    let ours =
        channels.filter(|channel| channel.core.is_some_and(|core| Some(core.region) == region));
    Ok(AgentStatus {
        board: board.to_owned(),
        agent,
        core_pid: core.map_or(0, |core| core.identity.pid),
        link: link.map(|link| link.status()),
        endpoints: ours
            .filter_map(|channel| endpoint(pool, &snapshot, channel))
            .collect(),
        counters: counted.0,
        is_stopped: core.is_some_and(|core| stopped_process(&core.identity).is_some()),
    })
}

/// The cores that run on although their agents have died.
#[must_use]
pub fn list_without_agent(pool: &Pool) -> Vec<CoreWithoutAgent> {
    let regions = pool.snapshot().regions.into_iter();
    let cores = regions.filter(|region| region.link.is_some());
    cores
        .filter(|core| find_agent(pool, &core.name).is_none())
        .filter_map(|core| core_without_agent(pool, &core.name))
        .collect()
}

/// The cores that have died and are not started again, as far as this user may read their logs.
#[must_use]
pub fn list_dead(pool: &Pool) -> Vec<DeadCore> {
    let regions = pool.snapshot().regions.into_iter();
    let cores = regions.filter(|region| region.link.is_some());
    cores
        .filter(|core| find_agent(pool, &core.name).is_none())
        .filter_map(|core| {
            let how = log::death(&pool.path(), &core.name)?;
            let board = core.name;
            Some(DeadCore { board, how })
        })
        .collect()
}

fn core_without_agent(pool: &Pool, board: &str) -> Option<CoreWithoutAgent> {
    let core = orphan::find(pool, board)?;
    (pool.liveness(&core) == Liveness::Alive).then(|| CoreWithoutAgent {
        board: board.to_owned(),
        core_pid: core.identity.pid,
    })
}

fn no_agent(pool: &Pool, board: &str) -> CoreError {
    match core_without_agent(pool, board) {
        Some(CoreWithoutAgent { board, core_pid }) => CoreError::WithoutAgent { board, core_pid },
        None => not_running(pool, board),
    }
}

fn not_running(pool: &Pool, board: &str) -> CoreError {
    CoreError::NotRunning {
        board: board.to_owned(),
        death: log::death(&pool.path(), board),
    }
}

fn endpoint(
    pool: &Pool,
    snapshot: &Snapshot,
    channel: &hythe_node::ChannelInfo,
) -> Option<EndpointStatus> {
    let core = channel.core?;
    let name = |index| {
        let member = snapshot.members.iter().find(|member| member.index == index);
        member.map_or_else(|| format!("participant {}", index.0), show)
    };
    let first = snapshot.members.iter().find(|row| row.index == core.row)?;
    let row_of = |port| {
        let name = core_port_name(&first.name, port);
        let mut rows = snapshot.members.iter();
        let other = rows.find(|row| row.identity == first.identity && row.name == name);
        if port == 0 { Some(first) } else { other }
    };
    let rows = (0..CORE_PORTS_MAX).filter_map(|port| Some((port, row_of(port)?.index)));
    let rows: Vec<(usize, MemberIndex)> = rows.collect();
    let is_row = |kind| rows.iter().any(|&(_, row)| kind == HolderKind::Member(row));
    let holders = snapshot.audit.holders.iter();
    let held = holders.filter(|holder| is_row(holder.kind));
    let tables = pool.control().tables();
    let counters = rows.iter();
    let counters = counters.map(|&(port, row)| (port, tables.core_counters(row)));
    Some(EndpointStatus {
        endpoint: core.endpoint,
        channel: channel.name.clone(),
        direction: core.direction,
        attached: channel
            .attached
            .iter()
            .flatten()
            .copied()
            .map(name)
            .collect(),
        // Buffers, each by the first of its rows: a slot has several references.
        held: held
            .map(|holder| holder.slot)
            .collect::<BTreeSet<_>>()
            .len() as u32,
        counters: counters.collect(),
    })
}

/// Tells the agent to stop, and waits until it and its core are gone. A core that goes on although
/// its agent has died is ended.
///
/// # Errors
/// [`CoreError::NotRunning`]; [`CoreError::OutOfReach`] in another container;
/// [`CoreError::StillThere`] naming what did not go in time.
pub fn stop(pool: &Pool, board: &str, bound: Duration) -> Result<(), CoreError> {
    let not_running = || not_running(pool, board);
    let Some(agent) = find_agent(pool, board) else {
        return match orphan::end(pool, board, bound)? {
            true => Ok(()),
            false => Err(not_running()),
        };
    };
    // By its number here it would be another process.
    if agent.identity.pid_namespace != hythe_node::own_identity().pid_namespace {
        return Err(CoreError::OutOfReach {
            board: board.to_owned(),
            agent: show(&agent),
        });
    }
    let core_pid = status(pool, board).map_or(0, |status| status.core_pid);
    let pid = i32::try_from(agent.identity.pid)
        .ok()
        .and_then(Pid::from_raw)
        .ok_or_else(not_running)?;
    let process = format!("/proc/{}", agent.identity.pid);
    // The descriptor first: if the process behind it still is the agent, it stays so.
    let opened = pidfd_open(pid, PidfdFlags::empty()).map_err(system("open", &process))?;
    if pool.liveness(&agent) == Liveness::Dead {
        return Err(not_running());
    }
    pidfd_send_signal(&opened, Signal::TERM).map_err(system("stop", &process))?;
    let deadline = Instant::now() + bound;
    loop {
        let left = remains(pool, board, &agent, core_pid);
        if left.is_empty() {
            return Ok(());
        }
        if Instant::now() > deadline {
            let left = left.join(" and ");
            return Err(CoreError::StillThere {
                board: board.to_owned(),
                bound,
                left,
            });
        }
        std::thread::sleep(Duration::from_millis(10));
    }
}

fn remains(pool: &Pool, board: &str, agent: &MemberInfo, core_pid: u32) -> Vec<String> {
    let mut left = Vec::new();
    let is_agent = |member: &MemberInfo| {
        member.index == agent.index
            && member.session == agent.session
            && pool.liveness(member) != Liveness::Dead
    };
    if pool
        .control()
        .tables()
        .members()
        .any(|member| is_agent(&member))
    {
        left.push(format!("its agent {}", show(agent)));
    }
    let is_core = |member: &MemberInfo| {
        member.kind == MemberKind::CoreEndpoint
            && member.name == board
            && member.identity.pid == core_pid
            && pool.liveness(member) == Liveness::Alive
    };
    if core_pid != 0
        && pool
            .control()
            .tables()
            .members()
            .any(|member| is_core(&member))
    {
        left.push(format!("its core, process {core_pid}"));
    }
    left
}

/// What the core has said since its agent was started last, or the newest of it. It can be read
/// after both have ended.
///
/// # Errors
/// [`CoreError::System`] if there is none, or it cannot be read.
pub fn log(pool: &Pool, board: &str) -> Result<String, CoreError> {
    let path = log::path(&pool.path(), board);
    let bytes = fs::read(&path).map_err(system("read", &path))?;
    Ok(String::from_utf8_lossy(&bytes).into_owned())
}

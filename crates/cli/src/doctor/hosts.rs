//! The host hop: its agent, what the agent needs of this machine, and whether it runs.

use std::io::{self, ErrorKind};
use std::net::{Ipv4Addr, Ipv6Addr, TcpListener, UdpSocket};

use hythe_cluster::command::{Reply, Request, SOCKET_NAME, ask, hosts_directory};
use hythe_cluster::{HostState, Status as AgentStatus};
use hythe_terminal::escaped;

use super::command::{Outcome, run};
use super::kernel;
use super::ports::{Owner, owner};
use super::{Group, Probe};
use crate::program::HOSTD;

const GROUP: Group = Group::Hosts;
/// Where agents take connections, and where Zenoh finds them, unless told otherwise.
const PORTS: [(u16, &str, &str); 2] = [
    (7450, "connections of other hosts", "--listen"),
    (7451, "discovery", "--discovery"),
];
/// Where Zenoh looks for others, unless told otherwise.
const SCOUTING: (Ipv4Addr, u16) = (Ipv4Addr::new(224, 0, 0, 224), 7446);
/// The kernel's list of protocols that can be laid over TCP.
const LAYERS: &str = "/proc/sys/net/ipv4/tcp_available_ulp";

pub(super) fn probe() -> Vec<Probe> {
    let agent = running_agent();
    let mut probes = vec![program(), realm(), agent_probe(agent.as_ref())];
    let agent_pid = agent.as_ref().map(|agent| agent.pid);
    let ports = PORTS.map(|(port, purpose, option)| {
        let tried = bind(port).map_err(|error| (error.kind(), owner(port)));
        port_probe((port, purpose, option), tried, agent_pid)
    });
    probes.extend(ports);
    probes.extend([multicast(), kernel_tls()]);
    probes
}

/// The program of the agent, found as `hythe host` finds it.
fn program() -> Probe {
    let Some(path) = HOSTD.find() else {
        let detail = "not built (channels stay on this host)";
        return Probe::missing(GROUP, HOSTD.name, detail).enable("make hosts");
    };
    let shown = path.to_string_lossy();
    match run(&shown, &["--version"]) {
        Outcome::Succeeded(line) => {
            Probe::works(GROUP, HOSTD.name, format!("{line}, {}", escaped(&path)))
        }
        Outcome::Failed(line) => Probe::missing(
            GROUP,
            HOSTD.name,
            format!("{} fails: {line}", escaped(&path)),
        )
        .enable("make hosts"),
        Outcome::NotStarted => Probe::missing(
            GROUP,
            HOSTD.name,
            format!("{} does not start", escaped(&path)),
        )
        .enable("make hosts"),
        Outcome::TimedOut => {
            let detail = format!("{} does not end in time", escaped(&path));
            Probe::unknown(GROUP, HOSTD.name, detail)
        }
    }
}

/// Does this user's host belong to a realm?
fn realm() -> Probe {
    let folder = match hosts_directory() {
        Ok(folder) => folder,
        Err(error) => return Probe::unknown(GROUP, "realm", error.to_string()),
    };
    let shown = escaped(&folder);
    if folder.is_dir() {
        return Probe::works(GROUP, "realm", format!("keys and rights are in {shown}"));
    }
    Probe::missing(GROUP, "realm", format!("this host is in none: no {shown}"))
        .enable("hythe host init, or `hythe host add` on a host that is in one")
}

/// What the agent of this user says, if one runs.
fn running_agent() -> Option<AgentStatus> {
    let socket = hosts_directory().ok()?.join(SOCKET_NAME);
    match ask(&socket, &Request::Status).ok()? {
        Reply::Status { status } => Some(*status),
        _ => None,
    }
}

fn agent_probe(agent: Option<&AgentStatus>) -> Probe {
    let Some(agent) = agent else {
        return Probe::missing(GROUP, "agent", "none runs").enable("hythe host start");
    };
    let connected = |host: &&hythe_cluster::HostStatus| host.state == HostState::Connected;
    let count = agent.hosts.iter().filter(connected).count();
    let detail = format!(
        "host {} serves pool {}, process {}; {count} of {} other hosts connected",
        agent.host,
        escaped(&agent.pool),
        agent.pid,
        agent.hosts.len(),
    );
    Probe::works(GROUP, "agent", detail)
}

/// Takes a port for a moment as the agent does, at all addresses.
fn bind(port: u16) -> io::Result<()> {
    let bound = TcpListener::bind((Ipv6Addr::UNSPECIFIED, port));
    let bound = bound.or_else(|error| match error.kind() {
        ErrorKind::AddrInUse => Err(error),
        // A host without IPv6.
        _ => TcpListener::bind((Ipv4Addr::UNSPECIFIED, port)),
    });
    bound.map(drop)
}

fn port_probe(
    (port, purpose, option): (u16, &str, &str),
    tried: Result<(), (ErrorKind, Option<Owner>)>,
    agent_pid: Option<u32>,
) -> Probe {
    let name = format!("port {port}");
    match tried {
        Ok(()) => Probe::works(GROUP, name, format!("free ({purpose})")),
        Err((ErrorKind::AddrInUse, Some(Owner::Process { pid, .. }))) if Some(pid) == agent_pid => {
            Probe::works(GROUP, name, format!("the agent has it ({purpose})"))
        }
        Err((ErrorKind::AddrInUse, owner)) => {
            let who = owner.map_or_else(|| "another program".to_owned(), |who| who.to_string());
            let how = format!("stop that program, or hythe host start {option} ADDRESS:PORT");
            Probe::missing(GROUP, name, format!("{who} has it ({purpose})")).enable(how)
        }
        Err((error, _)) => Probe::unknown(GROUP, name, format!("{error} ({purpose})")),
    }
}

/// Has a packet to the group where agents look for each other a way out? None is sent.
fn multicast() -> Probe {
    let socket = UdpSocket::bind((Ipv4Addr::UNSPECIFIED, 0));
    let from = socket.and_then(|socket| {
        socket.connect(SCOUTING)?;
        socket.local_addr()
    });
    let (group, port) = SCOUTING;
    match from {
        Ok(from) => {
            let detail = format!(
                "agents look for each other at {group}:{port}, from {}",
                from.ip()
            );
            Probe::works(GROUP, "multicast", detail)
        }
        Err(error) => {
            let detail = format!("agents cannot look for each other at {group}:{port}: {error}");
            let how =
                "ip route add 224.0.0.0/4 dev INTERFACE, or hythe host start --peer HOST:PORT";
            Probe::missing(GROUP, "multicast", detail).enable(how)
        }
    }
}

/// Sealing by the kernel. The agent does not use it, and `hythe host status` says so, too.
fn kernel_tls() -> Probe {
    let (name, unused) = ("kernel TLS", "the agent seals by itself");
    match kernel::read(LAYERS) {
        Some(list) if list.split_whitespace().any(|layer| layer == "tls") => {
            Probe::works(GROUP, name, format!("the kernel has it; {unused}"))
        }
        // No way to get it: nothing would be won.
        Some(_) => Probe::missing(GROUP, name, format!("not in {LAYERS}; {unused}")),
        None => Probe::unknown(GROUP, name, format!("cannot read {LAYERS}; {unused}")),
    }
}

#[cfg(test)]
mod tests {
    use super::super::Status;
    use super::*;

    #[test]
    fn port_that_another_program_has_is_told_from_the_agents() {
        let probe = |tried| port_probe((7450, "connections", "--listen"), tried, Some(7));
        let used = |pid, name: &str| {
            let name = name.to_owned();
            probe(Err((
                ErrorKind::AddrInUse,
                Some(Owner::Process { pid, name }),
            )))
        };
        assert_eq!(probe(Ok(())).status, Status::Works);
        assert_eq!(used(7, "hythe-hostd").status, Status::Works);
        let taken = used(8, "nginx");
        assert_eq!(taken.status, Status::Missing);
        assert_eq!(taken.detail, "nginx (8) has it (connections)");
        let how = taken.enable.expect("a remedy");
        assert!(
            how.contains("hythe host start --listen ADDRESS:PORT"),
            "{how}"
        );
        let unseen = probe(Err((ErrorKind::AddrInUse, None)));
        assert_eq!(unseen.status, Status::Missing);
        let refused = probe(Err((ErrorKind::PermissionDenied, None)));
        assert_eq!(refused.status, Status::Unknown);
    }
}

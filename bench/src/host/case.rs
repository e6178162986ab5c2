//! What is measured: a system, how far, a way of waiting, what is done with the payload.

use std::fmt;

use clap::ValueEnum;
use serde::{Deserialize, Serialize};

use crate::ipc::case::{self as ipc, word};

/// What carries the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum System {
    /// One datagram there and one back, spinning or blocking: what any protocol over UDP builds on.
    FloorUdp,
    /// One frame there and one back by `AF_XDP`, spinning or blocking.
    FloorXdp,
    /// Bare ping-pong over TLS 1.3 on TCP, by `rustls`.
    FloorTls,
    /// A TCP stream: the payload is copied in and out.
    Tcp,
    /// UDP: a message is as many datagrams as it takes; the payload is copied in and out.
    Udp,
    /// A System V segment and semaphores: the payload is copied in and out.
    Sysv,
    /// Channels whose tasks have a sealed TCP connection; on one host, the process hop.
    HytheTls,
    /// Channels whose tasks have a TCP connection of their own, over a trusted link.
    HytheTcp,
    /// That, and short messages by `AF_XDP` frames.
    HytheXdp,
    /// Zenoh over TLS.
    Zenoh,
    /// Zenoh over plain TCP.
    ZenohTcp,
    /// Open MPI: shared memory within a host, TCP between two.
    Openmpi,
    /// MPICH, likewise.
    Mpich,
    /// UCX alone, which MPICH may be built on: messages by tags.
    Ucx,
    /// PVM 3.4, the direct route between tasks.
    Pvm,
}

/// Who starts the two sides of a system, and how they meet.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Sides {
    /// Both hosts, by sockets of their own.
    Sockets,
    /// Both hosts, by a socket at their interfaces.
    Frames,
    /// Both hosts, each by a program that `make hosts` builds.
    Programs,
    /// The near host: the system has a starter that reaches the other.
    Starter,
    /// Within one host only, as in scenario `ipc`.
    Memory,
    /// Both hosts, in the pools that the agents of this carrier join.
    Pools(Carrier),
}

/// By what agents of two hosts reach each other.
#[derive(Clone, Copy, Debug, PartialEq, Eq, PartialOrd, Ord, Serialize, Deserialize)]
pub(crate) enum Carrier {
    /// TLS over TCP, between the two processes: the default.
    Tls,
    /// TCP between them, in clear text.
    Tcp,
    /// That, and short messages by `AF_XDP` frames.
    Xdp,
}

impl Carrier {
    /// What `hythe host status` calls it.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::Tls => "tls",
            Self::Tcp => "tcp",
            Self::Xdp => "tcp, xdp",
        }
    }

    /// Is it for links that both users trust?
    pub(super) const fn is_for_trusted(self) -> bool {
        !matches!(self, Self::Tls)
    }

    /// Which of the links between the hosts is its own.
    pub(super) const fn link(self) -> usize {
        match self {
            Self::Tls => 0,
            Self::Tcp => 1,
            Self::Xdp => 2,
        }
    }
}

impl System {
    pub(super) const fn sides(self) -> Sides {
        match self {
            Self::FloorUdp | Self::Tcp | Self::Udp => Sides::Sockets,
            Self::FloorXdp => Sides::Frames,
            Self::FloorTls | Self::Zenoh | Self::ZenohTcp => Sides::Programs,
            Self::Openmpi | Self::Mpich | Self::Ucx | Self::Pvm => Sides::Starter,
            Self::Sysv => Sides::Memory,
            Self::HytheTls => Sides::Pools(Carrier::Tls),
            Self::HytheTcp => Sides::Pools(Carrier::Tcp),
            Self::HytheXdp => Sides::Pools(Carrier::Xdp),
        }
    }
}

/// Between whom.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Reach {
    /// Two processes of one host.
    Local,
    /// Two hosts.
    Remote,
}

/// How a side waits for its turn.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Wait {
    /// Looks again and again.
    Poll,
    /// Sleeps in the kernel.
    Block,
}

/// What is done with the payload.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum, Serialize, Deserialize)]
pub(crate) enum Payload {
    /// Written once before the run, then only forwarded.
    Untouched,
    /// Written by each sender and read by each receiver every time.
    Filled,
}

/// One case: `system/reach/wait/payload`.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, Deserialize)]
pub(crate) struct Case {
    pub(crate) system: System,
    pub(crate) reach: Reach,
    pub(crate) wait: Wait,
    pub(crate) payload: Payload,
}

/// All that make sense; those that are compared stand next to each other.
pub(super) fn all() -> Vec<Case> {
    let mut cases = Vec::new();
    for &payload in Payload::value_variants() {
        for &wait in Wait::value_variants() {
            for &reach in Reach::value_variants() {
                let systems = System::value_variants().iter();
                let of_systems = systems.map(|&system| Case {
                    system,
                    reach,
                    wait,
                    payload,
                });
                cases.extend(of_systems.filter(|case| case.makes_sense()));
            }
        }
    }
    cases
}

impl Case {
    /// Copies of a message by the kernel: into a socket, and out of one.
    pub(super) const fn kernel_copies(self) -> Option<u32> {
        match (self.system.sides(), self.reach) {
            (Sides::Starter, _) | (Sides::Programs, Reach::Local) => None,
            (Sides::Programs, _) if !matches!(self.system, System::FloorTls) => None,
            (Sides::Memory, _) | (Sides::Pools(_), Reach::Local) => Some(0),
            (Sides::Sockets | Sides::Frames | Sides::Programs | Sides::Pools(_), _) => Some(2),
        }
    }

    /// By which agents it goes from host to host.
    pub(super) const fn carrier(self) -> Option<Carrier> {
        match (self.system.sides(), self.reach) {
            (Sides::Pools(carrier), Reach::Remote) => Some(carrier),
            _ => None,
        }
    }

    /// Is it one of which allocations and system calls are counted?
    pub(super) const fn is_steady(self) -> bool {
        self.carrier().is_some()
    }

    /// The most that one message may have.
    pub(super) const fn bytes_max(self) -> usize {
        match self.system {
            System::FloorUdp => 65_504,
            // What a link takes in one.
            System::FloorXdp => 1_472,
            _ => 4 << 20,
        }
    }

    /// What a case of scenario `ipc` has in common with it.
    pub(super) const fn of_ipc(self) -> ipc::Case {
        ipc::Case {
            system: match self.system {
                System::HytheTls | System::HytheTcp | System::HytheXdp => ipc::System::Hythe,
                System::Sysv => ipc::System::Sysv,
                _ => ipc::System::Unix,
            },
            wait: match self.wait {
                Wait::Poll => ipc::Wait::Poll,
                Wait::Block => ipc::Wait::Block,
            },
            pattern: match self.payload {
                Payload::Untouched => ipc::Pattern::Untouched,
                Payload::Filled => ipc::Pattern::Filled,
            },
            subscribers: 1,
        }
    }

    /// What copies touches the payload; a semaphore sleeps in the kernel, and so do Zenoh and PVM;
    /// MPI and UCX never do.
    const fn makes_sense(self) -> bool {
        let is_filled = matches!(self.payload, Payload::Filled);
        match (self.system, self.reach, self.wait) {
            (System::FloorUdp | System::FloorXdp, Reach::Remote, _)
            | (System::Tcp | System::Udp, ..) => is_filled,
            (System::FloorTls | System::Zenoh | System::ZenohTcp, Reach::Remote, Wait::Block) => {
                is_filled
            }
            (System::Sysv, Reach::Local, Wait::Block) => is_filled,
            (System::Openmpi | System::Mpich | System::Ucx, _, Wait::Poll)
            | (System::Pvm, _, Wait::Block) => is_filled,
            (System::HytheTls, ..) => true,
            // Within a host no carrier takes part: the row of one is that of all.
            (System::HytheTcp | System::HytheXdp, Reach::Remote, _) => true,
            _ => false,
        }
    }
}

impl fmt::Display for Case {
    fn fmt(&self, out: &mut fmt::Formatter<'_>) -> fmt::Result {
        let (system, reach) = (word(self.system), word(self.reach));
        let (wait, payload) = (word(self.wait), word(self.payload));
        write!(out, "{system}/{reach}/{wait}/{payload}")
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn every_case_has_a_name_of_its_own_as_other_tools_read_it() {
        let names: Vec<String> = all().iter().map(Case::to_string).collect();
        let mut sorted = names.clone();
        sorted.sort_unstable();
        sorted.dedup();
        assert_eq!(sorted.len(), names.len());
        for name in [
            "floor-udp/remote/poll/filled",
            "floor-xdp/remote/poll/filled",
            "floor-tls/remote/block/filled",
            "tcp/remote/block/filled",
            "udp/local/poll/filled",
            "zenoh-tcp/remote/block/filled",
            "openmpi/remote/poll/filled",
            "mpich/local/poll/filled",
            "ucx/remote/poll/filled",
            "pvm/local/block/filled",
            "sysv/local/block/filled",
            "hythe-tls/local/block/untouched",
            "hythe-tls/remote/block/filled",
            "hythe-tcp/remote/poll/untouched",
            "hythe-xdp/remote/block/filled",
            "zenoh/remote/block/filled",
        ] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
    }
}

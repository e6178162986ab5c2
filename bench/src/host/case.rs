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
    /// Bare ping-pong over TLS 1.3 on TCP, by `rustls`.
    FloorTls,
    /// A TCP stream: the payload is copied in and out.
    Tcp,
    /// A System V segment and semaphores: the payload is copied in and out.
    Sysv,
    /// Channels that reach to another host by the agent's TLS; on one host, the process hop.
    HytheTls,
    /// Zenoh over TLS.
    Zenoh,
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
        match (self.system, self.reach) {
            (System::Zenoh, _) => None,
            (System::Sysv, _) | (_, Reach::Local) => Some(0),
            _ => Some(2),
        }
    }

    /// The most that one message may have.
    pub(super) const fn bytes_max(self) -> usize {
        match self.system {
            System::FloorUdp => 65_504,
            _ => 4 << 20,
        }
    }

    /// What a case of scenario `ipc` has in common with it.
    pub(super) const fn of_ipc(self) -> ipc::Case {
        ipc::Case {
            system: match self.system {
                System::HytheTls => ipc::System::Hythe,
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

    /// What copies touches the payload; an agent sleeps in the kernel, and so does a semaphore.
    const fn makes_sense(self) -> bool {
        match (self.system, self.reach, self.wait, self.payload) {
            (System::FloorUdp, Reach::Remote, _, Payload::Filled) => true,
            (
                System::Tcp | System::FloorTls | System::Zenoh,
                Reach::Remote,
                Wait::Block,
                filled,
            ) => {
                matches!(filled, Payload::Filled)
            }
            (System::Sysv, Reach::Local, Wait::Block, Payload::Filled) => true,
            (System::HytheTls, Reach::Local, _, _) => true,
            (System::HytheTls, Reach::Remote, Wait::Block, _) => true,
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
            "floor-tls/remote/block/filled",
            "tcp/remote/block/filled",
            "sysv/local/block/filled",
            "hythe-tls/local/block/untouched",
            "hythe-tls/remote/block/filled",
            "zenoh/remote/block/filled",
        ] {
            assert!(names.iter().any(|known| known == name), "{name}");
        }
    }
}

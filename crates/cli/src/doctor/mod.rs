//! `hythe doctor`: what this machine can do, found out by trying.
//!
//! The command calls [`probe_all`] and prints either [`render`]'s table or the probes as JSON. Each
//! probe tries its fast path for real, waits only with a bound, and leaves nothing behind: what it
//! opens is closed, files it makes have no name, network namespaces end with the process in them.
//! A probe never panics and never guesses: what it cannot find out is `unknown`, with the reason.

mod boards;
mod command;
mod hosts;
mod kernel;
mod memory;
mod network;
mod pacing;
mod ports;
mod reading_ahead;
mod realtime;
mod removal;
mod storage;
mod waiting;

use std::fmt::Write as _;

use serde::Serialize;

/// Whether a fast path can be used here.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Status {
    /// It was tried and works.
    Works,
    /// It was tried, or what it needs was looked for, and it does not work.
    Missing,
    /// It could not be tried.
    Unknown,
}

impl Status {
    fn word(self) -> &'static str {
        match self {
            Self::Works => "works",
            Self::Missing => "missing",
            Self::Unknown => "unknown",
        }
    }
}

/// What a fast path belongs to; the table is divided by it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Group {
    /// Where pools live.
    Memory,
    /// Bells and wait sets.
    Waiting,
    /// The media hop, and the host hop's links that are trusted.
    Network,
    /// The host hop's agent.
    Hosts,
    /// Sending at the pace of a clock.
    Pacing,
    /// The storage hop and read-ahead.
    Storage,
    /// Bounded latency.
    Realtime,
    /// RTOS cores.
    Boards,
    /// Programs that other commands start.
    Programs,
}

impl Group {
    fn word(self) -> &'static str {
        match self {
            Self::Memory => "memory",
            Self::Waiting => "waiting",
            Self::Network => "network",
            Self::Hosts => "hosts",
            Self::Pacing => "pacing",
            Self::Storage => "storage",
            Self::Realtime => "real time",
            Self::Boards => "boards",
            Self::Programs => "programs",
        }
    }
}

/// What was found out about one fast path.
#[derive(Clone, Debug, PartialEq, Eq, Serialize)]
pub(crate) struct Probe {
    /// The fast path.
    pub(crate) name: String,
    /// What it belongs to.
    pub(crate) group: Group,
    /// Whether it can be used.
    pub(crate) status: Status,
    /// What was tried and what came of it: the reason for the status.
    pub(crate) detail: String,
    /// How to get it; absent where it works or nothing can be done.
    pub(crate) enable: Option<String>,
}

impl Probe {
    fn works(group: Group, name: impl Into<String>, detail: impl Into<String>) -> Self {
        let (name, detail) = (name.into(), detail.into());
        Self {
            name,
            group,
            status: Status::Works,
            detail,
            enable: None,
        }
    }

    fn missing(group: Group, name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            status: Status::Missing,
            ..Self::works(group, name, detail)
        }
    }

    fn unknown(group: Group, name: impl Into<String>, detail: impl Into<String>) -> Self {
        Self {
            status: Status::Unknown,
            ..Self::works(group, name, detail)
        }
    }

    fn enable(self, how: impl Into<String>) -> Self {
        Self {
            enable: Some(how.into()),
            ..self
        }
    }
}

/// Tries everything; takes a few seconds at most where nothing hangs.
#[must_use]
pub(crate) fn probe_all() -> Vec<Probe> {
    [
        memory::probe(),
        removal::probe(),
        waiting::probe(),
        network::probe(),
        hosts::probe(),
        pacing::probe(),
        storage::probe(),
        reading_ahead::probe(),
        realtime::probe(),
        boards::probe(),
    ]
    .concat()
}

/// The probes as a table for people.
#[must_use]
pub(crate) fn render(probes: &[Probe]) -> String {
    let width = probes
        .iter()
        .map(|probe| probe.name.chars().count())
        .max()
        .unwrap_or(0);
    let mut text = String::new();
    let mut group = None;
    for probe in probes {
        if group != Some(probe.group) {
            let gap = if group.is_some() { "\n" } else { "" };
            let _ = writeln!(text, "{gap}{}", probe.group.word()); // a String takes everything
            group = Some(probe.group);
        }
        let (name, status) = (&probe.name, probe.status.word());
        let _ = writeln!(text, "  {name:width$}  {status:7}  {}", probe.detail);
        if let Some(how) = &probe.enable {
            let _ = writeln!(text, "  {:width$}  {:7}  -> {how}", "", "");
        }
    }
    let count = |status| probes.iter().filter(|probe| probe.status == status).count();
    let _ = writeln!(
        text,
        "\n{} work, {} are missing, {} could not be tried",
        count(Status::Works),
        count(Status::Missing),
        count(Status::Unknown),
    );
    text
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::collections::HashSet;

    #[test]
    fn every_probe_gives_a_reason_and_has_a_name_of_its_own() {
        let probes = probe_all();
        let mut names = HashSet::new();
        for probe in &probes {
            assert!(!probe.detail.trim().is_empty(), "{probe:?}");
            assert!(!probe.detail.contains('\n'), "{probe:?}");
            assert!(
                names.insert(&probe.name),
                "{} stands there twice",
                probe.name
            );
            if probe.status == Status::Works {
                assert_eq!(probe.enable, None, "{probe:?}");
            }
        }
        for name in [
            "huge pages",
            "/dev/shm",
            "locked memory",
            "futex",
            "futex_waitv",
            "io_uring",
            "SO_PEERPIDFD",
            "UDP GSO",
            "UDP GRO",
            "sendfile + GSO",
            "RTP over loopback",
            "MSG_ZEROCOPY",
            "AF_XDP copy",
            "AF_XDP zero-copy",
            "hythe-hostd",
            "realm",
            "agent",
            "port 7450",
            "port 7451",
            "multicast",
            "kernel TLS",
            "htb",
            "fq",
            "etf",
            "SO_TXTIME",
            "fanotify",
            "cachestat",
            "tracefs",
            "page flags",
            "memory pressure",
            "I/O priorities",
            "SCHED_FIFO",
            "PREEMPT_RT",
            "isolated CPUs",
            "ffmpeg",
            "qemu-system-arm",
        ] {
            assert!(
                names.contains(&name.to_string()),
                "no probe {name:?} in {names:?}"
            );
        }
    }

    #[test]
    fn table_names_every_probe_and_how_to_enable_what_is_missing() {
        let probes = [
            Probe::works(Group::Memory, "one", "it was tried"),
            Probe::missing(Group::Network, "another", "nobody has it").enable("get it"),
        ];
        let expected = "memory\n  one      works    it was tried\n\nnetwork\n  another  missing  \
                        nobody has it\n                    -> get it\n\n1 work, 1 are missing, 0 could \
                        not be tried\n";
        assert_eq!(render(&probes), expected);
    }

    #[test]
    fn probes_are_plain_objects_in_json() {
        let probe = Probe::unknown(Group::Realtime, "one", "it may not be tried").enable("ask");
        let json = serde_json::to_value(&probe).unwrap();
        let expected = serde_json::json!({
            "name": "one", "group": "realtime", "status": "unknown",
            "detail": "it may not be tried", "enable": "ask",
        });
        assert_eq!(json, expected);
        let works = serde_json::to_value(Probe::works(Group::Memory, "x", "y")).unwrap();
        assert_eq!(
            (&works["status"], &works["enable"]),
            (&"works".into(), &serde_json::Value::Null)
        );
    }

    #[test]
    fn nothing_is_left_behind() {
        let descriptors = || std::fs::read_dir("/proc/self/fd").unwrap().count();
        let children = || {
            let tasks = std::fs::read_dir("/proc/self/task").unwrap();
            let lists = tasks.map(|task| task.unwrap().path().join("children"));
            lists
                .filter_map(|list| std::fs::read_to_string(list).ok())
                .collect::<String>()
        };
        // Other tests of this process run at the same time and have descriptors of their own, but
        // not all of the time.
        let seen = || (descriptors(), children());
        let leaves_nothing = || {
            let before = seen();
            let _ = probe_all();
            let after = seen();
            (before == after).then_some(()).ok_or((before, after))
        };
        let tries: Vec<_> = (0..10).map_while(|_| leaves_nothing().err()).collect();
        assert!(tries.len() < 10, "before and after: {tries:?}");
    }
}

//! Sending at the pace of a clock: what the kernel's packet schedulers offer.
//!
//! A scheduler is tried for real, on the loopback interface of a network namespace that exists only
//! as long as the one `tc` process in it.

use std::io;
use std::net::UdpSocket;

use hythe::media::wire::scheduler::Scheduler as SetUp;
use rustix::net::TxTimeFlags;
use rustix::net::sockopt::set_txtime;
use rustix::time::ClockId;

use super::command::{Outcome, run};
use super::kernel::{Built, config};
use super::{Group, Probe, Status};
use crate::program::find;

/// A scheduler, what `tc` is told to set it up, and the kernel's option for it.
struct Scheduler {
    name: &'static str,
    arguments: &'static [&'static str],
    option: &'static str,
    module: &'static str,
}

const SCHEDULERS: [Scheduler; 3] = [
    Scheduler {
        name: "htb",
        arguments: &["handle", "1:", "htb", "default", "1"],
        option: "CONFIG_NET_SCH_HTB",
        module: "sch_htb",
    },
    Scheduler {
        name: "fq",
        arguments: &["fq"],
        option: "CONFIG_NET_SCH_FQ",
        module: "sch_fq",
    },
    Scheduler {
        name: "etf",
        arguments: &["etf", "clockid", "CLOCK_TAI", "delta", "200000"],
        option: "CONFIG_NET_SCH_ETF",
        module: "sch_etf",
    },
];

pub(super) fn probe() -> Vec<Probe> {
    let mut probes: Vec<Probe> = SCHEDULERS.iter().map(scheduler).collect();
    let scheduler = probes[1..]
        .iter()
        .map(|probe| probe.status)
        .fold(Status::Missing, better);
    probes.push(transmit_time(scheduler));
    probes
}

fn scheduler(scheduler: &Scheduler) -> Probe {
    let (group, name) = (Group::Pacing, scheduler.name);
    let how = format!(
        "a kernel with {} (Debian's have it: modprobe {})",
        scheduler.option, scheduler.module
    );
    if find("tc").is_none() || find("unshare").is_none() {
        return from_config(scheduler, "tc and unshare are not both installed", &how);
    }
    // Namespaces for users allow this without privilege where the system does.
    let attempt = [
        "--user",
        "--map-root-user",
        "--net",
        "tc",
        "qdisc",
        "add",
        "dev",
        "lo",
        "root",
    ];
    let plain = if rustix::process::geteuid().is_root() {
        &attempt[2..]
    } else {
        &attempt
    };
    match run("unshare", &[plain, scheduler.arguments].concat()) {
        Outcome::Succeeded(_) => Probe::works(
            group,
            name,
            "tc set it up in a network namespace of its own",
        ),
        Outcome::Failed(message) if message.contains("unknown") => Probe::missing(
            group,
            name,
            format!("the kernel does not have it (tc: {message})"),
        )
        .enable(how),
        Outcome::Failed(message) => from_config(scheduler, &format!("not tried: {message}"), &how),
        Outcome::NotStarted => from_config(scheduler, "unshare could not be started", &how),
        Outcome::TimedOut => from_config(scheduler, "tc did not end in time", &how),
    }
}

/// What the kernel's configuration says, where trying was not possible.
fn from_config(scheduler: &Scheduler, why: &str, how: &str) -> Probe {
    let (group, name) = (Group::Pacing, scheduler.name);
    match config(scheduler.option) {
        Some(Built::Out) => Probe::missing(
            group,
            name,
            format!("{why}; the kernel has no {}", scheduler.option),
        )
        .enable(how),
        Some(built) => {
            let as_what = if built == Built::In {
                "built in"
            } else {
                "as a module"
            };
            Probe::unknown(
                group,
                name,
                format!("{why}; the kernel has {} {as_what}", scheduler.option),
            )
            .enable("apt-get install iproute2 util-linux, and run as root to have it tried")
        }
        None => Probe::unknown(
            group,
            name,
            format!("{why}; the kernel's configuration is not known"),
        )
        .enable("apt-get install iproute2 util-linux, and run as root to have it tried"),
    }
}

/// Of two ways to the same end, what holds for the better one.
fn better(one: Status, other: Status) -> Status {
    match (one, other) {
        (Status::Works, _) | (_, Status::Works) => Status::Works,
        (Status::Unknown, _) | (_, Status::Unknown) => Status::Unknown,
        (Status::Missing, Status::Missing) => Status::Missing,
    }
}

/// `scheduler`: whether there is one that heeds the times.
fn transmit_time(scheduler: Status) -> Probe {
    let (group, name) = (Group::Pacing, "SO_TXTIME");
    let tried: io::Result<()> = UdpSocket::bind("127.0.0.1:0").and_then(|socket| {
        Ok(set_txtime(
            &socket,
            ClockId::Monotonic,
            TxTimeFlags::empty(),
        )?)
    });
    if let Err(error) = tried {
        return Probe::missing(group, name, error.to_string()).enable("Linux 4.19 or later");
    }
    let how = "a kernel with CONFIG_NET_SCH_FQ or CONFIG_NET_SCH_ETF";
    let here = match SetUp::of_all_interfaces() {
        Ok(all) => set_up(&all),
        Err(error) => format!("which interfaces have it is not known: {error}"),
    };
    match scheduler {
        Status::Works => {
            let how = "tc qdisc replace dev NAME root fq sets it up";
            Probe::works(group, name, format!("a socket took it; {here}; {how}"))
        }
        Status::Missing => {
            let detail = format!("a socket took it, but without fq or etf it does not act; {here}");
            Probe::missing(group, name, detail).enable(how)
        }
        Status::Unknown => {
            let detail = format!(
                "a socket took it, but it acts only with fq or etf, which are not known of; {here}"
            );
            Probe::unknown(group, name, detail).enable(how)
        }
    }
}

/// On which interfaces packets leave at their times, or what the interfaces have instead.
fn set_up(schedulers: &[SetUp]) -> String {
    let listed = |heeds: bool| {
        let those = schedulers
            .iter()
            .filter(|scheduler| scheduler.timing.heeds_departures() == heeds);
        those
            .map(ToString::to_string)
            .collect::<Vec<_>>()
            .join(", ")
    };
    match (&listed(true)[..], &listed(false)[..]) {
        ("", "") => "no interface has a scheduler".into(),
        ("", others) => format!("it acts on no interface as they are ({others})"),
        (those, _) => format!("it acts on {those}"),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe::media::wire::scheduler::Timing;

    fn scheduler(interface: &str, kind: &str, timing: Timing) -> SetUp {
        SetUp {
            interface: interface.into(),
            kind: kind.into(),
            timing,
        }
    }

    #[test]
    fn interfaces_that_heed_times_are_named_and_else_what_they_have() {
        let lo = scheduler("lo", "noqueue", Timing::None);
        let eth0 = scheduler("eth0", "mq of fq", Timing::Fq);
        let told = set_up(&[lo.clone(), eth0]);
        assert_eq!(told, "it acts on mq of fq on eth0");
        let told = set_up(&[lo]);
        assert!(told.ends_with("(noqueue on lo)"), "{told}");
        assert!(set_up(&[]).contains("no interface"));
    }
}

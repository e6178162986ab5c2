//! A veth link between two ends.

use std::io;
use std::process::{Command, Stdio};
use std::time::{Duration, Instant};

use super::message::{Link, Order};
use super::process::Process;
use crate::error::BenchError;

const UP_BOUND: Duration = Duration::from_secs(30);
const LOOK: Duration = Duration::from_millis(10);

/// Both ends of a link.
pub(crate) struct LinkPlan {
    pub(crate) interface: &'static str,
    pub(crate) addresses: [&'static str; 2],
    pub(crate) macs: [&'static str; 2],
}

/// Makes a link and has both put up their ends.
pub(crate) fn connect<O: Order>(
    link: &LinkPlan,
    ends: [&mut Process<O>; 2],
) -> Result<(), BenchError> {
    let [one, other] = [&ends[0], &ends[1]].map(|end| end.id().to_string());
    let LinkPlan {
        interface,
        addresses,
        macs,
    } = *link;
    ip_command(&[
        "link", "add", interface, "address", macs[0], "netns", &one, "type", "veth", "peer",
        "name", interface, "address", macs[1], "netns", &other,
    ])?;
    for (own, end) in ends.into_iter().enumerate() {
        end.order(&O::join(Link {
            interface: interface.to_owned(),
            address: addresses[own].to_owned(),
            other_address: addresses[1 - own].to_owned(),
            other_mac: macs[1 - own].to_owned(),
        }))?;
    }
    Ok(())
}

/// Loopback, address, interface, and the other end as a neighbour that nobody needs to ask for:
/// packets would be dropped meanwhile.
pub(crate) fn put_up(link: &Link) -> Result<(), BenchError> {
    let Link {
        interface,
        address,
        other_address,
        other_mac,
    } = link;
    let other = other_address.split('/').next().unwrap_or_default();
    ip_command(&["link", "set", "lo", "up"])?;
    ip_command(&["address", "add", address, "dev", interface])?;
    ip_command(&["link", "set", interface, "up"])?;
    ip_command(&[
        "neighbour",
        "replace",
        other,
        "lladdr",
        other_mac,
        "dev",
        interface,
        "nud",
        "permanent",
    ])
}

/// Until `/sys` says so, which some systems go by, and which it does up to a second later where
/// many links change. Behind [`show_own_interfaces`](super::show_own_interfaces).
pub(crate) fn wait_until_up(link: &Link) -> Result<(), BenchError> {
    let path = format!("/sys/class/net/{}/operstate", link.interface);
    let start = Instant::now();
    while std::fs::read_to_string(&path)?.trim() != "up" {
        if start.elapsed() > UP_BOUND {
            let why = format!("{} is not up after {UP_BOUND:?}", link.interface);
            return Err(BenchError::Unable(why));
        }
        std::thread::sleep(LOOK);
    }
    Ok(())
}

/// Runs `ip`, of iproute2.
fn ip_command(words: &[&str]) -> Result<(), BenchError> {
    let run = Command::new("ip").args(words).stdin(Stdio::null()).output();
    let output = run.map_err(|error| match error.kind() {
        io::ErrorKind::NotFound => BenchError::Unable(
            "the program `ip` is missing: install iproute2 (`make setup` does)".to_owned(),
        ),
        _ => error.into(),
    })?;
    if output.status.success() {
        return Ok(());
    }
    let said = String::from_utf8_lossy(&output.stderr).trim().to_owned();
    Err(BenchError::Unable(format!(
        "`ip {}`: {said}",
        words.join(" ")
    )))
}

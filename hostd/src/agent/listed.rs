//! Where the realm's list says that its hosts are: they are dialled there, too, so that a host is
//! found where no multicast and no discovery shows it.
//!
//! Names are resolved beside, one after the other, since that may take its time. Runs on a thread
//! of its own, and never waits for a resolver when it is to stop.

use std::collections::BTreeSet;
use std::net::ToSocketAddrs as _;
use std::sync::atomic::Ordering;
use std::sync::mpsc::{Receiver, RecvTimeoutError, channel};
use std::time::{Duration, Instant};

use hythe_cluster::{HOSTS_MAX, HostName};

use super::Served;

/// How often it is looked whether the list is another, or the agent is to stop.
const NAP: Duration = Duration::from_millis(200);
/// How often names are resolved anew.
const RESOLVE: Duration = Duration::from_secs(60);

/// Addresses of a host, or why there are none.
type Resolved = (HostName, Result<Vec<std::net::SocketAddr>, String>);

/// Until the agent stops.
pub(super) fn follow(served: &Served<'_>) {
    let mut listed = BTreeSet::new();
    let mut resolving: Option<Receiver<Resolved>> = None;
    let (mut number, mut next) = (None, Instant::now());
    while !served.stop.load(Ordering::Relaxed) {
        let Some(resolved) = &resolving else {
            let newest = served.realm.identity().document().number;
            if number == Some(newest) && Instant::now() < next {
                std::thread::sleep(NAP);
                continue;
            }
            (number, next) = (Some(newest), Instant::now() + RESOLVE);
            let hosts = hosts(served);
            let now: BTreeSet<HostName> = hosts.iter().map(|(name, _)| name.clone()).collect();
            for gone in listed.difference(&now) {
                served.directory.list(gone.clone(), None);
            }
            listed = now;
            resolving = resolve(hosts);
            continue;
        };
        match resolved.recv_timeout(NAP) {
            Ok((host, addresses)) => served.directory.list(host, Some(addresses)),
            Err(RecvTimeoutError::Timeout) => {}
            Err(RecvTimeoutError::Disconnected) => resolving = None,
        }
    }
}

/// The other hosts of the list. Of one that is longer than an agent connects to, none: which of
/// them are there, only discovery tells.
fn hosts(served: &Served<'_>) -> Vec<(HostName, Vec<String>)> {
    let identity = served.realm.identity();
    let hosts = &identity.document().hosts;
    if hosts.len() > HOSTS_MAX {
        return Vec::new();
    }
    let others = hosts.iter().filter(|host| host.name != *identity.name());
    others
        .map(|host| (host.name.clone(), host.addresses.clone()))
        .collect()
}

/// Resolves the names of hosts on a thread of its own, which may outlive whoever asks.
fn resolve(hosts: Vec<(HostName, Vec<String>)>) -> Option<Receiver<Resolved>> {
    let (resolved, answers) = channel();
    let started = hythe_sys::wait::spawn("hythe-host-resolve", move || {
        for (name, addresses) in hosts {
            let found = addresses_of(&name, &addresses);
            if resolved.send((name, found)).is_err() {
                // The agent has stopped.
                return;
            }
        }
    });
    match started {
        Ok(_) => Some(answers),
        Err(error) => {
            tracing::error!(%error, "cannot start the thread that resolves names");
            None
        }
    }
}

fn addresses_of(
    name: &HostName,
    addresses: &[String],
) -> Result<Vec<std::net::SocketAddr>, String> {
    if addresses.is_empty() {
        return Err(format!(
            "the realm's list has no address of host {name}, and nothing shows where it is"
        ));
    }
    let (mut found, mut trouble) = (Vec::new(), None);
    for address in addresses {
        match address.to_socket_addrs() {
            Ok(resolved) => found.extend(resolved),
            Err(error) => trouble = Some(format!("{address}: {error}")),
        }
    }
    match trouble {
        Some(trouble) if found.is_empty() => Err(format!(
            "the address of host {name} in the realm's list cannot be resolved ({trouble}): see \
             that the name is known here (/etc/hosts, DNS), or correct it (`hythe host remove \
             {name}`, then `hythe host add --address`)"
        )),
        _ => Ok(found),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn name_that_is_not_known_is_said_and_others_count() {
        let name = "camera".parse().expect("a name");
        let known = "192.0.2.7:7450".to_owned();
        // RFC 2606: there is no such name; without a resolver there is none either.
        let unknown = "camera.invalid:7450".to_owned();
        let found = addresses_of(&name, &[unknown.clone(), known.clone()]);
        assert_eq!(found, Ok(vec![known.parse().expect("an address")]));
        let said = addresses_of(&name, &[unknown]).expect_err("no such name");
        for part in ["host camera", "camera.invalid:7450", "/etc/hosts"] {
            assert!(said.contains(part), "{part}: {said}");
        }
        let said = addresses_of(&name, &[]).expect_err("none");
        assert!(said.contains("no address of host camera"), "{said}");
    }
}

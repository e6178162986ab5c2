//! Which way a host is dialled: TCP first, and a tunnel over Zenoh where there is none.
//!
//! Called by the carrier. Never takes the tunnel to a host that answered by TCP and is not trusted.

use std::collections::HashMap;
use std::net::SocketAddr;
use std::sync::Mutex;
use std::time::{Duration, Instant};

use hythe_cluster::{CarrierError, Connection, HostName};

use super::{Inner, lock};
use crate::zenoh_session::Tunnels;

/// For how long TCP is not tried first after a tunnel carried a connection in its place. Whether it
/// works again is found out beside, so that no stream waits for it.
const TCP_AGAIN: Duration = Duration::from_secs(30);
/// Hosts of which is remembered that TCP does not reach them.
const HOSTS_MAX: usize = 1024;

/// The tunnels, and what is known of TCP.
#[derive(Debug)]
pub(super) struct Tunnelled {
    tunnels: Tunnels,
    /// Until when TCP is not tried, and why.
    without_tcp: Mutex<HashMap<HostName, (Instant, String)>>,
}

impl Tunnelled {
    pub(super) fn new(tunnels: Tunnels) -> Self {
        Self {
            tunnels,
            without_tcp: Mutex::default(),
        }
    }

    /// Called again and again: follows the session.
    pub(super) fn maintain(&self) {
        // Where there is no session at present, it is tried the next time.
        let _ = self.tunnels.follow();
    }

    fn why_not_tcp(&self, host: &HostName) -> Option<String> {
        let mut without = lock(&self.without_tcp);
        without.retain(|_, (until, _)| *until > Instant::now());
        without.get(host).map(|(_, why)| why.clone())
    }

    fn remember(&self, host: &HostName, why: &str) {
        let mut without = lock(&self.without_tcp);
        if without.len() < HOSTS_MAX {
            let until = Instant::now() + TCP_AGAIN;
            without.insert(host.clone(), (until, why.to_owned()));
        }
    }

    fn forget(&self, host: &HostName) {
        lock(&self.without_tcp).remove(host);
    }
}

/// Why a host has to be reached over Zenoh, if an error of TCP is a reason.
fn why_over_zenoh(error: &CarrierError) -> Option<String> {
    match error {
        CarrierError::Unreachable {
            address, source, ..
        } => Some(format!("{address}: {source}")),
        CarrierError::Unusable(why) => Some(why.clone()),
        _ => None,
    }
}

impl Inner {
    pub(super) fn dial_either(
        &self,
        host: &HostName,
        addresses: &[SocketAddr],
        timeout: Duration,
    ) -> Result<Connection, CarrierError> {
        let Some(tunnelled) = self.tunnels.get() else {
            return self.dial(host, addresses, timeout);
        };
        let end = super::socket::deadline(timeout);
        let (why, by_tcp) = match tunnelled.why_not_tcp(host) {
            Some(why) => (why, None),
            // A host that answers nothing takes all of its time: half is left.
            None => match self.dial(host, addresses, timeout / 2) {
                Ok(connection) => return Ok(connection),
                Err(error) => match why_over_zenoh(&error) {
                    Some(why) => (why, Some(error)),
                    None => return Err(error),
                },
            },
        };
        let left = end.saturating_duration_since(Instant::now());
        let through = self.dial_through(host, tunnelled.tunnels.dial(host), left, &why);
        match (through, by_tcp) {
            (Ok(connection), by_tcp) => {
                if by_tcp.is_some() {
                    tunnelled.remember(host, &why);
                }
                Ok(connection)
            }
            // Neither way leads to it: that TCP does not is what can be mended.
            (Err(CarrierError::Unreachable { .. }), Some(by_tcp)) => Err(by_tcp),
            (Err(error), _) => Err(error),
        }
    }

    /// Whether TCP reaches a host that a tunnel was dialled to. If it does, it is dialled by TCP
    /// from now on.
    pub(super) fn try_tcp(
        &self,
        host: &HostName,
        addresses: &[SocketAddr],
        timeout: Duration,
    ) -> bool {
        let Some(tunnelled) = self.tunnels.get() else {
            return false;
        };
        // It asks nothing there, and is over at once.
        match self.dial(host, addresses, timeout).map(drop) {
            Ok(()) => {
                tunnelled.forget(host);
                true
            }
            Err(error) => {
                // Where somebody else is there, the tunnel, whose other end is proven, goes on.
                if let Some(why) = why_over_zenoh(&error) {
                    tunnelled.remember(host, &why);
                }
                false
            }
        }
    }
}

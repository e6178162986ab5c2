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

/// For how long TCP is not tried again after a tunnel carried a connection in its place.
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
            without
                .entry(host.clone())
                .or_insert((until, why.to_owned()));
        }
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
        let why = match tunnelled.why_not_tcp(host) {
            Some(why) => why,
            // A host that answers nothing takes all of its time: half is left.
            None => match self.dial(host, addresses, timeout / 2) {
                Err(CarrierError::Unreachable {
                    address, source, ..
                }) => format!("{address}: {source}"),
                Err(CarrierError::Unusable(why)) => why,
                other => return other,
            },
        };
        let left = end.saturating_duration_since(Instant::now());
        let connection = self.dial_through(host, tunnelled.tunnels.dial(host), left, &why)?;
        tunnelled.remember(host, &why);
        Ok(connection)
    }
}

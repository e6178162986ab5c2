//! The Zenoh session for programs outside the realm: plain TCP, without keys, and apart from that
//! of the realm.
//!
//! It knows nothing but the keys of open channels. Never scouts, and never passes anything on
//! between the two sessions.

use std::net::{SocketAddr, TcpListener};

use serde_json::{Value, json};
use zenoh::{Config, Session, Wait};

/// Programs that are connected at once.
const PROGRAMS_MAX: u64 = 64;
/// Handshakes that are under way at once, and how long one may take.
const PENDING_MAX: u64 = 16;
const HANDSHAKE_MS: u64 = 5_000;
/// A message in parts is put together in memory up to this size.
const MESSAGE_BYTES_MAX: u64 = 64 << 20;
/// A program whose link takes nothing for so long while a message waits is cut off: the others, and
/// the thread of all links of this process, wait for it.
const BLOCKED_US: u64 = 1_000_000;
/// A given address is tried again so often.
const RETRY_MS: u64 = 1_000;

/// Where programs outside the realm are met.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct OpenAddresses {
    /// Where they connect.
    pub listen: SocketAddr,
    /// Their routers or peers that this host connects to, `HOST:PORT`.
    pub peers: Vec<String>,
}

pub(super) fn open(addresses: &OpenAddresses) -> Result<Session, String> {
    // Zenoh names neither the address nor the cause.
    TcpListener::bind(addresses.listen).map_err(|error| {
        format!(
            "cannot listen at {}: {error}; choose another address (`hythe host start \
             --open-listen ADDRESS:PORT`)",
            addresses.listen
        )
    })?;
    let mut config = Config::default();
    for (key, value) in entries(addresses) {
        config
            .insert_json5(key, &value.to_string())
            .map_err(|error| format!("Zenoh does not take {key} = {value}: {error}"))?;
    }
    zenoh::open(config)
        .wait()
        .map_err(|error| error.to_string())
}

fn entries(addresses: &OpenAddresses) -> [(&'static str, Value); 15] {
    let endpoint = |address: &String| format!("tcp/{address}");
    let peers: Vec<String> = addresses.peers.iter().map(endpoint).collect();
    let retry = json!({
        "period_init_ms": RETRY_MS,
        "period_max_ms": RETRY_MS,
        "period_increase_factor": 1,
    });
    let blocked = "transport/link/tx/queue/congestion_control/block/wait_before_close";
    [
        ("mode", json!("peer")),
        (
            "listen/endpoints",
            json!([endpoint(&addresses.listen.to_string())]),
        ),
        ("connect/endpoints", json!(peers)),
        ("connect/timeout_ms", json!(-1)),
        ("connect/exit_on_failure", json!(false)),
        ("connect/retry", retry),
        ("scouting/multicast/enabled", json!(false)),
        ("scouting/gossip/enabled", json!(false)),
        ("transport/link/protocols", json!(["tcp"])),
        (
            "transport/link/rx/max_message_size",
            json!(MESSAGE_BYTES_MAX),
        ),
        ("transport/unicast/max_sessions", json!(PROGRAMS_MAX)),
        ("transport/unicast/accept_pending", json!(PENDING_MAX)),
        ("transport/unicast/accept_timeout", json!(HANDSHAKE_MS)),
        ("transport/unicast/open_timeout", json!(HANDSHAKE_MS)),
        (blocked, json!(BLOCKED_US)),
    ]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn zenoh_takes_every_key() {
        let addresses = OpenAddresses {
            listen: ([127, 0, 0, 1], 7_452).into(),
            peers: vec!["router.example.org:7447".to_owned()],
        };
        let mut config = Config::default();
        for (key, value) in entries(&addresses) {
            config.insert_json5(key, &value.to_string()).expect(key);
        }
    }
}

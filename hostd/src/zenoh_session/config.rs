//! The configuration of a session, in Zenoh's keys. Never read from a file of the user.

use serde_json::{Value, json};
use zenoh::Config;

use super::{Role, Settings, addresses, rank};

/// A message in parts is put together in memory up to this size; a frame of an open channel is the
/// largest.
const MESSAGE_BYTES_MAX: u64 = 64 << 20;

/// Hosts of the realm that are being let in at once, and how long that and their TLS handshake
/// before it may take. Of strangers there are `tls_listener::HANDSHAKES_MAX`.
const PENDING_MAX: u64 = 32;
const HANDSHAKE_MS: u64 = 5_000;

/// Batches of 64 KiB that wait for a link; the most that Zenoh allows.
const QUEUE_BATCHES: u64 = 16;

/// Of what says how far a tunnel's end is.
const ACKNOWLEDGING: &str = "transport/link/tx/queue/size/interactive_high";

/// A link that takes nothing while a declaration waits for it is given up: all links are of one
/// thread, which waits meanwhile (`runtime`).
const BLOCKED: &str = "transport/link/tx/queue/congestion_control/block/wait_before_close";
const BLOCKED_US: u64 = 200_000;

/// A lost connection to a given address is tried again so often.
const RETRY_MS: u64 = 500;

/// Zenoh's name for the rule of `rank`.
const ONE_DIALS: &str = "greater-zid";

pub(super) fn config(settings: &Settings) -> Result<Config, String> {
    let mut config = Config::default();
    for (key, value) in entries(settings) {
        config
            .insert_json5(key, &value.to_string())
            .map_err(|error| format!("Zenoh does not take {key} = {value}: {error}"))?;
    }
    Ok(config)
}

fn entries(settings: &Settings) -> Vec<(&'static str, Value)> {
    let mode = match settings.role {
        Role::Peer => "peer",
        Role::Router => "router",
    };
    let endpoint = |address: &str| format!("tls/{address}");
    let listener = |address: &str| format!("tls/{address}#tls_handshake_timeout_ms={HANDSHAKE_MS}");
    let peers: Vec<String> = settings.peers.iter().map(|peer| endpoint(peer)).collect();
    let listen = addresses::reachable(settings.listen);
    let interfaces: Vec<String> = listen
        .iter()
        .map(|address| address.ip().to_string())
        .collect();
    let listen: Vec<String> = match listen.is_empty() {
        // Without a listener of ours there would be one of Zenoh's, without TLS.
        true => vec![listener(&format!("127.0.0.1:{}", settings.listen.port()))],
        false => listen
            .iter()
            .map(|address| listener(&address.to_string()))
            .collect(),
    };
    vec![
        ("mode", json!(mode)),
        ("id", json!(rank::session_id(&settings.host))),
        ("listen/endpoints", json!(listen)),
        ("connect/endpoints", json!(peers)),
        // A given address that does not answer keeps nobody from starting, and is tried for ever.
        ("connect/timeout_ms", json!(-1)),
        ("connect/exit_on_failure", json!(false)),
        ("connect/retry", retry()),
        (
            "scouting/multicast/enabled",
            json!(settings.scouting && !interfaces.is_empty()),
        ),
        ("scouting/multicast/interface", json!(interfaces.join(","))),
        ("scouting/multicast/autoconnect", autoconnect()),
        ("scouting/multicast/autoconnect_strategy", json!(ONE_DIALS)),
        ("scouting/gossip/autoconnect_strategy", gossip_strategy()),
        ("transport/link/protocols", json!(["tls"])),
        ("transport/link/tx/queue/size/data", json!(QUEUE_BATCHES)),
        (ACKNOWLEDGING, json!(QUEUE_BATCHES)),
        ("transport/link/tx/queue/size/control", json!(QUEUE_BATCHES)),
        (BLOCKED, json!(BLOCKED_US)),
        ("transport/link/tx/lease", json!(lease_ms(settings))),
        (
            "transport/link/rx/max_message_size",
            json!(MESSAGE_BYTES_MAX),
        ),
        ("transport/link/tls", tls(settings)),
        ("transport/unicast/accept_pending", json!(PENDING_MAX)),
        ("transport/unicast/accept_timeout", json!(HANDSHAKE_MS)),
        ("transport/unicast/open_timeout", json!(HANDSHAKE_MS)),
    ]
}

fn lease_ms(settings: &Settings) -> u64 {
    u64::try_from(settings.lease.as_millis()).unwrap_or(u64::MAX)
}

/// A router dials the peers of its LAN that it outranks, as any peer does. Routers are linked by
/// given addresses alone: of two of them only one is given the other's.
fn autoconnect() -> Value {
    json!({ "router": ["peer"], "peer": ["router", "peer"] })
}

/// Routers do not dial whom they hear of by gossip, so peers must.
fn gossip_strategy() -> Value {
    json!({ "peer": { "to_peer": ONE_DIALS, "to_router": "always" } })
}

fn retry() -> Value {
    json!({
        "period_init_ms": RETRY_MS,
        "period_max_ms": RETRY_MS,
        "period_increase_factor": 1,
    })
}

/// Names are not compared with addresses: a host is found by an address that no certificate has.
fn tls(settings: &Settings) -> Value {
    let identity = &settings.identity;
    json!({
        "root_ca_certificate": identity.authority,
        "enable_mtls": true,
        "verify_name_on_connect": false,
        "listen_private_key": identity.key,
        "listen_certificate": identity.certificate,
        "connect_private_key": identity.key,
        "connect_certificate": identity.certificate,
    })
}

#[cfg(test)]
mod tests {
    use std::time::Duration;

    use super::*;
    use crate::zenoh_session::Identity;

    #[test]
    fn zenoh_takes_every_key() {
        for role in [Role::Peer, Role::Router] {
            let settings = Settings {
                host: "a".parse().expect("a name"),
                identity: Identity {
                    authority: "authority.pem".into(),
                    certificate: "own.pem".into(),
                    key: "own.key".into(),
                },
                listen: ([0, 0, 0, 0], 7_450).into(),
                role,
                scouting: true,
                peers: vec!["10.0.0.1:7450".to_owned()],
                lease: Duration::from_secs(2),
            };
            config(&settings).expect("taken");
        }
    }

    #[test]
    fn no_public_authority_is_trusted() {
        assert!(webpki_roots::TLS_SERVER_ROOTS.is_empty());
    }
}

//! Prints which hosts come and go, as the agent sees them: `directory NAME FOLDER [OPTION...]`.
//!
//! FOLDER has `authority.pem`, `NAME.pem` and `NAME.key` of the realm. `--false=OTHER:COUNT` makes
//! it a liar, that declares so many tokens of another host. It ends when its input does. Never
//! connects to a host.

use std::io::{Write, stdin, stdout};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::sync::Arc;
use std::time::Duration;

use hythe_cluster::{Directory, DirectoryEvent, HostName};
use hythe_hostd::directory::ZenohDirectory;
use hythe_hostd::zenoh_session::{Identity, Role, Settings, ZenohSession};
use zenoh::Wait;
use zenoh::liveliness::LivelinessToken;

fn main() -> Result<(), Box<dyn std::error::Error>> {
    let mut arguments = std::env::args().skip(1);
    let mut next = || {
        arguments
            .next()
            .ok_or("directory NAME FOLDER LISTEN ANNOUNCE [...]")
    };
    let host: HostName = next()?.parse()?;
    let folder = PathBuf::from(next()?);
    let listen: SocketAddr = next()?.parse()?;
    let announce: SocketAddr = next()?.parse()?;
    let options: Vec<String> = arguments.collect();
    let has = |option: &str| options.iter().any(|given| given == option);
    let values = |option: &'static str| {
        let given = options
            .iter()
            .filter_map(move |given| given.strip_prefix(option));
        given.map(str::to_owned)
    };
    let lease = Duration::from_secs(2);
    let settings = Settings {
        host: host.clone(),
        identity: Identity {
            authority: folder.join("authority.pem"),
            certificate: folder.join(format!("{host}.pem")),
            key: folder.join(format!("{host}.key")),
        },
        listen,
        role: if has("--router") {
            Role::Router
        } else {
            Role::Peer
        },
        scouting: !has("--no-scouting"),
        peers: values("--peer=").collect(),
        lease,
    };
    let session = Arc::new(ZenohSession::open(settings)?);
    let (_generation, zenoh) = session.current()?;
    let lies: Vec<String> = values("--false=")
        .flat_map(|lie| false_tokens(&lie))
        .collect();
    let _declared: Vec<LivelinessToken> = lies
        .iter()
        .map(|key| zenoh.liveliness().declare_token(key).wait())
        .collect::<Result<_, _>>()
        .map_err(|error| error.to_string())?;
    let directory = ZenohDirectory::declare(session, host, announce, lease)?;
    say("ready");
    std::thread::spawn(|| {
        let _ = std::io::copy(&mut stdin(), &mut std::io::sink());
        std::process::exit(0);
    });
    loop {
        match directory.next(Duration::from_secs(1))? {
            Some(DirectoryEvent::Seen { host, addresses }) => {
                let addresses: Vec<String> = addresses.iter().map(ToString::to_string).collect();
                say(&format!("seen {host} {}", addresses.join(" ")));
            }
            Some(DirectoryEvent::Gone { host }) => say(&format!("gone {host}")),
            // This one has no list.
            Some(DirectoryEvent::Listed { .. } | DirectoryEvent::Unlisted { .. }) => {}
            None => say(directory.status().trouble.as_deref().unwrap_or("idle")),
        }
    }
}

/// Of `OTHER:COUNT`.
fn false_tokens(lie: &str) -> Vec<String> {
    let (other, count) = lie.split_once(':').unwrap_or((lie, "1"));
    let numbers = 1..=count.parse().unwrap_or(1_u16);
    numbers
        .map(|number| format!("hythe/live/{other}/{number}/192.0.2.1:{number}"))
        .collect()
}

/// A line at once: whoever reads it waits for it.
fn say(line: &str) {
    let mut out = stdout().lock();
    // Nobody reads any more: the input ends, too.
    let _ = writeln!(out, "{line}").and_then(|()| out.flush());
}

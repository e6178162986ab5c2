//! `hythe media serve`.

use std::net::{IpAddr, Ipv6Addr, SocketAddr};
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicUsize, Ordering};
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use clap::Args;
use hythe::TrustPeers;
use hythe::media::MediaError;
use hythe::media::address::StreamAddress;
use hythe::media::format::StreamFormat;
use hythe::media::rtsp::Limits;
use hythe::media::rtsp::server::Server;
use hythe::media::serve::Programme;
use hythe::media::source::OpenOptions;
use serde::Serialize;

use crate::args::Globals;
use crate::error::CliError;
use crate::output;
use crate::stop::Stop;

use super::conference;
use super::inputs::{self, CHANNEL};
use super::repair::ResendArgs;

/// The usual port for those who may not have 554.
const PORT: u16 = 8554;

/// What to serve, and where.
#[derive(Args, Debug)]
pub(crate) struct ServeArgs {
    /// Files, directories with files, or channel:NAME; each is found under its name
    #[arg(value_name = "DIR|FILE|CHANNEL", required_unless_present = "relay")]
    items: Vec<PathBuf>,
    /// Where clients connect to; may be repeated
    #[arg(long, value_name = "ADDRESS:PORT", default_values_t = [SocketAddr::new(IpAddr::V6(Ipv6Addr::UNSPECIFIED), PORT)])]
    listen: Vec<SocketAddr>,
    #[command(flatten)]
    resend: ResendArgs,
    /// Conference: forward what each participant sends to this even UDP port to all the others
    #[arg(long, value_name = "PORT", conflicts_with_all = ["items", "listen", "lossless", "resend"], requires = "participant", value_parser = clap::value_parser!(u16).range(2..=65_534))]
    relay: Option<u16>,
    /// Who takes part in the conference: rtp://HOST:PORT, where it sends from and is sent to; may be repeated
    #[arg(long, value_name = "URL", requires = "relay")]
    participant: Vec<StreamAddress>,
}

#[derive(Serialize)]
struct Document {
    paths: Vec<String>,
    connections: u64,
    sessions: u64,
    requests: u64,
}

pub(crate) fn run(args: &ServeArgs, globals: &Globals) -> Result<(), CliError> {
    let stop = Stop::on_signals()?;
    if let Some(port) = args.relay {
        return conference::run(port, &args.participant, &stop, globals);
    }
    let server = Server::bind(&args.listen, Limits::default())?;
    let node = globals.join("hythe media serve")?;
    let trust = TrustPeers::i_trust_every_writer_of_this_pool();
    let programme = Programme::new(&node, trust, OpenOptions::default())?;
    let mut programme = programme.with_resend(args.resend.resend());
    let refused = Arc::new(Refused::default());
    for item in &args.items {
        add(&mut programme, item, &stop, &refused)?;
    }
    let paths: Vec<String> = programme.paths().map(str::to_owned).collect();
    if paths.is_empty() {
        return Err(CliError::Failed("there is nothing to serve".to_owned()));
    }
    for (address, path) in server
        .addresses()
        .iter()
        .flat_map(|address| paths.iter().map(move |path| (address, path)))
    {
        eprintln!("hythe: rtsp://{address}/{path}");
    }
    refused.offered.store(paths.len(), Ordering::Relaxed);
    refused.is_something_left()?;
    let counters = server.run(&mut programme, stop.descriptor())?;
    refused.is_something_left()?;
    let document = Document {
        paths,
        connections: counters.connections,
        sessions: counters.sessions,
        requests: counters.requests,
    };
    output::print(globals.json, &document, |document| {
        format!(
            "{} connections, {} sessions, {} requests\n",
            document.connections, document.sessions, document.requests
        )
    })
}

/// A directory's files that cannot be sent are named and left out; anything else that was asked for has to be there.
fn add(
    programme: &mut Programme,
    item: &Path,
    stop: &Stop,
    refused: &Arc<Refused>,
) -> Result<(), CliError> {
    if let Some(channel) = item.to_str().and_then(|name| name.strip_prefix(CHANNEL)) {
        return add_channel(programme, channel, stop, refused);
    }
    if !item.is_dir() {
        let left_out = programme.add_film(&name(item), item)?;
        inputs::tell_left_out(item, &left_out);
        return Ok(());
    }
    let listing = std::fs::read_dir(item).map_err(CliError::file("read", item))?;
    let mut files: Vec<PathBuf> = listing
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    for file in files {
        match programme.add_film(&name(&file), &file) {
            Ok(left_out) => inputs::tell_left_out(&file, &left_out),
            Err(error) => eprintln!("hythe: left out: {error}"),
        }
    }
    Ok(())
}

fn add_channel(
    programme: &mut Programme,
    channel: &str,
    stop: &Stop,
    refused: &Arc<Refused>,
) -> Result<(), CliError> {
    let ask_to_stop = stop
        .asker()
        .map_err(|error| CliError::Failed(format!("cannot wake the server: {error}")))?;
    let (name, refused) = (channel.to_owned(), Arc::clone(refused));
    let tell = move |known: Result<&StreamFormat, &MediaError>| match known {
        Ok(format) => {
            let encoding = format.encoding.name();
            eprintln!("hythe: channel {name} is served from now on, as {encoding}");
        }
        Err(error) => {
            eprintln!("hythe: channel {name} is not served: {error}");
            refused.add(error.to_string());
            if refused.is_something_left().is_err() {
                ask_to_stop();
            }
        }
    };
    eprintln!("hythe: channel {channel} is served from its first message on");
    Ok(programme.add_channel(channel, channel, tell)?)
}

/// Channels that turned out to be nothing that can be served.
#[derive(Debug)]
struct Refused {
    reasons: Mutex<Vec<String>>,
    /// How many things were to be served; until that is known, more than can be refused.
    offered: AtomicUsize,
}

impl Default for Refused {
    fn default() -> Self {
        Self {
            reasons: Mutex::default(),
            offered: AtomicUsize::new(usize::MAX),
        }
    }
}

impl Refused {
    fn reasons(&self) -> MutexGuard<'_, Vec<String>> {
        self.reasons.lock().unwrap_or_else(PoisonError::into_inner)
    }

    fn add(&self, reason: String) {
        self.reasons().push(reason);
    }

    fn is_something_left(&self) -> Result<(), CliError> {
        let reasons = self.reasons();
        match reasons.first() {
            // Whoever holds the lock sees what was stored before the other one had it.
            Some(first) if reasons.len() >= self.offered.load(Ordering::Relaxed) => Err(
                CliError::Failed(format!("there is nothing to serve: {first}")),
            ),
            _ => Ok(()),
        }
    }
}

fn name(file: &Path) -> String {
    file.file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

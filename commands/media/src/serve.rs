//! `hythe media serve`.

use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, TcpListener};
use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::Args;
use hythe::TrustPeers;
use hythe::media::address::StreamAddress;
use hythe::media::rtsp::server::Server;
use hythe::media::serve::{ChannelNews, Programme};
use hythe::media::source::OpenOptions;
use hythe::rtp::format::StreamFormat;
use hythe::rtp::rtsp::{Limits, presentation_url};
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output;
use hythe_command::stop::Stop;
use hythe_command::units::counted;
use hythe_sys::interface_addresses::interface_addresses;
use serde::Serialize;

use super::conference;
use super::inputs::{self, CHANNEL};
use super::repair::ResendArgs;

/// The usual port for servers without the privilege to use 554.
const PORT: u16 = 8554;
/// 1: a socket that is bound to `[::]` takes no connections by IPv4 (ipv6(7)).
const IPV6_ONLY: &str = "/proc/sys/net/ipv6/bindv6only";

/// What to serve, and where.
#[derive(Args, Debug)]
pub struct ServeArgs {
    /// Files, directories of files, or channel:NAME; the name is the path in the URL
    #[arg(value_name = "DIR|FILE|CHANNEL", required_unless_present = "relay")]
    items: Vec<PathBuf>,
    /// Address to listen on; may be repeated. There is no authentication: every host that reaches
    /// the address can play everything that is served. 0.0.0.0 and [::] are all addresses of this
    /// host [default: this host only, 127.0.0.1:8554 and [::1]:8554]
    #[arg(long, value_name = "ADDRESS[:PORT]")]
    listen: Vec<Listen>,
    /// Most sessions of clients of one address at a time
    #[arg(long, value_name = "N", default_value_t = Limits::default().sessions_per_address)]
    sessions_per_address: usize,
    #[command(flatten)]
    resend: ResendArgs,
    /// Conference: forward what each participant sends to this even UDP port to all the others
    #[arg(long, value_name = "PORT", conflicts_with_all = ["items", "listen", "sessions_per_address", "repair_window", "resend"], requires = "participant", value_parser = clap::value_parser!(u16).range(2..=65_534))]
    relay: Option<u16>,
    /// Participant of the conference, rtp://HOST:PORT: the address that it sends from and receives
    /// at; may be repeated
    #[arg(long, value_name = "URL", requires = "relay", conflicts_with = "items")]
    participant: Vec<StreamAddress>,
}

/// An address to listen on.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
struct Listen(SocketAddr);

impl FromStr for Listen {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let bare = text.trim_start_matches('[').trim_end_matches(']');
        let address: Option<IpAddr> = bare.parse().ok();
        let address = address.map(|address| SocketAddr::new(address, PORT));
        address
            .or_else(|| text.parse().ok())
            .map(Self)
            .ok_or_else(|| format!("{text} is no address such as 0.0.0.0, 192.0.2.1:554 or [::]"))
    }
}

#[derive(Serialize)]
struct Document {
    paths: Vec<String>,
    urls: Vec<String>,
    connections: u64,
    refused_connections: u64,
    sessions: u64,
    refused_sessions: u64,
    requests: u64,
    failed_starts: u64,
}

impl Document {
    fn text(&self) -> String {
        let mut text = format!(
            "{}, {}, {}\n",
            counted(self.connections, "connection"),
            counted(self.sessions, "session"),
            counted(self.requests, "request")
        );
        let refused = [
            (self.refused_connections, "connection"),
            (self.refused_sessions, "session"),
            (self.failed_starts, "PLAY"),
        ];
        let refused = refused.iter().filter(|(count, _)| *count > 0);
        let refused: Vec<String> = refused.map(|(count, what)| counted(*count, what)).collect();
        if !refused.is_empty() {
            text += &format!("refused: {}\n", refused.join(", "));
        }
        text
    }
}

pub(crate) fn run(args: &ServeArgs, globals: &Globals) -> Result<(), CliError> {
    let stop = Stop::on_signals()?;
    if let Some(port) = args.relay {
        return conference::run(port, &args.participant, &stop, globals);
    }
    let limits = Limits {
        sessions_per_address: args.sessions_per_address,
        ..Limits::default()
    };
    let server = Server::bind(&addresses(&args.listen), limits)?;
    let node = globals.join("hythe media serve")?;
    let trust = TrustPeers::i_trust_every_writer_of_this_pool();
    let programme = Programme::new(&node, trust, OpenOptions::default())?;
    let mut programme = programme.with_resend(args.resend.resend());
    for item in &args.items {
        add(&mut programme, item)?;
    }
    let paths: Vec<String> = programme.paths().map(str::to_owned).collect();
    if paths.is_empty() {
        return Err(CliError::Failed("there is nothing to serve".to_owned()));
    }
    let addresses = openable(&server.addresses());
    let of_address = |address: &SocketAddr| {
        let address = *address;
        paths
            .iter()
            .map(move |path| presentation_url(address, path))
    };
    let urls: Vec<String> = addresses.iter().flat_map(of_address).collect();
    for url in &urls {
        output::note(url);
    }
    let counters = server.run(&mut programme, stop.descriptor())?;
    let document = Document {
        paths,
        urls,
        connections: counters.connections,
        refused_connections: counters.refused_connections + counters.refused_connections_of_address,
        sessions: counters.sessions,
        refused_sessions: counters.refused_sessions + counters.refused_sessions_of_address,
        requests: counters.requests,
        failed_starts: counters.failed_starts,
    };
    output::print(globals.json, &document, Document::text)
}

/// Those that were asked for; else this host alone, by IPv4 and, where there is such a thing, IPv6.
fn addresses(asked: &[Listen]) -> Vec<SocketAddr> {
    if !asked.is_empty() {
        return asked.iter().map(|listen| listen.0).collect();
    }
    let has_ipv6 = TcpListener::bind((Ipv6Addr::LOCALHOST, 0)).is_ok();
    let ipv6 = has_ipv6.then_some(IpAddr::V6(Ipv6Addr::LOCALHOST));
    let loopback = [Some(IpAddr::V4(Ipv4Addr::LOCALHOST)), ipv6];
    let loopback = loopback.into_iter().flatten();
    loopback
        .map(|address| SocketAddr::new(address, PORT))
        .collect()
}

/// What clients can open of the addresses that are listened on: where these are all addresses of
/// this machine, those that it has now.
fn openable(listening: &[SocketAddr]) -> Vec<SocketAddr> {
    if listening
        .iter()
        .all(|address| !address.ip().is_unspecified())
    {
        return listening.to_vec();
    }
    // Without the list the unspecified address is printed, which says that it is any.
    let own = interface_addresses().unwrap_or_default();
    let takes_both = !std::fs::read_to_string(IPV6_ONLY).is_ok_and(|text| text.trim() == "1");
    let each = listening.iter();
    each.flat_map(|&address| expanded(address, &own, takes_both))
        .collect()
}

/// The addresses among `own` at which a socket is reached that is bound to `address`.
/// `takes_both`: one that is bound to `[::]` takes connections by IPv4, too. Link-local addresses
/// are left out, since a URL cannot name their interface, and so is the loopback interface, unless
/// there is no other.
fn expanded(address: SocketAddr, own: &[IpAddr], takes_both: bool) -> Vec<SocketAddr> {
    if !address.ip().is_unspecified() {
        return vec![address];
    }
    let is_reached = |own: &&IpAddr| match own {
        IpAddr::V4(own) => (address.is_ipv4() || takes_both) && !own.is_link_local(),
        IpAddr::V6(own) => address.is_ipv6() && !own.is_unicast_link_local(),
    };
    let reached: Vec<IpAddr> = own.iter().filter(is_reached).copied().collect();
    let remote = reached.iter().filter(|own| !own.is_loopback());
    let chosen: Vec<IpAddr> = match remote.clone().next() {
        Some(_) => remote.copied().collect(),
        None => reached,
    };
    if chosen.is_empty() {
        return vec![address];
    }
    let at_port = |ip| SocketAddr::new(ip, address.port());
    chosen.into_iter().map(at_port).collect()
}

/// A directory's files that cannot be sent are named and left out; anything else that was asked for
/// has to be there.
fn add(programme: &mut Programme, item: &Path) -> Result<(), CliError> {
    if let Some(channel) = item.to_str().and_then(|name| name.strip_prefix(CHANNEL)) {
        return add_channel(programme, channel);
    }
    if !item.is_dir() {
        return add_film(programme, item);
    }
    let listing = std::fs::read_dir(item).map_err(CliError::file("read", item))?;
    let mut files: Vec<PathBuf> = listing
        .filter_map(Result::ok)
        .map(|entry| entry.path())
        .filter(|path| path.is_file())
        .collect();
    files.sort();
    for file in files {
        if let Err(error) = add_film(programme, &file) {
            output::note(format!("left out: {error}"));
        }
    }
    Ok(())
}

fn add_film(programme: &mut Programme, file: &Path) -> Result<(), CliError> {
    let name = name(file);
    if name.contains(char::is_control) {
        let name = name.escape_debug();
        return Err(CliError::Failed(format!(
            "{name}: its name has control characters, with which no client can ask for it: rename \
             it"
        )));
    }
    let left_out = programme.add_film(&name, file)?;
    inputs::tell_left_out(file, &left_out);
    Ok(())
}

fn add_channel(programme: &mut Programme, channel: &str) -> Result<(), CliError> {
    let name = channel.to_owned();
    let tell = move |news: ChannelNews<'_>| match news {
        ChannelNews::Served(format) => {
            let encoding = format.encoding.name();
            output::note(format!(
                "channel {name} is served from now on, as {encoding}"
            ));
        }
        ChannelNews::Changed(format) => {
            let StreamFormat {
                encoding,
                parameters,
                ..
            } = format;
            let encoding = encoding.name();
            output::note(format!(
                "channel {name} has other parameters of {encoding} now: {parameters}"
            ));
        }
        ChannelNews::Replaced => {
            output::note(format!(
                "channel {name} carries another format: what its clients watch ends"
            ));
        }
        ChannelNews::Refused(error) => {
            output::note(format!(
                "channel {name} is not served: {error}; it is looked at again, with growing pauses"
            ));
        }
    };
    output::note(format!(
        "channel {channel} is served from its first message on"
    ));
    Ok(programme.add_channel(channel, channel, tell)?)
}

fn name(file: &Path) -> String {
    file.file_name()
        .map_or_else(String::new, |name| name.to_string_lossy().into_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn address_is_listened_on_at_the_usual_port_unless_it_names_one() {
        for (text, expected) in [
            ("0.0.0.0", "0.0.0.0:8554"),
            ("192.0.2.1:554", "192.0.2.1:554"),
            ("::", "[::]:8554"),
            ("[::]", "[::]:8554"),
            ("[::1]:554", "[::1]:554"),
        ] {
            let listen: Listen = text.parse().unwrap();
            assert_eq!(listen.0.to_string(), expected);
        }
        assert!(
            "everywhere"
                .parse::<Listen>()
                .unwrap_err()
                .contains("everywhere")
        );
        assert!(
            addresses(&[])
                .iter()
                .all(|address| address.ip().is_loopback())
        );
    }

    #[test]
    fn all_addresses_are_printed_as_those_that_others_can_open() {
        let own = |text: &[&str]| -> Vec<IpAddr> {
            text.iter().map(|text| text.parse().unwrap()).collect()
        };
        let all = [
            "127.0.0.1",
            "::1",
            "192.0.2.7",
            "169.254.1.1",
            "fe80::1",
            "2001:db8::7",
        ];
        for (listening, own, takes_both, expected) in [
            ("192.0.2.1:554", own(&all), true, vec!["192.0.2.1:554"]),
            ("0.0.0.0:554", own(&all), true, vec!["192.0.2.7:554"]),
            (
                "[::]:554",
                own(&all),
                true,
                vec!["192.0.2.7:554", "[2001:db8::7]:554"],
            ),
            ("[::]:554", own(&all), false, vec!["[2001:db8::7]:554"]),
            // Without a network only this machine can open it.
            ("0.0.0.0:554", own(&all[..2]), true, vec!["127.0.0.1:554"]),
            ("0.0.0.0:554", own(&[]), true, vec!["0.0.0.0:554"]),
        ] {
            let found = expanded(listening.parse().unwrap(), &own, takes_both);
            let found: Vec<String> = found.iter().map(ToString::to_string).collect();
            assert_eq!(found, expected, "{listening}");
        }
        let of_this_machine = openable(&["0.0.0.0:554".parse().unwrap()]);
        assert!(!of_this_machine.is_empty());
    }

    #[test]
    fn one_of_a_kind_is_printed_in_the_singular() {
        let document = Document {
            paths: Vec::new(),
            urls: Vec::new(),
            connections: 1,
            refused_connections: 1,
            sessions: 1,
            refused_sessions: 2,
            requests: 0,
            failed_starts: 1,
        };
        assert_eq!(
            document.text(),
            "1 connection, 1 session, 0 requests\nrefused: 1 connection, 2 sessions, 1 PLAY\n"
        );
    }
}

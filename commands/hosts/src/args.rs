//! What the commands about hosts take, and how `hythe-hostd` is told the same.

use std::ffi::{OsStr, OsString};
use std::net::SocketAddr;
use std::path::PathBuf;
use std::time::Duration;

use clap::{Args, Subcommand, ValueEnum};
use hythe_cluster::HostName;
use hythe_command::units;

/// What can be done with hosts.
#[derive(Debug, Subcommand)]
pub enum HostCommand {
    /// Begin a realm of hosts that trust each other; this host is its first, and signs the others'
    /// keys
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  hythe host init\n",
            "  hythe host init --name desk --address desk.example.org:7450",
        )
    )]
    Init(InitArgs),
    /// Take hosts into the realm over ssh (or the program in HYTHE_RSH), and start their agents
    ///
    /// The host needs `hythe-hostd` in its PATH. Its key is made there and stays there; this host
    /// signs it. What it and the other hosts may do to each other is what --allow says; `hythe host
    /// allow` changes it.
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  hythe host add camera.lan\n",
            "  hythe host add root@192.0.2.7 --name camera --allow 'camera/*:write'\n",
            "  hythe host add --hostfile machines",
        )
    )]
    Add(AddArgs),
    /// Put a host out of the realm: its certificate is revoked
    #[command(after_help = "Example:\n  hythe host remove camera")]
    Remove(RemoveArgs),
    /// Permit a host something on this one, or take it away
    ///
    /// Later rules go before earlier ones. What no rule permits is refused. With --open, a channel
    /// is open to Zenoh programs that belong to no host of the realm, without keys and encryption.
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  hythe host allow camera 'camera/*' write\n",
            "  hythe host allow '*' settings read\n",
            "  hythe host allow camera '*' none\n",
            "  hythe host allow --open temperature",
        )
    )]
    Allow(AllowArgs),
    /// Start this host's agent, for the pool of --pool, and wait until it can be reached
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  hythe host start\n",
            "  hythe host start --pool camera --listen 192.0.2.7:7450\n",
            "  hythe host start --no-scouting --peer router.example.org:7451",
        )
    )]
    Start(StartArgs),
    /// Stop this host's agent, and wait until it is gone; local channels go on
    #[command(after_help = "Example:\n  hythe host stop")]
    Stop(StopArgs),
    /// Show the agent and the hosts it knows: carrier, identity, round trip, credit, losses,
    /// channels
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  hythe host status\n",
            "  hythe host status --json | jq '.hosts[].session.round_trip_ns'",
        )
    )]
    Status,
    /// Serve an interface: programs send short messages past the kernel's protocols, too (carrier
    /// xdp)
    ///
    /// It alone needs rights (CAP_NET_ADMIN, CAP_NET_RAW, CAP_BPF); the agent and programs need
    /// none. It puts an XDP program on the interface, and passes AF_XDP sockets to processes of one
    /// user, each for what would come to a UDP socket of that process. On a virtual interface the
    /// program costs everything else that goes over it. It runs until it is stopped; all messages
    /// go by TCP then. Flows over a trusted link use such sockets, unless their host's agent was
    /// started with `hythe host start --no-xdp`.
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  hythe host wire eth1 --user camera\n",
            "  systemctl start hythe-wire@eth1",
        )
    )]
    Wire(WireArgs),
    /// List the hosts that this host's agent knows
    #[command(after_help = "Example:\n  hythe host list --json | jq '.[].host'")]
    List,
}

/// How this host is known.
#[derive(Args, Debug)]
pub struct InitArgs {
    /// Name of this host in the realm [default: that of the system, up to the first dot]
    #[arg(long)]
    name: Option<HostName>,
    /// Where other hosts reach it; may be repeated
    #[arg(long, value_name = "HOST[:PORT]")]
    address: Vec<String>,
}

/// Which hosts, and what they may do.
#[derive(Args, Debug)]
pub struct AddArgs {
    /// The host, as ssh is told it
    #[arg(
        value_name = "[USER@]HOST",
        required_unless_present = "hostfile",
        value_parser = parse_target
    )]
    target: Option<String>,
    /// Its name in the realm [default: HOST, up to the first dot]
    #[arg(long)]
    name: Option<HostName>,
    /// Where its agent is reached; may be repeated [default: HOST]
    #[arg(long, value_name = "HOST[:PORT]")]
    address: Vec<String>,
    /// What it and the other hosts may do to each other, as PATTERN:read, PATTERN:write or
    /// PATTERN:read,write; may be repeated [default: *:read,write]
    #[arg(long, value_name = "PATTERN:RIGHTS", value_parser = parse_grant)]
    allow: Vec<String>,
    /// Add all hosts of a file with lines `HOST slots=N`
    #[arg(long, value_name = "FILE", conflicts_with_all = ["target", "name", "address"])]
    hostfile: Option<PathBuf>,
    /// How long each host may take, until its agent runs [default: 60]; longer where ssh asks for a
    /// password
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds)]
    timeout: Option<Duration>,
}

/// Which host.
#[derive(Args, Debug)]
pub struct RemoveArgs {
    /// Its name in the realm
    name: HostName,
}

/// A rule.
#[derive(Args, Debug)]
pub struct AllowArgs {
    /// Name of the host, or a pattern of names
    #[arg(required_unless_present_any = ["open", "close"])]
    host: Option<String>,
    /// The channels: a name, or a pattern of names
    #[arg(required_unless_present_any = ["open", "close"])]
    pattern: Option<String>,
    /// What it may do with them
    #[arg(required_unless_present_any = ["open", "close"])]
    right: Option<RightArg>,
    /// Open a channel of this name: whoever reaches this host by Zenoh reads and writes it, as key
    /// hythe/open/CHANNEL, without keys and encryption
    #[arg(long, value_name = "CHANNEL", conflicts_with_all = ["host", "pattern", "right", "close"])]
    open: Option<String>,
    /// Take that back
    #[arg(long, value_name = "CHANNEL", conflicts_with_all = ["host", "pattern", "right"])]
    close: Option<String>,
}

/// What a host may do with a channel.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum RightArg {
    /// Get what is sent over it here
    Read,
    /// Send over it to here
    Write,
    /// Start programs of that name here
    Spawn,
    /// Nothing
    None,
}

/// How the agent finds others and is found.
#[derive(Args, Debug)]
pub struct StartArgs {
    /// Become the agent, instead of starting it and returning
    #[arg(long)]
    foreground: bool,
    /// Take connections of other hosts there [default: all addresses, port 7450]
    #[arg(long, value_name = "ADDRESS:PORT")]
    listen: Option<SocketAddr>,
    /// Be found there [default: all addresses, port 7451]
    #[arg(long, value_name = "ADDRESS:PORT")]
    discovery: Option<SocketAddr>,
    /// Find other hosts through the agent or router there, too; may be repeated
    #[arg(long, value_name = "HOST:PORT")]
    peer: Vec<String>,
    /// Do not look for other hosts by multicast
    #[arg(long)]
    no_scouting: bool,
    /// Link this LAN to others
    #[arg(long)]
    router: bool,
    /// Trust the link at this interface, where the other host trusts it, too: programs send over it
    /// in clear text, and anybody on that link can read and forge what they send; may be repeated
    #[arg(long, value_name = "INTERFACE")]
    trusted: Vec<String>,
    /// Send all messages there by TCP; else short ones go by AF_XDP frames where `hythe host wire`
    /// serves the interface
    #[arg(long, requires = "trusted")]
    no_xdp: bool,
    /// Meet the Zenoh programs of open channels there [default: 127.0.0.1:7452, this machine's]
    #[arg(long, value_name = "ADDRESS:PORT")]
    open_listen: Option<SocketAddr>,
    /// Connect to the Zenoh router or peer there for open channels; may be repeated
    #[arg(long, value_name = "HOST:PORT")]
    open_peer: Vec<String>,
    /// Take a host for gone that is silent for so long, 1 to 3600 [default: 2]; longer on hosts
    /// under heavy load
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds)]
    lease: Option<Duration>,
}

/// Which interface, and for whom.
#[derive(Args, Debug)]
pub struct WireArgs {
    /// The interface
    #[arg(value_name = "INTERFACE")]
    pub(super) interface: String,
    /// Name or number of the user whose processes get sockets [default: this one]
    #[arg(long)]
    pub(super) user: Option<String>,
    /// Where the program is put: in the driver, or behind it, which every interface can [default:
    /// in the driver, where the interface is one of hardware]
    #[arg(long, value_enum)]
    pub(super) attach: Option<AttachArg>,
}

/// Where the program is put.
#[derive(Clone, Copy, Debug, ValueEnum)]
pub(crate) enum AttachArg {
    /// In the driver
    Driver,
    /// Behind it
    Generic,
}

/// How long to wait.
#[derive(Args, Debug)]
pub struct StopArgs {
    /// Seconds that it may take
    #[arg(long, value_name = "SECONDS", value_parser = units::parse_seconds, default_value = "10")]
    pub(super) timeout: Duration,
}

impl InitArgs {
    pub(super) fn words(&self) -> Vec<OsString> {
        let mut words = Words::of("init");
        words.option("--name", self.name.as_ref().map(HostName::as_str));
        words.option("--address", &self.address);
        words.0
    }
}

impl AddArgs {
    pub(super) fn words(&self) -> Vec<OsString> {
        let mut words = Words::of("add");
        words.option("--name", self.name.as_ref().map(HostName::as_str));
        words.option("--address", &self.address);
        words.option("--allow", &self.allow);
        words.option("--hostfile", &self.hostfile);
        let timeout = self
            .timeout
            .map(|timeout| timeout.as_secs_f64().to_string());
        words.option("--timeout", timeout);
        words.positions(&self.target);
        words.0
    }
}

impl RemoveArgs {
    pub(super) fn words(&self) -> Vec<OsString> {
        let mut words = Words::of("remove");
        words.positions([self.name.as_str()]);
        words.0
    }
}

impl AllowArgs {
    pub(super) fn words(&self) -> Vec<OsString> {
        let right = self.right.map(|right| match right {
            RightArg::Read => "read",
            RightArg::Write => "write",
            RightArg::Spawn => "spawn",
            RightArg::None => "none",
        });
        let mut words = Words::of("allow");
        words.option("--open", &self.open);
        words.option("--close", &self.close);
        let rule = [self.host.as_deref(), self.pattern.as_deref(), right];
        words.positions(rule.iter().flatten());
        words.0
    }
}

impl StartArgs {
    pub(super) fn words(&self) -> Vec<OsString> {
        let mut words = Words::of("start");
        words.flag("--foreground", self.foreground);
        words.option("--listen", self.listen.map(|address| address.to_string()));
        let discovery = self.discovery.map(|address| address.to_string());
        words.option("--discovery", discovery);
        words.option("--peer", &self.peer);
        words.flag("--no-scouting", self.no_scouting);
        words.flag("--router", self.router);
        words.option("--trusted", &self.trusted);
        words.flag("--no-xdp", self.no_xdp);
        let open_listen = self.open_listen.map(|address| address.to_string());
        words.option("--open-listen", open_listen);
        words.option("--open-peer", &self.open_peer);
        let lease = self.lease.map(|lease| lease.as_secs_f64().to_string());
        words.option("--lease", lease);
        words.0
    }
}

/// A command line. Values that begin with `-` stay values.
struct Words(Vec<OsString>);

impl Words {
    fn of(command: &str) -> Self {
        Self(vec![command.into()])
    }

    fn flag(&mut self, name: &str, is_given: bool) {
        self.0.extend(is_given.then(|| name.into()));
    }

    fn option(&mut self, name: &str, values: impl IntoIterator<Item = impl AsRef<OsStr>>) {
        self.0.extend(values.into_iter().map(|value| {
            let mut word = OsString::from(format!("{name}="));
            word.push(value);
            word
        }));
    }

    /// What has no name of its own: behind all options.
    fn positions(&mut self, values: impl IntoIterator<Item = impl AsRef<OsStr>>) {
        self.0.push("--".into());
        let values = values.into_iter();
        self.0.extend(values.map(|value| value.as_ref().to_owned()));
    }
}

/// `me@camera.lan`. What begins with `-` would be an option of ssh.
fn parse_target(text: &str) -> Result<String, String> {
    match text.is_empty() || text.starts_with('-') {
        true => Err("a host is a name or an address, with or without a user: me@camera.lan".into()),
        false => Ok(text.to_owned()),
    }
}

/// `camera/*:read,write`.
fn parse_grant(text: &str) -> Result<String, String> {
    let is_right = |right: &str| matches!(right, "read" | "write");
    let is_grant =
        |(pattern, rights): (&str, &str)| !pattern.is_empty() && rights.split(',').all(is_right);
    match text.rsplit_once(':').is_some_and(is_grant) {
        true => Ok(text.to_owned()),
        false => Err(
            "a grant is a pattern of channels and rights: camera/*:read, camera/*:write or \
             camera/*:read,write"
                .to_owned(),
        ),
    }
}

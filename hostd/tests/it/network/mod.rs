//! Hosts in network namespaces, joined by bridges. They need root, and end with the test: nothing
//! has a name outside the processes that hold it.

#![allow(dead_code, reason = "each test file uses a part of it")]

pub(crate) mod agent;
pub(crate) mod machine;
pub(crate) mod peer;
pub(crate) mod realm;
pub(crate) mod served;
pub(crate) mod wire;

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::os::fd::AsFd as _;
use std::process::{Child, Command, Stdio};

use hythe_sys::spawn::die_with_parent;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// A network namespace, for as long as the process that holds it.
pub(crate) struct Namespace {
    holder: Child,
}

/// A switch, and hosts on it.
pub(crate) struct Lan {
    switch: Namespace,
    number: u8,
}

/// Where a host is plugged in: `10.77.LAN.HOST/24` on `lanLANhHOST`. Namespaces of networks share
/// `/run`, where programs that serve interfaces are found by name.
#[derive(Clone, Copy)]
pub(crate) struct Plug {
    lan: u8,
    host: u8,
}

/// `true`, said aloud, without root.
pub(crate) fn is_skipped() -> bool {
    let is_root = rustix::process::geteuid().is_root();
    if !is_root {
        eprintln!("SKIPPED: network namespaces need root");
    }
    !is_root
}

impl Namespace {
    pub(crate) fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args([
            "--net",
            "sh",
            "-c",
            "ip link set lo up && echo made; exec sleep 3600",
        ]);
        die_with_parent(command.stdout(Stdio::piped()));
        let mut holder = command.spawn().expect("unshare");
        let mut line = String::new();
        let said = holder.stdout.take().expect("piped");
        BufReader::new(said).read_line(&mut line).expect("read");
        assert_eq!(line, "made\n");
        Self { holder }
    }

    /// Of the process that holds it.
    pub(crate) fn id(&self) -> u32 {
        self.holder.id()
    }

    /// A program in it, which does not outlive the calling thread.
    pub(crate) fn command(&self, program: &str) -> Command {
        let mut command = Command::new("nsenter");
        command
            .arg(format!("--net=/proc/{}/ns/net", self.holder.id()))
            .arg(program);
        die_with_parent(&mut command);
        command
    }

    pub(crate) fn run(&self, line: &str) {
        let mut words = line.split_whitespace();
        let program = words.next().expect("a program");
        let status = self.command(program).args(words).status().expect(program);
        assert!(status.success(), "{line}");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The calling thread goes, alone and for good, into the network of a process: what it opens is
/// there.
pub(crate) fn enter(process: u32) {
    let network = File::open(format!("/proc/{process}/ns/net")).expect("a network");
    let kind = Some(LinkNameSpaceType::Network);
    move_into_link_name_space(network.as_fd(), kind).expect("root may");
}

impl Lan {
    /// The `number` is a part of its addresses.
    pub(crate) fn new(number: u8) -> Self {
        let switch = Namespace::new();
        switch.run("ip link add switch type bridge");
        switch.run("ip link set switch up");
        Self { switch, number }
    }

    /// Plugs a host in. Its multicasts go to the LAN where it was plugged in first.
    pub(crate) fn plug(&self, namespace: &Namespace, host: u8) -> Plug {
        let plug = Plug {
            lan: self.number,
            host,
        };
        let (port, interface) = (plug.port(), plug.interface());
        let pid = namespace.holder.id();
        self.switch.run(&format!(
            "ip link add {port} type veth peer name {interface} netns {pid}"
        ));
        self.switch
            .run(&format!("ip link set {port} master switch up"));
        namespace.run(&format!(
            "ip addr add {}/24 dev {interface}",
            plug.address()
        ));
        namespace.run(&format!("ip link set {interface} up"));
        // The second one fails: there is a route already.
        let route = ["route", "add", "224.0.0.0/4", "dev", &interface];
        let _ = namespace
            .command("ip")
            .args(route)
            .stderr(Stdio::null())
            .status();
        plug
    }

    /// A namespace that is plugged in.
    pub(crate) fn host(&self, host: u8) -> (Namespace, Plug) {
        let namespace = Namespace::new();
        let plug = self.plug(&namespace, host);
        (namespace, plug)
    }

    /// Takes a host's plug away for good: its network namespace is to be thrown away.
    pub(crate) fn unplug(&self, plug: Plug) {
        self.switch.run(&format!("ip link del {}", plug.port()));
    }

    /// Sets the longest packet of a host, and of its port.
    pub(crate) fn set_mtu(&self, namespace: &Namespace, plug: Plug, bytes: u32) {
        let port = plug.port();
        self.switch.run(&format!("ip link set {port} mtu {bytes}"));
        let interface = plug.interface();
        namespace.run(&format!("ip link set {interface} mtu {bytes}"));
    }

    /// Pulls a cable, or plugs it in again: the host notices.
    pub(crate) fn set_link(&self, plug: Plug, is_up: bool) {
        let state = if is_up { "up" } else { "down" };
        self.switch
            .run(&format!("ip link set {} {state}", plug.port()));
    }

    /// Whether the switch passes what comes from and goes to a host: the host does not notice.
    pub(crate) fn set_passing(&self, plug: Plug, is_passing: bool) {
        let state = if is_passing {
            "master switch"
        } else {
            "nomaster"
        };
        self.switch
            .run(&format!("ip link set {} {state}", plug.port()));
    }
}

/// What a namespace sends to some addresses goes to nobody any more, or arrives again. What they
/// send to it arrives all the time.
pub(crate) fn set_speaking(namespace: &Namespace, plug: Plug, to: &[Plug], is_speaking: bool) {
    for other in to {
        let neighbour = format!("{} dev {}", other.address(), plug.interface());
        namespace.run(&match is_speaking {
            true => format!("ip neigh del {neighbour}"),
            false => format!("ip neigh replace {neighbour} lladdr 02:00:00:00:00:99 nud permanent"),
        });
    }
}

impl Plug {
    pub(crate) fn address(self) -> String {
        format!("10.77.{}.{}", self.lan, self.host)
    }

    pub(crate) fn interface(self) -> String {
        format!("lan{}h{}", self.lan, self.host)
    }

    fn port(self) -> String {
        format!("port{}", self.host)
    }
}

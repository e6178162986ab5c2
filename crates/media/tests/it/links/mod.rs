//! Two network namespaces joined by a pair of interfaces. They need root, and end with the test.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::UdpSocket;
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::{SystemTime, UNIX_EPOCH};

use hythe_sys::spawn::die_with_parent;
use hythe_sys::udp_receive::{Message, enable_timestamps, receive};
use hythe_testing::Polling;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The ends of the pair.
pub(crate) const NEAR: &str = "10.77.0.1";
pub(crate) const FAR: &str = "10.77.0.2";
pub(crate) const NEAR_V6: &str = "fd77::1";
pub(crate) const FAR_V6: &str = "fd77::2";
const NEAR_MAC: &str = "02:00:00:00:00:01";
const FAR_MAC: &str = "02:00:00:00:00:02";

/// A network namespace, for as long as the process that holds it.
pub(crate) struct Namespace {
    holder: Child,
}

impl Namespace {
    pub(crate) fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "echo made; exec sleep 600"]);
        die_with_parent(command.stdout(Stdio::piped()));
        let mut holder = command.spawn().expect("unshare");
        let mut line = String::new();
        let said = holder.stdout.take().expect("piped");
        BufReader::new(said).read_line(&mut line).expect("read");
        assert_eq!(line, "made\n");
        Self { holder }
    }

    /// Moves the calling thread into it, for good.
    pub(crate) fn enter(&self) {
        let file = File::open(format!("/proc/{}/ns/net", self.holder.id())).expect("a namespace");
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("root");
    }

    /// Does something in it.
    pub(crate) fn run<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let in_thread = || {
            self.enter();
            work()
        };
        std::thread::scope(|scope| scope.spawn(in_thread).join().expect("no panic"))
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.holder.kill();
        let _ = self.holder.wait();
    }
}

/// The namespace of the calling thread, with an interface `near`, and another one with `far`.
pub(crate) struct Network {
    pub(crate) far: Namespace,
    _near: Namespace,
}

impl Network {
    /// `None`, said aloud, without root.
    pub(crate) fn new() -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: network namespaces need root");
            return None;
        }
        let (near, far) = (Namespace::new(), Namespace::new());
        near.enter();
        let pid = far.holder.id();
        ip(&format!(
            "link add near address {NEAR_MAC} type veth \
             peer name far address {FAR_MAC} netns {pid}"
        ));
        let far_up = || up("far", FAR, FAR_V6);
        far.run(far_up);
        up("near", NEAR, NEAR_V6);
        until_ready("near");
        far.run(|| until_ready("far"));
        neighbour("near", [FAR, FAR_V6], FAR_MAC);
        far.run(|| neighbour("far", [NEAR, NEAR_V6], NEAR_MAC));
        Some(Self { far, _near: near })
    }

    /// A link whose near end is scheduled as `tc` is told, or `None`, said aloud, where that cannot
    /// be had.
    pub(crate) fn scheduled(tc: &[&str]) -> Option<Self> {
        let is_board = std::env::var_os("HYTHE_TEST_BOARD").is_some();
        let network = Self::new();
        assert!(
            network.is_some() || !is_board,
            "the board's tests run as root"
        );
        let network = network?;
        for arguments in tc {
            let words = arguments.split_whitespace();
            let output = std::process::Command::new("tc").args(words).output();
            let output = output.expect("tc");
            let errors = String::from_utf8_lossy(&output.stderr);
            // What `tc` says of a scheduler that the kernel does not have.
            if errors.contains("unknown") && !is_board {
                eprintln!("SKIPPED: this kernel does not have the scheduler of `tc {arguments}`");
                return None;
            }
            assert!(output.status.success(), "tc {arguments}: {errors}");
        }
        Some(network)
    }
}

fn up(interface: &str, v4: &str, v6: &str) {
    ip("link set lo up");
    ip(&format!("addr add {v4}/24 dev {interface}"));
    ip(&format!("-6 addr add {v6}/64 dev {interface} nodad"));
    ip(&format!("link set {interface} up"));
}

/// Nobody is asked for its address. Until there is an answer, which a busy machine may take long
/// for, the kernel keeps some packets only, and drops the first ones for others.
fn neighbour(interface: &str, addresses: [&str; 2], mac: &str) {
    for address in addresses {
        let entry = format!("{address} lladdr {mac} dev {interface} nud permanent");
        ip(&format!("neigh replace {entry}"));
    }
}

/// Waits until the kernel has noticed the carrier, upon which it adds the route of IPv6 multicast.
fn until_ready(interface: &str) {
    let mut polling = Polling::new("the interface has its routes");
    loop {
        let routes = Command::new("ip")
            .args(["-6", "route", "show", "table", "local", "dev", interface])
            .output()
            .expect("ip");
        if String::from_utf8_lossy(&routes.stdout).contains("ff00::/8") {
            return;
        }
        polling.pause();
    }
}

/// Has the kernel note when each datagram arrives, from the first one on. It begins some time after
/// it is asked, for all sockets at once, and tells until then when a datagram was *read*: so
/// another socket tries that out first.
pub(crate) fn note_arrivals(socket: &UdpSocket) {
    enable_timestamps(socket).expect("works");
    let trial = UdpSocket::bind("127.0.0.1:0").expect("a loopback");
    enable_timestamps(&trial).expect("works");
    let mut polling = Polling::new("arrivals are noted");
    loop {
        let own = trial.local_addr().expect("bound");
        trial.send_to(&[0], own).expect("sent");
        polling.pause();
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        let now_ns = now.expect("after 1970").as_nanos();
        let mut message = [Message::NONE];
        let count = receive(&trial, &mut [0; 1], NonZeroUsize::MIN, &mut message);
        assert_eq!(count.expect("works"), 1, "it was sent to itself");
        if u128::from(message[0].arrived_unix_ns.expect("noted")) < now_ns {
            return;
        }
    }
}

/// Runs a command in the namespace of the calling thread.
pub(crate) fn run(program: &str, arguments: &str) {
    let words = arguments.split_whitespace();
    let status = Command::new(program).args(words).status().expect(program);
    assert!(status.success(), "{program} {arguments}");
}

pub(crate) fn ip(arguments: &str) {
    run("ip", arguments);
}

//! Two network namespaces joined by a pair of interfaces. They need root, and end with the test.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs::File;
use std::io::{BufRead, BufReader};
use std::net::{Ipv4Addr, UdpSocket};
use std::os::fd::AsFd;
use std::process::{Child, Command, Stdio};
use std::time::Duration;

use hythe_sys::spawn::die_with_parent;
use rustix::thread::{LinkNameSpaceType, move_into_link_name_space};

/// The ends of the pair.
pub(crate) const NEAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 1);
pub(crate) const FAR: Ipv4Addr = Ipv4Addr::new(10, 77, 0, 2);
const NEAR_MAC: &str = "02:00:00:00:00:01";
const FAR_MAC: &str = "02:00:00:00:00:02";
/// What is awaited comes within this, also on an overloaded machine.
pub(crate) const BOUND: Duration = Duration::from_secs(60);

struct Namespace(Child);

impl Namespace {
    fn new() -> Self {
        let mut command = Command::new("unshare");
        command.args(["--net", "sh", "-c", "echo made; exec sleep 600"]);
        die_with_parent(command.stdout(Stdio::piped()));
        let mut holder = command.spawn().expect("unshare");
        let mut line = String::new();
        let said = holder.stdout.take().expect("piped");
        BufReader::new(said).read_line(&mut line).expect("read");
        assert_eq!(line, "made\n");
        Self(holder)
    }

    fn enter(&self) {
        let file = File::open(format!("/proc/{}/ns/net", self.0.id())).expect("a namespace");
        move_into_link_name_space(file.as_fd(), Some(LinkNameSpaceType::Network)).expect("root");
    }
}

impl Drop for Namespace {
    fn drop(&mut self) {
        let _ = self.0.kill();
        let _ = self.0.wait();
    }
}

/// A namespace with an interface `near`, where the calling thread is from now on, and another with
/// `far`.
pub(crate) struct Network {
    far: Namespace,
    _near: Namespace,
}

impl Network {
    /// `None`, said aloud, without root.
    pub(crate) fn new(queues: u32) -> Option<Self> {
        if !rustix::process::geteuid().is_root() {
            eprintln!("SKIPPED: network namespaces need root");
            return None;
        }
        let (near, far) = (Namespace::new(), Namespace::new());
        near.enter();
        let pid = far.0.id();
        ip(&format!(
            "link add near address {NEAR_MAC} numrxqueues {queues} numtxqueues {queues} \
             type veth peer name far address {FAR_MAC} \
             numrxqueues {queues} numtxqueues {queues} netns {pid}"
        ));
        let network = Self { far, _near: near };
        network.at_far(|| up("far", FAR));
        up("near", NEAR);
        neighbour("near", FAR, FAR_MAC);
        network.at_far(|| neighbour("far", NEAR, NEAR_MAC));
        Some(network)
    }

    /// Does something at the far end.
    pub(crate) fn at_far<T: Send>(&self, work: impl FnOnce() -> T + Send) -> T {
        let in_thread = || {
            self.far.enter();
            work()
        };
        std::thread::scope(|scope| scope.spawn(in_thread).join().expect("no panic"))
    }
}

fn up(interface: &str, address: Ipv4Addr) {
    ip("link set lo up");
    ip(&format!("address add {address}/24 dev {interface}"));
    ip(&format!("link set {interface} up"));
}

fn neighbour(interface: &str, address: Ipv4Addr, mac: &str) {
    ip(&format!(
        "neighbour replace {address} lladdr {mac} dev {interface} nud permanent"
    ));
}

pub(crate) fn ip(words: &str) {
    let output = Command::new("ip").args(words.split_whitespace()).output();
    let output = output.expect("iproute2");
    let errors = String::from_utf8_lossy(&output.stderr);
    assert!(output.status.success(), "ip {words}: {errors}");
}

/// A socket whose reads fail after a while.
pub(crate) fn udp(address: Ipv4Addr) -> UdpSocket {
    let socket = UdpSocket::bind((address, 0)).expect("bound");
    socket.set_read_timeout(Some(BOUND)).expect("set");
    socket
}

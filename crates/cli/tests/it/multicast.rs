//! `hythe media send` to a group, received by `hythe media recv` in another network namespace: IPv4
//! and IPv6, joined and left.
//!
//! Needs root for the namespaces, and shared memory; skipped, loudly, without.

use std::process::Command;

use crate::links::{Namespace, Network};
use crate::support::streams::{assert_same, document};
use crate::support::{Root, Running, eventually};

const PORT: u16 = 6000;
const PACKET_BYTES: usize = 188;
/// Three quarters of a second at the rate that is told.
const PACKETS: u32 = 2000;
const RATE: &str = "4M";

/// A transport stream of packets that are all different. It has no clock: its rate is told.
fn film() -> Vec<u8> {
    let packet = |number: u32| {
        let mut bytes = vec![0x47, 0x01, 0x00, 0x10 | (number % 16) as u8];
        bytes.extend((0..PACKET_BYTES as u32 - 4).map(|at| (number * 31 + at * at) as u8));
        bytes
    };
    (0..PACKETS).flat_map(packet).collect()
}

/// What is said of a group's members on the far interface.
fn memberships(network: &Network) -> String {
    network.far.run(|| {
        let output = Command::new("ip")
            .args(["maddr", "show", "dev", "far"])
            .output();
        String::from_utf8_lossy(&output.expect("ip").stdout).into_owned()
    })
}

/// Is a UDP socket of that namespace bound to the port?
fn is_bound(namespace: &Namespace, port: u16) -> bool {
    let end = format!(":{port:04X}");
    let is_its = |line: &str| {
        let local = line.split_whitespace().nth(1);
        local.is_some_and(|local| local.ends_with(&end))
    };
    namespace.run(|| {
        let tables = ["udp", "udp6"].map(|table| format!("/proc/thread-self/net/{table}"));
        let texts = tables
            .iter()
            .filter_map(|table| std::fs::read_to_string(table).ok());
        texts
            .collect::<Vec<_>>()
            .iter()
            .any(|text| text.lines().any(is_its))
    })
}

/// Two of `hythe`, a group, and what one sent and the other received.
struct Scene {
    root: Root,
    network: Network,
    input: String,
    sdp: String,
    url: String,
}

impl Scene {
    fn new(group: &str, host: &str) -> Option<Self> {
        let network = Network::new()?;
        // While its own address of the link is not sure to be nobody else's, packets would come
        // from another one.
        eventually("the addresses are theirs", || {
            let ip = ["-6", "addr", "show", "dev", "near", "tentative"];
            let output = Command::new("ip").args(ip).output().expect("ip");
            output.stdout.is_empty()
        });
        let root = Root::on_shared_memory(&format!("sending to {group}"))?;
        let file = |name: &str| root.path().join(name).to_str().expect("ours").to_owned();
        let (input, sdp) = (file("film.ts"), file("film.sdp"));
        std::fs::write(&input, film()).expect("room");
        let url = format!("rtp://{host}:{PORT}?ttl=3&interface=near");
        Some(Self {
            root,
            network,
            input,
            sdp,
            url,
        })
    }

    fn send(&self, options: &[&str]) -> serde_json::Value {
        let arguments = ["media", "send", &self.input, "--bitrate", RATE, "--to"];
        let arguments = [&arguments[..], &[&self.url], options].concat();
        self.root.json(&arguments)
    }

    /// A receiver in the other namespace that has joined the group.
    fn receiver(&self, group: &str, out: &str) -> Running {
        let arguments = [
            "media",
            "recv",
            &self.sdp,
            "--interface",
            "far",
            "--out",
            out,
        ];
        let arguments = [&arguments[..], &["--json", "--idle", "25"]].concat();
        let receiver = self.network.far.run(|| self.root.start(&arguments));
        eventually("it has joined", || {
            memberships(&self.network).contains(group)
        });
        // The last of its sockets.
        eventually("it listens", || is_bound(&self.network.far, PORT + 1));
        receiver
    }

    fn is_left(&self, group: &str) {
        eventually("the group is left", || {
            !memberships(&self.network).contains(group)
        });
        let ip = ["maddr", "show", "dev", "near"];
        let near = Command::new("ip").args(ip).output().expect("ip");
        assert!(!String::from_utf8_lossy(&near.stdout).contains(group));
    }
}

/// Sends to the group, and has it received elsewhere.
fn crosses(group: &str, host: &str) {
    let Some(scene) = Scene::new(group, host) else {
        return;
    };
    assert!(!memberships(&scene.network).contains(group));
    scene.send(&["--for", "0.001", "--sdp", &scene.sdp]);
    let described = std::fs::read_to_string(&scene.sdp).expect("written");
    assert!(described.contains(group), "{described}");
    let out = scene.root.path().join("copy.ts");
    let out = out.to_str().expect("ours");
    let receiver = scene.receiver(group, out);
    let sent = scene.send(&[]);
    let received = document(&receiver.end());
    assert_eq!(received["ended"], "goodbye", "{received}");
    assert_eq!(received["packets"], sent["packets"], "{received}");
    for count in ["lost", "missing", "malformed", "foreign"] {
        assert_eq!(received[count], 0, "{count} in {received}");
    }
    assert_eq!(sent["destinations"][0]["packets"], sent["packets"]);
    let copy = std::fs::read(out).expect("written");
    assert_same(group, &copy, &film());
    scene.is_left(group);

    // Who is interrupted leaves it, too; and who is killed.
    for signal in [rustix::process::Signal::INT, rustix::process::Signal::KILL] {
        let receiver = scene.receiver(group, out);
        receiver.signal(signal);
        receiver.end();
        scene.is_left(group);
    }
}

#[test]
fn group_of_ipv6_is_received_in_another_namespace() {
    crosses("ff05::4d4d", "[ff05::4d4d]");
}

#[test]
fn group_of_ipv4_is_received_in_another_namespace() {
    crosses("239.255.77.7", "239.255.77.7");
}

/// The scope of the link needs its interface on both sides, and is not the same group on another.
#[test]
fn group_of_one_link_is_received_on_it() {
    crosses("ff02::4d4d", "[ff02::4d4d]");
}

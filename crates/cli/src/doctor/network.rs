//! Fast ways of sending: segmentation offload, sending from a file, no copy, AF_XDP.
//!
//! All is tried over the loopback interface, between two sockets of this process. What a network
//! card adds or refuses shows when packets are sent through it.

use std::io::{self, IoSlice};
use std::net::UdpSocket;
use std::time::{Duration, Instant};
use std::{fs, os::fd::AsFd};

use hythe::media::wire::PacketMemory;
use hythe::media::wire::destination::Destination;
use hythe::media::wire::endpoint::DestinationOptions;
use hythe::media::wire::packets::Packets;
use hythe::media::wire::run::PacketPlace;
use hythe_sys::socket_option::{MSG_ZEROCOPY, SocketOption, set_socket_option};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::fs::{MemfdFlags, memfd_create, sendfile};
use rustix::net::{AddressFamily, SendFlags, SocketFlags, SocketType, send, socket_with};

use super::kernel::{Built, Capability, config, has};
use super::{Group, Probe};

const SEGMENT_BYTES: usize = 1000;
const SEGMENTS: usize = 3;
/// Bounds every wait for a packet; over the loopback interface it is there at once.
const TIMEOUT: Duration = Duration::from_secs(1);

pub(super) fn probe() -> Vec<Probe> {
    let mut probes = vec![
        tried("UDP GSO", gso(), "Linux 4.18 or later"),
        tried("UDP GRO", gro(), "Linux 5.0 or later"),
        tried("sendfile + GSO", sendfile_gso(), "Linux 4.18 or later"),
        tried(
            "RTP over loopback",
            send_methods(),
            "allow UDP over 127.0.0.1",
        ),
        tried(
            "MSG_ZEROCOPY",
            zero_copy(),
            "Linux 5.0 or later, and a limit on locked memory that allows it",
        ),
    ];
    probes.extend(af_xdp());
    probes
}

fn tried(name: &str, result: io::Result<String>, how: &str) -> Probe {
    match result {
        Ok(detail) => Probe::works(Group::Network, name, detail),
        Err(error) => Probe::missing(Group::Network, name, error.to_string()).enable(how),
    }
}

/// Two sockets of the loopback interface, the first connected to the second.
fn pair() -> io::Result<(UdpSocket, UdpSocket)> {
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    receiver.set_read_timeout(Some(TIMEOUT))?;
    let sender = UdpSocket::bind("127.0.0.1:0")?;
    sender.set_write_timeout(Some(TIMEOUT))?;
    sender.connect(receiver.local_addr()?)?;
    Ok((sender, receiver))
}

/// Takes one datagram, and refuses one of another length.
fn expect(receiver: &UdpSocket, bytes: usize) -> io::Result<()> {
    let received = receiver.recv(&mut [0; 65_536])?;
    if received == bytes {
        return Ok(());
    }
    Err(io::Error::other(format!(
        "a datagram of {received} bytes came instead of {bytes}"
    )))
}

fn gso() -> io::Result<String> {
    let (sender, receiver) = pair()?;
    set_socket_option(&sender, SocketOption::UdpSegment, SEGMENT_BYTES as i32)?;
    sender.send(&[1; SEGMENTS * SEGMENT_BYTES])?;
    for _ in 0..SEGMENTS {
        expect(&receiver, SEGMENT_BYTES)?;
    }
    Ok(format!("one send became {SEGMENTS} datagrams"))
}

fn gro() -> io::Result<String> {
    let (sender, receiver) = pair()?;
    set_socket_option(&receiver, SocketOption::UdpGro, 1)?;
    set_socket_option(&sender, SocketOption::UdpSegment, SEGMENT_BYTES as i32)?;
    sender.send(&[1; SEGMENTS * SEGMENT_BYTES])?;
    expect(&receiver, SEGMENTS * SEGMENT_BYTES)?;
    Ok(format!("{SEGMENTS} datagrams were read at once"))
}

fn sendfile_gso() -> io::Result<String> {
    let (sender, receiver) = pair()?;
    set_socket_option(&sender, SocketOption::UdpSegment, SEGMENT_BYTES as i32)?;
    let file = memfd_create("hythe-doctor", MemfdFlags::CLOEXEC)?;
    rustix::io::write(&file, &[1; SEGMENTS * SEGMENT_BYTES])?;
    sendfile(&sender, &file, Some(&mut 0), SEGMENTS * SEGMENT_BYTES)?;
    for _ in 0..SEGMENTS {
        expect(&receiver, SEGMENT_BYTES)?;
    }
    Ok(format!("one sendfile became {SEGMENTS} datagrams"))
}

/// What the media hop makes of all this.
fn send_methods() -> io::Result<String> {
    let file = memfd_create("hythe-doctor", MemfdFlags::CLOEXEC)?;
    let bytes = [1; SEGMENTS * SEGMENT_BYTES];
    rustix::io::write(&file, &bytes)?;
    let memory = PacketMemory {
        file: Some(file.as_fd()),
        file_offset: 0,
        bytes: &bytes,
    };
    let places: [PacketPlace; SEGMENTS] = std::array::from_fn(|index| PacketPlace {
        offset: (index * SEGMENT_BYTES) as u32,
        bytes: SEGMENT_BYTES as u16,
        sequence: index as u16,
        due_ns: 0,
    });
    let receiver = UdpSocket::bind("127.0.0.1:0")?;
    receiver.set_read_timeout(Some(TIMEOUT))?;
    let address = receiver.local_addr()?;
    let mut options = DestinationOptions::default();
    options.rtcp = Some(address); // no report is sent, and the port need not be even
    let mut destination = Destination::open(address, &options).map_err(io::Error::other)?;
    let packets = Packets::lasting(memory, &places).map_err(io::Error::other)?;
    destination.send(&packets, Instant::now(), &mut Vec::new());
    for _ in 0..SEGMENTS {
        expect(&receiver, SEGMENT_BYTES)?;
    }
    let found = destination.statistics();
    Ok(format!(
        "would use {} ({})",
        found.method, found.method_reason
    ))
}

fn zero_copy() -> io::Result<String> {
    let (sender, receiver) = pair()?;
    set_socket_option(&sender, SocketOption::ZeroCopy, 1)?;
    let payload = [IoSlice::new(&[1; SEGMENT_BYTES])];
    send(
        &sender,
        &payload[0],
        SendFlags::from_bits_retain(MSG_ZEROCOPY),
    )?;
    expect(&receiver, SEGMENT_BYTES)?;
    // The completion waits in the error queue, which makes the socket ready.
    let mut interests = [PollFd::from_borrowed_fd(sender.as_fd(), PollFlags::ERR)];
    let timeout = Timespec {
        tv_sec: TIMEOUT.as_secs() as i64,
        tv_nsec: 0,
    };
    if poll(&mut interests, Some(&timeout))? == 0 {
        return Err(io::Error::other(
            "a send was taken but never reported as complete",
        ));
    }
    Ok(
        "a send was reported as complete; loopback and other virtual links copy all the same"
            .into(),
    )
}

/// A socket is made; queues are not set up on any interface, so nobody's traffic is touched.
fn af_xdp() -> [Probe; 2] {
    let names = ["AF_XDP copy", "AF_XDP zero-copy"];
    let group = Group::Network;
    let made = socket_with(
        AddressFamily::XDP,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    );
    let may_attach = has(Capability::NetAdmin) && has(Capability::NetRaw);
    match made {
        Ok(_) if may_attach => [
            Probe::works(
                group,
                names[0],
                "a socket was made, and a program may be attached",
            ),
            Probe::unknown(
                group,
                names[1],
                format!("depends on the driver; here: {}", drivers()),
            )
            .enable(
                "a network card whose driver has XDP zero-copy (i40e, ice, ixgbe, mlx5, stmmac, …)",
            ),
        ],
        Ok(_) => names.map(|name| {
            Probe::missing(
                group,
                name,
                "a socket was made, but no program may be attached",
            )
            .enable("run as root, or give CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF")
        }),
        Err(error @ (rustix::io::Errno::PERM | rustix::io::Errno::ACCESS)) => names.map(|name| {
            Probe::unknown(group, name, format!("a socket may not be made: {error}"))
                .enable("run as root, or give CAP_NET_ADMIN, CAP_NET_RAW and CAP_BPF")
        }),
        Err(error) => names.map(|name| {
            let built = match config("CONFIG_XDP_SOCKETS") {
                Some(Built::Out) => "the kernel was built without CONFIG_XDP_SOCKETS",
                Some(_) => "although the kernel was built with CONFIG_XDP_SOCKETS",
                None => "whether the kernel has CONFIG_XDP_SOCKETS is not known",
            };
            Probe::missing(group, name, format!("{error}: {built}"))
                .enable("a kernel with CONFIG_XDP_SOCKETS")
        }),
    }
}

/// The drivers of this machine's network interfaces.
fn drivers() -> String {
    let Ok(interfaces) = fs::read_dir("/sys/class/net") else {
        return "no interfaces".into();
    };
    let mut found: Vec<String> = interfaces
        .filter_map(|interface| {
            let interface = interface.ok()?;
            let driver = fs::read_link(interface.path().join("device/driver")).ok();
            let driver = driver
                .as_deref()
                .and_then(|path| path.file_name()?.to_str());
            Some(format!(
                "{} ({})",
                interface.file_name().to_str()?,
                driver.unwrap_or("virtual")
            ))
        })
        .collect();
    found.sort();
    found.join(", ")
}

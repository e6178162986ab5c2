//! Packets that leave later than they were handed over, because they are queued in the qdisc: the
//! goodbye, and parity, come behind them.
//!
//! `fq` is a module of Debian's kernel; on other machines its test is skipped, loudly. `make
//! test-media` runs it on an emulated board, where it has to run. Nothing is asserted about how
//! late packets are.

use std::io::Write;
use std::net::{SocketAddr, UdpSocket};
use std::num::NonZeroUsize;
use std::os::fd::AsFd;
use std::os::unix::net::UnixStream;
use std::sync::{Mutex, MutexGuard, PoisonError};
use std::time::{Duration, Instant};

use hythe_media::pace::{Limit, Pace};
use hythe_media::send::repair::{Parity, Repair};
use hythe_media::send::session::SendOptions;
use hythe_media::send::spacer::SpacedBy;
use hythe_media::wire::endpoint::DestinationOptions;
use hythe_node::TrustPeers;
use hythe_rtp::Identity;
use hythe_rtp::loss::fec::{Protection, Shape};
use hythe_sys::udp_receive::{Message, receive};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use crate::links::{FAR, Network, note_arrivals};
use crate::scene::{Counting, Scene};

const BOUND: Duration = Duration::from_secs(120);
/// Two classes: in one a packet of 1,000 bytes takes four milliseconds, in the other one second.
const CLASSES: [&str; 4] = [
    "qdisc add dev near root handle 1: htb default 1",
    "class add dev near parent 1: classid 1:1 htb rate 10gbit",
    "class add dev near parent 1: classid 1:10 htb rate 2mbit burst 1600 cburst 1600",
    "class add dev near parent 1: classid 1:20 htb rate 8kbit burst 1600 cburst 1600",
];
const SLOW: i32 = 0x1_0010;
const STUCK: i32 = 0x1_0020;
/// The type of a goodbye (RFC 3550, section 12.1).
const BYE: u8 = 203;
/// Where columns and rows of parity come, among the sockets of a player.
const COLUMNS: usize = 2;
const ROWS: usize = 3;

fn alone() -> MutexGuard<'static, ()> {
    static ALONE: Mutex<()> = Mutex::new(());
    ALONE.lock().unwrap_or_else(PoisonError::into_inner)
}

/// A player at the far end whose kernel notes when packets arrive: media, reports, and what comes
/// two and four ports above.
struct Player {
    sockets: [UdpSocket; 4],
    address: SocketAddr,
}

impl Player {
    fn new(network: &Network) -> Self {
        let sockets = network.far.run(|| {
            let socket = |port| {
                let socket = UdpSocket::bind((FAR, port)).unwrap();
                note_arrivals(&socket);
                // All of it, because it is read at the end.
                set_socket_recv_buffer_size_force(&socket, 4 << 20).unwrap();
                socket
            };
            // Nobody else is in this namespace.
            [6000, 6001, 6002, 6004].map(socket)
        });
        let address = sockets[0].local_addr().unwrap();
        Self { sockets, address }
    }

    /// The next packet of a socket, and when it arrived.
    fn next(&self, socket: usize) -> (Vec<u8>, u64) {
        let socket = &self.sockets[socket];
        let begun = Instant::now();
        let mut buffer = vec![0; 2048];
        let part = NonZeroUsize::new(buffer.len()).unwrap();
        let mut message = [Message::NONE];
        while receive(socket, &mut buffer, part, &mut message).unwrap() == 0 {
            assert!(begun.elapsed() < BOUND, "nothing comes");
            let mut ready = [PollFd::new(socket, PollFlags::IN)];
            let second = Timespec {
                tv_sec: 1,
                tv_nsec: 0,
            };
            poll(&mut ready, Some(&second)).unwrap();
        }
        buffer.truncate(message[0].bytes);
        (buffer, message[0].arrived_unix_ns.unwrap())
    }

    /// When the last of so many packets of media arrived.
    fn last_of(&self, packets: usize) -> u64 {
        (0..packets).map(|_| self.next(0).1).max().unwrap()
    }

    /// When the goodbye arrived.
    fn goodbye(&self) -> u64 {
        loop {
            let (report, arrived) = self.next(1);
            let mut rest = &report[..];
            while let [_, kind, high, low, ..] = *rest {
                if kind == BYE {
                    return arrived;
                }
                rest = &rest[4 * (1 + usize::from(u16::from_be_bytes([high, low])))..];
            }
        }
    }
}

fn options(send_timeout: Duration) -> SendOptions {
    let trust = TrustPeers::i_trust_every_writer_of_this_pool();
    SendOptions {
        pace: Pace::Unpaced,
        send_timeout,
        ..SendOptions::new(Identity::seeded(1), trust)
    }
}

/// Packets of a class that is slow, and a goodbye outside of it: it comes last, whether the stream
/// has ended or somebody has ended it.
#[test]
fn goodbye_comes_behind_what_a_class_holds_back() {
    const PACKETS: u32 = 60;
    let _alone = alone();
    let Some(network) = Network::scheduled(&CLASSES) else {
        return;
    };
    let Some(scene) = Scene::new("goodbye") else {
        return;
    };
    let (stop, mut stopper) = UnixStream::pair().unwrap();
    stopper.write_all(&[1]).unwrap();
    for stop in [None, Some(stop.as_fd())] {
        let player = Player::new(&network);
        let mut session = scene.session(Counting::units(PACKETS, 1, 1000), options(BOUND));
        let mut to = DestinationOptions::default();
        to.priority = Some(SLOW);
        session.destinations().add(player.address, &to).unwrap();
        scene.run(&mut session);
        session
            .finish(Duration::ZERO, stop, &mut |event| panic!("{event}"))
            .unwrap();
        let (last, goodbye) = (player.last_of(PACKETS as usize), player.goodbye());
        assert!(goodbye > last, "{} ns before it", last - goodbye);
    }
}

/// Packets that stay where they are do not keep a sender from ending.
#[test]
fn what_does_not_leave_is_not_waited_for_without_end() {
    let _alone = alone();
    let Some(network) = Network::scheduled(&CLASSES) else {
        return;
    };
    let Some(scene) = Scene::new("stuck") else {
        return;
    };
    let player = Player::new(&network);
    let mut session = scene.session(Counting::units(40, 1, 1000), options(Duration::ZERO));
    let mut to = DestinationOptions::default();
    to.priority = Some(STUCK);
    session.destinations().add(player.address, &to).unwrap();
    scene.run(&mut session);
    // Forty seconds' worth is on its way when it returns.
    session
        .finish(Duration::ZERO, None, &mut |event| panic!("{event}"))
        .unwrap();
    assert_eq!(session.statistics().delivered, 40);
}

/// Groups are handed to `fq` up to 20 ms before they leave; the parity that they complete leaves
/// behind them, and in front of the next.
#[test]
fn parity_leaves_behind_what_it_protects() {
    const PACKETS: u32 = 120;
    /// A row of four packets, ten milliseconds; a column of four, of a matrix that takes forty.
    const SIDE: u8 = 4;
    let _alone = alone();
    let Some(network) = Network::scheduled(&["qdisc add dev near root fq"]) else {
        return;
    };
    let Some(scene) = Scene::new("parity") else {
        return;
    };
    let player = Player::new(&network);
    let options = SendOptions {
        pace: Pace::BitsPerSecond(8 * 1012 * 400),
        limit: Limit {
            burst: 1,
            early_ns: 0,
        },
        departures: true,
        repair: Repair {
            resend: None,
            parity: Some(Parity {
                shape: Shape::new(SIDE, SIDE).unwrap(),
                protection: Protection::Both,
                payload_type: None,
            }),
        },
        ..options(BOUND)
    };
    let mut session = scene.session(Counting::units(PACKETS, 1, 1000), options);
    let mut to = DestinationOptions::default();
    to.departures = true;
    session.destinations().add(player.address, &to).unwrap();
    scene.run(&mut session);
    assert!(
        matches!(session.spaced_by(), SpacedBy::Kernel(_)),
        "{}",
        session.spaced_by()
    );
    session
        .finish(Duration::ZERO, None, &mut |event| panic!("{event}"))
        .unwrap();
    let media: Vec<(Vec<u8>, u64)> = (0..PACKETS).map(|_| player.next(0)).collect();
    let number = |packet: &[u8], at: usize| u16::from_be_bytes([packet[at], packet[at + 1]]);
    let first = number(&media[0].0, 2);
    let (side, packets) = (usize::from(SIDE), PACKETS as usize);
    let mut last_parity = 0;
    // The last matrix is cut short, and has no columns.
    for (socket, count, apart) in [
        (ROWS, packets / side, 1),
        (COLUMNS, packets / (side * side) * side, side),
    ] {
        for index in 0..count {
            let (packet, arrived) = player.next(socket);
            // The first packet that it covers (SMPTE ST 2022-1, section 8).
            let covered = usize::from(number(&packet, 12).wrapping_sub(first));
            let last = covered + (side - 1) * apart;
            assert!(
                arrived > media[last].1,
                "{index} of socket {socket} came {} ns before packet {last}",
                media[last].1 - arrived
            );
            last_parity = last_parity.max(arrived);
        }
    }
    let last = media.iter().map(|(_, arrived)| *arrived).max().unwrap();
    assert!(player.goodbye() > last.max(last_parity));
}

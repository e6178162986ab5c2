//! ffmpeg protects a transport stream (`-fec prompeg`), packets get lost, and our decoder repairs
//! them; and our encoder makes of the same packets the same parity as ffmpeg.

use std::collections::{BTreeMap, BTreeSet};
use std::net::UdpSocket;
use std::process::{Child, Command, Stdio};

use hythe_rtp::loss::fec::decoder::DecoderLimits;
use hythe_rtp::loss::fec::encoder::{Direction, Format};
use hythe_rtp::loss::fec::predict::{Chance, Losses};
use hythe_rtp::loss::fec::smpte2022::{COLUMN_PORT_OFFSET, ROW_PORT_OFFSET};
use hythe_rtp::loss::fec::{Decoder, Encoder, Protection, Shape, smpte2022};
use rustix::event::{PollFd, PollFlags, Timespec, poll};
use rustix::net::sockopt::{set_socket_recv_buffer_size, set_socket_recv_buffer_size_force};

const POLL: Timespec = Timespec {
    tv_sec: 0,
    tv_nsec: 100_000_000,
};
/// Only ends a test in which ffmpeg neither sends nor ends: a minute.
const SILENT_POLLS_MAX: u32 = 600;
const DATAGRAM_BYTES_MAX: usize = 2048;
/// 1,222 packets, each of which the kernel counts as up to 4 KiB.
const RECEIVE_BYTES: usize = 8 << 20;

#[derive(Clone, Copy, PartialEq, Eq)]
enum Port {
    Media,
    Columns,
    Rows,
}

/// What ffmpeg sent.
struct Sent {
    shape: Shape,
    packets: Vec<(Port, Vec<u8>)>,
}

#[test]
fn stream_of_ffmpeg_is_repaired_as_far_as_its_code_goes() {
    for (columns, rows, seed) in [(5, 5, 1), (4, 12, 3)] {
        let Some(sent) = Sent::by_ffmpeg(Shape::new(columns, rows).unwrap()) else {
            return;
        };
        for per_cent in [0, 2, 5, 10] {
            sent.lose_and_repair(f64::from(per_cent) / 100.0, seed);
        }
        sent.compare_parity();
    }
}

impl Sent {
    /// A few seconds of a test picture over loopback; `None` (said aloud) where that cannot be.
    fn by_ffmpeg(shape: Shape) -> Option<Self> {
        let (port, sockets) = sockets();
        let mut ffmpeg = match ffmpeg(port, shape) {
            Ok(ffmpeg) => ffmpeg,
            Err(error) => {
                eprintln!("SKIPPED: ffmpeg cannot be started ({error}): apt-get install ffmpeg");
                return None;
            }
        };
        let mut packets = Vec::new();
        let mut buffer = [0; DATAGRAM_BYTES_MAX];
        let mut silent_polls = 0;
        let ended = loop {
            // Asked first: all that it sent is in the sockets then.
            let ended = ffmpeg.try_wait().unwrap();
            let mut waits = [0, 1, 2].map(|at| PollFd::new(&sockets[at], PollFlags::IN));
            let ready = poll(&mut waits, Some(&POLL)).unwrap();
            for (socket, port) in sockets.iter().zip([Port::Media, Port::Columns, Port::Rows]) {
                while let Ok(bytes) = socket.recv(&mut buffer) {
                    packets.push((port, buffer[..bytes].to_vec()));
                }
            }
            if let Some(ended) = ended {
                break ended;
            }
            silent_polls = if ready == 0 { silent_polls + 1 } else { 0 };
            if silent_polls == SILENT_POLLS_MAX {
                ffmpeg.kill().unwrap();
            }
        };
        assert!(ended.success(), "{ended}");
        let mut sent = Self { shape, packets };
        sent.check_complete();
        sent.put_in_order();
        Some(sent)
    }

    fn of(&self, port: Port) -> impl Iterator<Item = &[u8]> {
        self.packets
            .iter()
            .filter(move |packet| packet.0 == port)
            .map(|packet| &packet.1[..])
    }

    /// The test itself lost nothing: every number is there.
    fn check_complete(&self) {
        for port in [Port::Media, Port::Columns, Port::Rows] {
            let numbers: Vec<u16> = self.of(port).map(sequence).collect();
            assert!(numbers.len() >= 50, "{}", numbers.len());
            let follows = |pair: &[u16]| pair[1] == pair[0].wrapping_add(1);
            assert!(numbers.windows(2).all(follows), "the socket lost packets");
        }
    }

    /// Parity behind the last packet that it covers, however late each socket was read.
    fn put_in_order(&mut self) {
        let first = self.of(Port::Media).next().map(sequence).unwrap();
        self.packets.sort_by_key(|(port, packet)| match port {
            Port::Media => (sequence(packet).wrapping_sub(first), false),
            Port::Columns | Port::Rows => {
                let members = smpte2022::parse(packet).unwrap().members;
                let span = members.offsets.ilog2() as u16;
                (members.base.wrapping_add(span).wrapping_sub(first), true)
            }
        });
    }

    /// Loses media packets by a seed; what stays lost is what the parity that ffmpeg sent leaves.
    fn lose_and_repair(&self, loss: f64, seed: u64) {
        let first = self.of(Port::Media).next().map(sequence).unwrap();
        let place = |number: u16| usize::from(number.wrapping_sub(first));
        let mut chance = Chance::new(seed);
        let mut lost = BTreeMap::new();
        let mut repaired = BTreeMap::new();
        let mut decoder = Decoder::new(DecoderLimits::default());
        for (port, packet) in &self.packets {
            let mut emit = |packet: hythe_rtp::loss::Repaired<'_>| {
                let twice = repaired.insert(place(packet.sequence), packet.bytes.to_vec());
                assert_eq!(twice, None);
            };
            match port {
                Port::Media if sequence(packet) != first && chance.happens(loss) => {
                    lost.insert(place(sequence(packet)), packet);
                }
                Port::Media => decoder.take_media(packet, &mut emit),
                Port::Columns | Port::Rows => {
                    decoder.take_parity(&smpte2022::parse(packet).unwrap(), &mut emit);
                }
            }
        }
        for (place, bytes) in &repaired {
            assert_eq!(lost.get(place), Some(&bytes), "a packet that was lost");
        }
        let left: BTreeSet<usize> = lost
            .keys()
            .filter(|place| !repaired.contains_key(place))
            .copied()
            .collect();
        println!(
            "{:?}, {} media packets, {} lost, {} repaired, {} left",
            self.shape,
            self.of(Port::Media).count(),
            lost.len(),
            repaired.len(),
            left.len()
        );
        assert_eq!(left, self.left_by_model(place, &lost));
        assert_eq!(decoder.counts().inconsistent, 0);
    }

    fn left_by_model(
        &self,
        place: impl Fn(u16) -> usize,
        lost: &BTreeMap<usize, &Vec<u8>>,
    ) -> BTreeSet<usize> {
        let packets = self.shape.packets();
        let matrices = self.of(Port::Media).count().div_ceil(packets);
        let mut parity = vec![(BTreeSet::new(), BTreeSet::new()); matrices];
        for packet in self.of(Port::Columns) {
            let at = place(smpte2022::parse(packet).unwrap().members.base);
            parity[at / packets].0.insert(at % packets);
        }
        for packet in self.of(Port::Rows) {
            let at = place(smpte2022::parse(packet).unwrap().members.base);
            parity[at / packets]
                .1
                .insert(at % packets / self.shape.columns());
        }
        let left = |(matrix, (columns, rows)): (usize, &(BTreeSet<usize>, BTreeSet<usize>))| {
            let mut losses = Losses::none(self.shape, Protection::Both);
            (0..self.shape.columns())
                .filter(|column| !columns.contains(column))
                .for_each(|column| losses.lose_column(column));
            (0..self.shape.rows())
                .filter(|row| !rows.contains(row))
                .for_each(|row| losses.lose_row(row));
            let first = matrix * packets;
            lost.range(first..first + packets)
                .for_each(|(at, _)| losses.lose(at - first));
            let left: Vec<usize> = losses.repair().map(|at| first + at).collect();
            left
        };
        parity.iter().enumerate().flat_map(left).collect()
    }

    /// Our parity of ffmpeg's packets is ffmpeg's, but for its own numbers and times.
    fn compare_parity(&self) {
        let body = self.of(Port::Media).next().unwrap().len() - 12;
        let mut encoder = Encoder::new(
            Format::Smpte2022,
            self.shape,
            Protection::Both,
            body as u16,
            0,
        )
        .unwrap();
        let mut ours = [Vec::new(), Vec::new()];
        for packet in self.of(Port::Media) {
            let (header, body) = packet.split_first_chunk().unwrap();
            encoder
                .push(header, &[body], &mut |parity| {
                    let own = &mut ours[usize::from(parity.direction == Direction::Row)];
                    own.push([parity.header, parity.payload].concat());
                })
                .unwrap();
        }
        for (port, ours) in [Port::Columns, Port::Rows].into_iter().zip(ours) {
            let theirs: Vec<&[u8]> = self.of(port).collect();
            // Near the end one has sent what the other has still to send.
            let both = ours.len().min(theirs.len());
            assert!(both + self.shape.columns() >= ours.len().max(theirs.len()));
            for (ours, theirs) in ours.iter().zip(theirs) {
                assert_eq!(ours[..2], theirs[..2]);
                assert_eq!(ours[8..], theirs[8..]);
            }
        }
    }
}

fn sequence(packet: &[u8]) -> u16 {
    u16::from_be_bytes([packet[2], packet[3]])
}

/// An even port, and sockets for media, columns, rows, and RTCP (which nobody reads).
fn sockets() -> (u16, [UdpSocket; 4]) {
    let bind = |port: u16| UdpSocket::bind(("127.0.0.1", port)).ok();
    let found = (0..100).find_map(|_| {
        let media = bind(0)?;
        let port = media.local_addr().ok()?.port();
        let columns = bind(port.checked_add(COLUMN_PORT_OFFSET)?)?;
        let rows = bind(port.checked_add(ROW_PORT_OFFSET)?)?;
        let sockets = [media, columns, rows, bind(port + 1)?];
        port.is_multiple_of(2).then_some((port, sockets))
    });
    let (port, sockets) = found.expect("free ports");
    for socket in &sockets {
        socket.set_nonblocking(true).unwrap();
        // Space for all that ffmpeg sends, should this process not run meanwhile; without
        // privilege, for as much as is allowed.
        if set_socket_recv_buffer_size_force(socket, RECEIVE_BYTES).is_err() {
            set_socket_recv_buffer_size(socket, RECEIVE_BYTES).unwrap();
        }
    }
    (port, sockets)
}

fn ffmpeg(port: u16, shape: Shape) -> std::io::Result<Child> {
    let prompeg = format!("prompeg=l={}:d={}", shape.columns(), shape.rows());
    let address = format!("rtp://127.0.0.1:{port}");
    // Noise, so that packets are full; at twice the speed of the clock, so that no socket
    // overflows.
    let picture = "testsrc2=size=320x240:rate=25:duration=4,noise=alls=60:allf=t";
    Command::new("ffmpeg")
        .args(["-nostdin", "-v", "error", "-readrate", "2"])
        .args(["-f", "lavfi", "-i", picture])
        .args([
            "-c:v",
            "mpeg2video",
            "-b:v",
            "3M",
            "-maxrate",
            "3M",
            "-bufsize",
            "1M",
        ])
        .args(["-f", "rtp_mpegts", "-fec", &prompeg, &address])
        .stdout(Stdio::null())
        .spawn()
}

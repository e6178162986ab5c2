//! A pool, a source that counts, and receivers that write down what came.

use std::io::ErrorKind;
use std::net::{SocketAddr, UdpSocket};
use std::ops::Range;
use std::path::PathBuf;
use std::time::{Duration, Instant};

use hythe_media::MediaError;
use hythe_media::send::session::{SendOptions, SendSession, Step};
use hythe_media::source::Source;
use hythe_node::{Node, Pool, PoolOptions, WireOptions, monotonic_ns};
use hythe_rtp::format::{Encoding, StreamFormat};
use hythe_rtp::payload::{EmitPayload, Packetize, Payload};
use hythe_rtp::unit::Unit;
use hythe_testing::let_time_pass;
use rtcp_types::{Compound, Packet};
use rtp_types::RtpPacket;

pub(crate) type Session = SendSession;

/// Ends tests that have failed.
const BOUND: Duration = Duration::from_secs(120);
/// Nothing comes any more.
const QUIET: Duration = Duration::from_millis(200);
const CLOCK_HZ: u32 = 90_000;
/// A unit every two milliseconds.
const UNIT_TICKS: u32 = 180;

/// A pool in shared memory with four slots for the wire; it goes with the value.
pub(crate) struct Scene {
    root: PathBuf,
    node: Node,
}

impl Scene {
    /// Says what is left out where there is no shared memory.
    pub(crate) fn new(name: &str) -> Option<Self> {
        let root = PathBuf::from(format!("/dev/shm/hythe-send-{}-{name}", std::process::id()));
        if let Err(error) = std::fs::create_dir(&root) {
            eprintln!("SKIPPED (no directory in /dev/shm: {error}): sending, {name}");
            return None;
        }
        let options = PoolOptions::new("test").root(&root).bytes(16 << 20);
        let pool = Pool::open_or_create(&options).unwrap();
        let node = Node::join(&pool, "test").unwrap();
        Some(Self { root, node })
    }

    pub(crate) fn session(&self, source: Counting, options: SendOptions) -> Session {
        self.try_session(source, options).unwrap()
    }

    pub(crate) fn try_session(
        &self,
        source: Counting,
        options: SendOptions,
    ) -> Result<Session, MediaError> {
        let packetizer = Box::new(Cutter {
            packets: source.packets,
        });
        let wire = WireOptions {
            slots: 12,
            ..WireOptions::default()
        };
        let options = SendOptions { wire, ..options };
        SendSession::new(&self.node, Box::new(source), packetizer, options)
    }

    /// Sends all of it.
    pub(crate) fn run(&self, session: &mut Session) {
        let begun = Instant::now();
        loop {
            assert!(begun.elapsed() < BOUND, "{:?}", session.statistics());
            match session.step(&mut |event| panic!("{event}")).unwrap() {
                Step::Ended => return,
                Step::Wait(until_ns) => wait_until(until_ns),
                Step::Again => {}
            }
        }
    }
}

impl Drop for Scene {
    fn drop(&mut self) {
        let _ = std::fs::remove_dir_all(&self.root);
    }
}

pub(crate) fn wait_until(until_ns: u64) {
    let left = until_ns.saturating_sub(monotonic_ns());
    let_time_pass(Duration::from_nanos(left), "a moment of the schedule");
}

/// A source whose units say which they are.
pub(crate) struct Counting {
    format: StreamFormat,
    units: u32,
    next: u32,
    packets: usize,
    packet_bytes: usize,
    /// Before this unit it has nothing for so long, once it is asked.
    silence: Option<(u32, Duration)>,
    silent_since: Option<Instant>,
    /// It ends in an error, and not as it should.
    is_damaged: bool,
    /// What it passed over in front of the unit that it gave out last, and before which ones it
    /// does.
    skipped: Option<MediaError>,
    skips_before: Vec<u32>,
    /// The one piece of the unit that was given out last.
    pieces: Vec<&'static [u8]>,
}

impl Counting {
    /// `units` units, each of as many packets, each of as many bytes.
    pub(crate) fn units(units: u32, packets: usize, packet_bytes: usize) -> Self {
        Self {
            format: StreamFormat {
                encoding: Encoding::MpegTs,
                payload_type: 33,
                clock_hz: CLOCK_HZ,
                channels: 1,
                parameters: String::new(),
            },
            units,
            next: 0,
            packets,
            packet_bytes,
            silence: None,
            silent_since: None,
            is_damaged: false,
            skipped: None,
            skips_before: Vec::new(),
            pieces: Vec::new(),
        }
    }

    /// Media with an error behind its last unit.
    pub(crate) fn damaged(self) -> Self {
        Self {
            is_damaged: true,
            ..self
        }
    }

    /// Media that lacks something in front of each of these units.
    pub(crate) fn skipping_before(self, units: &[u32]) -> Self {
        Self {
            skips_before: units.to_vec(),
            ..self
        }
    }

    /// Live media that pauses before a unit.
    pub(crate) fn silent_before(self, unit: u32, time: Duration) -> Self {
        Self {
            silence: Some((unit, time)),
            ..self
        }
    }

    /// What their packets of 100 bytes carry.
    pub(crate) fn payloads(units: Range<u32>, packets: usize) -> Vec<Vec<u8>> {
        Self::sized(units, packets, 100)
    }

    pub(crate) fn sized(units: Range<u32>, packets: usize, bytes: usize) -> Vec<Vec<u8>> {
        let unit = |unit| (0..packets).map(move |packet| fill(unit, packet, bytes));
        units.flat_map(unit).collect()
    }
}

fn fill(unit: u32, packet: usize, bytes: usize) -> Vec<u8> {
    let mut filled = vec![packet as u8; bytes];
    filled[..4].copy_from_slice(&unit.to_be_bytes());
    filled
}

/// What a source says of damage before `unit`.
fn bad(unit: u32) -> MediaError {
    MediaError::Input {
        input: "counting".to_owned(),
        position: unit.into(),
        reason: "it is damaged".to_owned(),
    }
}

impl Source for Counting {
    fn skipped(&mut self) -> Option<MediaError> {
        self.skipped.take()
    }

    fn format(&self) -> &StreamFormat {
        &self.format
    }

    fn is_ready(&mut self) -> Result<bool, MediaError> {
        let Some((_, time)) = self.silence.filter(|(unit, _)| *unit == self.next) else {
            return Ok(true);
        };
        let since = *self.silent_since.get_or_insert_with(Instant::now);
        Ok(since.elapsed() >= time)
    }

    fn next(&mut self) -> Result<Option<Unit<'_>>, MediaError> {
        if self.skips_before.contains(&self.next) {
            self.skipped = Some(bad(self.next));
        }
        if self.next == self.units {
            let is_damaged = std::mem::take(&mut self.is_damaged);
            return is_damaged.then(|| bad(self.next)).map_or(Ok(None), Err);
        }
        let due = u64::from(self.next) * u64::from(UNIT_TICKS);
        let packets = (0..self.packets).map(|packet| fill(self.next, packet, self.packet_bytes));
        // A list of slices of itself is what no struct can hold; a test may leak.
        self.pieces = vec![packets.flatten().collect::<Vec<u8>>().leak()];
        self.next += 1;
        Ok(Some(Unit {
            pieces: &self.pieces,
            time: due,
            due,
            duration: UNIT_TICKS,
            is_start: true,
        }))
    }
}

/// Cuts a unit into packets of one size.
struct Cutter {
    packets: usize,
}

impl Packetize for Cutter {
    fn packetize(&mut self, unit: &Unit<'_>, limit: usize, emit: &mut EmitPayload<'_>) {
        let bytes = unit.pieces[0];
        let packets = bytes.chunks(bytes.len() / self.packets);
        for (index, packet) in packets.enumerate() {
            assert!(packet.len() <= limit);
            emit(&Payload {
                prefix: &[],
                body: &[packet],
                marker: index + 1 == self.packets,
                time: unit.time,
                due: unit.due,
            });
        }
    }
}

/// A pair of sockets.
pub(crate) struct Receiver {
    rtp: UdpSocket,
    rtcp: UdpSocket,
}

/// A report that came.
#[derive(Debug)]
pub(crate) struct Report {
    pub(crate) ssrc: u32,
    pub(crate) packets: u32,
    pub(crate) bytes: u32,
    pub(crate) said_goodbye: bool,
}

impl Receiver {
    pub(crate) fn new() -> Self {
        Self::with_room(4 << 20)
    }

    /// With that much space in its socket, as far as this user may ask for it.
    pub(crate) fn with_room(bytes: usize) -> Self {
        let pair = (0..1000).find_map(|_| {
            let rtp = UdpSocket::bind("127.0.0.1:0").ok()?;
            let port = rtp.local_addr().ok()?.port();
            let rtcp = port
                .is_multiple_of(2)
                .then(|| UdpSocket::bind(("127.0.0.1", port + 1)));
            Some((rtp, rtcp?.ok()?))
        });
        let (rtp, rtcp) = pair.unwrap();
        if rustix::net::sockopt::set_socket_recv_buffer_size_force(&rtp, bytes).is_err() {
            rustix::net::sockopt::set_socket_recv_buffer_size(&rtp, bytes).unwrap();
        }
        rtp.set_read_timeout(Some(QUIET)).unwrap();
        rtcp.set_read_timeout(Some(QUIET)).unwrap();
        Self { rtp, rtcp }
    }

    pub(crate) fn address(&self) -> SocketAddr {
        self.rtp.local_addr().unwrap()
    }

    /// What came, in order; its sequence numbers follow each other.
    pub(crate) fn payloads(&self) -> Vec<Vec<u8>> {
        let mut payloads = Vec::new();
        let mut expected = None;
        while let Some(bytes) = next(&self.rtp) {
            let packet = RtpPacket::parse(&bytes).unwrap();
            let sequence = packet.sequence_number();
            assert!(expected.is_none_or(|expected| expected == sequence));
            expected = Some(sequence.wrapping_add(1));
            payloads.push(packet.payload().to_vec());
        }
        payloads
    }

    /// What came, whole, in order.
    pub(crate) fn datagrams(&self) -> Vec<Vec<u8>> {
        std::iter::from_fn(|| next(&self.rtp)).collect()
    }

    /// Asks whoever reported last for a packet again (RFC 4585, section 6.2.1).
    pub(crate) fn ask_for(&self, sequence: u16, sender: SocketAddr, ssrc: u32) {
        let mut request = vec![0x81, 205, 0, 3, 0, 0, 0, 9];
        request.extend(ssrc.to_be_bytes());
        request.extend(sequence.to_be_bytes());
        request.extend([0, 0]);
        self.rtcp.send_to(&request, sender).unwrap();
    }

    /// Where reports come from.
    pub(crate) fn reporter(&self) -> SocketAddr {
        let mut report = [0; 2000];
        self.rtcp.recv_from(&mut report).unwrap().1
    }

    pub(crate) fn reports(&self) -> Vec<Report> {
        std::iter::from_fn(|| next(&self.rtcp))
            .map(|bytes| read_report(&bytes))
            .collect()
    }
}

fn next(socket: &UdpSocket) -> Option<Vec<u8>> {
    let mut bytes = vec![0; 65_536];
    match socket.recv(&mut bytes) {
        Ok(length) => {
            bytes.truncate(length);
            Some(bytes)
        }
        Err(error) if error.kind() == ErrorKind::WouldBlock => None,
        Err(error) => panic!("{error}"),
    }
}

fn read_report(bytes: &[u8]) -> Report {
    let packets: Vec<Packet<'_>> = Compound::parse(bytes)
        .unwrap()
        .map(Result::unwrap)
        .collect();
    let Packet::Sr(report) = &packets[0] else {
        panic!("{packets:?}");
    };
    Report {
        ssrc: report.ssrc(),
        packets: report.packet_count(),
        bytes: report.octet_count(),
        said_goodbye: packets
            .iter()
            .any(|packet| matches!(packet, Packet::Bye(_))),
    }
}

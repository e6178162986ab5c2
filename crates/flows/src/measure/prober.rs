//! The socket of a link's end: measures, or answers one that does.

use std::fmt;
use std::io::{self, IoSlice};
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::BorrowedFd;
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hythe_node::monotonic_ns;
use hythe_packets::MTU_BYTES_MIN;
use hythe_sys::socket_option::bind_to_interface;
use hythe_sys::udp_receive::{self, BATCH_BYTES};
use hythe_sys::udp_send::{self, SEGMENTED_BYTES_MAX};
use hythe_wire::{Sent, Wire};
use rustix::event::{PollFd, PollFlags};

use super::choice::{Bulk, ByXdp, Figures, Measured, Others};
use super::packet::{BURST_DATAGRAMS_MAX, Coming, Kind, PING_BYTES, Packet, Use};
use super::tcp::{Asking, BLOCK_BYTES, Echo};

/// A measurement sends, and has the other side send, at most so much.
pub const BYTES_MAX: u64 = 4 << 20;
/// And takes so long.
pub const TIME_MAX: Duration = Duration::from_secs(2);

/// Of each carrier.
const PINGS: u32 = 60;
const BURSTS: u32 = 4;
/// The answer to a ping comes within this, and to a burst, or counts as lost.
const PING_BOUND: Duration = Duration::from_millis(20);
const BURST_BOUND: Duration = Duration::from_millis(100);
/// The other side says that it is prepared within this; it waits for the program of its interface.
const PREPARING: Duration = Duration::from_millis(400);
/// It listens within this.
const LISTENING: Duration = Duration::from_millis(200);
const WIRE_BOUND: Duration = Duration::from_millis(250);
/// Who answers looks for the next packet for so long before it sleeps.
const SPIN: Duration = Duration::from_millis(1);
/// Nothing came for so long: whoever measured is gone, and `xdp` is let go of.
const QUIET: Duration = Duration::from_millis(600);
/// A host that asks for it all the time has `xdp` on at this end for so long, and then for one part
/// in so many of the time: the program costs other traffic.
const LENT_MAX: Duration = Duration::from_secs(10);
const LENT_PART: u32 = 20;
/// Any port of UDP: nothing is sent.
const DISCARD: u16 = 9;
/// Of IPv6 and UDP.
const HEADERS_BYTES: u16 = 48;
/// Looks at UDP less often than at a wire, where nothing is a system call.
const LOOKS: u32 = 16;

/// Why a link was not measured.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum NotMeasured {
    /// The other side does so itself just now.
    Busy,
    /// It does not answer.
    Silent,
}

impl fmt::Display for NotMeasured {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str(match self {
            Self::Busy => "the other host measures just now",
            Self::Silent => "the agent of the other host does not answer by UDP",
        })
    }
}

/// One end of a link.
#[derive(Debug)]
pub struct Prober {
    socket: UdpSocket,
    /// At which it is bound.
    interface: Option<String>,
    /// What others know to be answered.
    word: u64,
    their_word: Option<u64>,
    /// Of a datagram of a burst.
    datagram_bytes: usize,
    wire: Option<Box<Wire>>,
    /// That of another socket: the program is on the interface, and not for this one.
    beside: Option<Box<Wire>>,
    /// For the other side's blocks by TCP.
    echo: Option<Box<Echo>>,
    lent: Lent,
    coming: Coming,
    number: u32,
    buffer: Vec<u8>,
    /// Datagrams of a burst, one behind the other.
    burst: Vec<u8>,
    /// Of each.
    burst_bytes: u16,
    looks: u32,
    spent: u64,
}

/// By what a sample goes.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Way {
    Udp,
    Wire,
}

impl Prober {
    /// Opens a socket on an address of this host, at the interface, for packets of this MTU.
    ///
    /// # Errors
    /// There is no such address or interface.
    pub fn open(
        (address, interface): (IpAddr, Option<&str>),
        mtu_bytes: u16,
        word: u64,
    ) -> io::Result<Self> {
        let socket = UdpSocket::bind((address, 0))?;
        interface.map_or(Ok(()), |name| bind_to_interface(&socket, name))?;
        socket.set_nonblocking(true)?;
        let _ = udp_receive::enable_gro(&socket);
        Ok(Self {
            socket,
            interface: interface.map(str::to_owned),
            word,
            their_word: None,
            datagram_bytes: datagram_bytes(mtu_bytes),
            wire: None,
            beside: None,
            echo: None,
            lent: Lent::new(Instant::now()),
            coming: Coming::default(),
            number: 0,
            buffer: vec![0; BATCH_BYTES],
            burst: Vec::new(),
            burst_bytes: 1,
            looks: 0,
            spent: 0,
        })
    }

    /// Its port, for the other side.
    ///
    /// # Errors
    /// What the kernel says.
    pub fn port(&self) -> io::Result<u16> {
        self.socket.local_addr().map(|address| address.port())
    }

    /// The other end is there, and answers whoever knows this word.
    ///
    /// # Errors
    /// It cannot be reached.
    pub fn meet(&mut self, peer: SocketAddr, word: u64) -> io::Result<()> {
        self.let_go();
        self.their_word = Some(word);
        self.socket.connect(peer)
    }

    /// Packets of the link have so many bytes from now on.
    pub fn set_mtu(&mut self, mtu_bytes: u16) {
        self.datagram_bytes = datagram_bytes(mtu_bytes);
    }

    /// What it has sent and had sent so far, in all measurements.
    #[must_use]
    pub fn spent(&self) -> u64 {
        self.spent
    }

    /// Answers the other side, for this long or until `bell` rings. `wire` serves the interface, if
    /// it is to be used.
    ///
    /// # Errors
    /// What the kernel says of waiting.
    pub fn answer(
        &mut self,
        bell: BorrowedFd<'_>,
        wire: Option<&Path>,
        timeout: Duration,
    ) -> io::Result<()> {
        let deadline = Instant::now() + timeout;
        loop {
            let left = deadline.saturating_duration_since(Instant::now());
            let left = match self.has_program() || self.echo.is_some() {
                true => left.min(QUIET),
                false => left,
            };
            let mut files = vec![
                PollFd::new(&bell, PollFlags::IN),
                PollFd::new(&self.socket, PollFlags::IN),
            ];
            let of_wire = self.wire.iter().flat_map(|wire| wire.descriptors());
            let of_wire: Vec<BorrowedFd<'_>> = of_wire.collect();
            files.extend(of_wire.iter().map(|file| PollFd::new(file, PollFlags::IN)));
            files.extend(self.echo.iter().flat_map(|echo| echo.files()));
            hythe_sys::wait::poll_or_sleep(&mut files, left)?;
            let is_called = !files[0].revents().is_empty();
            let has_come = files[1..].iter().any(|file| !file.revents().is_empty());
            drop(files);
            if !has_come {
                self.let_go();
            }
            self.serve(wire);
            if is_called || Instant::now() >= deadline {
                return Ok(());
            }
        }
    }

    /// Answers what has come, until nothing has for a moment.
    fn serve(&mut self, wire: Option<&Path>) {
        let start = Instant::now();
        let mut last = start;
        while last.elapsed() < SPIN && start.elapsed() < TIME_MAX {
            if !self.lent.may(self.has_program(), Instant::now()) {
                self.let_go();
            }
            self.echo.take_if(|echo| echo.is_over());
            let has_gone_on = self.echo.as_mut().is_some_and(|echo| echo.turn());
            if has_gone_on {
                last = Instant::now();
            }
            let packets = self.look();
            if packets.is_empty() {
                std::thread::yield_now();
                continue;
            }
            last = Instant::now();
            for (packet, way) in packets {
                match packet.kind {
                    Kind::Prepare => {
                        let may = self.lent.may(false, Instant::now());
                        self.let_go();
                        let used = match wire.filter(|_| may) {
                            Some(path) => self.begin(Use::of(packet.index), path).is_ok(),
                            None => false,
                        };
                        let index = if used { packet.index } else { 0 };
                        self.send(Packet::new(Kind::Prepared, packet.number, index));
                    }
                    Kind::Ping => {
                        self.send(Packet::new(Kind::Pong, packet.number, 0));
                    }
                    Kind::Burst if self.coming.take(&packet) => {
                        self.write_burst(Packet {
                            kind: Kind::Back,
                            ..packet
                        });
                        self.send_burst(way);
                    }
                    Kind::Listen => {
                        self.echo = self.open_echo().ok().map(Box::new);
                        let port = self.echo.as_ref().and_then(|echo| echo.port().ok());
                        let port = port.unwrap_or(0);
                        self.send(Packet::new(Kind::Listening, packet.number, port));
                    }
                    Kind::Done => self.let_go(),
                    _ => {}
                }
            }
        }
    }

    /// Measures the link. `wire` serves the interface.
    ///
    /// # Errors
    /// The other side does not take part now.
    pub fn measure(&mut self, wire: Result<PathBuf, String>) -> Result<Measured, NotMeasured> {
        let (start, before) = (Instant::now(), self.spent);
        let limits = Limits {
            until: start + TIME_MAX,
            bytes: before + BYTES_MAX,
        };
        self.let_go();
        self.prepare(Use::Udp)?;
        let udp = self.figures(Way::Udp, limits);
        let tcp_bytes_per_s = match &wire {
            Ok(_) => self.tcp_speed(limits),
            Err(_) => None,
        };
        let xdp = wire.and_then(|path| self.measure_wire(&path, limits));
        self.send(Packet::new(Kind::Done, self.number, 0));
        self.let_go();
        Ok(Measured {
            udp,
            tcp_bytes_per_s,
            xdp,
            bytes: self.spent - before,
            took_ns: start.elapsed().as_nanos() as u64,
        })
    }

    /// What the other side cannot do it does without: then this end's part alone is measured.
    fn measure_wire(&mut self, path: &Path, limits: Limits) -> Result<ByXdp, String> {
        let silent = |error: NotMeasured| error.to_string();
        self.begin(Use::Beside, path)?;
        let beside = self.beside.as_ref();
        let others = match beside.map(|wire| (wire.was_on(), wire.has_others())) {
            Some((_, true)) => Others::PaidAlready,
            // For whoever has just left: what was to be compared had it, too.
            Some((true, _)) => Others::Beside(Bulk::default()),
            _ => {
                self.prepare(Use::Beside).map_err(silent)?;
                Others::Beside(Bulk {
                    udp_bytes_per_s: self.speed(Way::Udp, limits),
                    tcp_bytes_per_s: self.tcp_speed(limits),
                })
            }
        };
        self.begin(Use::Wire, path)?;
        self.prepare(Use::Wire).map_err(silent)?;
        let figures = self.figures(Way::Wire, limits);
        Ok(ByXdp { figures, others })
    }

    /// Uses that from now on.
    fn begin(&mut self, what: Use, path: &Path) -> Result<(), String> {
        let opened = match what {
            Use::Udp => Ok(None),
            Use::Wire => Wire::connect(path, &self.socket, None, WIRE_BOUND).map(Some),
            Use::Beside => self.open_beside(path).map(Some),
        };
        self.let_go();
        let opened = opened.map_err(|error| format!("{}: {error}", path.display()))?;
        let place = match what {
            Use::Beside => &mut self.beside,
            _ => &mut self.wire,
        };
        *place = opened.map(Box::new);
        Ok(())
    }

    /// Sockets for what nobody sends.
    fn open_beside(&self, path: &Path) -> io::Result<Wire> {
        let socket = UdpSocket::bind((self.socket.local_addr()?.ip(), 0))?;
        socket.connect((self.socket.peer_addr()?.ip(), DISCARD))?;
        Wire::connect(path, &socket, None, WIRE_BOUND)
    }

    fn let_go(&mut self) {
        (self.wire, self.beside, self.echo) = (None, None, None);
    }

    /// Is it on the interface, for this end's sake?
    fn has_program(&self) -> bool {
        self.wire.is_some() || self.beside.is_some()
    }

    /// Has the other side use that, where it can, or UDP alone.
    fn prepare(&mut self, what: Use) -> Result<(), NotMeasured> {
        for _ in 0..2 {
            self.number = self.number.wrapping_add(1);
            self.send(Packet::new(Kind::Prepare, self.number, what as u16));
            let said = self.wait_for(&[Kind::Prepared, Kind::Busy], PREPARING);
            match said {
                Some((packet, _)) if packet.kind == Kind::Busy => return Err(NotMeasured::Busy),
                Some(_) => return Ok(()),
                None => {}
            }
        }
        Err(NotMeasured::Silent)
    }

    fn figures(&mut self, way: Way, limits: Limits) -> Figures {
        let mut times = Vec::with_capacity(PINGS as usize);
        for _ in 0..PINGS {
            if limits.are_reached(self.spent, 2 * PING_BYTES) {
                break;
            }
            self.number = self.number.wrapping_add(1);
            let start = Instant::now();
            let went = self.send(Packet::new(Kind::Ping, self.number, 0));
            self.spent += PING_BYTES as u64;
            // The first by a wire goes by UDP: its answer says where to send to.
            if let Some((_, came)) = self.wait_for(&[Kind::Pong], PING_BOUND)
                && (went, came) == (way, way)
            {
                times.push(start.elapsed().as_nanos() as u64);
            }
        }
        Figures {
            round_trip_ns: median(times, PINGS / 2),
            bytes_per_s: self.speed(way, limits),
        }
    }

    /// The speed of bursts, there and back: what the program costs is paid where they come.
    fn speed(&mut self, way: Way, limits: Limits) -> Option<u64> {
        let datagram_bytes = self.datagram_bytes;
        let count = (SEGMENTED_BYTES_MAX / datagram_bytes).min(BURST_DATAGRAMS_MAX.into());
        let bytes = 2 * count * datagram_bytes;
        let mut speeds = Vec::with_capacity(BURSTS as usize);
        for _ in 0..BURSTS {
            if limits.are_reached(self.spent, bytes) {
                break;
            }
            self.number = self.number.wrapping_add(1);
            self.write_burst(Packet {
                kind: Kind::Burst,
                number: self.number,
                index: 0,
                // Both fit: `BURST_DATAGRAMS_MAX`, and an MTU's bytes.
                count: count as u16,
                bytes: datagram_bytes as u16,
            });
            let start = Instant::now();
            let went = self.send_burst(way);
            self.spent += bytes as u64;
            if went && self.wait_for(&[Kind::Back], BURST_BOUND).is_some() {
                let took_ns = start.elapsed().as_nanos().max(1);
                speeds.push((bytes as u128 * 1_000_000_000 / took_ns) as u64);
            }
        }
        median(speeds, BURSTS / 2)
    }

    /// The speed of blocks by TCP, there and back, over a connection of their own.
    fn tcp_speed(&mut self, limits: Limits) -> Option<u64> {
        let (peer, their_word) = (self.socket.peer_addr().ok()?, self.their_word?);
        let port = (0..2).find_map(|_| {
            self.number = self.number.wrapping_add(1);
            self.send(Packet::new(Kind::Listen, self.number, 0));
            let said = self.wait_for(&[Kind::Listening], LISTENING);
            said.map(|(packet, _)| packet.index)
        });
        let mut there = peer;
        there.set_port(port.filter(|port| *port != 0)?);
        let from = (self.any_port().ok()?, self.interface.as_deref());
        let mut asking = Asking::connect(from, there, their_word).ok()?;
        let bytes = 2 * BLOCK_BYTES;
        let spent = &mut self.spent;
        let fastest = asking.fastest(|| {
            let may = !limits.are_reached(*spent, bytes);
            *spent += if may { bytes as u64 } else { 0 };
            may
        })?;
        Some((bytes as u128 * 1_000_000_000 / fastest.as_nanos().max(1)) as u64)
    }

    fn open_echo(&self) -> io::Result<Echo> {
        let peer = (self.socket.peer_addr()?.ip(), self.word);
        Echo::open(self.any_port()?, self.interface.as_deref(), peer)
    }

    /// Any of its address.
    fn any_port(&self) -> io::Result<SocketAddr> {
        let mut at = self.socket.local_addr()?;
        at.set_port(0);
        Ok(at)
    }

    /// All datagrams like this one.
    fn write_burst(&mut self, like: Packet) {
        let (their_word, bytes) = (self.their_word.unwrap_or(0), usize::from(like.bytes));
        self.burst.resize(usize::from(like.count) * bytes, 0);
        self.burst_bytes = like.bytes;
        for (index, datagram) in (0..like.count).zip(self.burst.chunks_mut(bytes)) {
            Packet { index, ..like }.write(their_word, datagram);
        }
    }

    /// Sends the burst as flows send a long run. False: not all of it went so.
    fn send_burst(&mut self, way: Way) -> bool {
        let datagram_bytes = self.burst_bytes;
        let Self { socket, wire, .. } = self;
        match (way, wire) {
            (Way::Udp, _) => {
                let pieces = [IoSlice::new(&self.burst)];
                udp_send::send_segmented(socket, &pieces, datagram_bytes).is_ok()
            }
            (Way::Wire, Some(wire)) => {
                let now_ns = monotonic_ns();
                let mut datagrams = self.burst.chunks(datagram_bytes.into());
                let went = datagrams
                    .all(|datagram| wire.send(now_ns, &[IoSlice::new(datagram)]) == Sent::Taken);
                wire.flush();
                went
            }
            (Way::Wire, None) => false,
        }
    }

    /// Sends a packet by the wire, if there is one that takes it, and else by UDP.
    fn send(&mut self, packet: Packet) -> Way {
        let Some(their_word) = self.their_word else {
            return Way::Udp;
        };
        let mut bytes = [0; PING_BYTES];
        packet.write(their_word, &mut bytes);
        let bytes = &bytes[..packet.bytes.into()];
        if let Some(wire) = &mut self.wire
            && wire.send(monotonic_ns(), &[IoSlice::new(bytes)]) == Sent::Taken
        {
            wire.flush();
            return Way::Wire;
        }
        // What is lost is not waited for without a bound.
        let _ = self.socket.send(bytes);
        Way::Udp
    }

    /// The answer to what was sent last, the whole of it, and how it came.
    fn wait_for(&mut self, kinds: &[Kind], bound: Duration) -> Option<(Packet, Way)> {
        let start = Instant::now();
        loop {
            for (packet, way) in self.look() {
                if packet.kind == Kind::Prepare {
                    self.send(Packet::new(Kind::Busy, packet.number, 0));
                } else if kinds.contains(&packet.kind)
                    && (packet.number == self.number || packet.kind == Kind::Busy)
                    && (packet.kind != Kind::Back || self.coming.take(&packet))
                {
                    return Some((packet, way));
                }
            }
            if start.elapsed() >= bound {
                return None;
            }
            std::thread::yield_now();
        }
    }

    /// What has come.
    fn look(&mut self) -> Vec<(Packet, Way)> {
        let mut packets = Vec::new();
        if let Some(wire) = &mut self.wire {
            while packets.len() < usize::from(BURST_DATAGRAMS_MAX)
                && let Some(length) = wire.receive(monotonic_ns(), &mut self.buffer)
            {
                read_all(self.word, &self.buffer[..length], Way::Wire, &mut packets);
            }
            self.looks = self.looks.wrapping_add(1);
            if !packets.is_empty() || !self.looks.is_multiple_of(LOOKS) {
                return packets;
            }
        }
        if let Ok(length) = self.socket.recv(&mut self.buffer) {
            read_all(self.word, &self.buffer[..length], Way::Udp, &mut packets);
        }
        packets
    }
}

/// As flows have them: less the larger of both IP headers.
fn datagram_bytes(mtu_bytes: u16) -> usize {
    usize::from(mtu_bytes.max(MTU_BYTES_MIN) - HEADERS_BYTES)
}

/// For how long `xdp` was on for another host's sake.
#[derive(Debug)]
struct Lent {
    since: Instant,
    looked: Instant,
    total: Duration,
}

impl Lent {
    fn new(now: Instant) -> Self {
        Self {
            since: now,
            looked: now,
            total: Duration::ZERO,
        }
    }

    /// May it be on, and was it since this was asked last?
    fn may(&mut self, was_on: bool, now: Instant) -> bool {
        if was_on {
            self.total += now.saturating_duration_since(self.looked);
        }
        self.looked = now;
        let share = now.saturating_duration_since(self.since) / LENT_PART;
        self.total <= LENT_MAX + share
    }
}

/// What may still be sent, and until when.
#[derive(Clone, Copy, Debug)]
struct Limits {
    until: Instant,
    bytes: u64,
}

impl Limits {
    fn are_reached(self, spent: u64, more: usize) -> bool {
        spent + more as u64 > self.bytes || Instant::now() >= self.until
    }
}

/// Packets that the kernel may have joined.
fn read_all(word: u64, mut bytes: &[u8], way: Way, packets: &mut Vec<(Packet, Way)>) {
    while let Some(packet) = Packet::read(word, bytes) {
        packets.push((packet, way));
        bytes = &bytes[packet.bytes.into()..];
    }
}

/// `None`: fewer than enough.
fn median(mut values: Vec<u64>, enough: u32) -> Option<u64> {
    values.sort_unstable();
    let is_enough = values.len() >= enough.max(1) as usize;
    is_enough.then(|| values[values.len() / 2])
}

#[cfg(test)]
mod tests {
    use std::net::TcpStream;
    use std::os::fd::AsFd as _;

    use super::*;
    use hythe_testing::eventually;

    fn pair() -> (Prober, Prober) {
        let here: IpAddr = [127, 0, 0, 1].into();
        let open = |word| Prober::open((here, None), 1_500, word).expect("loopback");
        let (mut one, mut other) = (open(1), open(2));
        let at = |prober: &Prober| (here, prober.port().expect("bound")).into();
        let (at_one, at_other) = (at(&one), at(&other));
        one.meet(at_other, 2).expect("connected");
        other.meet(at_one, 1).expect("connected");
        (one, other)
    }

    #[test]
    fn link_is_measured_within_its_limits_and_says_what_is_missing() {
        let (mut one, mut other) = pair();
        let (bell, ring) = std::io::pipe().expect("made");
        let answering =
            std::thread::spawn(move || other.answer(bell.as_fd(), None, Duration::from_secs(600)));
        for round in 1..3 {
            let measured = loop {
                // On a machine that is overloaded the other end may not run for a while.
                match one.measure(Err("nobody serves it".to_owned())) {
                    Ok(measured) if measured.udp.round_trip_ns.is_some() => break measured,
                    Ok(_) | Err(NotMeasured::Silent) => {}
                    Err(error) => panic!("round {round}: {error}"),
                }
            };
            assert_eq!(measured.xdp, Err("nobody serves it".to_owned()));
            assert!((1..=BYTES_MAX).contains(&measured.bytes), "{measured:?}");
        }
        drop(ring);
        answering.join().expect("no panic").expect("sound");
    }

    #[test]
    fn endless_connections_do_not_extend_listening() {
        let (mut one, mut other) = pair();
        let (bell, ring) = std::io::pipe().expect("made");
        let answering =
            std::thread::spawn(move || other.answer(bell.as_fd(), None, Duration::from_secs(600)));
        let start = Instant::now();
        let port = loop {
            assert!(start.elapsed() < Duration::from_secs(60));
            one.send(Packet::new(Kind::Listen, one.number, 0));
            let said = one.wait_for(&[Kind::Listening], LISTENING);
            if let Some((packet, _)) = said {
                break packet.index;
            }
        };
        let there = ([127, 0, 0, 1], port).into();
        // Where its queue is full the kernel would try again after a second only.
        let connect = || TcpStream::connect_timeout(&there, Duration::from_millis(50));
        let is_refused = |error: io::Error| error.kind() == io::ErrorKind::ConnectionRefused;
        eventually("it no longer listens", || connect().is_err_and(is_refused));
        drop(ring);
        answering.join().expect("no panic").expect("sound");
    }

    #[test]
    fn busy_prober_refuses_second_measurement() {
        let (mut one, mut other) = pair();
        other.send(Packet::new(Kind::Prepare, 9, 1));
        assert_eq!(one.wait_for(&[Kind::Pong], Duration::from_millis(50)), None);
        let busy = other.wait_for(&[Kind::Busy], Duration::from_secs(60));
        assert_eq!(busy.map(|(packet, _)| packet.number), Some(9));
    }

    #[test]
    fn host_that_asks_all_the_time_has_a_bounded_part_of_it() {
        let start = Instant::now();
        let (mut lent, mut on) = (Lent::new(start), 0);
        let mut is_on = false;
        for second in 0..2_000 {
            is_on = lent.may(is_on, start + Duration::from_secs(second));
            on += u32::from(is_on);
        }
        assert!((50..=120).contains(&on), "{on} of 2000 s");
    }

    #[test]
    fn prober_gives_up_on_silent_peer() {
        let (mut one, _other) = pair();
        let measured = one.measure(Err(String::new()));
        assert_eq!(measured, Err(NotMeasured::Silent));
        assert_eq!(median(vec![1, 9, 3], 3), Some(3));
        assert_eq!(median(vec![1, 9], 3), None);
    }
}

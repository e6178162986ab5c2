//! The floor of frames: one there, one back, by an `AF_XDP` socket of each process, whose chunks it
//! recycles itself.
//!
//! No acknowledgement, no retransmission, and nobody else on the queue: what any protocol over
//! `AF_XDP` builds on.

use std::io;
use std::net::{IpAddr, SocketAddrV4};
use std::os::fd::AsFd as _;

use hythe_memory::Mapped;
use hythe_xdp::frame::{Ends, HEADERS_BYTES, Stations, headers, parse_headers};
use hythe_xdp::{
    Address, Attachment, CHUNK_BYTES, FlowIndex, Frame, Program, Queue, QueueSocket, Region,
    RingSizes, TaskSocket, interface_index,
};
use rustix::event::{PollFd, PollFlags};

use super::case::{Case, Wait};
use crate::error::BenchError;
use crate::ipc::end::End;
use crate::lookout::{BoundedWait, Lookout, NAP};
use crate::network::Link;
use crate::payload::{fill, is_message};

/// Of both ends: nothing else is on the link.
const PORT: u16 = 7000;
const RECEIVE_CHUNKS: u32 = 64;
const SEND_CHUNKS: u32 = 64;
const RINGS: RingSizes = RingSizes {
    receive: RECEIVE_CHUNKS,
    send: SEND_CHUNKS,
};

/// One end. An empty datagram says that nothing comes any more.
#[derive(Debug)]
pub(super) struct FramesEnd {
    // First: nothing comes any more when the sockets go.
    _program: Program,
    owner: QueueSocket,
    socket: TaskSocket,
    memory: Mapped,
    _region: Region,
    stations: Stations,
    ends: Ends,
    next: u32,
    buffer: Vec<u8>,
    wait: Wait,
    lookout: Lookout,
}

impl FramesEnd {
    /// Takes the first queue of a link's end.
    pub(super) fn open(
        link: &Link,
        (case, size): (Case, usize),
        lookout: Lookout,
    ) -> Result<Self, BenchError> {
        let v4 = |ip| match ip {
            IpAddr::V4(ip) => Ok(SocketAddrV4::new(ip, PORT)),
            IpAddr::V6(ip) => Err(BenchError::WrongUse(format!("{ip} is not of IPv4"))),
        };
        let ends = Ends {
            from: v4(link.own_ip()?)?,
            to: v4(link.other_ip()?)?,
        };
        let unable = |error: io::Error| BenchError::Unable(format!("AF_XDP: {error}"));
        let region = Region::create(RECEIVE_CHUNKS + SEND_CHUNKS)?;
        let interface = interface_index(&link.interface)?;
        let queue = Queue {
            interface,
            number: 0,
        };
        let mut owner = QueueSocket::bind(&region, queue, RECEIVE_CHUNKS).map_err(unable)?;
        for chunk in 0..u64::from(RECEIVE_CHUNKS) {
            owner.fill.push(Address(chunk * CHUNK_BYTES as u64));
        }
        owner.fill.publish();
        owner.kick();
        let socket = owner.share(queue, RINGS).map_err(unable)?;
        let ways = [Attachment::Generic, Attachment::Driver];
        let program = Program::attach(interface, (1, 1), &ways).map_err(unable)?;
        program.add(ends.swapped(), FlowIndex(0), &[socket.as_fd()])?;
        Ok(Self {
            _program: program,
            owner,
            socket: TaskSocket::map(socket, RINGS)?,
            memory: region.map()?,
            _region: region,
            // Nobody looks at them: the program takes the frame first.
            stations: Stations([0; 12]),
            ends,
            next: 0,
            buffer: vec![0; size],
            wait: case.wait,
            lookout,
        })
    }

    fn put(&mut self, bytes: usize) -> Result<(), BenchError> {
        let at = (RECEIVE_CHUNKS + self.next) as usize * CHUNK_BYTES;
        self.next = (self.next + 1) % SEND_CHUNKS;
        let begin = headers(self.stations, self.ends, bytes);
        self.memory.write(at, &begin);
        self.memory.write(at + HEADERS_BYTES, &self.buffer[..bytes]);
        self.socket.send.push(Frame {
            address: at as u64,
            // Fits: a chunk.
            bytes: (HEADERS_BYTES + bytes) as u32,
        });
        self.socket.send.publish();
        self.socket.kick()?;
        while self.owner.completion.pop().is_some() {}
        self.owner.completion.release();
        Ok(())
    }

    /// How long the next message is; `None`: nothing has come, or a frame of another kind.
    fn take(&mut self) -> Option<usize> {
        let frame = self.socket.receive.pop()?;
        let at = frame.address as usize;
        let mut begin = [0; HEADERS_BYTES];
        self.memory.read(at, &mut begin);
        let found = parse_headers(&begin, frame.bytes as usize);
        let payload = found.map(|found| found.payload);
        let payload = payload.filter(|payload| payload.len() <= self.buffer.len());
        if let Some(payload) = &payload {
            let into = &mut self.buffer[..payload.len()];
            self.memory.read(at + payload.start, into);
        }
        self.socket.receive.release();
        self.owner.fill.push(Address(frame.address));
        self.owner.fill.publish();
        self.owner.kick();
        payload.map(|payload| payload.len())
    }
}

impl End for FramesEnd {
    fn send(&mut self, number: u64) -> Result<(), BenchError> {
        fill(&mut self.buffer, number);
        self.put(self.buffer.len())
    }

    fn receive(&mut self, number: u64) -> Result<bool, BenchError> {
        let lookout = self.lookout.clone();
        let mut bounded_wait = BoundedWait::new(&lookout);
        loop {
            match self.take() {
                Some(0) => return Ok(false),
                Some(bytes) => {
                    return match bytes == self.buffer.len() && is_message(&self.buffer, number) {
                        true => Ok(true),
                        false => Err(BenchError::Damaged { number }),
                    };
                }
                None if self.wait == Wait::Poll => bounded_wait.spin()?,
                None => {
                    let mut files = [PollFd::new(&self.socket, PollFlags::IN)];
                    hythe_sys::wait::poll_or_sleep(&mut files, NAP)?;
                    bounded_wait.look_up()?;
                }
            }
        }
    }

    fn finish(&mut self) -> Result<(), BenchError> {
        self.put(0)
    }
}

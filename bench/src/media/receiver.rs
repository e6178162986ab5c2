//! The receiving process: a socket for each destination, and everything that comes is checked.
//!
//! Reads segments that the network left together in one piece (`UDP_GRO`), as a receiver of bulk
//! media does; of a peer packet by packet. Its buffers hold all packets of a case: what is measured
//! is the sender. Nothing is kept from one case to the next.

use std::io::ErrorKind;
use std::net::{IpAddr, SocketAddr, UdpSocket};
use std::os::fd::{AsFd, OwnedFd};
use std::time::{Duration, Instant};

use hythe_sys::socket_option::{SocketOption, set_socket_option};
use rustix::buffer::spare_capacity;
use rustix::event::epoll::{self, CreateFlags, EventData, EventFlags};
use rustix::net::sockopt::set_socket_recv_buffer_size_force;

use super::case::Case;
use super::tally::Checker;
use super::{monotonic_ns, port};
use crate::error::BenchError;
use crate::lookout::NAP;

/// Of each socket. The kernel doubles it; it is a bound, not a reservation.
const BUFFER_BYTES: usize = 1 << 29;
/// More than one read can yield.
const READ_BYTES: usize = 1 << 16;
/// After the sender has ended, nothing is on its way for so long.
const SILENCE: Duration = Duration::from_millis(300);
/// The event of the bench's next order.
const ORDER: u64 = u64::MAX;

/// Open sockets.
#[derive(Debug)]
pub(super) struct Receiver {
    sockets: Vec<UdpSocket>,
    events: OwnedFd,
}

impl Receiver {
    pub(super) fn open(case: &Case, address: IpAddr) -> Result<Self, BenchError> {
        let events = epoll::create(CreateFlags::CLOEXEC)?;
        let mut sockets = Vec::new();
        for destination in 0..case.destinations {
            let socket = UdpSocket::bind(SocketAddr::new(address, port(destination)))?;
            socket.set_nonblocking(true)?;
            set_socket_recv_buffer_size_force(&socket, BUFFER_BYTES)?;
            if !case.system.is_peer() {
                set_socket_option(&socket, SocketOption::UdpGro, 1)?;
            }
            let event = EventData::new_u64(u64::from(destination));
            epoll::add(&events, &socket, event, EventFlags::IN)?;
            sockets.push(socket);
        }
        Ok(Self { sockets, events })
    }

    /// Until there is an order on `orders` and, then, everything has come or nothing comes any
    /// more.
    pub(super) fn run(
        &self,
        checker: &mut Checker<'_>,
        orders: impl AsFd,
    ) -> Result<(), BenchError> {
        let order = EventData::new_u64(ORDER);
        epoll::add(&self.events, &orders, order, EventFlags::IN)?;
        let nap = NAP.try_into().unwrap_or_default();
        let mut events = Vec::with_capacity(self.sockets.len() + 1);
        let mut buffer = vec![0; READ_BYTES];
        let (mut is_sent, mut last) = (false, Instant::now());
        while !is_sent || !checker.is_complete() && last.elapsed() < SILENCE {
            events.clear();
            match epoll::wait(&self.events, spare_capacity(&mut events), Some(&nap)) {
                Ok(_) | Err(rustix::io::Errno::INTR) => {}
                Err(error) => return Err(error.into()),
            }
            for event in &events {
                last = Instant::now();
                if event.data.u64() == ORDER {
                    is_sent = true;
                    epoll::delete(&self.events, &orders)?;
                } else {
                    self.drain(event.data.u64() as usize, checker, &mut buffer)?;
                }
            }
        }
        Ok(())
    }

    fn drain(
        &self,
        destination: usize,
        checker: &mut Checker<'_>,
        buffer: &mut [u8],
    ) -> Result<(), BenchError> {
        let Some(socket) = self.sockets.get(destination) else {
            return Ok(());
        };
        loop {
            match socket.recv(buffer) {
                Ok(bytes) => checker.take(destination, &buffer[..bytes], monotonic_ns),
                Err(error) if error.kind() == ErrorKind::WouldBlock => return Ok(()),
                Err(error) => return Err(error.into()),
            }
        }
    }
}

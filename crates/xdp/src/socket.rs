//! `AF_XDP` sockets: one for each queue of an interface, which registers a region and has the fill
//! and the completion ring, and others of the same queue, each with a receive and a send ring.
//!
//! Making them needs `CAP_NET_RAW`; using one that was passed needs nothing. What holds between
//! calls: the descriptors and mappings that the values own. Never waits, except that a queue which
//! the kernel has not let go of yet is asked for again, for a tenth of a second.

use std::io;
use std::os::fd::{AsFd, BorrowedFd, OwnedFd};
use std::time::Duration;

use rustix::io::Errno;
use rustix::net::xdp::{
    SocketAddrXdp, SocketAddrXdpFlags, SocketAddrXdpWithSharedUmem, XDP_PGOFF_RX_RING,
    XDP_PGOFF_TX_RING, XDP_UMEM_PGOFF_COMPLETION_RING, XDP_UMEM_PGOFF_FILL_RING, XdpMmapOffsets,
    XdpOptionsFlags, XdpUmemReg, XdpUmemRegFlags,
};
use rustix::net::{
    AddressFamily, RecvFlags, SendFlags, SocketFlags, SocketType, bind, netdevice, recv, send,
    socket_with, sockopt,
};

use crate::region::{CHUNK_BYTES, Region};
use crate::ring::{Address, Consumer, Frame, Observer, Producer};

/// Of the socket that only fills and completes; the kernel wants one.
const UNUSED_RING: u32 = 2;
const BUSY_TRIES: u32 = 50;
const BUSY_PAUSE: Duration = Duration::from_millis(2);

/// A queue of an interface.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct Queue {
    /// The interface's index.
    pub interface: u32,
    /// Which of its queues.
    pub number: u32,
}

/// The socket of a queue's owner.
#[derive(Debug)]
pub struct QueueSocket {
    file: OwnedFd,
    /// Chunks for the kernel to receive into.
    pub fill: Producer<Address>,
    /// Chunks that have been sent.
    pub completion: Consumer<Address>,
    is_zero_copy: bool,
    takes_pieces: bool,
}

/// How many entries the rings of a process have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub struct RingSizes {
    /// Of the receive ring, a power of two.
    pub receive: u32,
    /// Of the send ring, a power of two.
    pub send: u32,
}

/// What the kernel counts of a socket.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct Dropped {
    /// Frames that found no chunk in the fill ring.
    pub fill_ring_empty: u64,
    /// Frames that found the receive ring full.
    pub receive_ring_full: u64,
    /// Frames longer than a chunk, or dropped for another reason.
    pub other: u64,
    /// Frames to send that were none of the region.
    pub invalid: u64,
}

/// The index of an interface.
///
/// # Errors
/// No interface has this name.
pub fn interface_index(name: &str) -> io::Result<u32> {
    let flags = SocketFlags::CLOEXEC;
    let socket = socket_with(AddressFamily::INET, SocketType::DGRAM, flags, None)?;
    netdevice::name_to_index(&socket, name).map_err(|error| {
        io::Error::new(
            io::Error::from(error).kind(),
            format!("no interface is called {name}: {error}"),
        )
    })
}

impl QueueSocket {
    /// Registers a region for a queue; the card reads and writes it without a copy where its driver
    /// can, else the kernel copies.
    ///
    /// # Errors
    /// No permission; `EBUSY`: somebody else has the queue; `EINVAL`: there is no such queue.
    pub fn bind(region: &Region, queue: Queue, ring: u32) -> io::Result<Self> {
        let copying = SocketAddrXdpFlags::XDP_COPY;
        let modes = [SocketAddrXdpFlags::XDP_ZEROCOPY, copying];
        Self::bind_first(region, queue, ring, &modes)
    }

    /// As [`bind`](Self::bind), and frames to send may lie in pieces, where this can be had: it
    /// came with Linux 6.6, and not every card that does without a copy does it. Look at
    /// [`takes_pieces`](Self::takes_pieces).
    ///
    /// # Errors
    /// As of [`bind`](Self::bind).
    pub fn bind_for_pieces(region: &Region, queue: Queue, ring: u32) -> io::Result<Self> {
        let (pieces, copying) = (SocketAddrXdpFlags::XDP_USE_SG, SocketAddrXdpFlags::XDP_COPY);
        let zero_copy = SocketAddrXdpFlags::XDP_ZEROCOPY;
        let modes = [zero_copy | pieces, zero_copy, copying | pieces, copying];
        Self::bind_first(region, queue, ring, &modes)
    }

    /// In the first of these modes that the driver knows.
    fn bind_first(
        region: &Region,
        queue: Queue,
        ring: u32,
        modes: &[SocketAddrXdpFlags],
    ) -> io::Result<Self> {
        let mut refused = io::Error::from(io::ErrorKind::InvalidInput);
        for &mode in modes {
            match Self::bind_with(region, queue, ring, mode) {
                // Not by this driver, or not with this MTU, or not by this kernel.
                Err(error) if !is_final(&error) => refused = error,
                done => return done,
            }
        }
        Err(refused)
    }

    fn bind_with(
        region: &Region,
        queue: Queue,
        ring: u32,
        mode: SocketAddrXdpFlags,
    ) -> io::Result<Self> {
        let file = xdp_socket()?;
        sockopt::set_xdp_umem_reg(
            &file,
            XdpUmemReg {
                addr: region.address(),
                len: region.bytes(),
                chunk_size: CHUNK_BYTES as u32,
                headroom: 0,
                flags: XdpUmemRegFlags::empty(),
                tx_metadata_len: 0,
            },
        )?;
        sockopt::set_xdp_umem_fill_ring_size(&file, ring)?;
        sockopt::set_xdp_umem_completion_ring_size(&file, ring)?;
        sockopt::set_xdp_rx_ring_size(&file, UNUSED_RING)?;
        sockopt::set_xdp_tx_ring_size(&file, UNUSED_RING)?;
        let offsets = sockopt::xdp_mmap_offsets(&file)?;
        let fill = Producer::map(&file, XDP_UMEM_PGOFF_FILL_RING, offsets.fr, ring)?;
        let page = XDP_UMEM_PGOFF_COMPLETION_RING;
        let completion = Consumer::map(&file, page, offsets.cr, ring)?;
        let flags = mode | SocketAddrXdpFlags::XDP_USE_NEED_WAKEUP;
        let address = SocketAddrXdp::new(flags, queue.interface, queue.number);
        unless_busy(|| bind(&file, &address))?;
        let options = sockopt::xdp_options(&file).unwrap_or(XdpOptionsFlags::empty());
        Ok(Self {
            file,
            fill,
            completion,
            is_zero_copy: options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY),
            takes_pieces: mode.contains(SocketAddrXdpFlags::XDP_USE_SG),
        })
    }

    /// May frames to send lie in pieces, also those of other sockets of the queue?
    #[must_use]
    pub fn takes_pieces(&self) -> bool {
        self.takes_pieces
    }

    /// Does the card itself read and write the region?
    #[must_use]
    pub fn is_zero_copy(&self) -> bool {
        self.is_zero_copy
    }

    /// Makes another socket of the queue, for a process.
    ///
    /// # Errors
    /// No permission; the interface is gone.
    pub fn share(&self, queue: Queue, rings: RingSizes) -> io::Result<OwnedFd> {
        let file = xdp_socket()?;
        sockopt::set_xdp_rx_ring_size(&file, rings.receive)?;
        sockopt::set_xdp_tx_ring_size(&file, rings.send)?;
        let flags = SocketAddrXdpFlags::XDP_SHARED_UMEM;
        let address = SocketAddrXdpWithSharedUmem {
            addr: SocketAddrXdp::new(flags, queue.interface, queue.number),
            shared_umem_fd: self.file.as_fd(),
        };
        unless_busy(|| bind(&file, &address))?;
        Ok(file)
    }

    /// Has the kernel look at the fill ring, if it waits for that.
    pub fn kick(&self) {
        if self.fill.needs_wakeup() {
            let _ = recv(&self.file, &mut [0_u8; 0], RecvFlags::DONTWAIT);
        }
    }
}

impl AsFd for QueueSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// A socket of a queue with its two rings mapped: of the process that receives and sends.
#[derive(Debug)]
pub struct TaskSocket {
    file: OwnedFd,
    /// Frames that have come.
    pub receive: Consumer<Frame>,
    /// Frames that are to leave.
    pub send: Producer<Frame>,
}

impl TaskSocket {
    /// Takes one over that [`QueueSocket::share`] has made.
    ///
    /// # Errors
    /// It is no socket of this kind.
    pub fn map(file: OwnedFd, rings: RingSizes) -> io::Result<Self> {
        let offsets = offsets(&file)?;
        Ok(Self {
            receive: Consumer::map(&file, XDP_PGOFF_RX_RING, offsets.rx, rings.receive)?,
            send: Producer::map(&file, XDP_PGOFF_TX_RING, offsets.tx, rings.send)?,
            file,
        })
    }

    /// Has the kernel send what was published.
    ///
    /// # Errors
    /// `EAGAIN`, `EBUSY`, `ENOBUFS`: later; others: the interface is down or gone.
    pub fn kick(&self) -> io::Result<()> {
        if self.send.needs_wakeup() {
            send(&self.file, &[], SendFlags::DONTWAIT)?;
        }
        Ok(())
    }

    /// Does the card itself read and write the region?
    #[must_use]
    pub fn is_zero_copy(&self) -> bool {
        let options = sockopt::xdp_options(&self.file);
        options.is_ok_and(|options| options.contains(XdpOptionsFlags::XDP_OPTIONS_ZEROCOPY))
    }

    /// What the kernel did not deliver.
    #[must_use]
    pub fn dropped(&self) -> Dropped {
        let counted = sockopt::xdp_statistics(&self.file).ok();
        counted.map_or(Dropped::default(), |counted| Dropped {
            fill_ring_empty: counted.rx_fill_ring_empty_descs.unwrap_or(0),
            receive_ring_full: counted.rx_ring_full.unwrap_or(0),
            other: counted.rx_dropped,
            invalid: counted.tx_invalid_descs,
        })
    }
}

impl AsFd for TaskSocket {
    fn as_fd(&self) -> BorrowedFd<'_> {
        self.file.as_fd()
    }
}

/// What a process gives back by its receive ring, for who passed the socket.
///
/// # Errors
/// It is no socket of this kind.
pub fn observe(file: impl AsFd, rings: RingSizes) -> io::Result<Observer> {
    let places = offsets(&file)?.rx;
    Observer::map(file, XDP_PGOFF_RX_RING, places, rings.receive)
}

fn offsets(file: impl AsFd) -> io::Result<XdpMmapOffsets> {
    Ok(sockopt::xdp_mmap_offsets(file)?)
}

fn xdp_socket() -> Result<OwnedFd, Errno> {
    socket_with(
        AddressFamily::XDP,
        SocketType::RAW,
        SocketFlags::CLOEXEC,
        None,
    )
}

/// Would copying be refused as well?
fn is_final(error: &io::Error) -> bool {
    let errno = Errno::from_io_error(error);
    matches!(
        errno,
        Some(Errno::BUSY | Errno::PERM | Errno::NODEV | Errno::NOMEM | Errno::AFNOSUPPORT)
    )
}

/// A socket that was closed keeps its queue until its mappings are gone and the kernel has looked.
fn unless_busy(mut act: impl FnMut() -> Result<(), Errno>) -> Result<(), Errno> {
    for _ in 0..BUSY_TRIES {
        match act() {
            Err(Errno::BUSY) => std::thread::sleep(BUSY_PAUSE),
            done => return done,
        }
    }
    act()
}

//! What goes over the links of a host, searched for bytes that must not be there.

use std::os::fd::OwnedFd;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::mpsc::sync_channel;
use std::thread::JoinHandle;
use std::time::Duration;

use rustix::net::sockopt::{Timeout, set_socket_recv_buffer_size_force, set_socket_timeout};
use rustix::net::{AddressFamily, Protocol, RecvFlags, SocketType, recv, socket};

use super::{Namespace, enter};

/// All protocols: `ETH_P_ALL`, in the order of the network.
const ALL: u32 = 0x0003_u16.to_be() as u32;
/// What may wait to be searched: more than a test sends, however late its thread is.
const BUFFER_BYTES: usize = 256 << 20;
/// A wire on which nothing comes for so long is quiet: its thread may end.
const LOOK: Duration = Duration::from_millis(50);

/// A thread that reads all packets of a network namespace.
pub(crate) struct Wire {
    is_over: Arc<AtomicBool>,
    thread: JoinHandle<Seen>,
}

/// What was on the wire.
#[derive(Debug, Default)]
pub(crate) struct Seen {
    pub(crate) bytes: usize,
    pub(crate) markers: usize,
}

impl Wire {
    /// Counts packets with `marker`. It may be cut by the end of a packet: repeat it in what is
    /// sent.
    pub(crate) fn watch(space: &Namespace, marker: &'static [u8]) -> Self {
        let process = space.id();
        let is_over = Arc::new(AtomicBool::new(false));
        let ends = Arc::clone(&is_over);
        let (is_open, opened) = sync_channel(1);
        let thread = std::thread::spawn(move || {
            enter(process);
            let wire = open();
            is_open.send(()).expect("awaited");
            let (mut seen, mut packet) = (Seen::default(), vec![0; 1 << 17]);
            loop {
                let Ok((length, _)) = recv(&wire, &mut *packet, RecvFlags::empty()) else {
                    // All that had come is searched.
                    match ends.load(Ordering::Relaxed) {
                        true => return seen,
                        false => continue,
                    }
                };
                seen.bytes += length;
                let mut windows = packet[..length].windows(marker.len());
                seen.markers += usize::from(windows.any(|one| one == marker));
            }
        });
        opened.recv().expect("it is open");
        Self { is_over, thread }
    }

    pub(crate) fn end(self) -> Seen {
        self.is_over.store(true, Ordering::Relaxed);
        self.thread.join().expect("it read")
    }
}

/// A socket that gets all packets of the network namespace that the calling thread is in.
fn open() -> OwnedFd {
    let all = ALL.try_into().map(Protocol::from_raw).expect("not 0");
    let wire = socket(AddressFamily::PACKET, SocketType::RAW, Some(all)).expect("root may");
    set_socket_timeout(&wire, Timeout::Recv, Some(LOOK)).expect("set");
    set_socket_recv_buffer_size_force(&wire, BUFFER_BYTES).expect("root may");
    wire
}

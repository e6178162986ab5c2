//! A relay between the two ends of a flow's TCP connection, which breaks it.

use std::io::{Read, Write};
use std::net::{Ipv4Addr, Shutdown, TcpListener, TcpStream};
use std::sync::atomic::{AtomicBool, AtomicU32, Ordering};
use std::sync::{Arc, Mutex, PoisonError};

/// Forwards each connection to the receiver's port.
pub(crate) struct TcpRelay {
    port: u16,
    shared: Arc<Shared>,
}

#[derive(Default)]
struct Shared {
    connections: AtomicU32,
    is_closed: AtomicBool,
    /// No connection is forwarded any more.
    is_cut: AtomicBool,
    /// The next byte is to be changed.
    is_to_change: AtomicBool,
    /// All that went from the publisher to the subscriber.
    seen: Mutex<Vec<u8>>,
    ends: Mutex<Vec<TcpStream>>,
}

impl TcpRelay {
    /// Forwards connections to `target`.
    pub(crate) fn to(target: u16) -> Self {
        let listener = TcpListener::bind((Ipv4Addr::LOCALHOST, 0)).expect("bound");
        let port = listener.local_addr().expect("bound").port();
        let shared = Arc::new(Shared::default());
        let own = Arc::clone(&shared);
        // Ends with the connection that `drop` makes.
        std::thread::spawn(move || {
            for near in listener.incoming() {
                if own.is_closed.load(Ordering::SeqCst) {
                    return;
                }
                if own.is_cut.load(Ordering::SeqCst) {
                    continue;
                }
                let (Ok(near), Ok(far)) = (near, TcpStream::connect((Ipv4Addr::LOCALHOST, target)))
                else {
                    continue;
                };
                own.connections.fetch_add(1, Ordering::SeqCst);
                for (from, to, is_forth) in [(&near, &far, true), (&far, &near, false)] {
                    let from = from.try_clone().expect("cloned");
                    let to = to.try_clone().expect("cloned");
                    let shared = Arc::clone(&own);
                    std::thread::spawn(move || {
                        forward(from, to, |piece| {
                            if is_forth {
                                shared.look(piece);
                            }
                        })
                    });
                }
                let mut ends = own.ends.lock().unwrap_or_else(PoisonError::into_inner);
                ends.extend([near, far]);
            }
        });
        Self { port, shared }
    }

    pub(crate) fn port(&self) -> u16 {
        self.port
    }

    /// Connections that were forwarded so far.
    pub(crate) fn connections(&self) -> u32 {
        self.shared.connections.load(Ordering::SeqCst)
    }

    /// Changes the next byte of the publisher.
    pub(crate) fn change(&self) {
        self.shared.is_to_change.store(true, Ordering::SeqCst);
    }

    /// Has that happened?
    pub(crate) fn has_changed(&self) -> bool {
        !self.shared.is_to_change.load(Ordering::SeqCst)
    }

    /// All that went from the publisher to the subscriber so far.
    pub(crate) fn seen(&self) -> Vec<u8> {
        let seen = self.shared.seen.lock();
        seen.unwrap_or_else(PoisonError::into_inner).clone()
    }

    /// As if the link were cut: connections break, and none is made any more.
    pub(crate) fn cut_for_good(&self) {
        self.shared.is_cut.store(true, Ordering::SeqCst);
        self.cut();
    }

    /// Breaks the connections that there are, in the middle of a message as a rule.
    pub(crate) fn cut(&self) {
        let ends = &self.shared.ends;
        let mut ends = ends.lock().unwrap_or_else(PoisonError::into_inner);
        for end in ends.drain(..) {
            let _ = end.shutdown(Shutdown::Both);
        }
    }
}

impl Drop for TcpRelay {
    fn drop(&mut self) {
        self.shared.is_closed.store(true, Ordering::SeqCst);
        let _ = TcpStream::connect((Ipv4Addr::LOCALHOST, self.port));
        self.cut();
    }
}

impl Shared {
    fn look(&self, piece: &mut [u8]) {
        if self.is_to_change.swap(false, Ordering::SeqCst) {
            // The first may be of the part of a header that nothing depends on.
            *piece.last_mut().expect("some") ^= 1;
        }
        let mut seen = self.seen.lock().unwrap_or_else(PoisonError::into_inner);
        seen.extend_from_slice(piece);
    }
}

/// In pieces that are shorter than most frames.
fn forward(mut from: TcpStream, mut to: TcpStream, look: impl Fn(&mut [u8])) {
    let mut piece = [0; 1_000];
    while let Ok(read @ 1..) = from.read(&mut piece) {
        look(&mut piece[..read]);
        if to.write_all(&piece[..read]).is_err() {
            break;
        }
    }
    let _ = to.shutdown(Shutdown::Both);
    let _ = from.shutdown(Shutdown::Both);
}

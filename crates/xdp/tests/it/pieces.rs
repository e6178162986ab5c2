//! A frame leaves from where its pieces lie: headers in a chunk, payload in another file.

use std::net::{SocketAddr, SocketAddrV4, UdpSocket};
use std::os::fd::AsFd;
use std::time::Instant;

use crate::links::{BOUND, FAR, NEAR, Network, udp};
use hythe_memory::{Access, Mapped};
use hythe_xdp::frame::{self, Ends, HEADERS_BYTES, Stations};
use hythe_xdp::{
    Address, CHUNK_BYTES, Frame, OtherFile, Queue, QueueSocket, Region, RingSizes, TaskSocket,
    interface_index, sealed,
};

const CHUNKS: u32 = 8;
const OTHER_BYTES: usize = 4 * CHUNK_BYTES;
const RINGS: RingSizes = RingSizes {
    receive: 8,
    send: 16,
};
/// Of the far end's frames: to the near, from the far.
const STATIONS: Stations = Stations([2, 0, 0, 0, 0, 1, 2, 0, 0, 0, 0, 2]);

fn address(socket: &UdpSocket) -> SocketAddrV4 {
    match socket.local_addr().expect("bound") {
        SocketAddr::V4(address) => address,
        SocketAddr::V6(address) => panic!("{address}"),
    }
}

/// The pieces of a frame: headers at the first chunk, and so many bytes of the other file.
fn pieces(at: usize, bytes: usize) -> Vec<Frame> {
    let mut pieces = vec![Frame {
        address: 0,
        bytes: HEADERS_BYTES as u32,
    }];
    let (mut at, mut left) = (CHUNKS as usize * CHUNK_BYTES + at, bytes);
    while left > 0 {
        // None leaves its chunk.
        let bytes = left.min(CHUNK_BYTES - at % CHUNK_BYTES);
        pieces.push(Frame {
            address: at as u64,
            bytes: bytes as u32,
        });
        (at, left) = (at + bytes, left - bytes);
    }
    pieces
}

#[test]
fn payload_of_other_file_is_sent_and_returned() {
    let Some(network) = Network::new(1) else {
        return;
    };
    let near = udp(NEAR);
    let other = sealed("other", OTHER_BYTES).expect("memory");
    let behind = OtherFile {
        file: other.as_fd(),
        bytes: OTHER_BYTES,
        page_bytes: CHUNK_BYTES,
    };
    let region = Region::create_with(CHUNKS, behind).expect("mapped");
    let (mut owner, mut task, from) = network.at_far(|| {
        let far = udp(FAR);
        let interface = interface_index("far").expect("there");
        let queue = Queue {
            interface,
            number: 0,
        };
        let owner = QueueSocket::bind_for_pieces(&region, queue, 64).expect("bound");
        let shared = owner.share(queue, RINGS).expect("made");
        let task = TaskSocket::map(shared, RINGS).expect("mapped");
        (owner, task, address(&far))
    });
    if !owner.takes_pieces() {
        eprintln!("SKIPPED: this kernel sends no frame that lies in pieces");
        return;
    }
    let (headers, payload) = (region.map().expect("mapped"), {
        Mapped::file(&other, 0, OTHER_BYTES, Access::Write).expect("mapped")
    });
    let ends = Ends {
        from,
        to: address(&near),
    };
    let mut buffer = [0; 4096];
    for (round, (at, bytes)) in [(256, 1), (256, 1400), (4000, 1400), (8191, 2), (100, 0)]
        .into_iter()
        .cycle()
        .take(500)
        .enumerate()
    {
        let written: Vec<u8> = (0..bytes).map(|index| (index * 7 + round) as u8).collect();
        payload.write(at, &written);
        headers.write(0, &frame::headers(STATIONS, ends, bytes));
        let pieces = pieces(at, bytes);
        assert!(task.send.push_pieces(&pieces), "round {round}");
        task.send.publish();
        task.kick().expect("sent");
        let (length, source) = near.recv_from(&mut buffer).expect("comes");
        assert_eq!(source, SocketAddr::V4(from));
        assert!(buffer[..length] == written, "round {round}");
        let (start, mut back) = (Instant::now(), Vec::new());
        while back.len() < pieces.len() {
            back.extend(std::iter::from_fn(|| owner.completion.pop()));
            assert!(start.elapsed() < BOUND, "{back:?} of {pieces:?}");
        }
        owner.completion.release();
        let expected: Vec<Address> = pieces.iter().map(|piece| Address(piece.address)).collect();
        assert_eq!(back, expected);
    }
    assert_eq!(task.dropped().invalid, 0);
}

//! Who has which chunks, and how many there are.

use std::path::PathBuf;

use hythe_xdp::{CHUNK_BYTES, RingSizes};

/// Where services listen, each by the name of its interface.
pub const PATH: &str = "/run/hythe/wire";

/// Where the service of an interface listens.
#[must_use]
pub fn path_of(interface: &str) -> PathBuf {
    PathBuf::from(PATH).join(interface)
}

/// Flows of an interface, each of one process.
pub(crate) const FLOWS_MAX: u32 = 16;
/// Queues of an interface that are served; what comes by others goes the usual way.
pub(crate) const QUEUES_MAX: u32 = 8;
/// Chunks of each queue that the kernel receives into. A flow that is not read holds at most these,
/// and all others then go the usual way: frames that find no chunk are lost, and sent again.
pub(crate) const RECEIVE_CHUNKS: u32 = 1024;
/// Frames of a flow that the kernel can have to send at once.
pub const FRAMES_MAX: u32 = SEND_CHUNKS;
/// Chunks of each flow that it sends from, by the first queue.
pub(crate) const SEND_CHUNKS: u32 = 128;
/// Of the region of the first queue; others have those to receive into only.
pub(crate) const FIRST_REGION_CHUNKS: u32 = RECEIVE_CHUNKS + FLOWS_MAX * SEND_CHUNKS;
/// Where the region that frames are sent from is, if there is one: behind that of the first queue.
pub(crate) const CARD_OFFSET: u64 = FIRST_REGION_CHUNKS as u64 * CHUNK_BYTES as u64;
/// A frame is headers and a payload of at most a chunk, which may lie in two of them.
pub(crate) const PIECES_MAX: usize = 3;
/// Fill and completion rings have space for every chunk, and for each piece of every frame.
pub(crate) const OWN_RING: u32 = 8192;
/// Those of a flow: the receive ring has an entry for each chunk, as its observer needs it, the
/// send ring for each piece of its frames.
pub(crate) const RINGS: RingSizes = RingSizes {
    receive: RECEIVE_CHUNKS,
    send: 4 * SEND_CHUNKS,
};
/// A word for each chunk to send from: 1 from when the kernel is given it until that has sent it.
pub(crate) const CONTROL_BYTES: usize = 4096;
/// A process rings when it has given back or sent so many chunks; if all flows have almost as many,
/// the service looks by itself before long.
pub(crate) const RING_AFTER: u32 = SEND_CHUNKS / 2;

const _: () = assert!(OWN_RING >= RECEIVE_CHUNKS);
const _: () = assert!(OWN_RING >= FLOWS_MAX * SEND_CHUNKS * PIECES_MAX as u32);
const _: () = assert!(RINGS.send >= SEND_CHUNKS * PIECES_MAX as u32);
const _: () = assert!(SEND_CHUNKS as usize * 4 <= CONTROL_BYTES);

/// The first chunk that a flow sends from.
pub(crate) const fn first_send_chunk(flow: u32) -> u32 {
    RECEIVE_CHUNKS + flow * SEND_CHUNKS
}

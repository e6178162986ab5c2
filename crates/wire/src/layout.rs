//! Who has which chunks, and how many there are.

use std::path::PathBuf;

use hythe_xdp::RingSizes;

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
/// Chunks of each flow that it sends from, by the first queue.
pub(crate) const SEND_CHUNKS: u32 = 128;
/// Of the region of the first queue; others have those to receive into only.
pub(crate) const FIRST_REGION_CHUNKS: u32 = RECEIVE_CHUNKS + FLOWS_MAX * SEND_CHUNKS;
/// Fill and completion rings have space for every chunk.
pub(crate) const OWN_RING: u32 = 2048;
/// Those of a flow: the receive ring has an entry for each chunk, as its observer needs it.
pub(crate) const RINGS: RingSizes = RingSizes {
    receive: RECEIVE_CHUNKS,
    send: SEND_CHUNKS,
};
/// A word for each chunk to send from: 1 from when the kernel is given it until that has sent it.
pub(crate) const CONTROL_BYTES: usize = 4096;
/// A process rings when it has given back or sent so many chunks; if all flows have almost as many,
/// the service looks by itself before long.
pub(crate) const RING_AFTER: u32 = SEND_CHUNKS / 2;

const _: () = assert!(OWN_RING >= RECEIVE_CHUNKS && OWN_RING >= FLOWS_MAX * SEND_CHUNKS);
const _: () = assert!(SEND_CHUNKS as usize * 4 <= CONTROL_BYTES);

/// The first chunk that a flow sends from.
pub(crate) const fn first_send_chunk(flow: u32) -> u32 {
    RECEIVE_CHUNKS + flow * SEND_CHUNKS
}

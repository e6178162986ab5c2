//! What can go wrong in this crate.

use std::io;
use std::net::SocketAddr;
use std::path::PathBuf;

use hythe_terminal::escaped;

/// Every error of the media crate.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum MediaError {
    /// The input holds no MP3 frame.
    #[error("no MP3 frame in {bytes} bytes: this is not an MP3 file, or it is damaged throughout")]
    NoFrames {
        /// Length of the input.
        bytes: u64,
    },
    /// The input is MP3 in free format.
    #[error(
        "the MP3 frame at byte {offset} is in free format (no bit rate in its header), which is \
         not supported: encode it again with a bit rate"
    )]
    FreeFormat {
        /// Where in the stream.
        offset: u64,
    },
    /// The input is MPEG audio of another layer.
    #[error("the frame at byte {offset} is MPEG audio of layer I or II; only layer III is decoded")]
    UnsupportedLayer {
        /// Where in the stream.
        offset: u64,
    },
    /// The caller left out bytes of the stream.
    #[error("the window starts at byte {offset} of the stream, but byte {expected} is next")]
    WindowMissed {
        /// Where the window starts.
        offset: u64,
        /// Where it has to start at the latest.
        expected: u64,
    },
    /// The window cannot hold what has to be seen at once.
    #[error("a window of {bytes} bytes is too small to find MP3 frames in: {needed} are needed")]
    WindowTooSmall {
        /// What the caller gave.
        bytes: usize,
        /// What is always enough.
        needed: usize,
    },
    /// An input is not what it seems, or is damaged beyond going on.
    #[error(
        "{input}, byte {position}: {reason}",
        input = escaped(input),
        reason = escaped(reason)
    )]
    Input {
        /// Which file, or `standard input`.
        input: String,
        /// Where in it.
        position: u64,
        /// What is wrong there, and what to do.
        reason: String,
    },
    /// The pool refused: no slot, no memory, no permission.
    #[error(transparent)]
    Pool(#[from] hythe_node::NodeError),
    /// What the protocol says: a format that cannot be sent, a packet that cannot be written.
    #[error(transparent)]
    Rtp(#[from] hythe_rtp::RtpError),
    /// A packet could not be built; the crate's own limits should have prevented it.
    #[error("cannot write the {what}: {reason}", reason = escaped(reason))]
    Packet {
        /// Which packet.
        what: &'static str,
        /// What the packet crate says.
        reason: String,
    },
    /// A server of RTSP refused, or is none.
    #[error("{url}: {reason}", reason = escaped(reason), url = escaped(url))]
    Rtsp {
        /// What was asked for.
        url: String,
        /// Its answer, or what is wrong.
        reason: String,
    },
    /// An address is not one that can be sent to.
    #[error(
        "{address}: {reason}; addresses are rtp://HOST:PORT, with ?ttl=N&interface=NAME for \
         multicast",
        reason = escaped(reason),
        address = escaped(address)
    )]
    Address {
        /// As it was written.
        address: String,
        /// What is wrong with it.
        reason: String,
    },
    /// An address that is another one on each link, and no interface that says which.
    #[error(
        "{address} is on one link only, and no interface is named: with ?interface=NAME behind it \
         one is (`ip link` lists them)"
    )]
    NoInterface {
        /// The address.
        address: SocketAddr,
    },
    /// The destination's port leaves no port for RTCP.
    #[error(
        "{destination} cannot be sent to: RTP takes an even port from 2 to 65534, RTCP the next"
    )]
    Destination {
        /// Where the packets were to go.
        destination: SocketAddr,
    },
    /// A socket could not be set up.
    #[error("cannot {what} for {destination}: {source}")]
    Socket {
        /// What was tried.
        what: &'static str,
        /// Where the packets were to go.
        destination: SocketAddr,
        /// What the kernel says.
        source: io::Error,
    },
    /// A packet could not be sent, for a reason that will not pass.
    #[error("sending to {destination} failed: {source}")]
    Send {
        /// Where the packet was to go.
        destination: SocketAddr,
        /// What the kernel says.
        source: io::Error,
    },
    /// The kernel refused something else.
    #[error("cannot {what}: {source}")]
    System {
        /// What was tried.
        what: &'static str,
        /// What the kernel says.
        source: io::Error,
    },
    /// A file could not be read or written.
    #[error("cannot {what} {}: {source}", escaped(path))]
    File {
        /// What was tried.
        what: &'static str,
        /// Which file.
        path: PathBuf,
        /// What the kernel says.
        source: io::Error,
    },
    /// A session description is not understood.
    #[error("the session description {}: {reason}", escaped(path), reason = escaped(reason))]
    Description {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// A recording is not a WAV file of 16-bit samples.
    #[error(
        "{} is no WAV file of 16-bit samples: {reason}",
        escaped(path),
        reason = escaped(reason)
    )]
    Recording {
        /// Which file.
        path: PathBuf,
        /// What is wrong with it.
        reason: String,
    },
    /// There is no interface of that name.
    #[error(
        "there is no network interface {name}: {source}; `ip link` lists them",
        name = escaped(name)
    )]
    Interface {
        /// As it was given.
        name: String,
        /// What the kernel says.
        source: io::Error,
    },
    /// Another program has the port.
    #[error("UDP port {port} is taken by another program: choose another one")]
    PortTaken {
        /// The port.
        port: u16,
    },
}

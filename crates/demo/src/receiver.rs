//! Third-party software that records the stream: ffmpeg, started, watched and ended so that not a
//! sample is missing.
//!
//! `hythe demo` and the tests call [`FfmpegReceiver::start`], [`wait_ready`], send, and then
//! [`finish`]. What holds in between: one child process, killed when the receiver is dropped, whose
//! standard error goes to a file without a name.
//!
//! The recipe, found by experiment with ffmpeg 5.1:
//!
//! - ffmpeg listens when `/proc/net/udp` lists the ports with a socket that `/proc/PID/fd` names
//!   too. Packets sent before that are lost.
//! - It writes each packet at once (`-flush_packets 1`), so the length of the file says what has
//!   arrived. Closing after a fixed time, or at the sender's word, would cut what still waits in
//!   the socket.
//! - It ends by itself, with a proper header, at an RTCP BYE; but it reads RTCP first, so a BYE
//!   overtakes packets that arrived earlier. So the BYE that counts is sent from here, after all
//!   samples are in the file. SIGINT would not do: ffmpeg heeds it only between two packets.
//! - If the thread that started it dies, the kernel kills ffmpeg. By itself it would wait ten
//!   seconds for a packet.
//!
//! [`wait_ready`]: FfmpegReceiver::wait_ready
//! [`finish`]: FfmpegReceiver::finish

use std::fs::{self, File, OpenOptions};
use std::io::{self, Read, Seek};
use std::net::{IpAddr, Ipv4Addr, Ipv6Addr, SocketAddr, UdpSocket};
use std::os::unix::process::CommandExt;
use std::path::{Path, PathBuf};
use std::process::{Child, Command, ExitStatus, Stdio};
use std::thread;
use std::time::{Duration, Instant};

use hythe::media::ports::rtcp_address;
use hythe::media::wav::{self, Recording};
use hythe::media::{MediaError, sdp};
use hythe::rtp::L16;
use hythe::rtp::format::Encoding;
use hythe::rtp::rtcp::farewell;

use crate::DemoError;
use crate::ports;

/// How often is looked again while waiting.
const LOOK_INTERVAL: Duration = Duration::from_millis(5);
/// Without a new sample for this long, no more are expected.
const STALL_TIMEOUT: Duration = Duration::from_secs(3);
/// How long ffmpeg has to end after the goodbye.
const END_TIMEOUT: Duration = Duration::from_secs(10);
/// The goodbye is repeated, because UDP may lose it.
const FAREWELL_INTERVAL: Duration = Duration::from_millis(100);
/// What is asked for; the kernel gives what `net.core.rmem_max` allows.
const SOCKET_BUFFER_BYTES: &str = "4194304";
/// How much of what ffmpeg printed goes into an error.
const MESSAGE_BYTES: usize = 600;

/// What the receiver recorded.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Received {
    /// The recording, as a third party reads it.
    pub recording: Recording,
    /// Packets that the kernel dropped at the receiver's socket.
    pub dropped: u64,
}

/// A running ffmpeg that records a stream into a WAV file.
#[derive(Debug)]
pub struct FfmpegReceiver {
    child: Child,
    messages: File,
    wav_path: PathBuf,
    format: L16,
    address: SocketAddr,
    dropped: u64,
}

impl FfmpegReceiver {
    /// Starts ffmpeg on the session description in `sdp_path`; it overwrites `wav_path`. The
    /// calling thread must live as long as the recording shall go on.
    ///
    /// # Errors
    ///
    /// [`DemoError::FfmpegMissing`]; [`MediaError::PortTaken`]; [`MediaError::Destination`]; those
    /// of [`sdp::read`], and [`MediaError::Description`] if it describes anything but one stream of
    /// samples; [`MediaError::File`] if the recording cannot be written or ffmpeg not be started.
    pub fn start(sdp_path: &Path, wav_path: &Path) -> Result<Self, DemoError> {
        let (format, address) = described(sdp_path)?;
        for port in [address.port(), rtcp_address(address)?.port()] {
            if !ports::sockets_on(port).is_empty() {
                return Err(MediaError::PortTaken { port }.into());
            }
        }
        let messages = nameless_file(wav_path)?;
        let for_child = messages
            .try_clone()
            .map_err(file_error("start ffmpeg for", wav_path))?;
        remove_old(wav_path)?;
        let mut command = Command::new("ffmpeg");
        // A process group of its own: a terminal's Ctrl-C is for this program, which then ends
        // ffmpeg.
        command.process_group(0);
        hythe_sys::spawn::die_with_parent(&mut command);
        let child = command
            .args([
                "-hide_banner",
                "-nostdin",
                "-nostats",
                "-loglevel",
                "warning",
                "-y",
            ])
            .args([
                "-protocol_whitelist",
                "file,udp,rtp",
                "-buffer_size",
                SOCKET_BUFFER_BYTES,
            ])
            .arg("-i")
            .arg(sdp_path)
            .args([
                "-c:a",
                "pcm_s16le",
                "-fflags",
                "+bitexact",
                "-flush_packets",
                "1",
            ])
            .args(["-f", "wav"])
            .arg(wav_path)
            .stdin(Stdio::null())
            .stdout(Stdio::null())
            .stderr(for_child)
            .spawn()
            .map_err(|error| match error.kind() {
                io::ErrorKind::NotFound => DemoError::FfmpegMissing,
                _ => file_error("start ffmpeg for", wav_path)(error),
            })?;
        let wav_path = wav_path.to_owned();
        Ok(Self {
            child,
            messages,
            wav_path,
            format,
            address,
            dropped: 0,
        })
    }

    /// The process, for those who account for processes.
    #[must_use]
    pub fn pid(&self) -> u32 {
        self.child.id()
    }

    /// Waits until ffmpeg listens for RTP and RTCP: nothing sent from now on is lost.
    ///
    /// # Errors
    ///
    /// [`DemoError::ReceiverEnded`] or [`MediaError::PortTaken`] if it gave up,
    /// [`DemoError::ReceiverNotReady`] after `timeout`.
    pub fn wait_ready(&mut self, timeout: Duration) -> Result<(), DemoError> {
        let (start, port) = (Instant::now(), self.address.port());
        loop {
            if let Some(status) = self.exit_status()? {
                let message = self.message();
                return Err(if message.contains("Address already in use") {
                    MediaError::PortTaken { port }.into()
                } else {
                    DemoError::ReceiverEnded {
                        port,
                        status: status.to_string(),
                        message,
                    }
                });
            }
            if self.socket(port).is_some() && self.socket(port + 1).is_some() {
                return Ok(());
            }
            if start.elapsed() > timeout {
                return Err(DemoError::ReceiverNotReady {
                    port,
                    waited: timeout,
                });
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Waits until `samples` of each channel are in the file, ffmpeg has ended, or nothing has
    /// arrived for `stall`; returns how many are there. A sender can say its own BYE after that.
    pub fn wait_received(&mut self, samples: u64, stall: Duration) -> u64 {
        let mut last = (0, Instant::now());
        loop {
            let recorded = self.recorded_samples();
            if recorded != last.0 {
                last = (recorded, Instant::now());
            }
            self.note_drops();
            let has_ended = !matches!(self.exit_status(), Ok(None));
            if recorded >= samples || has_ended || last.1.elapsed() > stall {
                return recorded;
            }
            thread::sleep(LOOK_INTERVAL);
        }
    }

    /// Waits for `samples` of each channel (or for as many as come, while they come), ends ffmpeg
    /// and reads the recording. Whether all arrived is for the caller to see.
    ///
    /// # Errors
    ///
    /// [`DemoError::ReceiverStuck`] if ffmpeg had to be killed; those of [`wav::read`].
    pub fn finish(mut self, samples: u64) -> Result<Received, DemoError> {
        self.wait_received(samples, STALL_TIMEOUT);
        self.end()?;
        let recording = wav::read(&self.wav_path)?;
        Ok(Received {
            recording,
            dropped: self.dropped,
        })
    }

    /// Says goodbye until ffmpeg has ended.
    fn end(&mut self) -> Result<(), DemoError> {
        let start = Instant::now();
        let goodbye = farewell(0)?;
        let mut next = start;
        while self.exit_status()?.is_none() {
            if start.elapsed() > END_TIMEOUT {
                let message = self.message();
                return Err(DemoError::ReceiverStuck {
                    waited: END_TIMEOUT,
                    message,
                });
            }
            if Instant::now() >= next {
                next += FAREWELL_INTERVAL;
                self.say(&goodbye)?;
            }
            thread::sleep(LOOK_INTERVAL);
        }
        Ok(())
    }

    /// Sends a packet to ffmpeg's RTCP port on this host.
    fn say(&self, packet: &[u8]) -> Result<(), DemoError> {
        let host: IpAddr = match self.address.ip() {
            address if address.is_loopback() => address,
            IpAddr::V4(_) => Ipv4Addr::LOCALHOST.into(),
            IpAddr::V6(_) => Ipv6Addr::LOCALHOST.into(),
        };
        let any = if host.is_ipv4() {
            "0.0.0.0:0"
        } else {
            "[::]:0"
        };
        let destination = SocketAddr::new(host, self.address.port() + 1);
        UdpSocket::bind(any)
            .and_then(|socket| socket.send_to(packet, destination))
            .map(drop)
            .map_err(|source| {
                MediaError::Send {
                    destination,
                    source,
                }
                .into()
            })
    }

    fn exit_status(&mut self) -> Result<Option<ExitStatus>, DemoError> {
        self.child
            .try_wait()
            .map_err(file_error("wait for ffmpeg writing", &self.wav_path))
    }

    /// ffmpeg's socket on `port`.
    fn socket(&self, port: u16) -> Option<ports::Socket> {
        let sockets = ports::sockets_on(port);
        if sockets.is_empty() {
            return None;
        }
        let own = ports::inodes_of(self.child.id());
        sockets
            .into_iter()
            .find(|socket| own.contains(&socket.inode))
    }

    fn note_drops(&mut self) {
        if let Some(socket) = self.socket(self.address.port()) {
            self.dropped = socket.drops;
        }
    }

    /// Samples of each channel in the file so far, by its length.
    fn recorded_samples(&self) -> u64 {
        let length = fs::metadata(&self.wav_path).map_or(0, |metadata| metadata.len());
        let mut start = [0; 128];
        let read = File::open(&self.wav_path).and_then(|mut file| file.read(&mut start));
        let header = &start[..read.unwrap_or(0)];
        // The samples follow the word "data" and a length that is only filled in at the end.
        let data = header.windows(4).position(|word| word == b"data");
        data.map_or(0, |at| {
            length.saturating_sub(at as u64 + 8) / self.format.frame_bytes() as u64
        })
    }

    /// The end of what ffmpeg printed, on one line.
    fn message(&mut self) -> String {
        let mut bytes = Vec::new();
        let read = self
            .messages
            .rewind()
            .and_then(|()| self.messages.read_to_end(&mut bytes));
        if let Err(error) = read {
            return format!("its messages cannot be read: {error}");
        }
        let end = &bytes[bytes.len().saturating_sub(MESSAGE_BYTES)..];
        let text = String::from_utf8_lossy(end);
        text.lines()
            .map(str::trim)
            .filter(|line| !line.is_empty())
            .collect::<Vec<_>>()
            .join("; ")
    }
}

impl Drop for FfmpegReceiver {
    fn drop(&mut self) {
        // Both fail only if the process has ended and was waited for already.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

/// The one stream that the description in `path` names: samples, and where they are sent.
fn described(path: &Path) -> Result<(L16, SocketAddr), DemoError> {
    match &sdp::read(path)?[..] {
        [stream] if stream.format.encoding == Encoding::L16 => {
            let format = L16::new(stream.format.clock_hz, stream.format.channels)?;
            Ok((format, stream.destination))
        }
        _ => Err(MediaError::Description {
            path: path.to_owned(),
            reason: "it does not describe one stream of L16".to_owned(),
        }
        .into()),
    }
}

/// Removes an old recording, which would be taken for the new one while ffmpeg starts.
fn remove_old(wav_path: &Path) -> Result<(), DemoError> {
    match fs::symlink_metadata(wav_path) {
        Ok(metadata) if metadata.is_file() => {
            fs::remove_file(wav_path).map_err(file_error("replace the recording", wav_path))
        }
        Ok(_) => {
            let error = io::Error::new(io::ErrorKind::AlreadyExists, "it is not a regular file");
            Err(file_error("replace the recording", wav_path)(error))
        }
        Err(_) => Ok(()), // not there, or ffmpeg will say what is wrong
    }
}

/// A file beside the recording that has no name any more.
fn nameless_file(wav_path: &Path) -> Result<File, DemoError> {
    let path = wav_path.with_extension(format!("{}.log", std::process::id()));
    let file = OpenOptions::new()
        .read(true)
        .write(true)
        .create_new(true)
        .open(&path);
    let file = file.map_err(file_error("write beside", wav_path))?;
    fs::remove_file(&path).map_err(file_error("remove", &path))?;
    Ok(file)
}

fn file_error(what: &'static str, path: &Path) -> impl FnOnce(io::Error) -> DemoError {
    let path = path.to_owned();
    move |source| MediaError::File { what, path, source }.into()
}

//! The demo as a whole: sets up, starts the stages, waits, checks.

use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hythe::Pool;
use hythe::core::{Board, Core, CoreOptions, CoreState};
use hythe::inspect::{PortInfo, PortKind};
use hythe::media::MediaError;
use hythe::media::sdp::{self, StreamDescription};
use hythe::rtp::L16;

use crate::channels::{CHANNEL_PCM, NEIGHBOUR_TIMEOUT};
use crate::children::{StageProcess, wait_for_all};
use crate::counter::{PacketCounter, count_from_recording};
use crate::error::DemoError;
use crate::play::READY;
use crate::program::{Host, Pools, Program};
use crate::receiver::FfmpegReceiver;
use crate::reference;
use crate::scan::{Scan, scan};
use crate::task::{PlayTask, Stage, StorageTask};
use crate::verdict::{StageReports, Verdict, hops};

/// The board that is used where it can be.
const PREFERRED_BOARD: &str = "mps2-an386";
/// The board that runs everywhere.
const FALLBACK_BOARD: &str = "hosted";
/// How long ffmpeg may take to listen.
const RECEIVER_BOUND: Duration = Duration::from_secs(20);
/// What the stages may take beyond the length of the recording.
const MARGIN: Duration = Duration::from_secs(60);
/// Ports tried before giving up.
const PORT_ATTEMPTS: usize = 50;

/// What to play, where to decode, where to send.
#[derive(Clone, Debug, Default)]
pub struct DemoOptions {
    /// The MP3 file; none: the recording beside the boards.
    pub file: Option<PathBuf>,
    /// The board whose core decodes; none: mps2-an386 where it can be used, else hosted.
    pub board: Option<String>,
    /// The UDP port to send to, even; none: one that is free.
    pub port: Option<u16>,
}

/// A demo that can be run: there is a file that can be played, and a board.
#[derive(Debug)]
pub struct Demo {
    file: PathBuf,
    scan: Scan,
    board: Board,
    format: L16,
    port: Option<u16>,
}

impl Demo {
    /// Looks at the file and chooses the board. Starts nothing.
    ///
    /// # Errors
    ///
    /// [`DemoError::NoRecording`] without a file; [`DemoError::File`], [`DemoError::NotMp3`] and
    /// [`DemoError::Media`] for one that cannot be played; [`DemoError::Core`] for an unknown
    /// board.
    pub fn prepare(options: &DemoOptions) -> Result<Self, DemoError> {
        let file = input(options.file.as_deref())?;
        let scan = scan(&file)?;
        Ok(Self {
            board: choose_board(options.board.as_deref())?,
            format: L16::new(scan.hz, scan.channels)?,
            port: options.port,
            file,
            scan,
        })
    }

    /// Runs the demo in `pools`, with files in `directory`.
    ///
    /// # Errors
    ///
    /// [`DemoError::Interrupted`]; [`DemoError::NotExact`] if it ran and something does not add up;
    /// else what could not be started, or did not go on.
    pub fn run(
        &self,
        pools: Pools<'_>,
        directory: &Path,
        program: &dyn Program,
    ) -> Result<Verdict, DemoError> {
        let expected = reference::decode(&self.file, directory)?;
        go_on(program)?;

        let (receiver, destination) = start_receiver(directory, self.format, self.port)?;
        go_on(program)?;
        // Where a tap is not allowed, packets are counted from the recording.
        let counter = PacketCounter::start(destination).ok();

        let options = CoreOptions::default();
        let is_stop_requested = || program.is_stop_requested();
        let core = at_core(program, || {
            let started = Core::start_unless(pools.core, &self.board, &options, is_stop_requested);
            Ok(started?)
        })?;
        go_on(program)?;
        let reports = self.run_stages(pools, &core, destination, program)?;
        let received = receiver.finish(reports.play.samples)?;
        go_on(program)?;
        core.stop()?;
        let samples = received.recording.samples;
        let per_channel = samples.len() as u64 / u64::from(self.scan.channels);
        let counted = match counter.map(PacketCounter::stop) {
            Some(Ok(counted)) => counted,
            Some(Err(_)) | None => {
                let of_buffers = reports.play.buffer_samples.iter().copied();
                count_from_recording(self.format, of_buffers, per_channel)
            }
        };
        let copies = program.part_hosts().map_err(|source| DemoError::System {
            action: "part the two hosts",
            source,
        })?;
        let verdict = Verdict {
            board: self.board.name().to_owned(),
            emulated: self.board.is_emulated(),
            input: self.file.display().to_string(),
            hz: self.scan.hz,
            channels: self.scan.channels,
            samples: per_channel,
            pcm_sha256: reference::sha256(&samples),
            reference_sha256: reference::sha256(&expected),
            packets_sent: reports.play.packets,
            packets_received: counted.packets,
            packets_received_by: counted.method.to_string(),
            slots_leaked: slots_leaked(pools),
            hops: hops(&reports, pools.are_of_two_hosts().then_some(copies)),
        };
        verdict.check(reports.play.unsent)?;
        Ok(verdict)
    }

    fn run_stages(
        &self,
        pools: Pools<'_>,
        core: &Core,
        destination: SocketAddr,
        program: &dyn Program,
    ) -> Result<StageReports, DemoError> {
        let start = |pool: &Pool, stage| StageProcess::start(program, pool.options().name(), stage);
        let Scan { hz, channels, .. } = self.scan;
        // From the end to the start, so that nothing is sent before somebody takes it.
        let task = PlayTask {
            destination,
            hz,
            channels,
            parts: self.scan.parts,
            across: pools.are_of_two_hosts(),
        };
        let mut play = start(pools.sender, Stage::Play(task))?;
        let said = play.line(NEIGHBOUR_TIMEOUT)?;
        if said != READY {
            return Err(DemoError::Stalled(format!(
                "the sender of {CHANNEL_PCM} said {said:?}"
            )));
        }
        wait_for_subscriber(pools.core, program)?;
        let (mut demux, mut storage) = at_core(program, || {
            let demux = start(pools.core, Stage::Demux)?;
            let task = StorageTask {
                file: self.file.clone(),
                audio_bytes: self.scan.audio_bytes,
                region: core.region().0,
            };
            Ok((demux, start(pools.core, Stage::Storage(task))?))
        })?;
        let length = Duration::from_secs(self.scan.samples / u64::from(hz));
        let begun = Instant::now();
        let mut stages = [&mut storage, &mut demux, &mut play];
        wait_for_all(&mut stages, length + MARGIN, || {
            program.progress(begun.elapsed(), length);
            go_on(program)?;
            let status = core.status();
            match status.state {
                CoreState::Up => Ok(()),
                _ => Err(DemoError::CoreEnded(status.reason.unwrap_or_default())),
            }
        })?;
        Ok(StageReports {
            storage: storage.report()?,
            demux: demux.report()?,
            play: play.report()?,
        })
    }
}

/// Starts ffmpeg, and waits until it listens. A port that we chose may be taken by somebody else
/// before ffmpeg has it: then another one.
fn start_receiver(
    directory: &Path,
    format: L16,
    asked: Option<u16>,
) -> Result<(FfmpegReceiver, SocketAddr), DemoError> {
    let description = directory.join("stream.sdp");
    let recording = directory.join("recorded.wav");
    let mut attempt = 0;
    loop {
        attempt += 1;
        let destination = SocketAddr::from((Ipv4Addr::LOCALHOST, choose_port(asked)?));
        let stream = StreamDescription::new(format.into(), destination);
        let described = sdp::describe(&[stream], std::process::id().into());
        sdp::write(&description, &described)?;
        let started = FfmpegReceiver::start(&description, &recording).and_then(|mut receiver| {
            receiver.wait_ready(RECEIVER_BOUND)?;
            Ok(receiver)
        });
        match started {
            Ok(receiver) => return Ok((receiver, destination)),
            Err(DemoError::Media(MediaError::PortTaken { .. }))
                if asked.is_none() && attempt < PORT_ATTEMPTS => {}
            Err(error) => return Err(error),
        }
    }
}

/// Starts something on the host of the core, and comes back.
fn at_core<T>(
    program: &dyn Program,
    start: impl FnOnce() -> Result<T, DemoError>,
) -> Result<T, DemoError> {
    let go_to = |host| {
        program.go_to(host).map_err(|source| DemoError::System {
            action: "go to another host",
            source,
        })
    };
    go_to(Host::Core)?;
    let started = start();
    go_to(Host::Sender)?;
    started
}

/// Waits until somebody takes what the core decodes: at once on one host.
fn wait_for_subscriber(pool: &Pool, program: &dyn Program) -> Result<(), DemoError> {
    let since = Instant::now();
    while since.elapsed() < NEIGHBOUR_TIMEOUT {
        let seen = pool.snapshot();
        let channel = seen.channels.iter().find(|one| one.name == CHANNEL_PCM);
        let is_taken = |port: &PortInfo| {
            port.kind == PortKind::Subscriber
                && channel.is_some_and(|channel| channel.index == port.channel)
        };
        if seen.ports.iter().any(is_taken) {
            return Ok(());
        }
        go_on(program)?;
        std::thread::sleep(Duration::from_millis(10));
    }
    Err(DemoError::Stalled(format!(
        "channel {CHANNEL_PCM} does not reach the sender's host within {NEIGHBOUR_TIMEOUT:?}"
    )))
}

/// Slots that somebody still holds.
fn slots_leaked(pools: Pools<'_>) -> u32 {
    let leaked = |pool: &Pool| {
        let audit = pool.snapshot().audit;
        audit.slots - audit.free + audit.mismatches.len() as u32
    };
    let at_sender = pools.are_of_two_hosts().then(|| leaked(pools.sender));
    leaked(pools.core) + at_sender.unwrap_or(0)
}

/// An error as soon as somebody asked to stop.
fn go_on(program: &dyn Program) -> Result<(), DemoError> {
    if program.is_stop_requested() {
        Err(DemoError::Interrupted)
    } else {
        Ok(())
    }
}

/// The file named, or the recording beside the boards.
fn input(file: Option<&Path>) -> Result<PathBuf, DemoError> {
    if let Some(file) = file {
        return Ok(file.to_owned());
    }
    let found = reference::built("../demo/spoken.mp3");
    let found = found.map_err(|path| DemoError::NoRecording { path })?;
    // As a person would name it: without the way over the boards, and from here.
    let whole = found.canonicalize().unwrap_or(found);
    let here = std::env::current_dir().unwrap_or_default();
    Ok(whole
        .strip_prefix(here)
        .map_or_else(|_| whole.clone(), Path::to_owned))
}

fn choose_board(name: Option<&str>) -> Result<Board, DemoError> {
    if let Some(name) = name {
        return Ok(Board::find(name)?);
    }
    match Board::find(PREFERRED_BOARD) {
        Ok(board) if board.missing(board.default_app()).is_empty() => Ok(board),
        _ => Ok(Board::find(FALLBACK_BOARD)?),
    }
}

/// An even port with a free neighbour for RTCP. One that was asked for is not looked at: ffmpeg
/// says if it is taken.
fn choose_port(asked: Option<u16>) -> Result<u16, DemoError> {
    if let Some(port) = asked {
        return Ok(port);
    }
    for _ in 0..PORT_ATTEMPTS {
        let first =
            UdpSocket::bind((Ipv4Addr::LOCALHOST, 0)).and_then(|socket| socket.local_addr());
        let port = first.map(|address| address.port() & !1);
        let port = port.map_err(|source| DemoError::System {
            action: "find a free UDP port",
            source,
        })?;
        let free = |port| UdpSocket::bind((Ipv4Addr::LOCALHOST, port)).is_ok();
        if port > 1024 && free(port) && free(port + 1) {
            return Ok(port);
        }
    }
    Err(DemoError::NoFreePorts {
        attempts: PORT_ATTEMPTS,
    })
}

//! The conductor: sets up, starts the stages, waits, checks.

use std::ffi::OsString;
use std::net::{Ipv4Addr, SocketAddr, UdpSocket};
use std::path::{Path, PathBuf};
use std::time::{Duration, Instant};

use hythe::core::{Board, Core, CoreOptions, CoreState};
use hythe::media::MediaError;
use hythe::media::counter::{PacketCounter, count_from_recording};
use hythe::media::receiver::FfmpegReceiver;
use hythe::media::rtp::L16;
use hythe::media::sdp::{self, StreamDescription};

use super::children::{StageProcess, wait_for_all};
use super::report::{StageReports, hops};
use super::scan::{Scan, scan};
use super::{CHANNEL_PCM, DemoArgs, DemoError, PATIENCE, Verdict, reference};
use crate::output::progress;
use crate::stop::Stop;
use crate::workspace::{Purpose, Workspace};

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

/// Runs the demo. Whatever fails after somebody asked to stop is an interruption: a terminal's Ctrl-C may also reach a child that
/// is just being started, before it has a process group of its own.
pub(crate) fn run(args: &DemoArgs, stop: &Stop) -> Result<Verdict, DemoError> {
    match play_and_compare(args, stop) {
        Err(_) if stop.asked() => Err(DemoError::Interrupted),
        outcome => outcome,
    }
}

fn play_and_compare(args: &DemoArgs, stop: &Stop) -> Result<Verdict, DemoError> {
    let file = input(args.file.as_deref())?;
    let scan = scan(&file)?;
    let board = choose_board(args.board.as_deref())?;
    let format = L16::new(scan.hz, scan.channels)?;
    let workspace = Workspace::make(Purpose::Demo)?;
    let expected = reference::decode(&file, workspace.files())?;
    go_on(stop)?;

    let (receiver, destination) = start_receiver(&workspace, format, args.port)?;
    go_on(stop)?;
    // Where a tap is not allowed, packets are counted from the recording.
    let counter = PacketCounter::start(destination).ok();

    let options = CoreOptions::default();
    let core = Core::start_unless(&workspace.pool, &board, &options, || stop.asked())?;
    go_on(stop)?;
    let reports = run_stages(&workspace, &core, &file, scan, destination, stop)?;
    let received = receiver.finish(reports.play.samples)?;
    go_on(stop)?;
    core.stop()?;
    let samples = received.recording.samples;
    let per_channel = samples.len() as u64 / u64::from(scan.channels);
    let counted = match counter.map(PacketCounter::stop) {
        Some(Ok(counted)) => counted,
        Some(Err(_)) | None => {
            count_from_recording(format, frame_samples(&reports, scan), per_channel)
        }
    };
    let audit = workspace.pool.snapshot().audit;
    let verdict = Verdict {
        board: board.name().to_owned(),
        emulated: board.is_emulated(),
        input: file.display().to_string(),
        hz: scan.hz,
        channels: scan.channels,
        samples: per_channel,
        pcm_sha256: reference::sha256(&samples),
        reference_sha256: reference::sha256(&expected),
        packets_sent: reports.play.packets,
        packets_received: counted.packets,
        packets_received_by: counted.method.to_string(),
        slots_leaked: audit.slots - audit.free + audit.mismatches.len() as u32,
        hops: hops(&reports),
    };
    verdict.check(reports.play.unsent)?;
    Ok(verdict)
}

/// Starts ffmpeg, and waits until it listens. A port that we chose may be taken by somebody else before ffmpeg has it: then
/// another one.
fn start_receiver(
    workspace: &Workspace,
    format: L16,
    asked: Option<u16>,
) -> Result<(FfmpegReceiver, SocketAddr), DemoError> {
    let description = workspace.files().join("stream.sdp");
    let recording = workspace.files().join("recorded.wav");
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
            Err(MediaError::PortTaken { .. }) if asked.is_none() && attempt < PORT_ATTEMPTS => {}
            Err(error) => return Err(error.into()),
        }
    }
}

fn run_stages(
    workspace: &Workspace,
    core: &Core,
    file: &Path,
    scan: Scan,
    destination: SocketAddr,
    stop: &Stop,
) -> Result<StageReports, DemoError> {
    let pool = workspace.options.name();
    let region = core.region().0;
    let option = |name: &str, value: &dyn ToString| {
        OsString::from(format!("--{name}={}", value.to_string()))
    };
    // Byte for byte: a name may begin with a dash, or not be UTF-8.
    let mut file_option = OsString::from("--file=");
    file_option.push(file);
    let play = [
        option("destination", &destination),
        option("hz", &scan.hz),
        option("channels", &scan.channels),
        option("parts", &scan.parts),
    ];
    let storage = [
        file_option,
        option("audio-bytes", &scan.audio_bytes),
        option("region", &region),
    ];
    // From the end to the start, so that nothing is sent before somebody takes it.
    let mut play = StageProcess::start("play", pool, &play)?;
    let said = play.line(PATIENCE)?;
    if said != "ready" {
        return Err(DemoError::Stalled(format!(
            "the sender of {CHANNEL_PCM} said {said:?}"
        )));
    }
    let mut demux = StageProcess::start("demux", pool, &[])?;
    let mut storage = StageProcess::start("storage", pool, &storage)?;
    let length = Duration::from_secs(scan.samples / u64::from(scan.hz));
    let (start, bar) = (Instant::now(), progress(Some(length.as_secs())));
    let mut stages = [&mut storage, &mut demux, &mut play];
    wait_for_all(&mut stages, length + MARGIN, || {
        bar.set_position(start.elapsed().as_secs());
        go_on(stop)?;
        let status = core.status();
        match status.state {
            CoreState::Up => Ok(()),
            _ => Err(DemoError::CoreEnded(status.reason.unwrap_or_default())),
        }
    })?;
    bar.finish_and_clear();
    Ok(StageReports {
        storage: storage.report()?,
        demux: demux.report()?,
        play: play.report()?,
    })
}

/// An error as soon as somebody asked to stop.
fn go_on(stop: &Stop) -> Result<(), DemoError> {
    if stop.asked() {
        Err(DemoError::Interrupted)
    } else {
        Ok(())
    }
}

/// Samples of each channel in one decoded frame.
fn frame_samples(reports: &StageReports, scan: Scan) -> u64 {
    let frames = reports.play.send_ns.len().max(1) as u64;
    scan.samples.div_ceil(frames)
}

/// The file named, or the recording that `make setup` encoded beside the boards.
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

/// An even port with a free neighbour for RTCP. One that was asked for is not looked at: ffmpeg says if it is taken.
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
    Err(DemoError::Stalled(format!(
        "no free pair of UDP ports in {PORT_ATTEMPTS} tries; name one with --port"
    )))
}

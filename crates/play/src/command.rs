//! `hythe play`: its arguments, its progress and its result.

use std::cell::OnceCell;
use std::fmt::Write as _;
use std::path::PathBuf;
use std::time::Duration;

use crate::{
    Caller, Method, Percentiles, PlayError, PlayOptions, Played, Player, RtpOptions, RtpStream,
    Written,
};
use hythe::media::MediaError;
use hythe::media::address::StreamAddress;
use hythe_command::args::Globals;
use hythe_command::error::CliError;
use hythe_command::output;
use hythe_command::remedy;
use hythe_command::stop::Stop;
use hythe_command::workspace::{Purpose, Workspace};

use hythe_screen::ScreenError;

/// What `hythe play` takes.
#[derive(clap::Args, Clone, Debug)]
pub struct PlayArgs {
    /// MP4 file with H.264 (Baseline) and MP3
    #[arg(value_name = "FILE")]
    file: PathBuf,
    /// Board whose core decodes; default: mps2-an386 where QEMU is installed, else hosted.
    #[arg(long, value_name = "NAME")]
    board: Option<String>,
    /// Write the pictures to this Y4M file as they are shown.
    #[arg(long, value_name = "FILE.y4m")]
    video_out: Option<PathBuf>,
    /// Write the sound to this WAV file as it is heard.
    #[arg(long, value_name = "FILE.wav")]
    audio_out: Option<PathBuf>,
    /// Show the movie in a window also where it is written to files, or no display is named.
    #[arg(long, conflicts_with = "no_window")]
    window: bool,
    /// Show no window and play no sound; default: where no display is named, or with --video-out.
    #[arg(long)]
    no_window: bool,
    /// Send the movie as RTP, too: sound as L16 to this address, picture as H.264 to the port two
    /// behind; rtp://HOST:PORT?ttl=N&interface=NAME for a group
    #[arg(long, value_name = "HOST:PORT", value_parser = parse_address)]
    rtp: Option<StreamAddress>,
    /// Write a session description (SDP) of both streams to FILE, which players can open
    #[arg(long, value_name = "FILE", requires = "rtp")]
    sdp: Option<PathBuf>,
    /// Who decodes, and how bytes cross to it: a core, in place; to compare with, a core, copied in
    /// fragments as over RPMsg; or Linux, in processes of their own (without --board).
    #[arg(long, value_enum, default_value_t = MethodArg::Hythe)]
    method: MethodArg,
    /// How long sound or picture is waited for before the other goes on without it, in
    /// milliseconds.
    #[arg(long, value_name = "MS", default_value_t = 1000)]
    stall: u32,
}

/// `--method`.
#[derive(Clone, Copy, Debug, clap::ValueEnum)]
enum MethodArg {
    Hythe,
    Copy,
    Linux,
}

/// With the scheme or without.
fn parse_address(text: &str) -> Result<StreamAddress, MediaError> {
    match text.contains("://") {
        true => text.parse(),
        false => format!("rtp://{text}").parse(),
    }
}

/// Whatever fails after somebody asked to stop is an interruption: a terminal's Ctrl-C may also
/// reach the core that is just being started.
pub fn run(args: PlayArgs, globals: &Globals) -> Result<(), CliError> {
    let stop = Stop::on_signals()?;
    let played = match play(args, &stop) {
        Err(_) if stop.asked() => return Err(PlayError::Interrupted.into()),
        outcome => outcome?,
    };
    output::print(globals.json, &played, render)
}

fn play(args: PlayArgs, stop: &Stop) -> Result<Played, CliError> {
    let has_display = args.video_out.is_none() && hythe_screen::display().is_some();
    let player = Player::prepare(PlayOptions {
        window: args.window || has_display && !args.no_window,
        file: args.file,
        board: args.board,
        video_out: args.video_out,
        audio_out: args.audio_out,
        rtp: args.rtp.map(|to| RtpOptions { to, sdp: args.sdp }),
        method: match args.method {
            MethodArg::Hythe => Method::Hythe,
            MethodArg::Copy => Method::Copy,
            MethodArg::Linux => Method::Linux,
        },
        stall: Duration::from_millis(args.stall.into()),
    })?;
    let workspace = Workspace::make(Purpose::Play)?;
    let bar = OnceCell::new();
    let outcome = player.run(
        &workspace.pool,
        &Caller {
            is_stop_requested: &|| stop.asked(),
            progress: &|at, length| {
                bar.get_or_init(|| output::progress(Some(length.as_secs())))
                    .set_position(at.as_secs());
            },
        },
    );
    if let Some(bar) = bar.get() {
        bar.finish_and_clear();
    }
    Ok(outcome?)
}

/// The result for people.
fn render(played: &Played) -> String {
    let rows: Vec<Vec<String>> = played
        .hops
        .iter()
        .map(|hop| {
            vec![
                hop.name.to_owned(),
                hop.buffers.to_string(),
                hop.bytes.to_string(),
                hop.cpu_copies.to_string(),
                hop.wakes.to_string(),
            ]
        })
        .collect();
    let headings = [">HOP", ">BUFFERS", ">BYTES", ">CPU COPIES", ">WAKES"];
    let mut text = output::table(&headings, &rows);
    let emulated = if played.emulated {
        " (emulated: its times say nothing about hardware)"
    } else {
        ""
    };
    let decoder = match &played.board {
        Some(board) => format!("board {board}"),
        None => "Linux".to_owned(),
    };
    // Writing to a string does not fail.
    let _ = writeln!(text, "\n{}: decoded by {decoder}{emulated}", played.input);
    if played.width > 0 {
        let _ = writeln!(
            text,
            "picture: {}x{}, {} shown, {} dropped; {}; {}; {}",
            played.width,
            played.height,
            played.frames_shown,
            played.frames_dropped,
            percentiles("behind the sound", played.sync_error_ns),
            percentiles("decoding", played.decode_ns),
            percentiles("from file to shown", played.file_to_shown_ns),
        );
    }
    if let Some(written) = played.video_out {
        write_file(&mut text, written);
    }
    if let Some(at_ns) = played.closed_at_ns {
        let at = at_ns as f64 / 1e9;
        let _ = writeln!(text, "the window was closed at {at:.1} s");
    }
    if let Some(sound) = &played.sound {
        let _ = writeln!(
            text,
            "sound: {} Hz, {} channels, {} blocks, {} late, {} silent, {} stalls",
            sound.hz, sound.channels, sound.blocks, sound.late, sound.silent, sound.stalls
        );
    }
    played
        .rtp
        .iter()
        .for_each(|stream| write_stream(&mut text, stream));
    let cpu_ms = played.linux_cpu_ns as f64 / 1e6;
    let decoding = match played.decoder_cpu_ns {
        0 => String::new(),
        ns => format!(" and {:.1} ms for decoding", ns as f64 / 1e6),
    };
    let _ = writeln!(
        text,
        "CPU of Linux: {cpu_ms:.1} ms{decoding}; slots leaked: {}",
        played.slots_leaked
    );
    text
}

/// Says how a file differs from what was shown, if it does.
fn write_file(text: &mut String, written: Written) {
    if written.repeated + written.left_out == 0 {
        return;
    }
    let (frames, seconds) = written.rate;
    let rate = f64::from(frames) / f64::from(seconds);
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "picture file: {rate:.2} frames a second, {} frames, {} of them repeated; \
         {} pictures left out",
        written.frames, written.repeated, written.left_out
    );
}

fn write_stream(text: &mut String, stream: &RtpStream) {
    // Writing to a string does not fail.
    let _ = writeln!(
        text,
        "{} to {}: {} packets, {} lost, {} times refused, {} blocks dropped, clock moved {} times \
         ({})",
        stream.payload,
        stream.destination,
        stream.packets,
        stream.lost,
        stream.refused,
        stream.dropped,
        stream.moves,
        stream.state
    );
}

fn percentiles(what: &str, ns: Percentiles) -> String {
    let ms = |ns: i64| ns as f64 / 1e6;
    format!(
        "{what} {:.1} ms (p99 {:.1}, most {:.1})",
        ms(ns.p50),
        ms(ns.p99),
        ms(ns.max)
    )
}

/// With what to do about it.
impl From<PlayError> for CliError {
    fn from(error: PlayError) -> Self {
        let remedy = remedy_of(&error);
        Self::Failed(format!("{error}{remedy}"))
    }
}

fn remedy_of(error: &PlayError) -> String {
    match error {
        PlayError::Node(error) => remedy::of_node(error),
        PlayError::Media(error) => remedy::of_media(error),
        PlayError::Core(error) => remedy::of_core(error),
        PlayError::NotBuilt { .. } => {
            ": `make setup` (or `cargo xtask boards`) builds it".to_owned()
        }
        PlayError::Screen(ScreenError::NoLibrary { .. } | ScreenError::NoFunction { .. }) => {
            ": apt-get install libsdl2-2.0-0, or --no-window".to_owned()
        }
        PlayError::Screen(ScreenError::NoWindow { .. } | ScreenError::Silent { .. }) => {
            " (--no-window plays without)".to_owned()
        }
        _ => String::new(),
    }
}

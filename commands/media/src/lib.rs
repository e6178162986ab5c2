//! `hythe media`: RTP out of files and channels, and back.
//!
//! `send` and `recv` are thin: sessions of the library do the work, these files turn options into
//! theirs, wait, and print. Never touches a packet.

mod calls;
mod choice;
mod conference;
mod inputs;
mod limits;
mod own_pool;
mod pace;
mod payload;
mod priority;
mod published;
mod received;
mod recv;
mod repair;
mod rtsp_session;
mod send;
mod serve;
mod targets;

use clap::Subcommand;
use hythe_command::args::Globals;
use hythe_command::error::CliError;

use recv::RecvArgs;
use send::SendArgs;
use serve::ServeArgs;

/// What can be done with media.
#[derive(Debug, Subcommand)]
pub enum MediaCommand {
    /// Send media as RTP, to one destination or a thousand
    ///
    /// A file goes through a pool of this command alone, which goes with it, unless --pool or
    /// HYTHE_POOL names another; messages of channel:NAME lie in the pool of that channel.
    #[command(
        after_help = "Examples:\n  hythe media send film.ts --to rtp://192.0.2.7:5004 --sdp film.sdp\n  hythe media send film.mp4 --to 'rtp://239.1.2.3:5004?ttl=4&interface=eth0' --loop 0\n  hythe media send film.ts --to rtp://192.0.2.7:5004 --sdp film.sdp --repair-window 200\n  hythe media send film.ts --to rtp://192.0.2.7:5004 --sdp film.sdp --parity 8x5\n  hythe media send prompt.wav --payload pcmu --to rtp://192.0.2.7:20000 --calls 2000\n  arecord -f S16_LE -r 48000 -t wav | hythe media send - --to rtp://192.0.2.7:5004"
    )]
    Send(SendArgs),
    /// Receive RTP into a file
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  hythe media recv film.sdp --out film.ts\n",
            "  hythe media recv film.sdp --out film.ts --delay 200 --idle 5 --json\n",
            "  hythe media recv camera.sdp --stream audio --out camera.wav\n",
            "  hythe media recv camera.sdp --stream all --out camera\n",
            "  hythe media recv rtp://239.1.2.3:5004 --payload ts --out film.ts",
        )
    )]
    Recv(RecvArgs),
    /// Serve media on request: players open rtsp://…
    #[command(
        after_help = concat!(
            "Examples:\n",
            "  hythe media serve films/\n",
            "  hythe media serve film.ts channel:camera --listen 192.0.2.1\n",
            "  hythe media serve film.ts --repair-window 200\n",
            "  hythe media serve --relay 5004 --participant rtp://192.0.2.7:5004 ",
            "--participant rtp://192.0.2.8:5004",
        )
    )]
    Serve(ServeArgs),
}

/// Runs a command of `hythe media`.
///
/// # Errors
///
/// What cannot be done, with what to do about it.
pub fn run(command: MediaCommand, globals: &Globals) -> Result<(), CliError> {
    match command {
        MediaCommand::Send(args) => send::run(&args, globals),
        MediaCommand::Recv(args) => recv::run(&args, globals),
        MediaCommand::Serve(args) => serve::run(&args, globals),
    }
}

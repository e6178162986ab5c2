//! `hythe-host-peers`: the floor of TLS and Zenoh for `hythe bench host`, which has no cryptography
//! in it.
//!
//! One side answers (`echo`), the other measures (`ping`) and prints base64 of an HdrHistogram V2
//! in nanoseconds. Every message is written by its sender and read by its receiver, as everywhere
//! in that scenario. Used by benchmarks only; never installed, never part of the agent.

mod exchange;
mod tls;
mod zenoh;

use std::net::{IpAddr, SocketAddr};
use std::path::PathBuf;
use std::process::ExitCode;
use std::time::Duration;

use clap::{Parser, Subcommand, ValueEnum};

use crate::exchange::Budget;
use crate::zenoh::Transport;

/// What went wrong, for a person.
type Failure = Box<dyn std::error::Error + Send + Sync>;

#[derive(Debug, Parser)]
struct Arguments {
    system: System,
    #[command(subcommand)]
    side: Side,
    /// Where the answering side puts its certificate.
    #[arg(long, global = true, default_value = ".")]
    folder: PathBuf,
}

#[derive(Clone, Copy, Debug, ValueEnum)]
enum System {
    FloorTls,
    Zenoh,
    ZenohTcp,
}

#[derive(Debug, Subcommand)]
enum Side {
    /// Prints its port, and answers until its standard input ends.
    Echo {
        #[arg(long)]
        listen: IpAddr,
    },
    /// Measures, and prints what it found.
    Ping {
        #[arg(long)]
        connect: SocketAddr,
        #[arg(long)]
        size: usize,
        #[arg(long)]
        count: u64,
        #[arg(long)]
        seconds: f64,
    },
}

fn main() -> ExitCode {
    match run(&Arguments::parse()) {
        Ok(()) => ExitCode::SUCCESS,
        Err(failure) => {
            eprintln!("hythe-host-peers: {failure}");
            ExitCode::FAILURE
        }
    }
}

fn run(arguments: &Arguments) -> Result<(), Failure> {
    let folder = &arguments.folder;
    match arguments.side {
        Side::Echo { listen } => {
            end_with_input();
            match arguments.system {
                System::FloorTls => tls::echo(listen, folder),
                System::Zenoh => zenoh::echo(Transport::Tls, listen, folder),
                System::ZenohTcp => zenoh::echo(Transport::Tcp, listen, folder),
            }
        }
        Side::Ping {
            connect,
            size,
            count,
            seconds,
        } => {
            let budget = Budget {
                count,
                time: Duration::try_from_secs_f64(seconds)?,
            };
            let by_zenoh = |transport| zenoh::ping((transport, connect), size, budget, folder);
            let times = match arguments.system {
                System::FloorTls => tls::ping(connect, size, budget, folder),
                System::Zenoh => by_zenoh(Transport::Tls),
                System::ZenohTcp => by_zenoh(Transport::Tcp),
            }?;
            println!("{}", exchange::encode(&times)?);
            Ok(())
        }
    }
}

/// Whoever started it has gone when its input ends.
fn end_with_input() {
    std::thread::spawn(|| {
        // Whatever is said is of no interest, an error is an end, too.
        let _ = std::io::copy(&mut std::io::stdin().lock(), &mut std::io::sink());
        std::process::exit(0);
    });
}

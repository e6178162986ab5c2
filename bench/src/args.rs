//! The command line.

use clap::{Args, Parser, Subcommand};

use crate::ipc::{Case, Pattern, System, Wait};
use crate::media;
use crate::preload::{self, FileSystem, Way};

/// Measures hops beside their floor and their peers, in one run.
#[derive(Debug, Parser)]
#[command(name = "hythe-bench", version)]
pub(crate) struct Arguments {
    #[command(subcommand)]
    pub(crate) command: Command,
}

/// What to measure.
#[derive(Debug, Subcommand)]
pub(crate) enum Command {
    /// Between two processes of this machine.
    #[command(
        after_help = "Example:\n  hythe-bench ipc --json --sizes 64,65536 > ipc.json\n\nExit codes: 0 done, 1 failed or not valid, 2 wrong use."
    )]
    Ipc(IpcArguments),
    /// One wait for many channels, all idle but one.
    #[command(
        after_help = "Example:\n  hythe-bench waiter --json > waiter.json\n\nExit codes: 0 done, 1 failed, 2 wrong use."
    )]
    Waiter(WaiterArguments),
    /// A file read ahead before a boot, on an emulated board with slow flash.
    #[command(
        after_help = "Example:\n  hythe-bench preload --fs jffs2 --json > preload.json\n\nExit codes: 0 done, 1 failed or not valid, 2 wrong use."
    )]
    Preload(PreloadArguments),
    /// RTP packets sent as fast as they go, by every method; as root.
    #[command(
        after_help = "Example:\n  hythe-bench media --json > media.json\n\nExit codes: 0 done, 1 failed or not valid, 2 wrong use."
    )]
    Media(MediaArguments),
    /// The sender or the receiver of scenario media.
    #[command(hide = true)]
    MediaEnd(MediaEndArguments),
    /// The other process of a run.
    #[command(hide = true)]
    Echo(EchoArguments),
    /// Random joins, kills and traffic, audited; prints one `hythe.result/1` document
    #[command(
        after_help = "Example:\n  hythe-bench soak --minutes 30 > bench/results/soak.json\n\nExit codes: 0 nothing was lost, 1 failed or not valid, 2 wrong use."
    )]
    Soak(SoakArguments),
    /// One process of a soak.
    #[command(hide = true)]
    SoakWorker(WorkerArguments),
}

/// How long, with how many.
#[derive(Debug, Args)]
pub(crate) struct SoakArguments {
    /// How long
    #[arg(long, value_name = "N", default_value_t = 30.0, value_parser = minutes)]
    pub(crate) minutes: f64,
    /// Decides what happens to whom
    #[arg(long, value_name = "N", default_value_t = 1)]
    pub(crate) seed: u64,
    /// Processes at a time, at most
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = processes)]
    pub(crate) processes: usize,
}

/// What a process of a soak is told.
#[derive(Debug, Args)]
pub(crate) struct WorkerArguments {
    /// The pool
    #[arg(long)]
    pub(crate) pool: String,
    /// Decides what it does
    #[arg(long)]
    pub(crate) seed: u64,
}

/// Which cases, how often.
#[derive(Debug, Args)]
pub(crate) struct IpcArguments {
    /// Print one `hythe.result/1` document on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
    /// Every case, but briefly: to see that all is well, not to learn figures
    #[arg(long)]
    pub(crate) quick: bool,
    /// Round trips of each case in each round, unless its share of the time is over first [default: 100000; quick: 200]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: Option<u64>,
    /// Payload sizes in bytes, multiples of 8 [default: 8,64,1024,8192,65536,1048576,4194304; quick: 64,65536]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = size)]
    pub(crate) sizes: Vec<usize>,
    /// Time to spend on the round trips, shared equally by all runs [default: 60; quick: 2]
    #[arg(long, value_name = "S", value_parser = seconds)]
    pub(crate) seconds: Option<f64>,
    /// How often the whole set is repeated; figures are medians over these rounds [default: 5; quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: Option<u32>,
    /// Only cases whose name has one of these in it, such as `hythe/poll` or `join`
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
    /// Only these systems
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) systems: Vec<System>,
    /// Only these ways of waiting
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) waits: Vec<Wait>,
    /// Only these patterns
    #[arg(long, value_delimiter = ',', value_enum)]
    pub(crate) patterns: Vec<Pattern>,
}

/// How much is measured.
#[derive(Clone, Debug, PartialEq)]
pub(crate) struct Scale {
    /// Samples of each case in each round, at most.
    pub(crate) count: u64,
    pub(crate) sizes: Vec<usize>,
    /// For all runs together.
    pub(crate) seconds: f64,
    pub(crate) rounds: u32,
}

impl IpcArguments {
    /// What was said, and for the rest what `--quick` or its absence means.
    pub(crate) fn scale(&self) -> Scale {
        let (count, sizes, seconds, rounds): (_, &[usize], _, _) = if self.quick {
            (200, &[64, 65_536], 2.0, 1)
        } else {
            let sizes = &[8, 64, 1024, 8192, 65_536, 1 << 20, 4 << 20];
            (100_000, sizes, 60.0, 5)
        };
        let sizes = Some(self.sizes.clone())
            .filter(|said| !said.is_empty())
            .unwrap_or_else(|| sizes.to_vec());
        Scale {
            count: self.count.unwrap_or(count),
            sizes,
            seconds: self.seconds.unwrap_or(seconds),
            rounds: self.rounds.unwrap_or(rounds),
        }
    }

    /// Does `--only` let this case through?
    pub(crate) fn wants(&self, case: &str) -> bool {
        self.only.is_empty() || self.only.iter().any(|part| case.contains(part.as_str()))
    }
}

/// How many channels, how often.
#[derive(Debug, Args)]
pub(crate) struct WaiterArguments {
    /// Print one `hythe.result/1` document on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
    /// Messages of each case in each round
    #[arg(long, value_name = "N", default_value_t = 10_000, value_parser = clap::value_parser!(u64).range(1..))]
    pub(crate) count: u64,
    /// How often the whole set is repeated; figures are medians over these rounds
    #[arg(long, value_name = "N", default_value_t = 5, value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) rounds: u32,
    /// Numbers of attached channels
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = channels, default_values_t = [1, 64, 1024])]
    pub(crate) channels: Vec<usize>,
}

/// Which boots, how many.
#[derive(Debug, Args)]
pub(crate) struct PreloadArguments {
    /// Print one `hythe.result/1` document on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
    /// One size, one boot each: to see that all is well, not to learn figures
    #[arg(long)]
    pub(crate) quick: bool,
    /// Where the file lies
    #[arg(long, value_name = "FS", value_delimiter = ',', value_enum, default_values_t = [FileSystem::Ubifs])]
    pub(crate) fs: Vec<FileSystem>,
    /// Boots of each case; figures are medians over them [default: 5; quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) boots: Option<u32>,
    /// Sizes of the file in bytes [default: 1 to 4 MiB in steps of 512 KiB; quick: 1048576]
    #[arg(long, value_name = "BYTES", value_delimiter = ',', value_parser = file_size)]
    pub(crate) sizes: Vec<usize>,
    /// Only these ways
    #[arg(long, value_name = "WAY", value_delimiter = ',', value_enum)]
    pub(crate) ways: Vec<Way>,
}

impl PreloadArguments {
    /// What was said, and for the rest what `--quick` or its absence means.
    pub(crate) fn scale(&self) -> preload::Scale {
        let steps = if self.quick { 2..=2 } else { 2..=8 };
        let mut sizes = self.sizes.clone();
        if sizes.is_empty() {
            sizes = steps.map(|step| step * (512 << 10)).collect();
        }
        sizes.sort_unstable();
        sizes.dedup();
        let mut file_systems = self.fs.clone();
        file_systems.dedup();
        preload::Scale {
            file_systems,
            boots: self.boots.unwrap_or(if self.quick { 1 } else { 5 }),
            sizes,
            ways: Some(self.ways.clone())
                .filter(|said| !said.is_empty())
                .unwrap_or_else(|| Way::ALL.to_vec()),
        }
    }
}

/// Which packets, how often.
#[derive(Debug, Args)]
pub(crate) struct MediaArguments {
    /// Print one `hythe.result/1` document on standard output, and nothing else there
    #[arg(long)]
    pub(crate) json: bool,
    /// 10000 packets, once, few and short calls: to see that all is well, not to learn figures
    #[arg(long)]
    pub(crate) quick: bool,
    /// Numbers of packets [default: 10000,30000,50000; quick: 10000]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u32).range(1..=65_535))]
    pub(crate) packets: Vec<u32>,
    /// Bytes of a packet, the RTP header of 12 included
    #[arg(long, value_name = "BYTES", default_value_t = 1400, value_parser = clap::value_parser!(u16).range(64..=1472))]
    pub(crate) packet_bytes: u16,
    /// To how many one stream is sent, where it is sent to more than one; 1 leaves that out
    #[arg(long, value_name = "N", default_value_t = 16, value_parser = clap::value_parser!(u16).range(1..=64))]
    pub(crate) destinations: u16,
    /// How often the whole set is repeated; figures are medians over these [default: 100; quick: 1]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=1000))]
    pub(crate) repeat: Option<u32>,
    /// Telephone calls at once, repeated at most five times [default: 2000; quick: 50]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u16).range(1..=10_000))]
    pub(crate) calls: Option<u16>,
    /// How long they last [default: 10; quick: 1]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u16).range(1..=60))]
    pub(crate) call_seconds: Option<u16>,
    /// Packets over a way that loses, at 8 Mbit/s, which is 1.4 ms for each, once [default: 20000; quick: 500]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub(crate) lossy_packets: Option<u32>,
    /// Decides which packets that way loses
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) seed: u64,
    /// Numbers of destinations of a stream as it plays, at 5 Mbit/s up to 100, else at 2 Mbit/s [default: 1,100,1000; quick: 1,100]
    #[arg(long, value_name = "N", value_delimiter = ',', value_parser = clap::value_parser!(u16).range(1..=1000))]
    pub(crate) play_destinations: Vec<u16>,
    /// How long it lasts, repeated at most five times [default: 10; quick: 2]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u16).range(1..=60))]
    pub(crate) play_seconds: Option<u16>,
    /// Only cases whose name has one of these in it, such as `hythe/`, `sendto/first_send`, `calls`, `lossy` or `plays`
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}

impl MediaArguments {
    /// What was said, and for the rest what `--quick` or its absence means.
    pub(crate) fn scale(&self) -> media::Scale {
        let (packets, repeat): (&[u32], _) = if self.quick {
            (&[10_000], 1)
        } else {
            (&[10_000, 30_000, 50_000], 100)
        };
        let play_destinations: &[u16] = if self.quick {
            &[1, 100]
        } else {
            &[1, 100, 1000]
        };
        media::Scale {
            packets: Some(self.packets.clone())
                .filter(|said| !said.is_empty())
                .unwrap_or_else(|| packets.to_vec()),
            destinations: self.destinations,
            packet_bytes: self.packet_bytes,
            repeat: self.repeat.unwrap_or(repeat),
            calls: self.calls.unwrap_or(if self.quick { 50 } else { 2000 }),
            call_seconds: self.call_seconds.unwrap_or(if self.quick { 1 } else { 10 }),
            lossy_packets: self
                .lossy_packets
                .unwrap_or(if self.quick { 500 } else { 20_000 }),
            seed: self.seed,
            play_destinations: Some(self.play_destinations.clone())
                .filter(|said| !said.is_empty())
                .unwrap_or_else(|| play_destinations.to_vec()),
            play_seconds: self.play_seconds.unwrap_or(if self.quick { 2 } else { 10 }),
            only: self.only.clone(),
        }
    }
}

/// What an end of scenario media is told.
#[derive(Debug, Args)]
pub(crate) struct MediaEndArguments {
    /// Files with media, as JSON
    #[arg(long)]
    pub(crate) sources: String,
    /// The CPU to run on
    #[arg(long)]
    pub(crate) cpu: Option<usize>,
}

/// What the other process is told.
#[derive(Debug, Args)]
pub(crate) struct EchoArguments {
    /// The case
    #[arg(long)]
    pub(crate) case: Case,
    /// Bytes of payload
    #[arg(long)]
    pub(crate) size: usize,
    /// Messages of a one-way run
    #[arg(long)]
    pub(crate) messages: u64,
    /// Where the two sides meet, in the system's own words: the pool's name, the numbers of segment and semaphores
    #[arg(long)]
    pub(crate) place: String,
    /// The CPU to run on
    #[arg(long)]
    pub(crate) cpu: Option<usize>,
}

fn size(text: &str) -> Result<usize, String> {
    let bytes: usize = text.parse().map_err(|error| format!("{error}"))?;
    if bytes == 0 || !bytes.is_multiple_of(8) || bytes > 4 << 20 {
        return Err("a size is a multiple of 8 from 8 to 4194304".to_owned());
    }
    Ok(bytes)
}

fn file_size(text: &str) -> Result<usize, String> {
    let bytes: usize = text.parse().map_err(|error| format!("{error}"))?;
    if !(4096..=4 << 20).contains(&bytes) {
        return Err("a file has 4096 to 4194304 bytes: the board's flash holds no more".to_owned());
    }
    Ok(bytes)
}

fn channels(text: &str) -> Result<usize, String> {
    let count: usize = text.parse().map_err(|error| format!("{error}"))?;
    if !(1..=2000).contains(&count) {
        return Err("a number of channels is 1 to 2000".to_owned());
    }
    Ok(count)
}

fn seconds(text: &str) -> Result<f64, String> {
    let seconds: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if !(0.001..=86_400.0).contains(&seconds) {
        return Err("a time is 0.001 to 86400 seconds".to_owned());
    }
    Ok(seconds)
}

fn minutes(text: &str) -> Result<f64, String> {
    let minutes: f64 = text.parse().map_err(|error| format!("{error}"))?;
    if !(0.01..=10_080.0).contains(&minutes) {
        return Err("a time is 0.01 to 10080 minutes".to_owned());
    }
    Ok(minutes)
}

fn processes(text: &str) -> Result<usize, String> {
    let count: usize = text.parse().map_err(|error| format!("{error}"))?;
    if !(1..=64).contains(&count) {
        return Err("1 to 64 processes are possible".to_owned());
    }
    Ok(count)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_definition_is_sound() {
        use clap::CommandFactory;
        Arguments::command().debug_assert();
    }

    #[test]
    fn what_is_said_goes_before_what_quick_means() {
        let scale = |words: &[&str]| {
            let all = ["hythe-bench", "ipc"].iter().chain(words);
            match Arguments::parse_from(all).command {
                Command::Ipc(arguments) => arguments.scale(),
                _ => panic!("asked for ipc"),
            }
        };
        assert_eq!((scale(&[]).rounds, scale(&[]).sizes.len()), (5, 7));
        let quick = scale(&["--quick", "--sizes", "8", "--rounds", "3"]);
        let expected = Scale {
            count: 200,
            sizes: vec![8],
            seconds: 2.0,
            rounds: 3,
        };
        assert_eq!(quick, expected);
    }

    #[test]
    fn odd_sizes_and_times_are_refused() {
        for text in ["0", "7", "12", "4194312", "many"] {
            assert!(size(text).is_err(), "{text}");
        }
        assert_eq!(size("4194304"), Ok(4 << 20));
        for text in ["0", "-1", "nan", "inf"] {
            assert!(seconds(text).is_err(), "{text}");
        }
    }
}

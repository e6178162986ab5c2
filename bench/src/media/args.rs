//! What scenario `media` takes, and each of its ends.

use clap::Args;

use super::Scale;

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
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u32).range(1..=65_535)
    )]
    pub(crate) packets: Vec<u32>,
    /// Bytes of a packet, the RTP header of 12 included
    #[arg(
        long,
        value_name = "BYTES",
        default_value_t = 1400,
        value_parser = clap::value_parser!(u16).range(64..=1472)
    )]
    pub(crate) packet_bytes: u16,
    /// To how many one stream is sent, where it is sent to more than one; 1 leaves that out
    #[arg(
        long,
        value_name = "N",
        default_value_t = 16,
        value_parser = clap::value_parser!(u16).range(1..=64)
    )]
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
    /// Packets over a way that loses, at 8 Mbit/s, which is 1.4 ms for each, once [default: 20000;
    /// quick: 500]
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u32).range(1..=60_000))]
    pub(crate) lossy_packets: Option<u32>,
    /// Decides which packets that way loses
    #[arg(long, value_name = "N", default_value_t = 5)]
    pub(crate) seed: u64,
    /// Numbers of destinations of a stream as it plays, at 5 Mbit/s up to 100, else at 2 Mbit/s
    /// [default: 1,100,1000; quick: 1,100]
    #[arg(
        long,
        value_name = "N",
        value_delimiter = ',',
        value_parser = clap::value_parser!(u16).range(1..=1000)
    )]
    pub(crate) play_destinations: Vec<u16>,
    /// How long it lasts, repeated at most five times [default: 10; quick: 2]
    #[arg(long, value_name = "S", value_parser = clap::value_parser!(u16).range(1..=60))]
    pub(crate) play_seconds: Option<u16>,
    /// Only cases whose name has one of these in it, such as `hythe/`, `sendto/first_send`,
    /// `calls`, `lossy` or `plays`
    #[arg(long, value_name = "TEXT", value_delimiter = ',')]
    pub(crate) only: Vec<String>,
}

impl MediaArguments {
    /// What was said, and for the rest what `--quick` or its absence means.
    pub(crate) fn scale(&self) -> Scale {
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
        Scale {
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

//! What came of playing.

use hythe::rtp::format::Encoding;
use hythe::rtp::mpeg_audio::Header;
use serde::Serialize;

use crate::method::Method;
use crate::y4m::Written;

/// A sample of the movie that was sent to the core.
#[derive(Clone, Copy, Debug)]
pub(crate) struct Sent {
    pub(crate) number: u32,
    /// When reading it began.
    pub(crate) read_ns: u64,
    pub(crate) bytes: u64,
}

/// The result of `hythe play`.
#[derive(Debug, Serialize)]
pub struct Played {
    /// The board whose core decoded; null: Linux did.
    pub board: Option<String>,
    /// The board is emulated: its times are no claim about hardware.
    pub emulated: bool,
    /// The movie.
    pub input: String,
    /// Who decoded, and how bytes crossed to the decoder.
    pub method: Method,
    /// CPU time of the player while it played, without what decoded.
    pub linux_cpu_ns: u64,
    /// CPU time of what decoded on Linux; 0: a core did.
    pub decoder_cpu_ns: u64,
    /// Of the pictures; 0: there are none.
    pub width: u32,
    /// Of the pictures; 0: there are none.
    pub height: u32,
    /// Pictures that were shown.
    pub frames_shown: u64,
    /// Pictures that did not come in time: the one before stayed.
    pub frames_dropped: u64,
    /// From when a picture was due, by the clock of the sound, to when it was shown.
    pub sync_error_ns: Percentiles,
    /// Time of a picture in the decoder, by the core's clock.
    pub decode_ns: Percentiles,
    /// From reading a picture's access unit to showing it. Access units are read 200 to 300 ms
    /// ahead.
    pub file_to_shown_ns: Percentiles,
    /// The file of pictures; null: they are not kept.
    pub video_out: Option<Written>,
    /// The sound; none: the movie has none.
    pub sound: Option<Sound>,
    /// What was sent as RTP.
    pub rtp: Vec<RtpStream>,
    /// One entry for each boundary that data crossed.
    pub hops: Vec<Hop>,
    /// Slots that somebody still holds when all is over.
    pub slots_leaked: u32,
    /// Where the movie was when its window was closed; none: it was played to its end.
    pub closed_at_ns: Option<i64>,
    /// Each picture.
    pub frames: Vec<Frame>,
}

/// One picture.
#[derive(Debug, Serialize)]
pub struct Frame {
    /// From 0.
    pub number: u32,
    /// When it is to be shown, from the movie's start.
    pub time_ns: i64,
    /// How much later it was shown; null: it was dropped.
    pub sync_error_ns: Option<i64>,
    /// Time in the decoder, by the core's clock.
    pub decode_ns: Option<u64>,
    /// From reading its access unit to showing it.
    pub file_to_shown_ns: Option<u64>,
}

impl Frame {
    pub(crate) const fn missing(number: u32, time_ns: i64) -> Self {
        Self {
            number,
            time_ns,
            sync_error_ns: None,
            decode_ns: None,
            file_to_shown_ns: None,
        }
    }
}

/// What was heard. A block is what one MP3 frame decodes to.
#[derive(Debug, Serialize)]
pub struct Sound {
    /// Samples a second.
    pub hz: u32,
    /// Channels.
    pub channels: u8,
    /// Blocks that were played.
    pub blocks: u64,
    /// Blocks that came when their time was over.
    pub late: u64,
    /// Blocks that did not come: silence.
    pub silent: u64,
    /// How often the clock stood because a block was late.
    pub stalls: u64,
    /// Bytes of samples.
    pub bytes: u64,
    #[serde(skip)]
    pub(crate) wakes: u64,
    /// Blocks that were not sent as RTP, because those before them were not sent yet.
    #[serde(skip)]
    pub(crate) unsent: u64,
    /// Blocks and bytes that a sound card was given.
    #[serde(skip)]
    pub(crate) queued: (u64, u64),
}

impl Sound {
    pub(crate) fn new(header: Header) -> Self {
        Self {
            hz: header.samples_per_second(),
            channels: header.channels(),
            blocks: 0,
            late: 0,
            silent: 0,
            stalls: 0,
            bytes: 0,
            wakes: 0,
            unsent: 0,
            queued: (0, 0),
        }
    }
}

/// What was sent of a stream.
#[derive(Clone, Debug, Serialize)]
pub struct RtpStream {
    /// `L16` or `H264`.
    pub payload: &'static str,
    /// Where to.
    pub destination: String,
    /// Packets that left.
    pub packets: u64,
    /// Payload in them.
    pub bytes: u64,
    /// Packets that the network did not take.
    pub lost: u64,
    /// How often the destination's host said that nobody listens there.
    pub refused: u64,
    /// Blocks of samples that the sender did not take within the stall limit.
    pub dropped: u64,
    /// How often the clock stood, and what follows leaves later.
    pub moves: u64,
    /// How the destination is.
    pub state: String,
}

impl RtpStream {
    pub(crate) fn is_sound(&self) -> bool {
        self.payload == Encoding::L16.name()
    }

    /// Samples are copied from their slot into the socket, by the kernel; access units are read
    /// from its page cache, put into packets, and copied into the socket.
    pub(crate) fn hop(&self) -> Hop {
        let (name, cpu_copies) = match self.is_sound() {
            true => ("media", 1),
            false => ("media_picture", 3),
        };
        Hop {
            name,
            buffers: self.packets,
            bytes: self.bytes,
            cpu_copies,
            wakes: 0,
        }
    }
}

/// The way over one boundary.
#[derive(Debug, Serialize)]
pub struct Hop {
    /// `storage`: file to slot; `compressed`: Linux to core; `picture`, `samples`: core to Linux;
    /// `video_out`, `audio_out`: slot to file; `window`, `sound_card`: slot to SDL; `media`:
    /// samples from slots to the network, `media_picture`: access units from the file to the
    /// network.
    pub name: &'static str,
    /// Buffers that crossed.
    pub buffers: u64,
    /// Payload that crossed.
    pub bytes: u64,
    /// Payload bytes copied by a CPU for each payload byte, those of the kernel included.
    pub cpu_copies: u32,
    /// Sleeps of the taker that a bell ended.
    pub wakes: u64,
}

/// Of some times, in nanoseconds; all 0 if there are none.
#[derive(Clone, Copy, Debug, Default, Serialize)]
pub struct Percentiles {
    /// Median.
    pub p50: i64,
    /// 99th percentile.
    pub p99: i64,
    /// The largest.
    pub max: i64,
}

impl Percentiles {
    pub(crate) fn of(times: impl Iterator<Item = i64>) -> Self {
        let mut times: Vec<i64> = times.collect();
        times.sort_unstable();
        let at = |percent: usize| {
            let rank = (times.len() * percent).div_ceil(100);
            times.get(rank.saturating_sub(1)).copied().unwrap_or(0)
        };
        Self {
            p50: at(50),
            p99: at(99),
            max: at(100),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn percentiles_are_times_that_occurred() {
        let of = |times: &[i64]| {
            let found = Percentiles::of(times.iter().copied());
            (found.p50, found.p99, found.max)
        };
        assert_eq!(of(&[]), (0, 0, 0));
        assert_eq!(of(&[7]), (7, 7, 7));
        assert_eq!(of(&[3, 1, 2]), (2, 3, 3));
        let many: Vec<i64> = (1..=200).collect();
        assert_eq!(of(&many), (100, 198, 200));
    }
}

//! What is sent, and how it is read.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use clap::{Args, ValueEnum};
use hythe::media::source::annex_b::FrameRate;
use hythe::media::source::channel::{self, Messages};
use hythe::media::source::raw::PcmFormat;
use hythe::media::source::{self, Live, OpenOptions, Source};
use hythe::rtp::format::Encoding;
use hythe::{Node, SubscriberOptions, TrustPeers};
use hythe_command::error::CliError;
use hythe_command::output;
use hythe_command::stop::Stop;
use hythe_command::units;
use hythe_terminal::escaped;

/// What an input that is a channel begins with.
pub(super) const CHANNEL: &str = "channel:";
/// Messages of a channel that may wait: a key frame of 400 KB in messages of seven transport
/// packets.
const DEPTH: u32 = 256;

/// The input and what it cannot tell by itself.
#[derive(Args, Debug)]
pub(super) struct InputArgs {
    /// A file, a directory or .m3u file with a playlist, - for standard input, or channel:NAME; its
    /// first bytes tell what it is
    #[arg(value_name = "INPUT")]
    input: PathBuf,
    /// What 16-bit samples of a WAV file are sent as: l16, or pcmu or pcma for 8000 Hz and one
    /// channel [default: l16]
    #[arg(long, value_name = "PAYLOAD", value_enum, conflicts_with = "raw")]
    payload: Option<Samples>,
    /// The input is nothing but samples, as PAYLOAD:RATE:CHANNELS, such as l16:48000:2 (network
    /// byte order) or pcmu:8000:1
    #[arg(long, value_name = "FORMAT")]
    raw: Option<Raw>,
    /// Bits a second of a transport stream without clock references, such as 4M
    #[arg(long, value_name = "BITS", value_parser = units::parse_bits)]
    bitrate: Option<u64>,
    /// Frames a second of an H.264 or H.265 byte stream that does not say it, such as 25 or
    /// 30000/1001
    #[arg(long, value_name = "RATE")]
    frame_rate: Option<Frames>,
    /// Play the input so many times; 0: without end
    #[arg(long = "loop", value_name = "TIMES", default_value_t = 1)]
    plays: u64,
}

/// What samples become.
#[derive(Clone, Copy, Debug, PartialEq, Eq, ValueEnum)]
enum Samples {
    /// Linear, 16 bits
    L16,
    /// G.711, µ-law
    Pcmu,
    /// G.711, A-law
    Pcma,
}

impl From<Samples> for Encoding {
    fn from(samples: Samples) -> Self {
        match samples {
            Samples::L16 => Self::L16,
            Samples::Pcmu => Self::Pcmu,
            Samples::Pcma => Self::Pcma,
        }
    }
}

#[derive(Clone, Copy, Debug)]
struct Raw(PcmFormat);

impl FromStr for Raw {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let refused = || {
            format!(
                "{} is not PAYLOAD:RATE:CHANNELS, such as l16:48000:2",
                escaped(text)
            )
        };
        let parts: Vec<&str> = text.split(':').collect();
        let [payload, rate, channels] = parts[..] else {
            return Err(refused());
        };
        let samples = Samples::from_str(payload, true).map_err(|_| refused())?;
        Ok(Self(PcmFormat {
            encoding: samples.into(),
            samples_per_second: rate.parse().map_err(|_| refused())?,
            channels: channels.parse().map_err(|_| refused())?,
        }))
    }
}

#[derive(Clone, Copy, Debug)]
struct Frames(FrameRate);

impl FromStr for Frames {
    type Err = String;

    fn from_str(text: &str) -> Result<Self, String> {
        let (frames, seconds) = text.split_once('/').unwrap_or((text, "1"));
        let numbers = frames.parse().ok().zip(seconds.parse().ok());
        let rate = numbers.and_then(|(frames, seconds)| FrameRate::new(frames, seconds));
        rate.map(Self).ok_or_else(|| {
            format!(
                "{} is no frame rate such as 25 or 30000/1001",
                escaped(text)
            )
        })
    }
}

impl InputArgs {
    /// Opens it. Messages of a channel are sent from where they lie; standard input is read by a
    /// thread of its own. Until `stop` is asked.
    pub(super) fn open(
        &self,
        payload_bytes: usize,
        node: &Node,
        trust: TrustPeers,
        stop: &Stop,
    ) -> Result<Box<dyn Source + Send>, CliError> {
        let options = self.options(payload_bytes)?;
        if self.is_live() && self.plays != 1 {
            return Err(CliError::WrongUse(format!(
                "--loop {}: {} is live and played once; leave --loop out",
                self.plays,
                escaped(&self.name())
            )));
        }
        if let Some(name) = self.channel() {
            let subscriber = node.subscriber(name, &SubscriberOptions::default().depth(DEPTH))?;
            let has_stopped = stop.watch();
            let messages = Messages::new(node, subscriber, trust, move || !has_stopped());
            let source = channel::open(&self.name(), messages, &options)?;
            self.check(&*source)?;
            return Ok(source);
        }
        let source = source::open(&self.input, &options)?;
        self.check(&*source)?;
        tell_left_out(&self.input, source.left_out());
        if self.input == Path::new("-") {
            return Ok(Box::new(Live::start(source)?));
        }
        Ok(source)
    }

    /// Refuses options that mean nothing for what the input turned out to be.
    fn check(&self, source: &dyn Source) -> Result<(), CliError> {
        let found = source.format();
        let (encoding, name) = (found.encoding, found.encoding.name());
        let refused = |option: &str, why: &str| {
            let input = escaped(&self.name()).to_string();
            Err(CliError::WrongUse(format!(
                "{option}: {input} is sent as {name}, {why}"
            )))
        };
        if let Some(payload) = self.payload {
            let asked: Encoding = payload.into();
            let option = format!("--payload {}", asked.name().to_lowercase());
            if asked != encoding {
                let why = "as it is; the option is for 16-bit samples of a WAV file: leave it out";
                return refused(&option, why);
            }
            let is_telephone = (found.clock_hz, found.channels) == (8000, 1);
            if asked != Encoding::L16 && !is_telephone {
                let (hz, channels) = (found.clock_hz, found.channels);
                let input = escaped(&self.name()).to_string();
                return Err(CliError::WrongUse(format!(
                    "{option}: telephones have 8000 Hz and one channel, and {input} has {hz} Hz \
                     and {}: ffmpeg -i {input} -ar 8000 -ac 1 -c:a pcm_s16le telephone.wav",
                    units::counted(channels.into(), "channel")
                )));
            }
        }
        if self.bitrate.is_some() && encoding != Encoding::MpegTs {
            return refused(
                "--bitrate",
                "and only transport streams need it: leave it out",
            );
        }
        if self.frame_rate.is_some() && !matches!(encoding, Encoding::H264 | Encoding::H265) {
            let why = "and only byte streams of H.264 and H.265 need it: leave it out";
            return refused("--frame-rate", why);
        }
        if self.frame_rate.is_some() && source.says_frame_rate() {
            let why = "and says its frame rate itself: leave it out";
            return refused("--frame-rate", why);
        }
        Ok(())
    }

    fn options(&self, payload_bytes: usize) -> Result<OpenOptions, CliError> {
        let bits_per_second = self.bitrate.map(u32::try_from).transpose();
        Ok(OpenOptions {
            bits_per_second: bits_per_second
                .map_err(|_| CliError::WrongUse("--bitrate is at most 4G".into()))?,
            samples_as: self.payload.unwrap_or(Samples::L16).into(),
            raw: self.raw.map(|raw| raw.0),
            frame_rate: self.frame_rate.map(|rate| rate.0),
            payload_limit: payload_bytes,
            plays: self.plays,
            ..OpenOptions::default()
        })
    }

    /// Is it a channel of the pool?
    pub(super) fn is_channel(&self) -> bool {
        self.channel().is_some()
    }

    fn channel(&self) -> Option<&str> {
        self.input.to_str()?.strip_prefix(CHANNEL)
    }

    /// Is it made as it is sent? Standard input may be a file; that is not looked for.
    pub(super) fn is_live(&self) -> bool {
        self.is_channel() || self.input.to_str() == Some("-")
    }

    /// Is it a file or a stream from its beginning on? A channel is joined while it runs.
    pub(super) fn begins_whole(&self) -> bool {
        !self.is_channel()
    }

    /// As it was said.
    pub(super) fn name(&self) -> String {
        self.input.display().to_string()
    }
}

/// Says which streams of an input are not sent.
pub(super) fn tell_left_out(input: &Path, left_out: &[String]) {
    if !left_out.is_empty() {
        let (input, left_out) = (escaped(&input), left_out.join(", "));
        output::note(format!(
            "{input}: one stream of a file is sent; left out: {left_out}. As a transport stream \
             all go together: ffmpeg -i {input} -c copy film.ts"
        ));
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parser_reads_raw_formats_or_refuses_with_example() {
        let raw: Raw = "pcmu:8000:1".parse().unwrap();
        assert_eq!((raw.0.samples_per_second, raw.0.channels), (8000, 1));
        for text in ["pcmu", "pcmu:8000", "mp3:8000:1", "l16:x:1", "l16:8000:1:2"] {
            assert!(
                text.parse::<Raw>().unwrap_err().contains("l16:48000:2"),
                "{text}"
            );
        }
        assert!("30000/1001".parse::<Frames>().is_ok());
        for text in ["", "0", "25/0", "x"] {
            assert!(
                text.parse::<Frames>().unwrap_err().contains("30000/1001"),
                "{text}"
            );
        }
    }
}

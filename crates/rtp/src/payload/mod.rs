//! Units as payloads of RTP packets, and back: one module per RFC.
//!
//! Pure: bytes in, bytes out. A packetizer never copies media, it says which slices follow which
//! few bytes of payload header. A depacketizer is fed by whoever sent packets to us, so it never
//! trusts a length.

pub mod h264;
pub mod h265;
pub mod mpeg_audio;
pub mod mpeg_ts;
mod nal;
mod nal_tests;
pub mod opus;
pub mod pcm;
mod talk;

use crate::L16;
use crate::RtpError;
use crate::format::{Encoding, StreamFormat};
use crate::unit::{Unit, UnitMemory};
use crate::video::START_CODE;

/// Most bytes of payload header that any format here needs in front of the media (RFC 2250's and
/// 7798's are 4 and 3).
pub const PREFIX_BYTES_MAX: usize = 8;

/// What one packet carries: a few bytes made for it, then slices of the unit.
#[derive(Clone, Copy, Debug)]
pub struct Payload<'p> {
    /// Payload header, at most [`PREFIX_BYTES_MAX`].
    pub prefix: &'p [u8],
    /// Media, in order; where several units share a packet (aggregation), lengths stand between as
    /// slices of their own.
    pub body: &'p [&'p [u8]],
    /// The RTP marker bit.
    pub marker: bool,
    /// [`Unit::time`] of its first byte.
    pub time: u64,
    /// [`Unit::due`] of its first byte.
    pub due: u64,
}

impl Payload<'_> {
    /// Bytes of prefix and body.
    #[must_use]
    pub fn len(&self) -> usize {
        self.prefix.len() + self.body.iter().map(|slice| slice.len()).sum::<usize>()
    }

    /// Has it no byte?
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.len() == 0
    }
}

/// Takes payloads one at a time.
pub type EmitPayload<'e> = dyn FnMut(&Payload<'_>) + 'e;
/// Takes units one at a time; `true` behind it: something in front of the unit is missing.
pub type EmitUnit<'e> = dyn FnMut(&Unit<'_>, bool) + 'e;

/// Cuts units into payloads.
pub trait Packetize {
    /// Emits the payloads of `unit`, each of at most `limit` bytes (at least 64). Nothing is kept
    /// for the next call.
    fn packetize(&mut self, unit: &Unit<'_>, limit: usize, emit: &mut EmitPayload<'_>);
}

/// A payload as it was received, in the order of sequence numbers.
#[derive(Clone, Copy, Debug)]
pub struct Received<'r> {
    /// Everything behind the RTP header, padding removed.
    pub bytes: &'r [u8],
    /// The marker bit.
    pub marker: bool,
    /// Ticks since the first packet of the stream: the timestamp, unwrapped.
    pub time: u64,
    /// Packets in front of this one are missing for good.
    pub after_gap: bool,
}

/// A payload that does not follow its RFC; it was dropped, and the caller counts it.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[error("malformed payload: {0}")]
pub struct Malformed(pub &'static str);

/// Joins payloads to units.
pub trait Depacketize {
    /// Takes a payload and emits what it completes. Memory is bounded: a unit that grows beyond the
    /// format's limit is dropped.
    ///
    /// # Errors
    ///
    /// [`Malformed`]: the payload is dropped, and the next one starts afresh.
    fn take(&mut self, received: &Received<'_>, emit: &mut EmitUnit<'_>) -> Result<(), Malformed>;

    /// Emits what is left at the end of a stream.
    fn finish(&mut self, emit: &mut EmitUnit<'_>);
}

/// A packetizer for streams of `format`.
///
/// # Errors
///
/// [`RtpError::Format`] for samples without channels, or with more than eight.
pub fn packetizer(format: &StreamFormat) -> Result<Box<dyn Packetize + Send>, RtpError> {
    Ok(match format.encoding {
        Encoding::MpegTs => Box::new(mpeg_ts::TsPacketizer),
        Encoding::L16 | Encoding::Pcmu | Encoding::Pcma => {
            Box::new(pcm::PcmPacketizer::new(sample_frame_bytes(format)?))
        }
        Encoding::MpegAudio => Box::new(mpeg_audio::MpegAudioPacketizer::default()),
        Encoding::Opus => Box::new(opus::OpusPacketizer::default()),
        Encoding::H264 => Box::new(h264::Packetizer),
        Encoding::H265 => Box::new(h265::Packetizer),
    })
}

/// A depacketizer for streams of `format`.
///
/// # Errors
///
/// As [`packetizer`].
pub fn depacketizer(format: &StreamFormat) -> Result<Box<dyn Depacketize + Send>, RtpError> {
    Ok(match format.encoding {
        Encoding::MpegTs => Box::new(mpeg_ts::TsDepacketizer),
        Encoding::L16 | Encoding::Pcmu | Encoding::Pcma => {
            Box::new(pcm::PcmDepacketizer::new(sample_frame_bytes(format)?))
        }
        Encoding::MpegAudio => Box::new(mpeg_audio::MpegAudioDepacketizer::default()),
        Encoding::Opus => Box::new(opus::OpusDepacketizer),
        Encoding::H264 => Box::new(h264::Depacketizer::new(format).map_err(refused)?),
        Encoding::H265 => Box::new(h265::Depacketizer::new(format).map_err(refused)?),
    })
}

/// A depacketizer for streams of `format` that puts together in `memory` what has to be put
/// together. NAL units stand behind start codes there, as in a byte stream.
///
/// # Errors
///
/// As [`packetizer`].
pub fn depacketizer_within<M: UnitMemory + 'static>(
    format: &StreamFormat,
    memory: M,
) -> Result<Box<dyn Depacketize + Send>, RtpError> {
    Ok(match format.encoding {
        Encoding::H264 => Box::new(behind_start_codes::<h264::Packetizer, M>(memory, format)?),
        Encoding::H265 => Box::new(behind_start_codes::<h265::Packetizer, M>(memory, format)?),
        Encoding::MpegAudio => Box::new(mpeg_audio::MpegAudioDepacketizer::within(memory)),
        _ => depacketizer(format)?,
    })
}

fn behind_start_codes<R: nal::Rules, M: UnitMemory>(
    memory: M,
    format: &StreamFormat,
) -> Result<nal::Joiner<R, M>, RtpError> {
    nal::Joiner::within(memory, &START_CODE, format).map_err(refused)
}

/// Is a packet of this encoding usually a unit, or several? Then it is worth while to receive it
/// where it is published from. Others are put together first.
#[must_use]
pub fn is_whole_in_packets(encoding: Encoding) -> bool {
    !matches!(encoding, Encoding::H264 | Encoding::H265)
}

/// Parameters that say that the payloads are of a kind that cannot be joined here.
fn refused(why: Malformed) -> RtpError {
    RtpError::Packet {
        what: "depacketizer",
        reason: why.0.to_owned(),
    }
}

/// Bytes of one sample of each channel.
fn sample_frame_bytes(format: &StreamFormat) -> Result<usize, RtpError> {
    let samples = L16::new(format.clock_hz, format.channels)?;
    Ok(match format.encoding {
        Encoding::L16 => samples.frame_bytes(),
        _ => usize::from(samples.channels()),
    })
}

impl<D: Depacketize + ?Sized> Depacketize for Box<D> {
    fn take(&mut self, received: &Received<'_>, emit: &mut EmitUnit<'_>) -> Result<(), Malformed> {
        (**self).take(received, emit)
    }

    fn finish(&mut self, emit: &mut EmitUnit<'_>) {
        (**self).finish(emit);
    }
}

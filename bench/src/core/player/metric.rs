//! The figures by which systems are compared.

use super::program::{Frame, Played};

/// A time that each system has.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Metric {
    /// The paper's: how much later than its sound a frame was shown.
    SyncError,
    /// From reading a frame's access unit to showing it.
    FileToShown,
    /// Of a frame in the decoder, by the core's clock.
    Decode,
    /// CPU of Linux for each frame, outside of the decoder: one figure for each run.
    LinuxCpu,
    /// CPU of a decoder that is a process of Linux, for each frame: one figure for each run.
    DecoderCpu,
}

impl Metric {
    pub(super) const ALL: [Self; 5] = [
        Self::SyncError,
        Self::FileToShown,
        Self::Decode,
        Self::LinuxCpu,
        Self::DecoderCpu,
    ];

    /// As in the document.
    pub(super) const fn name(self) -> &'static str {
        match self {
            Self::SyncError => "sync_error",
            Self::FileToShown => "file_to_shown",
            Self::Decode => "decode",
            Self::LinuxCpu => "linux_cpu",
            Self::DecoderCpu => "decoder_cpu",
        }
    }

    /// The samples of a run; frames that were dropped have none.
    pub(super) fn samples(self, played: &Played) -> Vec<u64> {
        let of_frames = |time: fn(&Frame) -> Option<u64>| {
            let times = played.frames.iter().filter_map(time);
            times.collect()
        };
        let by_frame = |cpu_ns: u64| cpu_ns / played.frames_shown.max(1);
        match self {
            Self::SyncError => of_frames(|frame| frame.sync_error_ns),
            Self::FileToShown => of_frames(|frame| frame.file_to_shown_ns),
            Self::Decode => of_frames(|frame| frame.decode_ns),
            Self::LinuxCpu => vec![by_frame(played.linux_cpu_ns)],
            Self::DecoderCpu => {
                let spent = Some(played.decoder_cpu_ns).filter(|&ns| ns > 0);
                spent.map(by_frame).into_iter().collect()
            }
        }
    }
}

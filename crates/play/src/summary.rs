//! Sums a run up: percentiles, and what each hop carried and copied.

use hythe::core::Board;

use crate::player::{Outcome, Player, SentSamples};
use crate::report::{Hop, Percentiles, Played, RtpStream};
use crate::stage::locked;

impl Player {
    /// What came of a run.
    pub(crate) fn report(&self, outcome: Outcome, sent: SentSamples, slots_leaked: u32) -> Played {
        let mut hops = self.hops(&outcome, &sent);
        let Outcome {
            shown,
            sound,
            mut rtp,
            closed_at_ns,
            ..
        } = outcome;
        if let (Some(sound), Some(stream)) = (&sound, rtp.iter_mut().find(|sent| sent.is_sound())) {
            stream.dropped = sound.unsent;
        }
        hops.extend(rtp.iter().map(RtpStream::hop));
        let shown = shown.unwrap_or_default();
        let frames = &shown.frames;
        let ns = |ns: u64| i64::try_from(ns).unwrap_or(i64::MAX);
        let frames_shown = frames.iter().flat_map(|frame| frame.sync_error_ns).count();
        Played {
            board: self.board.as_ref().map(|board| board.name().to_owned()),
            emulated: self.board.as_ref().is_some_and(Board::is_emulated),
            input: self.options.file.display().to_string(),
            method: self.options.method,
            linux_cpu_ns: 0,
            decoder_cpu_ns: 0,
            width: shown.size.0,
            height: shown.size.1,
            frames_shown: frames_shown as u64,
            frames_dropped: (frames.len() - frames_shown) as u64,
            sync_error_ns: Percentiles::of(frames.iter().flat_map(|frame| frame.sync_error_ns)),
            decode_ns: Percentiles::of(frames.iter().flat_map(|frame| frame.decode_ns.map(ns))),
            file_to_shown_ns: Percentiles::of(
                frames
                    .iter()
                    .flat_map(|frame| frame.file_to_shown_ns.map(ns)),
            ),
            video_out: shown.written,
            sound,
            rtp,
            hops,
            slots_leaked,
            closed_at_ns,
            frames: shown.frames,
        }
    }

    /// Copies are those of the code that runs: `pread` from the page cache into the slot or memory
    /// (one); to the decoder and back as the method has them; a picture is written from where it
    /// came to (one, the kernel's), samples are turned around for WAV, gathered, and written
    /// (three); SDL copies once what it is to show or play.
    fn hops(&self, outcome: &Outcome, sent: &SentSamples) -> Vec<Hop> {
        let (shown, sound) = (outcome.shown.as_ref(), outcome.sound.as_ref());
        let hop = |name, buffers, bytes, cpu_copies, wakes| Hop {
            name,
            buffers,
            bytes,
            cpu_copies,
            wakes,
        };
        let copies = self.options.method.copies();
        let compressed = [locked(&sent.units), locked(&sent.frames)];
        let buffers = compressed.iter().map(|list| list.len() as u64).sum();
        let bytes = compressed.iter().flat_map(|list| list.iter());
        let bytes = bytes.map(|sent| sent.bytes).sum();
        let mut hops = vec![
            hop("storage", buffers, bytes, 1, 0),
            hop("compressed", buffers, bytes, copies.compressed, 0),
        ];
        if let Some(shown) = shown {
            let came = shown.frames.iter().flat_map(|frame| frame.decode_ns);
            let buffers = came.count() as u64;
            hops.push(hop(
                "picture",
                buffers,
                shown.bytes,
                copies.picture,
                shown.wakes,
            ));
            if self.options.video_out.is_some() {
                hops.push(hop("video_out", buffers, shown.bytes, 1, 0));
            }
        }
        if let Some(seen) = outcome.seen {
            hops.push(hop("window", seen.pictures, seen.bytes, 1, 0));
        }
        if let Some(sound) = sound {
            hops.push(hop(
                "samples",
                sound.blocks,
                sound.bytes,
                copies.samples,
                sound.wakes,
            ));
            if self.options.audio_out.is_some() {
                hops.push(hop("audio_out", sound.blocks, sound.bytes, 3, 0));
            }
            if let (blocks @ 1.., bytes) = sound.queued {
                hops.push(hop("sound_card", blocks, bytes, 1, 0));
            }
        }
        hops
    }
}

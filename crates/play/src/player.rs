//! The player as a whole: sets up, starts the threads, watches, sums up.

use std::path::{Path, PathBuf};
use std::sync::atomic::AtomicBool;
use std::sync::{Arc, Mutex};
use std::thread::ScopedJoinHandle;
use std::time::Duration;

use hythe::Pool;
use hythe::core::Board;
use hythe::media::sink::Sink;
use hythe::media::sink::wav::WavSink;
use hythe::media::source::mp4::movie::{self, AudioTrack, Movie, VideoTrack};
use hythe::rtp::L16;
use hythe::rtp::mpeg_audio::Header;

use crate::decoders::Decoders;
use crate::error::PlayError;
use crate::feed::{Feeder, LEAD_NS};
use crate::method::{Method, Sender};
use crate::pair::Pair;
use crate::ports::{PICTURE, PROGRAM, SOUND};
use crate::report::{Played, RtpStream, Sent, Sound};
use crate::rtp::{RtpOptions, RtpSenders, SoundQueue};
use crate::show::{PicturePlayer, Shown};
use crate::sound::SoundPlayer;
use crate::stage::Stage;
use crate::viewer::Viewer;
use crate::y4m::Y4m;

/// The board that is used where it can be.
const PREFERRED_BOARD: &str = "mps2-an386";
/// The board that runs everywhere.
const FALLBACK_BOARD: &str = "hosted";
/// How long the first picture and the first sound may take, and all of them together may stay away.
const START: Duration = Duration::from_secs(10);
/// How often is looked whether the core has ended, or somebody asks to stop: soon enough for a
/// person.
const WATCH: Duration = Duration::from_millis(100);

/// What to play, and where to.
#[derive(Clone, Debug)]
pub struct PlayOptions {
    /// The movie.
    pub file: PathBuf,
    /// The board whose core decodes; none: mps2-an386 where it can be used, else hosted. Not used
    /// by [`Method::Linux`].
    pub board: Option<String>,
    /// Y4M file for the pictures; none: they are not kept.
    pub video_out: Option<PathBuf>,
    /// WAV file for the sound; none: it is not kept.
    pub audio_out: Option<PathBuf>,
    /// Where sound and picture are sent as RTP; none: nowhere. From the slots of a core, so not
    /// with other methods than [`Method::Hythe`].
    pub rtp: Option<RtpOptions>,
    /// Show the pictures in a window, and play the sound by a sound card unless it is written.
    pub window: bool,
    /// Who decodes, and how bytes cross to the decoder.
    pub method: Method,
    /// How long sound or picture is waited for before the other goes on without it.
    pub stall: Duration,
}

/// Who runs the player.
pub struct Caller<'a> {
    /// Did somebody ask to stop? Asked often.
    pub is_stop_requested: &'a dyn Fn() -> bool,
    /// The movie is at the first; the second is its length.
    pub progress: &'a dyn Fn(Duration, Duration),
}

/// A movie that can be played: there is an index, and a board.
#[derive(Debug)]
pub struct Player {
    pub(crate) options: PlayOptions,
    movie: Movie,
    /// None: Linux decodes.
    pub(crate) board: Option<Board>,
}

type SentList = Mutex<Vec<Sent>>;

/// What was sent to the core, in order.
#[derive(Default)]
pub(crate) struct SentSamples {
    pub(crate) units: SentList,
    pub(crate) frames: SentList,
}

/// What one run has.
struct Run<'a> {
    decoders: &'a Decoders,
    stage: &'a Arc<Stage>,
    viewer: &'a Viewer,
    sent: &'a SentSamples,
    caller: &'a Caller<'a>,
}

/// What the threads came to.
pub(crate) struct Outcome {
    pub(crate) shown: Option<Shown>,
    pub(crate) sound: Option<Sound>,
    pub(crate) rtp: Vec<RtpStream>,
    /// In the window.
    pub(crate) seen: Option<hythe_screen::Shown>,
    pub(crate) closed_at_ns: Option<i64>,
}

impl Player {
    /// Reads the movie's index and chooses the board. Starts and writes nothing.
    ///
    /// # Errors
    ///
    /// [`PlayError::Media`] for what cannot be played, [`PlayError::NothingToWrite`],
    /// [`PlayError::Core`] for an unknown board.
    pub fn prepare(options: PlayOptions) -> Result<Self, PlayError> {
        let movie = Movie::open(&options.file)?;
        let has = [
            ("picture", &options.video_out, movie.video.is_some()),
            ("sound", &options.audio_out, movie.audio.is_some()),
        ];
        for (what, output, is_there) in has {
            if let (Some(output), false) = (output, is_there) {
                return Err(PlayError::NothingToWrite {
                    path: options.file.clone(),
                    what,
                    output: output.clone(),
                });
            }
        }
        if let Some(rtp) = &options.rtp {
            if options.method != Method::Hythe {
                return Err(PlayError::NoSlotsToSend);
            }
            rtp.addresses()?;
        }
        let needs_core = options.method.needs_core();
        let board = needs_core.then(|| choose_board(options.board.as_deref()));
        Ok(Self {
            board: board.transpose()?,
            movie,
            options,
        })
    }

    /// Plays in `pool`, which nobody else uses.
    ///
    /// # Errors
    ///
    /// [`PlayError::Interrupted`]; [`PlayError::CoreEnded`]; else what could not be started, read,
    /// decoded or written.
    pub fn run(&self, pool: &Pool, caller: &Caller<'_>) -> Result<Played, PlayError> {
        let viewer = self.open_viewer(caller.is_stop_requested)?;
        let decoders = match &self.board {
            Some(board) => {
                let method = self.options.method;
                Decoders::start_core(pool, board, method, caller.is_stop_requested)?
            }
            None => Decoders::on_linux(self.start()),
        };
        let stage = Arc::new(Stage::default());
        let sent = SentSamples::default();
        let cpu_before = cpu_ns();
        let outcome = self.play(&Run {
            decoders: &decoders,
            stage: &stage,
            viewer: &viewer,
            sent: &sent,
            caller,
        })?;
        let cpu_ns = cpu_ns().saturating_sub(cpu_before);
        if let Some(failure) = stage.failure() {
            return Err(decoders.why(failure));
        }
        let decoder_cpu = decoders.stop()?;
        let audit = pool.snapshot().audit;
        let leaked = audit.slots - audit.free + audit.mismatches.len() as u32;
        Ok(Played {
            linux_cpu_ns: cpu_ns,
            decoder_cpu_ns: u64::try_from(decoder_cpu.as_nanos()).unwrap_or(u64::MAX),
            ..self.report(outcome, sent, leaked)
        })
    }

    /// Runs the threads to their end.
    fn play(&self, run: &Run<'_>) -> Result<Outcome, PlayError> {
        let video = self.movie.video.as_ref();
        let audio = self.movie.audio.as_ref();
        let rtp = self.options.rtp.as_ref();
        let tracks = (self.options.file.as_path(), audio, video);
        let senders = match (rtp, run.decoders.node()) {
            (Some(to), Some(node)) => {
                RtpSenders::open(to, node, run.stage, self.options.stall, tracks)?
            }
            _ => RtpSenders::default(),
        };
        let streams = [senders.sound, senders.picture].into_iter().flatten();
        let pictures = video.map(|track| self.picture_player(run, track));
        let sounds = audio.map(|track| self.sound_player(run, track, senders.blocks));
        let (pictures, sounds) = (pictures.transpose()?, sounds.transpose()?);
        let stage: &Stage = run.stage;
        let (has_units, has_frames) = (AtomicBool::new(false), AtomicBool::new(false));
        std::thread::scope(|scope| {
            let pictures = pictures.map(|(feeder, player, track)| {
                let feed = move || feeder.feed_picture(track);
                Pair::start(scope, stage, &has_units, feed, player)
            });
            let sounds = sounds.map(|(feeder, player, track)| {
                let feed = move || feeder.feed_sound(track);
                Pair::start(scope, stage, &has_frames, feed, player)
            });
            let streams: Vec<_> = streams
                .map(|stream| scope.spawn(move || stage.run(|| stream.run(stage))))
                .collect();
            let is_done = || {
                pictures.as_ref().is_none_or(Pair::is_finished)
                    && sounds.as_ref().is_none_or(Pair::is_finished)
                    && streams.iter().all(ScopedJoinHandle::is_finished)
            };
            stage.run(|| self.watch(run, is_done));
            let shown = pictures.and_then(Pair::join);
            let sound = sounds.and_then(Pair::join);
            Ok(Outcome {
                shown,
                sound,
                rtp: streams.into_iter().filter_map(joined).collect(),
                // Now, so that no slot is held any more when they are counted.
                seen: run.viewer.close(),
                closed_at_ns: stage.is_closed().then(|| stage.at().unwrap_or(0)),
            })
        })
    }

    fn open_viewer(&self, gives_up: &dyn Fn() -> bool) -> Result<Viewer, PlayError> {
        if !self.options.window {
            return Ok(Viewer::default());
        }
        let name = self.options.file.file_name().unwrap_or_default();
        let title = name.to_string_lossy();
        let audio = self.movie.audio.as_ref();
        let audio = audio.filter(|_| self.options.audio_out.is_none());
        Viewer::open(
            self.movie.video.as_ref().map(|_| &*title),
            audio.map(|track| (track.header.samples_per_second(), track.header.channels())),
            gives_up,
        )
    }

    fn feeder<'a>(
        &'a self,
        run: &Run<'a>,
        to_decoder: Box<dyn Sender>,
        sent: &'a SentList,
    ) -> Feeder<'a> {
        Feeder {
            stage: run.stage,
            file: &self.movie.file,
            path: &self.options.file,
            to_decoder,
            stall_ns: i64::try_from(self.options.stall.as_nanos()).unwrap_or(i64::MAX),
            sent,
        }
    }

    fn picture_player<'a>(
        &'a self,
        run: &Run<'a>,
        track: &'a VideoTrack,
    ) -> Result<(Feeder<'a>, PicturePlayer<'a>, &'a VideoTrack), PlayError> {
        let output = self.options.video_out.as_deref();
        let output = output.map(|path| Y4m::create(path, track.frame_rate));
        let flow = run.decoders.flow(&PICTURE)?;
        let player = PicturePlayer {
            stage: run.stage,
            track,
            from_decoder: flow.from_decoder,
            sent: &run.sent.units,
            output: output.transpose()?,
            screen: run.viewer.screen.as_ref(),
            stall: self.options.stall,
            start: self.start(),
            is_alone: self.movie.audio.is_none(),
            starts_clock: !self.begins_with_sound(),
        };
        Ok((
            self.feeder(run, flow.to_decoder, &run.sent.units),
            player,
            track,
        ))
    }

    fn sound_player<'a>(
        &'a self,
        run: &Run<'a>,
        track: &'a AudioTrack,
        rtp: Option<SoundQueue>,
    ) -> Result<(Feeder<'a>, SoundPlayer<'a>, &'a AudioTrack), PlayError> {
        let sink = self.options.audio_out.as_deref();
        let sink = sink.map(|path| wav(path, track.header));
        let flow = run.decoders.flow(&SOUND)?;
        let player = SoundPlayer {
            stage: run.stage,
            track,
            from_decoder: flow.from_decoder,
            sent: &run.sent.frames,
            sink: sink.transpose()?,
            speaker: run.viewer.speaker.as_ref(),
            stall: self.options.stall,
            start: self.start(),
            is_alone: self.movie.video.is_none(),
            starts_clock: self.begins_with_sound(),
            waits_for_picture: self.begins_with_picture(),
            rtp,
        };
        Ok((
            self.feeder(run, flow.to_decoder, &run.sent.frames),
            player,
            track,
        ))
    }

    /// Until all threads have ended; an error as soon as the core has, or somebody asks to stop.
    fn watch(&self, run: &Run<'_>, is_done: impl Fn() -> bool) -> Result<(), PlayError> {
        let length = Duration::from_nanos(self.length_ns());
        while !is_done() {
            if (run.caller.is_stop_requested)() {
                return Err(PlayError::Interrupted);
            }
            run.viewer.look(run.stage)?;
            run.decoders.check()?;
            let waited = self.start();
            if run.stage.silence() > waited {
                return Err(PlayError::Silent { waited });
            }
            let at = run.stage.at().unwrap_or(0);
            let at = Duration::from_nanos(u64::try_from(at).unwrap_or(0));
            (run.caller.progress)(at.min(length), length);
            std::thread::sleep(WATCH);
        }
        Ok(())
    }

    /// How long the core may send nothing.
    fn start(&self) -> Duration {
        START.max(self.options.stall)
    }

    /// Is there sound when the movie begins? A track that begins later waits for the clock.
    fn begins_with_sound(&self) -> bool {
        let frames = self.movie.audio.as_ref().map(|track| &track.frames);
        frames.is_some_and(|frames| movie::first_ns(frames) <= LEAD_NS)
    }

    fn begins_with_picture(&self) -> bool {
        let units = self.movie.video.as_ref().map(|track| &track.units);
        units.is_some_and(|units| movie::first_ns(units) <= LEAD_NS)
    }

    fn length_ns(&self) -> u64 {
        let video = self.movie.video.as_ref().map(|track| &track.units);
        let audio = self.movie.audio.as_ref().map(|track| &track.frames);
        let tracks = video.into_iter().chain(audio);
        let ends = tracks.map(|samples| movie::end_ns(samples));
        u64::try_from(ends.max().unwrap_or(0)).unwrap_or(0)
    }
}

fn joined<T>(thread: ScopedJoinHandle<'_, Option<T>>) -> Option<T> {
    match thread.join() {
        Ok(done) => done,
        Err(panic) => std::panic::resume_unwind(panic),
    }
}

/// CPU time of this process; what decodes is another one.
fn cpu_ns() -> u64 {
    let spent = rustix::time::clock_gettime(rustix::time::ClockId::ProcessCPUTime);
    spent.tv_sec.unsigned_abs() * 1_000_000_000 + spent.tv_nsec.unsigned_abs()
}

fn wav(path: &Path, header: Header) -> Result<Box<dyn Sink + Send>, PlayError> {
    let samples = L16::new(header.samples_per_second(), header.channels())?;
    let sink = WavSink::create(path, &samples.into())?;
    Ok(Box::new(sink.with_silence_in_front()))
}

fn choose_board(name: Option<&str>) -> Result<Board, PlayError> {
    if let Some(name) = name {
        return Ok(Board::find(name)?);
    }
    match Board::find(PREFERRED_BOARD) {
        Ok(board) if board.missing(PROGRAM).is_empty() => Ok(board),
        _ => Ok(Board::find(FALLBACK_BOARD)?),
    }
}

//! Whatever is to be sent: one file, or several, or one several times, as one continuous stream.
//! Time goes on, and all are of one format. Playlists (.m3u) go by their name, files by their first
//! bytes.
//!
//! An entry that is missing, damaged or of another format is passed over and reported by
//! [`Source::skipped`]. A playlist ends before its end only if 100 entries in a row are
//! bad.

use std::collections::{BTreeSet, VecDeque};
use std::fs;
use std::path::{Path, PathBuf};

use hythe_rtp::format::StreamFormat;
use hythe_rtp::unit::Unit;
use hythe_sys::regular_file::read_regular_text;

use super::open::open_file;
use super::owned::Owned;
use super::pieces::Pieces;
use super::{OpenOptions, Source};
use crate::MediaError;

/// The longest .m3u file that is read.
const M3U_BYTES_MAX: u64 = 16 << 20;
/// What is wrong with a playlist of nothing.
const EMPTY: &str = "no file is in it";
/// More entries in a row are not tried: what is behind them would wait for all of them.
const BAD_IN_A_ROW_MAX: usize = 100;

/// Opens `input`: a file, a directory or an .m3u file with a playlist, or `-` for standard input.
///
/// # Errors
///
/// [`MediaError::Input`] for what cannot be sent, and why; [`MediaError::File`].
pub fn open(input: &Path, options: &OpenOptions) -> Result<Box<dyn Source + Send>, MediaError> {
    let is_m3u = input.extension().is_some_and(|extension| {
        extension.eq_ignore_ascii_case("m3u") || extension.eq_ignore_ascii_case("m3u8")
    });
    if input.is_dir() {
        Ok(Box::new(Playlist::new(files_in(input)?, options)?))
    } else if is_m3u {
        Ok(Box::new(Playlist::new(files_named_in(input)?, options)?))
    } else if options.plays != 1 && input != Path::new("-") {
        Ok(Box::new(Playlist::new(vec![input.to_owned()], options)?))
    } else {
        open_file(input, options)
    }
}

/// The files of a playlist, and how far it is.
#[derive(Debug)]
struct List {
    files: Vec<PathBuf>,
    options: OpenOptions,
    /// Files begun so far.
    begun: u64,
    /// Those that were bad when they were tried last, by their index.
    bad: BTreeSet<usize>,
    /// Why, of those that became so.
    skipped: VecDeque<MediaError>,
}

/// A file of a playlist, and its first unit.
type Begun = (Box<dyn Source + Send>, Owned);

impl List {
    /// Which file is next; `None` behind the last.
    fn advance(&mut self) -> Option<usize> {
        let count = self.files.len() as u64;
        let plays = self.options.plays;
        if count == 0 || plays != 0 && self.begun >= count.saturating_mul(plays) {
            return None;
        }
        let index = (self.begun % count) as usize;
        self.begun += 1;
        Some(index)
    }

    /// Begins the next file of `format` that has something, or of any format; `None` behind the
    /// last, and if all of them are bad.
    fn begin_next(&mut self, format: Option<&StreamFormat>) -> Result<Option<Begun>, MediaError> {
        for bad in 1..=self.files.len() {
            let Some(index) = self.advance() else {
                return Ok(None);
            };
            match begin(&self.files[index], &self.options, format) {
                Ok(begun) => return Ok(Some(begun)),
                Err(error) => self.pass_over(index, error),
            }
            if bad == BAD_IN_A_ROW_MAX {
                return Err(refused(
                    &self.files[index],
                    &format!(
                        "it is the last of {BAD_IN_A_ROW_MAX} entries in a row that cannot be \
                         sent: the playlist ends here"
                    ),
                ));
            }
        }
        Ok(None)
    }

    /// The file that was begun last was played whole, or failed in its middle.
    fn ended(&mut self, failure: Option<MediaError>) {
        let count = self.files.len().max(1) as u64;
        let index = (self.begun.saturating_sub(1) % count) as usize;
        match failure {
            Some(error) => self.pass_over(index, error),
            None => _ = self.bad.remove(&index),
        }
    }

    /// Keeps the reason, once for a file that is played again and again.
    fn pass_over(&mut self, index: usize, error: MediaError) {
        if self.bad.insert(index) {
            self.skipped.push_back(error);
        }
    }
}

/// Opens the file at `path` and reads its first unit.
fn begin(
    path: &Path,
    options: &OpenOptions,
    format: Option<&StreamFormat>,
) -> Result<Begun, MediaError> {
    let mut source = open_file(path, options)?;
    if let Some(format) = format {
        require_same(path, source.format(), format)?;
    }
    let first = source.next()?.as_ref().map(Owned::of);
    let first = first.ok_or_else(|| refused(path, "nothing that can be sent is in it"))?;
    Ok((source, first))
}

/// A playlist while it is played.
pub struct Playlist {
    list: List,
    format: StreamFormat,
    /// Of the first file.
    left_out: Vec<String>,
    current: Box<dyn Source + Send>,
    /// The first unit of `current`, read when that was opened and not given out yet.
    first: Option<Owned>,
    /// Opened when `current` ended; it takes its place with the next call.
    following: Option<Box<dyn Source + Send>>,
    /// A first unit while the caller has it.
    given: Option<Owned>,
    pieces: Pieces,
    /// Damaged places in files that ended.
    damaged: u64,
    /// Bytes of them in front of their first packets or frames.
    skipped_at_start: u64,
    /// Added to the times of `current`.
    shift: u64,
    /// The end of the latest unit, shifted.
    end: u64,
    /// Nothing is behind `current`, which has ended.
    is_over: bool,
}

impl std::fmt::Debug for Playlist {
    fn fmt(&self, formatter: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        formatter
            .debug_struct("Playlist")
            .field("list", &self.list)
            .finish_non_exhaustive()
    }
}

impl Playlist {
    /// Plays `files` in order, as often as `options` say.
    ///
    /// # Errors
    ///
    /// Those of [`open()`] for the first file if none can be played; [`MediaError::Input`] if there
    /// is none.
    pub fn new(files: Vec<PathBuf>, options: &OpenOptions) -> Result<Self, MediaError> {
        let mut list = List {
            files,
            options: options.clone(),
            begun: 0,
            bad: BTreeSet::new(),
            skipped: VecDeque::new(),
        };
        let begun = list.begin_next(None);
        let Ok(Some((current, first))) = begun else {
            let why = list.skipped.pop_front();
            return Err(why.unwrap_or_else(|| refused(Path::new("the playlist"), EMPTY)));
        };
        Ok(Self {
            format: current.format().clone(),
            left_out: current.left_out().to_vec(),
            list,
            current,
            first: Some(first),
            following: None,
            given: None,
            pieces: Pieces::default(),
            damaged: 0,
            skipped_at_start: 0,
            shift: 0,
            end: 0,
            is_over: false,
        })
    }
}

impl Source for Playlist {
    fn format(&self) -> &StreamFormat {
        &self.format
    }

    fn next(&mut self) -> Result<Option<Unit<'_>>, MediaError> {
        if let Some(following) = self.following.take() {
            self.damaged += self.current.damaged();
            self.skipped_at_start += self.current.skipped_at_start();
            self.current = following;
        }
        if let Some(first) = self.first.take() {
            let unit = self.given.insert(first).lend(&mut self.pieces);
            return Ok(Some(shifted(unit, self.shift, &mut self.end)));
        }
        if self.is_over {
            return Ok(None);
        }
        match self.current.next() {
            Ok(Some(unit)) => return Ok(Some(shifted(unit, self.shift, &mut self.end))),
            Ok(None) => self.list.ended(None),
            Err(error) => self.list.ended(Some(error)),
        }
        // Whatever comes of it, `current` is not asked again.
        self.is_over = true;
        let Some((source, first)) = self.list.begin_next(Some(&self.format))? else {
            return Ok(None);
        };
        self.is_over = false;
        self.shift = self.end;
        self.following = Some(source);
        let unit = self.given.insert(first).lend(&mut self.pieces);
        Ok(Some(shifted(unit, self.shift, &mut self.end)))
    }

    fn left_out(&self) -> &[String] {
        &self.left_out
    }

    fn damaged(&self) -> u64 {
        let following = self.following.as_ref();
        self.damaged + self.current.damaged() + following.map_or(0, |source| source.damaged())
    }

    fn skipped_at_start(&self) -> u64 {
        let following = self.following.as_ref();
        let ahead = following.map_or(0, |source| source.skipped_at_start());
        self.skipped_at_start + self.current.skipped_at_start() + ahead
    }

    fn skipped(&mut self) -> Option<MediaError> {
        self.list.skipped.pop_front()
    }
}

/// The unit, later by `shift`; `end` becomes where it ends if that is later.
fn shifted<'u>(unit: Unit<'u>, shift: u64, end: &mut u64) -> Unit<'u> {
    let unit = Unit {
        time: unit.time.saturating_add(shift),
        due: unit.due.saturating_add(shift),
        ..unit
    };
    let unit_end = unit.time.saturating_add(u64::from(unit.duration.max(1)));
    *end = unit_end.max(*end);
    unit
}

fn require_same(path: &Path, this: &StreamFormat, first: &StreamFormat) -> Result<(), MediaError> {
    if this == first {
        return Ok(());
    }
    let named = |format: &StreamFormat| {
        let parameters = match &format.parameters[..] {
            "" => String::new(),
            parameters => format!(" ({parameters})"),
        };
        let (name, clock_hz, channels) = (format.encoding.name(), format.clock_hz, format.channels);
        format!("{name}/{clock_hz}/{channels}{parameters}")
    };
    let (this, first) = (named(this), named(first));
    Err(refused(
        path,
        &format!("this is {this}, the files before it are {first}: one stream has one format"),
    ))
}

fn refused(path: &Path, reason: &str) -> MediaError {
    MediaError::Input {
        input: path.display().to_string(),
        position: 0,
        reason: reason.to_owned(),
    }
}

/// The files in `directory`, in the order of their names; hidden ones and directories are left out.
///
/// # Errors
///
/// [`MediaError::File`]; [`MediaError::Input`] if there is none.
fn files_in(directory: &Path) -> Result<Vec<PathBuf>, MediaError> {
    let failed = |source| MediaError::File {
        what: "list",
        path: directory.to_owned(),
        source,
    };
    let mut files = Vec::new();
    for entry in fs::read_dir(directory).map_err(failed)? {
        let entry = entry.map_err(failed)?;
        let is_hidden = entry.file_name().as_encoded_bytes().starts_with(b".");
        if !is_hidden && !entry.path().is_dir() {
            files.push(entry.path());
        }
    }
    files.sort();
    filled(files, directory)
}

/// The files that the .m3u file at `path` names, one a line; those without a root are beside it.
///
/// # Errors
///
/// [`MediaError::File`]; [`MediaError::Input`] if there is none.
fn files_named_in(path: &Path) -> Result<Vec<PathBuf>, MediaError> {
    let failed = |source| MediaError::File {
        what: "read",
        path: path.to_owned(),
        source,
    };
    let text = read_regular_text(path, M3U_BYTES_MAX).map_err(failed)?;
    let directory = path.parent().unwrap_or(Path::new(""));
    let lines = text.trim_start_matches('\u{feff}').lines().map(str::trim);
    let names = lines.filter(|line| !line.is_empty() && !line.starts_with('#'));
    filled(names.map(|name| directory.join(name)).collect(), path)
}

/// `files`, if there are any in what `path` names.
fn filled(files: Vec<PathBuf>, path: &Path) -> Result<Vec<PathBuf>, MediaError> {
    if files.is_empty() {
        return Err(refused(path, EMPTY));
    }
    Ok(files)
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe_rtp::format::Encoding;

    /// A WAV file of `frames` samples, all of them `sample`.
    fn wav(path: &Path, rate: u32, frames: usize, sample: i16) {
        let spec = hound::WavSpec {
            channels: 1,
            sample_rate: rate,
            bits_per_sample: 16,
            sample_format: hound::SampleFormat::Int,
        };
        let mut writer = hound::WavWriter::create(path, spec).unwrap();
        (0..frames).for_each(|_| writer.write_sample(sample).unwrap());
        writer.finalize().unwrap();
    }

    /// First sample, time and duration of each unit.
    fn units(source: &mut dyn Source) -> Result<Vec<(u8, u64, u32)>, MediaError> {
        let mut units = Vec::new();
        while let Some(unit) = source.next()? {
            units.push((unit.pieces[0][1], unit.time, unit.duration));
        }
        Ok(units)
    }

    #[test]
    fn files_follow_each_other_and_again() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        wav(&at("b.wav"), 8000, 200, 2);
        wav(&at("a.wav"), 8000, 300, 1);
        fs::write(at(".hidden"), "not played").unwrap();
        fs::create_dir(at("c")).unwrap();
        let once = [(1, 0, 160), (1, 160, 140), (2, 300, 160), (2, 460, 40)];
        let twice: Vec<_> = once
            .iter()
            .copied()
            .chain(once.map(|(file, time, length)| (file, time + 500, length)))
            .collect();
        let mut options = OpenOptions::default();
        let mut source = open(directory.path(), &options).unwrap();
        assert_eq!(units(&mut *source).unwrap(), once);
        assert!(source.next().unwrap().is_none());
        options.plays = 2;
        let mut source = open(directory.path(), &options).unwrap();
        assert_eq!(units(&mut *source).unwrap(), twice);

        let list = tempfile::tempdir().unwrap();
        let m3u = list.path().join("list.m3u");
        let text = format!(
            "\u{feff}#EXTM3U\r\n{}\r\n\r\nb.wav\r\n",
            at("a.wav").display()
        );
        fs::write(&m3u, text).unwrap();
        wav(&list.path().join("b.wav"), 8000, 200, 2);
        assert_eq!(units(&mut *open(&m3u, &options).unwrap()).unwrap(), twice);
        let mut endless = open(
            &at("a.wav"),
            &OpenOptions {
                plays: 0,
                ..options
            },
        )
        .unwrap();
        for count in 0..1000 {
            assert_eq!(
                endless.next().unwrap().unwrap().time,
                count / 2 * 300 + count % 2 * 160
            );
        }
    }

    #[test]
    fn file_of_another_format_is_named() {
        let directory = tempfile::tempdir().unwrap();
        wav(&directory.path().join("1.wav"), 8000, 10, 0);
        wav(&directory.path().join("2.wav"), 16_000, 10, 0);
        let mut source = open(directory.path(), &OpenOptions::default()).unwrap();
        assert_eq!(source.format().encoding, Encoding::L16);
        assert_eq!(units(&mut *source).unwrap(), [(0, 0, 10)]);
        let error = source.skipped().unwrap().to_string();
        assert!(
            error.contains("2.wav") && error.contains("L16/8000/1"),
            "{error}"
        );
        assert!(source.skipped().is_none());
    }

    /// An Opus stream of one packet, and another one behind it that does not fit to it.
    fn ends_in_an_error(path: &Path) {
        let page = |channels: u8, serial: u32| {
            let mut writer = ogg::PacketWriter::new(Vec::new());
            let mut head = b"OpusHead\x01".to_vec();
            head.extend([channels, 56, 1, 0x80, 0xbb, 0, 0, 0, 0, 0]);
            let end = ogg::PacketWriteEndInfo::EndPage;
            writer.write_packet(head, serial, end, 0).unwrap();
            let tags = b"OpusTags\0\0\0\0\0\0\0\0".to_vec();
            writer.write_packet(tags, serial, end, 0).unwrap();
            let packet = vec![0xfc, 0, 0, 0];
            let end = ogg::PacketWriteEndInfo::EndStream;
            writer.write_packet(packet, serial, end, 960).unwrap();
            writer.into_inner()
        };
        fs::write(path, [page(1, 1), page(2, 2)].concat()).unwrap();
    }

    #[test]
    fn bad_entries_are_passed_over_and_named_behind_the_good() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        wav(&at("a.wav"), 8000, 10, 1);
        wav(&at("b.wav"), 8000, 20, 2);
        wav(&at("empty.wav"), 8000, 0, 0);
        fs::write(at("text.wav"), "no media at all").unwrap();
        let list = at("list.m3u");
        let good = [(1, 0, 10), (2, 10, 20)];
        for names in [
            "empty.wav gone.wav a.wav b.wav text.wav",
            "a.wav text.wav empty.wav gone.wav b.wav",
            "a.wav b.wav gone.wav empty.wav text.wav",
        ] {
            fs::write(&list, names.replace(' ', "\n")).unwrap();
            let mut source = open(&list, &OpenOptions::default()).unwrap();
            assert_eq!(units(&mut *source).unwrap(), good, "{names}");
            assert!(source.next().unwrap().is_none());
            let bad = names
                .split(' ')
                .filter(|name| !"a.wav b.wav".contains(name));
            for bad in bad {
                let error = source.skipped().unwrap().to_string();
                assert!(error.contains(bad), "{names}: {error}");
            }
            assert!(source.skipped().is_none());
        }
        fs::write(&list, "text.wav\ngone.wav").unwrap();
        let refused = open(&list, &OpenOptions::default()).err().unwrap();
        assert!(refused.to_string().contains("text.wav"), "{refused}");
    }

    #[test]
    fn entry_that_fails_in_its_middle_is_followed_by_the_next() {
        let directory = tempfile::tempdir().unwrap();
        let at = |name: &str| directory.path().join(name);
        ends_in_an_error(&at("1.opus"));
        ends_in_an_error(&at("2.opus"));
        let options = OpenOptions {
            plays: 3,
            ..OpenOptions::default()
        };
        let mut source = open(directory.path(), &options).unwrap();
        let times = (0..6).map(|index| (0, index * 960, 960));
        assert_eq!(units(&mut *source).unwrap(), times.collect::<Vec<_>>());
        // Each is named once, however often it is played.
        for name in ["1.opus", "2.opus"] {
            let error = source.skipped().unwrap().to_string();
            assert!(
                error.contains(name) && error.contains("number of channels"),
                "{error}"
            );
        }
        assert!(source.skipped().is_none());
    }

    #[test]
    fn list_that_has_become_bad_ends() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("a.wav");
        wav(&path, 8000, 10, 1);
        let options = OpenOptions {
            plays: 0,
            ..OpenOptions::default()
        };
        let mut source = open(directory.path(), &options).unwrap();
        assert!(source.next().unwrap().is_some());
        fs::remove_file(&path).unwrap();
        assert!(source.next().unwrap().is_none());
        assert!(source.skipped().unwrap().to_string().contains("a.wav"));
        assert!(source.next().unwrap().is_none());

        wav(&path, 8000, 10, 1);
        let list = directory.path().join("list.m3u");
        let gone: String = (0..200).map(|index| format!("\n{index}.wav")).collect();
        fs::write(&list, format!("a.wav{gone}\na.wav")).unwrap();
        let mut source = open(&list, &OpenOptions::default()).unwrap();
        assert!(source.next().unwrap().is_some());
        let error = source.next().unwrap_err().to_string();
        assert!(
            error.contains("99.wav") && error.contains("100 entries"),
            "{error}"
        );
        assert!(source.next().unwrap().is_none());
    }

    #[test]
    fn empty_and_missing_playlists_are_refused() {
        let directory = tempfile::tempdir().unwrap();
        let options = OpenOptions::default();
        let error = open(directory.path(), &options).err().unwrap().to_string();
        let named = directory.path().display().to_string();
        assert!(
            error.contains("no file") && error.contains(&named),
            "{error}"
        );
        let m3u = directory.path().join("list.m3u");
        assert!(matches!(open(&m3u, &options), Err(MediaError::File { .. })));
        fs::write(&m3u, "# nothing\n").unwrap();
        let error = open(&m3u, &options).err().unwrap().to_string();
        assert!(error.contains("list.m3u, byte 0: no file"), "{error}");
        fs::write(&m3u, "gone.wav\n").unwrap();
        let error = open(&m3u, &options).err().unwrap().to_string();
        assert!(error.contains("gone.wav"), "{error}");
    }
}

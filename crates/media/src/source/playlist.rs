//! Whatever is to be sent: one file, or several, or one several times, as one continuous stream.
//! Time goes on, and all are of one format. Playlists (.m3u) go by their name, files by their first
//! bytes.

use std::fs;
use std::path::{Path, PathBuf};

use hythe_rtp::format::StreamFormat;
use hythe_rtp::unit::Unit;
use hythe_sys::regular_file::read_regular_text;

use super::open::open_file;
use super::{OpenOptions, Source};
use crate::MediaError;

/// The longest .m3u file that is read.
const M3U_BYTES_MAX: u64 = 16 << 20;
/// What is wrong with a playlist of nothing.
const EMPTY: &str = "no file is in it";

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
}

/// A file of a playlist, with its name.
type Opened<'l> = (&'l Path, Box<dyn Source + Send>);

impl List {
    /// Opens the next file; `None` behind the last.
    fn open_next(&mut self) -> Result<Option<Opened<'_>>, MediaError> {
        let count = self.files.len() as u64;
        let plays = self.options.plays;
        if count == 0 || plays != 0 && self.begun >= count.saturating_mul(plays) {
            return Ok(None);
        }
        let path = &self.files[(self.begun % count) as usize];
        self.begun += 1;
        Ok(Some((path, open_file(path, &self.options)?)))
    }
}

/// A playlist while it is played.
pub struct Playlist {
    list: List,
    format: StreamFormat,
    /// Of the first file.
    left_out: Vec<String>,
    current: Box<dyn Source + Send>,
    /// Opened when `current` ended; it takes its place with the next call.
    following: Option<Box<dyn Source + Send>>,
    /// Damaged places in files that ended.
    damaged: u64,
    /// Added to the times of `current`.
    shift: u64,
    /// The end of the latest unit, shifted.
    end: u64,
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
    /// Those of [`open()`] for the first file; [`MediaError::Input`] if there is none.
    pub fn new(files: Vec<PathBuf>, options: &OpenOptions) -> Result<Self, MediaError> {
        let mut list = List {
            files,
            options: options.clone(),
            begun: 0,
        };
        let Some((_, current)) = list.open_next()? else {
            return Err(refused(Path::new("the playlist"), EMPTY));
        };
        Ok(Self {
            format: current.format().clone(),
            left_out: current.left_out().to_vec(),
            list,
            current,
            following: None,
            damaged: 0,
            shift: 0,
            end: 0,
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
            self.current = following;
        }
        if let Some(unit) = self.current.next()? {
            return Ok(Some(shifted(unit, self.shift, &mut self.end)));
        }
        let Some((path, source)) = self.list.open_next()? else {
            return Ok(None);
        };
        require_same(path, source.format(), &self.format)?;
        self.shift = self.end;
        let unit = self.following.insert(source).next()?;
        // Sources refuse files without a unit, all but those of samples, where one that is empty
        // ends the list.
        Ok(unit.map(|unit| shifted(unit, self.shift, &mut self.end)))
    }

    fn left_out(&self) -> &[String] {
        &self.left_out
    }

    fn damaged(&self) -> u64 {
        let following = self.following.as_ref();
        self.damaged + self.current.damaged() + following.map_or(0, |source| source.damaged())
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
    fn a_file_of_another_format_is_named() {
        let directory = tempfile::tempdir().unwrap();
        wav(&directory.path().join("1.wav"), 8000, 10, 0);
        wav(&directory.path().join("2.wav"), 16_000, 10, 0);
        let mut source = open(directory.path(), &OpenOptions::default()).unwrap();
        assert_eq!(source.format().encoding, Encoding::L16);
        let error = units(&mut *source).unwrap_err().to_string();
        assert!(
            error.contains("2.wav") && error.contains("L16/8000/1"),
            "{error}"
        );
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

//! Reading a recording back: WAV files of 16-bit samples, as ffmpeg writes them.

use std::io::BufReader;
use std::path::Path;

use hound::{SampleFormat, WavReader};

use hythe_sys::regular_file::open_regular;

use crate::MediaError;
use hythe_rtp::L16;

/// A recording.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct Recording {
    /// Rate and channels.
    pub format: L16,
    /// The samples, channels interleaved.
    pub samples: Vec<i16>,
}

/// Reads all of the WAV file in `path`.
///
/// # Errors
///
/// [`MediaError::File`] if it cannot be read, [`MediaError::Recording`] if it holds anything but
/// 16-bit samples, or is damaged.
pub fn read(path: &Path) -> Result<Recording, MediaError> {
    let failed = |error| match error {
        hound::Error::IoError(source) => MediaError::File {
            what: "read the recording",
            path: path.to_owned(),
            source,
        },
        other => MediaError::Recording {
            path: path.to_owned(),
            reason: other.to_string(),
        },
    };
    let refused = |reason: String| MediaError::Recording {
        path: path.to_owned(),
        reason,
    };

    let file = open_regular(path).map_err(|source| failed(hound::Error::IoError(source)))?;
    let reader = WavReader::new(BufReader::new(file)).map_err(failed)?;
    let spec = reader.spec();
    if spec.sample_format != SampleFormat::Int || spec.bits_per_sample != 16 {
        return Err(refused(format!(
            "its samples have {} bits",
            spec.bits_per_sample
        )));
    }
    let channels = u8::try_from(spec.channels).unwrap_or(u8::MAX);
    let format =
        L16::new(spec.sample_rate, channels).map_err(|error| refused(error.to_string()))?;
    let samples = reader
        .into_samples()
        .collect::<Result<_, _>>()
        .map_err(failed)?;
    Ok(Recording { format, samples })
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::path::PathBuf;
    use std::{env, fs};

    fn path(name: &str) -> PathBuf {
        env::temp_dir().join(format!("hythe-wav-{name}-{}.wav", std::process::id()))
    }

    fn write(path: &Path, bits_per_sample: u16) {
        let spec = hound::WavSpec {
            channels: 2,
            sample_rate: 48_000,
            bits_per_sample,
            sample_format: SampleFormat::Int,
        };
        let mut writer = hound::WavWriter::create(path, spec).unwrap();
        for sample in [1, -2, 30, -40] {
            writer.write_sample(sample).unwrap();
        }
        writer.finalize().unwrap();
    }

    #[test]
    fn samples_come_back() {
        let path = path("whole");
        write(&path, 16);
        let recording = read(&path).unwrap();
        fs::remove_file(&path).unwrap();
        assert_eq!(recording.format, L16::new(48_000, 2).unwrap());
        assert_eq!(recording.samples, [1, -2, 30, -40]);
    }

    #[test]
    fn what_is_no_recording_is_refused() {
        let path = path("bad");
        assert!(matches!(read(&path), Err(MediaError::File { .. })));
        write(&path, 24);
        assert!(matches!(read(&path), Err(MediaError::Recording { .. })));
        fs::write(&path, "not a recording, by any means").unwrap();
        assert!(read(&path).is_err());
        fs::remove_file(&path).unwrap();
    }
}

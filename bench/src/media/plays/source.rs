//! The transport streams that are played: files without a name, which go with this process.

use std::fs::File;
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use super::PlaysCase;
use crate::error::BenchError;

/// Of the rate, what pictures may take; the rest are tables, headers and stuffing.
const PICTURES_PERCENT: u32 = 92;

/// Below it a small picture.
const FULL_SIZE_FROM_BITS: u32 = 4_000_000;

/// An open file, and where programs find it.
#[derive(Debug)]
pub(in super::super) struct StreamFile {
    bits_per_second: u32,
    file: File,
}

impl StreamFile {
    /// Is it what this case sends?
    pub(in super::super) fn is_of(&self, case: &PlaysCase) -> bool {
        self.bits_per_second == case.bits_per_second()
    }

    pub(in super::super) fn path(&self) -> String {
        format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd())
    }
}

/// One for each rate of these cases.
pub(in super::super) fn make(
    cases: impl Iterator<Item = PlaysCase>,
) -> Result<Vec<StreamFile>, BenchError> {
    let mut files: Vec<StreamFile> = Vec::new();
    for case in cases {
        if !files.iter().any(|file| file.is_of(&case)) {
            files.push(StreamFile {
                bits_per_second: case.bits_per_second(),
                file: stream(case.bits_per_second(), case.seconds)?,
            });
        }
    }
    Ok(files)
}

/// Pictures with noise, so that they take the rate that they are given; a constant rate, so that
/// the plain sender needs nothing but that.
fn stream(bits_per_second: u32, seconds: u16) -> Result<File, BenchError> {
    let (file, rate) = (tempfile::tempfile()?, bits_per_second.to_string());
    let pictures = (bits_per_second / 100 * PICTURES_PERCENT).to_string();
    let buffer = (bits_per_second / 4).to_string();
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-loglevel", "error", "-f", "lavfi", "-i"]);
    // So much of it as the rate has capacity for at the coarsest.
    let size = if bits_per_second < FULL_SIZE_FROM_BITS {
        "320x180"
    } else {
        "640x360"
    };
    command.arg(format!("testsrc2=size={size}:rate=25,noise=alls=40:allf=t"));
    command.args(["-t", &seconds.to_string(), "-c:v", "mpeg2video", "-g", "12"]);
    command.args([
        "-b:v", &pictures, "-minrate", &pictures, "-maxrate", &pictures,
    ]);
    command.args(["-bufsize", &buffer, "-muxrate", &rate, "-f", "mpegts", "-"]);
    hythe_sys::spawn::die_with_parent(&mut command);
    command.stdin(Stdio::null()).stderr(Stdio::null());
    command.stdout(file.try_clone()?);
    let status = command.status()?;
    let bytes = file.metadata()?.len();
    // A stream that does not keep its rate would be another one for who plays it by its clock and
    // for who plays it by its rate.
    if status.success() && is_of_rate(bytes, bits_per_second, seconds) {
        return Ok(file);
    }
    Err(BenchError::Unable(format!(
        "ffmpeg makes no MPEG transport stream of {seconds} s at {rate} bit/s: {status}, {bytes} \
         bytes"
    )))
}

/// Within 2 %, beside what pictures of the first second may wait for.
fn is_of_rate(bytes: u64, bits_per_second: u32, seconds: u16) -> bool {
    let wanted = u64::from(bits_per_second) / 8 * u64::from(seconds);
    bytes.abs_diff(wanted) <= wanted / 50 + u64::from(bits_per_second) / 8 / 10
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn stream_that_does_not_keep_its_rate_is_refused() {
        assert!(is_of_rate(6_248_556, 5_000_000, 10));
        assert!(is_of_rate(1_250_000, 5_000_000, 2));
        // Twice as much as was asked for.
        assert!(!is_of_rate(5_703_000, 2_000_000, 10));
        assert!(!is_of_rate(0, 5_000_000, 1));
    }
}

//! What is sent: files without a name, which go with this process, however it ends.

use std::fs::File;
use std::io::{BufWriter, Read, Seek, Write};
use std::os::fd::AsRawFd;
use std::process::{Command, Stdio};

use super::case::{Case, Content};
use super::message::Source;
use super::packets::HEADER_BYTES;
use super::plan::HEAD_PACKETS;
use crate::error::BenchError;

/// An open file, and where the ends find it.
#[derive(Debug)]
pub(super) struct MediaFile {
    content: Content,
    file: File,
}

impl MediaFile {
    pub(super) fn source(&self) -> Source {
        Source {
            content: self.content,
            path: format!("/proc/{}/fd/{}", std::process::id(), self.file.as_raw_fd()),
        }
    }
}

/// What these cases send.
pub(super) fn make(
    cases: impl Iterator<Item = Case> + Clone,
) -> Result<Vec<MediaFile>, BenchError> {
    let bytes_of = |content| {
        let bytes = cases.clone().filter(|case| case.content == content);
        let bytes = bytes
            .map(|case| (usize::from(case.packet_bytes) - HEADER_BYTES) * case.packets as usize);
        bytes.max()
    };
    let mut files = Vec::new();
    if let Some(bytes) = bytes_of(Content::Noise) {
        let content = Content::Noise;
        files.push(MediaFile {
            content,
            file: noise(bytes)?,
        });
    }
    if let Some(bytes) = bytes_of(Content::TransportStream) {
        let each = cases
            .clone()
            .find(|case| case.content == Content::TransportStream);
        let each = each.map_or(0, |case| usize::from(case.packet_bytes) - HEADER_BYTES);
        let stream = transport_stream(bytes)?;
        let head = &stream[..bytes.min(each * HEAD_PACKETS as usize)];
        for (content, bytes) in [
            (Content::TransportStream, &stream[..]),
            (Content::TransportStreamHead, head),
        ] {
            let mut file = tempfile::tempfile()?;
            file.write_all(bytes)?;
            file.rewind()?;
            files.push(MediaFile { content, file });
        }
    }
    Ok(files)
}

/// No two packets of it are the same.
fn noise(bytes: usize) -> Result<File, BenchError> {
    let file = tempfile::tempfile()?;
    let mut out = BufWriter::new(file);
    for index in 0..bytes.div_ceil(8) as u64 {
        // Weyl's sequence, spread by a multiplication (splitmix64's first half).
        let state = (index + 1).wrapping_mul(0x9e37_79b9_7f4a_7c15);
        let word = (state ^ state >> 30).wrapping_mul(0xbf58_476d_1ce4_e5b9);
        let left = bytes - index as usize * 8;
        out.write_all(&word.to_le_bytes()[..left.min(8)])?;
    }
    Ok(out
        .into_inner()
        .map_err(std::io::IntoInnerError::into_error)?)
}

/// Moving pictures, each coded by itself: few and large pictures are the cheapest for who packs
/// them anew.
fn transport_stream(bytes: usize) -> Result<Vec<u8>, BenchError> {
    let mut command = Command::new("ffmpeg");
    command.args(["-nostdin", "-loglevel", "error", "-f", "lavfi"]);
    command.args(["-i", "testsrc2=size=1280x720:rate=25", "-c:v", "mpeg2video"]);
    command.args(["-g", "1", "-qscale:v", "1", "-f", "mpegts", "-"]);
    hythe_sys::spawn::die_with_parent(&mut command);
    command.stdin(Stdio::null()).stdout(Stdio::piped());
    command.stderr(Stdio::null());
    let mut ffmpeg = command.spawn()?;
    let mut stream = vec![0; bytes];
    let read = match &mut ffmpeg.stdout {
        Some(output) => output.read_exact(&mut stream),
        None => Ok(()),
    };
    // It would go on for ever.
    let _ = ffmpeg.kill();
    let _ = ffmpeg.wait();
    read.map_err(|error| {
        BenchError::Unable(format!("ffmpeg makes no MPEG transport stream: {error}"))
    })?;
    Ok(stream)
}

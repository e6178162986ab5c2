//! The real program: recorded on the board, twice, and put into an image together with the pack.
//!
//! The recording is a boot of its own, without the hog: `hythe-preload` comes on one disk, and the
//! pack leaves on another. Never records on this machine, whose kernel and caches are others.

use std::fs::{self, File};
use std::path::Path;
use std::process::Command;

use hythe_preload::PreloadError;
use hythe_preload::pack::{PAGE_BYTES, Pack};

use super::board::{Boot, Recorder};
use super::boot;
use super::case::{FileSystem, Way};
use super::guest::Guest;
use super::image::{Content, Image, run};
use crate::error::{BenchError, BootError};
use crate::lookout::Lookout;

/// Space for a pack; the disk that it arrives on.
const PACK_DISK_BYTES: u64 = 1 << 20;

/// Ready to be booted.
#[derive(Debug)]
pub(super) struct Application {
    pub(super) image: Image,
    /// What the program needs, by the first recording.
    pub(super) bytes: usize,
    pub(super) recorded: Recorded,
}

/// How two recordings of the same compare.
#[derive(Clone, Debug)]
pub(super) struct Recorded {
    pub(super) file_system: FileSystem,
    pub(super) bytes: usize,
    /// Extents in both by extents in either: 1 if they are the same.
    pub(super) agreement: f64,
}

impl Application {
    pub(super) fn prepare(
        guest: &Guest,
        file_system: FileSystem,
        folder: &Path,
        lookout: &Lookout,
    ) -> Result<Self, BenchError> {
        let root = folder.join("application");
        let program = guest.recorder()?;
        // A copy, for the pack: with times and links as they are.
        run(Command::new("cp")
            .arg("-a")
            .arg(guest.application()?)
            .arg(&root))?;
        let name = format!("{file_system}-application.image");
        let make = || Image::of(folder, &root, &name, file_system, Content::Application);
        let bare = make()?;
        let record = || record(guest, &bare, &program, folder, lookout);
        let packs = [record()?, record()?];
        packs[0]
            .write(&root.join("pack"))
            .map_err(BootError::from)?;
        let image = make()?;
        fs::remove_dir_all(&root)?;
        let bytes = usize::try_from(packs[0].pages() * PAGE_BYTES).unwrap_or(usize::MAX);
        Ok(Self {
            image,
            bytes,
            recorded: Recorded {
                file_system,
                bytes,
                agreement: agreement(&packs),
            },
        })
    }
}

fn record(
    guest: &Guest,
    image: &Image,
    program: &Path,
    folder: &Path,
    lookout: &Lookout,
) -> Result<Pack, BenchError> {
    let output = folder.join("recorded.pack");
    File::create(&output)?.set_len(PACK_DISK_BYTES)?;
    let boot = Boot {
        guest,
        image,
        way: Way::ApplicationPlain,
        recorder: Some(Recorder {
            program,
            output: &output,
        }),
    };
    boot::run(&boot, folder, lookout)?;
    let disk = fs::read(&output)?;
    Ok(unpad(&disk).map_err(BootError::from)?)
}

/// The pack at the beginning of a disk: its header says how long it is (`spec/pack.md`).
fn unpad(disk: &[u8]) -> Result<Pack, PreloadError> {
    let length = disk.get(16..20).and_then(|bytes| bytes.try_into().ok());
    let length = u32::from_le_bytes(length.unwrap_or_default()) as usize;
    Pack::from_bytes(disk.get(..length).unwrap_or(disk))
}

/// Pages in both, by pages in either.
fn agreement(packs: &[Pack; 2]) -> f64 {
    let [first, second] = packs.each_ref().map(|pack| {
        let mut extents: Vec<_> = pack
            .extents
            .iter()
            .map(|extent| {
                (
                    &pack.files[extent.file as usize].path,
                    extent.first_page,
                    extent.pages,
                )
            })
            .collect();
        extents.sort();
        extents
    });
    let both = first
        .iter()
        .filter(|extent| second.contains(extent))
        .count();
    both as f64 / (first.len() + second.len() - both) as f64
}

#[cfg(test)]
mod tests {
    use super::*;
    use hythe_preload::pack::{Extent, PackFile};
    use std::path::PathBuf;

    fn pack(extents: &[(u32, u32)]) -> Pack {
        let file = PackFile {
            path: PathBuf::from("/flash/usr/bin/curl"),
            size: 1 << 20,
            mtime_ns: 0,
            inode: 0,
        };
        let extents = extents.iter().map(|&(first_page, pages)| Extent {
            file: 0,
            first_page,
            pages,
        });
        Pack {
            any_inode: true,
            files: vec![file],
            extents: extents.collect(),
        }
    }

    #[test]
    fn recordings_agree_whatever_their_order() {
        let all = pack(&[(0, 4), (8, 2)]);
        assert_eq!(agreement(&[all.clone(), pack(&[(8, 2), (0, 4)])]), 1.0);
        assert_eq!(agreement(&[all.clone(), pack(&[(0, 4)])]), 0.5);
        assert_eq!(agreement(&[all, pack(&[(0, 5)])]), 0.0);
    }

    #[test]
    fn pack_is_found_on_a_disk_that_is_larger() {
        let made = pack(&[(0, 4)]);
        let mut disk = made.to_bytes().expect("sound");
        disk.resize(4096, 0);
        assert_eq!(unpad(&disk).expect("found"), made);
        assert!(unpad(&[0; 4096]).is_err());
        assert!(unpad(&[]).is_err());
    }
}

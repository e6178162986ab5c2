//! Files on a real disk, whose pages can be dropped from the page cache and counted there.
//!
//! Never on a file system in memory: there is nothing to read ahead. Tests are skipped loudly where
//! there is no disk.

use std::fs::{self, File};
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};

use hythe_preload::PreloadError;
use hythe_preload::pack::{Extent, PAGE_BYTES, Pack, PackFile};
use hythe_preload::replay::{Free, Memory, Options, Outcome, replay};
use hythe_sys::file_pages::FilePages;
use rustix::fs::{Advice, fadvise, statfs};
use rustix::param::page_size;

const EXT4: u32 = 0xef53;

/// A directory on a disk, removed at the end.
#[derive(Debug)]
pub(crate) struct Disk(tempfile::TempDir);

impl Disk {
    /// None, loudly, where it is not ext4: other file systems may load more than what is asked for.
    pub(crate) fn new() -> Option<Self> {
        let place = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("a place");
        let kind = statfs(place.path()).expect("mounted").f_type;
        if kind as u32 != EXT4 || page_size() as u64 != PAGE_BYTES {
            println!(
                "SKIPPED: {} is not on ext4 (type {kind:#x}) with pages of {PAGE_BYTES} bytes; set CARGO_TARGET_DIR to one",
                place.path().display()
            );
            return None;
        }
        Some(Self(place))
    }

    pub(crate) fn path(&self) -> &Path {
        self.0.path()
    }

    /// A file of so many pages, written and dropped from the page cache.
    pub(crate) fn file(&self, name: &str, pages: u32) -> PathBuf {
        let path = self.path().join(name);
        fs::write(&path, vec![b'x'; pages as usize * PAGE_BYTES as usize]).expect("room");
        drop_pages(&path);
        path
    }
}

/// Takes all pages of a file out of the page cache.
pub(crate) fn drop_pages(path: &Path) {
    let file = File::open(path).expect("own");
    file.sync_all().expect("a disk");
    fadvise(&file, 0, None, Advice::DontNeed).expect("known");
    assert_eq!(resident(path), [] as [u32; 0], "dropped");
}

/// The pages of a file that are in the page cache.
pub(crate) fn resident(path: &Path) -> Vec<u32> {
    let file = File::open(path).expect("own");
    let bytes = file.metadata().expect("open").len() as usize;
    let pages = FilePages::map(&file, 0, bytes).expect("mappable");
    let there = pages.resident().expect("mapped");
    (0..)
        .zip(there)
        .filter(|(_, there)| *there)
        .map(|(page, _)| page)
        .collect()
}

pub(crate) fn entry(path: &Path) -> PackFile {
    let status = fs::symlink_metadata(path).expect("there");
    PackFile {
        path: path.to_owned(),
        size: status.len(),
        mtime_ns: status.mtime() * 1_000_000_000 + status.mtime_nsec(),
        inode: status.ino(),
    }
}

/// A pack of `files`, and ranges of them: file, first page, pages.
pub(crate) fn pack(files: &[&Path], extents: &[(u32, u32, u32)]) -> Pack {
    let extent = |&(file, first_page, pages): &(u32, u32, u32)| Extent {
        file,
        first_page,
        pages,
    };
    Pack {
        any_inode: false,
        files: files.iter().map(|path| entry(path)).collect(),
        extents: extents.iter().map(extent).collect(),
    }
}

/// Memory without end, until the `looks`-th look; then it does something, and may be scarce.
pub(crate) struct Fake<F> {
    pub(crate) looks: u32,
    pub(crate) then: F,
}

impl<F: FnMut() -> Option<String> + Send> Memory for Fake<F> {
    fn available(&mut self) -> Result<Free, PreloadError> {
        Ok(Free {
            available: 1 << 40,
            floor: 0,
        })
    }

    fn pressure(&mut self) -> Option<String> {
        self.looks = self.looks.saturating_sub(1);
        if self.looks > 0 {
            return None;
        }
        (self.then)()
    }
}

/// Reads ahead with memory in plenty.
pub(crate) fn run(pack: &Pack, options: &Options) -> Outcome {
    let mut memory = Fake {
        looks: 1,
        then: || None,
    };
    let done = replay(pack, options, &mut memory, &|_| {}).expect("a root");
    sums_up(&done);
    done
}

/// Every page of the pack has one fate.
pub(crate) fn sums_up(done: &Outcome) {
    let pages = done.pages;
    let sum = pages.loaded
        + pages.already_there
        + pages.changed
        + pages.over_budget
        + pages.failed
        + pages.not_reached;
    assert_eq!(sum, pages.asked, "{done:?}");
}

//! What became of pages that were read ahead: used, unused, or gone.
//!
//! A page was used if a process maps it (`/proc/kpagecount`), or if the kernel has marked it as
//! referenced or active (`/proc/kpageflags`), which `read(2)` does at once and the end of a mapping
//! does for what was touched through it. Reading ahead leaves neither mark, except by `read`; there
//! only the second use shows, as active. Frames are found by mapping the file and fetching what is
//! there, which leaves no mark either. Never loads a page to look at it.

use std::fs::{self, File};
use std::io;
use std::num::NonZeroU64;
use std::os::fd::AsFd;
use std::os::unix::fs::FileExt;
use std::path::Path;

use hythe_sys::file_pages::Sink;
use hythe_sys::regular_file::open_regular;
use rustix::fs::{Advice, fadvise};
use rustix::param::page_size;

use super::Usage;
use crate::cached::{Cached, MAPPED_PAGES};
use crate::pack::{Extent, Pack};
use crate::replay::{Root, pieces};

/// Bits of `/proc/kpageflags`, as `include/uapi/linux/kernel-page-flags.h` numbers them.
const REFERENCED: u64 = 1 << 2;
const ACTIVE: u64 = 1 << 6;
const COMPOUND_TAIL: u64 = 1 << 16;
/// Most frames of a folio: 512 MiB where a page has 64 KiB; with pages of 4 KiB none has more than
/// 512.
const FOLIO_FRAMES: u64 = 8192;
/// The frame number in an entry of `/proc/self/pagemap`.
const FRAME_MASK: u64 = (1 << 55) - 1;

/// What is asked about.
pub(super) struct Question<'a> {
    pub(super) pack: &'a Pack,
    pub(super) pack_path: &'a Path,
    pub(super) root: &'a Root,
    /// What was read ahead.
    pub(super) read: &'a [Extent],
    /// Did reading ahead itself mark the pages of this file as used?
    pub(super) marked: &'a dyn Fn(u32, &File) -> bool,
}

/// Looks at all of them.
pub(super) fn look(question: &Question<'_>) -> Usage {
    let mut usage = Usage {
        read: question
            .read
            .iter()
            .map(|extent| u64::from(extent.pages))
            .sum(),
        ..Usage::default()
    };
    let frames = match Frames::open() {
        Ok(frames) => Some(frames),
        Err(error) => {
            let limit = format!(
                "which pages were used is told to root only ({error}); which are still there, to the owners of the files"
            );
            usage.limits.push(limit);
            None
        }
    };
    settle_marks(question.pack_path);
    let mut hidden = false;
    for extent in question.read {
        let before = usage.used + usage.unused + usage.evicted;
        hidden |= look_at(question, *extent, frames.as_ref(), &mut usage).unwrap_or(false);
        let known = usage.used + usage.unused + usage.evicted - before;
        usage.unknown += u64::from(extent.pages) - known;
    }
    if hidden && multi_generation() {
        usage.limits.push("files were loaded by read, and this kernel (multi-generation LRU) does not show a second use: they count as unused unless mapped".to_owned());
    }
    usage
}

/// Enters the pages of one extent; was the file one that reading ahead marked itself? Errors leave
/// the rest of it unknown.
fn look_at(
    question: &Question<'_>,
    extent: Extent,
    frames: Option<&Frames>,
    usage: &mut Usage,
) -> io::Result<bool> {
    let wanted = &question.pack.files[extent.file as usize];
    let opened = question
        .root
        .open_unchanged(wanted, question.pack.any_inode)
        .map_err(|why| io::Error::other(why.to_string()))?;
    if !opened.residency_visible {
        return Ok(false);
    }
    let marked = (question.marked)(extent.file, &opened.file);
    let signs = if marked { ACTIVE } else { ACTIVE | REFERENCED };
    for piece in pieces(extent, MAPPED_PAGES) {
        let pages = Cached::map(&opened.file, piece)?;
        let resident = pages.resident()?;
        usage.evicted += resident.iter().filter(|there| !**there).count() as u64;
        let Some(frames) = frames else { continue };
        for (page, _) in (0..).zip(&resident).filter(|(_, there)| **there) {
            match frames.is_used(&pages, page, signs) {
                Some(true) => usage.used += 1,
                Some(false) => usage.unused += 1,
                None => {}
            }
        }
    }
    Ok(marked)
}

/// Where the kernel tells about frames. Only to root.
struct Frames {
    page_map: File,
    flags: File,
    counts: File,
    sink: Sink,
}

impl Frames {
    fn open() -> io::Result<Self> {
        let open = |path: &str| {
            File::open(path).map_err(|error| io::Error::other(format!("{path}: {error}")))
        };
        Ok(Self {
            page_map: open("/proc/self/pagemap")?,
            flags: open("/proc/kpageflags")?,
            counts: open("/proc/kpagecount")?,
            sink: Sink::new()?,
        })
    }

    /// Has anybody used it? None: the kernel does not tell.
    fn is_used(&self, pages: &Cached, page: u32, signs: u64) -> Option<bool> {
        pages.fetch(page, &self.sink).ok()?;
        let entry = word(&self.page_map, pages.virtual_page(page))?;
        // Frame 0 is never a file's: it stands for one that is not told.
        let frame = NonZeroU64::new(entry & FRAME_MASK)?.get();
        // One mapping is ours.
        let mapped = word(&self.counts, frame)? > 1;
        Some(mapped || self.flags_of(frame)? & signs != 0)
    }

    /// The flags of a frame. Of a large folio older kernels show them at its first frame only.
    fn flags_of(&self, frame: u64) -> Option<u64> {
        let own = word(&self.flags, frame)?;
        let mut all = own;
        let mut head = frame;
        while all & COMPOUND_TAIL != 0 && head > frame.saturating_sub(FOLIO_FRAMES) {
            head -= 1;
            all = word(&self.flags, head)?;
        }
        Some(own | all)
    }
}

fn word(file: &File, index: u64) -> Option<u64> {
    let mut bytes = [0; 8];
    file.read_exact_at(&mut bytes, index.checked_mul(8)?).ok()?;
    Some(u64::from_ne_bytes(bytes))
}

/// Makes the kernel enter the marks that it still gathers for each processor. A page that is
/// mapped, and is asked to leave the cache, makes it do so everywhere, to see whether that is what
/// holds the page; the pack is at hand and was just read.
fn settle_marks(pack: &Path) {
    let settle = || -> io::Result<()> {
        let file = open_regular(pack)?;
        let first = Extent {
            file: 0,
            first_page: 0,
            pages: 1,
        };
        let page = Cached::map(file.as_fd(), first)?;
        page.fetch(0, &Sink::new()?)?;
        // Whole pages of the machine only are asked to leave.
        let whole = NonZeroU64::new(page_size() as u64);
        fadvise(&file, 0, whole, Advice::DontNeed)?;
        Ok(())
    };
    // Without it, a few pages that were used at last may count as unused.
    let _ = settle();
}

/// Does this kernel keep pages by generations? Then active is no sign.
fn multi_generation() -> bool {
    let text = fs::read_to_string("/sys/kernel/mm/lru_gen/enabled").unwrap_or_default();
    let digits = text.trim().trim_start_matches("0x");
    u32::from_str_radix(digits, 16).is_ok_and(|enabled| enabled & 1 == 1)
}

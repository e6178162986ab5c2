//! The kernel's own account of what comes into the page cache, where it keeps one: tracefs.
//!
//! It tells each page at the moment when it was first needed, in order, and also pages that are
//! thrown out again before the recording ends. A recorder uses it beside everything else if tracefs
//! is mounted, in an instance of its own, which the guard removes. Never switches on anything that
//! is not its own, never mounts tracefs.

use std::collections::HashMap;
use std::fs::{self, File, OpenOptions};
use std::io::Read;
use std::os::unix::fs::OpenOptionsExt;
use std::path::PathBuf;

use rustix::fs::{OFlags, major, minor};

use super::Inode;
use super::guard::{Guard, Undo};
use super::mounts::Mounts;
use crate::PreloadError;
use crate::pack::PAGE_BYTES;

const EVENT: &str = "mm_filemap_add_to_page_cache";
/// Read at a time.
const CHUNK_BYTES: usize = 64 << 10;
/// Pages that are remembered at most: 16 GiB of them. What comes later is found by its residency.
const MOST_PAGES: u64 = 4 << 20;

/// How far a word of 32 bits counts.
const NARROW_BYTES: u64 = 1 << 32;

/// A device's numbers and an inode's, as the kernel prints them.
type Name = (u32, u32, u64);

/// First need of a page: how many pages were needed before, and which page of [`PAGE_BYTES`] it is.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Need {
    pub(super) order: u64,
    pub(super) page: u64,
}

/// What was needed, by file.
#[derive(Debug, Default)]
pub(super) struct Needs {
    files: HashMap<Name, Vec<Need>>,
    count: u64,
    /// The kernel's words have 32 bits: of an inode number, and of a place in a file, it tells the
    /// low ones.
    narrow: bool,
    /// How often the kernel overwrote what was not read yet.
    pub(super) lost: u64,
}

/// An instance that traces.
#[derive(Debug)]
pub(super) struct Trace {
    instance: PathBuf,
    pipe: File,
    /// The line that is not whole yet.
    rest: Vec<u8>,
    pub(super) needs: Needs,
}

impl Trace {
    /// Begins, if the kernel can.
    pub(super) fn begin(guard: &mut Guard) -> Result<Option<Self>, PreloadError> {
        let mounts = Mounts::read()?;
        let Some(mount) = mounts.all().iter().find(|mount| mount.kind == "tracefs") else {
            return Ok(None);
        };
        let name = format!("hythe-record-{}", std::process::id());
        let instance = mount.point.join("instances").join(name);
        guard.before(Undo::RemoveInstance(instance.clone()))?;
        Ok(Self::in_instance(instance).ok())
    }

    fn in_instance(instance: PathBuf) -> std::io::Result<Self> {
        fs::create_dir(&instance)?;
        let event = instance.join("events/filemap").join(EVENT);
        let needs = Needs {
            narrow: is_narrow(&fs::read_to_string(event.join("format"))?),
            ..Needs::default()
        };
        fs::write(event.join("enable"), "1")?;
        let pipe = OpenOptions::new()
            .read(true)
            .custom_flags(OFlags::NONBLOCK.bits().cast_signed())
            .open(instance.join("trace_pipe"))?;
        Ok(Self {
            instance,
            pipe,
            rest: Vec::new(),
            needs,
        })
    }

    /// Takes what was told since the last time.
    pub(super) fn take(&mut self) {
        let mut chunk = vec![0; CHUNK_BYTES];
        // Nothing to read is an error here, and so is the end of the instance.
        while let Ok(length @ 1..) = self.pipe.read(&mut chunk) {
            self.rest.extend(&chunk[..length]);
            let Some(end) = self.rest.iter().rposition(|byte| *byte == b'\n') else {
                continue;
            };
            let whole: Vec<u8> = self.rest.drain(..=end).collect();
            for line in String::from_utf8_lossy(&whole).lines() {
                self.needs.enter(line);
            }
        }
    }

    /// Takes the last, and ends.
    pub(super) fn finish(mut self) -> Needs {
        let _ = fs::write(self.instance.join("tracing_on"), "0");
        self.take();
        self.needs
    }
}

impl Needs {
    /// The pages of a file of `bytes` bytes, in the order of their first need. Empty for files
    /// whose device `stat` calls otherwise than the kernel (btrfs), and for those of more than 4
    /// GiB where the kernel does not tell which of them it means.
    pub(super) fn of(&self, inode: Inode, bytes: u64) -> &[Need] {
        let mut number = inode.number;
        if self.narrow {
            if bytes > NARROW_BYTES {
                return &[];
            }
            number %= NARROW_BYTES;
        }
        let name = (major(inode.device), minor(inode.device), number);
        self.files.get(&name).map_or(&[], Vec::as_slice)
    }

    fn enter(&mut self, line: &str) {
        if line.starts_with("CPU:") && line.contains("LOST") {
            self.lost += 1;
            return;
        }
        let Some((name, pages)) = added(line) else {
            return;
        };
        for page in pages {
            if self.count >= MOST_PAGES {
                return;
            }
            let order = self.count;
            self.count += 1;
            self.files
                .entry(name)
                .or_default()
                .push(Need { order, page });
        }
    }
}

/// Does a kernel that describes its event so have words of 32 bits? A recorder of 32 bits may run
/// under one of 64.
fn is_narrow(format: &str) -> bool {
    let inode = format.lines().find(|line| line.contains(" i_ino;"));
    inode.is_some_and(|line| line.contains("size:4;"))
}

/// File and pages of a line: `… mm_filemap_add_to_page_cache: dev 254:0 ino 1a2b pfn=0x3c4d
/// ofs=4096 order=0`.
fn added(line: &str) -> Option<(Name, std::ops::Range<u64>)> {
    let (_, told) = line.split_once(EVENT)?;
    let mut words = told.split_whitespace();
    let mut after = |word: &str| words.by_ref().skip_while(|found| *found != word).nth(1);
    let (major, minor) = after("dev")?.split_once(':')?;
    let inode = u64::from_str_radix(after("ino")?, 16).ok()?;
    let value = |key: &str| {
        told.split_whitespace()
            .find_map(|word| word.strip_prefix(key))
    };
    let first = value("ofs=")?.parse::<u64>().ok()? / PAGE_BYTES;
    // Kernels without large folios do not say it.
    let order: u32 = value("order=").map_or(Some(0), |order| order.parse().ok())?;
    let bytes = (rustix::param::page_size() as u64).checked_shl(order)?;
    let name = (major.parse().ok()?, minor.parse().ok()?, inode);
    Some((name, first..first + bytes / PAGE_BYTES))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_of_new_and_old_kernels_are_understood() {
        let new = "     cat-321   [001] .....  12.345678: mm_filemap_add_to_page_cache: dev 254:1 ino 1a2b pfn=0x3c4d ofs=8192 order=0";
        let old = " sh-3 [000] .... 1.2: mm_filemap_add_to_page_cache: dev 0:23 ino ff page=00000000f00f pfn=12 ofs=0";
        let units = rustix::param::page_size() as u64 / PAGE_BYTES;
        assert_eq!(added(new), Some(((254, 1, 0x1a2b), 2..2 + units)));
        assert_eq!(added(old), Some(((0, 23, 0xff), 0..units)));
        assert_eq!(
            added("x: mm_filemap_delete_from_page_cache: dev 1:1 ino 1 ofs=0"),
            None
        );
        let mut needs = Needs::default();
        needs.enter(new);
        needs.enter("CPU:1 [LOST 17 EVENTS]");
        needs.enter(old);
        assert_eq!(needs.lost, 1);
        let device = rustix::fs::makedev(0, 23);
        let file = Inode {
            device,
            number: 255,
        };
        let of = needs.of(file, 1);
        assert_eq!(
            of.first(),
            Some(&Need {
                order: units,
                page: 0
            })
        );
        assert!(needs.of(Inode { device, number: 1 }, 1).is_empty());
    }

    #[test]
    fn what_a_kernel_of_32_bits_cannot_tell_is_not_believed() {
        let format = |bytes: u32| {
            format!(
                "\tfield:unsigned long pfn;\toffset:8;\tsize:{bytes};\tsigned:0;\n\tfield:unsigned long i_ino;\toffset:16;\tsize:{bytes};\tsigned:0;\n"
            )
        };
        assert!(is_narrow(&format(4)) && !is_narrow(&format(8)) && !is_narrow(""));
        let device = rustix::fs::makedev(0, 23);
        let long = Inode {
            device,
            number: 0x7_0000_00ff,
        };
        for narrow in [false, true] {
            let mut needs = Needs {
                narrow,
                ..Needs::default()
            };
            needs.enter("x: mm_filemap_add_to_page_cache: dev 0:23 ino ff pfn=0x12 ofs=4096");
            assert_eq!(!needs.of(long, NARROW_BYTES).is_empty(), narrow);
            let short = Inode {
                number: 255,
                ..long
            };
            assert!(!needs.of(short, NARROW_BYTES).is_empty());
            // Page 1, or the one 4 GiB behind it?
            assert_eq!(needs.of(short, NARROW_BYTES + 1).is_empty(), narrow);
        }
    }
}

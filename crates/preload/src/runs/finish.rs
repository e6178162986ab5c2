//! Start-up is over: what is to be learnt of it is entered into the history.
//!
//! Called by a unit of systemd, a script, or the application itself, once for each start-up. Never
//! enters a start-up twice.

use std::fs;
use std::io;
use std::path::{Path, PathBuf};

use hythe_terminal::escaped;
use rustix::fs::fstatfs;

use super::history::{self, Entry};
use super::kernel_log::{InitRun, KernelLog};
use super::mark::{self, Mark, SYSTEM_RUN_DIRECTORY};
use super::usage::{self, Question};
use super::{MeasuredFrom, Reader, Run, Usage, off};
use crate::PreloadError;
use crate::pack::{Extent, PAGE_BYTES, Pack};
use crate::replay::{Root, within_budget};

/// File systems on which `preload-init` reads, since `readahead` loads nothing: UBIFS and JFFS2.
const READ_BY_INIT: [u32; 2] = [0x2405_1905, 0x72b6];

/// Where to look.
#[derive(Clone, Debug)]
pub struct FinishOptions {
    /// Time start-up from the start of the machine, also where nobody read ahead.
    pub from_boot: bool,
    /// The directory that paths of the pack begin at; none: the root.
    pub root: Option<PathBuf>,
    /// Where replays leave their marks, in the order in which to look.
    pub run_directories: Vec<PathBuf>,
    /// The kernel's log.
    pub kernel_log: PathBuf,
}

impl Default for FinishOptions {
    fn default() -> Self {
        let mut run_directories: Vec<PathBuf> = mark::run_directory().into_iter().collect();
        if run_directories
            .iter()
            .all(|own| own != Path::new(SYSTEM_RUN_DIRECTORY))
        {
            run_directories.push(SYSTEM_RUN_DIRECTORY.into());
        }
        Self {
            from_boot: false,
            root: None,
            run_directories,
            kernel_log: "/dev/kmsg".into(),
        }
    }
}

/// What became of a start-up.
#[derive(Clone, Debug)]
pub enum Finish {
    /// It is in the history.
    Entered(Finished),
    /// It is the boot in which the pack was recorded: there is nothing to learn of it yet.
    Recorded,
}

/// A start-up that was entered.
#[derive(Clone, Debug)]
pub struct Finished {
    /// It.
    pub run: Run,
    /// The history with it.
    pub entries: Vec<Entry>,
}

/// What is known of how the start-up began.
struct Begun {
    by: Reader,
    read: bool,
    reading_ns: u64,
    began_ns: u64,
    /// What was read ahead.
    extents: Vec<Extent>,
    marked_files: Vec<u32>,
}

/// Ends the start-up that began with the last replay of `pack`, and enters it into the history.
///
/// # Errors
/// [`PreloadError::NoRun`] if nothing says that one began, or it has been entered already; the
/// pack, or the place of its history, cannot be read or written.
pub fn finish(pack_path: &Path, options: &FinishOptions) -> Result<Finish, PreloadError> {
    let now_ns = mark::boottime_ns();
    let pack = Pack::read(pack_path)?;
    let checksum = mark::pack_checksum(pack_path)?;
    let boot_id = mark::boot_id()?;
    let root = Root::open(options.root.as_deref())?;
    let Some(begun) = begun(pack_path, &pack, &root, options)? else {
        return Ok(Finish::Recorded);
    };
    refuse_twice(pack_path, &boot_id, &begun)?;
    let from_boot = options.from_boot || begun.by == Reader::Nobody;
    let run = Run {
        finished_unix_s: off::unix_s(),
        boot_id,
        pack: checksum,
        by: begun.by,
        read: begun.read,
        measured_from: match from_boot {
            true => MeasuredFrom::Boot,
            false => MeasuredFrom::Replay,
        },
        startup_ns: match from_boot {
            true => now_ns,
            false => now_ns.saturating_sub(begun.began_ns),
        },
        reading_ns: begun.reading_ns,
        began_ns: begun.began_ns,
        usage: usage_of(pack_path, &pack, &begun, &root)?,
    };
    let entries = history::append(pack_path, Entry::Run(run.clone()))?;
    for directory in &options.run_directories {
        Mark::forget(directory, pack_path);
    }
    Ok(Finish::Entered(Finished { run, entries }))
}

/// The last that began: a replay's mark, or the line of `preload-init`. None: the pack was recorded
/// since, in this boot.
fn begun(
    pack_path: &Path,
    pack: &Pack,
    root: &Root,
    options: &FinishOptions,
) -> Result<Option<Begun>, PreloadError> {
    let checksum = mark::pack_checksum(pack_path)?;
    let mut looked = Vec::new();
    for directory in &options.run_directories {
        match Mark::find(directory, pack_path)? {
            Some(mark) if mark.pack == checksum => {
                return Ok((!mark.recorded).then(|| by_replay(mark, pack)));
            }
            Some(_) => looked.push(format!(
                "what {} tells of was another pack of this name",
                escaped(directory)
            )),
            None => looked.push(format!("nothing in {}", escaped(directory))),
        }
    }
    let whole = fs::canonicalize(pack_path).map_err(PreloadError::file("find", pack_path))?;
    let log = escaped(&options.kernel_log);
    let cut = match KernelLog::read(&options.kernel_log) {
        Ok(kernel_log) => match kernel_log.find(&whole) {
            Some(run) => return Ok(Some(by_init(&run, pack, root))),
            None => {
                looked.push(format!("nothing in {log}"));
                kernel_log.cut
            }
        },
        Err(error) => {
            looked.push(format!("{log} cannot be read: {error}"));
            true
        }
    };
    // A log that has lost its beginning may have lost the line.
    if options.from_boot && !cut {
        return Ok(Some(by_nobody()));
    }
    if cut {
        looked.push("and the beginning of the kernel's log is not known".to_owned());
    }
    Err(PreloadError::NoRun {
        pack: pack_path.to_owned(),
        looked: looked.join("; "),
    })
}

fn by_replay(mark: Mark, pack: &Pack) -> Begun {
    Begun {
        by: Reader::Replay,
        read: mark.read,
        reading_ns: mark.reading_ns,
        began_ns: mark.began_ns,
        extents: mark.extents().unwrap_or_else(|| pack.extents.clone()),
        marked_files: mark.marked_files,
    }
}

fn by_init(run: &InitRun, pack: &Pack, root: &Root) -> Begun {
    // It reads from the front, and passes over files that are not what was recorded.
    let unchanged: Vec<bool> = pack
        .files
        .iter()
        .map(|file| root.open_unchanged(file, pack.any_inode).is_ok())
        .collect();
    let mut readable = pack.extents.clone();
    readable.retain(|extent| unchanged[extent.file as usize]);
    let bytes = run.pages.saturating_mul(PAGE_BYTES);
    let (extents, _) = within_budget(&readable, bytes);
    Begun {
        by: Reader::Init,
        read: run.read,
        reading_ns: run.reading_ns,
        began_ns: run.began_ns,
        extents: if run.read { extents } else { Vec::new() },
        marked_files: Vec::new(),
    }
}

fn by_nobody() -> Begun {
    Begun {
        by: Reader::Nobody,
        read: false,
        reading_ns: 0,
        began_ns: 0,
        extents: Vec::new(),
        marked_files: Vec::new(),
    }
}

fn refuse_twice(pack: &Path, boot_id: &str, begun: &Begun) -> Result<(), PreloadError> {
    let same = |entry: &Entry| matches!(entry, Entry::Run(run) if run.boot_id == boot_id && run.by == begun.by && run.began_ns == begun.began_ns);
    if !history::read_history(pack)?.iter().any(same) {
        return Ok(());
    }
    Err(PreloadError::NoRun {
        pack: pack.to_owned(),
        looked: "the last one is in its history already".to_owned(),
    })
}

fn usage_of(
    pack_path: &Path,
    pack: &Pack,
    begun: &Begun,
    root: &Root,
) -> Result<Usage, PreloadError> {
    // What comes from a file outside of the pack is checked against it.
    let inside = |extent: &Extent| (extent.file as usize) < pack.files.len();
    if !begun.extents.iter().all(inside) {
        let source = io::Error::other("the mark of its replay does not fit it; remove the mark");
        return Err(PreloadError::file("use", pack_path)(source));
    }
    let marked = |file: u32, opened: &fs::File| match begun.by {
        Reader::Init => {
            fstatfs(opened).is_ok_and(|system| READ_BY_INIT.contains(&(system.f_type as u32)))
        }
        _ => begun.marked_files.contains(&file),
    };
    let question = Question {
        pack,
        pack_path,
        root,
        read: &begun.extents,
        marked: &marked,
    };
    Ok(usage::look(&question))
}

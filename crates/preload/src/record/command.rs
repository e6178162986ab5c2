//! The recording of a command: what it and the processes that it starts need, from cold caches.
//!
//! It runs under mounts of its own, made by a thread of ours that shares them. Only those mounts
//! are watched, so that every event is the command's or one of its descendants', however short they
//! live, and nobody else's. Beside these mounts (see `stand_ins`) nothing of the command's
//! surroundings is changed. It never outlives us.

use std::collections::HashMap;
use std::ffi::OsString;
use std::fs::{self, File};
use std::io;
use std::os::fd::AsFd;
use std::path::Path;
use std::process::{Child, Command, ExitStatus, Stdio};
use std::time::{Duration, Instant};

use hythe_sys::fanotify::Scope;
use hythe_sys::namespaces::unshare_mounts;
use hythe_sys::spawn::die_with_parent;
use rustix::process::{Pid, Signal, kill_process};

use super::guard::Guard;
use super::losses::Losses;
use super::read_ahead::Switched;
use super::stand_ins::{StandIns, keep_mounts_to_ourselves};
use super::sweep::{Mapped, mapped_by_all, mapped_files};
use super::table::{Pages, Sources, Table, pages};
use super::trace::Trace;
use super::watch::Watch;
use super::{Inode, Recorded, Settings, TICK, Until, evictions_are_told};
use crate::PreloadError;

const DROP_CACHES: &str = "/proc/sys/vm/drop_caches";
/// How long a command that is told to end may take.
const GRACE: Duration = Duration::from_secs(5);

/// Runs `command` to its end, or until the settings say.
pub(super) fn record(
    command: &[OsString],
    settings: &Settings,
    until: Until<'_>,
    guard: &mut Guard,
) -> Result<Recorded, PreloadError> {
    let mut mapped = mapped_files(&[]);
    mapped.extend(mapped_by_all(&mapped));
    let stand_ins = match &settings.scratch {
        Some(scratch) if !settings.keep_caches => StandIns::make(&mapped, scratch, guard)?,
        _ => StandIns::default(),
    };
    let mut read_ahead = Switched::default();
    read_ahead.off(guard)?;
    if !settings.keep_caches {
        drop_caches()?;
    }
    let before = in_memory(&mapped, &stand_ins);
    let trace = Trace::begin(guard)?;
    // A thread, since mounts of its own cannot be given back.
    let inside = std::thread::scope(|scope| {
        let run = || {
            Inside::begin(command, settings, &stand_ins, trace)?.run(until, guard, &mut read_ahead)
        };
        scope.spawn(run).join()
    });
    let (mut recorded, switched) = match inside {
        Ok(result) => (result?, read_ahead),
        Err(panic) => std::panic::resume_unwind(panic),
    };
    recorded.before = before;
    recorded.read_ahead = switched;
    recorded.copied_files = stand_ins.count();
    recorded.copied_bytes = stand_ins.bytes;
    Ok(recorded)
}

/// Throws everything out of memory that can be read again.
fn drop_caches() -> Result<(), PreloadError> {
    // Pages that are not written yet would stay.
    rustix::fs::sync();
    fs::write(DROP_CACHES, "1").map_err(PreloadError::file(
        "drop the caches by writing",
        DROP_CACHES,
    ))
}

/// What is in memory all the same.
fn in_memory(mapped: &[Mapped], stand_ins: &StandIns) -> HashMap<Inode, Pages> {
    let copies = stand_ins.copies();
    let all = mapped
        .iter()
        .map(|mapped| (mapped.path.as_path(), mapped.inode))
        .chain(copies);
    let found = all.filter_map(|(path, inode)| {
        let file = File::open(path).ok()?;
        let metadata = file.metadata().ok()?;
        let resident = pages(&file, metadata.len()).ok()?;
        (Inode::of(&metadata) == inode && !resident.is_empty()).then_some((inode, resident))
    });
    found.collect()
}

/// The command while it runs, in the thread that shares its mounts.
struct Inside {
    child: Child,
    watch: Watch,
    table: Table,
    trace: Option<Trace>,
    evictions_told: bool,
    losses: Losses,
}

impl Inside {
    fn begin(
        command: &[OsString],
        settings: &Settings,
        stand_ins: &StandIns,
        trace: Option<Trace>,
    ) -> Result<Self, PreloadError> {
        let no_mounts = |_: io::Error| PreloadError::NotPermitted;
        unshare_mounts().map_err(no_mounts)?;
        keep_mounts_to_ourselves()?;
        stand_ins.mount();
        let watch = Watch::begin(settings.queue, Scope::Mount)?;
        let mut table = Table::new(stand_ins.identities());
        enter_standard_input(&mut table);
        let losses = Losses::now();
        let child = start(command, settings)?;
        Ok(Self {
            child,
            watch,
            table,
            trace,
            // With warm caches, those of earlier times would be among them.
            evictions_told: !settings.keep_caches && evictions_are_told(),
            losses,
        })
    }

    fn run(
        mut self,
        mut until: Until<'_>,
        guard: &mut Guard,
        read_ahead: &mut Switched,
    ) -> Result<Recorded, PreloadError> {
        until.begin();
        let status = loop {
            if self.watch.wait(TICK)? {
                self.watch.mark_new()?;
                read_ahead.off(guard)?;
            }
            self.trace.iter_mut().for_each(Trace::take);
            self.watch.take(&mut self.table)?;
            let ended = self.child.try_wait();
            let ended = ended.map_err(PreloadError::file("wait for the command below", "/proc"))?;
            if ended.is_some() || until.reached() {
                break ended;
            }
        };
        self.watch.take_rest(&mut self.table)?;
        let needs = self.trace.take().map(Trace::finish);
        let files = std::mem::take(&mut self.table).measure(Sources {
            needs: needs.as_ref(),
            evicted: self.evictions_told,
        });
        let losses = Losses::now().since(self.losses);
        let stopped = status.is_none();
        let status = match status {
            Some(status) => Some(status),
            None => end(&mut self.child),
        };
        Ok(Recorded {
            files,
            status,
            stopped,
            evictions_told: self.evictions_told,
            trace_lost: needs.map(|needs| needs.lost),
            losses,
            ..Recorded::of(&self.watch)
        })
    }
}

/// A file on standard input is opened by whoever calls us, before anything is watched.
fn enter_standard_input(table: &mut Table) {
    let input = io::stdin().as_fd().try_clone_to_owned().map(File::from);
    if let Ok(metadata) = input.and_then(|file| file.metadata())
        && metadata.is_file()
    {
        table.opened(&metadata, || fs::read_link("/proc/thread-self/fd/0").ok());
    }
}

fn start(command: &[OsString], settings: &Settings) -> Result<Child, PreloadError> {
    let (program, arguments) = command.split_first().ok_or(PreloadError::NoCommand)?;
    let mut child = Command::new(program);
    child.args(arguments);
    if settings.output_to_errors {
        let errors = io::stderr().as_fd().try_clone_to_owned();
        child.stdout(Stdio::from(
            errors.map_err(PreloadError::file("forward", "/proc/self/fd/2"))?,
        ));
    }
    die_with_parent(&mut child);
    child
        .spawn()
        .map_err(PreloadError::file("run", Path::new(program)))
}

/// Asks it to end, and ends it if it does not.
fn end(child: &mut Child) -> Option<ExitStatus> {
    let _ = kill_process(Pid::from_child(child), Signal::TERM);
    let asked = Instant::now();
    while asked.elapsed() < GRACE {
        if let Ok(Some(status)) = child.try_wait() {
            return Some(status);
        }
        std::thread::sleep(Duration::from_millis(5));
    }
    let _ = child.kill();
    child.wait().ok()
}

impl Drop for Inside {
    fn drop(&mut self) {
        // Behind an error, and no loss behind a good end: the command has been waited for.
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

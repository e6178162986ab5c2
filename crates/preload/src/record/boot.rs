//! The recording of a boot: what all processes need, until somebody says that the system is up.
//!
//! Begun as early as can be. What was used before is found where it is still in use. Nothing is
//! dropped from memory, and no process is touched: the boot goes its way, slower because the kernel
//! reads nothing ahead. Never counts what the recorder itself opens.

use std::collections::HashMap;
use std::fs;
use std::path::{Path, PathBuf};

use hythe_sys::fanotify::Scope;

use super::guard::Guard;
use super::losses::Losses;
use super::read_ahead::Switched;
use super::sweep::{mapped_files, open_files};
use super::table::{Sources, Table};
use super::trace::Trace;
use super::watch::Watch;
use super::{Recorded, Settings, TICK, Until, evictions_are_told};
use crate::PreloadError;

/// Watches everything until the settings say.
pub(super) fn record(
    settings: &Settings,
    mut until: Until<'_>,
    guard: &mut Guard,
) -> Result<Recorded, PreloadError> {
    let mut read_ahead = Switched::default();
    read_ahead.off(guard)?;
    let mut trace = Trace::begin(guard)?;
    let mut watch = Watch::begin(settings.queue, Scope::FileSystem)?;
    let mut table = Table::new(HashMap::new());
    let losses = Losses::now();
    let ours = [std::process::id(), guard.process()];
    // Behind the marks: what is opened in between is seen by both.
    sweep(&mut table, &watch, &ours);
    let found_in_use = table.len() as u64;
    until.begin();
    while !until.reached() {
        if watch.wait(TICK)? {
            read_ahead.off(guard)?;
            if trace.is_none() {
                trace = Trace::begin(guard)?;
            }
            if watch.mark_new()? {
                // Whoever mounted it may have used it before it was marked.
                sweep(&mut table, &watch, &ours);
            }
        }
        trace.iter_mut().for_each(Trace::take);
        let lost = watch.lost;
        watch.take(&mut table)?;
        if watch.lost > lost {
            // Some of what was missed is still in use.
            sweep(&mut table, &watch, &ours);
        }
    }
    watch.take_rest(&mut table)?;
    let needs = trace.map(Trace::finish);
    let evictions_told = evictions_are_told();
    Ok(Recorded {
        files: table.measure(Sources {
            needs: needs.as_ref(),
            evicted: evictions_told,
        }),
        evictions_told,
        trace_lost: needs.map(|needs| needs.lost),
        found_in_use,
        read_ahead,
        losses: Losses::now().since(losses),
        ..Recorded::of(&watch)
    })
}

/// Enters what others than `ours` have in use now.
fn sweep(table: &mut Table, watch: &Watch, ours: &[u32]) {
    let mapped = mapped_files(ours).into_iter().map(|mapped| mapped.path);
    for path in mapped.chain(open_files(ours)) {
        enter(table, watch, path);
    }
}

fn enter(table: &mut Table, watch: &Watch, path: PathBuf) {
    if !watch.is_storage(&path) {
        return;
    }
    let Ok(metadata) = fs::symlink_metadata(&path) else {
        return;
    };
    if metadata.is_file() {
        table.opened(&metadata, || Some(path));
    }
}

/// The recorder's own program: its pages are in memory because it records.
pub(super) fn own_program() -> Option<PathBuf> {
    fs::read_link(Path::new("/proc/self/exe")).ok()
}

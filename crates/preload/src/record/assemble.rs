//! From what was found out to a pack and an account of what was left out of it.
//!
//! Never leaves anything out without counting it.

use std::fs;
use std::path::PathBuf;
use std::process::ExitStatus;

use super::table::{Entry, Outcome, Pages, common};
use super::{Inode, Recorded, Settings};
use crate::pack::{Extent, Pack, PackFile};

/// What a recording came to.
#[derive(Clone, Debug, Default, PartialEq, Eq)]
pub struct Account {
    /// How the command ended; none where there was none.
    pub status: Option<ExitStatus>,
    /// The recording ended before the command, which was told to end then.
    pub stopped: bool,
    /// Files that were opened and are not in the pack.
    pub left_out: LeftOut,
    /// Pages of the pack that were in memory before: taken as needed, since nobody can tell.
    pub warm_pages: u64,
    /// Files with such pages.
    pub warm_files: u64,
    /// Files that were found in use when the recording of a boot began.
    pub found_in_use: u64,
    /// Copies that stood in for files which cannot be thrown out of memory.
    pub copied_files: u64,
    /// Their bytes.
    pub copied_bytes: u64,
    /// Events that the kernel told.
    pub events: u64,
    /// How often the kernel lost some: files may be missing.
    pub lost: u64,
    /// Mounts that could not be watched.
    pub unwatched: Vec<PathBuf>,
    /// Pages that the kernel threw out of memory meanwhile: some of them may have been needed.
    pub reclaimed_pages: u64,
    /// The kernel tells which pages it threw out of memory: those are in the pack.
    pub evictions_told: bool,
    /// How many those are.
    pub evicted_pages: u64,
    /// How often somebody had the caches dropped meanwhile: pages that were needed are missing.
    pub caches_dropped: u64,
    /// How often the kernel's trace lost something, which only disturbs the order of pages; none
    /// without a trace.
    pub trace_lost: Option<u64>,
    /// Devices whose read-ahead was off.
    pub read_ahead_off: u64,
    /// Those whose read-ahead could not be switched off: what the kernel read around is in the
    /// pack.
    pub read_ahead_on: Vec<PathBuf>,
}

impl Account {
    /// How the answer was found.
    #[must_use]
    pub fn method(&self) -> &'static str {
        match (self.trace_lost, self.evictions_told) {
            (Some(_), true) => "fanotify, mincore, cachestat and tracefs",
            (Some(_), false) => "fanotify, mincore and tracefs",
            (None, true) => "fanotify, mincore and cachestat",
            (None, false) => "fanotify and mincore",
        }
    }
}

/// Why opened files are not in the pack, and how many.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub struct LeftOut {
    /// Their content changed during the recording.
    pub written: u64,
    /// Deleted, replaced, or without a name that can be reached from here.
    pub gone: u64,
    /// The settings exclude them; the pack itself.
    pub excluded: u64,
    /// No page of them was needed.
    pub untouched: u64,
}

/// The pack of what was recorded, without the files called `not_needed`.
pub(super) fn assemble(
    recorded: Recorded,
    settings: &Settings,
    not_needed: &[PathBuf],
) -> (Pack, Account) {
    let not_needed: Vec<Inode> = not_needed
        .iter()
        .filter_map(|path| Some(Inode::of(&fs::metadata(path).ok()?)))
        .collect();
    let mut pack = Pack {
        any_inode: settings.any_inode,
        ..Pack::default()
    };
    let mut account = Account {
        status: recorded.status,
        stopped: recorded.stopped,
        found_in_use: recorded.found_in_use,
        copied_files: recorded.copied_files,
        copied_bytes: recorded.copied_bytes,
        events: recorded.events,
        lost: recorded.lost,
        unwatched: recorded.unwatched,
        reclaimed_pages: recorded.losses.reclaimed,
        caches_dropped: recorded.losses.dropped,
        evictions_told: recorded.evictions_told,
        trace_lost: recorded.trace_lost,
        read_ahead_off: recorded.read_ahead.off,
        read_ahead_on: recorded.read_ahead.left_on,
        ..Account::default()
    };
    let mut extents = Extents::default();
    for (entry, outcome) in recorded.files {
        let excluded = settings
            .exclude
            .iter()
            .any(|exclusion| exclusion.covers(&entry.path))
            || not_needed.contains(&entry.identity.inode);
        let left_out = &mut account.left_out;
        let pages = match outcome {
            _ if excluded => Err(&mut left_out.excluded),
            Outcome::Written => Err(&mut left_out.written),
            Outcome::Gone => Err(&mut left_out.gone),
            Outcome::Needed(pages) if pages.is_empty() => Err(&mut left_out.untouched),
            Outcome::Needed(pages) => Ok(pages),
        };
        let pages = match pages {
            Ok(pages) => pages,
            Err(count) => {
                *count += 1;
                continue;
            }
        };
        account.evicted_pages += entry.evicted;
        let warm: u64 = entry
            .inodes()
            .filter_map(|inode| recorded.before.get(&inode))
            .map(|before| common(before, &pages))
            .sum();
        account.warm_pages += warm;
        account.warm_files += u64::from(warm > 0);
        let file = u32::try_from(pack.files.len()).unwrap_or(u32::MAX);
        extents.add(file, &entry, &pages);
        pack.files.push(PackFile {
            path: entry.path,
            size: entry.identity.size,
            mtime_ns: entry.identity.mtime_ns,
            inode: entry.identity.inode.number,
        });
    }
    pack.extents = extents.in_order();
    (pack, account)
}

/// Extents, and when they were first needed.
#[derive(Debug, Default)]
struct Extents {
    all: Vec<(u64, Extent)>,
    /// When the last file was first needed.
    last: u64,
}

impl Extents {
    /// Adds those of the next file. What was not traced comes with the file's first page, and a
    /// file of which nothing was traced behind the one that was opened before. What does not fit
    /// the numbers of a pack (16 TiB into a file) is not added.
    fn add(&mut self, file: u32, entry: &Entry, pages: &Pages) {
        let needs: Vec<_> = pages.iter().map(|range| entry.first_need(range)).collect();
        let first = needs.iter().flatten().min().copied().unwrap_or(self.last);
        self.last = self.last.max(first);
        for (range, need) in pages.iter().zip(needs) {
            if let (Ok(first_page), Ok(pages)) = (
                u32::try_from(range.start),
                u32::try_from(range.end - range.start),
            ) {
                let extent = Extent {
                    file,
                    first_page,
                    pages,
                };
                self.all.push((need.unwrap_or(first), extent));
            }
        }
    }

    fn in_order(mut self) -> Vec<Extent> {
        self.all.sort_by_key(|(need, _)| *need);
        self.all.into_iter().map(|(_, extent)| extent).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::record::table::{Sources, Table};
    use crate::record::trace::Need;
    use std::collections::HashMap;
    use std::path::Path;

    fn settings() -> Settings {
        Settings {
            guard: Vec::new(),
            output: "/out.pack".into(),
            any_inode: true,
            exclude: vec!["*.skip".parse().unwrap()],
            keep_caches: false,
            scratch: None,
            duration: None,
            until: None,
            output_to_errors: false,
            queue: super::super::Queue::Limited,
        }
    }

    /// Files of these names and sizes that were just opened, and so are in memory.
    fn measured(directory: &Path, files: &[(&str, usize)]) -> Vec<(Entry, Outcome)> {
        let mut table = Table::new(HashMap::new());
        for (name, bytes) in files {
            let path = directory.join(name);
            fs::write(&path, vec![1; *bytes]).unwrap();
            table.opened(&fs::metadata(&path).unwrap(), || Some(path.clone()));
        }
        table.measure(Sources::default())
    }

    #[test]
    fn extents_follow_order_of_trace() {
        let directory = tempfile::tempdir().unwrap();
        let names = [("first", 1), ("second", 1), ("third", 1)];
        let mut entries: Vec<Entry> = measured(directory.path(), &names)
            .into_iter()
            .map(|(entry, _)| entry)
            .collect();
        let need = |order, page| Need { order, page };
        entries[0].needs = vec![need(7, 1), need(3, 2), need(9, 8)];
        entries[2].needs = vec![need(5, 0)];
        let mut extents = Extents::default();
        extents.add(0, &entries[0], &vec![1..3, 5..6, 8..9]);
        extents.add(1, &entries[1], &vec![0..4, 6..7]);
        extents.add(2, &entries[2], &vec![0..1, 3..4]);
        let extents = extents.in_order();
        let order: Vec<_> = extents
            .iter()
            .map(|extent| (extent.file, extent.first_page))
            .collect();
        assert_eq!(
            order,
            [(0, 1), (0, 5), (1, 0), (1, 6), (2, 0), (2, 3), (0, 8)]
        );
    }

    #[test]
    fn everything_is_in_the_pack_or_counted() {
        let directory = tempfile::tempdir().unwrap();
        let names = [
            ("b", 9000),
            ("a", 10),
            ("x.skip", 10),
            ("empty", 0),
            ("old.pack", 1),
        ];
        let mut files = measured(directory.path(), &names);
        for (name, outcome) in [("gone", Outcome::Gone), ("log", Outcome::Written)] {
            let mut odd = measured(directory.path(), &[(name, 5)]);
            odd[0].1 = outcome;
            files.extend(odd);
        }
        let inode = files[0].0.identity.inode;
        let recorded = Recorded {
            files,
            before: HashMap::from([(inode, vec![1..2, 7..9])]),
            ..Recorded::default()
        };
        let own = directory.path().join("old.pack");
        let (pack, account) = assemble(recorded, &settings(), &[own]);
        let extent = |file, pages| Extent {
            file,
            first_page: 0,
            pages,
        };
        assert!(pack.any_inode);
        assert_eq!(pack.extents, [extent(0, 3), extent(1, 1)]);
        assert_eq!(pack.files[0].path, directory.path().join("b"));
        assert_eq!((account.warm_files, account.warm_pages), (1, 1));
        let expected = LeftOut {
            written: 1,
            gone: 1,
            excluded: 2,
            untouched: 1,
        };
        assert_eq!(account.left_out, expected);
        assert_eq!(Pack::from_bytes(&pack.to_bytes().unwrap()).unwrap(), pack);
    }
}

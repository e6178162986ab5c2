//! The files that were opened while a recording ran, in the order of their first use, and which of
//! their pages are needed.
//!
//! Filled by the events of `watch`, measured once at the end. A file is known by its inode: it has
//! one entry, whatever names it was opened by, under the name of its first use. Never opens a file
//! before the end.

use std::collections::{HashMap, HashSet};
use std::fs::{File, Metadata, OpenOptions};
use std::ops::Range;
use std::os::unix::fs::{MetadataExt, OpenOptionsExt};
use std::path::PathBuf;
use std::time::{SystemTime, UNIX_EPOCH};

use hythe_sys::residency::{evicted_ranges, resident_ranges};
use rustix::fs::OFlags;

use super::Inode;
use super::trace::{Need, Needs};
use crate::pack::PAGE_BYTES;

/// Pages, of [`PAGE_BYTES`] each.
pub(super) type Pages = Vec<Range<u64>>;

/// What a file is like: if this changes, its content may have.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) struct Identity {
    pub(super) inode: Inode,
    pub(super) size: u64,
    pub(super) mtime_ns: i64,
}

impl Identity {
    pub(super) fn of(metadata: &Metadata) -> Self {
        Self {
            inode: Inode::of(metadata),
            size: metadata.size(),
            mtime_ns: metadata
                .mtime()
                .saturating_mul(1_000_000_000)
                .saturating_add(metadata.mtime_nsec()),
        }
    }
}

/// What became of an entry.
#[derive(Clone, Debug, PartialEq, Eq)]
pub(super) enum Outcome {
    /// These pages are in memory; none if it was only looked at.
    Needed(Pages),
    /// Its content changed meanwhile.
    Written,
    /// No name leads to it any more.
    Gone,
}

/// One file.
#[derive(Clone, Debug)]
pub(super) struct Entry {
    /// The name of its first use.
    pub(super) path: PathBuf,
    /// The file that the pack is to name.
    pub(super) identity: Identity,
    /// What was opened: the file itself, its stand-in, or both.
    views: Vec<View>,
    /// When its pages were needed, as far as that was traced; ascending by page.
    pub(super) needs: Vec<Need>,
    /// Pages that were needed and thrown out of memory again.
    pub(super) evicted: u64,
}

/// What `measure` goes by, beside what is in memory.
#[derive(Clone, Copy, Debug, Default)]
pub(super) struct Sources<'a> {
    /// What the kernel's trace told.
    pub(super) needs: Option<&'a Needs>,
    /// What was thrown out of memory was needed in this recording, not before it.
    pub(super) evicted: bool,
}

#[derive(Clone, Debug)]
struct View {
    path: PathBuf,
    identity: Identity,
    /// The name led to the file when it was opened.
    found: bool,
}

/// The entries.
#[derive(Debug, Default)]
pub(super) struct Table {
    entries: Vec<Entry>,
    /// Which entry, by the inode of each of its views, and which of the views.
    views: HashMap<Inode, (usize, usize)>,
    /// The file that a stand-in stands for, by the inode of the stand-in.
    stand_ins: HashMap<Inode, Identity>,
    /// Which entry, by the inode that the pack is to name.
    identities: HashMap<Inode, usize>,
    modified: HashSet<Inode>,
    closed_after_writing: HashSet<Inode>,
    /// On the system's clock, in nanoseconds.
    begun_ns: i64,
}

impl Table {
    /// An empty table of a recording that begins now.
    pub(super) fn new(stand_ins: HashMap<Inode, Identity>) -> Self {
        let now = SystemTime::now().duration_since(UNIX_EPOCH);
        Self {
            stand_ins,
            begun_ns: now.map_or(0, |now| i64::try_from(now.as_nanos()).unwrap_or(i64::MAX)),
            ..Self::default()
        }
    }

    /// A file was opened. Its name is asked for if it is not known yet.
    pub(super) fn opened(&mut self, metadata: &Metadata, name: impl FnOnce() -> Option<PathBuf>) {
        let identity = Identity::of(metadata);
        let inode = identity.inode;
        if let Some(&(entry, view)) = self.views.get(&inode) {
            if !self.entries[entry].views[view].found {
                self.find_again(entry, view, name);
            }
            return;
        }
        let Some(path) = name() else { return };
        let found = leads_to(&path, inode);
        let named = self.stand_ins.get(&inode).copied().unwrap_or(identity);
        let entries = &mut self.entries;
        let entry = *self.identities.entry(named.inode).or_insert_with(|| {
            entries.push(Entry {
                path: path.clone(),
                identity: named,
                views: Vec::new(),
                needs: Vec::new(),
                evicted: 0,
            });
            entries.len() - 1
        });
        let views = &mut self.entries[entry].views;
        views.push(View {
            path,
            identity,
            found,
        });
        self.views.insert(inode, (entry, views.len() - 1));
    }

    /// The name of an earlier use led nowhere: from where we stand, or because the file was just
    /// being renamed.
    fn find_again(&mut self, entry: usize, view: usize, name: impl FnOnce() -> Option<PathBuf>) {
        let entry = &mut self.entries[entry];
        let first = &mut entry.views[view];
        let Some(path) = name().filter(|path| leads_to(path, first.identity.inode)) else {
            return;
        };
        first.path.clone_from(&path);
        first.found = true;
        if view == 0 {
            entry.path = path;
        }
    }

    /// The content of a file was changed by a call.
    pub(super) fn modified(&mut self, inode: Inode) {
        self.modified.insert(inode);
    }

    /// Somebody closed a file that was open for writing.
    pub(super) fn closed_after_writing(&mut self, inode: Inode) {
        self.closed_after_writing.insert(inode);
    }

    /// How many files there are.
    pub(super) fn len(&self) -> usize {
        self.entries.len()
    }

    /// Looks at each file: what is in memory of it now, or was when it was needed, and is it still
    /// the same?
    pub(super) fn measure(mut self, sources: Sources<'_>) -> Vec<(Entry, Outcome)> {
        let mut entries = std::mem::take(&mut self.entries);
        let outcomes: Vec<Outcome> = entries
            .iter_mut()
            .map(|entry| {
                if let Some(needs) = sources.needs {
                    entry.take_needs(needs);
                }
                self.outcome(entry, sources.evicted)
            })
            .collect();
        entries.into_iter().zip(outcomes).collect()
    }

    fn outcome(&self, entry: &mut Entry, evicted: bool) -> Outcome {
        let mut needed: Pages = Vec::new();
        let mut thrown_out = 0;
        let mut there = false;
        for view in &entry.views {
            let Some((file, now)) = open(view) else {
                continue;
            };
            if self.was_written(view, &now) {
                return Outcome::Written;
            }
            there = true;
            // A file system that cannot map files has no pages of them either.
            needed.extend(pages(&file, now.size).unwrap_or_default());
            if evicted {
                let pages = evicted_pages(&file, now.size);
                thrown_out += pages
                    .iter()
                    .map(|range| range.end - range.start)
                    .sum::<u64>();
                needed.extend(pages);
            }
        }
        if !there {
            return Outcome::Gone;
        }
        entry.evicted = thrown_out;
        needed.extend(entry.needs.iter().map(|need| need.page..need.page + 1));
        Outcome::Needed(merged(needed))
    }

    fn was_written(&self, view: &View, now: &Identity) -> bool {
        let inode = view.identity.inode;
        // The clock may have been set during a boot: what it says counts only for files that were
        // open for writing.
        let late = self.closed_after_writing.contains(&inode) && now.mtime_ns >= self.begun_ns;
        late || self.modified.contains(&inode) || *now != view.identity
    }
}

impl Entry {
    fn take_needs(&mut self, needs: &Needs) {
        let pages = self.identity.size.div_ceil(PAGE_BYTES);
        let all = self
            .views
            .iter()
            .flat_map(|view| needs.of(view.identity.inode, view.identity.size));
        self.needs = all.filter(|need| need.page < pages).copied().collect();
        self.needs.sort_unstable_by_key(|need| need.page);
    }

    /// When the first of these pages was needed; none if that was not traced.
    pub(super) fn first_need(&self, pages: &Range<u64>) -> Option<u64> {
        let begin = self.needs.partition_point(|need| need.page < pages.start);
        let inside = self.needs[begin..]
            .iter()
            .take_while(|need| need.page < pages.end);
        inside.map(|need| need.order).min()
    }

    /// The inodes that were opened: the file's own, its stand-in's.
    pub(super) fn inodes(&self) -> impl Iterator<Item = Inode> {
        self.views.iter().map(|view| view.identity.inode)
    }
}

fn leads_to(path: &std::path::Path, inode: Inode) -> bool {
    path.is_absolute()
        && std::fs::symlink_metadata(path).is_ok_and(|found| Inode::of(&found) == inode)
}

/// The file, if its name still leads to it.
fn open(view: &View) -> Option<(File, Identity)> {
    // What the name leads to may be a pipe by now, on which an opening would wait.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOATIME;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(&view.path)
        .ok()?;
    let now = Identity::of(&file.metadata().ok()?);
    (now.inode == view.identity.inode).then_some((file, now))
}

/// The pages of a file that are in memory.
pub(super) fn pages(file: &File, size: u64) -> std::io::Result<Pages> {
    Ok(in_pages(resident_ranges(file, size)?, size))
}

/// The pages of a file that were in memory. None where the kernel does not tell.
fn evicted_pages(file: &File, size: u64) -> Pages {
    in_pages(evicted_ranges(file, size).unwrap_or_default(), size)
}

/// A page of this machine may be larger than one of a pack, and the file end inside it.
fn in_pages(ranges: Vec<Range<u64>>, size: u64) -> Pages {
    let all = size.div_ceil(PAGE_BYTES);
    let pages = ranges.into_iter().map(|bytes| {
        let end = bytes.end.div_ceil(PAGE_BYTES).min(all);
        bytes.start / PAGE_BYTES..end
    });
    pages.collect()
}

/// Ascending, without overlaps, neighbours joined.
fn merged(mut pages: Pages) -> Pages {
    pages.sort_unstable_by_key(|range| range.start);
    let mut joined: Pages = Vec::with_capacity(pages.len());
    for range in pages {
        match joined.last_mut() {
            Some(last) if range.start <= last.end => last.end = last.end.max(range.end),
            _ => joined.push(range),
        }
    }
    joined
}

/// How many pages are in both.
pub(super) fn common(one: &Pages, other: &Pages) -> u64 {
    let both = one.iter().flat_map(|left| {
        other.iter().map(|right| {
            right
                .end
                .min(left.end)
                .saturating_sub(right.start.max(left.start))
        })
    });
    both.sum()
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::fs;
    use std::io::Write;
    use std::path::Path;

    fn table() -> Table {
        Table::new(HashMap::new())
    }

    fn needed(pages: Range<u64>) -> Outcome {
        Outcome::Needed([pages].into())
    }

    fn open_as(table: &mut Table, path: &Path) {
        let metadata = fs::metadata(path).unwrap();
        table.opened(&metadata, || Some(path.to_owned()));
    }

    /// A file older than any recording of this test.
    fn old_file(path: &Path, bytes: usize) {
        fs::write(path, vec![1; bytes]).unwrap();
        let file = File::options().write(true).open(path).unwrap();
        file.set_modified(std::time::UNIX_EPOCH).unwrap();
    }

    #[test]
    fn names_of_one_inode_are_one_entry_under_the_first() {
        let directory = tempfile::tempdir().unwrap();
        let [first, second] = ["first", "second"].map(|name| directory.path().join(name));
        old_file(&first, 5000);
        fs::hard_link(&first, &second).unwrap();
        let mut table = table();
        open_as(&mut table, &second);
        open_as(&mut table, &first);
        let found = table.measure(Sources::default());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0.path, second);
        assert_eq!(found[0].1, needed(0..2));
    }

    #[test]
    fn written_files_are_told_however_it_was_done() {
        let directory = tempfile::tempdir().unwrap();
        let names = ["call", "size", "mapping", "opened only"];
        let paths = names.map(|name| directory.path().join(name));
        let mut table = table();
        for path in &paths {
            old_file(path, 100);
            open_as(&mut table, path);
        }
        let inode = |path: &Path| Inode::of(&fs::metadata(path).unwrap());
        table.modified(inode(&paths[0]));
        let mut appended = File::options().append(true).open(&paths[1]).unwrap();
        appended.write_all(b"more").unwrap();
        // As a change through a mapping looks: the time is new, and no event says why.
        let mapped = File::options().write(true).open(&paths[2]).unwrap();
        mapped.set_modified(std::time::SystemTime::now()).unwrap();
        table.closed_after_writing(inode(&paths[3]));
        let outcomes = table
            .measure(Sources::default())
            .into_iter()
            .map(|(_, outcome)| outcome);
        let written = outcomes.map(|outcome| outcome == Outcome::Written);
        assert_eq!(written.collect::<Vec<_>>(), [true, true, true, false]);
    }

    #[test]
    fn table_drops_deleted_files_and_follows_renames() {
        let directory = tempfile::tempdir().unwrap();
        let names = ["deleted", "replaced", "moving"];
        let [deleted, replaced, moving] = names.map(|name| directory.path().join(name));
        let mut table = table();
        for path in [&deleted, &replaced, &moving] {
            old_file(path, 10);
        }
        open_as(&mut table, &deleted);
        open_as(&mut table, &replaced);
        let metadata = fs::metadata(&moving).unwrap();
        table.opened(&metadata, || Some(directory.path().join("not yet")));
        open_as(&mut table, &moving);
        fs::remove_file(&deleted).unwrap();
        let other = directory.path().join("other");
        old_file(&other, 10);
        fs::rename(&other, &replaced).unwrap();
        let found = table.measure(Sources::default());
        let outcomes: Vec<_> = found.iter().map(|(_, outcome)| outcome.clone()).collect();
        let expected = [Outcome::Gone, Outcome::Gone, needed(0..1)];
        assert_eq!(outcomes, expected);
        assert_eq!(found[2].0.path, moving);
    }

    #[test]
    fn stand_in_counts_for_its_file() {
        let directory = tempfile::tempdir().unwrap();
        let [copy, original] = ["copy", "original"].map(|name| directory.path().join(name));
        old_file(&copy, 9000);
        old_file(&original, 9000);
        let identity = Identity::of(&fs::metadata(&original).unwrap());
        let inode = Inode::of(&fs::metadata(&copy).unwrap());
        let mut table = Table::new(HashMap::from([(inode, identity)]));
        open_as(&mut table, &copy);
        open_as(&mut table, &original);
        let found = table.measure(Sources::default());
        assert_eq!(found.len(), 1);
        assert_eq!(found[0].0.identity, identity);
        assert_eq!(found[0].0.inodes().count(), 2);
        assert_eq!(found[0].1, needed(0..3));
    }

    #[test]
    fn ranges_are_joined_and_compared() {
        assert_eq!(merged(vec![4..6, 0..2, 2..3, 5..9]), [0..3, 4..9]);
        assert_eq!(common(&vec![0..3, 4..9], &vec![2..5, 8..20]), 3);
    }
}

//! The union of packs: what is in any of them, once.
//!
//! Two recordings of one program differ: what a program does depends on time, load and the order of
//! its threads. A page that was needed once is needed. `hythe preload merge` calls this. Never
//! opens the files that packs name: whether two packs mean the same file is told by what they
//! recorded of it.

use std::collections::{BTreeMap, HashMap};
use std::path::PathBuf;

use super::{Extent, Pack, PackFile};
use crate::PreloadError;

/// A pack that grows by what others have.
#[derive(Clone, Debug, Default)]
pub struct Union {
    pack: Pack,
    /// Number of each file.
    numbers: HashMap<PathBuf, u32>,
    /// Pages of each file that are in an extent: end by start, without overlaps.
    covered: Vec<BTreeMap<u64, u64>>,
    has_begun: bool,
}

impl Union {
    /// Adds what `pack` has and this has not, behind what is there and in the order of `pack`;
    /// returns how many pages that is. After an error, this is as before.
    ///
    /// # Errors
    /// [`PreloadError::OtherFile`] if both name a file and mean different ones;
    /// [`PreloadError::InodesDiffer`] if only one of them compares inode numbers.
    pub fn add(&mut self, pack: &Pack) -> Result<u64, PreloadError> {
        if self.has_begun && self.pack.any_inode != pack.any_inode {
            return Err(PreloadError::InodesDiffer {
                any_before: self.pack.any_inode,
            });
        }
        for file in &pack.files {
            if let Some(&number) = self.numbers.get(&file.path) {
                check_same(&self.pack.files[number as usize], file, pack.any_inode)?;
            }
        }
        self.has_begun = true;
        self.pack.any_inode = pack.any_inode;
        let numbers: Vec<u32> = pack.files.iter().map(|file| self.number(file)).collect();
        let before = self.pack.pages();
        for extent in &pack.extents {
            self.add_extent(&Extent {
                file: numbers[extent.file as usize],
                ..*extent
            });
        }
        Ok(self.pack.pages() - before)
    }

    /// The union.
    #[must_use]
    pub fn into_pack(self) -> Pack {
        self.pack
    }

    /// The number of a file here; it gets one if it has none.
    fn number(&mut self, file: &PackFile) -> u32 {
        let next = self.pack.files.len() as u32;
        let number = *self.numbers.entry(file.path.clone()).or_insert(next);
        if number == next {
            self.pack.files.push(file.clone());
            self.covered.push(BTreeMap::new());
        }
        number
    }

    /// Adds the pages of an extent that are in none yet: in several pieces, if some between them
    /// are.
    fn add_extent(&mut self, wanted: &Extent) {
        let covered = &mut self.covered[wanted.file as usize];
        let end = u64::from(wanted.first_page) + u64::from(wanted.pages);
        let mut at = u64::from(wanted.first_page);
        while at < end {
            let behind = covered.range(..=at).next_back().map(|(_, end)| *end);
            if let Some(covered_end) = behind.filter(|covered_end| *covered_end > at) {
                at = covered_end;
                continue;
            }
            let next = covered.range(at..).next().map_or(end, |(start, _)| *start);
            let piece_end = next.min(end);
            covered.insert(at, piece_end);
            self.pack.extents.push(Extent {
                file: wanted.file,
                // Both are within the extent, whose numbers have 32 bits.
                first_page: at as u32,
                pages: (piece_end - at) as u32,
            });
            at = piece_end;
        }
    }
}

/// Two packs that name one path mean one file if they recorded the same of it.
fn check_same(one: &PackFile, other: &PackFile, any_inode: bool) -> Result<(), PreloadError> {
    let differs = |what, before: String, now: String| {
        Err(PreloadError::OtherFile {
            path: other.path.clone(),
            what,
            before,
            now,
        })
    };
    if one.size != other.size {
        return differs("size", one.size.to_string(), other.size.to_string());
    }
    if one.mtime_ns != other.mtime_ns {
        let (before, now) = (one.mtime_ns.to_string(), other.mtime_ns.to_string());
        return differs("time of modification", before, now);
    }
    if one.inode != other.inode && !any_inode {
        let (before, now) = (one.inode.to_string(), other.inode.to_string());
        return differs("inode number", before, now);
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use std::collections::HashSet;

    use proptest::collection::vec;
    use proptest::prelude::{Strategy, any, prop_assert, prop_assert_eq, proptest};

    use super::*;

    fn file(path: &str) -> PackFile {
        PackFile {
            path: path.into(),
            size: 100 * 4096,
            mtime_ns: 5,
            inode: 7,
        }
    }

    fn extent(file: u32, first_page: u32, pages: u32) -> Extent {
        Extent {
            file,
            first_page,
            pages,
        }
    }

    fn pack(paths: &[&str], extents: &[(u32, u32, u32)]) -> Pack {
        Pack {
            files: paths.iter().map(|path| file(path)).collect(),
            extents: extents
                .iter()
                .map(|&(file, at, pages)| extent(file, at, pages))
                .collect(),
            any_inode: false,
        }
    }

    fn union(packs: &[Pack]) -> Result<Pack, PreloadError> {
        let mut union = Union::default();
        for pack in packs {
            union.add(pack)?;
        }
        Ok(union.into_pack())
    }

    #[test]
    fn first_order_stays_and_what_others_have_comes_behind_it() {
        let first = pack(&["/a", "/b"], &[(1, 10, 5), (0, 0, 2)]);
        let other = pack(&["/c", "/b"], &[(1, 5, 20), (0, 3, 1)]);
        let mut both = Union::default();
        assert_eq!(both.add(&first).unwrap(), 7);
        assert_eq!(both.add(&other).unwrap(), 16);
        assert_eq!(both.add(&first).unwrap(), 0, "nothing is new");
        let both = both.into_pack();
        assert_eq!(both.files, pack(&["/a", "/b", "/c"], &[]).files);
        let expected = [(1, 10, 5), (0, 0, 2), (1, 5, 5), (1, 15, 10), (2, 3, 1)];
        assert_eq!(both.extents, pack(&[], &expected).extents);
        assert_eq!(Pack::from_bytes(&both.to_bytes().unwrap()).unwrap(), both);
    }

    #[test]
    fn one_pack_is_its_own_union_and_none_is_empty() {
        let one = pack(&["/a"], &[(0, 3, 1), (0, 1, 1)]);
        assert_eq!(union(std::slice::from_ref(&one)).unwrap(), one);
        assert_eq!(union(&[]).unwrap(), Pack::default());
    }

    #[test]
    fn pack_of_another_system_is_refused_and_changes_nothing() {
        let first = pack(&["/a"], &[(0, 0, 1)]);
        type Change = fn(&mut PackFile);
        let changes: [(Change, &str); 3] = [
            (|file| file.size += 1, "size"),
            (|file| file.mtime_ns += 1, "time of modification"),
            (|file| file.inode += 1, "inode number"),
        ];
        for (change, what) in changes {
            let mut other = pack(&["/new", "/a"], &[(0, 0, 1), (1, 5, 1)]);
            change(&mut other.files[1]);
            let mut both = Union::default();
            both.add(&first).unwrap();
            let error = both.add(&other).unwrap_err().to_string();
            assert!(error.contains("/a") && error.contains(what), "{error}");
            assert_eq!(both.into_pack(), first);
        }
    }

    #[test]
    fn inode_numbers_are_compared_by_all_or_by_none() {
        let strict = pack(&["/a"], &[(0, 0, 1)]);
        let mut loose = strict.clone();
        loose.any_inode = true;
        assert!(union(&[strict, loose.clone()]).is_err());
        let mut moved = loose.clone();
        moved.files[0].inode += 1;
        moved.extents[0].first_page = 1;
        let both = union(&[loose, moved]).unwrap();
        assert!(both.any_inode);
        assert_eq!((both.files.len(), both.pages()), (1, 2));
    }

    /// Pages by path.
    fn pages(pack: &Pack) -> HashSet<(PathBuf, u32)> {
        let all = pack.extents.iter().flat_map(|extent| {
            let path = &pack.files[extent.file as usize].path;
            (extent.first_page..extent.first_page + extent.pages).map(|page| (path.clone(), page))
        });
        all.collect()
    }

    fn any_pack() -> impl Strategy<Value = Pack> {
        let extents = vec((0..3_u32, 0..90_u32, 1..10_u32), 0..30);
        (any::<[bool; 3]>(), extents).prop_map(|(named, extents)| {
            let paths: Vec<&str> = ["/a", "/b", "/c"]
                .into_iter()
                .zip(named)
                .filter_map(|(path, is_named)| is_named.then_some(path))
                .collect();
            let mut made = pack(&paths, &extents);
            made.extents
                .retain(|extent| (extent.file as usize) < paths.len());
            made
        })
    }

    proptest! {
        #[test]
        fn each_page_of_each_pack_is_in_one_extent(packs in vec(any_pack(), 0..5)) {
            let both = union(&packs).unwrap();
            let expected: HashSet<_> = packs.iter().flat_map(pages).collect();
            prop_assert_eq!(both.pages(), expected.len() as u64);
            prop_assert_eq!(pages(&both), expected);
            prop_assert!(both.to_bytes().is_ok());
        }
    }
}

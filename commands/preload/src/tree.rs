//! The tree that an image is made of, in the order in which an archive is to have it.
//!
//! `hythe preload sort-list --tree` calls it. Names only: never opens a file, never follows a
//! symbolic link.

use std::collections::HashSet;
use std::fs;
use std::io;
use std::os::unix::ffi::OsStrExt;
use std::path::{Path, PathBuf};

/// What is below a directory, each named from there, in the order of its path.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Tree {
    /// Each behind the one that it is in.
    directories: Vec<PathBuf>,
    /// All that is no directory.
    others: Vec<PathBuf>,
}

impl Tree {
    pub(super) fn below(root: &Path) -> io::Result<Self> {
        let mut tree = Self::default();
        let mut left = vec![PathBuf::new()];
        while let Some(directory) = left.pop() {
            for entry in fs::read_dir(root.join(&directory))? {
                let entry = entry?;
                let name = directory.join(entry.file_name());
                if entry.file_type()?.is_dir() {
                    left.push(name.clone());
                    tree.directories.push(name);
                } else {
                    tree.others.push(name);
                }
            }
        }
        tree.directories.sort_unstable();
        tree.others.sort_unstable();
        Ok(tree)
    }

    /// Those of `needed` that are there, and how many are not.
    pub(super) fn known<'a>(&self, needed: &[&'a [u8]]) -> (Vec<&'a [u8]>, usize) {
        let there: HashSet<&[u8]> = self.others.iter().map(|path| bytes(path)).collect();
        let known = needed.iter().copied();
        let known: Vec<&[u8]> = known.filter(|name| there.contains(name)).collect();
        let missing = needed.len() - known.len();
        (known, missing)
    }

    /// All of it, each name ended by a zero byte: the directories, which hold no data; what is
    /// needed, in its order; the rest.
    pub(super) fn listed(&self, needed: &[&[u8]]) -> Vec<u8> {
        let first: HashSet<&[u8]> = needed.iter().copied().collect();
        let rest = self.others.iter().map(|path| bytes(path));
        let rest = rest.filter(|name| !first.contains(name));
        let directories = self.directories.iter().map(|path| bytes(path));
        let all = directories.chain(needed.iter().copied()).chain(rest);
        all.flat_map(|name| name.iter().copied().chain([0]))
            .collect()
    }
}

fn bytes(path: &Path) -> &[u8] {
    path.as_os_str().as_bytes()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn directories_stand_first_then_what_is_needed_then_the_rest() {
        let place = tempfile::tempdir().expect("made");
        let root = place.path();
        fs::create_dir_all(root.join("usr/lib/empty")).expect("made");
        for name in ["usr/lib/c.so", "a", "z\nz", "usr/b"] {
            fs::write(root.join(name), name).expect("written");
        }
        // Neither entered nor followed.
        std::os::unix::fs::symlink("usr/lib", root.join("lib")).expect("made");
        let tree = Tree::below(root).expect("there");
        let needed: [&[u8]; 4] = [b"z\nz", b"lib/c.so", b"usr/b", b"usr"];
        let (known, missing) = tree.known(&needed);
        assert_eq!((known.len(), missing), (2, 2));
        let listed = tree.listed(&known);
        let expected = b"usr\0usr/lib\0usr/lib/empty\0z\nz\0usr/b\0a\0lib\0usr/lib/c.so\0";
        assert_eq!(listed, expected, "{}", String::from_utf8_lossy(&listed));
        assert!(Tree::below(&root.join("a")).is_err());
    }
}

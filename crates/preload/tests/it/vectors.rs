//! Packs against `spec/vectors/pack.txt`, which was computed from the page and not by this crate.

use hythe_preload::PreloadError;
use hythe_preload::pack::{Extent, Pack, PackFile};
use hythe_testing::vectors::{self, Group, bytes, number};
use proptest::prelude::{any, prop, proptest};

/// The groups of the file whose names begin with `prefix`, with those names.
fn groups(prefix: &str) -> Vec<(String, Group)> {
    vectors::groups(include_str!("../../../../spec/vectors/pack.txt"), prefix)
}

fn file(group: &Group, index: usize) -> PackFile {
    let value = |key: &str| &group[&format!("file.{index}.{key}")];
    PackFile {
        path: value("path").into(),
        size: number(value("size")),
        mtime_ns: number(value("mtime_ns")),
        inode: number(value("inode")),
    }
}

fn extent(group: &Group, index: usize) -> Extent {
    let mut words = group[&format!("extent.{index}")].split(' ').map(number);
    let mut next = || words.next().expect("three numbers");
    Extent {
        file: next(),
        first_page: next(),
        pages: next(),
    }
}

fn described(group: &Group) -> Pack {
    Pack {
        any_inode: group["flags"] == "1",
        files: (0..number(&group["files"]))
            .map(|index| file(group, index))
            .collect(),
        extents: (0..number(&group["extents"]))
            .map(|index| extent(group, index))
            .collect(),
    }
}

#[test]
fn packs_are_written_and_read_as_the_page_says() {
    let groups = groups("pack.");
    assert_eq!(groups.len(), 3);
    for (name, group) in groups {
        let (pack, hex) = (described(&group), bytes(&group["hex"]));
        assert_eq!(pack.to_bytes().expect("a good pack"), hex, "{name}");
        assert_eq!(Pack::from_bytes(&hex).expect("a good pack"), pack, "{name}");
        assert_eq!(pack.pages(), number::<u64>(&group["pages"]), "{name}");
    }
}

#[test]
fn what_the_page_refuses_is_refused() {
    let groups = groups("refused.");
    assert_eq!(groups.len(), 18);
    for (name, group) in groups {
        let refused = Pack::from_bytes(&bytes(&group["hex"]));
        let expected = match name.as_str() {
            "refused.version" => {
                matches!(refused, Err(PreloadError::Version { found: 2, known: 1 }))
            }
            _ => matches!(refused, Err(PreloadError::NotAPack(_))),
        };
        assert!(expected, "{name} ({}): {refused:?}", group["why"]);
    }
}

#[test]
fn what_cannot_stand_in_a_pack_is_not_written() {
    let file = |path: &str| PackFile {
        path: path.into(),
        size: 1,
        mtime_ns: 0,
        inode: 1,
    };
    let pack = |path: &str, pages| Pack {
        files: vec![file(path)],
        extents: vec![Extent {
            file: 0,
            first_page: 0,
            pages,
        }],
        ..Pack::default()
    };
    assert!(pack("/a", 1).to_bytes().is_ok());
    for path in ["a", "", "/a\0b"] {
        let refused = pack(path, 1).to_bytes();
        assert!(
            matches!(refused, Err(PreloadError::BadPath { .. })),
            "{path:?}: {refused:?}"
        );
    }
    for pages in [0, 2] {
        let refused = pack("/a", pages).to_bytes();
        assert!(
            matches!(refused, Err(PreloadError::NotAPack(_))),
            "{refused:?}"
        );
    }
    let many = Pack {
        files: vec![file("/a"); 65_537],
        ..Pack::default()
    };
    let refused = many.to_bytes().expect_err("too many").to_string();
    assert!(refused.contains("65537"), "{refused}");
}

proptest! {
    #[test]
    fn pack_detects_every_change_that_matters(
        at in any::<prop::sample::Index>(),
        to in any::<u8>(),
    ) {
        let (_, group) = groups("pack.player").remove(0);
        let mut damaged = bytes(&group["hex"]);
        let at = at.index(damaged.len());
        let differs = damaged[at] != to;
        damaged[at] = to;
        assert_eq!(Pack::from_bytes(&damaged).is_err(), differs, "byte {at}");
    }
}

#[test]
fn pack_is_replaced_whole_or_not_at_all() {
    let folder = tempfile::tempdir().expect("a directory");
    let path = folder.path().join("boot.pack");
    let (_, group) = groups("pack.player").remove(0);
    let pack = described(&group);
    pack.write(&path).expect("written");
    let broken = Pack {
        files: Vec::new(),
        ..pack.clone()
    };
    broken.write(&path).expect_err("extents of no file");
    assert_eq!(Pack::read(&path).expect("the old one"), pack);
    let names = std::fs::read_dir(folder.path()).expect("listed").count();
    assert_eq!(names, 1, "nothing unfinished is left");
}

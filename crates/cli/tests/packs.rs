//! `hythe preload show` and `sort-list`: what a pack holds, and an image laid out by it.

mod support;

use std::fs;
use std::path::{Path, PathBuf};
use std::process::Command;

use hythe_preload::pack::{Extent, Pack, PackFile};
use support::Root;

/// A pack of files that need not be there: the last is needed first, and the first never.
fn write_pack(root: &Root, paths: &[&str]) -> PathBuf {
    let file = |path: &&str| PackFile {
        path: path.into(),
        size: 3 * 4096,
        mtime_ns: 0,
        inode: 1,
    };
    let extent = |file: usize| Extent {
        file: file as u32,
        first_page: 1,
        pages: 2,
    };
    let pack = Pack {
        files: paths.iter().map(file).collect(),
        extents: (1..paths.len()).rev().map(extent).collect(),
        ..Pack::default()
    };
    let path = root.path().join("test.pack");
    pack.write(&path).expect("written");
    path
}

fn text(path: &Path) -> &str {
    path.to_str().expect("plain")
}

#[test]
fn a_pack_is_shown_in_order_with_bytes_and_extents() {
    let root = Root::new();
    let pack = write_pack(&root, &["/never", "/second", "/first"]);
    let document = root.json(&["preload", "show", text(&pack)]);
    assert_eq!(document["pages"], 4);
    assert_eq!(document["bytes"], 4 * 4096);
    let paths: Vec<&str> = (0..2)
        .map(|at| document["extents"][at]["path"].as_str().expect("a path"))
        .collect();
    assert_eq!(paths, ["/first", "/second"]);
    assert_eq!(document["files"][0]["pages"], 0);
    let shown = root.run(&["preload", "show", text(&pack)]);
    assert_eq!(shown.code, Some(0), "{}", shown.errors);
    assert!(shown.text().contains("/first"), "{}", shown.text());
}

#[test]
fn what_is_no_pack_is_refused_with_its_name_and_what_to_do() {
    let root = Root::new();
    let pack = write_pack(&root, &["/never", "/first"]);
    let whole = fs::read(&pack).expect("read");
    for (bytes, why) in [
        (&b"HYTHEPK"[..], "a header alone has"),
        (&whole[..whole.len() - 1], "it was cut or damaged"),
    ] {
        fs::write(&pack, bytes).expect("written");
        for command in ["show", "sort-list"] {
            let refused = root.run(&["preload", command, text(&pack)]);
            assert_eq!(refused.code, Some(1));
            let said = refused.errors;
            assert!(
                said.contains(text(&pack))
                    && said.contains(why)
                    && said.contains("record it again"),
                "{said}"
            );
        }
    }
    let missing = root.run(&["preload", "show", "/nowhere/boot.pack"]);
    assert!(
        missing.code == Some(1) && missing.errors.contains("/nowhere/boot.pack"),
        "{}",
        missing.errors
    );
}

#[test]
fn a_list_follows_the_tree_and_says_what_it_leaves_out() {
    let root = Root::new();
    let tree = root.path().join("tree");
    fs::create_dir_all(tree.join("etc")).expect("made");
    for name in ["etc/needed", "a", "first"] {
        fs::write(tree.join(name), name).expect("written");
    }
    let names = [
        "/x/never",
        "/elsewhere",
        "/x/gone",
        "/x/etc/needed",
        "/x/first",
    ];
    let pack = write_pack(&root, &names);
    let list =
        |options: &[&str]| root.run(&[&["preload", "sort-list", text(&pack)], options].concat());
    let plain = list(&["--root", "/x"]);
    assert_eq!(plain.code, Some(0), "{}", plain.errors);
    assert_eq!(plain.text(), "first 32767\netc/needed 32766\ngone 32765\n");
    assert!(
        plain
            .errors
            .contains("1 file of the pack left out: not below /x")
    );
    let whole = list(&["--root", "/x", "--tree", text(&tree), "--for", "erofs"]);
    assert_eq!(whole.code, Some(0), "{}", whole.errors);
    assert_eq!(whole.text(), "etc\0first\0etc/needed\0a\0");
    assert!(
        whole
            .errors
            .contains("1 file of the pack left out: not in the tree")
    );
    // Names from another root fit nothing of the tree.
    let nothing = list(&["--tree", text(&tree)]);
    assert_eq!(nothing.code, Some(1));
    assert!(nothing.errors.contains("--root"), "{}", nothing.errors);
    let missing = list(&["--tree", "/nowhere"]);
    assert_eq!(missing.code, Some(1));
    assert!(missing.errors.contains("/nowhere"), "{}", missing.errors);
}

/// Where the content of each file stands in an image that compresses nothing.
fn places(image: &[u8], marks: &[&str]) -> Vec<usize> {
    let place = |mark: &&str| {
        image
            .windows(mark.len())
            .position(|found| found == mark.as_bytes())
    };
    marks
        .iter()
        .map(|mark| place(mark).expect("its content"))
        .collect()
}

#[test]
fn mksquashfs_lays_an_image_out_by_the_list() {
    if Command::new("mksquashfs").arg("-version").output().is_err() {
        eprintln!("SKIPPED: no mksquashfs; make setup installs squashfs-tools");
        return;
    }
    let root = Root::new();
    let tree = root.path().join("tree");
    fs::create_dir_all(tree.join("etc")).expect("made");
    let content = |name: &str| format!("<content of {name}>").repeat(500);
    for name in ["a", "etc/b c", "d"] {
        fs::write(tree.join(name), content(name)).expect("written");
    }
    let pack = write_pack(&root, &["/a", "/etc/b c", "/d"]);
    let list = root.run(&["preload", "sort-list", text(&pack)]);
    assert_eq!(list.code, Some(0), "{}", list.errors);
    let sort = root.path().join("sort");
    fs::write(&sort, &list.output).expect("written");
    let image = root.path().join("image");
    let built = Command::new("mksquashfs")
        .args([&tree, &image])
        .args(["-noD", "-no-fragments", "-no-progress", "-sort"])
        .arg(&sort)
        .output()
        .expect("run");
    let said = String::from_utf8_lossy(&built.stderr);
    assert!(built.status.success() && said.is_empty(), "{said}");
    let image = fs::read(image).expect("read");
    let marks = ["<content of d>", "<content of etc/b c>", "<content of a>"];
    assert!(
        places(&image, &marks).is_sorted(),
        "first needed, first stored"
    );
}

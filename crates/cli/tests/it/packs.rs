//! `hythe preload show` and `sort-list`: what a pack holds, and an image laid out by it.

use std::fs;
use std::os::unix::fs::MetadataExt;
use std::path::{Path, PathBuf};
use std::process::Command;

use crate::support::Root;
use hythe_preload::pack::{Extent, Pack, PackFile};

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
fn pack_is_shown_in_order_with_bytes_and_extents() {
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

/// A pack of `file`, which is there, with these extents of it.
fn pack_of(root: &Root, name: &str, file: &Path, extents: &[(u32, u32)]) -> PathBuf {
    let found = fs::metadata(file).expect("own");
    let pack = Pack {
        files: vec![PackFile {
            path: file.to_owned(),
            size: found.size(),
            mtime_ns: found.mtime() * 1_000_000_000 + found.mtime_nsec(),
            inode: found.ino(),
        }],
        extents: extents
            .iter()
            .map(|&(first_page, pages)| Extent {
                file: 0,
                first_page,
                pages,
            })
            .collect(),
        ..Pack::default()
    };
    let path = root.path().join(name);
    pack.write(&path).expect("written");
    path
}

#[test]
fn union_has_each_page_once_and_is_shown_and_replayed() {
    let root = Root::new();
    let file = root.path().join("file");
    fs::write(&file, vec![1; 20 * 4096]).expect("own");
    let one = pack_of(&root, "one.pack", &file, &[(10, 2), (0, 1)]);
    let two = pack_of(&root, "two.pack", &file, &[(0, 2), (9, 4)]);
    let out = root.path().join("both.pack");
    let merge = ["preload", "merge", text(&one), text(&two), "-o", text(&out)];
    let document = root.json(&merge);
    assert_eq!(document["pages"], 6);
    assert_eq!(document["merged"][0]["added_pages"], 3);
    assert_eq!(document["merged"][1]["added_pages"], 3);
    let shown = root.json(&["preload", "show", text(&out)]);
    let extents: Vec<(u64, u64)> = shown["extents"]
        .as_array()
        .expect("a list")
        .iter()
        .map(|extent| {
            let number = |name: &str| extent[name].as_u64().expect("a number");
            (number("first_page"), number("pages"))
        })
        .collect();
    assert_eq!(extents, [(10, 2), (0, 1), (1, 1), (9, 1), (12, 1)]);
    let replayed = root.run(&["preload", "replay", text(&out), "--json"]);
    assert_eq!(replayed.code, Some(0), "{}", replayed.errors);
    let replayed: serde_json::Value =
        serde_json::from_slice(&replayed.output).expect("one document");
    assert_eq!(replayed["changed"], serde_json::json!([]), "{replayed}");
    assert_eq!(replayed["pages"]["asked"], 6, "{replayed}");

    // It is not replaced unless that is said; then it may be one of its own parts.
    root.run(&merge)
        .failed(1, &["both.pack is there already", "--force"]);
    let again = [
        "preload",
        "merge",
        text(&out),
        text(&two),
        "-o",
        text(&out),
        "--force",
    ];
    let text = root.ok(&again);
    assert!(text.contains("in 5 extents of 1 file"), "{text}");
}

#[test]
fn merge_refuses_foreign_and_damaged_packs() {
    let root = Root::new();
    let file = root.path().join("file");
    fs::write(&file, vec![1; 4096]).expect("own");
    let one = pack_of(&root, "one.pack", &file, &[(0, 1)]);
    fs::write(&file, vec![1; 8192]).expect("own");
    let other = pack_of(&root, "other.pack", &file, &[(1, 1)]);
    let out = root.path().join("out.pack");
    let merge = |packs: &[&Path]| {
        let packs: Vec<&str> = packs.iter().map(|path| text(path)).collect();
        root.run(&[&["preload", "merge"], &packs[..], &["-o", text(&out)]].concat())
    };
    merge(&[&one, &other]).failed(
        1,
        &[
            "cannot merge",
            "other.pack",
            "/file has another size",
            "8192 instead of 4096",
        ],
    );
    let mut loose = Pack::read(&one).expect("written");
    loose.any_inode = true;
    let loose_path = root.path().join("loose.pack");
    loose.write(&loose_path).expect("written");
    merge(&[&one, &loose_path]).failed(1, &["loose.pack", "with --any-inode"]);
    let whole = fs::read(&one).expect("own");
    let damaged = root.path().join("damaged.pack");
    for at in 0..whole.len() {
        let mut bytes = whole.clone();
        bytes[at] ^= 1;
        fs::write(&damaged, &bytes[..]).expect("own");
        if at % 16 == 0 {
            merge(&[&one, &damaged]).failed(1, &["cannot use", "damaged.pack"]);
        }
        assert!(Pack::read(&damaged).is_err(), "byte {at}");
    }
    merge(&[&one, &root.path().join("none.pack")]).failed(1, &["cannot read", "none.pack"]);
    merge(&[&one]).failed(2, &["2 values required"]);
    assert!(!out.exists(), "a refusal wrote something");
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
fn list_follows_the_tree_and_says_what_it_leaves_out() {
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

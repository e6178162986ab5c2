//! Images that are laid out by a recording: what is needed first is stored first, nothing is lost,
//! and the same recording is read ahead from the image.
//!
//! The builders are the real ones. mkfs.erofs that takes tar archives is newer than Debian 12's:
//! `make test-boot` fetches it and names its directory in `HYTHE_EROFS`; else the one in PATH
//! serves, if it is new enough.

use crate::support;
use std::fs;
use std::path::{Path, PathBuf};
use std::process::{Command, Output, Stdio};

use crate::place::{Place, text};
use serde_json::Value;

/// In the order in which they are needed, with their bytes; their names are in another. None of
/// more bytes than mksquashfs packs into one block with others, except where fragments are off.
const NEEDED: [(&str, usize); 8] = [
    ("usr/lib/libz.so", 200_000),
    ("etc/b c", 5_000),
    ("usr/bin/a", 40_000),
    ("z", 300_000),
    ("usr/lib/liba.so", 12_288),
    ("etc/#a", 100),
    ("usr/bin/zz", 130_000),
    ("usr/lib/libb.so", 4_096),
];
const NOT_NEEDED: [(&str, usize); 4] = [
    ("a", 20_000),
    ("etc/a", 3_000),
    ("usr/lib/libm.so", 150_000),
    ("zzz", 10),
];

/// A tree, recorded.
struct Scene {
    place: Place,
    tree: PathBuf,
}

impl Scene {
    fn new() -> Option<Self> {
        let place = Place::new()?;
        let tree = place.path("tree");
        for (name, bytes) in NEEDED.into_iter().chain(NOT_NEEDED) {
            let path = tree.join(name);
            fs::create_dir_all(path.parent().expect("below the tree")).expect("made");
            let mut content = mark(name).repeat(bytes.div_ceil(mark(name).len()));
            content.truncate(bytes.max(mark(name).len()));
            fs::write(path, content).expect("written");
        }
        fs::create_dir(tree.join("empty")).expect("made");
        std::os::unix::fs::symlink("usr/lib", tree.join("lib")).expect("made");
        fs::hard_link(tree.join("a"), tree.join("etc/same as a")).expect("linked");
        let paths = NEEDED.map(|(name, _)| tree.join(name));
        let script = r#"for file; do cat "$file"; done >/dev/null"#;
        let files = paths.iter().map(|path| text(path));
        let command: Vec<&str> = ["sh", "-c", script, "sh"]
            .into_iter()
            .chain(files)
            .collect();
        place.record(&["--any-inode"], &command);
        Some(Self { place, tree })
    }

    /// The list for a kind of image, in a file.
    fn list(&self, image: &str) -> PathBuf {
        let pack = self.place.pack_path();
        let tree = text(&self.tree);
        let options = ["--for", image, "--root", tree, "--tree", tree];
        let ended = self
            .place
            .root
            .run(&[&["preload", "sort-list", text(&pack)][..], &options].concat());
        assert_eq!(ended.code, Some(0), "{}", ended.errors);
        // The shell, cat and their libraries are no part of the image.
        assert!(
            ended.errors.contains("left out: not below"),
            "{}",
            ended.errors
        );
        let list = self.place.path(image);
        fs::write(&list, ended.output).expect("written");
        list
    }

    /// Looks at an image, what its own program took out of it, and what is read ahead from it.
    fn check(&self, image: &Path, kind: &str, extracted: &Path) {
        let needed = NEEDED.map(|(name, _)| name);
        let bytes = fs::read(image).expect("read");
        let places: Vec<usize> = needed.iter().map(|name| place_of(&bytes, name)).collect();
        assert!(places.is_sorted(), "{kind}: stored at {places:?}");
        for (name, _) in NOT_NEEDED {
            let place = place_of(&bytes, name);
            assert!(Some(&place) > places.last(), "{kind}: {name} is at {place}");
        }
        assert_eq!(listing(&self.tree), listing(extracted), "{kind}");
        same(&self.tree, extracted);
        self.read_ahead_from(image, kind);
    }

    /// With the image in the place of the tree, the same pack names its files.
    fn read_ahead_from(&self, image: &Path, kind: &str) {
        let script = r#"mount -t "$1" -o loop,ro "$2" "$3" || exit 77
            tree=$3 copy=$4; shift 4
            "$@" && diff -r --no-dereference "$copy" "$tree" >&2"#;
        // Before the image is in its place.
        let copy = self.place.path("copy");
        let _ = fs::remove_dir_all(&copy);
        must(Command::new("cp").arg("-a").args([&self.tree, &copy]));
        let run_dir = self.place.path("run");
        let output = Command::new("unshare")
            .args([
                "--mount",
                "--propagation",
                "private",
                "sh",
                "-c",
                script,
                "sh",
                kind,
            ])
            .args([image, &self.tree, &copy])
            .arg(support::HYTHE)
            .args(["preload", "replay", "--json", "--run-dir"])
            .args([&run_dir, &self.place.pack_path()])
            .stdin(Stdio::null())
            .output()
            .expect("unshare");
        let said = String::from_utf8_lossy(&output.stderr);
        if output.status.code() == Some(77) {
            return eprintln!("SKIPPED: {kind} cannot be mounted here: {said}");
        }
        assert!(output.status.success(), "{kind}: {said}");
        let document: Value = serde_json::from_slice(&output.stdout).expect("a document");
        assert_eq!(document["changed"], Value::Array(Vec::new()), "{document}");
        let systems = document["file_systems"]
            .as_array()
            .expect("those read from");
        assert!(
            systems.iter().any(|system| system["kind"] == kind),
            "{document}"
        );
        let pages = &document["pages"];
        let done = pages["loaded"].as_u64().expect("a count")
            + pages["already_there"].as_u64().expect("a count");
        assert_eq!(Some(done), pages["asked"].as_u64(), "{document}");
        // Pages of the tree itself, which are in memory, are not those of the image.
        let of_image: u64 = NEEDED
            .iter()
            .map(|(_, bytes)| bytes.div_ceil(4096) as u64)
            .sum();
        assert!(pages["loaded"].as_u64() >= Some(of_image), "{document}");
    }
}

/// What a file consists of; of no other file's.
fn mark(name: &str) -> String {
    format!("<content of {name}>")
}

/// Where the content of a file begins in an image that compresses nothing.
fn place_of(image: &[u8], name: &str) -> usize {
    let mark = mark(name);
    let found = image
        .windows(mark.len())
        .position(|found| found == mark.as_bytes());
    found.expect("its content")
}

/// Names, modes, owners, sizes and times of all that is below.
fn listing(root: &Path) -> String {
    let output = must(Command::new("find").current_dir(root).args([
        ".",
        "-mindepth",
        "1",
        "(",
        "-type",
        "d",
        "-printf",
        "%P %M %U %G\\n",
        "-o",
        "-printf",
        "%P %M %U %G %s %n %l %Ts\\n",
        ")",
    ]));
    let text = String::from_utf8(output.stdout).expect("plain names");
    let mut lines: Vec<&str> = text.lines().collect();
    lines.sort_unstable();
    lines.join("\n")
}

fn same(one: &Path, other: &Path) {
    must(
        Command::new("diff")
            .args(["-r", "--no-dereference"])
            .args([one, other]),
    );
}

/// Runs a program that must succeed.
fn must(command: &mut Command) -> Output {
    let output = command.stdin(Stdio::null()).output();
    let output = output.unwrap_or_else(|error| panic!("{command:?}: {error}"));
    let said = [&output.stdout[..], &output.stderr].concat();
    let said = String::from_utf8_lossy(&said);
    assert!(output.status.success(), "{command:?}: {said}");
    output
}

#[test]
fn recording_orders_squashfs_image_and_reads_it_ahead() {
    if Command::new("mksquashfs").arg("-version").output().is_err() {
        return eprintln!("SKIPPED: no mksquashfs; make setup installs squashfs-tools");
    }
    let Some(scene) = Scene::new() else { return };
    let list = scene.list("squashfs");
    let image = scene.place.path("image.squashfs");
    must(
        Command::new("mksquashfs")
            .args([&scene.tree, &image])
            .args(["-noD", "-no-fragments", "-no-progress", "-sort"])
            .arg(&list),
    );
    let extracted = scene.place.path("extracted");
    must(
        Command::new("unsquashfs")
            .args(["-no-progress", "-d"])
            .args([&extracted, &image]),
    );
    scene.check(&image, "squashfs", &extracted);
}

/// A program of erofs-utils.
fn erofs(program: &str) -> Command {
    match std::env::var_os("HYTHE_EROFS") {
        Some(directory) => Command::new(Path::new(&directory).join("bin").join(program)),
        None => Command::new(program),
    }
}

/// Why mkfs.erofs cannot be used.
fn lacks_erofs() -> Option<String> {
    let help = match erofs("mkfs.erofs").arg("--help").output() {
        Ok(output) => [output.stdout, output.stderr].concat(),
        Err(error) => return Some(format!("no mkfs.erofs ({error})")),
    };
    let keeps_order = String::from_utf8_lossy(&help).contains("--sort=");
    (!keeps_order)
        .then(|| "this mkfs.erofs is older than 1.8 and sorts the files of an archive".to_owned())
}

#[test]
fn recording_orders_erofs_image_and_reads_it_ahead() {
    if let Some(why) = lacks_erofs() {
        assert!(std::env::var_os("HYTHE_EROFS").is_none(), "{why}");
        return eprintln!("SKIPPED: {why}; make test-boot fetches one");
    }
    let Some(scene) = Scene::new() else { return };
    let list = scene.list("erofs");
    let archive = scene.place.path("archive.tar");
    let image = scene.place.path("image.erofs");
    let mut tar = Command::new("tar");
    tar.arg("-C")
        .arg(&scene.tree)
        .args(["--null", "--no-recursion", "-T"])
        .arg(&list)
        .arg("-cf")
        .arg(&archive);
    must(&mut tar);
    must(
        erofs("mkfs.erofs")
            .args(["--tar=f", "--sort=none", "-E^inline_data"])
            .args([&image, &archive]),
    );
    let extracted = scene.place.path("extracted");
    let mut extract = std::ffi::OsString::from("--extract=");
    extract.push(&extracted);
    must(
        erofs("fsck.erofs")
            .arg(extract)
            .arg("--preserve")
            .arg(&image),
    );
    addresses_ascend(&image);
    scene.check(&image, "erofs", &extracted);
}

/// As the file system's own program sees it.
fn addresses_ascend(image: &Path) {
    let addresses = NEEDED.map(|(name, _)| {
        let output = must(
            erofs("dump.erofs")
                .arg("-e")
                .arg(format!("--path=/{name}"))
                .arg(image),
        );
        let text = String::from_utf8_lossy(&output.stdout).into_owned();
        first_address(&text).unwrap_or_else(|| panic!("{name}: {text}"))
    });
    assert!(addresses.is_sorted(), "{addresses:?}");
}

/// Of ` 0:        0..  200000 |  200000 :      20480..    220480 |  200000`: the first byte on the
/// device.
fn first_address(extents: &str) -> Option<u64> {
    let first = extents
        .lines()
        .find(|line| line.trim_start().starts_with("0:"))?;
    let device = first.rsplit_once(':')?.1;
    device.split("..").next()?.trim().parse().ok()
}

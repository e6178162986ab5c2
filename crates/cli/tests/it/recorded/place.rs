//! A place to record in: a directory on storage, the turn to change the machine, and the pack that
//! comes of it.
//!
//! Read-ahead and caches belong to the whole machine: one test records at a time, and again when
//! somebody else got in between, which the recorder tells. It takes root, and a build directory on
//! storage: else tests are skipped, aloud.

#![allow(dead_code, reason = "each test file uses a part of it")]

use std::fs::File;
use std::io::Write;
use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::OnceLock;
use std::time::Instant;

use hythe_preload::pack::Pack;
use hythe_testing::Turn;
use rustix::fs::{Advice, fadvise};
use rustix::process::geteuid;
use serde_json::Value;

use crate::support::{BOUND, Ended, Root};

/// Whether recording works here, found out once.
static POSSIBLE: OnceLock<Result<(), String>> = OnceLock::new();
pub(crate) const FILE_PAGES: usize = 1024;

/// A directory on storage, and the turn to record.
pub(crate) struct Place {
    pub(crate) root: Root,
    pub(crate) directory: tempfile::TempDir,
    /// Held by each test while it changes the machine.
    _turn: Turn,
}

impl Place {
    /// None, loudly, where recording is not possible.
    pub(crate) fn new() -> Option<Self> {
        if !geteuid().is_root() {
            println!("skipped: recording takes root");
            return None;
        }
        let turn = Turn::take("recording");
        let directory = tempfile::tempdir_in(env!("CARGO_TARGET_TMPDIR")).expect("made");
        let place = Self {
            root: Root::new(),
            directory,
            _turn: turn,
        };
        match POSSIBLE.get_or_init(|| place.probe()) {
            Ok(()) => Some(place),
            Err(why) => {
                println!("skipped: {why}");
                None
            }
        }
    }

    /// Can anything be recorded here?
    fn probe(&self) -> Result<(), String> {
        let inside = self.file("probe");
        let ended = self.run(&[], &["cat", text(&inside)]);
        if !self.pack_path().exists() {
            return Err(ended.errors);
        }
        if self.pages_of(&inside).is_none() {
            let path = self.directory.path();
            return Err(format!("{} is not on storage", path.display()));
        }
        Ok(())
    }

    pub(crate) fn path(&self, name: &str) -> PathBuf {
        self.directory.path().join(name)
    }

    pub(crate) fn pack_path(&self) -> PathBuf {
        self.path("out.pack")
    }

    pub(crate) fn pack(&self) -> Pack {
        Pack::read(&self.pack_path()).expect("a pack")
    }

    /// A file of [`FILE_PAGES`] pages, none of them in memory.
    pub(crate) fn file(&self, name: &str) -> PathBuf {
        let path = self.path(name);
        let mut file = File::create_new(&path).expect("made");
        file.write_all(&vec![b'x'; FILE_PAGES * 4096 - 100])
            .expect("written");
        file.sync_all().expect("written");
        fadvise(&file, 0, None, Advice::DontNeed).expect("dropped");
        path
    }

    /// Uses what it is told, and nothing else.
    pub(crate) fn touch_program(&self) -> PathBuf {
        let program = self.path("touch");
        let source = concat!(env!("CARGO_MANIFEST_DIR"), "/tests/it/recorded/touch.c");
        let compiled = Command::new("cc")
            .args(["-O1", "-Wall", "-Werror", "-o"])
            .args([&program, Path::new(source)])
            .status()
            .expect("a C compiler");
        assert!(compiled.success());
        program
    }

    pub(crate) fn arguments<'a>(
        options: &[&'a str],
        output: &'a str,
        command: &[&'a str],
    ) -> Vec<&'a str> {
        // Copies take time; a test that is about them says so.
        let copies = options.iter().any(|option| option.starts_with("--scratch"));
        let begin: &[&str] = match copies {
            true => &["preload", "record", "--force", "-o", output],
            false => &["preload", "record", "--no-copies", "--force", "-o", output],
        };
        [begin, options, &["--"], command].concat()
    }

    /// Records once, unless somebody else got in between.
    pub(crate) fn run(&self, options: &[&str], command: &[&str]) -> Ended {
        let output = self.pack_path();
        let arguments = Self::arguments(options, text(&output), command);
        let begun = Instant::now();
        loop {
            let ended = self.root.run(&arguments);
            let disturbed = ["another recording", "dropped the caches"];
            if !disturbed.iter().any(|words| ended.errors.contains(words)) {
                return ended;
            }
            assert!(begun.elapsed() < BOUND, "never alone: {}", ended.errors);
        }
    }

    /// Records what must work, and returns the document.
    pub(crate) fn record(&self, options: &[&str], command: &[&str]) -> Value {
        let ended = self.run(&[&["--json"], options].concat(), command);
        assert_eq!(ended.code, Some(0), "{}", ended.errors);
        serde_json::from_slice(&ended.output).expect("one document")
    }

    /// The pages of a file in the pack, as first page and count; none if it is not in there.
    pub(crate) fn pages_of(&self, path: &Path) -> Option<Vec<(u32, u32)>> {
        let pack = self.pack();
        let index = pack.files.iter().position(|file| file.path == path)?;
        let extents = pack
            .extents
            .iter()
            .filter(|extent| extent.file as usize == index);
        Some(
            extents
                .map(|extent| (extent.first_page, extent.pages))
                .collect(),
        )
    }
}

pub(crate) fn text(path: &Path) -> &str {
    path.to_str().expect("plain")
}

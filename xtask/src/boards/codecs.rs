//! The decoders of `rtos/codecs`, and which programs are built with them.

use super::compile::Unit;
use super::folders::{c_paths, folder_of, include, system_include};
use crate::metadata::Metadata;
use std::path::{Path, PathBuf};

/// A folder of `rtos/codecs`, the crate whose C sources it uses, and where they are in it.
struct Codec {
    folder: &'static str,
    package: &'static str,
    sources: &'static str,
    /// In front of each of their files; none: there is nothing to compile but headers.
    header: Option<&'static str>,
    programs: &'static [&'static str],
}

const CODECS: [Codec; 2] = [
    Codec {
        folder: "mp3",
        package: "minimp3-sys",
        sources: "minimp3",
        header: None,
        programs: &["decoder", "player"],
    },
    Codec {
        folder: "h264",
        package: "h264bsd-sys",
        sources: "h264bsd/src",
        header: Some("third_party.h"),
        programs: &["player"],
    },
];

/// The decoders, with where their third-party sources were unpacked.
pub(super) struct Codecs {
    sources: Vec<(&'static Codec, PathBuf)>,
}

impl Codecs {
    /// Finds the third-party sources among the packages of `rtos/vendor`.
    pub(super) fn find(metadata: &Metadata) -> Result<Self, String> {
        let found = CODECS.iter().map(|codec| {
            folder_of(metadata, codec.package, codec.sources).map(|path| (codec, path))
        });
        Ok(Self {
            sources: found.collect::<Result<_, _>>()?,
        })
    }

    fn of<'a>(&'a self, app: &'a str) -> impl Iterator<Item = &'a (&'static Codec, PathBuf)> {
        let used = move |(codec, _): &&(&Codec, PathBuf)| codec.programs.contains(&app);
        self.sources.iter().filter(used)
    }

    /// Flags with which files of this program are compiled.
    pub(super) fn flags(&self, root: &Path, app: &str) -> Vec<String> {
        let mut flags = Vec::new();
        for (codec, sources) in self.of(app) {
            flags.extend(include(&root.join("codecs").join(codec.folder)));
            flags.extend(system_include(sources));
        }
        flags
    }

    /// Files of this program.
    pub(super) fn units(&self, root: &Path, app: &str) -> Result<Vec<Unit>, String> {
        let mut units = Vec::new();
        for (codec, sources) in self.of(app) {
            let folder = root.join("codecs").join(codec.folder);
            let ours = c_paths(&folder)?.into_iter();
            units.extend(ours.map(|path| Unit::ours(path).at_link_time()));
            if let Some(header) = codec.header {
                let header = folder.join(header);
                let theirs = c_paths(sources)?.into_iter();
                units.extend(theirs.map(|path| Unit::third_party(path).behind(&header)));
            }
        }
        Ok(units)
    }
}

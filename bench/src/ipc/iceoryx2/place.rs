//! Where iceoryx2 keeps its files: under a name of this run alone, so that nobody else is met and
//! nothing stays behind.

use std::path::{Path, PathBuf};

use iceoryx2::config::Config;
use iceoryx2::prelude::{FileName, SemanticString};

use super::refused;
use crate::error::BenchError;

/// Where iceoryx2 keeps its files in this run; removed at the end, with what a killed process left
/// there.
#[derive(Debug)]
pub(crate) struct Place {
    name: String,
}

impl Place {
    pub(crate) fn new() -> Self {
        let name = format!("hythe_bench_{}_", std::process::id());
        Self { name }
    }

    pub(crate) fn name(&self) -> &str {
        &self.name
    }
}

impl Drop for Place {
    fn drop(&mut self) {
        // Not there is what is hoped for.
        let _ = std::fs::remove_dir_all(directory(&self.name));
        let shared = std::fs::read_dir("/dev/shm")
            .into_iter()
            .flatten()
            .flatten();
        for file in shared.filter(|file| starts_with(&file.path(), &self.name)) {
            let _ = std::fs::remove_file(file.path());
        }
    }
}

fn starts_with(path: &Path, name: &str) -> bool {
    let file = path.file_name().unwrap_or_default();
    file.to_string_lossy().starts_with(name)
}

fn directory(name: &str) -> PathBuf {
    std::env::temp_dir().join(name)
}

pub(super) fn config(name: &str) -> Result<Config, BenchError> {
    let mut config = Config::default();
    let directory = directory(name);
    let root = iceoryx2::prelude::Path::new(directory.as_os_str().as_encoded_bytes());
    config
        .global
        .set_root_path(&root.map_err(refused("a path"))?);
    config.global.prefix = FileName::new(name.as_bytes()).map_err(refused("a name"))?;
    Ok(config)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_a_killed_process_left_is_removed_and_nothing_else() {
        let place = Place::new();
        let left = [
            Path::new("/dev/shm").join(format!("{}left.data", place.name())),
            directory(place.name()).join("node"),
        ];
        let of_others = Path::new("/dev/shm").join(format!("of_others_{}", std::process::id()));
        std::fs::create_dir_all(directory(place.name())).expect("made");
        for file in left.iter().chain([&of_others]) {
            std::fs::write(file, "").expect("written");
        }
        drop(place);
        assert!(left.iter().all(|file| !file.exists()));
        std::fs::remove_file(of_others).expect("untouched");
    }
}

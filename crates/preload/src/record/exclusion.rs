//! What a person wants left out of a recording: a path with all below it, or a pattern.
//!
//! Never looks at the file system: names are compared.

use std::path::{Path, PathBuf};
use std::str::FromStr;

use glob::Pattern;

use crate::PreloadError;

/// Files of these names are left out.
#[derive(Clone, Debug, PartialEq, Eq)]
pub enum Exclusion {
    /// The path and everything below it.
    Below(PathBuf),
    /// Paths that match from beginning to end; a star also matches slashes.
    Matching(Pattern),
}

impl FromStr for Exclusion {
    type Err = PreloadError;

    /// A text with one of `*?[` is a pattern.
    fn from_str(text: &str) -> Result<Self, PreloadError> {
        if !text.contains(['*', '?', '[']) {
            return Ok(Self::Below(text.into()));
        }
        Pattern::new(text)
            .map(Self::Matching)
            .map_err(|error| PreloadError::BadPattern {
                pattern: text.to_owned(),
                reason: error.to_string(),
            })
    }
}

impl Exclusion {
    /// Is `path` one of them?
    #[must_use]
    pub fn covers(&self, path: &Path) -> bool {
        match self {
            Self::Below(above) => path.starts_with(above),
            Self::Matching(pattern) => pattern.matches_path(path),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn paths_cover_what_is_below_and_patterns_what_matches() {
        let covers =
            |text: &str, path: &str| text.parse::<Exclusion>().unwrap().covers(Path::new(path));
        assert!(covers("/var/log", "/var/log/a/b"));
        assert!(!covers("/var/log", "/var/logs"));
        assert!(covers("*.pyc", "/usr/lib/a.pyc"));
        assert!(!covers("*.pyc", "/usr/lib/a.py"));
        assert!(covers("/usr/*/lib?.so", "/usr/x/y/libm.so"));
        assert!("/a[".parse::<Exclusion>().is_err());
    }
}

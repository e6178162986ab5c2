//! Rule `folder`: a folder or file is named after its role; names that fit anything collect
//! everything.

use super::finding::Finding;
use super::tree::Source;

const BANNED: &[&str] = &["common", "helper", "helpers", "misc", "util", "utils"];

pub(crate) fn check(source: &Source) -> Vec<Finding> {
    let banned = source.path.split('/').find(|part| {
        let stem = part
            .split_once('.')
            .map_or(*part, |(stem, _extension)| stem);
        BANNED.contains(&stem)
    });
    let finding = |part| {
        let what = format!("the name {part:?} says nothing");
        source.finding(1, "folder", what, "name it after the role it plays")
    };
    banned.into_iter().map(finding).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn count(path: &str) -> usize {
        check(&Source::new(path, "")).len()
    }

    #[test]
    fn refuses_names_that_fit_anything() {
        for path in [
            "crates/util/src/lib.rs",
            "tests/common/mod.rs",
            "crates/pool/src/helpers.rs",
        ] {
            assert_eq!(count(path), 1, "{path}");
        }
    }

    #[test]
    fn passes_names_that_contain_them() {
        for path in [
            "crates/utility_meter/src/lib.rs",
            "docs/common-questions.md",
            "tests/support/mod.rs",
        ] {
            assert_eq!(count(path), 0, "{path}");
        }
    }
}

//! Names of tests in a test program with a module for each matter, as the program takes them behind
//! `--exact`.

use std::panic::Location;

/// The full name of test `name` of the calling file: `wire::sends` called in `tests/it/wire.rs`,
/// `sends` where the file is a test program of its own.
#[must_use]
#[track_caller]
pub fn in_module(name: &str) -> String {
    full_name(Location::caller().file(), name)
}

fn full_name(file: &str, name: &str) -> String {
    let Some((_, path)) = file.split_once("tests/it/") else {
        return name.to_owned();
    };
    let module = path.trim_end_matches(".rs").trim_end_matches("/mod");
    format!("{}::{name}", module.replace('/', "::"))
}

#[cfg(test)]
mod tests {
    use super::full_name;

    #[test]
    fn name_has_modules_of_its_file() {
        for (file, expected) in [
            ("crates/node/tests/it/wire.rs", "wire::sends"),
            ("tests/it/wire/far.rs", "wire::far::sends"),
            ("tests/it/wire/mod.rs", "wire::sends"),
            ("crates/wire/tests/descriptors.rs", "sends"),
        ] {
            assert_eq!(full_name(file, "sends"), expected);
        }
    }
}

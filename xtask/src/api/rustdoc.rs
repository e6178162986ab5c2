//! What rustdoc says about the facade and our crates below it, as JSON, and links between them.
//!
//! rustdoc's JSON of one crate names what other crates define, but does not describe it, so all
//! crates are read. The pinned toolchain is stable, where JSON is behind `RUSTC_BOOTSTRAP`; since
//! that variable changes what build scripts find, the crates are built apart from the usual ones.

use crate::metadata::{Metadata, Package};
use rustdoc_types::{Crate, FORMAT_VERSION, Id, Item, ItemKind, ItemSummary};
use serde::Deserialize;
use std::collections::HashMap;
use std::path::Path;
use std::process::Command;

/// The documentation of the crates.
pub(super) struct Docs {
    crates: Vec<Crate>,
    /// Items by the paths of their definitions, which are the same in the JSON of each crate.
    definitions: HashMap<(Vec<String>, ItemKind), Key>,
}

/// An item: the crate that defines it, by its index in [`Docs`], and its number there.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub(super) struct Key {
    pub(super) home: usize,
    pub(super) id: Id,
}

/// The part of the JSON that says how to read the rest.
#[derive(Deserialize)]
struct Format {
    format_version: u32,
}

impl Docs {
    /// Runs rustdoc for `facade` and our crates that it is built of, in `<target>/api`.
    pub(super) fn make(metadata: &Metadata, facade: &str) -> Result<Self, String> {
        let packages = own_packages(metadata, facade);
        let target = metadata.target_directory.join("api");
        let mut command = Command::new(std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into()));
        command
            .current_dir(&metadata.workspace_root)
            .env("RUSTC_BOOTSTRAP", "1")
            .env(
                "RUSTDOCFLAGS",
                "-Zunstable-options --output-format=json --document-hidden-items",
            )
            .args([
                "doc",
                "--quiet",
                "--no-deps",
                "--lib",
                "--all-features",
                "--target-dir",
            ])
            .arg(&target);
        for package in &packages {
            command.args(["--package", package]);
        }
        match command.status() {
            Ok(status) if status.success() => {}
            Ok(_) => return Err("rustdoc made no JSON of the public names".into()),
            Err(error) => return Err(format!("cargo doc did not start: {error}")),
        }
        let crates: Result<Vec<Crate>, String> = packages
            .iter()
            .map(|package| {
                read(
                    &target
                        .join("doc")
                        .join(format!("{}.json", library(package))),
                )
            })
            .collect();
        Ok(Self::new(crates?))
    }

    fn new(crates: Vec<Crate>) -> Self {
        let mut definitions = HashMap::new();
        for (home, described) in crates.iter().enumerate() {
            let own = described
                .paths
                .iter()
                .filter(|(id, summary)| summary.crate_id == 0 && described.index.contains_key(id));
            for (id, summary) in own {
                definitions.insert((summary.path.clone(), summary.kind), Key { home, id: *id });
            }
        }
        Self {
            crates,
            definitions,
        }
    }

    /// The root module of a crate.
    pub(super) fn root(&self, name: &str) -> Option<Key> {
        let path = vec![library(name)];
        self.definitions.get(&(path, ItemKind::Module)).copied()
    }

    pub(super) fn item(&self, key: Key) -> Option<&Item> {
        self.crates[key.home].index.get(&key.id)
    }

    /// All items of all crates.
    pub(super) fn items(&self) -> impl Iterator<Item = (Key, &Item)> {
        self.crates
            .iter()
            .enumerate()
            .flat_map(|(home, described)| {
                let items = described.index.iter();
                items.map(move |(id, item)| (Key { home, id: *id }, item))
            })
    }

    /// The item that a crate calls `id`, if one of our crates defines it and makes it public.
    pub(super) fn resolve(&self, home: usize, id: Id) -> Option<Key> {
        match self.summary(home, id) {
            Some(summary) if summary.crate_id != 0 => {
                let definition = (summary.path.clone(), summary.kind);
                self.definitions.get(&definition).copied()
            }
            _ => Some(Key { home, id }).filter(|key| self.item(*key).is_some()),
        }
    }

    /// Where what a crate calls `id` is defined.
    pub(super) fn summary(&self, home: usize, id: Id) -> Option<&ItemSummary> {
        self.crates[home].paths.get(&id)
    }
}

/// The facade and the packages of the workspace that a build of it links.
fn own_packages(metadata: &Metadata, facade: &str) -> Vec<String> {
    let find = |name: &str| -> Option<&Package> {
        let mut own = metadata.packages.iter().filter(|package| package.is_ours());
        own.find(|package| package.name == name)
    };
    let mut found = vec![facade.to_owned()];
    let mut next = 0;
    while let Some(name) = found.get(next) {
        let dependencies = find(name).map_or(&[][..], |package| &package.dependencies);
        for dependency in dependencies {
            let is_new = dependency.kind.is_none() && !found.contains(&dependency.name);
            if is_new && find(&dependency.name).is_some() {
                found.push(dependency.name.clone());
            }
        }
        next += 1;
    }
    found
}

/// The name of a package's library, as in paths.
fn library(package: &str) -> String {
    package.replace('-', "_")
}

fn read(path: &Path) -> Result<Crate, String> {
    let wrong = |error: &dyn std::fmt::Display| format!("{}: {error}", path.display());
    let text = std::fs::read_to_string(path).map_err(|error| wrong(&error))?;
    let format: Format = serde_json::from_str(&text).map_err(|error| wrong(&error))?;
    if format.format_version != FORMAT_VERSION {
        return Err(wrong(&format!(
            "rustdoc writes format {}, the crate rustdoc-types reads {FORMAT_VERSION}; change its \
             version in Cargo.toml with the toolchain",
            format.format_version
        )));
    }
    serde_json::from_str(&text).map_err(|error| wrong(&error))
}

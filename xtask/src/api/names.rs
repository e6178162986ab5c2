//! Which items the facade leads to, and by which paths, through re-exports of other crates.

use super::rustdoc::{Docs, Key};
use rustdoc_types::{ItemEnum, Use};
use std::collections::{BTreeSet, HashMap, HashSet};

/// The paths of all items that are not members of others.
pub(super) struct Names {
    /// One path each: the shortest, and of these the first by alphabet.
    pub(super) paths: HashMap<Key, String>,
    /// Re-exports that lead to the same item again, or out of our crates: path and what it names.
    pub(super) uses: Vec<(String, String)>,
}

/// A path that was found, ordered so that shorter ones come first.
type Pending = (usize, String, Key);

struct Walk<'a> {
    docs: &'a Docs,
    pending: BTreeSet<Pending>,
    /// Modules whose items were already put under the path, since modules can include each other.
    globs: HashSet<(String, Key)>,
    uses: Vec<(String, String)>,
}

impl Names {
    /// Follows all public items and re-exports from the root of `facade` on.
    pub(super) fn collect(docs: &Docs, facade: &str) -> Result<Self, String> {
        let root = docs
            .root(facade)
            .ok_or("rustdoc did not describe the facade")?;
        let mut walk = Walk {
            docs,
            pending: BTreeSet::from([(1, facade.to_owned(), root)]),
            globs: HashSet::new(),
            uses: Vec::new(),
        };
        let mut paths: HashMap<Key, String> = HashMap::new();
        while let Some((_, path, key)) = walk.pending.pop_first() {
            if let Some(first) = paths.get(&key) {
                if *first != path {
                    walk.uses.push((path, first.clone()));
                }
                continue;
            }
            walk.add_items(&path, key);
            paths.insert(key, path);
        }
        Ok(Self {
            paths,
            uses: walk.uses,
        })
    }
}

impl Walk<'_> {
    /// Puts the items of a module under `path`; does nothing for other items.
    fn add_items(&mut self, path: &str, key: Key) {
        let Some(ItemEnum::Module(module)) = self.docs.item(key).map(|item| &item.inner) else {
            return;
        };
        for id in &module.items {
            let key = Key { id: *id, ..key };
            let Some(item) = self.docs.item(key) else {
                continue;
            };
            match (&item.inner, &item.name) {
                (ItemEnum::Use(reexport), _) => self.add_use(path, key, reexport),
                (_, Some(name)) => self.add(path, name, key),
                _ => {}
            }
        }
    }

    fn add_use(&mut self, path: &str, key: Key, reexport: &Use) {
        let target = reexport.id.and_then(|id| self.docs.resolve(key.home, id));
        let module = target.filter(|target| {
            let item = self.docs.item(*target);
            item.is_some_and(|item| matches!(item.inner, ItemEnum::Module(_)))
        });
        match (reexport.is_glob, target, module) {
            (true, _, Some(module)) => {
                if self.globs.insert((path.to_owned(), module)) {
                    self.add_items(path, module);
                }
            }
            (false, Some(target), _) => self.add(path, &reexport.name, target),
            (true, ..) => self
                .uses
                .push((format!("{path}::*"), format!("{}::*", reexport.source))),
            (false, ..) => {
                let name = format!("{path}::{}", reexport.name);
                self.uses.push((name, reexport.source.clone()));
            }
        }
    }

    fn add(&mut self, path: &str, name: &str, key: Key) {
        let path = format!("{path}::{name}");
        self.pending.insert((path.split("::").count(), path, key));
    }
}

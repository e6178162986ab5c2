//! Rule `circle`: the modules of a crate use each other one way.
//!
//! The modules of one folder are compared with each other, at every level: module `a` uses its
//! neighbour `b` if a file of `a`, or below it, names a path into `b`, or below it. Such uses may
//! not lead back to where they started. A path is followed through imports: `crate::Item` counts
//! for the module that defines it if the root imports it from there.
//!
//! A module and those below it are one thing here: the outer may use the inner and the inner the
//! outer. Never sees calls of methods, nor macros; ignores what only tests compile.

mod graph;
mod modules;
mod tokens;

use super::finding::Finding;
use super::tree::{Source, Tree};
use graph::{Circle, Graph};
use modules::{Modules, Reference};
use std::collections::BTreeMap;

/// The first file and line in which a use stands.
type Place<'a> = (&'a str, usize);

pub(crate) fn check(tree: &Tree) -> Vec<Finding> {
    let roots = tree
        .sources()
        .filter_map(|source| Some((source, crate_folder(&source.path)?)));
    roots
        .flat_map(|(root, folder)| check_crate(tree, root, folder))
        .collect()
}

/// The folder of the crate whose root module is in the file `path`: of a package, or of one of its
/// tests that has several files.
fn crate_folder(path: &str) -> Option<&str> {
    let (folder, file) = path.rsplit_once('/')?;
    let is_root = matches!(file, "lib.rs" | "main.rs");
    is_root.then(|| folder.strip_suffix("/src").unwrap_or(folder))
}

fn check_crate(tree: &Tree, root: &Source, folder: &str) -> Vec<Finding> {
    let name = folder.rsplit('/').next().unwrap_or(folder);
    let modules = Modules::read(tree, root);
    let references = modules.references();
    // One graph for each folder of modules.
    let mut graphs: BTreeMap<&[String], Graph<Place>> = BTreeMap::new();
    for reference in &references {
        add_use(&mut graphs, reference);
    }
    let circles = graphs.values().flat_map(Graph::circles);
    circles.map(|circle| finding(name, &circle)).collect()
}

/// Adds what a reference means for the folder in which its two ends part.
fn add_use<'a>(graphs: &mut BTreeMap<&'a [String], Graph<Place<'a>>>, reference: &'a Reference) {
    let (from, to) = (reference.from, &reference.to);
    let shared = from.iter().zip(to).take_while(|(a, b)| a == b).count();
    // One end is inside the other.
    if shared == from.len() || shared == to.len() {
        return;
    }
    let graph = graphs.entry(&from[..shared]).or_default();
    let neighbour = |path: &[String]| path[..=shared].join("::");
    graph.add(
        &neighbour(from),
        &neighbour(to),
        (reference.file, reference.line),
    );
}

fn finding(name: &str, circle: &Circle<Place>) -> Finding {
    let mut what = name.to_owned() + ": ";
    let mut first = None;
    for (from, to, (file, line)) in circle {
        if first.is_none() {
            what += from;
            first = Some((*file, *line));
        }
        what += &format!(" -> {to} ({file}:{line})");
    }
    let (path, line) = first.unwrap_or_default();
    Finding {
        path: path.to_owned(),
        line,
        rule: "circle",
        what,
        remedy: "move what both need into a module that uses neither",
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    /// What is said about a crate of these files.
    fn findings(files: &[(&str, &str)]) -> Vec<String> {
        let sources = files
            .iter()
            .map(|(path, text)| Source::new(&format!("crates/x/src/{path}"), text));
        check(&Tree::from_sources(sources))
            .iter()
            .map(|finding| finding.what.clone())
            .collect()
    }

    const ROOT: (&str, &str) = ("lib.rs", "mod a;\nmod b;\npub use b::Item;\n");

    #[test]
    fn circle_is_named_with_a_place_for_each_step() {
        let said = findings(&[
            ROOT,
            ("a.rs", "//! a\nuse crate::{PoolError, b::B};\n"),
            ("b.rs", "fn f() -> super::a::A {}\n"),
        ]);
        let circle = "x: a -> b (crates/x/src/a.rs:2) -> a (crates/x/src/b.rs:1)";
        assert_eq!(said, [circle]);
    }

    #[test]
    fn one_way_is_passed() {
        let said = findings(&[
            ROOT,
            ("a.rs", "use crate::b::{self, B};\nuse std::b as a;\n"),
            (
                "b.rs",
                "use a::A;\nuse ::b::a;\npub(in crate::a) fn f() { x.a::<u8>(); }",
            ),
        ]);
        assert_eq!(said, [""; 0]);
    }

    #[test]
    fn item_counts_for_the_module_that_defines_it() {
        let files = [
            ROOT,
            ("a.rs", "use crate::Item;"),
            ("b.rs", "use crate::a;"),
        ];
        assert_eq!(findings(&files).len(), 1);
        let through_a_sibling = [
            ("lib.rs", "mod a;\nmod b;\nmod c;\n"),
            ("a.rs", "pub use crate::b::Item;"),
            ("b.rs", "pub struct Item; use crate::c::C;"),
            ("c.rs", "use crate::a::Item;"),
        ];
        assert_eq!(findings(&through_a_sibling).len(), 2);
    }

    #[test]
    fn module_and_those_below_it_may_use_each_other() {
        let said = findings(&[
            (
                "lib.rs",
                "mod a;\npub struct Root; use a::A; use a::inner::Inner;",
            ),
            (
                "a/mod.rs",
                "mod inner;\npub use inner::Inner; use crate::Root; pub struct A;",
            ),
            (
                "a/inner.rs",
                "use super::A; use crate::Root; use crate::a::A as B;",
            ),
        ]);
        assert_eq!(said, [""; 0]);
    }

    #[test]
    fn what_is_below_a_module_counts_for_it() {
        let said = findings(&[
            ROOT,
            ("a/mod.rs", "mod deep; mod other;"),
            ("a/deep.rs", "use crate::b::B; use super::other::X;"),
            ("a/other.rs", "use super::deep;"),
            ("b.rs", "mod inline { use super::super::a::A; }"),
        ]);
        assert_eq!(said.len(), 2, "{said:?}");
        assert!(said[0].starts_with("x: a -> b ("), "{said:?}");
        assert!(said[1].starts_with("x: a::deep -> a::other ("), "{said:?}");
    }

    #[test]
    fn names_from_an_import_of_everything_count_where_they_are_used() {
        let parent = ("a/mod.rs", "mod one; mod two; use two::Two;");
        let one = ("a/one.rs", "use super::*; fn f(_: Two) {}");
        for (two, count) in [("use super::one;", 1), ("", 0)] {
            let files = [("lib.rs", "mod a;"), parent, one, ("a/two.rs", two)];
            assert_eq!(findings(&files).len(), count);
        }
    }

    #[test]
    fn tests_comments_and_strings_are_left_out() {
        let said = findings(&[
            ("lib.rs", "mod a;\nmod b;\n#[cfg(test)]\nmod scene;\n"),
            ("a.rs", "use crate::b::B;\n"),
            (
                "b.rs",
                "//! crate::a::A\nconst S: &str = \"crate::a::A\";\n\
                 #[cfg(test)]\nmod tests { use crate::a::A; }\n",
            ),
            ("scene.rs", "use crate::a::A;"),
        ]);
        assert_eq!(said, [""; 0]);
    }
}

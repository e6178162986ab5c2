//! The modules of one crate: what each imports, and which module a path leads to.
//!
//! Follows the `mod` declarations from the root of the crate, so that files which only tests
//! declare are left out. Never knows types: a path is followed by the names of modules and of
//! imports.

use super::tokens::{Token, tokens_outside_tests};
use crate::tidy::tree::{Source, Tree};
use std::collections::{BTreeMap, BTreeSet};

/// The names from the root of the crate to a module; empty for the root.
pub(super) type ModulePath = Vec<String>;

/// All modules of a crate.
pub(super) struct Modules {
    by_path: BTreeMap<ModulePath, Module>,
}

/// One module, in a file of its own or in braces.
#[derive(Default)]
pub(super) struct Module {
    /// Of its text.
    pub(super) file: String,
    /// Of the modules declared in it.
    children: BTreeSet<String>,
    /// What a name stands for that was imported.
    imported: BTreeMap<String, Vec<String>>,
    /// Every path in it, imports included.
    paths: Vec<NamedPath>,
    /// Every word, to know which names it takes from an import of `*`.
    words: BTreeSet<String>,
}

/// A path as it stands in the text.
struct NamedPath {
    segments: Vec<String>,
    /// `*` stands at its end.
    is_glob: bool,
    line: usize,
}

/// One module names something in another.
pub(super) struct Reference<'a> {
    pub(super) from: &'a ModulePath,
    pub(super) to: ModulePath,
    pub(super) file: &'a str,
    pub(super) line: usize,
}

/// An import may name an import; longer chains are mistakes such as `use a::b as b` in a circle.
const IMPORTS_IN_A_CHAIN: usize = 16;

impl Modules {
    /// Reads the crate whose root module is `root`.
    pub(super) fn read(tree: &Tree, root: &Source) -> Self {
        let mut modules = Self {
            by_path: BTreeMap::new(),
        };
        let folder = root.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut unread = vec![(Vec::new(), root)];
        while let Some((path, source)) = unread.pop() {
            let outer = Reader::read(&mut modules, path, source);
            unread.extend(outer.into_iter().filter_map(|declared| {
                let stem = format!("{folder}/{}", declared.join("/"));
                let files = [format!("{stem}.rs"), format!("{stem}/mod.rs")];
                let source = files.iter().find_map(|file| tree.file(file))?;
                Some((declared, source))
            }));
        }
        modules
    }

    /// Every mention of one module in another.
    pub(super) fn references(&self) -> Vec<Reference<'_>> {
        let mut references = Vec::new();
        for (from, module) in &self.by_path {
            for path in &module.paths {
                let (file, line) = (module.file.as_str(), path.line);
                let targets = self.targets(from, path).into_iter();
                references.extend(targets.map(|to| Reference {
                    from,
                    to,
                    file,
                    line,
                }));
            }
        }
        references
    }

    /// The modules that a path leads through by imports, and the one in which it ends.
    fn targets(&self, from: &ModulePath, path: &NamedPath) -> Vec<ModulePath> {
        let mut targets = Vec::new();
        self.follow(from, &path.segments, &mut targets);
        if let (true, Some(end)) = (path.is_glob, targets.last().cloned()) {
            let words = &self.by_path[from].words;
            let imported = self.by_path[&end].imported.keys();
            for name in imported.filter(|name| words.contains(*name)) {
                let mut passed = Vec::new();
                self.walk(end.clone(), std::slice::from_ref(name), &mut passed);
                targets.extend(passed);
            }
        }
        targets
    }

    /// Follows a path that stands in module `from`.
    fn follow(&self, from: &ModulePath, segments: &[String], passed: &mut Vec<ModulePath>) {
        let first = segments.first().map(String::as_str);
        let relative = &segments[usize::from(first == Some("self"))..];
        let ups = relative.iter().take_while(|name| *name == "super").count();
        match first {
            Some("crate") => self.walk(Vec::new(), &segments[1..], passed),
            Some("self" | "super") => self.walk(above(from, ups), &relative[ups..], passed),
            Some(name) if self.by_path[from].knows(name) => {
                self.walk(from.clone(), segments, passed);
            }
            // Another crate, a type, a generic parameter.
            _ => {}
        }
    }

    /// Follows `segments` from inside module `at`.
    fn walk(&self, mut at: ModulePath, segments: &[String], passed: &mut Vec<ModulePath>) {
        for (index, name) in segments.iter().enumerate() {
            let Some(module) = self.by_path.get(&at) else {
                return;
            };
            if module.children.contains(name) {
                let mut child = at.clone();
                child.push(name.clone());
                if !self.by_path.contains_key(&child) {
                    return;
                }
                at = child;
                continue;
            }
            let Some(import) = module.imported.get(name) else {
                break;
            };
            if passed.len() < IMPORTS_IN_A_CHAIN {
                let whole = [import, &segments[index + 1..]].concat();
                passed.push(at.clone());
                self.follow(&at, &whole, passed);
            }
            return;
        }
        passed.push(at);
    }
}

impl Module {
    fn knows(&self, name: &str) -> bool {
        self.children.contains(name) || self.imported.contains_key(name)
    }
}

fn above(path: &ModulePath, ups: usize) -> ModulePath {
    path[..path.len().saturating_sub(ups)].to_vec()
}

/// Reads one file into modules.
struct Reader<'m> {
    modules: &'m mut Modules,
    file: &'m str,
    /// One entry for each open brace, and one for the file: the module whose text it holds.
    open: Vec<ModulePath>,
    /// Modules declared here whose text is in another file.
    outer: Vec<ModulePath>,
}

impl<'m> Reader<'m> {
    fn read(modules: &'m mut Modules, path: ModulePath, source: &'m Source) -> Vec<ModulePath> {
        let mut reader = Self {
            modules,
            file: &source.path,
            open: vec![path],
            outer: Vec::new(),
        };
        reader.module();
        let tokens = tokens_outside_tests(&source.code);
        let mut at = 0;
        while at < tokens.len() {
            at += reader.step(&tokens, at).max(1);
        }
        reader.outer
    }

    /// Of the text that is being read.
    fn module(&mut self) -> &mut Module {
        let path = self.open.last().cloned().unwrap_or_default();
        let module = self.modules.by_path.entry(path).or_default();
        module.file = self.file.to_owned();
        module
    }

    /// Reads what starts at `at`. Returns how many tokens it has.
    fn step(&mut self, tokens: &[Token], at: usize) -> usize {
        let text = |index: usize| tokens.get(index).map_or("", |token| token.text);
        let here = self.open.last().cloned().unwrap_or_default();
        match text(at) {
            "{" => self.open.push(here),
            "}" if self.open.len() > 1 => drop(self.open.pop()),
            "mod" if matches!(text(at + 2), ";" | "{") => {
                let name = text(at + 1).to_owned();
                self.module().children.insert(name.clone());
                let child = [here, vec![name]].concat();
                if text(at + 2) == ";" {
                    self.outer.push(child);
                } else {
                    self.open.push(child);
                    self.module();
                }
                return 3;
            }
            "use" if text(at + 1) != "<" => {
                let mut tree = UseTree { tokens, at: at + 1 };
                tree.read(&[], self.module());
                return tree.at - at;
            }
            _ if tokens[at].is_word() => return self.read_word(tokens, at),
            _ => {}
        }
        1
    }

    /// Reads a word, and the path that it starts.
    fn read_word(&mut self, tokens: &[Token], at: usize) -> usize {
        let text = |index: usize| tokens.get(index).map_or("", |token| token.text);
        let mut segments = vec![tokens[at].text.to_owned()];
        let mut end = at + 1;
        while text(end) == "::" && tokens.get(end + 1).is_some_and(Token::is_word) {
            segments.push(tokens[end + 1].text.to_owned());
            end += 2;
        }
        let before = if at == 0 { "" } else { text(at - 1) };
        let is_visibility = before == "in" && at > 1 && text(at - 2) == "(";
        let module = self.module();
        module.words.insert(segments[0].clone());
        if segments.len() > 1 && !matches!(before, "." | "::") && !is_visibility {
            module.paths.push(NamedPath {
                segments,
                is_glob: false,
                line: tokens[at].line,
            });
        }
        end - at
    }
}

/// Reads what stands behind `use`.
struct UseTree<'t, 'a> {
    tokens: &'t [Token<'a>],
    at: usize,
}

impl UseTree<'_, '_> {
    fn text(&self) -> &str {
        self.tokens.get(self.at).map_or("", |token| token.text)
    }

    /// Reads one tree whose paths start with `prefix`, up to the sign behind it.
    fn read(&mut self, prefix: &[String], module: &mut Module) {
        let mut segments = prefix.to_vec();
        let mut is_glob = false;
        let line = self.tokens.get(self.at).map_or(0, |token| token.line);
        loop {
            match self.text() {
                // A path from `::` starts with another crate.
                "::" if segments.is_empty() => segments.push(String::new()),
                "::" => {}
                "*" => is_glob = true,
                "{" => return self.read_group(&segments, module),
                "," | "}" | ";" | "" | "as" => break,
                "self" if !segments.is_empty() => {}
                name => segments.push(name.to_owned()),
            }
            self.at += 1;
        }
        let mut name = segments.last().cloned();
        if self.text() == "as" {
            self.at += 1;
            name = Some(self.text().to_owned());
            self.at += 1;
        }
        if let (Some(name), false) = (name, is_glob) {
            module.imported.insert(name, segments.clone());
        }
        module.paths.push(NamedPath {
            segments,
            is_glob,
            line,
        });
    }

    fn read_group(&mut self, prefix: &[String], module: &mut Module) {
        self.at += 1;
        while !matches!(self.text(), "}" | ";" | "") {
            self.read(prefix, module);
            if self.text() == "," {
                self.at += 1;
            }
        }
        self.at += 1;
    }
}

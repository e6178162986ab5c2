//! The list itself: for each item and each of its members one line, its path and what it is.

use super::names::Names;
use super::rustdoc::{Docs, Key};
use super::types::Printer;
use rustdoc_types::{
    Attribute, Enum, GenericArg, GenericArgs, Id, Impl, Item, ItemEnum, Path, Struct, StructKind,
    Trait, Type, Union, Variant, VariantKind,
};
use std::cell::RefCell;
use std::collections::{BTreeMap, BTreeSet};

/// Traits that derives implement for the compiler alone.
const COMPILER_TRAITS: &[&str] = &["StructuralPartialEq", "TrivialClone"];

/// Lines, each once, sorted.
///
/// A type without a name in the facade is reached by whoever gets a value of it. Those that lines
/// mention are listed with their members, too, and added to `names` by where they are defined.
pub(super) fn all(docs: &Docs, names: &mut Names) -> Vec<String> {
    loop {
        let unnamed = RefCell::new(BTreeMap::new());
        let lines = List::new(docs, names, &unnamed).fill();
        let unnamed = unnamed.into_inner();
        if unnamed.is_empty() {
            return lines.into_iter().collect();
        }
        names.paths.extend(unnamed);
    }
}

struct List<'a> {
    docs: &'a Docs,
    names: &'a Names,
    lines: BTreeSet<String>,
    /// Derived traits without parameters, by the path of the type: one line each type.
    derives: BTreeMap<String, BTreeSet<String>>,
    /// See [`Printer::unnamed`].
    unnamed: &'a RefCell<BTreeMap<Key, String>>,
}

impl<'a> List<'a> {
    fn new(docs: &'a Docs, names: &'a Names, unnamed: &'a RefCell<BTreeMap<Key, String>>) -> Self {
        let (lines, derives) = (BTreeSet::new(), BTreeMap::new());
        Self {
            docs,
            names,
            lines,
            derives,
            unnamed,
        }
    }

    fn fill(mut self) -> BTreeSet<String> {
        let (docs, names) = (self.docs, self.names);
        for (key, path) in &names.paths {
            self.add_item(*key, path, "");
        }
        for (path, source) in &names.uses {
            self.lines.insert(format!("{path}: use {source}"));
        }
        for (key, item) in docs.items() {
            if let ItemEnum::Impl(block) = &item.inner {
                let is_derived = item.attrs.contains(&Attribute::AutomaticallyDerived);
                if !block.is_synthetic && block.blanket_impl.is_none() {
                    self.add_impl(key.home, block, is_derived);
                }
            }
        }
        for (path, traits) in self.derives {
            let traits: Vec<String> = traits.into_iter().collect();
            self.lines
                .insert(format!("{path}: derive {}", traits.join(", ")));
        }
        self.lines
    }

    fn printer(&self, home: usize) -> Printer<'a> {
        let Self {
            docs,
            names,
            unnamed,
            ..
        } = *self;
        Printer {
            docs,
            names,
            home,
            unnamed,
        }
    }

    /// Adds an item and its members, but for what implementations give it; `conditions` ends the
    /// line.
    fn add_item(&mut self, key: Key, path: &str, conditions: &str) {
        let docs = self.docs;
        let Some(item) = docs.item(key) else {
            return;
        };
        let printer = self.printer(key.home);
        let text = match &item.inner {
            ItemEnum::Module(_) => "mod".to_owned(),
            ItemEnum::Struct(one) => self.structure(key.home, path, one),
            ItemEnum::Union(one) => self.union(key.home, path, one),
            ItemEnum::Enum(one) => self.enumeration(key.home, path, one),
            ItemEnum::Trait(one) => self.interface(key.home, path, one),
            ItemEnum::Variant(one) => self.variant(key.home, one),
            ItemEnum::Function(one) => {
                let end = if one.has_body { "" } else { "; required" };
                format!("{}{end}", printer.function(one))
            }
            ItemEnum::TypeAlias(one) => {
                let (params, bounds) = printer.generics(&one.generics);
                format!("type{params} = {}{bounds}", printer.type_(&one.type_))
            }
            ItemEnum::Constant { type_, .. } => format!("const {}", printer.type_(type_)),
            ItemEnum::AssocConst { type_, value } => {
                let end = if value.is_some() { "" } else { "; required" };
                format!("const {}{end}", printer.type_(type_))
            }
            ItemEnum::AssocType {
                generics,
                bounds,
                type_,
            } => {
                let (params, predicates) = printer.generics(generics);
                let bounds = printer.supertraits(bounds);
                let default = type_.as_ref();
                let default =
                    default.map_or(String::new(), |one| format!(" = {}", printer.type_(one)));
                format!("type{params}{bounds}{default}{predicates}")
            }
            ItemEnum::Static(one) => {
                let mutable = if one.is_mutable { "mut " } else { "" };
                format!("static {mutable}{}", printer.type_(&one.type_))
            }
            ItemEnum::StructField(type_) => printer.type_(type_),
            ItemEnum::Macro(_) | ItemEnum::ProcMacro(_) => "macro".to_owned(),
            ItemEnum::TraitAlias(_) => "trait alias".to_owned(),
            ItemEnum::ExternType => "extern type".to_owned(),
            ItemEnum::Primitive(_) => "primitive".to_owned(),
            ItemEnum::ExternCrate { .. } | ItemEnum::Use(_) | ItemEnum::Impl(_) => return,
        };
        self.lines
            .insert(format!("{path}: {}{text}{conditions}", attributes(item)));
    }

    fn add_members<'b>(&mut self, home: usize, path: &str, ids: impl IntoIterator<Item = &'b Id>) {
        let docs = self.docs;
        for id in ids {
            let key = Key { home, id: *id };
            if let Some(name) = docs.item(key).and_then(|item| item.name.as_ref()) {
                self.add_item(key, &format!("{path}::{name}"), "");
            }
        }
    }

    fn structure(&mut self, home: usize, path: &str, one: &Struct) -> String {
        let (params, bounds) = self.printer(home).generics(&one.generics);
        let has_private_fields = match &one.kind {
            StructKind::Unit => false,
            StructKind::Tuple(fields) => {
                self.add_members(home, path, fields.iter().flatten());
                fields.contains(&None)
            }
            StructKind::Plain {
                fields,
                has_stripped_fields,
            } => {
                self.add_members(home, path, fields);
                *has_stripped_fields
            }
        };
        let end = if has_private_fields {
            ", private fields"
        } else {
            ""
        };
        format!("struct{params}{bounds}{end}")
    }

    fn union(&mut self, home: usize, path: &str, one: &Union) -> String {
        let (params, bounds) = self.printer(home).generics(&one.generics);
        self.add_members(home, path, &one.fields);
        format!("union{params}{bounds}")
    }

    fn enumeration(&mut self, home: usize, path: &str, one: &Enum) -> String {
        let (params, bounds) = self.printer(home).generics(&one.generics);
        self.add_members(home, path, &one.variants);
        format!("enum{params}{bounds}")
    }

    fn interface(&mut self, home: usize, path: &str, one: &Trait) -> String {
        let printer = self.printer(home);
        let (params, predicates) = printer.generics(&one.generics);
        self.add_members(home, path, &one.items);
        let unsafety = if one.is_unsafe { "unsafe " } else { "" };
        let bounds = printer.supertraits(&one.bounds);
        format!("{unsafety}trait{params}{bounds}{predicates}")
    }

    /// With its fields, since these are as public as it is.
    fn variant(&self, home: usize, one: &Variant) -> String {
        let printer = self.printer(home);
        let fields = |ids: &mut dyn Iterator<Item = &Id>, is_named: bool| {
            let items = ids.filter_map(|id| self.docs.item(Key { home, id: *id }));
            let written = items.filter_map(|item| match (&item.inner, &item.name) {
                (ItemEnum::StructField(type_), Some(name)) if is_named => {
                    Some(format!("{name}: {}", printer.type_(type_)))
                }
                (ItemEnum::StructField(type_), _) => Some(printer.type_(type_)),
                _ => None,
            });
            written.collect::<Vec<String>>().join(", ")
        };
        let fields = match &one.kind {
            VariantKind::Plain => String::new(),
            VariantKind::Tuple(ids) => format!("({})", fields(&mut ids.iter().flatten(), false)),
            VariantKind::Struct { fields: ids, .. } => {
                format!(" {{ {} }}", fields(&mut ids.iter(), true))
            }
        };
        let value = one.discriminant.as_ref();
        let value = value.map_or(String::new(), |one| format!(" = {}", one.value));
        format!("variant{fields}{value}")
    }

    /// Adds what an `impl` block gives to a type or a trait that the facade leads to.
    fn add_impl(&mut self, home: usize, block: &Impl, is_derived: bool) {
        let Some(anchor) = self.anchor(home, block) else {
            return;
        };
        let Some(path) = &block.trait_ else {
            self.add_inherent(home, &anchor, block);
            return;
        };
        // Methods of a trait of ours that cannot be named cannot be called.
        let of_ours = self.docs.resolve(home, path.id);
        if of_ours.is_some_and(|key| !self.names.paths.contains_key(&key)) {
            return;
        }
        let printer = self.printer(home);
        let name = printer.path(path);
        if COMPILER_TRAITS.contains(&name.as_str()) {
            return;
        }
        if is_derived && block.generics.params.is_empty() {
            self.derives.entry(anchor).or_default().insert(name);
            return;
        }
        let (params, bounds) = printer.generics(&block.generics);
        let owner = printer.type_(&block.for_);
        let types = self.associated_types(home, block);
        let not = if block.is_negative { "!" } else { "" };
        let unsafety = if block.is_unsafe { "unsafe " } else { "" };
        self.lines.insert(format!(
            "{anchor}: {unsafety}impl{params} {not}{name} for {owner}{bounds}{types}"
        ));
    }

    /// The types that a block chooses for its trait, ready to append.
    fn associated_types(&self, home: usize, block: &Impl) -> String {
        let items = block.items.iter();
        let chosen = items.filter_map(|id| {
            let item = self.docs.item(Key { home, id: *id })?;
            match (&item.inner, &item.name) {
                (
                    ItemEnum::AssocType {
                        type_: Some(type_), ..
                    },
                    Some(name),
                ) => Some(format!("type {name} = {}", self.printer(home).type_(type_))),
                _ => None,
            }
        });
        let chosen: Vec<String> = chosen.collect();
        if chosen.is_empty() {
            return String::new();
        }
        format!(" {{ {} }}", chosen.join("; "))
    }

    /// Adds the methods and constants of a block; of a generic type with the block's conditions.
    fn add_inherent(&mut self, home: usize, anchor: &str, block: &Impl) {
        let printer = self.printer(home);
        let is_generic = base(&block.for_).is_some_and(|path| path.args.is_some());
        let conditions = if is_generic {
            let (params, bounds) = printer.generics(&block.generics);
            format!("; impl{params} {}{bounds}", printer.type_(&block.for_))
        } else {
            String::new()
        };
        for id in &block.items {
            let key = Key { home, id: *id };
            if let Some(name) = self.docs.item(key).and_then(|item| item.name.as_ref()) {
                self.add_item(key, &format!("{anchor}::{name}"), &conditions);
            }
        }
    }

    /// Under which path a block is listed: that of its type, else of its trait, else of a type that
    /// the trait is about, as in `impl From<Ours> for Theirs`.
    fn anchor(&self, home: usize, block: &Impl) -> Option<String> {
        let of_type = base(&block.for_);
        let of_trait = block.trait_.as_ref();
        let arguments = of_trait.into_iter().flat_map(arguments);
        let candidates = of_type.into_iter().chain(of_trait).chain(arguments);
        let mut reached = candidates.filter_map(|path| {
            let key = self.docs.resolve(home, path.id)?;
            self.names.paths.get(&key).cloned()
        });
        reached.next()
    }
}

/// What a reader has to know of an item's attributes, ready to precede it.
fn attributes(item: &Item) -> String {
    let mut words = String::new();
    for attribute in &item.attrs {
        match attribute {
            Attribute::NonExhaustive => words.push_str("#[non_exhaustive] "),
            Attribute::Other(other) if other.starts_with("#[doc(hidden") => {
                words.push_str("#[doc(hidden)] ");
            }
            _ => {}
        }
    }
    words
}

/// The named type below references and pointers.
fn base(type_: &Type) -> Option<&Path> {
    match type_ {
        Type::ResolvedPath(path) => Some(path),
        Type::BorrowedRef { type_, .. }
        | Type::RawPointer { type_, .. }
        | Type::Slice(type_)
        | Type::Array { type_, .. } => base(type_),
        _ => None,
    }
}

/// The named types among the arguments of a trait.
fn arguments(path: &Path) -> impl Iterator<Item = &Path> {
    let args = match path.args.as_deref() {
        Some(GenericArgs::AngleBracketed { args, .. }) => &args[..],
        _ => &[],
    };
    args.iter().filter_map(|arg| match arg {
        GenericArg::Type(type_) => base(type_),
        _ => None,
    })
}

//! Types, bounds and signatures as text, on one line and as near to Rust's syntax as fits.

use super::FACADE;
use super::names::Names;
use super::rustdoc::{Docs, Key};
use rustdoc_types::{
    Abi, AssocItemConstraint, AssocItemConstraintKind, DynTrait, Function, FunctionHeader,
    FunctionSignature, GenericArg, GenericArgs, GenericBound, GenericParamDef, GenericParamDefKind,
    Generics, Id, Path, PreciseCapturingArg, Term, TraitBoundModifier, Type, WherePredicate,
};
use std::cell::RefCell;
use std::collections::BTreeMap;

/// Writes what one crate says.
#[derive(Clone, Copy)]
pub(super) struct Printer<'a> {
    pub(super) docs: &'a Docs,
    pub(super) names: &'a Names,
    /// The index of the crate, whose numbers of items are meant.
    pub(super) home: usize,
    /// Of the items that were written, those that have no name yet, and where they are defined.
    pub(super) unnamed: &'a RefCell<BTreeMap<Key, String>>,
}

impl Printer<'_> {
    pub(super) fn function(self, function: &Function) -> String {
        let (params, bounds) = self.generics(&function.generics);
        let signature = self.signature(&function.sig, true);
        format!("{}fn{params}{signature}{bounds}", header(&function.header))
    }

    /// What stands between angle brackets, and the where clause, each empty or ready to append.
    pub(super) fn generics(self, generics: &Generics) -> (String, String) {
        let predicates = join(&generics.where_predicates, ", ", |one| self.predicate(one));
        let bounds = if predicates.is_empty() {
            predicates
        } else {
            format!(" where {predicates}")
        };
        (self.params(&generics.params), bounds)
    }

    /// The bounds of a trait or an associated type, ready to append.
    pub(super) fn supertraits(self, bounds: &[GenericBound]) -> String {
        with_bounds("", &self.bounds(bounds))
    }

    fn bounds(self, bounds: &[GenericBound]) -> String {
        join(bounds, " + ", |bound| self.bound(bound))
    }

    pub(super) fn path(self, path: &Path) -> String {
        format!(
            "{}{}",
            self.name(path.id, &path.path),
            self.args(path.args.as_deref())
        )
    }

    pub(super) fn type_(self, type_: &Type) -> String {
        match type_ {
            Type::ResolvedPath(path) => self.path(path),
            Type::DynTrait(object) => format!("dyn {}", self.object(object)),
            Type::Generic(name) | Type::Primitive(name) => name.clone(),
            Type::FunctionPointer(pointer) => format!(
                "{}{}fn{}",
                self.higher_ranked(&pointer.generic_params),
                header(&pointer.header),
                self.signature(&pointer.sig, false)
            ),
            Type::Tuple(members) if members.len() == 1 => format!("({},)", self.type_(&members[0])),
            Type::Tuple(members) => format!("({})", self.types(members)),
            Type::Slice(element) => format!("[{}]", self.type_(element)),
            Type::Array { type_, len } => format!("[{}; {len}]", self.type_(type_)),
            Type::Pat { type_, .. } => self.type_(type_),
            Type::ImplTrait(bounds) => format!("impl {}", self.bounds(bounds)),
            Type::Infer => "_".to_owned(),
            Type::RawPointer { is_mutable, type_ } => {
                let kind = if *is_mutable { "mut" } else { "const" };
                format!("*{kind} {}", self.type_(type_))
            }
            Type::BorrowedRef {
                lifetime,
                is_mutable,
                type_,
            } => {
                let lifetime = lifetime
                    .as_ref()
                    .map_or(String::new(), |name| format!("{name} "));
                let mutable = if *is_mutable { "mut " } else { "" };
                format!("&{lifetime}{mutable}{}", self.type_(type_))
            }
            Type::QualifiedPath {
                name,
                args,
                self_type,
                trait_,
            } => {
                let args = self.args(args.as_deref());
                match (self.type_(self_type), trait_) {
                    (owner, Some(path)) if owner != "Self" && !path.path.is_empty() => {
                        format!("<{owner} as {}>::{name}{args}", self.path(path))
                    }
                    (owner, _) => format!("{owner}::{name}{args}"),
                }
            }
        }
    }

    /// An item's path below the facade, or where it is defined.
    fn name(self, id: Id, written: &str) -> String {
        let key = self.docs.resolve(self.home, id);
        if let Some(path) = key.and_then(|key| self.names.paths.get(&key)) {
            let below = path
                .strip_prefix(FACADE)
                .and_then(|rest| rest.strip_prefix("::"));
            return below.unwrap_or(path).to_owned();
        }
        let Some(summary) = self.docs.summary(self.home, id) else {
            return written.to_owned();
        };
        if let Some(key) = key {
            self.unnamed
                .borrow_mut()
                .insert(key, summary.path.join("::"));
        }
        match &summary.path[..] {
            // Several modules have an `Error` and a `Result`.
            [root, module, .., name] if is_standard(root) => match name.as_str() {
                "Error" | "Result" if module != "result" => format!("{module}::{name}"),
                _ => name.clone(),
            },
            path => path.join("::"),
        }
    }

    fn types(self, types: &[Type]) -> String {
        join(types, ", ", |one| self.type_(one))
    }

    fn object(self, object: &DynTrait) -> String {
        let mut parts: Vec<String> = object
            .traits
            .iter()
            .map(|one| {
                format!(
                    "{}{}",
                    self.higher_ranked(&one.generic_params),
                    self.path(&one.trait_)
                )
            })
            .collect();
        parts.extend(object.lifetime.clone());
        parts.join(" + ")
    }

    fn signature(self, signature: &FunctionSignature, may_have_receiver: bool) -> String {
        let inputs = join(&signature.inputs, ", ", |(name, type_)| {
            let written = self.type_(type_);
            if may_have_receiver && name == "self" {
                receiver(&written)
            } else {
                written
            }
        });
        let variadic = if signature.is_c_variadic { ", ..." } else { "" };
        let output = signature.output.as_ref();
        let output = output.map_or(String::new(), |type_| format!(" -> {}", self.type_(type_)));
        format!("({inputs}{variadic}){output}")
    }

    fn args(self, args: Option<&GenericArgs>) -> String {
        match args {
            None => String::new(),
            Some(GenericArgs::AngleBracketed { args, constraints }) => {
                let mut parts: Vec<String> = args.iter().map(|arg| self.arg(arg)).collect();
                parts.extend(constraints.iter().map(|one| self.constraint(one)));
                in_angles(&parts.join(", "))
            }
            Some(GenericArgs::Parenthesized { inputs, output }) => {
                let output = output.as_ref();
                let output = output.map_or(String::new(), |one| format!(" -> {}", self.type_(one)));
                format!("({}){output}", self.types(inputs))
            }
            Some(GenericArgs::ReturnTypeNotation) => "(..)".to_owned(),
        }
    }

    fn arg(self, arg: &GenericArg) -> String {
        match arg {
            GenericArg::Lifetime(name) => name.clone(),
            GenericArg::Type(type_) => self.type_(type_),
            GenericArg::Const(constant) => constant.expr.clone(),
            GenericArg::Infer => "_".to_owned(),
        }
    }

    fn constraint(self, constraint: &AssocItemConstraint) -> String {
        let name = &constraint.name;
        let args = self.args(constraint.args.as_deref());
        match &constraint.binding {
            AssocItemConstraintKind::Equality(term) => {
                format!("{name}{args} = {}", self.term(term))
            }
            AssocItemConstraintKind::Constraint(bounds) => {
                format!("{name}{args}: {}", self.bounds(bounds))
            }
        }
    }

    fn term(self, term: &Term) -> String {
        match term {
            Term::Type(type_) => self.type_(type_),
            Term::Constant(constant) => constant.expr.clone(),
        }
    }

    fn bound(self, bound: &GenericBound) -> String {
        match bound {
            GenericBound::TraitBound {
                trait_,
                generic_params,
                modifier,
            } => {
                let sign = match modifier {
                    TraitBoundModifier::None => "",
                    TraitBoundModifier::Maybe => "?",
                    TraitBoundModifier::MaybeConst => "~const ",
                };
                format!(
                    "{}{sign}{}",
                    self.higher_ranked(generic_params),
                    self.path(trait_)
                )
            }
            GenericBound::Outlives(lifetime) => lifetime.clone(),
            GenericBound::Use(captured) => format!(
                "use<{}>",
                join(captured, ", ", |one| match one {
                    PreciseCapturingArg::Lifetime(name) | PreciseCapturingArg::Param(name) =>
                        name.clone(),
                })
            ),
        }
    }

    fn higher_ranked(self, params: &[GenericParamDef]) -> String {
        match self.params(params).as_str() {
            "" => String::new(),
            params => format!("for{params} "),
        }
    }

    /// Without the parameters that `impl Trait` stands for.
    fn params(self, params: &[GenericParamDef]) -> String {
        let written: Vec<String> = params
            .iter()
            .filter_map(|param| self.param(param))
            .collect();
        in_angles(&written.join(", "))
    }

    fn param(self, param: &GenericParamDef) -> Option<String> {
        let name = &param.name;
        Some(match &param.kind {
            GenericParamDefKind::Lifetime { outlives } => with_bounds(name, &outlives.join(" + ")),
            GenericParamDefKind::Type {
                is_synthetic: true, ..
            } => return None,
            GenericParamDefKind::Type {
                bounds, default, ..
            } => {
                let default = default.as_ref();
                let default =
                    default.map_or(String::new(), |one| format!(" = {}", self.type_(one)));
                format!("{}{default}", with_bounds(name, &self.bounds(bounds)))
            }
            GenericParamDefKind::Const { type_, default } => {
                let default = default
                    .as_ref()
                    .map_or(String::new(), |one| format!(" = {one}"));
                format!("const {name}: {}{default}", self.type_(type_))
            }
        })
    }

    fn predicate(self, predicate: &WherePredicate) -> String {
        match predicate {
            WherePredicate::BoundPredicate {
                type_,
                bounds,
                generic_params,
            } => {
                let subject = format!(
                    "{}{}",
                    self.higher_ranked(generic_params),
                    self.type_(type_)
                );
                with_bounds(&subject, &self.bounds(bounds))
            }
            WherePredicate::LifetimePredicate { lifetime, outlives } => {
                with_bounds(lifetime, &outlives.join(" + "))
            }
            WherePredicate::EqPredicate { lhs, rhs } => {
                format!("{} = {}", self.type_(lhs), self.term(rhs))
            }
        }
    }
}

fn is_standard(root: &str) -> bool {
    ["std", "core", "alloc"].contains(&root)
}

/// As it is written in a list of arguments, given its type.
fn receiver(type_: &str) -> String {
    match type_.strip_suffix("Self") {
        Some(reference) if reference.is_empty() || reference.starts_with('&') => {
            format!("{reference}self")
        }
        _ => format!("self: {type_}"),
    }
}

fn header(header: &FunctionHeader) -> String {
    let mut words = String::new();
    for (is_set, word) in [
        (header.is_const, "const "),
        (header.is_async, "async "),
        (header.is_unsafe, "unsafe "),
    ] {
        words.push_str(if is_set { word } else { "" });
    }
    match &header.abi {
        Abi::Rust => {}
        Abi::C { .. } => words.push_str("extern \"C\" "),
        other => words.push_str(&format!("extern {other:?} ")),
    }
    words
}

fn with_bounds(subject: &str, bounds: &str) -> String {
    if bounds.is_empty() {
        return subject.to_owned();
    }
    format!("{subject}: {bounds}")
}

fn in_angles(parts: &str) -> String {
    if parts.is_empty() {
        return String::new();
    }
    format!("<{parts}>")
}

fn join<T>(parts: &[T], separator: &str, write: impl Fn(&T) -> String) -> String {
    let parts: Vec<String> = parts.iter().map(write).collect();
    parts.join(separator)
}

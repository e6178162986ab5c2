//! `cargo xtask licences`: every crate that cargo resolves may be linked into a product under MIT
//! OR Apache-2.0.
//!
//! A third-party crate states its terms as an SPDX expression; at least one way to satisfy it must
//! need nothing but the licences below. Our own crates state `MIT OR Apache-2.0` themselves. The C
//! sources of the RTOS side come as crates, too, pinned by a manifest of their own. Never looks at
//! licence files: a crate without an expression is refused, and then a person decides.

mod expression;

use crate::metadata::{Metadata, Package};

const OWN_LICENCE: &str = "MIT OR Apache-2.0";

/// Manifests outside the workspace whose crates end up in a product, relative to the root.
const MORE_MANIFESTS: &[&str] = &["rtos/vendor/Cargo.toml", "hostd/Cargo.toml"];

/// Terms that ask for no more than keeping a notice.
const PERMITTED: &[&str] = &[
    "0BSD",
    "Apache-2.0",
    "Apache-2.0 WITH LLVM-exception",
    "BSD-2-Clause",
    "BSD-3-Clause",
    "BSL-1.0",
    "CC0-1.0",
    "ISC",
    "MIT",
    "MIT-0",
    "Unicode-3.0",
    "Unlicense",
    "Zlib",
];

/// MPL-2.0 is file-level copyleft: fine to link unmodified, but each such crate is a decision.
/// Crate and reason.
const PERMITTED_MPL: &[(&str, &str)] = &[
    (
        "cbindgen",
        "a tool: writes hythe.h in a test, and is part of no product",
    ),
    (
        "option-ext",
        "of hythe-hostd alone: Zenoh finds the home directory with it; linked unmodified",
    ),
];

/// Crates that cargo resolves and no product for Linux contains: name and reason.
const NOT_BUILT: &[(&str, &str)] = &[(
    "webpki-root-certs",
    "rustls-platform-verifier uses it on Android alone",
)];

/// Checks all resolved packages, whatever their platform and whether normal, build or dev
/// dependencies.
pub(crate) fn run() -> Result<(), String> {
    let Metadata {
        mut packages,
        workspace_root,
        ..
    } = Metadata::load()?;
    for manifest in MORE_MANIFESTS {
        packages.extend(Metadata::load_manifest(&workspace_root.join(manifest))?.packages);
    }
    let refusals: Vec<String> = packages.iter().filter_map(refusal).collect();
    if refusals.is_empty() {
        let third_party = packages.iter().filter(|package| !package.is_ours()).count();
        println!("licences: {third_party} third-party crates, all compatible with {OWN_LICENCE}");
        return Ok(());
    }
    Err(format!(
        "{}\nlicences: {} refused",
        refusals.join("\n"),
        refusals.len()
    ))
}

/// Why this package may not be used, if so.
fn refusal(package: &Package) -> Option<String> {
    if NOT_BUILT
        .iter()
        .any(|(name, _reason)| *name == package.name)
    {
        return None;
    }
    let refuse = |what: String| Some(format!("{} {}: {what}", package.name, package.version));
    let Some(licence) = &package.license else {
        return refuse("states no licence expression; choose another crate".to_owned());
    };
    if package.is_ours() {
        return (licence != OWN_LICENCE)
            .then(|| {
                refuse(format!(
                    "is ours and says {licence}; inherit license.workspace"
                ))
            })
            .flatten();
    }
    match expression::is_satisfied(licence, |term| is_permitted(&package.name, term)) {
        Ok(true) => None,
        Ok(false) => refuse(format!("needs {licence}; choose another crate")),
        Err(error) => refuse(format!("licence expression {licence:?}: {error}")),
    }
}

fn is_permitted(crate_name: &str, term: &str) -> bool {
    let is_listed_mpl = || {
        term == "MPL-2.0"
            && PERMITTED_MPL
                .iter()
                .any(|(name, _reason)| *name == crate_name)
    };
    PERMITTED.contains(&term) || is_listed_mpl()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(source: Option<&str>, licence: Option<&str>) -> Package {
        Package {
            name: "sample".to_owned(),
            version: "1.0.0".to_owned(),
            license: licence.map(str::to_owned),
            source: source.map(str::to_owned),
            manifest_path: "Cargo.toml".into(),
            dependencies: Vec::new(),
        }
    }

    fn third_party(licence: Option<&str>) -> Option<String> {
        refusal(&package(Some("registry"), licence))
    }

    #[test]
    fn passes_permissive_terms_and_any_choice_that_contains_one() {
        for licence in [
            "MIT",
            "MIT/Apache-2.0",
            "Zlib AND Unicode-3.0",
            "MIT OR LGPL-2.1-or-later",
        ] {
            assert_eq!(third_party(Some(licence)), None, "{licence}");
        }
    }

    #[test]
    fn refuses_copyleft_and_silence() {
        for licence in [
            "GPL-2.0-only",
            "GPL-3.0 WITH GCC-exception-3.1",
            "MIT AND LGPL-2.1",
            "MPL-2.0",
        ] {
            assert!(third_party(Some(licence)).is_some(), "{licence}");
        }
        assert!(third_party(None).is_some());
        assert!(third_party(Some("MIT OR")).is_some());
    }

    #[test]
    fn our_own_crates_state_exactly_both() {
        assert_eq!(refusal(&package(None, Some(OWN_LICENCE))), None);
        assert!(refusal(&package(None, Some("MIT"))).is_some());
        assert!(refusal(&package(None, None)).is_some());
    }
}

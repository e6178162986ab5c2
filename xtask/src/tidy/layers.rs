//! Rule `layers`: dependencies between the crates of the workspace point one way.
//!
//! The table is the picture of ARCHITECTURE.md. It covers normal and build dependencies; tests may
//! import anything but `xtask`.

use super::finding::Finding;
use crate::metadata::{Dependency, Metadata, Package};
use std::collections::BTreeSet;
use std::path::Path;

/// A crate, and the crates of ours that it may use. `sys` is for those that call Linux, `terminal`
/// for those that repeat names from outside in messages, and hops never meet.
const MAY_USE: &[(&str, &[&str])] = &[
    ("hythe-abi", &[]),
    ("hythe-memory", &["hythe-abi"]),
    ("hythe-queue", &["hythe-abi", "hythe-memory"]),
    ("hythe-pool", POOL),
    ("hythe-sys", &[]),
    ("hythe-terminal", &[]),
    ("hythe-node", NODE),
    ("hythe-rtcore", HOP),
    ("hythe-xdp", &["hythe-memory", "hythe-sys"]),
    ("hythe-wire", &["hythe-memory", "hythe-sys", "hythe-xdp"]),
    ("hythe-flows", FLOWS),
    ("hythe-rtp", &["hythe-terminal"]),
    ("hythe-media", MEDIA),
    ("hythe-cluster", CLUSTER),
    ("hythe-pvm", PVM),
    ("hythe-recording", &[]),
    ("hythe-preload", &["hythe-sys", "hythe-terminal"]),
    ("hythe-latency", &["hythe-sys", "hythe-terminal"]),
    ("hythe-report", REPORT),
    ("hythe-demo", DEMO),
    ("hythe-play", PLAY),
    ("hythe-vring", &["hythe-abi", "hythe-memory", "hythe-node"]),
    ("hythe-screen", &["hythe-terminal"]),
    ("hythe-testing", &[]),
    ("hythe", FACADE),
    ("hythe-command", RUNTIME),
    ("hythe-core-command", CORES),
    ("hythe-hosts-command", HOSTS),
    ("hythe-jobs-command", JOBS),
    ("hythe-latency-command", LATENCY),
    ("hythe-media-command", CORES),
    ("hythe-preload-command", PRELOAD),
    ("hythe-cli", COMMAND),
    ("hythe-c", &["hythe", "hythe-sys"]),
    ("hythe-shm", &["hythe-sys", "hythe-rtcore"]),
    ("hythe-libpvm3", &["hythe-pvm"]),
    ("hythe-libgpvm3", &[]),
    ("xtask", &[]),
];
const POOL: &[&str] = &["hythe-abi", "hythe-memory", "hythe-queue", "hythe-terminal"];
const NODE: &[&str] = &[
    "hythe-abi",
    "hythe-memory",
    "hythe-queue",
    "hythe-pool",
    "hythe-sys",
    "hythe-terminal",
];
const HOP: &[&str] = &[
    "hythe-abi",
    "hythe-memory",
    "hythe-queue",
    "hythe-pool",
    "hythe-sys",
    "hythe-terminal",
    "hythe-node",
];
/// A flow is the part of the host hop that runs in tasks.
const FLOWS: &[&str] = &["hythe-pool", "hythe-sys", "hythe-node", "hythe-wire"];
const CLUSTER: &[&str] = &[
    "hythe-abi",
    "hythe-memory",
    "hythe-queue",
    "hythe-pool",
    "hythe-sys",
    "hythe-terminal",
    "hythe-node",
    "hythe-flows",
];
/// Programs for PVM on tasks.
const PVM: &[&str] = &["hythe-cluster", "hythe-node", "hythe-sys"];
const MEDIA: &[&str] = &[
    "hythe-abi",
    "hythe-memory",
    "hythe-queue",
    "hythe-pool",
    "hythe-sys",
    "hythe-terminal",
    "hythe-node",
    "hythe-rtp",
];
const FACADE: &[&str] = &[
    "hythe-node",
    "hythe-rtcore",
    "hythe-flows",
    "hythe-cluster",
    "hythe-rtp",
    "hythe-media",
    "hythe-recording",
    "hythe-preload",
    "hythe-latency",
];
const REPORT: &[&str] = &[
    "hythe-command",
    "hythe-sys",
    "hythe-terminal",
    "hythe-latency",
];
/// The demo besides asks the agents of its two hosts.
const DEMO: &[&str] = &[
    "hythe",
    "hythe-cluster",
    "hythe-command",
    "hythe-sys",
    "hythe-terminal",
];
/// The player besides compares with copying.
const PLAY: &[&str] = &[
    "hythe",
    "hythe-command",
    "hythe-screen",
    "hythe-vring",
    "hythe-sys",
    "hythe-terminal",
];

/// What all commands share knows the errors of those hops that are no part of the facade.
const RUNTIME: &[&str] = &[
    "hythe",
    "hythe-cluster",
    "hythe-latency",
    "hythe-preload",
    "hythe-sys",
    "hythe-terminal",
];
/// The commands of a hop use what all share, and that hop.
const CORES: &[&str] = &["hythe", "hythe-command", "hythe-sys", "hythe-terminal"];
const HOSTS: &[&str] = &[
    "hythe-cluster",
    "hythe-command",
    "hythe-sys",
    "hythe-terminal",
    "hythe-wire",
];
const JOBS: &[&str] = &[
    "hythe",
    "hythe-cluster",
    "hythe-command",
    "hythe-pvm",
    "hythe-sys",
    "hythe-terminal",
];
const LATENCY: &[&str] = &["hythe", "hythe-command", "hythe-latency", "hythe-sys"];
const PRELOAD: &[&str] = &["hythe-command", "hythe-preload", "hythe-terminal"];

/// The command besides asks the kernel what this machine can do (`hythe doctor`). The commands of
/// hops are programs that it becomes.
const COMMAND: &[&str] = &[
    "hythe",
    "hythe-cluster",
    "hythe-command",
    "hythe-screen",
    "hythe-sys",
    "hythe-terminal",
];

/// Crates that use no third party's crate either: what they define must outlive every fashion.
const ALONE: &[&str] = &["hythe-abi", "hythe-terminal"];

/// What the benchmarks compare with: never a part of the product, nor of its tests.
const PEERS: &[&str] = &["iceoryx2"];

/// Crates in these folders stand outside the picture: they may use everything, and nothing uses
/// them.
const OUTSIDE: &[&str] = &["bench", "tests", "examples", "fuzz"];

pub(crate) fn check(metadata: &Metadata) -> Vec<Finding> {
    let ours: Vec<&Package> = metadata
        .packages
        .iter()
        .filter(|package| package.is_ours())
        .collect();
    let check_one = |package: &&Package| check_package(package, &ours, &metadata.workspace_root);
    let mut findings = check_table(&ours);
    findings.extend(ours.iter().flat_map(check_one));
    findings
}

/// Every crate that the table names is one of the workspace: the picture shows what there is.
fn check_table(ours: &[&Package]) -> Vec<Finding> {
    let rows = MAY_USE.iter();
    let named: BTreeSet<&str> = rows
        .flat_map(|(name, uses)| [*name].into_iter().chain(uses.iter().copied()))
        .collect();
    let is_missing = |name: &&str| ours.iter().all(|package| package.name != *name);
    let missing = named.into_iter().filter(is_missing);
    missing
        .map(|name| Finding {
            path: "xtask/src/tidy/layers.rs".to_owned(),
            line: 1,
            rule: "layers",
            what: format!("the table names {name}, which is no crate of the workspace"),
            remedy: "take it out of the table",
        })
        .collect()
}

fn check_package(package: &Package, ours: &[&Package], root: &Path) -> Vec<Finding> {
    let manifest = package
        .manifest_path
        .strip_prefix(root)
        .unwrap_or(&package.manifest_path);
    let is_ours = |name: &str| ours.iter().any(|package| package.name == name);
    let is_outside = OUTSIDE.iter().any(|folder| manifest.starts_with(folder));
    let row = MAY_USE.iter().find(|(name, _uses)| *name == package.name);
    let finding = |what: String, remedy| Finding {
        path: manifest.display().to_string(),
        line: 1,
        rule: "layers",
        what,
        remedy,
    };
    if row.is_none() && !is_outside {
        let what = format!("{} has no place in the picture", package.name);
        return vec![finding(what, "give it a row in xtask/src/tidy/layers.rs")];
    }
    let uses = row.map_or(&[][..], |(_name, uses)| uses);
    let is_refused = |dependency: &&Dependency| {
        let name = dependency.name.as_str();
        let is_free = dependency.is_dev() || is_outside;
        match is_ours(name) {
            true => name == "xtask" || !is_free && !uses.contains(&name),
            false if PEERS.contains(&name) => !is_outside,
            false => !is_free && ALONE.contains(&package.name.as_str()),
        }
    };
    let refused = package.dependencies.iter().filter(is_refused);
    refused
        .map(|dependency| {
            let what = format!("{} may not use {}", package.name, dependency.name);
            finding(
                what,
                "move the code to the side that may, or change the picture by an ADR",
            )
        })
        .collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn package(name: &str, folder: &str, uses: &[(&str, Option<&str>)]) -> Package {
        let dependency = |(name, kind): &(&str, Option<&str>)| Dependency {
            name: (*name).to_owned(),
            kind: kind.map(str::to_owned),
        };
        Package {
            name: name.to_owned(),
            version: "0.1.0".to_owned(),
            license: None,
            source: None,
            manifest_path: Path::new("/root").join(folder).join("Cargo.toml"),
            dependencies: uses.iter().map(dependency).collect(),
        }
    }

    /// What is said about `package` beside all crates of the table.
    fn findings(package: Package) -> Vec<String> {
        let mut packages = others(&package.name);
        packages.push(package);
        findings_of(packages)
    }

    /// All crates of the table but one.
    fn others(left_out: &str) -> Vec<Package> {
        let others = MAY_USE.iter().filter(|(name, _uses)| *name != left_out);
        others
            .map(|(name, _uses)| package(name, "crates", &[]))
            .collect()
    }

    fn findings_of(packages: Vec<Package>) -> Vec<String> {
        let metadata = Metadata {
            packages,
            workspace_root: "/root".into(),
            target_directory: "/root/target".into(),
        };
        check(&metadata).iter().map(ToString::to_string).collect()
    }

    #[test]
    fn refuses_upward_and_sideways() {
        for (name, uses) in [
            ("hythe-queue", "hythe-pool"),
            ("hythe-pool", "hythe-sys"),
            ("hythe-rtcore", "hythe-media"),
            ("hythe-cli", "hythe-pool"),
            ("hythe-abi", "serde"),
        ] {
            let said = findings(package(name, "crates/x", &[(uses, None)]));
            assert_eq!(said.len(), 1, "{name} -> {uses}");
            assert!(
                said[0].starts_with("crates/x/Cargo.toml:1: layers: "),
                "{said:?}"
            );
        }
        assert_eq!(
            findings(package(
                "hythe-pool",
                "crates/x",
                &[("hythe-sys", Some("build"))]
            ))
            .len(),
            1
        );
    }

    #[test]
    fn layers_refuse_xtask_peers_and_unlisted_crates() {
        assert_eq!(
            findings(package("hythe-pool", "crates/x", &[("xtask", Some("dev"))])).len(),
            1
        );
        assert_eq!(
            findings(package("hythe-bench", "bench/x", &[("xtask", None)])).len(),
            1
        );
        assert_eq!(
            findings(package(
                "hythe-node",
                "crates/x",
                &[("iceoryx2", Some("dev"))]
            ))
            .len(),
            1
        );
        assert_eq!(findings(package("hythe-novel", "crates/x", &[])).len(), 1);
    }

    #[test]
    fn refuses_rows_of_crates_that_do_not_exist() {
        // One with a row of its own, and one that other rows name, too.
        for missing in ["hythe-c", "hythe-abi"] {
            let said = findings_of(others(missing));
            assert_eq!(said.len(), 1, "{said:?}");
            let start = "xtask/src/tidy/layers.rs:1: layers: the table names ";
            assert!(
                said[0].starts_with(&format!("{start}{missing},")),
                "{said:?}"
            );
        }
        assert_eq!(findings_of(others("")), [""; 0]);
    }

    #[test]
    fn passes_downward_and_what_stands_outside() {
        for (name, folder, uses, kind) in [
            ("hythe-media", "crates/x", "hythe-sys", None),
            ("hythe-pool", "crates/x", "serde", None),
            ("hythe-queue", "crates/x", "hythe-node", Some("dev")),
            ("hythe-abi", "crates/x", "serde_json", Some("dev")),
            ("hythe-bench", "bench/x", "hythe-pool", None),
            ("hythe-bench", "bench/x", "iceoryx2", None),
        ] {
            assert_eq!(
                findings(package(name, folder, &[(uses, kind)])),
                [""; 0],
                "{name} -> {uses}"
            );
        }
    }
}

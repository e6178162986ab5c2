//! What `cargo metadata` says about the packages, reduced to the fields that the chores read.
//!
//! Read by `tidy` (the direction of dependencies), `licences` and `api`. Never cached: each chore
//! asks cargo anew.

use serde::Deserialize;
use std::path::{Path, PathBuf};
use std::process::Command;

/// The workspace and every package it resolves to.
#[derive(Deserialize)]
pub(crate) struct Metadata {
    pub(crate) packages: Vec<Package>,
    pub(crate) workspace_root: PathBuf,
    /// Where cargo puts what it builds.
    pub(crate) target_directory: PathBuf,
}

/// One package, ours or a third party's.
#[derive(Deserialize)]
pub(crate) struct Package {
    pub(crate) name: String,
    pub(crate) version: String,
    pub(crate) license: Option<String>,
    /// Where it was fetched from; `None` for the members of this workspace.
    pub(crate) source: Option<String>,
    pub(crate) manifest_path: PathBuf,
    pub(crate) dependencies: Vec<Dependency>,
}

/// One line of a package's `[dependencies]`, `[dev-dependencies]` or `[build-dependencies]`.
#[derive(Deserialize)]
pub(crate) struct Dependency {
    pub(crate) name: String,
    /// `None` for a normal dependency, else `dev` or `build`.
    pub(crate) kind: Option<String>,
}

impl Package {
    pub(crate) fn is_ours(&self) -> bool {
        self.source.is_none()
    }
}

impl Dependency {
    pub(crate) fn is_dev(&self) -> bool {
        self.kind.as_deref() == Some("dev")
    }
}

impl Metadata {
    /// Asks the cargo that runs us about the workspace.
    pub(crate) fn load() -> Result<Self, String> {
        let xtask = Path::new(env!("CARGO_MANIFEST_DIR"));
        Self::load_manifest(&xtask.with_file_name("Cargo.toml"))
    }

    /// Asks about the package or workspace of another manifest.
    pub(crate) fn load_manifest(manifest: &Path) -> Result<Self, String> {
        let cargo = std::env::var_os("CARGO").unwrap_or_else(|| "cargo".into());
        let output = Command::new(cargo)
            .args([
                "metadata",
                "--format-version",
                "1",
                "--all-features",
                "--manifest-path",
            ])
            .arg(manifest)
            .output()
            .map_err(|error| format!("cargo metadata did not start: {error}"))?;
        if !output.status.success() {
            let reason = String::from_utf8_lossy(&output.stderr);
            return Err(format!(
                "cargo metadata for {} failed: {}",
                manifest.display(),
                reason.trim()
            ));
        }
        serde_json::from_slice(&output.stdout)
            .map_err(|error| format!("cargo metadata printed something unexpected: {error}"))
    }
}

//! Hosts that are taken in over a remote shell that does not do its part: nobody waits for longer
//! than was said, and the realm is as it was before.

use std::os::unix::fs::PermissionsExt as _;
use std::path::PathBuf;
use std::process::{Command, Output};

use crate::network::agent::programs;
use hythe_hostd::hosts_directory::HostsDirectory;
use hythe_hostd::realm::{Identity, file};
use tempfile::TempDir;

/// A host that begins a realm; there is no network.
struct Realm(TempDir);

impl Realm {
    fn new() -> Self {
        let realm = Self(tempfile::tempdir().expect("a directory"));
        let output = realm.command().args(["init", "--name", "a"]).output();
        assert!(output.expect("run").status.success());
        realm
    }

    fn command(&self) -> Command {
        let mut command = Command::new(programs().join("hythe-hostd"));
        command.env("HYTHE_HOSTS_DIR", self.directory());
        command
    }

    fn directory(&self) -> PathBuf {
        self.0.path().join("hosts")
    }

    /// Adds host b over a remote shell that does this.
    fn add(&self, script: &str, timeout: &str) -> Output {
        let shell = self.0.path().join("remote-shell");
        std::fs::write(&shell, format!("#!/bin/sh\n{script}\n")).expect("written");
        let mode = std::fs::Permissions::from_mode(0o700);
        std::fs::set_permissions(&shell, mode).expect("permitted");
        let mut command = self.command();
        command.env("HYTHE_RSH", &shell);
        let added = command.args(["add", "b", "--timeout", timeout]).output();
        added.expect("run")
    }

    /// `timeout`: in seconds, long where it is not what is tried: a slow machine takes its time.
    fn assert_refused(&self, script: &str, timeout: &str, parts: &[&str]) {
        let added = self.add(script, timeout);
        let said = String::from_utf8_lossy(&added.stderr);
        assert_eq!(added.status.code(), Some(1), "{script}: {added:?}");
        for part in parts {
            assert!(said.contains(part), "{script}: {part}: {said}");
        }
        let directory = HostsDirectory::open(&self.directory()).expect("opened");
        let identity = Identity::load(&directory).expect("an identity");
        assert_eq!(identity.document().names().len(), 1, "{script}");
    }
}

#[test]
fn add_waits_for_remote_shell_as_long_as_asked() {
    let realm = Realm::new();
    let silent = [
        "host b is not in the realm",
        "did not answer within 1 s",
        "--timeout",
        " b true` ends there",
    ];
    // The second one reads nothing, the third talks without end and says what it waits for.
    realm.assert_refused("exec sleep 1000", "1", &silent);
    realm.assert_refused("exec <&-; exec sleep 1000", "1", &silent);
    let asks = ["did not answer within 1 s (it said: Password?)"];
    realm.assert_refused("echo Password? >&2; exec sleep 1000", "1", &asks);
    realm.assert_refused("exec yes", "10", &["host b is not in the realm", "failed"]);
}

/// As ssh does, for the connections to come.
#[test]
fn remote_shell_that_leaves_its_output_open_to_others_has_ended() {
    let realm = Realm::new();
    let lingers = "sleep 20 & echo no such host >&2; exit 255";
    realm.assert_refused(lingers, "10", &["failed: no such host"]);
}

#[test]
fn lock_that_somebody_keeps_is_not_waited_for_without_end() {
    let realm = Realm::new();
    let directory = HostsDirectory::open(&realm.directory()).expect("opened");
    let lock = directory.lock(file::CHANGE_LOCK).expect("free");
    let removed = realm.command().args(["remove", "b"]).output();
    let removed = removed.expect("run");
    let said = String::from_utf8_lossy(&removed.stderr);
    assert_eq!(removed.status.code(), Some(1), "{removed:?}");
    assert!(said.contains("another process has locked it"), "{said}");
    drop(lock);
}

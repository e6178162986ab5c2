//! `hythe pool create --group`, and what the group can do then; pools of other users; options of
//! memory.

use crate::support;

use std::process::{Command, Stdio};

use crate::support::{Ended, Root, Running};

const GROUP: &str = "54321";

fn is_root(left_out: &str) -> bool {
    let is_root = rustix::process::getuid().is_root();
    if !is_root {
        eprintln!("SKIPPED (needs root): {left_out}");
    }
    is_root
}

/// Runs the command as nobody, with the group.
fn as_member(root: &Root, arguments: &[&str]) -> Ended {
    start_as_member(root, arguments).end()
}

fn start_as_member(root: &Root, arguments: &[&str]) -> Running {
    // Where the build puts the binary need not be open to all. Copied by another process: what this
    // one has open for writing while another test forks cannot be run.
    let binary = root.path().join("hythe");
    if !binary.exists() {
        support::copy_hythe(root.path(), &[]);
    }
    let mut command = Command::new("setpriv");
    command
        .args(["--reuid=65534", "--regid=65534", "--groups", GROUP])
        .arg(&binary)
        .args(arguments)
        .env("HYTHE_ROOT", root.pools())
        .env_remove("HYTHE_POOL")
        .env_remove("RUST_LOG")
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .stderr(Stdio::piped());
    Running::new(command)
}

#[test]
fn group_reads_or_writes_as_created() {
    if !is_root("a group's pools") {
        return;
    }
    let root = Root::new();
    let create = ["pool", "create", "--size", "16M", "--group", GROUP];
    let made = root.json(&[&create[..], &["readable"]].concat());
    assert_eq!(made["mode"], "0640", "reading is the default");
    let write = ["writable", "--group-access", "write"];
    assert_eq!(root.json(&[&create[..], &write].concat())["mode"], "0660");
    let shown = root.json(&["pool", "show", "writable"]);
    assert_eq!(shown["group"], 54321);

    // The user by name, as people know it.
    let publish = |pool: &str| as_member(&root, &["pub", "x", "/etc/hostname", "--pool", pool]);
    assert_eq!(publish("root/writable").code, Some(0));
    let named = ["permission denied", "region.0 has mode 0640", "group 54321"];
    publish("root/readable").failed(1, &named);
    let list = as_member(&root, &["list", "--pool", "root/readable", "--json"]);
    assert_eq!(list.code, Some(0), "{}", list.errors);
    let subscribe = ["sub", "x", "--pool", "root/readable", "--timeout", "0.2"];
    let subscribed = as_member(&root, &subscribe);
    assert!(
        !subscribed.errors.contains("permission denied"),
        "{}",
        subscribed.errors
    );
}

/// As under `sudo`: the programs that are looked for are another user's.
#[test]
fn idle_pool_names_the_busy_pools_of_others() {
    if !is_root("a pool of another user") {
        return;
    }
    use std::os::unix::fs::PermissionsExt as _;
    let root = Root::new();
    let for_all = std::fs::Permissions::from_mode(0o1777);
    std::fs::set_permissions(root.pools(), for_all).expect("own");
    root.ok(&["pool", "create", "--size", "16M"]);
    as_member(&root, &["pool", "create", "idle", "--size", "16M"]).succeeded();
    assert_eq!(root.ok(&["list"]), "nobody takes part in pool default\n");
    let subscriber = start_as_member(&root, &["sub", "x"]);
    let address = "65534/default";
    support::eventually("it takes part", || {
        let list = root.run(&["list", "--pool", address, "--json"]);
        list.code == Some(0) && list.text().contains("\"subscriber\"")
    });
    let line = "pool 65534/default of another user has 1 participant: `hythe list --pool \
                65534/default`\n";
    let nobody = "nobody takes part in pool default\n";
    assert_eq!(root.ok(&["list"]), format!("{nobody}{line}"));
    assert!(root.ok(&["pool", "list"]).ends_with(line));
    for command in [&["list"][..], &["pool", "list"]] {
        let others = &root.json(command)["other_pools"];
        assert_eq!(others[0]["pool"], address);
        assert_eq!(
            others.as_array().map(Vec::len),
            Some(1),
            "the idle one is not named"
        );
    }
    subscriber.interrupt();
    subscriber.end().succeeded();
}

#[test]
fn what_cannot_be_is_refused_with_the_reason() {
    let root = Root::new();
    root.run(&["pool", "create", "--group", "no-such-group"])
        .failed(2, &["no such group in /etc/group"]);
    root.run(&["pool", "create", "--group-access", "read"])
        .failed(2, &["--group"]);
    let both = ["pool", "create", "--group", "0", "--mode", "660"];
    root.run(&[&both[..], &["--group-access", "read"]].concat())
        .failed(2, &["cannot be used with"]);
    let here = root.path().to_str().expect("plain").to_owned();
    root.run(&["pool", "create", "--huge-pages", &here])
        .failed(1, &["not a hugetlbfs mount"]);
    assert!(root.traces().iter().all(|path| !path.ends_with("default")));
}

#[test]
fn memory_is_touched_or_locked_as_created() {
    let root = Root::new();
    root.ok(&["pool", "create", "--size", "16M", "--prefault", "--mlock"]);
    let published = root.run(&["pub", "x", "/etc/hostname"]);
    if rustix::process::getuid().is_root() {
        assert_eq!(published.code, Some(0), "{}", published.errors);
    } else if published.code != Some(0) {
        assert!(
            published.errors.contains("RLIMIT_MEMLOCK"),
            "{}",
            published.errors
        );
    }
}

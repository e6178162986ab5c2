//! Pools of another layout version: made anew where no process uses them, refused with the users'
//! names otherwise.

use std::fs::{self, File, OpenOptions};
use std::os::unix::fs::FileExt;

use crate::support::Root;
use hythe_abi::pool::{VERSION, header};
use hythe_node::{Node, NodeError, Pool, PoolError, PoolOptions};

const OTHER: u32 = VERSION - 1;

fn control(options: &PoolOptions) -> File {
    let path = options.path().join("control");
    let opened = OpenOptions::new().read(true).write(true).open(path);
    opened.expect("own")
}

/// Makes a pool look as one of a program with another layout.
fn age(options: &PoolOptions) {
    let written = control(options).write_all_at(&OTHER.to_le_bytes(), header::VERSION as u64);
    written.expect("own");
}

fn version(options: &PoolOptions) -> u32 {
    let mut word = [0; 4];
    let read = control(options).read_exact_at(&mut word, header::VERSION as u64);
    read.expect("whole");
    u32::from_le_bytes(word)
}

fn refusal(options: &PoolOptions) -> String {
    match Pool::open_or_create(options) {
        Err(error @ NodeError::OtherVersion { .. }) => error.to_string(),
        other => panic!("{other:?}"),
    }
}

#[test]
fn unused_pool_of_another_version_is_made_anew() {
    let Some(root) = Root::on_tmpfs("pools of another version") else {
        return;
    };
    let options = root.options();
    drop(root.pool());
    age(&options);
    let error = Pool::open(&options).expect_err("only looked at");
    assert!(
        matches!(
            error,
            NodeError::Pool(PoolError::OtherVersion { found: OTHER, .. })
        ),
        "{error:?}"
    );
    let pool = Pool::open_or_create(&options).expect("made anew");
    Node::join(&pool, "test").expect("joins");
}

#[test]
fn programs_that_replace_a_pool_at_once_share_the_new_one() {
    for _ in 0..20 {
        let Some(root) = Root::on_tmpfs("pools of another version") else {
            return;
        };
        drop(root.pool());
        age(&root.options());
        let pools: Vec<Pool> = std::thread::scope(|scope| {
            let open = || Pool::open_or_create(&root.options()).expect("made or found");
            let opened: Vec<_> = (0..8).map(|_| scope.spawn(open)).collect();
            let joined = opened.into_iter().map(|one| one.join().expect("no panic"));
            joined.collect()
        });
        assert!(pools.iter().all(Pool::is_found), "one of them was removed");
    }
}

#[test]
fn pool_of_another_version_stays_while_a_member_lives() {
    let Some(root) = Root::on_tmpfs("pools of another version") else {
        return;
    };
    let options = root.options();
    let node = Node::join(&root.pool(), "member").expect("joins");
    age(&options);
    let text = refusal(&options);
    let own = format!("(pid {})", std::process::id());
    assert!(text.contains(&own) && text.contains("stop them"), "{text}");
    let removed = Pool::remove(&options);
    assert!(
        matches!(&removed, Err(NodeError::InUse { members, .. }) if members[0].contains(&own)),
        "{removed:?}"
    );
    assert_eq!(version(&options), OTHER);
    drop(node);
    Pool::open_or_create(&options).expect("made anew");
    assert_eq!(version(&options), VERSION);
}

/// A core that runs on without its agent, or a program that has closed its sockets.
#[test]
fn pool_of_another_version_stays_while_a_file_is_open() {
    let Some(root) = Root::on_tmpfs("pools of another version") else {
        return;
    };
    let options = root.options();
    drop(root.pool());
    age(&options);
    for name in ["control", "region.0"] {
        let path = options.path().join(name);
        let opened = OpenOptions::new().read(true).write(true).open(path);
        let opened = opened.expect("own");
        let text = refusal(&options);
        assert!(text.contains(name) && text.contains("fuser"), "{text}");
        let removed = Pool::remove(&options);
        assert!(
            matches!(removed, Err(NodeError::InUse { .. })),
            "{removed:?}"
        );
        drop(opened);
    }
    Pool::remove(&options).expect("no process uses it");
}

#[test]
fn pool_of_another_version_with_queues_stays() {
    let Some(root) = Root::on_tmpfs("pools of another version") else {
        return;
    };
    let options = root.options();
    drop(root.pool());
    age(&options);
    fs::write(options.path().join("objects"), "").expect("own");
    let text = refusal(&options);
    assert!(text.contains("`objects`"), "{text}");
    assert!(text.contains("hythe pool remove test"), "{text}");
    Pool::remove(&options).expect("wanted so");
    Pool::open_or_create(&options).expect("made");
}

/// Of overlayfs, for instance, the kernel does not tell what is mapped.
#[test]
fn pool_of_another_version_on_a_disk_stays() {
    let root = Root::new();
    let options = root.options();
    drop(root.pool());
    let system = rustix::fs::statfs(root.path()).expect("there");
    if system.f_type as u64 & 0xFFFF_FFFF == 0x0102_1994 {
        return eprintln!("SKIPPED (temporary files are on a tmpfs): a pool on a disk");
    }
    age(&options);
    let text = refusal(&options);
    assert!(text.contains("hythe pool remove test"), "{text}");
    Pool::remove(&options).expect("wanted so");
}

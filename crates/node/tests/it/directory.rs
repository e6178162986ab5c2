//! The directory of a pool against squatters, cut files, races, and a lack of room: refused with a
//! reason, never followed, never fatal.

use std::fs;
use std::os::unix::fs::{PermissionsExt, chown, symlink};
use std::path::PathBuf;

use crate::support::{Root, is_root};
use hythe_node::{ClassPlan, Geometry, Node, NodeError, Pool, PoolError, PoolOptions};

fn directory(root: &Root) -> PathBuf {
    root.options().path()
}

fn refusal(root: &Root) -> NodeError {
    let opened = Pool::open(&root.options());
    match opened {
        Err(error) => error,
        Ok(_) => panic!("opened, though it should have been refused"),
    }
}

#[test]
fn pool_is_made_whole_with_the_modes_asked_for() {
    let root = Root::new();
    assert!(Pool::create(&root.options().mode(0o660)).expect("made"));
    let mode = |path: PathBuf| fs::metadata(path).expect("there").permissions().mode() & 0o7777;
    assert_eq!(mode(directory(&root)), 0o750);
    assert_eq!(mode(directory(&root).join("members")), 0o3770);
    assert_eq!(mode(directory(&root).join("control")), 0o660);
    assert_eq!(mode(directory(&root).join("region.0")), 0o660);
    assert!(
        !Pool::create(&root.options()).expect("left as it was"),
        "made twice"
    );
    assert_eq!(mode(directory(&root)), 0o750);
}

#[test]
fn many_makers_at_once_make_one_pool() {
    for _ in 0..20 {
        let root = Root::new();
        let made = std::thread::scope(|scope| {
            let makers: Vec<_> = (0..8)
                .map(|_| scope.spawn(|| Pool::create(&root.options())))
                .collect();
            let made = makers
                .into_iter()
                .map(|maker| maker.join().expect("no panic").expect("no error"));
            made.filter(|made| *made).count()
        });
        assert_eq!(made, 1);
        Node::join(&Pool::open(&root.options()).expect("whole"), "test").expect("joins");
        let user = directory(&root).parent().expect("has one").to_owned();
        let names: Vec<_> = fs::read_dir(user)
            .expect("there")
            .map(|entry| entry.expect("read").file_name())
            .collect();
        assert_eq!(names, ["test"], "something half made was left behind");
    }
}

#[test]
fn no_trace_is_left_after_removal() {
    let root = Root::new();
    let pool = root.pool();
    let node = Node::join(&pool, "user of it").expect("joins");
    let refused = Pool::remove(&root.options()).expect_err("it is in use");
    let named = format!("user of it (pid {})", std::process::id());
    assert!(refused.to_string().contains(&named), "{refused}");
    drop(node);
    Pool::remove(&root.options()).expect("nobody is there");
    assert!(!directory(&root).exists());
    assert!(matches!(refusal(&root), NodeError::NoSuchPool { .. }));
    assert_eq!(Pool::list(&root.options()).expect("none"), [""; 0]);
}

#[test]
fn symlinks_are_not_followed() {
    for planted in ["control", "region.0", ".", ".."] {
        let root = Root::new();
        drop(root.pool());
        // The link leads to the real thing: only following it could tell it apart.
        let at = match planted {
            ".." => directory(&root).parent().expect("has one").to_owned(),
            "." => directory(&root),
            file => directory(&root).join(file),
        };
        let elsewhere = root.path().join("elsewhere");
        fs::rename(&at, &elsewhere).expect("moved");
        symlink(&elsewhere, &at).expect("planted");
        let opened = Pool::open(&root.options())
            .and_then(|pool| Node::join(&pool, "test")?.lease(1).map(drop));
        assert!(opened.is_err(), "{planted} was followed");
    }
}

#[test]
fn files_of_others_are_refused() {
    if !is_root("a planted file of another user") {
        return;
    }
    for planted in ["control", "region.0", ".", ".."] {
        let root = Root::new();
        drop(root.pool());
        chown(directory(&root).join(planted), Some(65534), Some(65534)).expect("root may");
        let opened = Pool::open(&root.options())
            .and_then(|pool| Node::join(&pool, "test")?.lease(1).map(drop));
        let error = opened.expect_err(planted).to_string();
        assert!(
            error.contains("65534") && error.contains("somebody put it there"),
            "{planted}: {error}"
        );
    }
}

#[test]
fn root_open_to_all_is_refused() {
    let root = Root::new();
    drop(root.pool());
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o777)).expect("own");
    let error = refusal(&root).to_string();
    assert!(
        error.contains("0777") && error.contains("sticky"),
        "{error}"
    );
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o1777)).expect("own");
    Pool::open(&root.options()).expect("sticky is fine");
}

#[test]
fn root_made_by_another_user_serves_if_it_is_for_all() {
    if !is_root("a root of another user") {
        return;
    }
    let root = Root::new();
    drop(root.pool());
    chown(root.path(), Some(65534), Some(65534)).expect("root may");
    let error = refusal(&root).to_string();
    assert!(error.contains("owner 65534 and mode 0755"), "{error}");
    fs::set_permissions(root.path(), fs::Permissions::from_mode(0o1777)).expect("root may");
    Pool::open(&root.options()).expect("like /tmp");
}

#[test]
fn cut_control_file_is_refused() {
    let root = Root::new();
    drop(root.pool());
    let control = directory(&root).join("control");
    let whole = fs::metadata(&control).expect("there").len();
    for bytes in [whole - 1, whole / 2, 8192, 4096, 4095, 1, 0] {
        let file = fs::OpenOptions::new()
            .write(true)
            .open(&control)
            .expect("own");
        file.set_len(bytes).expect("cut");
        let error = refusal(&root);
        assert!(
            matches!(error, NodeError::Pool(PoolError::NotAPool(_))),
            "{bytes}: {error:?}"
        );
        assert!(error.to_string().contains(&bytes.to_string()), "{error}");
    }
    Pool::remove(&root.options()).expect("a damaged pool can be removed");
}

#[test]
fn cut_region_is_refused_before_it_is_touched() {
    let root = Root::new();
    drop(root.pool());
    let region = directory(&root).join("region.0");
    let file = fs::OpenOptions::new()
        .write(true)
        .open(region)
        .expect("own");
    file.set_len(4096).expect("cut");
    let pool = Pool::open(&root.options()).expect("the control file is whole");
    let error = Node::join(&pool, "test").expect_err("touching it would kill us");
    assert!(
        error.to_string().contains("region.0 has 4096 bytes"),
        "{error}"
    );
}

#[test]
fn what_is_no_regular_file_is_refused() {
    let root = Root::new();
    drop(root.pool());
    let control = directory(&root).join("control");
    fs::remove_file(&control).expect("own");
    let made = std::process::Command::new("mkfifo")
        .arg(&control)
        .status()
        .expect("mkfifo");
    assert!(made.success());
    let error = refusal(&root).to_string();
    assert!(error.contains("not a regular file"), "{error}");
}

/// Whatever stands in the first page and the region records: refused or opened, no panic, no access
/// outside.
#[test]
#[ignore = "slow: make test-slow runs it"]
fn damaged_headers_never_crash() {
    let root = Root::new();
    drop(root.pool());
    let control = directory(&root).join("control");
    let good = fs::read(&control).expect("own");
    let mut state = 0x9E37_79B9_7F4A_7C15_u64;
    let mut random = move || {
        state ^= state << 13;
        state ^= state >> 7;
        state ^= state << 17;
        state
    };
    let mut refused = 0;
    for round in 0..300 {
        let mut bad = good.clone();
        for _ in 0..1 + random() % 4 {
            let at = (random() % 5120) as usize & !3;
            let value = [u32::MAX, 0, 1, 0x8000_0000, random() as u32][(random() % 5) as usize];
            bad[at..at + 4].copy_from_slice(&value.to_le_bytes());
        }
        // From round to round all of the header is hit, also words that a valid pool has at zero.
        bad[(round * 4) % 256] ^= 0x40;
        fs::write(&control, &bad).expect("own");
        let used = Pool::open(&root.options()).and_then(|pool| {
            let snapshot = pool.snapshot();
            assert!(snapshot.audit.slots <= snapshot.limits.slots);
            Node::join(&pool, "test")?.lease(1).map(drop)
        });
        refused += u32::from(used.is_err());
    }
    assert!(
        refused > 20,
        "only {refused} of 300 damaged headers were noticed"
    );
}

#[test]
fn another_version_is_named() {
    let root = Root::new();
    drop(root.pool());
    let control = directory(&root).join("control");
    let mut bytes = fs::read(&control).expect("own");
    let version = hythe_abi::pool::header::VERSION;
    bytes[version..version + 4].copy_from_slice(&77_u32.to_le_bytes());
    fs::write(&control, bytes).expect("own");
    let error = refusal(&root).to_string();
    assert!(error.contains("version 77"), "{error}");
}

#[test]
fn full_file_system_is_an_error_and_leaves_nothing() {
    let root = Root::new();
    let plan = [ClassPlan {
        payload_bytes: 3 << 30,
        count: 200_000,
    }];
    let geometry = match Geometry::with_classes(Geometry::default_limits(), &plan) {
        Ok(geometry) => geometry,
        Err(refused) if usize::BITS == 32 => {
            assert!(refused.to_string().contains("32-bit"), "{refused}");
            return;
        }
        Err(refused) => panic!("it can be numbered: {refused}"),
    };
    let refused =
        Pool::create(&root.options().geometry(geometry)).expect_err("hundreds of terabytes");
    assert!(matches!(refused, NodeError::TooLarge { .. }), "{refused:?}");
    let user = directory(&root).parent().expect("has one").to_owned();
    assert_eq!(
        fs::read_dir(user).map_or(0, Iterator::count),
        0,
        "half a pool was left behind"
    );
}

#[test]
fn names_are_one_plain_component() {
    let root = Root::new();
    for name in [
        "",
        ".",
        "..",
        ".hidden",
        "a/b/c",
        "../up",
        "a\0b",
        "a\nb",
        &"x".repeat(65),
    ] {
        let refused = Pool::create(&PoolOptions::new(name).root(root.path()));
        assert!(
            matches!(refused, Err(NodeError::Pool(PoolError::BadName { .. }))),
            "{name:?}: {refused:?}"
        );
    }
    let others = Pool::create(&PoolOptions::new("no-such-user/b").root(root.path()));
    assert!(
        matches!(others, Err(NodeError::NoSuchUser { .. })),
        "{others:?}"
    );
    assert_eq!(fs::read_dir(root.path()).expect("own").count(), 0);
}

#[test]
fn no_permission_names_what_is_missing() {
    let root = Root::new();
    drop(root.pool());
    let other = PoolOptions::new("65534/test").root(root.path());
    let missing = Pool::open(&other).expect_err("nobody has no pools here");
    assert!(missing.to_string().contains("65534"), "{missing}");
}

#[test]
fn nobody_makes_pools_for_another() {
    let root = Root::new();
    let other = PoolOptions::new("65534/test").root(root.path());
    let refused = Pool::create(&other).expect_err("it could not be opened");
    assert!(refused.to_string().contains("only user 65534"), "{refused}");
    assert_eq!(fs::read_dir(root.path()).expect("own").count(), 0);
}

/// A clean-up that was stopped leaves such directories: nobody is in them, and nobody can be.
#[test]
fn directory_without_a_pool_is_made_anew_or_removed() {
    let root = Root::new();
    let options = root.options();
    for leaves in ["nothing", "all but the control file"] {
        let spoil = || {
            drop(Pool::open_or_create(&options).expect("made"));
            if leaves == "nothing" {
                fs::remove_dir_all(options.path()).expect("own");
                fs::create_dir(options.path()).expect("own");
            } else {
                fs::remove_file(options.path().join("control")).expect("own");
            }
        };
        spoil();
        let pool = Pool::open_or_create(&options).expect("made anew");
        drop(hythe_node::Node::join(&pool, "one").expect("joins"));
        spoil();
        assert!(Pool::create(&options).expect("made anew"), "{leaves}");
        spoil();
        Pool::remove(&options).expect("removed without force");
        assert!(!options.path().exists());
    }
}

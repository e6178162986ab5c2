//! Pools where memory is limited: made smaller or refused with the reason, never at the price of a
//! process.

use std::fs;

use crate::support::Root;
use crate::support::player::{Player, own_role, say, until_told};
use hythe_node::{Node, NodeError, Pool, PoolOptions, SizeBound, WireOptions};
use hythe_testing::ControlGroup;

/// What the process in a control group does.
mod roles {
    pub(super) const DEFAULT: &str = "default";
    pub(super) const SIXTY_FOUR: &str = "sixty-four";
    pub(super) const WIRE: &str = "wire";
}

const MIB: u64 = 1 << 20;

/// Not a test of its own: the process in a control group.
#[test]
fn plays_its_role() {
    let Some(role) = own_role() else {
        return;
    };
    let options = PoolOptions::new("test");
    match role.as_str() {
        roles::DEFAULT => match Pool::open_or_create(&options) {
            Ok(pool) => {
                let node = Node::join(&pool, "in a group").expect("joins");
                let mut lease = node.lease(768).expect("free");
                lease.write(0, &[5; 768]);
                let participants = pool.snapshot().limits.participants;
                say(&format!("made, {participants} participants"));
            }
            Err(error) => say(&format!("refused: {error}")),
        },
        roles::SIXTY_FOUR => {
            let refused = Pool::create(&options.bytes(64 << 20)).expect_err("too large");
            let NodeError::TooLarge {
                possible, bound, ..
            } = &refused
            else {
                panic!("{refused:?}");
            };
            let SizeBound::ControlGroup { limit_bytes, .. } = bound else {
                panic!("{bound:?}");
            };
            say(&format!("{possible} of {limit_bytes}: {refused}"));
        }
        roles::WIRE => {
            let pool = Pool::open_or_create(&options.small()).expect("made");
            let node = Node::join(&pool, "in a group").expect("joins");
            let plan = WireOptions {
                slots: 250,
                ..WireOptions::default()
            };
            let refused = node.wire_region(&plan).expect_err("62 MiB");
            say(&format!("refused: {refused}"));
        }
        other => panic!("no role {other}"),
    }
    until_told();
}

/// A group of so many MiB, and a root in shared memory.
fn stage(name: &str, mebibytes: u64) -> Option<(ControlGroup, Root)> {
    match ControlGroup::with_memory(name, mebibytes * MIB) {
        Ok(group) => Some((group, Root::on_tmpfs("a pool in a control group")?)),
        Err(why) => {
            eprintln!("SKIPPED (no control group with a memory limit here; {why}): {name}");
            None
        }
    }
}

/// A process in the group, whose pools are at `root`.
fn start(group: &ControlGroup, root: &Root, role: &str) -> Player {
    let own = std::env::current_exe().expect("known");
    Player::start_command(group.command(&own), root.path(), role)
}

#[test]
fn default_pool_fits_a_control_group() {
    let Some((group, root)) = stage("default", 48) else {
        return;
    };
    let maker = start(&group, &root, roles::DEFAULT);
    // Of an eighth of that, the usual tables would take more than all.
    assert_eq!(maker.hear(), "made, 8 participants");
}

#[test]
fn limit_above_counts_as_well() {
    let Some((group, root)) = stage("above", 48) else {
        return;
    };
    let inner = match group.inner() {
        Ok(inner) => inner,
        Err(why) => return eprintln!("SKIPPED (no group below another; {why}): a limit above"),
    };
    let maker = start(&inner, &root, roles::SIXTY_FOUR);
    assert!(maker.hear().contains("of 50331648: "));
}

#[test]
fn control_group_refuses_too_large_pool_with_limit() {
    let Some((group, root)) = stage("too-large", 48) else {
        return;
    };
    let maker = start(&group, &root, roles::SIXTY_FOUR);
    let said = maker.hear();
    let (possible, behind) = said
        .split_once(" of 50331648: ")
        .expect("the group's limit");
    let possible: u64 = possible.parse().expect("bytes");
    assert!((8 * MIB..48 * MIB).contains(&possible), "{said}");
    for word in [
        &*group.path().display().to_string(),
        "67108864",
        "50331648",
        "make the pool smaller",
    ] {
        assert!(behind.contains(word), "no {word} in {said}");
    }
    let user = root.options().path();
    let left = fs::read_dir(user.parent().expect("has one")).map_or(0, Iterator::count);
    assert_eq!(left, 0, "half a pool was left behind");
}

#[test]
fn what_is_added_to_a_pool_later_is_refused_as_well() {
    let Some((group, root)) = stage("wire", 48) else {
        return;
    };
    let maker = start(&group, &root, roles::WIRE);
    let said = maker.hear();
    assert!(
        said.contains("refused: ") && said.contains("50331648"),
        "{said}"
    );
}

#[test]
fn more_than_there_is_is_refused_with_what_is_possible() {
    let Some(root) = Root::on_tmpfs("more than there is") else {
        return;
    };
    for bytes in [
        usize::MAX,
        isize::MAX as usize,
        (isize::MAX as usize) / 2 + 1,
    ] {
        let refused = Pool::create(&root.options().bytes(bytes)).expect_err("too large");
        // There may be more memory than a program of 32 bits can address.
        if usize::BITS == 32 && refused.to_string().contains("32-bit") {
            continue;
        }
        let NodeError::TooLarge {
            wanted, possible, ..
        } = refused
        else {
            panic!("{bytes}: {refused:?}");
        };
        assert_eq!(wanted, bytes as u64);
        assert!(possible > 0 && possible < wanted, "{possible} of {wanted}");
        // What is said to be possible is.
        let message = refused.to_string();
        assert!(message.contains(&possible.to_string()), "{message}");
    }
    assert_eq!(fs::read_dir(root.path()).expect("own").count(), 0);
}
